"""Reads the folder of one Ray session: its owner, the listeners on its sockets, and the logs of its raylets."""

from __future__ import annotations

import errno
import os
import re
import socket
import stat
import struct
import time
from contextlib import suppress
from itertools import islice
from typing import FrozenSet, List, Mapping, NamedTuple, Tuple

from .. import trust
from .process_kinds import SessionFolder, SocketListener
from .tree import LOCAL, FileId, file_id, mount_number

_RAYLET_LOG = re.compile(r"raylet(\.\d+)?\.out(\.\d+)?$")
_RAYLET_LINE = re.compile(rb"\[[^\]]{10,40} [A-Z] (\d{1,10}) \d+\] \(raylet\)")
_NODE_LINE = re.compile(rb"ode ID(?: to:?)? ?(?:node_id=)?:? ?([0-9a-f]{56})$")
_DRIVER_LOG = re.compile(r"python-core-driver-([0-9a-f]{8})[0-9a-f]*_([0-9]{1,10})\.log$")
_JOB_LOG = re.compile(r"job-driver-(.+)\.log$")
MAX_LOGS, MAX_RAYLET_LOGS = 200_000, 16
"""Files listed in a folder, and logs read of raylets: a user may have filled a temp dir of his own."""
MAX_SOCKETS = 100
"""Entries in the folder of sockets. If there are more, somebody has filled it, and the listeners are unknown."""
FIRST_WORDS_WITHIN_S = 300.0
"""Seconds in which a raylet writes the first lines of its log. An older log without them is not read again."""
LOG_HEAD_BYTES = 4096
"""The first lines of a raylet's log have its pid and node id (Ray 2.9 to 2.60)."""
_PEER = struct.Struct("3i")
_FOLDER = trust.FOLDER_PLACE | os.O_NOFOLLOW
"""Opens a session's folder even if we may not read it; a link in its place is an error."""


class Logs(NamedTuple):
    """The logs of a session."""

    place: FileId | None = None
    """The folder of the logs."""
    uid: int | None = None
    """The owner of the session."""
    changed: int = 0
    """The mtime of the folder in nanoseconds, from its file system."""
    drivers: Mapping[int, Tuple[str, str]] = {}
    """By pid of a driver: Ray's id of its job, and the name of the log that it keeps open."""
    jobs: Mapping[str, str] = {}
    """By submission id: the file with the output of its entrypoint."""
    raylets: Tuple[str, ...] = ()
    """Names of the raylets' logs."""
    pids: FrozenSet[int] = frozenset()
    nodes: FrozenSet[str] = frozenset()
    """The pids of the raylets and Ray's ids of their nodes, as these logs report them."""
    path: str = ""
    """The folder of these logs."""
    files: int = 0
    """The number of files in it, at most MAX_LOGS."""


class Route(NamedTuple):
    """The path to a session's folder."""

    path: str
    mount_namespace: str | None = None
    """The mount namespace that the path leads into; `None`: ours."""
    pid: int | None = None
    uid: int | None = None
    """The process whose root folder leads into that namespace, and its user."""


MountKinds = Mapping[int, str]
"""Number and file system type of the mounts in a route's mount namespace; of ours, only mounts with trusted owners (`vouched_mounts`)."""


def find_folder(route: Route, kinds: MountKinds) -> Tuple[FileId | None, int | None]:
    """Identifies the folder at the end of the route, and its owner if he can be trusted. The last part of the path must not be a link."""
    try:
        with trust.open_fd(route.path, _FOLDER) as folder:
            return file_id(os.fstat(folder)), _owner(folder, route, kinds)
    except OSError:
        return None, None


def _owner(folder: int, route: Route, kinds: MountKinds) -> int | None:
    """In another mount namespace, an owner is trusted only if he or root runs the process that names the folder."""
    uid = os.fstat(folder).st_uid
    believed = mount_number(folder) in kinds if route.mount_namespace is None else route.uid in (uid, trust.ROOT)
    return uid if believed else None


def inspect(
    route: Route, kinds: MountKinds, before: Logs, running: Mapping[FileId, Tuple[SocketListener, ...]]
) -> Tuple[SessionFolder, Logs]:
    """Reads everything about one session from a single open folder, because its path may lead elsewhere in the next moment.

    `before`: its logs as they were read last. `running`: by folder, the raylets of its owner in the process table; the sockets of such a
    session are not asked. On a file system that other hosts share, nothing proves that a session is dead.
    """
    try:
        with trust.open_fd(route.path, _FOLDER) as folder:
            where, uid = file_id(os.fstat(folder)), _owner(folder, route, kinds)
            logs = _read_logs(folder, route.path, uid, before)
            alive = tuple(one for one in running.get(where, ()) if one.uid in (uid, trust.ROOT))
            if kinds.get(mount_number(folder) or 0) not in LOCAL:
                return SessionFolder(route.path, where, uid, alive or None, mount_namespace=route.mount_namespace), logs
            listeners = alive or find_listeners(folder)
            return SessionFolder(route.path, where, uid, listeners, logs.pids, logs.nodes, route.mount_namespace), logs
    except (FileNotFoundError, NotADirectoryError):
        return SessionFolder(route.path, mount_namespace=route.mount_namespace), Logs()
    except OSError:
        return SessionFolder(route.path, listeners=None, mount_namespace=route.mount_namespace), Logs()


def _read_logs(session: int, path: str, uid: int | None, before: Logs) -> Logs:
    """Lists the logs again only if the folder has changed, because it may have tens of thousands of files. `uid`: owner of the session."""
    try:
        with trust.open_fd("logs", trust.FOLDER, session) as logs:
            status = os.fstat(logs)
            if (before.place, before.uid) != (file_id(status), uid):
                before = Logs(file_id(status), uid)
            names = None
            if status.st_mtime_ns != before.changed:
                with os.scandir(logs) as entries:
                    names = tuple(entry.name for entry in islice(entries, MAX_LOGS))
            raylets = before.raylets if names is None else tuple(sorted(filter(_RAYLET_LOG.match, names)))
            pids, nodes = before.pids, before.nodes
            is_young = not pids and abs(time.time() - status.st_mtime) < FIRST_WORDS_WITHIN_S
            if uid is not None and raylets and (names is not None or is_young) and mount_number(logs) == mount_number(session):
                pids, nodes = read_records(logs, raylets, uid)
    except OSError:
        return Logs()
    if names is None:
        return before._replace(pids=pids, nodes=nodes)
    drivers = [(match, name) for name in names for match in [_DRIVER_LOG.match(name)] if match]
    return Logs(
        before.place,
        uid,
        status.st_mtime_ns,
        {int(match[2]): (match[1], name) for match, name in drivers},
        {match[1]: f"{path}/logs/{name}" for name in names for match in [_JOB_LOG.match(name)] if match},
        raylets,
        pids,
        nodes,
        f"{path}/logs",
        len(names),
    )


def find_listeners(session: int) -> Tuple[SocketListener, ...] | None:
    """Listeners on raylet sockets of an open session folder. `None`: unknown. Several raylets of one session have numbered sockets."""
    try:
        folder = os.open("sockets", trust.FOLDER, dir_fd=session)
    except OSError as error:
        return () if isinstance(error, FileNotFoundError) else None
    # Below, a missing file proves nothing, because a user's file system may report anything: the answer is `None`.
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, MAX_SOCKETS + 1)]
        users = (os.fstat(session).st_uid, trust.ROOT)
        raylets = (name for name in names if name.startswith("raylet"))
        found = [_listener(folder, name, users) for name in raylets] if len(names) <= MAX_SOCKETS else [None]
    except OSError:
        return None
    finally:
        os.close(folder)
    return None if None in found else tuple(one for one in found if isinstance(one, SocketListener))


def answers(session: int, uid: int) -> bool | None:
    """Whether a raylet of this user or of root listens in an open session folder; `None` if unknown."""
    return SessionFolder("", uid=uid, listeners=find_listeners(session)).answers


def _listener(folder: int, name: str, users: Tuple[int, ...]) -> SocketListener | bool | None:
    """The listener on one socket. False: nobody listens; `None`: unknown. The kernel reports it, so no user can forge it. Raises `OSError`.

    A socket that none of `users` made belongs to somebody else; if it refuses us, that leaves nothing unknown. The socket is held open
    before it is asked, so that a link to a socket of root can't replace it. The listener's own uid counts
    only if he or root made the socket; otherwise the maker of the socket counts.
    """
    try:
        with trust.open_fd(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, folder) as held:
            status = os.fstat(held)
            return _ask(held, status.st_uid, users) if stat.S_ISSOCK(status.st_mode) else False
    except FileNotFoundError:
        return False


def _ask(held: int, maker: int, users: Tuple[int, ...]) -> SocketListener | bool | None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.setblocking(False)
        try:
            asking.connect(f"/proc/self/fd/{held}")
        except BlockingIOError:
            return SocketListener(0, maker)  # its queue is full: the listener is stopped or busy, but it lives
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError as error:
            known = error.errno in (errno.ENOTSOCK, errno.EPROTOTYPE) or maker not in users
            return False if known else None
        pid, uid, _ = _PEER.unpack(asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
        return SocketListener(pid, uid if maker in (uid, trust.ROOT) else maker)


def read_records(logs: int, names: Tuple[str, ...], uid: int) -> Tuple[FrozenSet[int], FrozenSet[str]]:
    """The pids and node ids in these logs of raylets in an open folder; only files of the session's owner count.

    Files on another mount do not count: a FUSE file system of a user reports any owner that he likes.
    """
    lines: List[bytes] = []
    for name in names[:MAX_RAYLET_LOGS]:
        with suppress(OSError), trust.open_file(name, (uid,), logs) as file:
            if mount_number(file) == mount_number(logs):
                lines += [line for line in os.pread(file, LOG_HEAD_BYTES, 0).split(b"\n") if b"(raylet) " in line]
    pids = frozenset(int(match[1]) for match in map(_RAYLET_LINE.match, lines) if match)
    return pids, frozenset(match[1].decode() for match in map(_NODE_LINE.search, lines) if match)
