"""What Hydra makes of a command's words: which config it starts from, and what each override sets. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

import msgspec

from cockpit.budget.frameworks.hydra_value import Gap, Value, parse

__all__ = ["Gap", "HydraCommand", "Override", "Overrides", "Value", "read"]

_KEY = re.compile(r"(\+\+|\+|~)?((?:[A-Za-z_][\w-]*|\d+)(?:[./](?:[A-Za-z_][\w-]*|\d+))*)(@[\w.:$-]*)?(?:=(.*))?", re.DOTALL)
_WITH_VALUE = {"--config-name": "-cn", "--config-path": "-cp", "--config-dir": "-cd", "--package": "-p"}
_WITHOUT = {"--multirun": "-m", "--run": "-r", "--resolve": ""}
_ONLY_PRINT = {"--help": "-h", "--hydra-help": "", "--version": "", "--cfg": "-c", "--info": "-i", "--shell-completion": "-sc"}
_FLAGS = {**_WITH_VALUE, **_WITHOUT, **_ONLY_PRINT, "--experimental-rerun": ""}


class OverrideAction(Enum):
    """What an override does to its key."""

    SET = ""
    ADD = "+"
    FORCE = "++"
    DELETE = "~"


class Override(NamedTuple):
    """One `key=value`."""

    path: tuple[str, ...] | None
    """`None`: which key can't be known, so any."""
    value: Value | Gap
    act: OverrideAction = OverrideAction.SET


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
        return frozenset(".".join(item.path) for item in self.items if item.path and item.act is OverrideAction.SET)


def _read_override(item: Override, path: tuple[str, ...]) -> Value | Gap:
    """What an override says of a key; `Gap.ABSENT` where it says nothing."""
    if item.path is None:
        return Gap.UNKNOWN
    if item.path != path[: len(item.path)]:
        return Gap.ABSENT
    if item.act is OverrideAction.DELETE:
        return Gap.DELETED
    return _within(item.value, path[len(item.path) :])


def _within(value: Value | Gap, rest: tuple[str, ...]) -> Value | Gap:
    """A dict is merged into what was there: a key that it lacks keeps its value."""
    if not rest or isinstance(value, Gap):
        return value
    if not isinstance(value, dict):
        return Gap.DELETED
    return _within(value.get(rest[0], Gap.ABSENT), rest[1:])


class HydraCommand(msgspec.Struct, frozen=True):
    """A command's words, sorted."""

    overrides: Overrides = Overrides()
    groups: tuple[tuple[str, str | None], ...] = ()
    """Which file a config group takes: (`actor@actor_rollout_ref.actor`, `megatron_actor`)."""
    config_name: str | None = None
    config_path: str | None = None
    config_dir: str | None = None
    multirun: bool = False
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
            items.append(Override(tuple(match[2].split(".")), parse(match[4] or ""), OverrideAction(match[1] or "")))
    return HydraCommand(
        Overrides(tuple(items)),
        tuple(chosen),
        flags.get("--config-name"),
        flags.get("--config-path"),
        flags.get("--config-dir"),
        "--multirun" in flags or Overrides(tuple(items)).value("hydra.mode") == "MULTIRUN",
        any(flag in flags for flag in _ONLY_PRINT),
        refused,
        "" in words,
    )


def _sorted_words(argv: Sequence[str]) -> tuple[dict[str, str], list[str], str | None]:
    """Flags with their values, overrides, and why argparse would refuse."""
    flags: dict[str, str] = {}
    words: list[str] = []
    waiting = list(argv)
    refused = None
    after = 0
    while waiting:
        word = waiting.pop(0)
        if not word.startswith("-"):
            words.append(word)
            # argparse takes overrides from one place only: those after a flag after others are "unrecognized".
            refused = refused or (f"Hydra rejects `{word}`: overrides must stand together, with no flag between them" if after else None)
            continue
        after = len(words)
        name, has_value, value = word.partition("=")
        flag = _flag(name)
        if flag is None or "\0" in name:
            refused = refused or f"`{word}` is not a Hydra flag"
            continue
        if flag in _WITH_VALUE and not has_value:
            value = waiting.pop(0) if waiting else "\0"
        elif flag == "--cfg" and not has_value and waiting:
            waiting.pop(0)
        flags[flag] = value
        if not value and flag in {"--config-name", "--config-path"}:
            refused = refused or f"{flag} has no value: Hydra rejects it"
    return flags, words, refused


def _flag(name: str) -> str | None:
    """A flag's whole name, from its short one or as much of it as argparse needs."""
    exact = [flag for flag, short in _FLAGS.items() if name in {flag, short}]
    longer = [flag for flag in _FLAGS if name.startswith("--") and len(name) > 2 and flag.startswith(name)]
    return exact[0] if exact else longer[0] if len(longer) == 1 else None
