"""What the shell does itself, and the programs that only run another: their words are taken off."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from cockpit.budget.shell_expand import Scope, count
from cockpit.budget.shell_sums import UNKNOWN
from cockpit.budget.shell_tests import holds

if TYPE_CHECKING:
    from cockpit.budget.shell_run import Run

DECLARATIONS = {"export", "local", "declare", "typeset", "readonly"}
_SHELLS = {"bash", "sh", "zsh", "dash"}
_PROGRAMS = re.compile(r"(?:.*/)?(?:bash|sh|zsh|dash|ray|torchrun|deepspeed|accelerate|python[\d.]*)")
_LAUNCHERS = {"srun", "mpirun", "mpiexec", "docker", "podman", "apptainer", "singularity", "kubectl", "numactl", "taskset", "ssh", "pdsh"}
"""They start one of `_PROGRAMS`, or a text for a shell, somewhere behind their own many flags."""
_PREFIXES = {"nohup": "", "exec": "a", "env": "uC", "sudo": "ugh", "setsid": "", "nice": "n", "ionice": "cn", "stdbuf": "ioe", "timeout": "ks",
             "command": "", "builtin": "", "time": "fo", "caffeinate": "", "unbuffer": ""}  # fmt: skip
"""They start what follows; these of their flags have a value."""
_VARIABLE = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL | re.ASCII)


def run_program(run: Run, argv: list[str], scope: Scope, given: str | None) -> bool | None:
    """What a command does to the shell; whatever else it is, it is noted."""
    name = argv[0].rpartition("/")[2]
    if name in _BUILTINS:
        return _BUILTINS[name](run, argv[1:], scope, given)
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
            run.apart(lambda inner, words=argv[place:]: run.call(words, inner, given), scope)
            return None
    if argv[0] in {"ssh", "pdsh"} and len(argv) > 2 and " " in argv[-1]:
        run.apart(lambda inner: run.script(argv[-1], inner), scope)
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


def _source(run: Run, words: list[str], scope: Scope, given: str | None) -> bool | None:
    said = _read(run, words[0]) if words else None
    if said is None:
        if words and not re.search(r"(?:activate|conda\.sh|\.bashrc|\.bash_profile|\.profile)$", words[0]):
            run.unread[f"{_shown(words[0])} can't be read, so what it sets isn't known"] = None
        return None
    kept = scope.arguments
    scope.arguments = tuple(words[1:]) or kept
    run.script(said, scope)
    scope.arguments = kept
    return None


def _cd(run: Run, words: list[str], scope: Scope, given: str | None) -> bool | None:
    path = words[-1] if words else UNKNOWN
    if UNKNOWN in path or path == "-" or (run.folder is None and not path.startswith("/")):
        run.folder = None
    else:
        run.folder = posixpath.join(run.folder or "", path)
    return True


def _set(run: Run, words: list[str], scope: Scope, given: str | None) -> bool | None:
    if "--" in words:
        scope.arguments = tuple(words[words.index("--") + 1 :])
    elif words and words[0][:1] not in {"-", "+"}:
        scope.arguments = tuple(words)
    return True


def _shift(run: Run, words: list[str], scope: Scope, given: str | None) -> bool | None:
    number = int(words[0]) if words and words[0].isdigit() else 1 if not words else None
    if number is None or UNKNOWN in scope.arguments[:number]:
        scope.arguments = (UNKNOWN,)
        return None
    if number > len(scope.arguments):
        return False
    scope.arguments = scope.arguments[number:]
    return True


def _unset(run: Run, words: list[str], scope: Scope, given: str | None) -> bool | None:
    for name in words:
        if name.isidentifier():
            scope.variables[name] = ""
        scope.exported.discard(name)
    return True


def _read_variables(run: Run, words: list[str], scope: Scope, given: str | None) -> bool | None:
    """`read`: all of a heredoc with `-d ''`; anything else isn't known."""
    names: list[str] = []
    whole, at = False, 0
    while at < len(words):
        if words[at].startswith("-"):
            whole |= words[at].endswith("d") and words[at + 1 : at + 2] == [""]
            at += 1 if words[at][-1] in "adinNptu" else 0
        else:
            names.append(words[at])
        at += 1
    for name in names:
        scope.variables[name] = given.strip(" \t\n") if whole and given is not None and len(names) == 1 else UNKNOWN
    return None


def _mapfile(run: Run, words: list[str], scope: Scope, given: str | None) -> bool | None:
    for name in [word for word in words if word.isidentifier()]:
        scope.variables[name] = UNKNOWN
    return None


def _let(run: Run, words: list[str], scope: Scope, given: str | None) -> bool | None:
    results = [count(word, scope) for word in words]
    return None if not results or results[-1] == UNKNOWN else results[-1] != "0"


def _eval(run: Run, words: list[str], scope: Scope, given: str | None) -> bool | None:
    run.script(" ".join(words), scope)
    return None


def _test(run: Run, words: list[str], scope: Scope, given: str | None) -> bool | None:
    return holds([(word, True) for word in (words[:-1] if words[-1:] == ["]"] else words)])


def _leave(run: Run, kind: str) -> bool | None:
    run.leave(kind)
    return None


def _nothing(run: Run, words: list[str], scope: Scope, given: str | None) -> bool | None:
    return True


_Builtin = Callable[["Run", list[str], Scope, "str | None"], "bool | None"]
_BUILTINS: dict[str, _Builtin] = {
    **dict.fromkeys(
        (":", "true", "trap", "wait", "echo", "printf", "umask", "ulimit", "shopt", "alias", "sleep", "mkdir", "popd", "hash"), _nothing
    ),
    **dict.fromkeys(("cd", "pushd"), _cd),
    **dict.fromkeys(("source", "."), _source),
    **dict.fromkeys(("[", "test"), _test),
    **dict.fromkeys(("mapfile", "readarray", "getopts"), _mapfile),
    "false": lambda *_: False,
    "set": _set,
    "shift": _shift,
    "unset": _unset,
    "read": _read_variables,
    "let": _let,
    "eval": _eval,
    "exit": lambda run, *_: _leave(run, "exit"),
    "return": lambda run, *_: _leave(run, "return"),
    "break": lambda run, *_: _leave(run, "break"),
    "continue": lambda run, *_: _leave(run, "continue"),
}
