"""Finds the folders in which only this user can open a socket."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from glob import glob
from pathlib import Path
from typing import Final

from cockpit.trust.ownership import why_not_ours

SHARED: Final = "/tmp"  # noqa: S108 each folder is checked


def private_folders() -> Iterator[str]:
    """Yield the folders for sockets that are ours and closed to all other users, the best first; missing ones are created.

    A program that an agent starts may not know XDG_RUNTIME_DIR or TMPDIR, so the places where these usually lead are tried too. If another
    user has taken all these names, the folder has one that nobody could foresee.
    """
    uid = os.geteuid()
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{uid}"
    places = [f"{runtime}/cockpit", *(f"{place}/cockpit-{uid}" for place in (SHARED, tempfile.gettempdir()))]
    unforeseen = f"{SHARED}/cockpit-{uid}-"
    is_any_ours = False
    for folder in dict.fromkeys((*places, *sorted(glob(f"{unforeseen}*")))):
        if is_private(folder):
            is_any_ours = True
            yield folder
    if not is_any_ours:
        with suppress(OSError):
            made = tempfile.mkdtemp(prefix=os.path.basename(unforeseen), dir=SHARED)
            yield from [made] if is_private(made) else ()


def is_private(folder: str) -> bool:
    """Create the folder if needed; return whether it is ours and closed to all other users.

    In /tmp, another user may have created it first. In a folder that another user can write to, it could be replaced later.
    """
    try:
        above = os.stat(os.path.dirname(folder))
        if why_not_ours(Path(folder)) is not None or (above.st_mode & 0o022 and not above.st_mode & stat.S_ISVTX):
            return False
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        found = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
