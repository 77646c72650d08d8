"""Ray's temp dirs on this host: whose they are, and where their `session_latest` and `ray_current_cluster` lead."""

from __future__ import annotations

import os
import socket
import stat
import time
from contextlib import suppress
from typing import Any, Callable, Dict, Iterable, NamedTuple, Tuple

from .. import trust
from .network import is_here, split_address
from .origin import flag
from .proc import make_legible
from .processes import ProcessTable, ScannedProcess
from .sessions import Folder, Sessions, is_session
from .tree import FileId, file_id, why_shared

Fact = Dict[str, Any]
LINK, FILE = "session_latest", "ray_current_cluster"
PATIENCE_S = 1.0
"""For whoever may listen at an address of this host."""


class SessionPointer(NamedTuple):
    """One of them, and what it says."""

    temp: str
    name: str
    status: os.stat_result
    says: str

    @property
    def path(self) -> str:
        """Where it lies."""
        return f"{self.temp}/{self.name}"


def pointer(temp: str, name: str) -> SessionPointer | None:
    """`None`: there is none, or it is not of the kind that Ray makes."""
    path = f"{temp}/{name}"
    with suppress(OSError):
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode) if name == LINK else stat.S_ISREG(status.st_mode):
            says = os.readlink(path) if name == LINK else trust.read_begin(path, 256).decode("utf-8", "replace").strip()
            return SessionPointer(temp, name, status, says)
    return None


def points_at(link: SessionPointer) -> str:
    """The session that the link names."""
    return os.path.basename(link.says.rstrip("/"))


def serves(found: SessionPointer, table: ProcessTable, folders: Iterable[Folder]) -> Tuple[bool | None, str]:
    """Whether a cluster lives at the address in that file, as far as this host can tell, and how that is known."""
    host, port = split_address(found.says)
    if port is None:
        return False, "it holds no address"
    for pid, process in table.items():
        if process.alive and process.origin.role in ("raylet", "gcs_server", "dashboard") and _names(process, host, port):
            return True, f"{process.origin.role} {pid} is of the cluster at {found.says}"
    hidden = _why_hidden(found, table, folders)
    if hidden is not None:
        return None, hidden
    if is_here(host):
        return _listens(host, port, found.says)
    if not host.replace(".", "").isdigit() and ":" not in host:
        return None, f"unknown whether {found.says} is an address of this host"
    return False, f"{found.says} is an address of another host, and no raylet here belongs to that cluster"


def _names(process: ScannedProcess, host: str, port: int) -> bool:
    """Also when its command line can't be read."""
    argv = process.details.argv
    if process.origin.role == "gcs_server":
        served = flag(argv, "--gcs_server_port", "--gcs-server-port")
        return not argv or (served == str(port) and flag(argv, "--node-ip-address", "--node_ip_address") in (None, host))
    named, at = split_address(flag(argv, "--gcs-address", "--gcs_address") or "")
    return not argv or (at == port and (named == host or (is_here(named) and is_here(host))))


def _why_hidden(found: SessionPointer, table: ProcessTable, folders: Iterable[Folder]) -> str | None:
    """Why a raylet of that cluster may run here and not be seen."""
    if 1 not in table:
        return "other users' processes are hidden here"
    seen = {os.path.basename(process.origin.session or "") for process in table.values() if process.origin.role == "raylet"}
    for folder in folders:
        name = os.path.basename(folder.path)
        if os.path.dirname(folder.path) == found.temp and folder.answers is not False and name not in seen:
            return f"{name} may be of that cluster, and its raylet can't be seen from here"
    return None


def _listens(host: str, port: int, address: str) -> Tuple[bool | None, str]:
    try:
        with socket.create_connection((host, port), timeout=PATIENCE_S):
            return True, f"something listens at {address}"
    except ConnectionRefusedError:
        return False, f"nothing listens at {address}, which is this host's, and no raylet here belongs to that cluster"
    except OSError as error:
        return None, f"whether something listens at {address} is unknown: {error}"


# As facts

MIN_AGE_S = 60.0
"""Seconds for which what looks dead may be about to live: a session's folder is there before its processes are."""


class TempDirs(NamedTuple):
    """Temp dirs, and what points at clusters in them."""

    temps: Tuple[Fact, ...] = ()
    pointers: Tuple[Fact, ...] = ()


def read_temp_dirs(temps: Iterable[str], table: ProcessTable, sessions: Sessions, name: Callable[[int], str | None]) -> TempDirs:
    """Each folder once, however many names it has."""
    known = ((temp, _find_place(temp)) for temp in reversed(tuple(temps)))
    folders = tuple({where: temp for temp, where in known if where is not None}.values())[::-1]
    readers = ((LINK, _link), (FILE, _file))
    pointers = (read(temp, table, sessions) for temp in folders for name, read in readers if os.path.lexists(f"{temp}/{name}"))
    return TempDirs(tuple(_temp(temp, name) for temp in folders), tuple(pointers))


def _find_place(folder: str) -> FileId | None:
    """`None`: there is no such folder."""
    try:
        status = os.stat(folder)
    except OSError:
        return None
    return file_id(status) if stat.S_ISDIR(status.st_mode) else None


def _temp(path: str, name: Callable[[int], str | None]) -> Fact:
    """A Ray that can't write its address there fails after it has begun; an address that is the same already it leaves alone."""
    file = f"{path}/{FILE}"
    writable = os.access(path, os.W_OK | os.X_OK) and (os.access(file, os.W_OK) or not os.path.lexists(file))
    return {"path": make_legible(path), "owner": name(os.stat(path).st_uid), "writable": writable}


def _link(temp: str, table: ProcessTable, sessions: Sessions) -> Fact:
    found = pointer(temp, LINK)
    if found is None:
        return _fact(f"{temp}/{LINK}", "", False)
    lives = _lives(points_at(found), table, sessions)
    return _fact(found.path, found.says, lives if lives or not _doubtful(found, os.path.join(temp, found.says)) else None)


def _lives(session: str, table: ProcessTable, sessions: Sessions) -> bool | None:
    """By its processes, or by the socket of its raylet."""
    services = (process.origin for process in table.values() if process.alive and process.origin.role in ("raylet", "gcs_server"))
    if any(os.path.basename(origin.session or "") == session for origin in services):
        return True
    answers = [folder.answers for folder in sessions.folders if os.path.basename(folder.path) == session]
    if not answers and 1 not in table:
        return None
    return True if True in answers else None if None in answers else False


def _file(temp: str, table: ProcessTable, sessions: Sessions) -> Fact:
    """An address of another host can't be classified from here, unless a raylet here belongs to that cluster."""
    path, found = f"{temp}/{FILE}", pointer(temp, FILE)
    if found is None:
        return _fact(path, "", None if os.path.isfile(path) and not os.path.islink(path) else False)
    lives, _ = serves(found, table, sessions.folders)
    host, port = split_address(found.says)
    elsewhere = port is not None and not is_here(host)
    return _fact(path, found.says, lives if lives or not (elsewhere or _doubtful(found, path)) else None)


def _doubtful(found: SessionPointer, target: str) -> bool:
    """Whether what doesn't live here may live on another host that shares the folder, or may have just been started."""
    try:
        status = os.stat(target)
    except OSError:
        status = found.status
    if time.time() - status.st_mtime < MIN_AGE_S and (stat.S_ISREG(status.st_mode) or is_session(os.path.basename(target))):
        return True
    with trust.open_fd(found.temp, trust.FOLDER_PLACE) as temp:
        return why_shared(temp) is not None


def _fact(path: str, target: str, alive: bool | None) -> Fact:
    return {"path": make_legible(path), "target": make_legible(target), "alive": alive}
