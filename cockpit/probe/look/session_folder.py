"""One Ray session's folder: whose it is, who listens in it, and which raylets have written there."""

from __future__ import annotations

import errno
import os
import re
import socket
import stat
import struct
import time
from itertools import islice
from typing import FrozenSet, Mapping, NamedTuple, Tuple

from .. import trust
from .kinds import SessionFolder, SocketListener
from .tree import LOCAL, FileId, file_id, mount_number

_RAYLET_LOG = re.compile(r"raylet(\.\d+)?\.out(\.\d+)?$")
_RAYLET_LINE = re.compile(rb"\[[^\]]{10,40} [A-Z] (\d{1,10}) \d+\] \(raylet\)")
_NODE_LINE = re.compile(rb"ode ID(?: to:?)? ?(?:node_id=)?:? ?([0-9a-f]{56})$")
_DRIVER_LOG = re.compile(r"python-core-driver-([0-9a-f]{8})[0-9a-f]*_([0-9]{1,10})\.log$")
_JOB_LOG = re.compile(r"job-driver-(.+)\.log$")
MOST_LOGS, MOST_RAYLET_LOGS = 200_000, 16
"""Of files in a folder, and of those that are read: whoever names a temp dir may have filled it."""
MOST_SOCKETS = 100
"""In a session's folder of sockets; where there are more, somebody has filled it, and it is not told who listens."""
FIRST_WORDS_WITHIN_S = 300.0
"""After which a raylet has written the first lines of a log that it has made; else each look would read again what says nothing."""
LOG_HEAD_BYTES = 4096
"""Its first lines tell a raylet's pid and node id (2.9 to 2.60)."""
_PEER = struct.Struct("3i")
_FOLDER = trust.FOLDER_PLACE | os.O_NOFOLLOW
"""How a session's folder is opened, which may not be ours to read: a link in its place is an error."""


class Records(NamedTuple):
    """What the logs of a session's raylets tell of them."""

    raylets: FrozenSet[int] = frozenset()
    nodes: FrozenSet[str] = frozenset()


class Logs(NamedTuple):
    """Logs in a session's folder that are of use here."""

    place: FileId | None = None
    uid: int | None = None
    """Of their folder, and the session's owner."""
    changed: int = 0
    """When that changed last, as its file system says."""
    drivers: Mapping[int, Tuple[str, str]] = {}
    """By pid of a driver: Ray's id of its job, and the name of the log that it keeps open."""
    jobs: Mapping[str, str] = {}
    """By submission id: where its entrypoint's output goes."""
    raylets: Tuple[str, ...] = ()
    """Names of the raylets' logs."""
    records: Records = Records()
    path: str = ""
    """The folder of these logs."""
    files: int = 0
    """How many files lie in it, at most MOST_LOGS."""


class Way(NamedTuple):
    """How a session's folder is reached."""

    path: str
    mount_namespace: str | None = None
    """The mount namespace that it leads into; `None`: ours."""
    pid: int | None = None
    uid: int | None = None
    """The process that it leads through into that namespace, and its user."""


MountKinds = Mapping[int, str]
"""Those of the mount namespace that a way leads into; of ours only those whose word for owners can be believed (`vouched_mounts`)."""


def find_folder(way: Way, kinds: MountKinds) -> Tuple[FileId | None, int | None]:
    """What the folder at its end is, and who owns it, where that can be believed; the last part of the way is no link."""
    try:
        with trust.open_fd(way.path, _FOLDER) as folder:
            return file_id(os.fstat(folder)), _owner(folder, way, kinds)
    except OSError:
        return None, None


def _owner(folder: int, way: Way, kinds: MountKinds) -> int | None:
    """In another mount namespace a folder is believed to be theirs only who name it there, or by root."""
    uid = os.fstat(folder).st_uid
    believed = mount_number(folder) in kinds if way.mount_namespace is None else way.uid in (uid, trust.ROOT)
    return uid if believed else None


def inspect(way: Way, kinds: MountKinds, before: Logs, carried: Mapping[FileId, Tuple[SocketListener, ...]]) -> Tuple[SessionFolder, Logs]:
    """All that can be told of that session, all of one folder that is held open: a path may lead elsewhere in the next moment.

    `before`: its logs, as they were read last. `carried`: by folder, raylets of its owner that are seen to run, so that nobody need ask its
    sockets. On a file system that other hosts share nothing proves that a session is dead.
    """
    try:
        with trust.open_fd(way.path, _FOLDER) as folder:
            where, uid = file_id(os.fstat(folder)), _owner(folder, way, kinds)
            logs = _read_logs(folder, way.path, uid, before)
            alive = tuple(one for one in carried.get(where, ()) if one.uid in (uid, trust.ROOT))
            if kinds.get(mount_number(folder) or 0) not in LOCAL:
                return SessionFolder(way.path, where, uid, alive or None, mount_namespace=way.mount_namespace), logs
            return SessionFolder(way.path, where, uid, alive or find_listeners(folder), *logs.records, way.mount_namespace), logs
    except (FileNotFoundError, NotADirectoryError):
        return SessionFolder(way.path, mount_namespace=way.mount_namespace), Logs()
    except OSError:
        return SessionFolder(way.path, listeners=None, mount_namespace=way.mount_namespace), Logs()


def _read_logs(session: int, path: str, uid: int | None, before: Logs) -> Logs:
    """Of that open folder of that owner, read only when something in it has changed: it may hold tens of thousands of files."""
    try:
        with trust.open_fd("logs", trust.FOLDER, session) as logs:
            status = os.fstat(logs)
            if (before.place, before.uid) != (file_id(status), uid):
                before = Logs(file_id(status), uid)
            names = _names(logs) if status.st_mtime_ns != before.changed else None
            raylets = before.raylets if names is None else tuple(sorted(filter(_RAYLET_LOG.match, names)))
            records = before.records
            is_young = not records.raylets and abs(time.time() - status.st_mtime) < FIRST_WORDS_WITHIN_S
            if uid is not None and raylets and (names is not None or is_young) and mount_number(logs) == mount_number(session):
                records = read_records(logs, raylets, uid)
    except OSError:
        return Logs()
    if names is None:
        return before._replace(records=records)
    drivers = [(match, name) for name in names for match in [_DRIVER_LOG.match(name)] if match]
    return Logs(
        before.place,
        uid,
        status.st_mtime_ns,
        {int(match[2]): (match[1], name) for match, name in drivers},
        {match[1]: f"{path}/logs/{name}" for name in names for match in [_JOB_LOG.match(name)] if match},
        raylets,
        records,
        f"{path}/logs",
        len(names),
    )


def _names(folder: int) -> Tuple[str, ...]:
    with os.scandir(folder) as entries:
        return tuple(entry.name for entry in islice(entries, MOST_LOGS))


def find_listeners(session: int) -> Tuple[SocketListener, ...] | None:
    """Who listens on the sockets of raylets in that open session folder. Several raylets of one session on a host have numbered sockets."""
    try:
        with trust.open_fd("sockets", folder=session) as folder:
            return _listeners_in(folder, session)
    except FileNotFoundError:
        return ()
    except OSError:
        return None


def _listeners_in(folder: int, session: int) -> Tuple[SocketListener, ...] | None:
    """What is not found in there, whatever a file system of a user's says, proves nothing."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, MOST_SOCKETS + 1)]
        users = (os.fstat(session).st_uid, trust.ROOT)
        raylets = (name for name in names if name.startswith("raylet"))
        found = [_listener(folder, name, users) for name in raylets] if len(names) <= MOST_SOCKETS else [None]
    except OSError:
        return None
    return None if None in found else tuple(one for one in found if isinstance(one, SocketListener))


def answers(session: int, uid: int) -> bool | None:
    """Whether a raylet of that user's, or of root's, listens in that open session folder."""
    return SessionFolder("", uid=uid, listeners=find_listeners(session)).answers


def _listener(folder: int, name: str, users: Tuple[int, ...]) -> SocketListener | bool | None:
    """False: nobody; `None`: that can't be told. The kernel says who listens: whoever asks can't be told anything else. Raises `OSError`.

    A socket that none of `users` has made is somebody else's, and one that refuses us keeps nothing from being told. It is held before
    it is asked, so that no link to a socket of root's can be put in its place; and nobody speaks for more than whoever made it.
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
            return SocketListener(0, maker)  # its queue is full: it is stopped or busy, but it is there
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError as error:
            known = error.errno in (errno.ENOTSOCK, errno.EPROTOTYPE) or maker not in users
            return False if known else None
        pid, uid, _ = _PEER.unpack(asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
        return SocketListener(pid, uid if maker in (uid, trust.ROOT) else maker)


def read_records(logs: int, names: Tuple[str, ...], uid: int) -> Records:
    """What these logs of raylets in an open folder tell, as far as the session's owner has written them."""
    lines = [line for name in names[:MOST_RAYLET_LOGS] for line in _head(logs, name, uid).split(b"\n") if b"(raylet) " in line]
    return Records(
        frozenset(int(match[1]) for match in map(_RAYLET_LINE.match, lines) if match),
        frozenset(match[1].decode() for match in map(_NODE_LINE.search, lines) if match),
    )


def _head(logs: int, name: str, uid: int) -> bytes:
    """Nothing of what is mounted there: a FUSE file system of another user's says whose it is as he likes."""
    try:
        with trust.open_file(name, (uid,), logs) as file:
            return os.pread(file, LOG_HEAD_BYTES, 0) if mount_number(file) == mount_number(logs) else b""
    except OSError:
        return b""
