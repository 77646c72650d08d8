"""Programs that only run another, or a shell: their own words are taken off. Whatever else a command is, it is noted."""

from __future__ import annotations

import itertools
import re
from functools import partial
from typing import TYPE_CHECKING

from cockpit.budget.shell.batch import given_by, submitted
from cockpit.budget.shell.builtins import BUILTINS, Call, shown
from cockpit.budget.shell.output import PRINTERS, formatted, printed
from cockpit.budget.shell.scope import Scope
from cockpit.budget.shell.sums import UNKNOWN

if TYPE_CHECKING:
    from cockpit.budget.shell.run import Run

_SHELLS = {"bash", "sh", "zsh", "dash"}
_PROGRAMS = re.compile(r"(?:.*/)?(?:bash|sh|zsh|dash|ray|torchrun|deepspeed|accelerate|python[\d.]*)")
_ELSEWHERE = {"docker", "podman", "kubectl", "ssh", "pdsh"}
"""What they start knows nothing of the variables here."""
_LAUNCHERS = {"srun", "apptainer", "singularity", "numactl", "taskset"} | _ELSEWHERE
"""They start one of `_PROGRAMS`, or a text for a shell, somewhere behind their own many flags."""
_PREFIXES = {
    "nohup": "", "exec": "a", "env": "uC", "sudo": "ugh", "setsid": "", "nice": "n", "ionice": "cn", "stdbuf": "ioe", "timeout": "ks",
    "command": "", "builtin": "", "time": "fo", "unbuffer": "",
}  # fmt: skip
"""They start what follows; these of their flags have a value."""
_ASCEND = ["-c", "import torch_npu"]
"""How scripts ask Python whether they are on Ascend's accelerators: what is counted here are GPUs."""
_VARIABLE = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL | re.ASCII)


def run_program(run: Run, argv: list[str], scope: Scope) -> bool | None:
    """What a command does to the shell; whatever else it is, it is noted."""
    name = argv[0].rpartition("/")[2]
    if name in BUILTINS:
        return BUILTINS[name](Call(run, argv[1:], scope))
    if name.startswith("python") and argv[1:] == _ASCEND:
        return False
    if name in PRINTERS:
        return _printed(run, name, argv, scope)
    if name in _SHELLS:
        return _shell(run, argv, scope)
    if name in _PREFIXES:
        return _prefixed(run, name, argv[1:], scope)
    if name in _LAUNCHERS:
        return _launched(run, argv, scope)
    if name == "sbatch":
        return _batch(run, argv, scope)
    if name == "xargs":
        return _with_words_given(run, argv[1:], scope)
    return _other(run, argv, scope)


def _other(run: Run, argv: list[str], scope: Scope) -> bool | None:
    if "/" in argv[0] and (argv[0].endswith(".sh") or re.match(r"#!.*sh\b", run.streams.read(argv[0]) or "")):
        return _shell(run, ["bash", *argv], scope)
    if argv[0] == "sed" and any(word.startswith("-i") for word in argv):
        for word in argv[1:]:
            run.streams.store(word, None)
    run.emit(argv, scope)
    return None


def _printed(run: Run, name: str, argv: list[str], scope: Scope) -> bool | None:
    """A program that only works on its words, on what it is given and on files."""
    words = argv[1:]
    if name == "printf" and words[:1] == ["-v"] and len(words) > 2:
        scope.assign(words[1], None, UNKNOWN if (said := formatted(words[2:])) is None else said, more=False)
        return True
    said = printed(name, words, run.streams.given, run.streams.read)
    if said is None and name not in {"echo", "cat", "tee"}:
        run.emit(argv, scope)
    else:
        run.streams.write(said)
    if name == "tee":
        for word in words:
            run.streams.store(word, said, more="-a" in words)
    return True if name in {"echo", "printf", "seq"} else None


def _prefixed(run: Run, name: str, words: list[str], scope: Scope) -> bool | None:
    inner = scope.copy()
    inner.exported = set() if name == "sudo" and not any(re.match(r"-\w*E|--preserve-env", word) for word in words) else inner.exported
    while words and (words[0].startswith("-") or (name in {"env", "sudo"} and _VARIABLE.fullmatch(words[0]))):
        variable = _VARIABLE.fullmatch(words[0])
        if variable:
            inner.assign(variable[1], None, variable[2], more=False)
            inner.exported.add(variable[1])
        elif len(words[0]) == 2 and words[0][1] in _PREFIXES[name]:
            words = words[1:]
            inner.exported -= {words[0]} if name == "env" and words else set()
        elif name == "env" and words[0] in {"-i", "-", "--ignore-environment"}:
            inner.exported = set()
        elif name == "command" and words[0] in {"-v", "-V"}:
            run.streams.write(None)
            return None
        words = words[1:]
    words = words[1:] if name == "timeout" else words
    status = run.call(words, inner) if words else None
    if name == "exec" and words:
        run.leave("exit")
    return status


def _with_words_given(run: Run, words: list[str], scope: Scope) -> bool | None:
    """`xargs`: what is read becomes more words."""
    given = run.streams.given
    given = None if given is None or re.search(r"[\"'\\\0]", given) else given
    found = re.fullmatch(r"(?:-[rt] )*(?:-I ?(\S+) )?(?=[^-])(.*)", " ".join(words), re.DOTALL)
    at = next((at for at, word in enumerate(words) if _PROGRAMS.fullmatch(word)), 0)
    command = words[-found[2].count(" ") - 1 :] if found and not any(" " in word for word in words) else words[at:]
    if given is None or not found or not command:
        return run.call([*command, UNKNOWN], scope) if command else None
    if not found[1]:
        return run.call([*command, *given.split()], scope)
    for line in given.splitlines():
        run.call([word.replace(found[1], line.strip()) for word in command], scope)
    return None


def _launched(run: Run, argv: list[str], scope: Scope) -> bool | None:
    inner = _without_variables(argv, scope) if argv[0] in _ELSEWHERE else scope
    for place, word in enumerate(argv[1:], 1):
        if _PROGRAMS.fullmatch(word):
            return run.apart(partial(run.call, argv[place:]), inner)
    text = argv[-1] if argv[0] in {"ssh", "pdsh"} and len(argv) > 2 and " " in argv[-1] else run.streams.given
    if argv[0] in {"ssh", "pdsh"} and text is not None and text != UNKNOWN:
        return run.apart(partial(run.script, text), inner)
    run.emit(argv, scope)
    return None


def _without_variables(argv: list[str], scope: Scope) -> Scope:
    """Somewhere else: with what `-e NAME=value` hands over."""
    flags = {"-e", "--env"} if argv[0] in {"docker", "podman"} else set()
    said = [word.partition("=")[2] for word in argv if word.startswith("--env=")] if flags else []
    said += [after for flag, after in itertools.pairwise(argv) if flag in flags]
    inner = Scope({}, set(), (), UNKNOWN, scope.output, scope.assumed)
    for name, sign, value in (each.partition("=") for each in said):
        inner.variables[name] = value if sign else UNKNOWN if (own := scope.one_value(name)) == "" else own
        inner.exported.add(name)
    return inner


def _batch(run: Run, argv: list[str], scope: Scope) -> bool | None:
    """`sbatch`: a script of its own, with what Slurm sets for it."""
    job = submitted(argv[1:])
    said = job.wrapped if job.wrapped is not None else run.streams.read(job.words[0]) if job.words else run.streams.given
    if said is None:
        run.unread[f"{shown(job.words[0]) if job.words else 'What sbatch is given'} can't be read, so what it runs isn't known"] = None
        return None
    variables = {key: value for key, value in scope.variables.items() if key in scope.exported}
    slurm = given_by(said, job.flags)
    inner = Scope({**variables, **job.exports, **slurm}, scope.exported | {*job.exports, *slurm}, tuple(job.words[1:]), UNKNOWN)
    inner.output, inner.assumed = scope.output, scope.assumed
    return run.apart(partial(run.script, said), inner)


def _shell(run: Run, argv: list[str], scope: Scope) -> bool | None:
    words = argv[1:]
    text_follows = reads = False
    while words and words[0][:1] in {"-", "+"} and words[0] != "-":
        flag, *words = words
        text_follows |= not flag.startswith("--") and "c" in flag
        reads |= not flag.startswith("--") and "s" in flag
        words = words[1:] if flag in {"-o", "+o", "-O", "--rcfile", "--init-file"} else words
    reads |= not words
    if reads and run.streams.given is None and not words:
        return None
    said = words[0] if text_follows and words else run.streams.given if reads else run.streams.read(words[0])
    if said is None or said == UNKNOWN:
        what = f"{shown(words[0])} can't be read, so what it runs isn't known" if words else "What the shell is given isn't known"
        run.unread[what] = None
        return None
    name = (words[1] if len(words) > 1 else UNKNOWN) if text_follows else words[0] if words and not reads else UNKNOWN
    exported = {key: value for key, value in scope.variables.items() if key in scope.exported}
    exported["BASH_SOURCE"] = (name,)
    arguments = tuple(words[2:] if text_follows else words if reads else words[1:])
    inner = Scope(exported, set(scope.exported), arguments, name, scope.output, scope.assumed)
    with run.streams.fed(None) if reads else run.streams.fed(run.streams.given):
        return run.apart(partial(run.script, said), inner)
