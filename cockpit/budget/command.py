"""Holds a training command and reads its words: it looks up the flags and keys that decide, and ignores all others."""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from functools import lru_cache

import msgspec
from packaging.version import InvalidVersion, Version

from cockpit.budget.config_files import MAX_DEPTH, Read, load_yaml
from cockpit.budget.demand import Budget, Group, Level, Line
from cockpit.budget.scripts import UNKNOWN
from cockpit.placement import Strategy

Values = Mapping[str, object]
"""Settings by their dotted keys or their flags."""
MAX_COUNT = 100_000
"""No cluster has more of anything, so a larger count is a typing error."""
MAX_NODES = 4096
MAX_SHOWN = 200
"""A sentence quotes a value of at most so many characters."""
_KEY = re.compile(r"\+{0,2}([A-Za-z_][\w.-]*)=(.*)", re.DOTALL)
_OTHER_KEY = re.compile(r"\$\{([A-Za-z_][\w.]*)\}")
_ENVIRONMENT = re.compile(r"\$\{oc\.env: *(\w+)(?:, *([^}]*))?\}")


class Gap(Enum):
    """Why there is no value."""

    ABSENT = "is not set"
    UNKNOWN = "is known only at run time"


class TrainingCommand(msgspec.Struct, frozen=True):
    """One program that a script starts, with its words."""

    program: str
    """`verl.trainer.main_ppo`, or the path of its file."""
    argv: tuple[str, ...]
    """The words after it. `UNKNOWN` within a word stands for a part that is known only at run time."""
    read: Read = lambda _: None
    """Returns the text of a file. The path is relative to the folder in which the command runs."""
    find: Read = lambda _: None
    """Returns the path of the nearest file in the folder's tree whose path ends with the given one."""
    pins: Mapping[str, str] = {}
    """By package: the release that the script installs before it starts the command."""
    installed: Mapping[str, str] = {}
    """By package: the release that is installed beside Ray. A job may bring another one."""
    env: Mapping[str, str] = {}

    @property
    def module(self) -> str:
        """The name of the program's module, also if the command gives a path."""
        name = self.program.replace(UNKNOWN, "")
        return posixpath.normpath(name).removesuffix(".py").lstrip("./").replace("/", ".") if name.endswith(".py") else name

    @property
    def words(self) -> Words:
        """The words after the program, sorted."""
        return read_words(self.argv)

    def source(self) -> tuple[str, str] | None:
        """The path and the text of the program's own file, if the tree has it."""
        path = self.program if self.program.endswith(".py") else self.program.replace(".", "/") + ".py"
        for place in (path, self.find(path.replace(UNKNOWN, "").lstrip("./"))):
            if place and UNKNOWN not in place and (text := self.read(place)) is not None:
                return place, text
        return None

    def release(self, package: str, own: str | None = None) -> Version | None:
        """The release of a package that the command uses: that of its tree, else the pinned one, else the one beside Ray."""
        for said in (self.pins.get(package), own, self.installed.get(package)):
            with suppress(InvalidVersion):
                return Version(said or "")
        return None


class Words(msgspec.Struct, frozen=True):
    """The words of a command, sorted into settings and flags."""

    values: Values
    """`key=value`, as Hydra and OmegaConf write it. If a key is given several times, the last value counts."""
    flags: Mapping[str, tuple[str, ...]]
    """Each flag (`--flag`, also `-cn`) with the words up to the next flag."""
    loose: bool
    """Some words are known only at run time, and each may be any flag or key."""
    stray: tuple[str, ...] = ()
    """Words before the first flag that have no `=`."""

    def given(self, *switches: str) -> dict[str, object]:
        """The flags as settings. A switch is on, and so is a flag without a value."""
        return {flag: values[0] if values and flag not in switches else True for flag, values in self.flags.items()}

    def flag(self, *names: str) -> str | None:
        """The value of the first of these flags that is given."""
        return next((self.flags[name][0] for name in names if self.flags.get(name)), None)


@lru_cache(maxsize=8)
def read_words(argv: tuple[str, ...]) -> Words:
    """Sort the words after a program. A word that is wholly unknown is the value of the flag before it, if that flag has none yet."""
    values: dict[str, object] = {}
    flags: dict[str, list[str]] = {}
    latest, loose = "", False
    stray: list[str] = []
    for word in argv:
        name, equals, value = word.partition("=")
        if re.match(r"--?[A-Za-z]", name):
            latest = name
            flags[name] = [value] if equals else []
            loose |= UNKNOWN in name
            continue
        is_value = bool(latest) and not flags[latest]
        loose |= UNKNOWN in name and not is_value
        if latest:
            flags[latest].append(word)
        elif word and not equals and UNKNOWN not in word and word != "--":
            stray.append(word)
        if match := _KEY.fullmatch(word):
            key, read = match[1], parse(match[2])
            values |= flatten(read, key) if isinstance(read, dict) else {key: read}
    return Words(values, {name: tuple(words) for name, words in flags.items()}, loose, tuple(stray))


def parse(text: str) -> object:
    """The value that YAML reads from a text. A text that is no YAML, or is partly unknown, stays a text."""
    if UNKNOWN in text or "${" in text:
        return text
    try:
        return load_yaml(text)
    except ValueError:
        return text


def flatten(value: object, prefix: str = "") -> dict[str, object]:
    """The values of nested sections by dotted keys. The sections of a list have their number as key."""
    if isinstance(value, list) and any(isinstance(each, dict) for each in value):
        value = dict(enumerate(value))
    if not isinstance(value, dict):
        return {prefix: value}
    found: dict[str, object] = {}
    for key, each in value.items():
        found |= flatten(each, f"{prefix}.{key}" if prefix else str(key))
    return found


class Settings:
    """The settings of a command, of its files, and of its framework's defaults. Notes missing counts and reasons for doubt."""

    def __init__(self, command: TrainingCommand, *layers: Values, open_because: str | None = None, defaults: Values | None = None) -> None:
        self.missing: dict[str, None] = {}
        self.doubts: dict[str, None] = {}
        self._too_small: dict[str, int] = {}
        """Counts below 1, which are a mistake where they leave a group without GPUs."""
        self.spelled: Mapping[str, str] = {}
        """By key: the name that the command uses for it, where that differs."""
        self._env = command.env
        if command.words.loose:
            self.doubts["some words of the command are known only at run time, and may set what counts"] = None
            open_because = open_because or "and may be among the words that are known only at run time"
        self._open_because = open_because
        """Why a missing count may be set where it was not read; then no default counts. `None`: it can't be."""
        self.layers = (*layers, (not open_because and defaults) or {})
        """If several layers have a key, the first of them counts."""

    def value(self, key: str, depth: int = 0) -> object:
        """A value, or a `Gap`."""
        found = next((layer[key] for layer in self.layers if key in layer), Gap.ABSENT)
        if not isinstance(found, str):
            return found
        if (match := _OTHER_KEY.fullmatch(found)) and depth < MAX_DEPTH:
            return self.value(match[1], depth + 1)
        if match := _ENVIRONMENT.fullmatch(found):
            given = self._env.get(match[1], match[2])
            if match[1] not in self._env and given is not None:
                self.doubts[f"{key} is taken from {match[1]}, which is not set here: its default {given} is counted"] = None
            return Gap.UNKNOWN if given is None else parse(given)
        return Gap.UNKNOWN if UNKNOWN in found or "${" in found else found

    def is_set(self, *keys: str) -> bool:
        """Whether one of these keys is set, also if its value is unknown."""
        return any(self.value(key) not in (Gap.ABSENT, None, "", False) for key in keys)

    def count(self, key: str, default: int | None = None) -> int | None:
        """A count that decides. If it is unknown, this is noted, and the result is `None`."""
        found = self.value(key)
        if found is Gap.ABSENT and default is not None and self._open_because is None:
            return default
        number, name = whole(found), self.spelled.get(key, key)
        if number is not None and number < 1:
            self._too_small[name] = number
        if number is None:
            # A cut value could be the beginning of a secret that no longer looks like one.
            shown = (
                "null" if found is None else repr(found) if len(repr(found)) <= MAX_SHOWN else f"a value of {len(repr(found)):,} characters"
            )
            why = found.value if isinstance(found, Gap) else f"is {shown}, not a number"
            because = f", {self._open_because}" if found is Gap.ABSENT and self._open_because else ""
            self.missing[f"{name} {why}{because}"] = None
        return number

    def switch(self, key: str, default: bool = False) -> bool:
        """Whether a switch is on. If that is unknown, the default counts, and a doubt is noted."""
        found = self.value(key)
        if found is Gap.UNKNOWN:
            self.doubts[f"{self.spelled.get(key, key)} {found.value}: counted as {'on' if default else 'off'}"] = None
        return default if isinstance(found, Gap) else str(found).lower() not in ("false", "none", "null", "0", "", "no", "off")

    def text(self, key: str, default: str = "") -> str:
        """A text. If it is unknown, the default counts, and a doubt is noted unless the default is empty."""
        found = self.value(key)
        if found is Gap.UNKNOWN and default:
            self.doubts[f"{self.spelled.get(key, key)} {found.value}: counted as {default}"] = None
        return default if isinstance(found, Gap) or found is None else str(found)

    def budget(self, framework: str, groups: Sequence[Group], *shown: str, dialect: object = None, lines: Sequence[Line] = ()) -> Budget:
        """The budget. It names what is missing only if a group has no number. `shown`: keys that matter beside counts."""
        is_known = all(group.bundles is not None for group in groups)
        missing = () if is_known else tuple(self.missing) or ("these counts give no valid placement group",)
        if not is_known:
            level: Level = "doubt" if self.doubts else "never"  # a fork may take such a count
            lines = [*(Line(level, f"{key} is {number}: nothing to place") for key, number in self._too_small.items()), *lines]
        settings = {
            self.spelled.get(key, key): str(found) for key in shown if not isinstance(found := self.value(key), Gap) and found is not None
        }
        return Budget(framework, str(dialect) if dialect else None, tuple(groups), missing, tuple(lines), settings, tuple(self.doubts))


def different_sizes(because: str, one: str, other: str, *sizes: tuple[int | None, int | None]) -> Iterator[Line]:
    """A line on two models that share GPUs, but with different nodes and GPUs on each. Unknown sizes may agree."""
    if sizes[0] != sizes[1] and None not in (*sizes[0], *sizes[1]):
        told = " and ".join(f"{nodes} × {gpus}" for nodes, gpus in sizes)
        yield Line("never", f"With {because} {one} and {other} must have the same nodes and GPUs per node: {told}")


def whole(value: object) -> int | None:
    """The value as a count; `None`: it is no count."""
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?\d{1,9}\s*", value, re.ASCII):
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_COUNT else None


def without_gpu(name: str, number: int = 1, cpus: float = 1.0) -> Group:
    """Actors or tasks that need no GPU. They are placed one by one."""
    return Group(name, (({"CPU": cpus}, number),), None)


def one_each(name: str, gpus: int | None, strategy: Strategy | None = "PACK", cpus: float = 1.0, device: str = "GPU") -> Group:
    """One group of bundles with one GPU each. The number of bundles is unknown if `gpus` is `None` or makes no sense."""
    if gpus is None or not 0 < gpus <= MAX_COUNT:
        return Group(name, None, strategy)
    return Group(name, (({device: 1.0, "CPU": float(cpus)}, gpus),), strategy)


def whole_nodes(name: str, nodes: int | None, gpus: int | None, strategy: Strategy | None = "PACK", cpus_per_gpu: float = 1.0) -> Group:
    """One group with one bundle for each node. The bundle has `gpus` GPUs."""
    if nodes is None or gpus is None or not 0 < nodes <= MAX_NODES or gpus <= 0:
        return Group(name, None, strategy)
    return Group(name, (({"GPU": float(gpus), "CPU": gpus * cpus_per_gpu}, nodes),), strategy)


def node_groups(
    name: str, nodes: int | None, gpus: int | None, cpus: float = 1.0, strategy: Strategy = "STRICT_PACK", device: str = "GPU"
) -> tuple[Group, ...]:
    """One group for each node, with bundles of one GPU each."""
    if nodes is None or not 0 < nodes <= MAX_NODES:
        return (Group(name, None, strategy),)
    return (one_each(name, gpus, strategy, cpus, device),) * nodes


def product(*numbers: int | None) -> int | None:
    """The product; `None` if a factor is `None`."""
    known = [number for number in numbers if number is not None]
    return math.prod(known) if len(known) == len(numbers) else None
