"""One Ray session's folder: whose it is, who listens in it, and which raylets have written there."""

from __future__ import annotations

import errno
import os
import re
import socket
import stat
import struct
from contextlib import contextmanager
from itertools import islice
from typing import Container, FrozenSet, Iterator, NamedTuple, Tuple

from .. import trust
from .kinds import Listener, SessionFolder
from .tree import Place, mount_number, place

_RAYLET_LOG = re.compile(r"raylet(\.\d+)?\.out(\.\d+)?$")
_RAYLET_LINE = re.compile(rb"\[[^\]]{10,40} [A-Z] (\d{1,10}) \d+\] \(raylet\)")
_NODE_LINE = re.compile(rb"ode ID(?: to:?)? ?(?:node_id=)?:? ?([0-9a-f]{56})$")
MOST_LOGS = 64
MOST_SOCKETS = 1000
"""In a session's folder of sockets; where there are more, somebody has filled it, and it is not told who listens."""
LOG_HEAD_BYTES = 4096
"""Its first lines tell a raylet's pid and node id (2.9 to 2.60)."""
_PEER = struct.Struct("3i")


class Records(NamedTuple):
    """What the logs of a session's raylets tell of them."""

    raylets: FrozenSet[int] = frozenset()
    nodes: FrozenSet[str] = frozenset()


class Way(NamedTuple):
    """How a session's folder is reached."""

    path: str
    mounts: str | None = None
    """The mount namespace that it leads into; `None`: ours."""
    uid: int | None = None
    """Of the process that it leads through into that namespace."""


class FolderPlace(NamedTuple):
    """What the folder at the end of a way is, and who owns it, where that can be believed. `None`: there is none, or it can't be told."""

    place: Place | None = None
    uid: int | None = None


def find_place(way: Way, vouched: Container[int]) -> FolderPlace:
    """The last part of the way is no link."""
    try:
        with _opened(way) as folder:
            return FolderPlace(place(os.fstat(folder)), _owner(folder, way, vouched))
    except OSError:
        return FolderPlace()


@contextmanager
def _opened(way: Way) -> Iterator[int]:
    with trust.opened(way.path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC) as folder:
        yield folder


def _owner(folder: int, way: Way, vouched: Container[int]) -> int | None:
    """`vouched`: see `vouched_mounts`. In another mount namespace a folder is believed to be theirs only who name it there, or by root."""
    uid = os.fstat(folder).st_uid
    believed = mount_number(folder) in vouched if way.mounts is None else way.uid in (uid, trust.ROOT)
    return uid if believed else None


def inspect(way: Way, vouched: Container[int], records: Records, carried: Tuple[Listener, ...] = ()) -> SessionFolder:
    """All that can be told of that session; `carried`: raylets of its owner that are seen to run, so that nobody need ask its sockets."""
    try:
        with _opened(way) as folder:
            uid, listeners = _owner(folder, way, vouched), carried or find_listeners(folder)
            return SessionFolder(way.path, place(os.fstat(folder)), uid, listeners, *records, way.mounts)
    except (FileNotFoundError, NotADirectoryError):
        return SessionFolder(way.path, listeners=carried, mounts=way.mounts)
    except OSError:
        return SessionFolder(way.path, listeners=carried or None, mounts=way.mounts)


def find_listeners(session: int) -> Tuple[Listener, ...] | None:
    """Who listens on the sockets of raylets in that open session folder. Several raylets of one session on a host have numbered sockets."""
    try:
        folder = os.open("sockets", trust.FOLDER, dir_fd=session)
    except FileNotFoundError:
        return ()
    except OSError:
        return None
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, MOST_SOCKETS + 1)]
        users = (os.fstat(session).st_uid, trust.ROOT)
        raylets = (name for name in names if name.startswith("raylet"))
        found = [_listener(folder, name, users) for name in raylets] if len(names) <= MOST_SOCKETS else [None]
    except OSError:
        return None
    finally:
        os.close(folder)
    return None if None in found else tuple(one for one in found if isinstance(one, Listener))


def answers(session: int, uid: int) -> bool | None:
    """Whether a raylet of that user's, or of root's, listens in that open session folder."""
    return SessionFolder("", uid=uid, listeners=find_listeners(session)).answers


def _listener(folder: int, name: str, users: Tuple[int, ...]) -> Listener | bool | None:
    """False: nobody; `None`: that can't be told. The kernel says who listens: whoever asks can't be told anything else.

    A socket that none of `users` has made is somebody else's, and one that refuses us keeps nothing from being told. It is held before
    it is asked, so that no link to a socket of root's can be put in its place; and nobody speaks for more than whoever made it.
    """
    try:
        held = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return False
    try:
        status = os.fstat(held)
        return _ask(held, status.st_uid, users) if stat.S_ISSOCK(status.st_mode) else False
    finally:
        os.close(held)


def _ask(held: int, maker: int, users: Tuple[int, ...]) -> Listener | bool | None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.setblocking(False)
        try:
            asking.connect(f"/proc/self/fd/{held}")
        except BlockingIOError:
            return Listener(0, maker)  # its queue is full: it is stopped or busy, but it is there
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError as error:
            known = error.errno in (errno.ENOTSOCK, errno.EPROTOTYPE) or maker not in users
            return False if known else None
        pid, uid, _ = _PEER.unpack(asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
        return Listener(pid, uid if maker in (uid, trust.ROOT) else maker)


def raylet_logs(names: Tuple[str, ...]) -> Tuple[str, ...]:
    """Those of raylets, of all names in a session's `logs`."""
    return tuple(sorted(name for name in names if _RAYLET_LOG.match(name)))


def read_records(logs: str, names: Tuple[str, ...], uid: int) -> Records:
    """What these logs of raylets tell, as far as the session's owner has written them."""
    lines = [line for name in names[:MOST_LOGS] for line in _head(logs, name, uid).split(b"\n") if b"(raylet) " in line]
    return Records(
        frozenset(int(match[1]) for match in map(_RAYLET_LINE.match, lines) if match),
        frozenset(match[1].decode() for match in map(_NODE_LINE.search, lines) if match),
    )


def _head(logs: str, name: str, uid: int) -> bytes:
    try:
        folder = os.open(logs, trust.FOLDER)
    except OSError:
        return b""
    try:
        return trust.read_begin(name, LOG_HEAD_BYTES, (uid,), folder)
    except OSError:
        return b""
    finally:
        os.close(folder)
