"""Writes files atomically: replaces a file, or creates a new one."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

OWNER_READS, ALL_READ = 0o600, 0o644


def write_whole(path: Path, text: str, mode: int, *, lasting: bool = False) -> None:
    """Replace a file at once: readers see the old text or the new one. Raises `OSError`, also if the path is no regular file.

    `lasting` writes the text to the disk before the replacement.
    """
    with suppress(FileNotFoundError):  # root could replace /dev/null
        if not stat.S_ISREG(path.lstat().st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    file, name = tempfile.mkstemp(prefix=".cockpit-", dir=path.parent)
    try:
        with os.fdopen(file, "w", encoding="utf-8", newline="\n") as out:
            out.write(text)
            os.fchmod(out.fileno(), mode)
            if lasting:
                out.flush()
                os.fsync(out.fileno())
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def write_new(path: Path, text: str) -> None:
    """Create a file that only its owner may read. Raises `OSError`, also if the path exists; no link is followed."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, OWNER_READS)
    with os.fdopen(file, "w", encoding="utf-8") as out:  # by its handle: the owner of the folder may have put a link in its place
        out.write(text)
