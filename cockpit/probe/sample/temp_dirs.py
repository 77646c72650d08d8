"""Reads Ray's temp dirs on this host: their owners, and whether their `session_latest` and `ray_current_cluster` point to a live Ray."""

from __future__ import annotations

import os
import socket
import stat
import time
from contextlib import suppress
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Tuple

from .. import trust
from .network import is_here, split_address
from .origin import flag
from .proc import make_legible
from .processes import ProcessTable, ScannedProcess
from .sessions import Folder, Sessions, is_session
from .tree import FileId, file_id, why_shared

Fact = Dict[str, Any]
LINK, FILE = "session_latest", "ray_current_cluster"
CONNECT_TIMEOUT_S = 1.0
"""Seconds to wait for a connection to an address of this host."""


class SessionPointer(NamedTuple):
    """One of the two files, and its content."""

    temp: str
    name: str
    status: os.stat_result
    target: str
    """The target of the link, or the address in the file."""

    @property
    def path(self) -> str:
        """The path of the file itself."""
        return f"{self.temp}/{self.name}"

    @property
    def session(self) -> str:
        """The name of the session that a link points to."""
        return os.path.basename(self.target.rstrip("/"))


def read_pointer(temp: str, name: str) -> SessionPointer | None:
    """`None`: there is none, or it is not of the type that Ray creates."""
    path = f"{temp}/{name}"
    with suppress(OSError):
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode) if name == LINK else stat.S_ISREG(status.st_mode):
            target = os.readlink(path) if name == LINK else trust.read_begin(path, 256).decode("utf-8", "replace").strip()
            return SessionPointer(temp, name, status, target)
    return None


def has_live_cluster(found: SessionPointer, table: ProcessTable, folders: Iterable[Folder]) -> Tuple[bool | None, str]:
    """Whether a cluster lives at the address in this file (`None`: this host can't know), and the reason for the answer."""
    host, port = split_address(found.target)
    if port is None:
        return False, "it holds no address"
    for pid, process in table.items():
        if process.alive and process.origin.role in ("raylet", "gcs_server", "dashboard") and _is_of_cluster(process, host, port):
            return True, f"{process.origin.role} {pid} is of the cluster at {found.target}"

    # A raylet of that cluster may run here unseen.
    if 1 not in table:
        return None, "other users' processes are hidden here"
    seen = {os.path.basename(process.origin.session or "") for process in table.values() if process.origin.role == "raylet"}
    for folder in folders:
        name = os.path.basename(folder.path)
        if os.path.dirname(folder.path) == found.temp and folder.answers is not False and name not in seen:
            return None, f"{name} may be of that cluster, and its raylet can't be seen from here"

    # The head may run here even if no process of it is known.
    if is_here(host):
        try:
            with socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S):
                return True, f"something listens at {found.target}"
        except ConnectionRefusedError:
            return False, f"nothing listens at {found.target}, which is this host's, and no raylet here belongs to that cluster"
        except OSError as error:
            return None, f"whether something listens at {found.target} is unknown: {error}"
    if not host.replace(".", "").isdigit() and ":" not in host:
        return None, f"unknown whether {found.target} is an address of this host"
    return False, f"{found.target} is an address of another host, and no raylet here belongs to that cluster"


def _is_of_cluster(process: ScannedProcess, host: str, port: int) -> bool:
    """Whether it belongs to the cluster at this address; true also if its command line can't be read."""
    argv = process.details.argv
    if process.origin.role == "gcs_server":
        served = flag(argv, "--gcs_server_port", "--gcs-server-port")
        return not argv or (served == str(port) and flag(argv, "--node-ip-address", "--node_ip_address") in (None, host))
    named, at = split_address(flag(argv, "--gcs-address", "--gcs_address") or "")
    return not argv or (at == port and (named == host or (is_here(named) and is_here(host))))


# Facts of a sample

MIN_AGE_S = 60.0
"""A younger file that points to nothing live may point to a session that is just starting: its folder exists before its processes."""


def read_temp_dirs(
    temps: Iterable[str], table: ProcessTable, sessions: Sessions, name: Callable[[int], str | None]
) -> Tuple[List[Fact], List[Fact]]:
    """The temp dirs, each folder once under the first of its names, and the pointers in them."""
    folders: Dict[FileId, str] = {}
    for temp in temps:
        with suppress(OSError):
            status = os.stat(temp)
            if stat.S_ISDIR(status.st_mode):
                folders.setdefault(file_id(status), temp)
    places: List[Fact] = []
    pointers: List[Fact] = []
    for temp in folders.values():
        # Ray writes its address there, unless the file has it already; if it can't, it fails after it has begun.
        file = f"{temp}/{FILE}"
        writable = os.access(temp, os.W_OK | os.X_OK) and (os.access(file, os.W_OK) or not os.path.lexists(file))
        places.append({"path": make_legible(temp), "owner": name(os.stat(temp).st_uid), "writable": writable})
        for pointer in (LINK, FILE):
            path, found = f"{temp}/{pointer}", read_pointer(temp, pointer)
            if found is not None:
                alive = _has_live_target(found, table, sessions)
            else:  # it is of another type, or it is the file and we may not read it
                alive = None if pointer == FILE and os.path.isfile(path) and not os.path.islink(path) else False
            if found is not None or os.path.lexists(path):
                pointers.append({"path": make_legible(path), "target": make_legible(found.target if found else ""), "alive": alive})
    return places, pointers


def _has_live_target(found: SessionPointer, table: ProcessTable, sessions: Sessions) -> bool | None:
    """Whether the session or the cluster that it points to lives; `None`: unknown."""
    lives: bool | None
    if found.name == FILE:
        target = found.path
        lives, _ = has_live_cluster(found, table, sessions.folders)
        host, port = split_address(found.target)
        if not lives and port is not None and not is_here(host):
            return None  # an address of another host, and no raylet of that cluster runs here
    else:
        # A session lives if a process of it lives, or if a raylet listens on its socket.
        target = os.path.join(found.temp, found.target)
        services = (process.origin for process in table.values() if process.alive and process.origin.role in ("raylet", "gcs_server"))
        lives = any(os.path.basename(origin.session or "") == found.session for origin in services)
        if not lives:
            answers = [folder.answers for folder in sessions.folders if os.path.basename(folder.path) == found.session]
            unseen = None in answers or (not answers and 1 not in table)
            lives = True if True in answers else None if unseen else False
    if lives:
        return True

    # It may have just been started, or may live on another host that shares the folder.
    try:
        status = os.stat(target)
    except OSError:
        status = found.status
    if time.time() - status.st_mtime < MIN_AGE_S and (stat.S_ISREG(status.st_mode) or is_session(os.path.basename(target))):
        return None
    with trust.open_fd(found.temp, trust.FOLDER_PLACE) as temp:
        return lives if why_shared(temp) is None else None
