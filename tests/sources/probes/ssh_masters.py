"""The ssh connections that a cockpit keeps open (ControlMaster), as /proc shows them."""

from __future__ import annotations

import os
from pathlib import Path


def master_pids() -> list[int]:
    """The pids of the ssh masters of this process."""
    return [
        int(title.parent.name)
        for title in Path("/proc").glob("[0-9]*/cmdline")
        if f"{os.getpid()}-" in read_text(title) and "[mux]" in read_text(title)
    ]


def read_text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # it has ended meanwhile
        return ""
