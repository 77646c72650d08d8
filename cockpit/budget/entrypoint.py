"""Finds the training command in an entrypoint or a script, and what is asked for around it."""

from __future__ import annotations

import itertools
import math
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from cockpit.budget.demand import Budget, Group, Line, entrypoint_groups
from cockpit.budget.frameworks.easyr1 import easyr1
from cockpit.budget.frameworks.openrlhf import openrlhf, simplerl
from cockpit.budget.frameworks.verl import verl
from cockpit.budget.frameworks.verl.recipes import recipe_of
from cockpit.budget.ray_submit import SubmitCommand, submission
from cockpit.budget.scripts import UNKNOWN, ScriptCommand, commands
from cockpit.budget.scripts.streams import from_start
from cockpit.budget.stop_commands import BY_NAME, RAY_STOP, stop_lines

Read = Callable[[str], "str | None"]
_MODULE = re.compile(r"(?:openrlhf|verl|verl_tool|recipe|examples)(?:\.\w+)+")
_TRAINING = re.compile(
    r"openrlhf\.cli\.train_ppo_ray\w*|examples\.train_ppo_ray"
    r"|(?:verl(?:_tool)?\.(?:trainer|experimental|mix_src)|recipe)\.(?:\w+\.)*(?!main_eval$)\w*main\w*"
)
"""`main_eval` scores what is written already, and holds no GPU."""
_COUNT = re.compile(r"\+{0,2}trainer\.(?:nnodes|n_gpus_per_node)=.*|--(?:actor|vllm|rollout)[-._]num[-_][\w-]+(?:=.*)?", re.DOTALL)
"""A training command's own words, whatever its program is called."""
_MENTIONED = re.compile(r"train_ppo_ray|main_ppo")
_COPIES = re.compile(r"--?(?:nproc[-_]per[-_]node|nnodes|num[-_](?:processes|nodes|machines|gpus)|np)(?:=(.*))?")
"""How many processes a launcher starts, or on how many nodes."""
_PIN = re.compile(r"['\"]?(openrlhf|verl)(?:\[[\w,]*\])?==([\w.]+)['\"]?")
_TAG = re.compile(r"(?:.*[ @'\"])?git\+\S+/(OpenRLHF|verl)(?:\.git)?@v?([0-9][\w.]*)(?:#.*)?['\"]?", re.IGNORECASE)
"""A release, as pip is told: by its number, or by its tag in git."""
_MAX_DEPTH = 3
_ASSUMED = 8
"""Unset variables that are tried one by one for whether the budget depends on them."""
_NOT_READ = {"sbatch", "xargs", "parallel"}
"""They start a script or add words that are not read here."""
_ONLY_SHOW = {"echo", "printf", "cat", "grep", "sed", "awk", "ls", "tee", "cp", "mv", "rm", "git", "tail", "head", "vim"}


class _Around(msgspec.Struct, frozen=True):
    """Where a command runs."""

    read: Read
    groups: tuple[Group, ...] = ()
    """What its job asks for itself."""
    depth: int = 0

    def within(self, job: SubmitCommand) -> _Around:
        """In a job that is submitted here: paths are those of its working_dir."""

        def read(path: str) -> str | None:
            if posixpath.isabs(path) or not job.folder:
                return self.read(path)
            known = "://" not in job.folder and UNKNOWN not in job.folder
            return self.read(posixpath.normpath(posixpath.join(job.folder, path))) if known else None

        return _Around(read, job.around, self.depth + 1)


class _Found(msgspec.Struct, frozen=True):
    """A training command: `argv` is what stands behind the module's name."""

    module: str
    argv: tuple[str, ...]
    around: _Around
    pins: Mapping[str, str]
    """Releases that were installed before it, by framework."""
    maybe: bool


def budget_of(
    entrypoint: str,
    *,
    env: Mapping[str, str | None] = {},
    read: Read = lambda _: None,
    job: Mapping[str, float] | None = None,
    packages: Sequence[str] = (),
    installed: Mapping[str, str] = {},
) -> Budget:
    """What a job's entrypoint, or the text of a script, will ask for.

    `env`: the variables that it is started with, `None` where nobody knows the value. `read`: a file's text by the path that the
    script names, `None` where there is none. `job`: what the job asks for itself, by resource. `packages`: what its runtime_env
    installs, as pip is told. `installed`: releases of `openrlhf` and `verl` that lie beside Ray; a job may bring another one.
    """
    text = entrypoint.replace(UNKNOWN, "")
    pins, own = _find_pins(packages), entrypoint_groups(job or {})

    def budget_with(unknown: Mapping[str, None]) -> tuple[Budget, tuple[str, ...]]:
        search = _Search(pins)
        search.script(text, {**env, **unknown}, _Around(read))
        return _budget(search, own, installed), tuple(search.assumed)

    budget, assumed = budget_with({})
    decisive = (name for name in assumed[:_ASSUMED] if budget_with({name: None})[0].groups != budget.groups)
    why = "is treated as unset: nothing in the preset or script sets it"
    doubts = (Line("doubt", f"{name} {why}", f"{name} in the preset's env") for name in decisive)
    return msgspec.structs.replace(budget, lines=(*budget.lines, *doubts))


def _budget(search: _Search, own: tuple[Group, ...], installed: Mapping[str, str]) -> Budget:
    budgets = [_budget_of_command(each, installed) for each in search.found]
    if not budgets:
        return _budget_without_training(search, own)
    if any(budget.groups != budgets[0].groups for budget in budgets[1:]):
        return _budget_of_many(search.found, budgets)
    budget, around = budgets[0], search.found[0].around
    groups = None if budget.groups is None else (*own, *around.groups, *budget.groups)
    return msgspec.structs.replace(budget, groups=groups, lines=(*budget.lines, *_doubt_lines(search)))


def _budget_without_training(search: _Search, own: tuple[Group, ...]) -> Budget:
    """No training command that is known: what the job says itself is all there is."""
    if search.strangers:
        return Budget(
            None, unread=tuple(f"cockpit does not know the program {name}" for name in search.strangers), lines=_stop_lines(search)
        )
    if own:
        return Budget("Ray", groups=own, lines=tuple(_doubt_lines(search)))
    if len(search.jobs) == 1 and search.jobs[0]:
        return Budget("Ray", groups=search.jobs[0], lines=tuple(_doubt_lines(search)))
    return Budget(None, unread=tuple(search.unread) or ("No training command that cockpit knows was found",), lines=_stop_lines(search))


def _budget_of_many(found: Sequence[_Found], budgets: Sequence[Budget]) -> Budget:
    names = ", ".join(dict.fromkeys(each.module for each in found))
    return Budget(budgets[0].framework, unread=(f"{len(found)} training commands ask for different amounts: {names}",))


def _doubt_lines(search: _Search) -> list[Line]:
    sure = not search.found or any(not each.maybe for each in search.found)
    maybe = [] if sure else [Line("doubt", "The training command runs only under a condition that cockpit can't evaluate")]
    return [*search.copies, *(Line("doubt", sentence) for sentence in search.unread), *maybe, *_stop_lines(search)]


def _stop_lines(search: _Search) -> tuple[Line, ...]:
    """A script that starts a Ray of its own stops that one."""
    return tuple(line for line in search.stops if line is not RAY_STOP or not search.starts_ray)


def _budget_of_command(found: _Found, installed: Mapping[str, str]) -> Budget:
    if found.module == "verl.trainer.main":
        return easyr1(found.argv, found.around.read)
    if found.module.startswith(("verl.", "verl_tool.", "recipe.")) or recipe_of(found.module):
        pin, beside = found.pins.get("verl"), installed.get("verl")
        return verl(found.argv, found.module, lambda path: found.around.read(from_start(path)), pinned=pin, installed=beside)
    if found.module == "openrlhf.cli.train_ppo_ray_box":
        return simplerl(found.argv)
    if found.module in {"openrlhf.cli.train_ppo_ray", "examples.train_ppo_ray"}:
        beside = _find_sources(found.around.read) or installed.get("openrlhf")
        return openrlhf(found.argv, release=found.pins.get("openrlhf"), installed=beside)
    return Budget("OpenRLHF", unread=(f"cockpit does not know the program {found.module}",))


def _find_sources(read: Read) -> str | None:
    """The release of OpenRLHF's own sources, which come first where the command runs in them; or one soon after it."""
    said = (read("version.txt") or "").strip() if read("openrlhf/cli/train_ppo_ray.py") else ""
    return said if re.fullmatch(r"[0-9]+(\.[0-9]+)+\w*(\.\w+)*", said) else None


class _Search:
    """Looks through a script, and through what it hands to Ray or to another shell."""

    def __init__(self, pins: Mapping[str, str]) -> None:
        self.found: list[_Found] = []
        self.jobs: list[tuple[Group, ...]] = []
        self.strangers: dict[str, None] = {}
        self.unread: dict[str, None] = {}
        self.assumed: dict[str, None] = {}
        self.stops: dict[Line, None] = {}
        self.copies: dict[Line, None] = {}
        self.starts_ray = False
        self._pins = dict(pins)

    def script(self, text: str, env: Mapping[str, str | None], around: _Around, *, maybe: bool = False) -> None:
        """All commands of a text."""
        script = commands(text, env=env, read=around.read)
        self.unread |= dict.fromkeys(script.unread)
        self.assumed |= dict.fromkeys(script.assumed)
        for command in script.commands:
            self._command(command, around, maybe=maybe or command.maybe)

    def _command(self, command: ScriptCommand, around: _Around, *, maybe: bool) -> None:
        argv = command.argv
        self._pins.update(_find_pins(argv))
        self.starts_ray = self.starts_ray or argv[:2] == ("ray", "start")
        name = argv[0].rpartition("/")[2]
        if name in _ONLY_SHOW or around.depth > _MAX_DEPTH:
            return
        self.stops |= dict.fromkeys(stop_lines(argv))
        if name == "kill" or any(word.rpartition("/")[2] in BY_NAME for word in argv):
            return  # it ends the programs that it names
        if name in _NOT_READ and (name == "sbatch" or any(_module(word) or _MENTIONED.search(word) for word in argv)):
            instead = ": check its script, `cockpit check -- bash SCRIPT`" if name == "sbatch" else ""
            self.unread[f"cockpit does not read what {name} starts{instead}"] = None
            return
        job = submission(argv)
        if job:
            self.jobs.append(job.around)
            self._pins.update(_find_pins(job.packages))
            known = {name: None if UNKNOWN in value else value for name, value in job.env.items()}
            self.script(job.entrypoint, known, around.within(job), maybe=maybe)
            return
        program = _program(argv) if any(_COUNT.fullmatch(word) for word in argv) else None
        for place, word in enumerate(argv):
            module = _module(word) or (word if word == program and recipe_of(word) else None)
            if module:
                self.copies |= dict.fromkeys(_copies_lines(argv, place))
                self.found.append(_Found(module, argv[place + 1 :], around, dict(self._pins), maybe))
                return
        if program:
            self.strangers[program] = None
        if any(" " in word and _MENTIONED.search(word) for word in argv[1:]):
            self.unread[f"cockpit does not read what {name} starts"] = None


def _copies_lines(argv: Sequence[str], place: int) -> Iterator[Line]:
    """Where a launcher starts the program at that place more than once: each copy would be a driver of Ray with groups of its own."""
    said = [
        found[1] if found[1] is not None else after
        for word, after in itertools.pairwise((*argv[:place], ""))
        if (found := _COPIES.fullmatch(word))
    ]
    more = [value for value in said if value != "1"]
    if not more:
        return
    launcher, program = argv[0].rpartition("/")[2], argv[place]
    times = math.prod(int(value) for value in said) if all(value.isascii() and value.isdecimal() for value in said) else None
    often = "an unknown number of times" if UNKNOWN in "".join(more) else f"{times} times" if times else "more than once"
    once = f"python3 {program}" if program.endswith(".py") else f"python3 -m {program}"
    yield Line(
        "doubt" if UNKNOWN in "".join(more) else "never",
        f"{launcher} starts {program} {often}: it is a Ray driver that starts its own workers, so each copy asks for all its GPUs again",
        f"start it once: `{once}` with the same arguments, without {launcher}",
    )


def _program(argv: Sequence[str]) -> str:
    """What a command runs, behind the Python that runs it."""
    module = next((after for flag, after in itertools.pairwise(argv) if flag in {"-m", "--module"}), None)
    return module or next((word for word in argv if word.endswith(".py")), argv[0])


def _find_pins(words: Sequence[str]) -> dict[str, str]:
    found = [match for word in words if (match := _PIN.fullmatch(word) or _TAG.fullmatch(word))]
    return {match[1].lower(): match[2] for match in found}


def _module(word: str) -> str | None:
    """`verl.trainer.main_ppo`, or the path of its file."""
    name = posixpath.normpath(word).removesuffix(".py").replace("/", ".") if word.endswith(".py") else word
    for match in _MODULE.finditer(name):
        if match.end() == len(name) and _TRAINING.fullmatch(match[0]):
            return match[0]
    if posixpath.basename(word) == "train_ppo_ray.py":
        return "openrlhf.cli.train_ppo_ray"
    return "verl.trainer.main_ppo" if word == "main_ppo.py" else None
