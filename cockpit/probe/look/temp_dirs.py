"""Ray's temp dirs on this host: whose they are, and where their `session_latest` and `ray_current_cluster` lead."""

from __future__ import annotations

import os
import stat
import time
from typing import Any, Callable, Dict, Iterable, NamedTuple, Tuple

from .mounts import why_shared
from .pointers import FILE, LINK, SessionPointer, is_here, pointer, points_at, serves, split
from .processes import Forest, legible
from .sessions import Sessions, is_session

Fact = Dict[str, Any]
YOUNG = 60.0
"""Seconds for which what looks dead may be about to live: a session's folder is there before its processes are."""


class Places(NamedTuple):
    """Temp dirs, and what points at clusters in them."""

    temps: Tuple[Fact, ...] = ()
    pointers: Tuple[Fact, ...] = ()


def look(temps: Iterable[str], forest: Forest, sessions: Sessions, name: Callable[[int], str | None]) -> Places:
    """Each folder once, however many names it has."""
    folders = tuple({os.path.realpath(temp): temp for temp in reversed(tuple(temps)) if os.path.isdir(temp)}.values())[::-1]
    pointers = (found for temp in folders for found in (_link(temp, forest, sessions), _file(temp, forest, sessions)) if found)
    return Places(tuple(_temp(temp, name) for temp in folders), tuple(pointers))


def _temp(path: str, name: Callable[[int], str | None]) -> Fact:
    """A Ray that can't write its address there fails after it has begun; an address that is the same already it leaves alone."""
    file = f"{path}/{FILE}"
    writable = os.access(path, os.W_OK | os.X_OK) and (os.access(file, os.W_OK) or not os.path.lexists(file))
    return {"path": legible(path), "owner": name(os.stat(path).st_uid), "writable": writable}


def _link(temp: str, forest: Forest, sessions: Sessions) -> Fact | None:
    path = f"{temp}/{LINK}"
    if not os.path.lexists(path):
        return None
    found = pointer(temp, LINK)
    if found is None:
        return _fact(path, "", False)
    lives = _lives(points_at(found), forest, sessions)
    return _fact(path, found.says, lives if lives or not _doubtful(found, os.path.join(temp, found.says)) else None)


def _lives(session: str, forest: Forest, sessions: Sessions) -> bool | None:
    """By its processes, or by the socket of its raylet."""
    services = (process.origin for process in forest.values() if process.alive and process.origin.role in ("raylet", "gcs_server"))
    if any(os.path.basename(origin.session or "") == session for origin in services):
        return True
    answers = [folder.answers for folder in sessions.folders if os.path.basename(folder.path) == session]
    if not answers and 1 not in forest:
        return None
    return True if True in answers else None if None in answers else False


def _file(temp: str, forest: Forest, sessions: Sessions) -> Fact | None:
    """An address of another host can't be judged from here, unless a raylet here belongs to that cluster."""
    path = f"{temp}/{FILE}"
    if not os.path.lexists(path):
        return None
    found = pointer(temp, FILE)
    if found is None:
        return _fact(path, "", None if os.path.isfile(path) and not os.path.islink(path) else False)
    lives, _ = serves(found, forest, sessions.folders)
    host, port = split(found.says)
    elsewhere = port is not None and not is_here(host)
    return _fact(path, found.says, lives if lives or not (elsewhere or _doubtful(found, path)) else None)


def _doubtful(found: SessionPointer, target: str) -> bool:
    """Whether what doesn't live here may live on another host that shares the folder, or may have just been started."""
    try:
        status = os.stat(target)
    except OSError:
        status = found.status
    if time.time() - status.st_mtime < YOUNG and (stat.S_ISREG(status.st_mode) or is_session(os.path.basename(target))):
        return True
    temp = os.open(found.temp, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return why_shared(temp) is not None
    finally:
        os.close(temp)


def _fact(path: str, target: str, alive: bool | None) -> Fact:
    return {"path": legible(path), "target": legible(target), "alive": alive}
