"""Foreign text made fit for a terminal, and amounts put into words.

The model keeps names exactly as they came, because they are sent back in calls; whatever draws them calls `clean`.
"""

from __future__ import annotations

import re
from functools import lru_cache

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
    r"token(?!iz|s)|secret|passw(?:or)?d|passphrase|(?:api|access|private|auth|wandb)[_-]?key|credential|sshpass|"
    r"(?<![a-z])(?:pass|pwd)(?![a-z])"
)
_QUOTE = r"""\\{0,4}["']?"""
"""Also as it stands in JSON that was written into a string."""
_NAMED = rf"[\w.-]{{0,60}}?(?:{_TELLING})[\w.-]{{0,60}}"
_SECRETS = re.compile(
    rf"""
      (?P<name>(?:^|(?<=[\s'"{{(\[,;&?])) ["']?[+-]{{0,2}}{_NAMED}{_QUOTE}
        \s*(?:=|:\s|:(?=\\{{0,4}}["'])|(?<=["']),\s?(?=["'])|(?<=\w)\s(?!\s*-))\s*)
      (?P<quote>{_QUOTE})(?P<value>(?<=")(?!\s)(?:[^"\\\n]|\\(?!\\{{0,4}}"))+|(?<=')[^\s'][^'\n]*|[^\s'"&,}}]+)
    | (?P<scheme>[a-z][\w+.-]{{0,20}}://)[^\s/@:]*:[^\s/@]+@
    | (?P<sshpass>\bsshpass\s+-p\s*)[^\s•]+
    | (?P<bearer>\b(?:Bearer|Basic)\s+)[\w.~+/=-]{{8,}}
    | \b(?:hf_|sk-|ghp_|gho_|glpat-|xox[abpr]-|AKIA|wandb_v1_)[\w-]{{10,}}
    | (?<![\w-])eyJ[\w-]{{10,}}\.[\w-]{{10,}}\.[\w-]*
    """,
    re.VERBOSE | re.IGNORECASE,
)
_SWITCHES = re.compile(r"(?:true|false|none|null)$", re.IGNORECASE)
_COUNTS = re.compile(rf"[\d.,kmg]+$|{_SWITCHES.pattern}", re.IGNORECASE)
HIDDEN = "•••"


def redact(text: str) -> str:
    """The same text with what looks like a secret, by its name or by its shape, taken out.

    A number after a name with `token` in it (`--max_tokens 1024`) is a count, not a secret.
    """
    return _SECRETS.sub(_hide, text)


def _hide(match: re.Match[str]) -> str:
    if match["name"] is not None:
        plain = _SWITCHES if "token" not in match["name"].lower() else _COUNTS
        return match[0] if plain.match(match["value"]) else f"{match['name']}{match['quote']}{HIDDEN}"
    if match["scheme"] is not None:
        return f"{match['scheme']}{HIDDEN}@"
    return f"{match['bearer'] or match['sshpass'] or ''}{HIDDEN}"


_TELLING_NAME = re.compile(
    r"""
      token(?!i[zs]) | secret | passw(?:or)?d | passphrase | credential | connection_?string | authorization
    | (?<![a-z])(?:api|access|private|secret|auth|account|ssh|encryption)?keys?\d*(?![a-z])
    | (?<!by)(?<!ask)(?<!com)pass\d*(?![a-z]) | pwd\d*(?![a-z]) | (?<![a-z])(?:dsn|pat|jwt|auth|cookie)$
    """,
    re.VERBOSE | re.IGNORECASE,
)
_FOLDERS = ("PWD", "OLDPWD")
_PRIVATE = "PRIVATE KEY-----"


def redact_variable(name: str, value: str) -> str:
    """The value of an environment variable, fit to be shown: where its name tells of a secret nothing of it, however many lines it has."""
    if name not in _FOLDERS and _TELLING_NAME.search(name):
        plain = _COUNTS if "token" in name.lower() and len(value) <= 8 else _SWITCHES
        return value if not value or plain.fullmatch(value) else HIDDEN
    return HIDDEN if _PRIVATE in value else redact(value)


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
