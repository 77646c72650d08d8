"""Whom cockpit follows without being told to, who gets a token or a preset's secrets, and how a file that others own is read."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

ROOT: Final = 0
TOKEN_PLACES: Final = "RAY_AUTH_TOKEN, the file named by RAY_AUTH_TOKEN_PATH, ~/.ray/auth_token"  # noqa: S105 where one lies
_LISTEN: Final = "0A"
_NO_INODE: Final = "0"
"""Of a connection that nobody has accepted yet, or that is over."""
_TOKEN_BYTES: Final = 1 << 16
_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")


def own_uids() -> frozenset[int]:
    """Whom we believe: root, and ourselves."""
    return frozenset((ROOT, os.geteuid()))


def listening_users(port: int) -> frozenset[int]:
    """The users whose sockets listen on that TCP port of this host, by the kernel's word; empty where nobody does."""
    return frozenset(int(row[7]) for row in _sockets(port) if row[3] == _LISTEN)


def serving_users(port: int) -> frozenset[int]:
    """The same, and those who hold our end's other end: who has accepted a connection may have closed the socket that listened."""
    return frozenset(int(row[7]) for row in _sockets(port) if row[3] == _LISTEN or row[9] != _NO_INODE)


def _sockets(port: int) -> Iterator[list[str]]:
    """The rows of the kernel's tables whose own end is that port."""
    for table in _TABLES:
        with suppress(OSError):
            rows = [line.split() for line in Path(table).read_text(encoding="ascii").splitlines()[1:]]
            yield from (row for row in rows if int(row[1].rpartition(":")[2], 16) == port)


class Audience:
    """Whoever answers at one address, and whether secrets may be sent there."""

    def __init__(self, url: str, *, given: bool, users: Callable[[int], frozenset[int]] | None = None) -> None:
        """`given`: a person has named this address, by a flag, a variable or in the config; else it was only found on this host."""
        self._port, self._near = _place(url)
        self._given, self._users = given, users
        self._first: frozenset[int] | None = None

    def why_not_trusted(self) -> str | None:
        """Why nothing secret is sent, and nothing taken as Ray's word, in half a sentence; asked anew each time.

        On this host the kernel tells whose socket listens. An address that was given is believed; but what took its place later, when
        Ray has ended and another user has bound the port, is not.
        """
        if self._given and not self._near:
            return None
        users = (self._users or serving_users)(self._port)
        if self._given and self._first is None and users:
            self._first = users
        trusted = own_uids() | (self._first or frozenset())
        if users <= trusted and (users or self._given):
            return None
        if not users:
            return f"no process that can be seen from here listens on port {self._port}"
        others = ", ".join(f"user {uid}" for uid in sorted(users - trusted))
        return f"what listens on port {self._port} of this host belongs to {others}"


def find_token(env: Mapping[str, str] | None = None, home: Path | None = None) -> str | None:
    """Ray's token, looked for where Ray looks, in Ray's order (ray/_private/authentication, 2.60).

    A `RAY_AUTH_TOKEN_PATH` that can't be read ends the search, as it does in Ray: the token at home belongs to another cluster.
    """
    env = os.environ if env is None else env
    if token := env.get("RAY_AUTH_TOKEN", "").strip():
        return token
    named = env.get("RAY_AUTH_TOKEN_PATH")
    try:
        path = Path(named).expanduser() if named else (home or Path.home()) / ".ray" / "auth_token"
        if not named and why_not_ours(path) is not None:
            return None
        return read_small(path).decode("utf-8").strip() or None
    except (OSError, ValueError, RuntimeError):  # the last: nobody knows where this user's home is
        return None


def read_small(path: Path) -> bytes:
    """The file of a token, or of what lies beside one; a pipe in its place is not waited for. Raises `OSError`."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(22, "no regular file", str(path))
        return os.read(file, _TOKEN_BYTES)
    finally:
        os.close(file)


def _place(url: str) -> tuple[int, bool]:
    """Its port, and whether it is this host; of what is no address neither."""
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return 0, False
    return port, parts.hostname in ("localhost", "::1") or (parts.hostname or "").startswith("127.")


def read_end(path: Path, most_bytes: int) -> bytes:
    """The last bytes of a file that root or we own, at a place where others may have put a link, a pipe or a file of theirs.

    Raises `OSError`. No link is followed in its last two parts: Ray lets everybody write to a session's `logs`.
    """
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        file = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        status = os.fstat(file)
        if not is_plain(status):
            raise PermissionError(13, "it belongs to another user, or is not a regular file", str(path))
        return os.pread(file, most_bytes, max(0, status.st_size - most_bytes))
    finally:
        os.close(file)


def is_plain(status: os.stat_result) -> bool:
    """A regular file of root's or ours, with no other name: what lies in it, nobody else has put there."""
    return stat.S_ISREG(status.st_mode) and status.st_uid in own_uids() and status.st_nlink == 1


def why_not_ours(path: Path) -> str | None:
    """Why that file of settings is not obeyed: another user wrote it, or could; `None` also where there is none.

    `sudo` may leave HOME as it was: then root would read, and do, what that user has written, or what a link of his leads to.
    """
    for status in _stat_places(path):
        if status.st_uid not in own_uids():
            return f"it belongs to another user (user {status.st_uid}), and only files of root and of this user are trusted"
        if status.st_mode & stat.S_IWOTH and not stat.S_ISLNK(status.st_mode):
            return "everybody can write it"
    return None


def _stat_places(path: Path) -> Iterator[os.stat_result]:
    """The file, its folder, and the links in their places; nothing where there is no such file."""
    with suppress(OSError):
        yield from (os.stat(path), os.stat(path.parent))
        yield from (status for status in (os.lstat(path), os.lstat(path.parent)) if stat.S_ISLNK(status.st_mode))
