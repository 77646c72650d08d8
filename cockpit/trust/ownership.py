"""Decides which files and folders are trusted: only files that nobody but root or this user could have written."""

from __future__ import annotations

import os
import stat
from functools import cache
from pathlib import Path
from typing import Final

from cockpit.probe import trust as probe_trust
from cockpit.probe.trust import open_fd, walk_path
from cockpit.text import explain_os_error

ROOT: Final = 0


def own_uids() -> frozenset[int]:
    """Return the trusted users: root and the current user."""
    return frozenset((ROOT, os.geteuid()))


def read_end(path: Path, most_bytes: int) -> bytes:
    """Return the last bytes of a file that root or we own. Raises `OSError`, also for a link, a pipe or another user's file.

    No link is followed in the last two parts of the path, because Ray lets everybody write to a session's `logs`.
    """
    with open_fd(str(path.parent)) as folder:
        return probe_trust.read_end(path.name, most_bytes, tuple(own_uids()), folder)


def is_plain(status: os.stat_result) -> bool:
    """Return whether it is a regular file of root or us, with one name only: then nobody else has written it."""
    return stat.S_ISREG(status.st_mode) and status.st_uid in own_uids() and status.st_nlink == 1


def why_not_ours(path: Path) -> str | None:
    """Return why a file is neither trusted nor written: another user has put it there, or could. `None` if it is ours or missing.

    `sudo` may keep HOME, so root could run commands from a user's file, or from the target of a user's link. Every existing folder and link
    on the path is checked: another user who owns none of them can't replace any between this check and the use of the file.
    """
    try:
        for place, status in walk_path(os.path.abspath(path)):
            it = "it" if place == str(path) else place
            if status.st_uid not in own_uids() | _nobody():
                return f"{it} belongs to another user (user {status.st_uid}), and only files of root and of this user are trusted"
            # In a sticky folder everybody may create files, but only their owner may rename them.
            is_sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
            if status.st_mode & stat.S_IWOTH and not stat.S_ISLNK(status.st_mode) and not is_sticky:
                return f"everybody can write to {it}"
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"its owner can't be read: {explain_os_error(error)}"
    return None


@cache
def _nobody() -> frozenset[int]:
    """Return the uid that root's files seem to have in a user namespace without root, as in a rootless container."""
    mapped = [line.split() for line in Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()]
    if any(int(first) == ROOT for first, *_ in mapped):
        return frozenset()
    return frozenset([int(Path("/proc/sys/kernel/overflowuid").read_text(encoding="ascii"))])
