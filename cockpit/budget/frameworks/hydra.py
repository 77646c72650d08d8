"""What Hydra makes of a command's words: which config it starts from, and what each override sets. Pure."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from enum import Enum
from functools import lru_cache
from typing import NoReturn, TypeAlias, Union

import msgspec

_KEY = re.compile(r"(\+\+|\+|~)?((?:[A-Za-z_][\w-]*|\d+)(?:[./](?:[A-Za-z_][\w-]*|\d+))*)(@[\w.:$-]*)?(?:=(.*))?", re.DOTALL)
_WITH_VALUE = {"--config-name": "-cn", "--config-path": "-cp", "--config-dir": "-cd", "--package": "-p", "--cfg": "-c"}
_WITHOUT = {
    "--multirun": "-m", "--run": "-r", "--help": "-h", "--info": "-i", "--shell-completion": "-sc",
    **dict.fromkeys(("--resolve", "--hydra-help", "--version", "--experimental-rerun")),
}  # fmt: skip
_ONLY_PRINT = ("--help", "--hydra-help", "--version", "--cfg", "--info", "--shell-completion")
_WHOLE = r"(?:0|[1-9](?:_?\d)*)"
_FLOAT = re.compile(
    rf"[+-]?(?:{_WHOLE}\.(?:\d(?:_?\d)*)?|\.\d(?:_?\d)*)(?:e[+-]?\d+)?|[+-]?{_WHOLE}e[+-]?\d+|[+-]?(?:inf|nan)", re.IGNORECASE
)
_INT = re.compile(rf"[+-]?{_WHOLE}")
_QUOTED = re.compile(r"(['\"])((?:(?!\1)[^\\])*)\1", re.DOTALL)
_CALL = re.compile(r"[A-Za-z_]\w*\s*\(")
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}


class Gap(Enum):
    """Why there is no value."""

    ABSENT = "is not set"
    UNKNOWN = "is unknown"


Value: TypeAlias = Union[bool, int, float, str, "list[Value | Gap]", "dict[str, Value | Gap]", None]


def parse(text: str) -> Value | Gap:
    """A value as Hydra's grammar has it; `Gap.UNKNOWN` where a part can't be known, or is not read here.

    Not read are lists, dicts, several values for a sweep, and functions such as `int(8)` and `range(1,4)`.
    """
    word = text.strip()
    if "\0" in word or word[:1] in {"[", "{"} or _CALL.match(word):
        return Gap.UNKNOWN
    if word[:1] in {"'", '"'}:
        quoted = _QUOTED.fullmatch(word)
        return quoted[2] if quoted else Gap.UNKNOWN
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    if _INT.fullmatch(word):
        return int(word)
    if _FLOAT.fullmatch(word):
        return float(word)
    return Gap.UNKNOWN if set(word) & set("[]{},") and "${" not in word else word


class Override(msgspec.Struct, frozen=True):
    """One `key=value`."""

    path: tuple[str, ...] | None
    """`None`: which key can't be known, so any."""
    value: Value | Gap
    plain: bool = True
    """Without `+`, `++` or `~`: for Hydra the key must be there already."""


class Overrides(msgspec.Struct, frozen=True):
    """Overrides in the order in which Hydra applies them: the last one wins."""

    items: tuple[Override, ...] = ()

    def value(self, key: str) -> Value | Gap:
        """What they make of a key; `Gap.ABSENT` where none of them touches it."""
        path = tuple(key.split("."))
        for item in reversed(self.items):
            found = _read_override(item, path)
            if found is not Gap.ABSENT:
                return found
        return Gap.ABSENT

    def keys(self) -> frozenset[str]:
        """The keys that are set and, for Hydra, must be there already."""
        return frozenset(".".join(item.path) for item in self.items if item.path and item.plain)


def _read_override(item: Override, path: tuple[str, ...]) -> Value | Gap:
    """What an override says of a key; `Gap.ABSENT` where it says nothing."""
    if item.path is None:
        return Gap.UNKNOWN
    if item.path != path[: len(item.path)]:
        return Gap.ABSENT
    return _within(item.value, path[len(item.path) :])


def _within(value: Value | Gap, rest: tuple[str, ...]) -> Value | Gap:
    """A dict is merged into what was there: a key that it lacks keeps its value."""
    if not rest or isinstance(value, Gap):
        return value
    if not isinstance(value, dict):
        return Gap.UNKNOWN
    return _within(value.get(rest[0], Gap.ABSENT), rest[1:])


class HydraCommand(msgspec.Struct, frozen=True):
    """A command's words, sorted."""

    overrides: Overrides = Overrides()
    groups: tuple[tuple[str, str | None], ...] = ()
    """Which file a config group takes: (`actor@actor_rollout_ref.actor`, `megatron_actor`)."""
    config_name: str | None = None
    config_path: str | None = None
    config_dir: str | None = None
    only_prints: bool = False
    """It shows its configuration or a help and ends."""
    refused: str | None = None
    """Why Hydra would not start it."""
    empty: bool = False
    """One of its words is empty, which Hydra refuses too."""


def read(argv: Sequence[str], groups: frozenset[str] = frozenset()) -> HydraCommand:
    """The words after the program; `groups`: names that choose a file of a config group although they look like keys."""
    flags, words, refused = _sorted_words(argv)
    items, chosen = [], []
    for word in words:
        match = _KEY.fullmatch(word)
        if "\0" in word.partition("=")[0]:
            items.append(Override(None, Gap.UNKNOWN))
        elif not word:
            continue
        elif match is None or (match[4] is None and match[1] != "~"):
            refused = refused or f"`{word}` is not an override: Hydra rejects it"
        elif match[3] or "/" in match[2] or match[2] in groups:
            chosen.append((match[2] + (match[3] or ""), None if "\0" in (match[4] or "") else match[4]))
        else:
            value = Gap.UNKNOWN if match[1] == "~" else parse(match[4] or "")
            items.append(Override(tuple(match[2].split(".")), value, plain=not match[1]))
    return HydraCommand(
        Overrides(tuple(items)),
        tuple(chosen),
        flags.get("--config-name"),
        flags.get("--config-path"),
        flags.get("--config-dir"),
        any(flag in flags for flag in _ONLY_PRINT),
        refused,
        "" in words,
    )


class _HydraParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


@lru_cache(1)
def _parser() -> _HydraParser:
    """Hydra's own flags; overrides it takes from one place only: those after a flag after others are left over."""
    parser = _HydraParser(prog="", add_help=False, argument_default=argparse.SUPPRESS)
    parser.add_argument("overrides", nargs="*")
    for name, short in _WITH_VALUE.items():
        parser.add_argument(name, short, dest=name)
    for name, letter in _WITHOUT.items():
        parser.add_argument(*filter(None, (name, letter)), dest=name, action="store_const", const="")
    return parser


def _sorted_words(argv: Sequence[str]) -> tuple[dict[str, str], list[str], str | None]:
    """Flags with their values, overrides, and why argparse would refuse."""
    try:
        known, rest = _parser().parse_known_args(argv)
    except ValueError as error:
        return {}, [], f"Hydra rejects the command: {str(error).replace(chr(0), '…')}"
    flags = vars(known)
    words = flags.pop("overrides", [])
    empty = next((flag for flag in ("--config-name", "--config-path") if flags.get(flag) == ""), None)
    if rest and rest[0].startswith("-"):
        return flags, words, f"`{rest[0]}` is not a Hydra flag"
    if rest:
        return flags, words, f"Hydra rejects `{rest[0]}`: overrides must stand together, with no flag between them"
    return flags, words, f"{empty} has no value: Hydra rejects it" if empty else None
