"""Reads lists of hosts, and builds the command that runs a Python on one of them."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta
from msgspec.structs import replace

from cockpit.config.document import PIPE_PREFIXES, Document, InputError, abbreviate_home, expand_home, read_text
from cockpit.model import Node, Value
from cockpit.trust import why_not_ours

DEFAULT_REACH: Final = (
    "ssh -o BatchMode=yes -o ConnectTimeout=5 -o ServerAliveInterval=5 -o ControlMaster=auto -o ControlPersist=60 -o ControlPath={control}"
    " {user@}{address} {python} -"
)
THROUGH_RAY: Final = "ray"
"""The value of `reach` that uses no command: other hosts are reached only through a live Ray."""
HOST_WORDS: Final = {
    "": "a list of hosts",
    "[]": "a name, or {name: …, address: …, user: …, python: …}",
    "[].name": "a name",
    "[].address": "a host name or an IP address",
    "[].user": "a name",
    "[].python": "the path of a Python",
}
"""The value that each key expects, in words, for `Document.convert`."""


class HostEntry(Value, frozen=True, forbid_unknown_fields=True):
    """A host, and how to reach it."""

    name: Annotated[str, Meta(description="Its name on the screen.")]
    address: Annotated[str, Meta(description="Its address, if the name does not resolve to it.")] = ""
    user: Annotated[str, Meta(description="The user to log in as.")] = ""
    python: Annotated[str, Meta(description="A Python 3.8 or later on that host.")] = "python3"

    @property
    def target(self) -> str:
        """The host's address, or else its name."""
        return self.address or self.name


class HostFinder:
    """Finds the config's host for a node of Ray, by any name of the node. If two hosts match, the first is used."""

    def __init__(self, entries: Sequence[HostEntry]) -> None:
        self._entries = entries
        self._names = {entry.name: place for place, entry in reversed([*enumerate(entries)])}
        self._targets = {entry.target: place for place, entry in reversed([*enumerate(entries)])}

    def entry(self, node: Node) -> HostEntry:
        """Return the config's host for a node, or else a host with the address that Ray knows."""
        by_name = (self._names.get(name) for name in (node.host, node.name, node.ip))
        found = [place for place in (*by_name, self._targets.get(node.ip)) if place is not None]
        return self._entries[min(found)] if found else HostEntry(node.title, address=node.ip)


def named_apart(entries: Iterable[HostEntry]) -> dict[str, HostEntry]:
    """Return the hosts by unique names: the second of two with the same name gets its address as name."""
    found: dict[str, HostEntry] = {}
    for entry in entries:
        unique = entry if entry.name not in found else replace(entry, name=entry.target)
        found[unique.name] = unique
    return found


def host_entries(listed: Iterable[str | HostEntry], document: Document, where: str) -> tuple[HostEntry, ...]:
    """Check the hosts of a YAML list. `where` is the list's place in the document. Raises `InputError`."""
    entries: dict[str, HostEntry] = {}
    for index, host in enumerate(listed):
        entry = HostEntry(host) if isinstance(host, str) else host
        try:
            check_host(entry)
        except InputError as error:
            raise document.mistake(f"{where}[{index}]", str(error)) from error
        if entry.name in entries:
            raise document.mistake(f"{where}[{index}]", f"{entry.name} is listed twice")
        entries[entry.name] = entry
    return tuple(entries.values())


def parse_hosts(text: str) -> tuple[HostEntry, ...]:
    """Read `a,b,c`, or a file: a YAML list as in the config, or one host per line as in a hostfile (`w1 slots=8`). Raises `InputError`."""
    path = expand_home(text)
    if "," not in text and ("/" in text or os.path.exists(path)):  # unlike Path.exists it returns False if the name is too long
        return _read_hosts_file(path)
    entries = [_parse_host(word.strip()) for word in text.split(",") if word.strip()]
    if not entries:
        raise InputError("expected hosts such as w1,w2, or a file that lists them")
    return tuple(dict.fromkeys(entries))


def _read_hosts_file(path: Path) -> tuple[HostEntry, ...]:
    """Read a file of hosts. It may name programs to run, so another user's file is refused, also one that has the name of a host."""
    if not str(path).startswith(PIPE_PREFIXES) and (reason := why_not_ours(path)) is not None:
        raise InputError(f"{abbreviate_home(path)}: {reason}: copy it, or name the hosts themselves")
    try:
        text = read_text(path)
    except FileNotFoundError as error:
        raise InputError(f"{abbreviate_home(path)}: no such file") from error
    lines = [(number, line.split("#")[0].strip()) for number, line in enumerate(text.splitlines(), 1)]
    lines = [(number, line) for number, line in lines if line]
    if lines and lines[0][1].startswith(("- ", "[")):
        document = Document(text, abbreviate_home(path))
        return host_entries(document.convert(list[str | HostEntry], HOST_WORDS), document, "")
    if not lines:
        raise InputError(f"{abbreviate_home(path)}: lists no host")
    return tuple(dict.fromkeys(_parse_host(line, f"{abbreviate_home(path)}:{number}: ") for number, line in lines))


def _parse_host(text: str, place: str = "") -> HostEntry:
    """Read `w1`, `train@w1`, or a line of a hostfile such as `w1 slots=8`. `place` begins the text of an error."""
    word, *rest = text.split()
    if any("=" not in other for other in rest):
        raise InputError(f"{place}expected one host, got {text}")
    user, _, name = word.rpartition("@")
    try:
        return check_host(HostEntry(name, user=user))
    except InputError as error:
        raise InputError(f"{place}{error}") from error


_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}|[0-9A-Fa-f:][0-9A-Fa-f:.]{1,44}(?:%[A-Za-z0-9_.-]{1,15})?"
_USER = r"[A-Za-z0-9_.][A-Za-z0-9_.@+-]{0,63}"
_FORMS: Final = {
    "name": (_NAME, "name of a host"),
    "address": (_NAME, "address of a host"),
    "user": (_USER, "name of a user"),
    "user@": (f"(?:{_USER})@|", "name of a user"),
    "python": (r"[A-Za-z0-9_./~][A-Za-z0-9_./~+-]{0,4095}", "path of a Python"),
}
"""The allowed values. They can't be mistaken for an option of ssh, or for a command of the remote shell."""
_PLACEHOLDER: Final = r"\{(\w+@?)\}"


def check_host(entry: HostEntry) -> HostEntry:
    """Return the entry if its values are allowed. Raises `InputError`."""
    for name, value in _values(entry).items():
        if value or name != "user":
            _check(name, value)
    return entry


def reach_command(reach: str, entry: HostEntry, control: str = "none") -> list[str]:
    """Return the words of the command. The template is split first, so that no value can add a word. Raises `InputError`.

    `control` is the path of the socket with which ssh keeps a connection open.
    """
    try:
        words = shlex.split(reach)
    except ValueError as error:
        raise InputError(f"the command can't be parsed: {str(error).lower()}") from error
    if not words:
        raise InputError("expected a command, got nothing")
    values = {**_values(entry), "control": control}

    def fill(match: re.Match[str]) -> str:
        name = match[1]
        if name not in values:
            raise InputError(f"unknown placeholder {match[0]}; known ones: {' '.join(f'{{{known}}}' for known in values)}")
        if name == "user" and not entry.user:
            raise InputError(f"it needs {{user}}, but {entry.name} has no user")
        return control if name == "control" else _check(name, values[name])

    return [re.sub(_PLACEHOLDER, fill, word) for word in words]


NO_PROMPT: Final = "ssh can't ask for a password here; it needs a key or an agent"
OWNER_ONLY: Final = "Slurm starts steps in a job only for its owner, not even for root: run cockpit as that user"
_NO_SUCH_NODE: Final = r"Unable to create step for job (\d{1,12}): Requested node configuration is not available"
_STEP_DENIED: Final = r"Unable to create step for job \d{1,12}: Access/permission denied"
_DENIED: Final = r"Permission denied \([\w,@.-]+\)\.$"
"""The parentheses contain the ways of logging in. A refusal after the login has none."""
_OFFENDING: Final = r"(?m)^Offending \S+ key in (.+?)\s*$"


def last_words(errors: str) -> str:
    """Return the reason of a failed command from its stderr: the last line, with more details for known errors of srun and ssh."""
    last = errors.strip().rpartition("\n")[2].strip()
    if last.startswith("srun: ") and (denied := re.search(_STEP_DENIED, errors)):
        return f"{denied[0]}: {OWNER_ONLY}"
    if last.startswith("srun: ") and (unknown := re.search(_NO_SUCH_NODE, errors)):
        return f"{unknown[0]}: is it a node of that job? `squeue -h -j {unknown[1]} -o %N` lists its nodes"
    if re.search(_DENIED, last):
        return f"{last.rstrip('.')}: {NO_PROMPT}"
    if last != "Host key verification failed.":
        return last
    if offending := re.search(_OFFENDING, errors):
        return f"its host key has changed and does not match {offending[1]}; nothing was sent"
    return "its host key is unknown here: connect once by hand, or add it to known_hosts"


def _values(entry: HostEntry) -> dict[str, str]:
    """Return the values of the placeholders in `reach`."""
    user_at = f"{entry.user}@" if entry.user else ""
    return {"name": entry.name, "address": entry.target, "user": entry.user, "user@": user_at, "python": entry.python}


def _check(name: str, value: str) -> str:
    form, what = _FORMS[name]
    if not re.fullmatch(form, value):
        raise InputError(f"{value!r} can't be the {what}")
    return value
