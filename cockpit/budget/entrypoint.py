"""Finds the training command in an entrypoint or a script, and what is asked for around it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from cockpit.budget.asked import Budget, Group, Line
from cockpit.budget.openrlhf import openrlhf, simplerl
from cockpit.budget.ray_submit import Submission, submission
from cockpit.budget.shell import UNKNOWN, Command, Script, commands
from cockpit.budget.verl import verl

Read = Callable[[str], "str | None"]
_MODULE = re.compile(r"(?:openrlhf|verl|recipe|examples)(?:\.\w+)+")
_TRAINING = re.compile(
    r"openrlhf\.cli\.train_ppo_ray\w*|examples\.train_ppo_ray|verl\.(?:trainer|experimental)\.[\w.]*main\w*|recipe\.[\w.]*main\w*"
)
_MENTIONED = re.compile(r"train_ppo_ray|main_ppo")
_PIN = re.compile(r"['\"]?openrlhf(?:\[[\w,]*\])?==([\w.]+)['\"]?")
_ASSUMED = 8
"""So many variables are looked at one by one."""
_ONLY_SHOW = {"echo", "printf", "cat", "grep", "sed", "awk", "ls", "tee", "cp", "mv", "rm", "git", "tail", "head", "vim", "kill", "pkill"}


class _Found(NamedTuple):
    """A training command: `argv` is what stands behind the module's name."""

    module: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    maybe: bool
    around: Group | None
    """What its job asks for itself."""
    pin: str | None


def budget_of(
    entrypoint: str,
    *,
    env: Mapping[str, str | None] = {},
    read: Read = lambda _: None,
    job: Mapping[str, float] | None = None,
) -> Budget:
    """What a job's entrypoint, or the text of a script, will ask for.

    `env`: the variables that it is started with, `None` where nobody knows the value. `read`: a file's text by the path that the
    script names, `None` where there is none. `job`: what the job asks for itself, by resource.
    """
    text = entrypoint.replace(UNKNOWN, "")
    budget, assumed = _budget(text, env, read, job)
    if not assumed:
        return budget
    decisive = [name for name in assumed[:_ASSUMED] if _budget(text, {**env, name: None}, read, job)[0].groups != budget.groups]
    lines = [Line("doubt", f"{name} is taken as not set, because nothing here sets it", f"{name} in the preset's env") for name in decisive]
    return msgspec.structs.replace(budget, lines=(*budget.lines, *lines))


def _budget(text: str, env: Mapping[str, str | None], read: Read, job: Mapping[str, float] | None) -> tuple[Budget, tuple[str, ...]]:
    script = commands(text, env=env, read=read)
    found = [each for command in script.commands for each in _training(command, read, None, None, 0)]
    own = _of_job(job)
    if not found:
        return _plain(script, own), script.assumed
    budgets = [_read(each, read) for each in found]
    if any(budget.groups != budgets[0].groups for budget in budgets[1:]):
        return _several(found, budgets, own), script.assumed
    budget, first = budgets[0], found[0]
    groups = None if budget.groups is None else (*own, *([first.around] if first.around else []), *budget.groups)
    lines = (*budget.lines, *_doubts(script, all(each.maybe for each in found)))
    return msgspec.structs.replace(budget, groups=groups, lines=lines), script.assumed


def _of_job(job: Mapping[str, float] | None) -> tuple[Group, ...]:
    shape = {name: amount for name, amount in (job or {}).items() if amount}
    return (Group("entrypoint", ((shape, 1),), None),) if shape else ()


def _plain(script: Script, own: tuple[Group, ...]) -> Budget:
    """No training command that is known: what the job says itself is all there is."""
    if own:
        return Budget("Ray", groups=own)
    jobs = [each.around for command in script.commands if (each := submission(command.argv)) and each.around]
    if len(jobs) == 1:
        return Budget("Ray", groups=tuple(jobs))
    return Budget(None, unread=script.unread or ("No training command that is known here was found",))


def _several(found: Sequence[_Found], budgets: Sequence[Budget], own: tuple[Group, ...]) -> Budget:
    names = ", ".join(dict.fromkeys(each.module for each in found))
    return Budget(budgets[0].framework, unread=(f"{len(found)} training commands, and they ask for different amounts: {names}",))


def _doubts(script: Script, maybe: bool) -> list[Line]:
    lines = [Line("doubt", sentence) for sentence in script.unread]
    return [*lines, *([Line("doubt", "The training command runs only under a condition that can't be known here")] if maybe else [])]


def _read(found: _Found, read: Read) -> Budget:
    if found.module.startswith(("verl.", "recipe.")):
        return verl(found.argv, {name: None if value == UNKNOWN else value for name, value in found.env.items()}, found.module, read)
    if found.module == "openrlhf.cli.train_ppo_ray_box":
        return simplerl(found.argv, found.env)
    if found.module in {"openrlhf.cli.train_ppo_ray", "examples.train_ppo_ray"}:
        return openrlhf(found.argv, found.env, release=found.pin)
    return Budget("simpleRL-reason", unread=(f"{found.module} is not known here",))


def _training(command: Command, read: Read, around: Group | None, pin: str | None, depth: int) -> list[_Found]:
    """The training commands in one command: its own, or what it hands to Ray or to another shell."""
    argv = command.argv
    if not argv or argv[0].rpartition("/")[2] in _ONLY_SHOW or depth > 3:
        return []
    job = submission(argv)
    if job:
        return _submitted(job, command, read, depth)
    for place, word in enumerate(argv):
        module = _module(word)
        if module:
            return [_Found(module, argv[place + 1 :], command.env, command.maybe, around, pin)]
    texts = [word for word in argv[1:] if " " in word and _MENTIONED.search(word)]
    return [each for text in texts for each in _within(text, command, command.env, read, around, pin, depth)]


def _module(word: str) -> str | None:
    """`verl.trainer.main_ppo`, or the path of its file."""
    name = posixpath.normpath(word).removesuffix(".py").replace("/", ".") if word.endswith(".py") else word
    for match in _MODULE.finditer(name):
        if match.end() == len(name) and _TRAINING.fullmatch(match[0]):
            return match[0]
    file = posixpath.basename(word)
    return {"train_ppo_ray.py": "openrlhf.cli.train_ppo_ray", "main_ppo.py": "verl.trainer.main_ppo"}.get(file)


def _submitted(job: Submission, command: Command, read: Read, depth: int) -> list[_Found]:
    def inside(path: str) -> str | None:
        if posixpath.isabs(path) or not job.folder:
            return read(path)
        return None if "://" in job.folder or UNKNOWN in job.folder else read(posixpath.normpath(posixpath.join(job.folder, path)))

    pins = [match[1] for package in job.packages if (match := _PIN.fullmatch(package))]
    return _within(job.entrypoint, command, job.env, inside, job.around, pins[0] if pins else None, depth)


def _within(
    text: str, command: Command, env: Mapping[str, str], read: Read, around: Group | None, pin: str | None, depth: int
) -> list[_Found]:
    script = commands(text, env={name: None if UNKNOWN in value else value for name, value in env.items()}, read=read)
    inner = [each for found in script.commands for each in _training(found, read, around, pin, depth + 1)]
    return [each._replace(maybe=each.maybe or command.maybe) for each in inner]
