"""Finds the files that a process sees, which may be in a container: paths below its root, with links followed as it would follow them."""

from __future__ import annotations

import errno
import os
from itertools import islice
from typing import List

from .proc import read_link
from .processes import ScannedProcess

MOST_LINKS = 40


def root_of(process: ScannedProcess) -> str:
    """Its files as it sees them itself, in a container too. Where that is not allowed ours are its own, unless it is in another one."""
    root = f"/proc/{process.pid}/root"
    return root if os.path.lexists(f"{root}/proc") or process.details.apart else ""


def resolve_links(root: str, path: str) -> str:
    """The same path, links followed as they are meant below that root. Raises `OSError`: the kernel would follow the rest on our own."""
    parts, done, links = path.split("/")[::-1], "", 0
    while parts:
        part = parts.pop()
        if part in ("", ".", ".."):
            done = os.path.dirname(done) if part == ".." else done
            continue
        link = read_link(f"{root}{done}/{part}")
        if link is None:
            done = f"{done}/{part}"
            continue
        links += 1
        if links > MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        done = "" if link.startswith("/") else done
        parts += link.split("/")[::-1]
    return done


def list_folder(root: str, path: str, most: int) -> List[str]:
    """The names in a folder below that root, at most `most` of them, in no order. Raises `OSError`."""
    with os.scandir(root + resolve_links(root, path)) as entries:
        return [entry.name for entry in islice(entries, most)]
