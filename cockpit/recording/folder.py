"""Manages the folders of recordings: their names, the lock of the recorder, and the removal of old segments."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import platformdirs

from cockpit.config.thresholds import DAY_S, RecordingLimits
from cockpit.model import Cluster
from cockpit.recording.files import MAGIC, SUFFIX
from cockpit.trust import is_plain, why_not_ours

LOCK = "lock"
WRITTEN_NOW_S = 600.0
"""A segment that was written within so many seconds is not removed: a recorder writes every few seconds."""
LONGEST_NAME = 100
SEGMENTS_IN_LIMIT = 4
"""At least so many segments fit into the limit, since only whole segments are removed."""
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


def recordings_path() -> Path:
    """`$XDG_STATE_HOME/cockpit/recordings`, which has a folder for each cluster."""
    return Path(platformdirs.user_state_path("cockpit")) / "recordings"


def folder_name(cluster: Cluster) -> str:
    """The name of the session, else the address, without any character that could lead to another folder."""
    named = cluster.session or (cluster.address or "no-ray").partition("://")[2] or "no-ray"
    safe = re.sub(r"[^A-Za-z0-9_-]+", "-", named, flags=re.ASCII).strip("-")[:LONGEST_NAME]
    return safe or "no-ray"


def make_folder(path: Path) -> None:
    """Create a folder that only we may read. Raises `OSError` before that if another user could replace it."""
    if (reason := why_not_ours(path)) is not None:
        raise PermissionError(errno.EPERM, reason, str(path))
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    for folder in (path, path.parent):
        if folder.is_symlink():
            raise PermissionError(errno.EPERM, "it is a link", str(folder))
        folder.chmod(0o700)


class Lock:
    """The lock of the recorder of one folder; the kernel releases it when its process ends."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOCK
        self._file: int | None = None

    def take(self) -> bool | None:
        """Take the lock; returns whether it is ours now, or `None` if the file system has no locks. Raises `OSError`."""
        while True:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                os.close(file)
                if error.errno in _NO_LOCKS:
                    return None
                if isinstance(error, BlockingIOError):
                    return False
                raise
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file), os.lstat(self._path)):
                    self._file = file
                    os.ftruncate(file, 0)
                    os.pwrite(file, f"{os.getpid()} {socket.gethostname()}\n".encode(), 0)
                    return True
            os.close(file)  # the file was removed together with its empty folder, just before it was locked

    def holder(self) -> str:
        """The process that has the lock, in words."""
        with suppress(OSError, ValueError):
            pid, host = self._path.read_text(encoding="ascii", errors="replace")[:200].split()
            return f"another cockpit, pid {int(pid)} on {host}"
        return "another cockpit"

    def release(self) -> None:
        """Release the lock, if it is ours."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


class _OldSegment(msgspec.Struct, frozen=True, order=True):
    written: float
    size: int
    path: Path


def bytes_allowed(root: Path, limits: RecordingLimits) -> int:
    """The bytes that all recordings together may take. Raises `OSError`."""
    disk = os.statvfs(root)
    return min(limits.bytes, int(limits.disk_share * disk.f_blocks * disk.f_frsize))


def remove_old(root: Path, limits: RecordingLimits, now: float | None = None) -> int:
    """Remove the oldest segments until the others are within the limits; returns the bytes that are left. Raises `OSError`."""
    now = time.time() if now is None else now
    allowed, segments = bytes_allowed(root, limits), sorted(_find_segments(root))
    total = sum(one.size for one in segments)
    for one in segments:
        if now - one.written < WRITTEN_NOW_S:
            continue
        if (total > allowed or now - one.written > limits.days * DAY_S) and _remove(one.path):
            total -= one.size
            _remove_if_empty(one.path.parent)
    return total


def _find_segments(root: Path) -> Iterator[_OldSegment]:
    for folder in root.iterdir():
        if folder.is_symlink() or not folder.is_dir():
            continue
        for path in folder.iterdir():
            with suppress(OSError):
                status = path.lstat()
                if path.name.endswith(SUFFIX) and is_plain(status):
                    yield _OldSegment(status.st_mtime, status.st_size, path)


def _remove(path: Path) -> bool:
    """Remove a segment, if it still is a recording of ours in the same folder; returns whether it was removed."""
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        file = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        try:
            is_ours = is_plain(os.fstat(file)) and os.pread(file, len(MAGIC), 0) == MAGIC
        finally:
            os.close(file)
        if is_ours:
            os.unlink(path.name, dir_fd=folder)
        return is_ours
    except OSError:
        return False
    finally:
        os.close(folder)


def _remove_if_empty(folder: Path) -> None:
    """Remove a folder without segments in which no cockpit records."""
    if [entry.name for entry in folder.iterdir()] not in ([], [LOCK]):
        return
    lock = Lock(folder)
    if lock.take():
        with suppress(OSError):
            (folder / LOCK).unlink()
            folder.rmdir()
        lock.release()


def list_recordings(root: Path) -> list[Path]:
    """The folders with segments, the newest first."""
    try:
        last = {one.path.parent: one.written for one in sorted(_find_segments(root))}
    except OSError:
        return []
    return sorted(last, key=lambda folder: -last[folder])
