"""What a shell does itself: it changes folders, arguments and variables, sources files, and tests conditions."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from typing import NoReturn

import msgspec

from cockpit.budget.scripts.conditions import holds
from cockpit.budget.scripts.run import Leaving, ScriptRun, StopError, leave
from cockpit.budget.scripts.scope import Scope
from cockpit.budget.scripts.sums import UNKNOWN

_QUIET = (":", "true", "trap", "wait", "umask", "ulimit", "shopt", "alias", "sleep", "mkdir", "popd", "hash", "chmod", "touch")
"""They change nothing that counts here."""


class Call(msgspec.Struct, frozen=True):
    """What one of the shell's own commands is called with."""

    run: ScriptRun
    words: list[str]
    scope: Scope


def show(path: str) -> str:
    """A path with what can't be known of it left out."""
    return path.replace(UNKNOWN, "…")


def _source(call: Call) -> bool | None:
    said = call.run.streams.read(call.words[0]) if call.words else None
    if said is None:
        if call.words and not re.search(r"(?:activate|conda\.sh|\.bashrc|\.bash_profile|\.profile)$", call.words[0]):
            if not call.run.streams.unsure:  # under `[ -f file ]` it may not be there
                call.run.unread[f"{show(call.words[0])} can't be read, so what it sets is unknown"] = None
            call.scope.all_told = False
        return None
    kept = call.scope.arguments
    call.scope.arguments = tuple(call.words[1:]) or kept
    with call.scope.restore_after({"BASH_SOURCE"}):
        call.scope.variables["BASH_SOURCE"] = (call.words[0],)
        status = call.run.script(said, call.scope)
    call.scope.arguments = kept
    return status


def _cd(call: Call) -> bool | None:
    path = call.words[-1] if call.words else UNKNOWN
    streams = call.run.streams
    known = UNKNOWN not in path and path != "-" and (streams.folder is not None or path.startswith("/"))
    streams.folder = posixpath.join(streams.folder or "", path) if known else None
    return True


def _pwd(call: Call) -> bool | None:
    streams = call.run.streams
    streams.write(None if streams.folder is None else streams.folder + "\n")
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


def _set_by_input(call: Call) -> bool | None:
    """`read`, `getopts`, `let`, `unset` and their like: which values they leave isn't known."""
    names = [found[0] for word in call.words if (found := re.match(r"[A-Za-z_]\w*", word, re.ASCII))]
    call.scope.variables |= dict.fromkeys([*names, "REPLY", "MAPFILE", "OPTARG", "OPTIND"], UNKNOWN)
    return None


def _printf(call: Call) -> bool | None:
    """What it prints isn't known; `printf -v` sets a variable."""
    call.run.streams.write(None)
    return _set_by_input(call) if call.words[:1] == ["-v"] else True


def _eval(call: Call) -> bool | None:
    call.scope.all_told &= not any(UNKNOWN in word for word in call.words)
    return call.run.script(" ".join(call.words), call.scope)


def _test(call: Call) -> bool | None:
    return holds(call.words[:-1] if call.words[-1:] == ["]"] else call.words)


def _leave(kind: Leaving) -> Callable[[Call], bool | None]:
    return lambda call: leave(kind, {"0": True, UNKNOWN: None}.get(call.words[0], False) if call.words else None)


def _leave_loop(kind: Leaving) -> Callable[[Call], bool | None]:
    def leave_one(call: Call) -> NoReturn:
        if call.words and call.words[0] != "1":
            raise StopError  # of several loops
        leave(kind)

    return leave_one


def _sed(call: Call) -> bool | None:
    """`… | sed s/plain/text/`; any other is not followed."""
    said = call.run.streams.input
    found = re.fullmatch(r"s(.)([\w./ -]+)\1([\w./ -]*)\1(g?)", call.words[0]) if len(call.words) == 1 else None
    if said is None or found is None:
        return _change_files(call)
    call.run.streams.write(said.replace(found[2], found[3], -1 if found[4] else 1))
    return True


def _realpath(call: Call) -> bool | None:
    path = call.words[-1] if call.words else UNKNOWN
    folder = call.run.streams.folder
    known = UNKNOWN not in path and (folder is not None or path.startswith("/"))
    call.run.streams.write(posixpath.join(folder or "", path) + "\n" if known else None)
    return True


def _change_files(call: Call) -> bool | None:
    """`cp`, `mv`, `tee`, `sed -i`: what lies in the files that they name isn't known after it."""
    for word in call.words:
        call.run.streams.mark_changed(word)
    call.run.streams.write(None)
    return None


BUILTINS: dict[str, Callable[[Call], bool | None]] = {
    **dict.fromkeys(_QUIET, lambda _: True),
    **dict.fromkeys(("cd", "pushd"), _cd),
    **dict.fromkeys(("source", "."), _source),
    **dict.fromkeys(("[", "test"), _test),
    **dict.fromkeys(("read", "mapfile", "readarray", "getopts", "let", "unset"), _set_by_input),
    "printf": _printf,
    "sed": _sed,
    **dict.fromkeys(("realpath", "readlink"), _realpath),
    "pwd": _pwd,
    "false": lambda _: False,
    "set": _set,
    "shift": _shift,
    "eval": _eval,
    "exit": _leave("exit"),
    "return": _leave("return"),
    "break": _leave_loop("break"),
    "continue": _leave_loop("continue"),
    **dict.fromkeys(("cp", "mv", "ln", "tee"), _change_files),
}
