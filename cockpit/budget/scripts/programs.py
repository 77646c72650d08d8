"""Programs that run another, or a shell: their own words are taken off. Whatever else a command is, it is noted."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from functools import partial

from cockpit.budget.scripts.batch import slurm_variables
from cockpit.budget.scripts.builtins import BUILTINS, Call, show
from cockpit.budget.scripts.run import ScriptRun, leave
from cockpit.budget.scripts.scope import Scope
from cockpit.budget.scripts.sums import UNKNOWN

_SHELLS = {"bash", "sh", "zsh", "dash"}
_PROGRAMS = re.compile(r"(?!-)(?:.*/)?(?:bash|sh|zsh|dash|ray|torchrun|deepspeed|accelerate|python[\d.]*|[\w.-]+\.sh)")
_LAUNCHERS = {
    "srun", "apptainer", "singularity", "numactl", "taskset", "nohup", "exec", "env", "sudo", "setsid", "nice", "stdbuf", "timeout", "time",
    "uv", "screen", "poetry", "conda", "pixi", "xvfb-run",
}  # fmt: skip
"""They start one of `_PROGRAMS` somewhere behind their own flags."""
_ASCEND = ["-c", "import torch_npu"]
"""How scripts ask Python whether they are on Ascend's accelerators: what is counted here are GPUs."""
_SLURM_VALUED = {
    "--nodes",
    "--ntasks",
    "--gpus",
    "--gres",
    "--time",
    "--partition",
    "--account",
    "--job-name",
    "--output",
    "--error",
    "--mem",
}
_VARIABLE = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL | re.ASCII)


def _echo(words: list[str]) -> str | None:
    end = "" if words[:1] == ["-n"] else "\n"
    words = words[1:] if words[:1] == ["-n"] else words
    return None if words[:1] and re.fullmatch(r"-[neE]+", words[0]) else " ".join(words) + end


def _part(cut: Callable[[str], str]) -> Callable[[list[str]], str | None]:
    """`basename path .sh` too."""

    def show(words: list[str]) -> str | None:
        words = [word for word in words if word != "--"]
        if not words or UNKNOWN in "".join(words):
            return None
        return cut(words[0]).removesuffix(words[1] if len(words) > 1 else "") + "\n"

    return show


PRINTERS: dict[str, Callable[[list[str]], str | None]] = {
    "echo": _echo,
    "dirname": _part(lambda path: posixpath.dirname(path) or "."),
    "basename": _part(posixpath.basename),
}
"""What a program prints for its words; `None`: that can't be known."""


def run_program(run: ScriptRun, argv: list[str], scope: Scope) -> bool | None:
    """What a command does to the shell; whatever else it is, it is noted."""
    name = argv[0].rpartition("/")[2]
    if name in BUILTINS:
        return BUILTINS[name](Call(run, argv[1:], scope))
    if name.startswith("python") and argv[1:] == _ASCEND:
        return False
    if name in PRINTERS:
        run.streams.write(PRINTERS[name](argv[1:]))
        return True if name == "echo" else None
    if name in _SHELLS:
        return _shell(run, argv[1:], scope)
    if name == "sbatch":
        return _sbatch(run, argv[1:], scope)
    if name == "tmux" and any(" " in word for word in argv):
        for typed in (word for word in argv if " " in word):
            run.run_in_subshell(partial(run.script, typed), scope)
        return True
    if name in _LAUNCHERS:
        return _launch(run, name, argv, scope)
    if "/" in argv[0] and (argv[0].endswith(".sh") or re.match(r"#!.*sh\b", run.streams.read(argv[0]) or "")):
        return _shell(run, argv, scope)
    run.emit(argv, scope)
    return None


def _launch(run: ScriptRun, name: str, argv: list[str], scope: Scope) -> bool | None:
    place = next((place for place, word in enumerate(argv) if place and _PROGRAMS.fullmatch(word)), len(argv))
    inner = scope.copy()
    if name == "sudo" or (name == "env" and any(word.startswith("-") for word in argv[1:place])):
        inner.variables |= dict.fromkeys(inner.exported, UNKNOWN)  # their flags say which variables they take away
    for found in filter(None, map(_VARIABLE.fullmatch, argv[1:place])):
        inner.assign(found[1], found[2])
        inner.exported.add(found[1])
    status = run.run_in_subshell(partial(run.call, argv[place:]) if place < len(argv) else lambda _: run.emit(argv, inner), inner)
    if name == "exec" and len(argv) > 1:
        leave("exit")
    return status


def _sbatch(run: ScriptRun, words: list[str], scope: Scope) -> bool | None:
    """`sbatch flags script words`: its flags go before the script's `#SBATCH` lines."""
    wrapped = next((word.partition("=")[2] for word in words if word.startswith("--wrap=")), None)
    at = 0
    while at < len(words) and words[at].startswith("-"):
        takes_next = "=" not in words[at] and (len(words[at]) == 2 or words[at] in _SLURM_VALUED)
        at += 2 if takes_next else 1
    return _shell(run, ["-c", wrapped] if wrapped else words[at:], scope, sbatch=words[:at])


def _shell(run: ScriptRun, words: list[str], scope: Scope, sbatch: list[str] | None = None) -> bool | None:
    """`bash script words` and `bash -c text words`; what a shell is given on standard input is not read."""
    text_follows = False
    while words and words[0][:1] in {"-", "+"} and words[0] != "-":
        flag, *words = words
        text_follows |= not flag.startswith("--") and "c" in flag
        words = words[1:] if flag in {"-o", "+o", "-O", "--rcfile", "--init-file"} else words
    said = words[0] if text_follows and words else run.streams.read(words[0]) if words else None
    if said is None or said == UNKNOWN:
        stdin = "cockpit does not read what a shell gets on stdin"
        run.unread[f"{show(words[0])} can't be read, so what it runs is unknown" if words else stdin] = None
        return None
    name, arguments = (words[1] if len(words) > 1 else UNKNOWN, words[2:]) if text_follows else (words[0], words[1:])
    exported = {key: value for key, value in scope.variables.items() if key in scope.exported}
    exported["BASH_SOURCE"] = (name,)
    if slurm := slurm_variables(said, sbatch or ()):
        if sbatch is None and "SLURM_" in said and not slurm.keys() <= exported.keys():
            run.unread[f"the #SBATCH lines of {show(name)} are counted, which only sbatch applies"] = None
        exported = {**slurm, **exported} if sbatch is None else {**exported, **slurm}
    inner = Scope(exported, {*scope.exported, *slurm}, tuple(arguments), name, scope.output, scope.assumed, shell=scope.shell)
    return run.run_in_subshell(partial(run.script, said), inner)
