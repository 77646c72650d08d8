"""What a shell does itself: it changes folders, arguments and variables, reads lines and options, and asks."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from cockpit.budget.shell.conditions import holds
from cockpit.budget.shell.expand import count
from cockpit.budget.shell.patterns import parted, quoted
from cockpit.budget.shell.scope import Scope
from cockpit.budget.shell.sums import UNKNOWN

if TYPE_CHECKING:
    from cockpit.budget.shell.flow import Leaving
    from cockpit.budget.shell.run import Run

_QUIET = (":", "true", "trap", "wait", "umask", "ulimit", "shopt", "alias", "sleep", "mkdir", "popd", "hash", "chmod", "touch")
"""They change nothing that counts here."""


class Call(NamedTuple):
    """What one of the shell's own commands is called with."""

    run: Run
    words: list[str]
    scope: Scope


def shown(path: str) -> str:
    """A path with what can't be known of it left out."""
    return path.replace(UNKNOWN, "…")


def _source(call: Call) -> bool | None:
    said = call.run.streams.read(call.words[0]) if call.words else None
    if said is None:
        if call.words and not re.search(r"(?:activate|conda\.sh|\.bashrc|\.bash_profile|\.profile)$", call.words[0]):
            call.run.unread[f"{shown(call.words[0])} can't be read, so what it sets isn't known"] = None
            call.scope.all_told = False
        return None
    kept = call.scope.arguments
    call.scope.arguments = tuple(call.words[1:]) or kept
    with call.scope.kept({"BASH_SOURCE"}):
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


def _unset(call: Call) -> bool | None:
    for name in call.words:
        if name.isidentifier():
            call.scope.unset_one(name)
        elif not name.startswith("-"):
            call.scope.variables[re.split(r"\W", name)[0]] = UNKNOWN
    return True


def _read(call: Call) -> bool | None:
    """`read`: the next line, in pieces, or all that is left with `-d ''`."""
    names, array, whole = _read_options(call.words)
    streams, given = call.run.streams, call.run.streams.given
    if given is None or (UNKNOWN in given and not whole):
        streams.given = None
        call.scope.variables |= dict.fromkeys(names, UNKNOWN)
        return None
    line, ended, rest = (given, "", "") if whole else given.partition("\n")
    streams.given = rest
    if array:
        call.scope.variables[names[0]] = tuple(_parts(line, call.scope))
    else:
        pieces = _parts(line, call.scope, len(names))
        call.scope.variables |= dict(zip(names, [*pieces, *[""] * len(names)], strict=False))
    return bool(ended)


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


def _parts(line: str, scope: Scope, most: int = 0) -> list[str]:
    """A line's words, as IFS parts them: the last name takes all that is left."""
    signs = scope.parting()
    if signs == "":
        return [line]
    if signs == UNKNOWN or (signs.strip(" \t\n") and len(signs) > 1):
        return [UNKNOWN] * (most or 1)
    line = line.strip("".join(sign for sign in signs if sign in " \t\n"))
    if most:
        return line.split(signs if signs.strip() else None, most - 1)
    pieces = parted(line, signs)
    return pieces[:-1] if pieces[-1] == "" else pieces


def _mapfile(call: Call) -> bool | None:
    given = call.run.streams.given
    flags = {word for word in call.words if word.startswith("-")}
    names = [word for word in call.words if word.isidentifier()]
    known = given is not None and UNKNOWN not in given and flags == {"-t"} and len(names) == 1
    call.scope.variables |= dict.fromkeys(names, tuple(given.splitlines()) if known and given is not None else UNKNOWN)
    return True if known else None


def _getopts(call: Call) -> bool | None:
    """`getopts`: the next option; its place is `OPTIND`, as in the shell, and within letters that stand together none is known."""
    scope, (allowed, name, *given) = call.scope, [*call.words, "", ""][: max(2, len(call.words))]
    arguments = tuple(given) or scope.arguments
    place = scope.one_value("OPTIND") if "OPTIND" in scope.variables else "1"
    rest = arguments[int(place) - 1 :] if place.isdigit() and place != "0" else (UNKNOWN,)
    word = rest[0] if rest else ""
    if UNKNOWN in word:
        scope.variables |= {name: UNKNOWN, "OPTARG": UNKNOWN, "OPTIND": UNKNOWN}
        return None
    if word[:1] != "-" or word in {"-", "--"}:
        scope.variables |= {name: "?", "OPTIND": str(int(place) + (word == "--"))}
        return False
    scope.variables |= _option(word, rest[1:2], allowed, name, int(place))
    return True


def _option(word: str, after: tuple[str, ...], allowed: str, name: str, place: int) -> dict[str, str]:
    """The variables that one option sets."""
    letter = word[1]
    if f"{letter}:" in allowed and letter != ":":
        value = word[2:] or (after[0] if after else None)
        if value is None:
            return {name: ":" if allowed.startswith(":") else "?", "OPTARG": letter, "OPTIND": str(place + 1)}
        return {name: letter, "OPTARG": value, "OPTIND": str(place + (1 if word[2:] else 2))}
    if len(word) > 2:
        return {name: UNKNOWN, "OPTARG": UNKNOWN, "OPTIND": UNKNOWN}
    return {name: letter if letter in allowed.replace(":", "") else "?", "OPTARG": "", "OPTIND": str(place + 1)}


def _let(call: Call) -> bool | None:
    results = [count(word, call.scope) for word in call.words]
    return None if not results or results[-1] == UNKNOWN else results[-1] != "0"


def _eval(call: Call) -> bool | None:
    call.scope.all_told &= not any(UNKNOWN in word for word in call.words)
    return call.run.script(" ".join(call.words), call.scope)


def _test(call: Call) -> bool | None:
    words = call.words[:-1] if call.words[-1:] == ["]"] else call.words
    return holds([(word, quoted(word)) for word in words], lambda sign, value: call.run.fact(call.scope, sign, value))


def _leave(kind: Leaving) -> Callable[[Call], bool | None]:
    return lambda call: call.run.leave(kind, {"0": True, UNKNOWN: None}.get(call.words[0], False) if call.words else None)


def _leave_loops(kind: Leaving) -> Callable[[Call], bool | None]:
    return lambda call: call.run.leave(kind, True, int(call.words[0]) if call.words and re.fullmatch(r"[1-9]", call.words[0]) else 1)


def _copy(call: Call) -> bool | None:
    """`cp` and `mv` of one file; of more, what lies there isn't known."""
    if len(call.words) == 2:
        call.run.streams.store(call.words[1], call.run.streams.read(call.words[0]))
    elif call.words:
        call.run.streams.store(call.words[-1], None)
    return None


BUILTINS: dict[str, Callable[[Call], bool | None]] = {
    **dict.fromkeys(_QUIET, lambda _: True),
    **dict.fromkeys(("cd", "pushd"), _cd),
    **dict.fromkeys(("source", "."), _source),
    **dict.fromkeys(("[", "test"), _test),
    **dict.fromkeys(("mapfile", "readarray"), _mapfile),
    "getopts": _getopts,
    "pwd": _pwd,
    "false": lambda _: False,
    "set": _set,
    "shift": _shift,
    "unset": _unset,
    "read": _read,
    "let": _let,
    "eval": _eval,
    "exit": _leave("exit"),
    "return": _leave("return"),
    "break": _leave_loops("break"),
    "continue": _leave_loops("continue"),
    **dict.fromkeys(("cp", "mv"), _copy),
}
