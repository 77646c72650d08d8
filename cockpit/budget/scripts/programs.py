"""Applies commands that are no functions: builtins change folders, arguments and variables; others start programs or shells."""

from __future__ import annotations

import posixpath
import re
from functools import partial

from cockpit.budget.scripts.batch import slurm_variables
from cockpit.budget.scripts.evaluate import holds
from cockpit.budget.scripts.run import LeftError, ScriptRun, Status, StopError
from cockpit.budget.scripts.scope import UNKNOWN, UNKNOWN_VALUE, Scope

_SUCCEEDS = {
    ":", "true", "trap", "wait", "umask", "ulimit", "shopt", "alias", "sleep", "mkdir", "popd", "hash", "chmod", "touch",
}  # fmt: skip
"""They change nothing that counts here."""
_SET_VARIABLES = {"read", "mapfile", "readarray", "getopts", "let", "unset", "printf"}
"""They change variables in a way that is not followed."""
_PROGRAMS = re.compile(r"(?!-)(?:.*/)?(?:bash|sh|zsh|dash|ray|torchrun|deepspeed|accelerate|python[\d.]*|[\w.-]+\.sh)")
_LAUNCHERS = {
    "srun", "apptainer", "singularity", "numactl", "taskset", "nohup", "exec", "env", "sudo", "setsid", "nice", "stdbuf", "timeout", "time",
    "uv", "screen", "poetry", "conda", "pixi", "xvfb-run",
}  # fmt: skip
"""They start one of `_PROGRAMS`, which follows their own flags."""
_ASCEND = ["-c", "import torch_npu"]
"""Scripts use it to test for Ascend accelerators. The test counts as failed, because cockpit counts GPUs."""
_SLURM_VALUED = re.compile(r"-\w|--(?:nodes|ntasks|gpus|gres|time|partition|account|job-name|output|error|mem)")
"""Flags of `sbatch` whose value may be the next word."""
_VARIABLE = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL | re.ASCII)
_OF_USERS = re.compile(r"(?:activate|conda\.sh|\.bashrc|\.bash_profile|\.profile)$")
"""Files of a user or an environment, which set no count."""


def run_program(run: ScriptRun, argv: list[str], scope: Scope) -> Status:
    """Apply a command to the shell's state, and return whether it succeeds. A command that is not known here is recorded."""
    name, words = argv[0].rpartition("/")[2], argv[1:]
    if name in _SUCCEEDS:
        return True
    if name in _LAUNCHERS:
        return _launch(run, name, argv, scope)
    match name:
        case "false":
            return False
        case "cd" | "pushd":
            scope.folder = scope.path(words[-1]) if words and words[-1] != "-" else None
            return True
        case "pwd":
            run.write(None if scope.folder is None else scope.folder + "\n")
            return True
        case "[" | "test":
            return holds(words[:-1] if words[-1:] == ["]"] else words)
        case "source" | ".":
            return _source(run, words, scope)
        case "set":
            if "--" in words or (words and words[0][:1] not in {"-", "+"}):
                scope.arguments = tuple(words[words.index("--") + 1 :] if "--" in words else words)
            return True
        case "shift":
            number = words[0] if words else "1"
            if not re.fullmatch("[0-9]{1,9}", number) or UNKNOWN in scope.arguments[: int(number)]:
                scope.arguments = (UNKNOWN,)
                return None
            if int(number) > len(scope.arguments):
                return False
            scope.arguments = scope.arguments[int(number) :]
            return True
        case "eval":
            scope.is_complete &= not any(UNKNOWN in word for word in words)
            return run.script(" ".join(words), scope)
        case "exit" | "return":
            raise LeftError(name, {"0": True, UNKNOWN: None}.get(words[0], False) if words else None)
        case "break" | "continue":
            raise LeftError(name) if words in ([], ["1"]) else StopError  # a larger number leaves several loops
        case _ if name in _SET_VARIABLES:
            run.write(None)
            if name != "printf" or words[:1] == ["-v"]:
                names = [found[0] for word in words if (found := re.match(r"[A-Za-z_]\w*", word, re.ASCII))]
                scope.variables |= dict.fromkeys([*names, "REPLY", "MAPFILE", "OPTARG", "OPTIND"], UNKNOWN_VALUE)
            return None
        case "echo":
            end = "" if words[:1] == ["-n"] else "\n"
            said = words[1:] if words[:1] == ["-n"] else words
            run.write(None if said[:1] and re.fullmatch(r"-[neE]+", said[0]) else " ".join(said) + end)
            return True
        case "dirname" | "basename" | "realpath" | "readlink":
            run.write(_path(name, [word for word in words if word != "--"], scope))
            return True
        case "sed" if (changed := _substitute(words, run.input)) is not None:
            run.write(changed)
            return True
        case "cp" | "mv" | "ln" | "tee" | "sed":
            for word in words:
                run.mark_changed(word, scope)
            run.write(None)
            return None
        case "bash" | "sh" | "zsh" | "dash":
            return _shell(run, words, scope)
        case "sbatch":
            return _sbatch(run, words, scope)
        case "tmux" if any(" " in word for word in words):
            for typed in (word for word in words if " " in word):
                run.run_in_subshell(partial(run.script, typed), scope)
            return True
    if "/" in argv[0] and (argv[0].endswith(".sh") or re.match(r"#!.*sh\b", run.read(argv[0], scope) or "")):
        return _shell(run, argv, scope)
    if name.startswith("python") and words == _ASCEND:
        return False
    run.emit(argv, scope)
    return None


def _show(path: str) -> str:
    return path.replace(UNKNOWN, "…")


def _path(program: str, words: list[str], scope: Scope) -> str | None:
    """The path that `dirname`, `basename` and `realpath` print; `None`: unknown."""
    if not words or UNKNOWN in "".join(words):
        return None
    if program == "dirname":
        return (posixpath.dirname(words[0]) or ".") + "\n"
    path = posixpath.basename(words[0]).removesuffix("".join(words[1:2])) if program == "basename" else scope.path(words[-1])
    return None if path is None else path + "\n"


def _source(run: ScriptRun, words: list[str], scope: Scope) -> Status:
    said = run.read(words[0], scope) if words else None
    if said is None:
        if words and not _OF_USERS.search(words[0]):
            if not run.unsure:  # a file behind an unknown condition, such as `[ -f file ]`, may be absent
                run.unread[f"{_show(words[0])} can't be read, so what it sets is unknown"] = None
            scope.is_complete = False
        return None
    outside = scope.copy()
    scope.arguments = tuple(words[1:]) or scope.arguments
    scope.variables["BASH_SOURCE"] = (words[0],)
    status = run.script(said, scope)
    scope.arguments = outside.arguments
    scope.restore({"BASH_SOURCE"}, outside)
    return status


def _substitute(words: list[str], said: str | None) -> str | None:
    """The output of `… | sed s/plain/text/`; that of any other `sed` is unknown."""
    found = re.fullmatch(r"s(.)([\w./ -]+)\1([\w./ -]*)\1(g?)", words[0]) if len(words) == 1 else None
    return None if said is None or found is None else said.replace(found[2], found[3], -1 if found[4] else 1)


def _launch(run: ScriptRun, name: str, argv: list[str], scope: Scope) -> Status:
    place = next((place for place, word in enumerate(argv) if place and _PROGRAMS.fullmatch(word)), len(argv))
    inner = scope.copy()
    if name == "sudo" or (name == "env" and any(word.startswith("-") for word in argv[1:place])):
        inner.variables |= dict.fromkeys(inner.exported, UNKNOWN_VALUE)  # their flags may remove variables
    for found in filter(None, map(_VARIABLE.fullmatch, argv[1:place])):
        inner.variables[found[1]] = (found[2],)
        inner.exported.add(found[1])
    status = run.run_in_subshell(partial(run.call, argv[place:]) if place < len(argv) else lambda _: run.emit(argv, inner), inner)
    if name == "exec" and len(argv) > 1:
        raise LeftError("exit")
    return status


def _sbatch(run: ScriptRun, words: list[str], scope: Scope) -> Status:
    """Apply `sbatch flags script words`. Its flags overwrite the `#SBATCH` lines of the script."""
    wrapped = next((word.partition("=")[2] for word in words if word.startswith("--wrap=")), None)
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if _SLURM_VALUED.fullmatch(words[at]) else 1
    return _shell(run, ["-c", wrapped] if wrapped else words[at:], scope, sbatch=words[:at])


def _shell(run: ScriptRun, words: list[str], scope: Scope, sbatch: list[str] | None = None) -> Status:
    """Apply `bash script words` and `bash -c text words`. Standard input is not read."""
    text_follows = False
    while words and words[0][:1] in {"-", "+"} and words[0] != "-":
        flag, *words = words
        text_follows |= not flag.startswith("--") and "c" in flag
        words = words[1:] if flag in {"-o", "+o", "-O", "--rcfile", "--init-file"} else words
    said = words[0] if text_follows and words else run.read(words[0], scope) if words else None
    if said is None or said == UNKNOWN:
        stdin = "cockpit does not read what a shell gets on stdin"
        run.unread[f"{_show(words[0])} can't be read, so what it runs is unknown" if words else stdin] = None
        return None
    name, arguments = (words[1] if len(words) > 1 else UNKNOWN, words[2:]) if text_follows else (words[0], words[1:])
    exported = {key: value for key, value in scope.variables.items() if key in scope.exported}
    exported["BASH_SOURCE"] = (name,)
    if slurm := slurm_variables(said, sbatch or ()):
        if sbatch is None and "SLURM_" in said and not slurm.keys() <= exported.keys():
            run.unread[f"the #SBATCH lines of {_show(name)} are counted, which only sbatch applies"] = None
        exported = {**slurm, **exported} if sbatch is None else {**exported, **slurm}
    inner = scope.copy()
    inner.variables, inner.exported, inner.functions = exported, {*scope.exported, *slurm}, {}
    inner.arguments, inner.name, inner.is_complete = tuple(arguments), name, True
    return run.run_in_subshell(partial(run.script, said), inner)
