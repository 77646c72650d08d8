"""A file that others read while it is written anew: they see the old one or the new one, whole."""

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


def _check_replaceable(path: Path) -> None:
    """Root would else put a file in the place of /dev/null."""
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(path.lstat().st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
