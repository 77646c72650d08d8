"""Files that are written whole: one that others read while it is written anew, and a new one."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

OWNER_READS, ALL_READ = 0o600, 0o644


def write_whole(path: Path, text: str, mode: int, *, lasting: bool = False) -> None:
    """Put it in the place of what is there. Raises `OSError`; no link is followed, and only a regular file is replaced.

    `lasting`: all of it is on the disk before it takes that place.
    """
    _check_replaceable(path)
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
    """A new file that only its owner may read. Raises `OSError`, also where there is something of that name; no link is followed."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, OWNER_READS)
    with os.fdopen(file, "w", encoding="utf-8") as out:  # by its handle: whoever owns the folder may have put a link in its place
        out.write(text)


def _check_replaceable(path: Path) -> None:
    """Root would else put a file in the place of /dev/null."""
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(path.lstat().st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
