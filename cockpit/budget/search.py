"""Finds the training commands of an entrypoint or a script, also in jobs that it submits and in shells that it starts."""

from __future__ import annotations

import itertools
import math
import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import msgspec

from cockpit.budget.command import TrainingCommand
from cockpit.budget.config_files import Read
from cockpit.budget.demand import Budget, Group, Line
from cockpit.budget.frameworks import budget_of_command
from cockpit.budget.ray_submit import SubmitCommand, submission
from cockpit.budget.scripts import UNKNOWN, ScriptCommand, commands
from cockpit.budget.scripts.scope import START, from_start
from cockpit.budget.stop_commands import BY_NAME, broad_stop, stop_lines
from cockpit.text import clean

_MENTIONED = re.compile(r"train_ppo_ray|main_ppo|trainer\.n(?:nodes|_gpus_per_node)=|--actor[-_.]num[-_]")
"""Marks of a training command in the arguments of another program."""
_COPIES = re.compile(r"--?(?:nproc[-_]per[-_]node|nnodes|num[-_](?:processes|nodes|machines|gpus)|np)(?:=(.*))?")
"""The flags of launchers for the number of processes or nodes."""
_PIN = re.compile(r"['\"]?(openrlhf|verl|skyrl|skyrl-train|slime|areal)(?:\[[\w,]*\])?==([\w.]+)['\"]?")
_TAG = re.compile(r"(?:.*[ @'\"])?git\+\S+/(OpenRLHF|verl|SkyRL|slime|AReaL)(?:\.git)?@v?([0-9][\w.]*)(?:#.*)?['\"]?", re.IGNORECASE)
"""A requirement of pip that names a release: `_PIN` by its number, `_TAG` by its tag in git."""
_PLACEHOLDER = re.compile(r"(?i)<[\w /.-]+>|(?:^|.*[/=])(?:path/to|your)(?:[/_-].*|$)|your[ _].*|to_be_filled")
_MAX_DEPTH = 3
_NOT_READ = {"xargs", "parallel"}
"""These programs add words to a command, and the words are not read here."""
_ONLY_SHOW = {"echo", "printf", "cat", "grep", "sed", "awk", "ls", "tee", "cp", "mv", "rm", "git", "tail", "head", "vim", "pip", "pip3"}


class Place(msgspec.Struct, frozen=True):
    """Where a command runs."""

    read: Read
    """Returns the text of a file. The path is relative to the folder in which the script begins."""
    root: Read
    """The same, relative to the folder in which the first script begins."""
    find: Read = lambda _: None
    groups: tuple[Group, ...] = ()
    """What its job asks for its entrypoint."""
    depth: int = 0

    def in_folder(self, folder: str | None) -> Read:
        """Return a reader of files whose paths are relative to another folder."""

        def read(path: str) -> str | None:
            if UNKNOWN in path or (folder is None and not path.startswith("/")):
                return None
            return self.root(from_start(path)) if path.startswith(START) else self.read(from_start(posixpath.join(folder or "", path)))

        return read

    def within(self, job: SubmitCommand) -> Place:
        """The place of a job that is submitted here: paths are relative to its working_dir."""
        folder = job.folder or ""
        read = self.in_folder(None if "://" in folder or UNKNOWN in folder else folder)
        return Place(read, self.root, self.find, job.around, self.depth + 1)


class Found(msgspec.Struct, frozen=True):
    """A training command and its budget."""

    budget: Budget
    around: tuple[Group, ...]
    maybe: bool
    """It runs only under a condition that can't be evaluated."""


class Search:
    """Collects what a script, and all that it starts, would ask Ray for."""

    def __init__(self, pins: Mapping[str, str], installed: Mapping[str, str]) -> None:
        self.found: list[Found] = []
        self.jobs: list[tuple[Group, ...]] = []
        self.programs: dict[str, None] = {}
        """Python programs that are no known training command."""
        self.unread: dict[str, None] = {}
        self.assumed: dict[str, None] = {}
        self.lines: dict[Line, None] = {}
        self._stops: dict[str, None] = {}
        self._starts_ray = False
        self._pins = dict(pins)
        self._installed = installed

    def script(self, text: str, env: Mapping[str, str | None], place: Place, *, shell: Mapping[str, str] = {}, maybe: bool = False) -> None:
        """Read all commands of a text."""
        script = commands(text, env=env, read=place.read, shell=shell)
        self.unread |= dict.fromkeys(script.unread)
        self.assumed |= dict.fromkeys(script.assumed)
        for command in script.commands:
            self._command(command, place, maybe=maybe or command.maybe)

    def stop_lines(self) -> tuple[Line, ...]:
        """Lines on commands that end processes of other people."""
        return tuple(stop_lines(self._stops, starts_ray=self._starts_ray))

    def _command(self, command: ScriptCommand, place: Place, *, maybe: bool) -> None:
        argv = command.argv
        self._pins.update(find_pins(argv))
        self._starts_ray = self._starts_ray or argv[:2] == ("ray", "start")
        name = argv[0].rpartition("/")[2]
        if name in _ONLY_SHOW or place.depth > _MAX_DEPTH:
            return
        if stop := broad_stop(argv):
            self._stops[stop] = None
        if name == "kill" or any(word.rpartition("/")[2] in BY_NAME for word in argv):
            return  # its words name the processes that it ends
        mentioned = any(_MENTIONED.search(word) for word in argv[1:])
        if name in _NOT_READ and mentioned:
            self.unread[f"cockpit does not read what {name} starts"] = None
            return
        job = submission(argv)
        if job:
            self.jobs.append(job.around)
            self._pins.update(find_pins(job.packages))
            known = {name: None if UNKNOWN in value else value for name, value in job.env.items()}
            self.script(job.entrypoint, known, place.within(job), maybe=maybe)
            return
        read, find, pins = place.in_folder(command.folder), partial(_find_from_start, place.find), dict(self._pins)
        programs = _programs_at(argv)
        for at in programs:
            program = TrainingCommand(argv[at], argv[at + 1 :], read, find, pins, self._installed, command.env)
            budget = budget_of_command(program)
            if budget is not None:
                self.lines |= dict.fromkeys((*_copies_lines(argv, at), *_placeholder_lines(program.argv)))
                self.found.append(Found(budget, place.groups, maybe))
                return
        at = programs[0]
        if any(" " in word and _MENTIONED.search(word) for word in argv[1:]):
            self.unread[f"cockpit does not read what {name} starts"] = None
        elif at and (argv[at].endswith(".py") or argv[at - 1] in ("-m", "--module")):
            self.programs[argv[at].replace(UNKNOWN, "…")] = None


def _find_from_start(find: Read, suffix: str) -> str | None:
    found = find(suffix) if suffix and UNKNOWN not in suffix else None
    return f"{START}/{found}" if found else None


def _programs_at(argv: Sequence[str]) -> list[int]:
    """The places where a command may name its program: after `-m`, a Python file, also after a launcher; else its first word."""
    last = len(argv) - 1
    modules = [at + 1 for at, word in enumerate(argv) if word in ("-m", "--module") and 0 < at < last]
    return sorted({*modules, *(at for at, word in enumerate(argv) if word.endswith(".py"))}) or [0]


def find_pins(words: Sequence[str]) -> dict[str, str]:
    """By package: the release that pip is to install."""
    found = [match for word in words if (match := _PIN.fullmatch(word) or _TAG.fullmatch(word))]
    return {match[1].lower(): match[2] for match in found}


def _placeholder_lines(argv: Sequence[str]) -> Iterator[Line]:
    """Lines on placeholders that a person must replace."""
    values = dict.fromkeys(word.partition("=")[2] if re.match(r"[\w.+-]+=", word) else word for word in argv if UNKNOWN not in word)
    if found := [value for value in values if _PLACEHOLDER.fullmatch(value)]:
        shown = ", ".join(found[:3]) + (" …" if len(found) > 3 else "")
        yield Line("doubt", f"placeholders are still in the command: {shown}")


def _copies_lines(argv: Sequence[str], at: int) -> Iterator[Line]:
    """Lines on a launcher that starts the program more than once: each copy would be a Ray driver with its own groups."""
    said = [
        found[1] if found[1] is not None else after
        for word, after in itertools.pairwise((*argv[:at], ""))
        if (found := _COPIES.fullmatch(word))
    ]
    more = [value for value in said if value != "1"]
    if not more:
        return
    launcher, program = argv[0].rpartition("/")[2], argv[at]
    times = math.prod(int(value) for value in said) if all(re.fullmatch("[0-9]{1,9}", value) for value in said) else None
    often = "an unknown number of times" if UNKNOWN in "".join(more) else f"{times} times" if times else "more than once"
    word = shlex.quote(clean(program).replace("`", "…"))
    once = f"python3 {word}" if program.endswith(".py") else f"python3 -m {word}"
    yield Line(
        "doubt" if UNKNOWN in "".join(more) else "never",
        f"{launcher} starts {program} {often}: it is a Ray driver that starts its own workers, so each copy asks for all its GPUs again",
        f"start it once: `{once}` with the same arguments, without {launcher}",
    )
