"""What the shell does itself, and the programs that only run another: their words are taken off."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from cockpit.budget.shell_expand import Scope, count
from cockpit.budget.shell_sums import UNKNOWN
from cockpit.budget.shell_tests import holds

if TYPE_CHECKING:
    from cockpit.budget.shell_run import Leaving, Run

DECLARATIONS = {"export", "local", "declare", "typeset", "readonly"}
_SHELLS = {"bash", "sh", "zsh", "dash"}
_PROGRAMS = re.compile(r"(?:.*/)?(?:bash|sh|zsh|dash|ray|torchrun|deepspeed|accelerate|python[\d.]*)")
_LAUNCHERS = {
    "srun", "sbatch", "mpirun", "mpiexec", "docker", "podman", "apptainer", "singularity", "kubectl", "numactl", "taskset", "ssh", "pdsh",
}  # fmt: skip
"""They start one of `_PROGRAMS`, or a text for a shell, somewhere behind their own many flags."""
_PREFIXES = {
    "nohup": "", "exec": "a", "env": "uC", "sudo": "ugh", "setsid": "", "nice": "n", "ionice": "cn", "stdbuf": "ioe", "timeout": "ks",
    "command": "", "builtin": "", "time": "fo", "unbuffer": "",
}  # fmt: skip
"""They start what follows; these of their flags have a value."""
_QUIET = (":", "true", "trap", "wait", "echo", "printf", "umask", "ulimit", "shopt", "alias", "sleep", "mkdir", "popd", "hash")
"""They change nothing that counts here."""
_VARIABLE = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL | re.ASCII)


class Call(NamedTuple):
    """What one of the shell's own commands is called with."""

    run: Run
    words: list[str]
    scope: Scope
    given: str | None
    """Its standard input, where that is a heredoc."""


def run_program(run: Run, argv: list[str], scope: Scope, given: str | None) -> bool | None:
    """What a command does to the shell; whatever else it is, it is noted."""
    name = argv[0].rpartition("/")[2]
    if name in _BUILTINS:
        return _BUILTINS[name](Call(run, argv[1:], scope, given))
    if name in _SHELLS:
        return _shell(run, argv, scope, given)
    if name in _PREFIXES:
        return _prefixed(run, name, argv[1:], scope, given)
    if name in _LAUNCHERS:
        return _launched(run, argv, scope, given)
    run.emit(argv, scope)
    return None


def _prefixed(run: Run, name: str, words: list[str], scope: Scope, given: str | None) -> bool | None:
    inner = scope.copy()
    while words and (words[0].startswith("-") or (name in {"env", "sudo"} and _VARIABLE.fullmatch(words[0]))):
        variable = _VARIABLE.fullmatch(words[0])
        if variable:
            inner.assign(variable[1], None, variable[2], more=False)
            inner.exported.add(variable[1])
        elif len(words[0]) == 2 and words[0][1] in _PREFIXES[name]:
            words = words[1:]
        elif name == "command" and words[0] in {"-v", "-V"}:
            return None
        words = words[1:]
    words = words[1:] if name == "timeout" else words
    status = run.call(words, inner, given) if words else None
    if name == "exec" and words:
        run.leave("exit")
    return status


def _launched(run: Run, argv: list[str], scope: Scope, given: str | None) -> bool | None:
    for place, word in enumerate(argv[1:], 1):
        if _PROGRAMS.fullmatch(word):
            run.apart(partial(run.call, argv[place:], given=given), scope)
            return None
    text = argv[-1] if argv[0] in {"ssh", "pdsh"} and len(argv) > 2 and " " in argv[-1] else given
    if argv[0] in {"ssh", "pdsh", "sbatch"} and text is not None and text != UNKNOWN:
        exported = scope.exported if argv[0] == "sbatch" else set()
        variables = {key: value for key, value in scope.variables.items() if key in exported}
        there = Scope(variables, set(exported), (), UNKNOWN, scope.output, scope.assumed)
        run.apart(lambda inner: run.script(text, inner), there)
        return None
    run.emit(argv, scope)
    return None


def _shell(run: Run, argv: list[str], scope: Scope, given: str | None) -> bool | None:
    words = argv[1:]
    text_follows = False
    while words and words[0][:1] in {"-", "+"} and words[0] != "-":
        flag, *words = words
        text_follows |= not flag.startswith("--") and "c" in flag
        words = words[1:] if flag in {"-o", "+o", "-O", "--rcfile", "--init-file"} else words
    if not words and given is None:
        return None
    said = words[0] if text_follows and words else given if not words else _read(run, words[0])
    if said is None or said == UNKNOWN:
        run.unread[f"{_shown(words[0])} can't be read, so what it runs isn't known" if words else "What the shell is given isn't known"] = (
            None
        )
        return None
    name = (words[1] if len(words) > 1 else UNKNOWN) if text_follows else words[0] if words else UNKNOWN
    exported = {key: value for key, value in scope.variables.items() if key in scope.exported}
    inner = Scope(exported, set(scope.exported), tuple(words[2:] if text_follows else words[1:]), name, scope.output, scope.assumed)
    run.apart(lambda inner: run.script(said, inner), inner)
    return None


def _shown(path: str) -> str:
    return path.replace(UNKNOWN, "…")


def _read(run: Run, path: str) -> str | None:
    if UNKNOWN in path or (run.folder is None and not path.startswith("/")):
        return None
    return run.read(posixpath.normpath(posixpath.join(run.folder or "", path)))


def _source(call: Call) -> bool | None:
    said = _read(call.run, call.words[0]) if call.words else None
    if said is None:
        if call.words and not re.search(r"(?:activate|conda\.sh|\.bashrc|\.bash_profile|\.profile)$", call.words[0]):
            call.run.unread[f"{_shown(call.words[0])} can't be read, so what it sets isn't known"] = None
            call.scope.all_told = False
        return None
    kept = call.scope.arguments
    call.scope.arguments = tuple(call.words[1:]) or kept
    call.run.script(said, call.scope)
    call.scope.arguments = kept
    return None


def _cd(call: Call) -> bool | None:
    path = call.words[-1] if call.words else UNKNOWN
    if UNKNOWN in path or path == "-" or (call.run.folder is None and not path.startswith("/")):
        call.run.folder = None
    else:
        call.run.folder = posixpath.join(call.run.folder or "", path)
    return True


def _set(call: Call) -> bool | None:
    if "--" in call.words:
        call.scope.arguments = tuple(call.words[call.words.index("--") + 1 :])
    elif call.words and call.words[0][:1] not in {"-", "+"}:
        call.scope.arguments = tuple(call.words)
    return True


def _shift(call: Call) -> bool | None:
    number = int(call.words[0]) if call.words and call.words[0].isdigit() else 1 if not call.words else None
    if number is None or UNKNOWN in call.scope.arguments[:number]:
        call.scope.arguments = (UNKNOWN,)
        return None
    if number > len(call.scope.arguments):
        return False
    call.scope.arguments = call.scope.arguments[number:]
    return True


def _unset(call: Call) -> bool | None:
    for name in call.words:
        if name.isidentifier():
            call.scope.variables[name] = ""
        call.scope.exported.discard(name)
    return True


def _read_variables(call: Call) -> bool | None:
    """`read`: all of a heredoc with `-d ''`, or its first line, in pieces."""
    names, array, whole = _read_options(call.words)
    if call.given is None or (UNKNOWN in call.given and not whole):
        call.scope.variables |= dict.fromkeys(names, UNKNOWN)
    elif array:
        call.scope.variables[names[0]] = tuple(_pieces(call, whole=whole))
    else:
        pieces = [call.given.strip(" \t\n")] if whole and len(names) == 1 else _pieces(call, whole=whole, most=len(names))
        call.scope.variables |= dict(zip(names, [*pieces, *[""] * len(names)], strict=False))
    return None


def _read_options(words: list[str]) -> tuple[list[str], bool, bool]:
    """The variables, whether it is an array, and whether all lines are read."""
    names: list[str] = []
    array, whole, at = False, False, 0
    while at < len(words):
        flag = words[at] if words[at].startswith("-") else ""
        array |= flag.endswith("a")
        whole |= flag.endswith("d") and words[at + 1 : at + 2] == [""]
        at += 1 if flag and flag[-1] in "dinNptu" else 0
        names += [] if flag else [words[at]]
        at += 1
    return names or ["REPLY"], array, whole


def _pieces(call: Call, *, whole: bool, most: int = 0) -> list[str]:
    """A line's words, as IFS parts them: the last name takes all that is left."""
    sign = call.scope.variables.get("IFS", " \t\n")
    line = (call.given or "") if whole else (call.given or "").partition("\n")[0]
    if sign == "":
        return [line]
    if not isinstance(sign, str) or UNKNOWN in sign or (len(sign) > 1 and sign.strip()):
        return [UNKNOWN] * (most or 1)
    return line.split(sign if sign.strip() else None, most - 1 if most else -1)


def _mapfile(call: Call) -> bool | None:
    for name in [word for word in call.words if word.isidentifier()]:
        call.scope.variables[name] = UNKNOWN
    return None


def _let(call: Call) -> bool | None:
    results = [count(word, call.scope) for word in call.words]
    return None if not results or results[-1] == UNKNOWN else results[-1] != "0"


def _eval(call: Call) -> bool | None:
    call.scope.all_told &= not any(UNKNOWN in word for word in call.words)
    call.run.script(" ".join(call.words), call.scope)
    return None


def _test(call: Call) -> bool | None:
    return holds([(word, True) for word in (call.words[:-1] if call.words[-1:] == ["]"] else call.words)])


def _leave(kind: Leaving) -> Callable[[Call], bool | None]:
    return lambda call: call.run.leave(kind)


_BUILTINS: dict[str, Callable[[Call], bool | None]] = {
    **dict.fromkeys(_QUIET, lambda _: True),
    **dict.fromkeys(("cd", "pushd"), _cd),
    **dict.fromkeys(("source", "."), _source),
    **dict.fromkeys(("[", "test"), _test),
    **dict.fromkeys(("mapfile", "readarray", "getopts"), _mapfile),
    "false": lambda _: False,
    "set": _set,
    "shift": _shift,
    "unset": _unset,
    "read": _read_variables,
    "let": _let,
    "eval": _eval,
    "exit": _leave("exit"),
    "return": _leave("return"),
    "break": _leave("break"),
    "continue": _leave("continue"),
}
