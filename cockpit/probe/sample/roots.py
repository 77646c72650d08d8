"""Finds the files that a process sees, also in a container: paths below its root, with links followed as the process follows them."""

from __future__ import annotations

import errno
import os
from itertools import islice
from typing import List

from .proc import read_link
from .processes import ScannedProcess

MAX_LINKS = 40


def root_of(process: ScannedProcess) -> str:
    """The root folder of its files. If we may not read that, it is ours (an empty string), unless it runs in another container."""
    root = f"/proc/{process.pid}/root"
    return root if os.path.lexists(f"{root}/proc") or process.details.apart else ""


def resolve_links(root: str, path: str) -> str:
    """The path with all links resolved below this root.

    Raises `OSError` if there are too many links: the kernel would resolve the remaining ones below our own root.
    """
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
        if links > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        done = "" if link.startswith("/") else done
        parts += link.split("/")[::-1]
    return done


def list_folder(root: str, path: str, most: int) -> List[str]:
    """At most `most` names in a folder below this root, in no order. Raises `OSError`."""
    with os.scandir(root + resolve_links(root, path)) as entries:
        return [entry.name for entry in islice(entries, most)]
