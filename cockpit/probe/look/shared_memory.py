"""Whose files take how much of /dev/shm."""

from __future__ import annotations

import os
import stat
from typing import Any, Callable, Dict, NamedTuple, Set

from .host import Amount, space
from .tree import FOLDER, MovedError, Walk

PLACE = "/dev/shm"  # noqa: S108 a fixed place
MOST_FILES = 20_000
"""Beyond that it gives up, and nobody's share is known."""
DEEPEST = 8
"""Folders that lie in each other; what is deeper is out of sight."""
MOST_USERS = 16
"""The largest of them."""


class SharedMemory(NamedTuple):
    """`owners`: bytes of the files that have a name there, by user id; what is deleted and still mapped is in none of them."""

    amount: Amount
    owners: Dict[int, int] | None = None


def read_shared_memory(place: str = PLACE) -> SharedMemory:
    """Raises `OSError`."""
    return SharedMemory(space(place), measure_owners(place))


def measure_owners(place: str, most: int = MOST_FILES) -> Dict[int, int] | None:
    """`None`: not ours to read, too many files, or they are moved about."""
    try:
        top = os.open(place, FOLDER)
    except OSError:
        return None
    try:
        return _add_up(top, most)
    except (MovedError, OSError):
        return None
    finally:
        os.close(top)


def _add_up(top: int, most: int) -> Dict[int, int] | None:
    owners: Dict[int, int] = {}
    met: Set[int] = set()
    for number, entry in enumerate(Walk(top, lambda path: path.count("/") < DEEPEST)):
        status = entry.status
        if number >= most:
            return None
        if stat.S_ISREG(status.st_mode) and status.st_ino not in met:
            met.add(status.st_ino)
            owners[status.st_uid] = owners.get(status.st_uid, 0) + status.st_blocks * 512
    return owners


def shm_users(owners: Dict[int, int] | None, name: Callable[[int], str | None]) -> list[Dict[str, Any]] | None:
    """The largest, always in the same order."""
    if owners is None:
        return None
    largest = sorted(owners, key=lambda uid: -owners[uid])[:MOST_USERS]
    return [{"user": name(uid), "size": owners[uid]} for uid in sorted(largest)]
