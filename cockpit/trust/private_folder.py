"""Finds the folders in which only this user can open a socket."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from cockpit.trust.ownership import why_not_ours


def private_folders() -> Iterator[str]:
    """Yield the folders for sockets that are ours and closed to all other users, the best first; missing ones are created.

    A program that an agent starts may not know XDG_RUNTIME_DIR or TMPDIR, so the places where these usually lead are tried too.
    """
    uid = os.geteuid()
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{uid}"
    places = [f"{runtime}/cockpit", *(f"{place}/cockpit-{uid}" for place in ("/tmp", tempfile.gettempdir()))]  # noqa: S108 checked below
    yield from (folder for folder in dict.fromkeys(places) if is_private(folder))


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
