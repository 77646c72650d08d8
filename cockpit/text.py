"""Foreign text made fit for a terminal, and amounts put into words.

The model keeps names exactly as they came, because they are sent back in calls; whatever draws them calls `clean`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

UNKNOWN = "–"

_BREAKS = {0x09: " ", 0x0A: " ", 0x0D: " "}
_UNSAFE = (
    *range(0x20),
    *range(0x7F, 0xA0),
    0xAD, 0x34F, *range(0x600, 0x606), 0x61C, 0x6DD, 0x70F, 0x890, 0x891, 0x8E2,
    0x115F, 0x1160, 0x17B4, 0x17B5, 0x180E,
    *range(0x200B, 0x2010),
    *range(0x2028, 0x202F),
    *range(0x2060, 0x2070),
    0x3164, 0xFEFF, 0xFFA0,
    *range(0xFFF9, 0xFFFC),
    *range(0xD800, 0xE000),
    0x110BD, 0x110CD,
    *range(0x13430, 0x13440),
    *range(0x1BCA0, 0x1BCA4),
    *range(0x1D173, 0x1D17B),
    *range(0xE0000, 0xE1000),
)  # fmt: skip
_CONTROLS = {code: _BREAKS.get(code, "\N{REPLACEMENT CHARACTER}") for code in _UNSAFE}


def clean(text: str) -> str:
    """One line that can't move the cursor, colour the screen, hide or reorder its neighbours."""
    return text if text.isascii() and text.isprintable() else text.translate(_CONTROLS)


# Lengths are bounded and starts anchored: a hostile line costs a time linear in its length, not its square.
_TELLING = (
    r"token(?!iz|s)|secret|passw(?:or)?d|passphrase|(?:api|access|private|auth|wandb|swanlab)[._-]?key|credential|sshpass|"
    r"(?<![a-z])(?:pass|pwd)(?![a-z])|amz-signature|(?<=[?&])sig(?==)"
)
_QUOTE = r"""\\{0,4}["']?"""
"""Also as it stands in JSON that was written into a string."""
_NAMED = rf"[\w.-]{{0,60}}?(?:{_TELLING})[\w.-]{{0,60}}"
_SECRET = rf"""
      (?P<name>(?:^|(?<=[\s'"{{(\[,;&?])) ["']?[+-]{{0,2}}{_NAMED}{_QUOTE}
        \s*(?:=|:\s|:(?=\\{{0,4}}["'])|(?<=["']),\s?(?=["'])|(?<=\w)\s(?!\s*-))\s*
        {_QUOTE})(?:(?<=")(?!\s)(?:[^"\\\n]|\\(?!\\{{0,4}}"))+|(?<=')[^\s'][^'\n]*|[^\s'"&,}}]+)
    | (?P<login>(?:^|(?<=\s))(?:-[a-z]{{0,6}}u|--(?:proxy-)?user)[=\s]\s?["']?[^\s:'"/=]{{0,60}}:)(?!/|\d+(?:\s|$))[^\s'"•]+
    | (?P<scheme>(?<![a-z0-9+._-])[a-z][a-z0-9+._-]{{0,60}}://)(?:[^\s/@:]*:[^\s/]+|[\w-]{{20,}})(?=@)
    | (?P<hook>://[\w.-]{{1,80}}/(?:services|api/webhooks|open-apis/bot/v2/hook)/)[\w/-]+
    | -----BEGIN\ [A-Z\ ]{{0,30}}PRIVATE\ KEY-----(?:[^-]|-(?!----END))*
    | \b(?:
        (?P<pair>(?:key|name){_QUOTE}\s?[:=]\s?{_QUOTE}{_NAMED}{_QUOTE}[\s,;]{{1,20}}{_QUOTE}value{_QUOTE}\s?[:=]\s?{_QUOTE})
          (?:(?<=")[^"\\\n]+|(?<=')[^'\n]+|[^\s'",}}]+)
      | (?P<sshpass>sshpass\s+-p\s*)[^\s•]+
      | (?P<authorization>authorization{_QUOTE}\s?[:=]\s?{_QUOTE})[^\s'"\\•][^\n'"\\]*
      | (?P<bearer>(?:Bearer|Basic)\s+)[\w.~+/=-]{{8,}}
      | (?P<wandb>(?:use_(?:wandb|swanlab){_QUOTE}\s?[=:,\s]|wandb\ login(?:\ --relogin)?\s)\s?{_QUOTE})[\w-]{{20,}}
      | (?P<upper>(?-i:[A-Z0-9_]{{0,60}}KEY)={_QUOTE})(?=[a-z_+/-]{{0,40}}\d)[\w+/-]{{16,}}
      | hf_(?:[a-z0-9]{{10,}}(?![\w-])|(?=[a-z_-]{{0,20}}\d)[\w-]{{10,}})
      | npm_[a-z0-9]{{30,}}
      | (?:sk-|gh[opsur]_|github_pat_|glpat-|nvapi-|xox[abpr]-|wandb_v1_)[\w-]{{10,}}
      | (?-i:A[KS]IA[A-Z0-9]{{12,}}|AIza[\w-]{{30,}})
      )
    | (?<![\w-])eyJ[\w-]{{10,}}\.[\w-]{{10,}}\.[\w-]*
"""


@cache
def _secret() -> re.Pattern[str]:
    """Made when something first looks like a secret: that takes ten milliseconds, for which no start has to wait."""
    return re.compile(_SECRET, re.VERBOSE | re.IGNORECASE)


_SWITCHES = re.compile(r"(?:true|false|none|null)$", re.IGNORECASE)
_COUNTS = re.compile(rf"[\d.,kmg]+$|{_SWITCHES.pattern}", re.IGNORECASE)
_VARIABLE = re.compile(r"\$\{?[A-Z_][A-Z0-9_]*$")
_HINTS = (
    "token", "secret", "pass", "pwd", "key", "credential", "signature", "sig=", "://", "-u", "auth", "bearer", "basic", "use_",
    "login", "hf_", "sk-", "gho_", "ghp_", "ghs_", "ghu_", "ghr_", "github_", "glpat", "npm_", "nvapi", "xox", "akia", "asia", "aiza",
    "wandb", "eyj", "-----begin",
)  # fmt: skip
"""No secret is without one of them: most text has none, and costs little."""
HIDDEN = "•••"


def redact(text: str) -> str:
    """The same text with what looks like a secret, by its name or by its shape, taken out.

    A number after a name with `token` in it (`--max_tokens 1024`) is a count, not a secret.
    """
    lower = text.lower()
    return _secret().sub(_hide, text) if any(hint in lower for hint in _HINTS) else text


def secrets(text: str) -> list[tuple[int, int]]:
    """Where in the text each secret begins and ends that `redact` takes out."""
    return [(start, match.end()) for match in _secret().finditer(text) if (start := _start(match)) is not None]


def _hide(match: re.Match[str]) -> str:
    start = _start(match)
    return match[0] if start is None else f"{match[0][: start - match.start()]}{HIDDEN}"


def _start(match: re.Match[str]) -> int | None:
    """Where the secret begins: behind what led to it. `None`: a count, a switch and the name of a variable are none."""
    if (led := match.lastgroup) is None:
        return match.start()
    start = match.end(led)
    plain = _COUNTS if "token" in match[led].lower() else _SWITCHES
    return None if plain.match(match.string, start, match.end()) or _VARIABLE.match(match.string, start, match.end()) else start


_TELLING_NAME = r"""
      token(?!i[zs]) | secret | passw(?:or)?d | passphrase | credential | connection_?string | authorization
    | (?<![a-z])(?:api|access|private|secret|auth|account|ssh|encryption)?keys?\d*(?![a-z])
    | (?<!by)(?<!ask)(?<!com)pass\d*(?![a-z]) | pwd\d*(?![a-z]) | (?<![a-z])(?:dsn|pat|jwt|auth|cookie)$
    """
_FOLDERS = ("PWD", "OLDPWD")
_PRIVATE = "PRIVATE KEY-----"


@cache
def _telling_name() -> re.Pattern[str]:
    return re.compile(_TELLING_NAME, re.VERBOSE | re.IGNORECASE)


def redact_variable(name: str, value: str) -> str:
    """The value of an environment variable, fit to be shown: where its name tells of a secret nothing of it, however many lines it has."""
    if name not in _FOLDERS and _telling_name().search(name):
        plain = _COUNTS if "token" in name.lower() and len(value) <= 8 else _SWITCHES
        return value if not value or plain.fullmatch(value) else HIDDEN
    return HIDDEN if _PRIVATE in value else redact(value)


def redact_within(value: Any, name: str = "") -> Any:
    """What JSON says, with the secrets inside taken out: a text that stands under a name is that variable's value."""
    if isinstance(value, str):
        return redact_variable(name, value)
    if isinstance(value, Mapping):
        return {key: redact_within(item, str(key)) for key, item in value.items()}
    return [redact_within(item) for item in value] if isinstance(value, list) else value


def bug(error: BaseException) -> str:
    """What is said of a mistake of cockpit's own, wherever the cluster brought it out."""
    return f"cockpit has a bug: {type(error).__name__}: {redact(str(error))[:200]}"


_UNITS = ("B", "K", "M", "G", "T", "P")


@lru_cache(4096)
def size(amount: float | None) -> str:
    """Bytes in at most five characters: `512M`, `3.4G`, `80G`."""
    if amount is None:
        return UNKNOWN
    unit = 0
    value = float(amount)
    while abs(value) >= 999.5 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.1f}{_UNITS[unit]}" if unit and abs(value) < 9.95 else f"{value:.0f}{_UNITS[unit]}"


def percent(value: float | None) -> str:
    """`None` is "not known", and never reads as zero."""
    return UNKNOWN if value is None else f"{value:.0f}%"


def ratio(used: float | None, total: float | None) -> float | None:
    """0-1, or `None` when either is unknown or there is nothing to have."""
    return used / total if used is not None and total else None


def count(value: float | None) -> str:
    """A quantity of a resource: `8`, `0.25`."""
    return UNKNOWN if value is None else f"{value:.4g}" if abs(value) < 10000 else f"{value:.0f}"


@lru_cache(4096)
def _age(seconds: int) -> str:
    for unit, length, below, smaller in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if seconds >= length:
            rest = seconds % length // smaller
            return f"{seconds // length}{unit}{rest:02}{below}" if seconds < 100 * length or unit != "d" else f"{seconds // length}{unit}"
    return f"{seconds}s"


def age(seconds: float | None) -> str:
    """`8s`, `3m07s`, `5h02m`, `12d04h`; a little in the future reads as now."""
    return UNKNOWN if seconds is None else _age(max(0, int(seconds)))


def plural(number: int, noun: str, many: str = "") -> str:
    """`1 node`, `2 nodes`; `many` where an s is not enough."""
    return f"{number} {noun if number == 1 else many or noun + 's'}"
