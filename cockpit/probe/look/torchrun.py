"""Folders of torchrun's logs in /tmp: where they are, and how much of a disk they take."""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from typing import Any, Dict, Mapping, Sequence, Tuple

from ..trust import own_uids
from .sizes import Size

PLACE = "/tmp"  # noqa: S108 where mkdtemp puts them, if nobody has set TMPDIR
NAME = re.compile(r"torchelastic_[a-z0-9_]{8}$")
MOST = 200
"""Folders that are measured, root's and ours first: everybody may put as many there as he likes."""


def torchrun_folders(place: str = PLACE) -> Tuple[str, ...]:
    """Those that are measured."""
    found: Dict[str, int] = {}
    try:
        names = [*filter(NAME.match, os.listdir(place))]
    except OSError:
        return ()  # not ours to read
    for name in names:
        with suppress(OSError):  # gone, or a mount of another user's that lets nobody look
            status = os.lstat(f"{place}/{name}")
            if stat.S_ISDIR(status.st_mode):
                found[name] = status.st_uid
    first = sorted(found, key=lambda name: (found[name] not in own_uids(), name))
    return tuple(f"{place}/{name}" for name in first[:MOST])


def disk_of(disks: Sequence[Mapping[str, Any]], place: str = PLACE) -> str | None:
    """The path of the disk that this place is on, if it is among them."""
    try:
        device = os.stat(place).st_dev
        return next((str(disk["path"]) for disk in disks if os.stat(str(disk["path"])).st_dev == device), None)
    except OSError:
        return None


def added_size(folders: Sequence[str], known: Mapping[str, Size]) -> int | None:
    """`None` until all have been measured."""
    sizes = [known[folder].size if folder in known else None for folder in folders]
    return None if None in sizes else sum(filter(None, sizes))
