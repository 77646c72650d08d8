"""Reads the words of an OpenRLHF command as the parser of each release does: abbreviated flags, the last of several, and all."""

from __future__ import annotations

import argparse
import re
from collections.abc import Container, Mapping, Sequence
from functools import lru_cache
from typing import Any, NoReturn

from cockpit.budget.openrlhf.flags import NAMES, RELEASES, TABLE
from cockpit.budget.shell import UNKNOWN

_ROW = re.compile(r"(\w+?)(?::([\w.]+))?(?:\*(\d|\*|\+))?(?:\{(.*)\})?(?:=(.*))?")
_TYPES = {"int": int, "float": float, "str": str}
_ABSENT: Mapping[str, Any] = {
    "ring_attn_size": 1, "ds_tensor_parallel_size": 1, "n_samples_per_prompt": 1, "advantage_estimator": "gae", "max_images_per_prompt": 0,
}  # fmt: skip
"""What releases do that don't have a flag yet; without any other flag: nothing."""


class UnreadError(Exception):
    """A value that decides can't be known; the message is a sentence."""


class RefusedError(ValueError):
    """A release's parser doesn't take these words; the message says why."""


def number(release: str) -> tuple[int, ...]:
    """A release as what can be compared."""
    return tuple(int(part) for part in re.findall(r"\d+", release))


class Asked:
    """A command's values, by the names that flags had before they had dots."""

    fork = False
    """simpleRL-reason's."""

    def __init__(self, release: str, values: Mapping[str, Any], env: Mapping[str, str]) -> None:
        self.env = env
        self.number = number(release)
        self._values = {NAMES.get(name, name): value for name, value in values.items()}
        self._flags = {NAMES.get(name, name): f"--{name}" for name in values}

    def __call__(self, name: str) -> Any:
        """A value; raises `UnreadError` when it can't be known."""
        value = self._values.get(name, _ABSENT.get(name))
        for each in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(each, str) and UNKNOWN in each:
                raise UnreadError(f"{self.flag(name)} has a value that can't be known here")
        return value

    def given(self, name: str) -> bool:
        """Whether there is a value, known or not."""
        return bool(self._values.get(name))

    def emptied(self, name: str) -> bool:
        """Whether it was given as an empty text."""
        return bool(self._values.get(name) == "")

    def flag(self, name: str) -> str:
        """A flag as this release spells it."""
        return self._flags.get(name, f"--{name}")

    def shown(self, name: str) -> str | None:
        """A value in words; `None` where there is none, or it isn't known."""
        value = self._values.get(name)
        return None if value is None or value is False or UNKNOWN in str(value) else "true" if value is True else str(value)

    def since(self, release: str) -> bool:
        """Whether this is that release, or a later one."""
        return self.number >= number(release)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise RefusedError(message)


class _Choices(Container[str]):
    def __init__(self, choices: Sequence[str]) -> None:
        self._choices = choices

    def __contains__(self, value: object) -> bool:
        return (isinstance(value, str) and UNKNOWN in value) or value in self._choices

    def __iter__(self) -> Any:
        return iter(self._choices)


def _typed(kind: str) -> Any:
    """A type that lets pass what can't be known."""

    def read(said: str) -> Any:
        return said if UNKNOWN in said else _TYPES[kind](said)

    read.__name__ = kind
    return read


@lru_cache(1)
def _rows() -> tuple[tuple[tuple[int, ...], tuple[int, ...], str, tuple[str, ...]], ...]:
    words = [line.split() for line in TABLE.replace("\n  ", " ").strip().splitlines()]
    return tuple((number(first), (999,) if last == "-" else number(last), kind, tuple(names)) for first, last, kind, *names in words)


@lru_cache(128)
def flags(release: str) -> tuple[tuple[str, str], ...]:
    """All flags of a release with their kinds."""
    at = number(release)
    return tuple(sorted((name, kind) for first, last, kind, names in _rows() if first <= at <= last for name in names))


@lru_cache(1)
def all_flags() -> frozenset[str]:
    """The flags of all releases."""
    return frozenset(f"--{name}" for *_, names in _rows() for name in names)


@lru_cache(64)
def _parser(known: tuple[tuple[str, str], ...]) -> _Parser:
    formatter = argparse.HelpFormatter("")  # one for all: each looks for the terminal's size
    parser = _Parser(prog="", add_help=False, formatter_class=lambda **_: formatter)
    parser.add_argument("-h", "--help", action="store_true")
    for name, kind in known:
        match = _ROW.fullmatch(kind)
        assert match  # noqa: S101 - the table is ours
        _add(parser, name, *match.groups())
    return parser


def _add(parser: _Parser, name: str, kind: str, target: str | None, many: str | None, choices: str | None, default: str | None) -> None:
    if kind in {"flag", "off"}:
        parser.add_argument(
            f"--{name}", dest=target or name, action="store_true" if kind == "flag" else "store_false", default=bool(default)
        )
        return
    values = None if default is None else [_TYPES[kind](value) for value in default.split(",")]
    parser.add_argument(
        f"--{name}",
        type=_typed(kind),
        nargs=int(many) if many and many.isdigit() else many,
        choices=_Choices(choices.split("|")) if choices else None,
        default=values if many or values is None else values[0],
    )


def parsed(release: str, argv: Sequence[str], env: Mapping[str, str]) -> Asked:
    """The values; raises `RefusedError` as that release's parser does, `UnreadError` where any flag may stand in the words."""
    strange = [word for word in argv if not _may_be_known(word, release)]
    if strange:
        raise RefusedError(f"unrecognized arguments: {' '.join(strange)}")
    asked, rest = _parser(flags(release)).parse_known_args(list(argv))
    if asked.help:
        raise RefusedError("--help shows what there is, and nothing runs")
    plain = [word for word in rest if UNKNOWN not in word]
    if plain:
        raise RefusedError(f"unrecognized arguments: {' '.join(plain)}")
    if rest:
        raise UnreadError("Words that can't be known here may be any flags")
    return Asked(release, vars(asked), env)


def _may_be_known(word: str, release: str) -> bool:
    """Quickly, for the many releases that a command is not for."""
    name = word.partition("=")[0]
    return (
        not name.startswith("--")
        or " " in word
        or UNKNOWN in name
        or any(flag.startswith(name[2:]) for flag, _ in flags(release))
        or "--help".startswith(name)
    )


def releases(argv: Sequence[str], env: Mapping[str, str], names: Sequence[str] = RELEASES) -> dict[str, Asked | Exception]:
    """What every release makes of the words, the newest first."""
    return {release: _outcome(release, argv, env) for release in reversed(names)}


def _outcome(release: str, argv: Sequence[str], env: Mapping[str, str]) -> Asked | Exception:
    try:
        return parsed(release, argv, env)
    except (RefusedError, UnreadError) as error:
        return error
