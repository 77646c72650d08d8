"""Reads the words of an OpenRLHF command as the parser of each release does: abbreviated flags, the last of several, and all."""

from __future__ import annotations

import argparse
import re
from collections.abc import Container, Mapping, Sequence
from functools import lru_cache
from typing import Any, NoReturn

import msgspec
from packaging.version import Version

from cockpit.budget.frameworks.openrlhf.flags import NAMES, RELEASES, TABLE
from cockpit.budget.scripts import UNKNOWN

_ROW = re.compile(r"(\w+?)(?::([\w.]+))?(?:\*(\d|\*|\+))?(?:\{(.*)\})?(?:=(.*))?")
_TYPES = {"int": int, "float": float, "str": str}
_ABSENT: Mapping[str, Any] = {
    "ring_attn_size": 1, "ds_tensor_parallel_size": 1, "n_samples_per_prompt": 1, "advantage_estimator": "gae",
}  # fmt: skip
"""What releases do that don't have a flag yet; without any other flag: nothing."""


class UnreadError(Exception):
    """A value that decides can't be known; the message is a sentence."""


class ParserRefusedError(ValueError):
    """A release's parser doesn't take these words; the message says why."""


@lru_cache(256)
def number(release: str) -> Version:
    """A release as what can be compared; raises `InvalidVersion`."""
    return Version(release)


class ParsedArgs:
    """A command's values, by the names that flags had before they had dots."""

    fork = False
    """simpleRL-reason's."""

    def __init__(self, release: str, values: Mapping[str, Any]) -> None:
        self.number = number(release)
        self._values = {NAMES.get(name, name): value for name, value in values.items()}
        self._flags = {NAMES.get(name, name): f"--{name}" for name in values}

    def __call__(self, name: str) -> Any:
        """A value; raises `UnreadError` when it can't be known."""
        value = self._values.get(name, _ABSENT.get(name))
        for each in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(each, str) and UNKNOWN in each:
                raise UnreadError(f"{self.flag(name)} has a value that is known only at run time")
        return value

    def has_value(self, name: str) -> bool:
        """Whether there is a value, known or not."""
        return bool(self._values.get(name))

    def is_emptied(self, name: str) -> bool:
        """Whether it was given as an empty text."""
        return bool(self._values.get(name) == "")

    def flag(self, name: str) -> str:
        """A flag as this release spells it."""
        return self._flags.get(name, f"--{name}")

    def value_in_words(self, name: str) -> str | None:
        """A value in words; `None` where there is none, or it isn't known."""
        value = self._values.get(name)
        return None if value is None or value is False or UNKNOWN in str(value) else "true" if value is True else str(value)

    def since(self, release: str) -> bool:
        """Whether this is that release, or a later one."""
        return self.number >= number(release)


class _ReleaseParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ParserRefusedError(message)


class _Choices(Container[str]):
    def __init__(self, choices: Sequence[str]) -> None:
        self._choices = choices

    def __contains__(self, value: object) -> bool:
        return (isinstance(value, str) and UNKNOWN in value) or value in self._choices

    def __iter__(self) -> Any:
        return iter(self._choices)


def _make_type(kind: str) -> Any:
    """A type that lets pass what can't be known."""

    def read(said: str) -> Any:
        return said if UNKNOWN in said else _TYPES[kind](said)

    read.__name__ = kind
    return read


@lru_cache(1)
def _rows() -> tuple[tuple[Version, Version, str, tuple[str, ...]], ...]:
    words = [line.split() for line in TABLE.replace("\n  ", " ").strip().splitlines()]
    return tuple((number(first), number("9999" if last == "-" else last), kind, tuple(names)) for first, last, kind, *names in words)


@lru_cache(128)
def flags(release: str) -> tuple[tuple[str, str], ...]:
    """All flags of a release with their kinds."""
    at = number(release)
    return tuple(sorted((name, kind) for first, last, kind, names in _rows() if first <= at <= last for name in names))


@lru_cache(128)
def _names(release: str) -> frozenset[str]:
    return frozenset(name for name, _ in flags(release))


@lru_cache(1)
def all_flags() -> frozenset[str]:
    """The flags of all releases."""
    return frozenset(f"--{name}" for *_, names in _rows() for name in names)


class _Kind(msgspec.Struct, frozen=True):
    """What a flag is: its type (`flag`, `off`: a switch), the name that it sets, its number of values, its choices, its default."""

    type: str
    target: str | None
    number: str | None
    choices: str | None
    default: str | None


def _kind(said: str) -> _Kind:
    match = _ROW.fullmatch(said)
    assert match  # noqa: S101 - the table is ours
    return _Kind(*match.groups())


@lru_cache(128)
def _defaults(release: str) -> Mapping[str, Any]:
    """The value of each flag that a command leaves out, by the name that the flag sets."""
    found: dict[str, Any] = {}
    for name, kind in ((name, _kind(said)) for name, said in flags(release)):
        found.setdefault(kind.target or name, _default(kind))
    return found


def _default(kind: _Kind) -> Any:
    if kind.type in {"flag", "off"}:
        return bool(kind.default)
    values = None if kind.default is None else [_TYPES[kind.type](value) for value in kind.default.split(",")]
    return values if kind.number or values is None else values[0]


@lru_cache(64)
def _parser(known: tuple[tuple[str, str], ...]) -> _ReleaseParser:
    formatter = argparse.HelpFormatter("")  # one for all: each looks for the terminal's size
    parser = _ReleaseParser(prog="", add_help=False, formatter_class=lambda **_: formatter, argument_default=argparse.SUPPRESS)
    parser.add_argument("-h", "--help", action="store_true")
    for name, kind in ((name, _kind(said)) for name, said in known):
        if kind.type in {"flag", "off"}:
            action = "store_true" if kind.type == "flag" else "store_false"
            parser.add_argument(f"--{name}", dest=kind.target or name, action=action, default=argparse.SUPPRESS)
        else:
            nargs = int(kind.number) if kind.number and kind.number.isdigit() else kind.number
            choices = _Choices(kind.choices.split("|")) if kind.choices else None
            parser.add_argument(f"--{name}", type=_make_type(kind.type), nargs=nargs, choices=choices)
    return parser


@lru_cache(64)
def _parse(known: tuple[tuple[str, str], ...], argv: tuple[str, ...]) -> tuple[Mapping[str, Any], Sequence[str], str | None]:
    """The values that are given, words that no flag takes, and why argparse refuses, if it does."""
    try:
        given, rest = _parser(known).parse_known_args(argv)
    except ParserRefusedError as error:
        return {}, (), str(error)
    for name, kind in known:
        if "*" not in kind and vars(given).get(name) == []:  # before Python 3.13 argparse makes an empty list of `--flag=--`
            return {}, (), f"argument --{name}: expected one argument"
    return vars(given), rest, "--help only prints the help: nothing runs" if "help" in given else None


@lru_cache(8)
def _find_flags(argv: tuple[str, ...]) -> Mapping[str, frozenset[str]]:
    """Which flags of any release a word can be, in full or abbreviated."""
    return {
        word: frozenset(flag[2:] for flag in all_flags() if flag.startswith(word.partition("=")[0])) for word in argv if word[:2] == "--"
    }


def parse(release: str, argv: Sequence[str]) -> ParsedArgs:
    """The values; raises `ParserRefusedError` as that release's parser does, `UnreadError` where any flag may stand in the words.

    Only flags that the words can mean are given to argparse, so that releases which differ in others share one parse.
    """
    meant, names = _find_flags(tuple(argv)), _names(release)
    strange = [word for word in argv if word in meant and _is_flag(word) and meant[word].isdisjoint(names)]
    if strange:
        raise ParserRefusedError(f"unrecognized arguments: {' '.join(strange)}")
    wanted = frozenset().union(*meant.values())
    known = tuple((name, kind.partition("=")[0]) for name, kind in flags(release) if name in wanted)
    given, rest, refusal = _parse(known, tuple(argv))
    plain = [word for word in rest if UNKNOWN not in word]
    if refusal or plain:
        raise ParserRefusedError(refusal or f"unrecognized arguments: {' '.join(plain)}")
    if rest:
        raise UnreadError("Some arguments are known only at run time and may be flags")
    return ParsedArgs(release, {**_defaults(release), **given})


def _is_flag(word: str) -> bool:
    """Whether a word can only be a flag, and not `--help`."""
    name = word.partition("=")[0]
    return " " not in word and UNKNOWN not in name and not "--help".startswith(name)


def releases(argv: Sequence[str], names: Sequence[str] = RELEASES) -> dict[str, ParsedArgs | Exception]:
    """What every release makes of the words, the newest first."""
    return {release: _outcome(release, argv) for release in reversed(names)}


def _outcome(release: str, argv: Sequence[str]) -> ParsedArgs | Exception:
    try:
        return parse(release, argv)
    except (ParserRefusedError, UnreadError) as error:
        return error
