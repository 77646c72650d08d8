"""Reads the file with the last status line of a cluster.

It imports little, because `cockpit status --line` runs at every shell prompt.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.text import clean
from cockpit.trust import read_end

SUFFIX: Final = ".json"
MAX_BYTES: Final = 4096
MAX_LINE_CHARS: Final = 160
OLD_S: Final = 60.0
"""A line counts as old after this time; a running cockpit writes it at least every 30 s."""
EARLY_S: Final = 5.0
"""A line dated further in the future is refused, because its age is unknown."""
_UNFIT: Final = r"[^\w ·,–.:/@+()-]"
"""Characters that tmux, or a shell that expands its prompt, may execute: #[…], %{…}, `…`, $(…)."""


class StatusLine(NamedTuple):
    """The last status line of a cluster."""

    text: str
    code: int
    """The exit code of `cockpit status` at that time."""
    age: float
    """Seconds."""


def lines_path() -> Path:
    """Return `$XDG_STATE_HOME/cockpit/lines`, as platformdirs does, whose import takes longer."""
    state = os.environ.get("XDG_STATE_HOME", "").strip()
    return Path(state or Path.home() / ".local" / "state") / "cockpit" / "lines"


def line_path(address: str | None) -> Path:
    """Return the path of the file for the cluster at a dashboard's address."""
    import hashlib  # only where an address is known: a prompt names none

    where = (address or "").rstrip("/")
    return lines_path() / f"{hashlib.sha256(where.encode('utf-8', 'replace')).hexdigest()[:16]}{SUFFIX}"


def find_line_file(address: str | None) -> Path | None:
    """Return the file of an address; without one, the file that was written last."""
    if address is not None:
        return line_path(address)
    try:
        with os.scandir(lines_path()) as entries:
            written = [(entry.stat(follow_symlinks=False).st_mtime, entry.path) for entry in entries if entry.name.endswith(SUFFIX)]
    except OSError:
        return None
    return Path(max(written)[1]) if written else None


def read_line(address: str | None, now: float) -> StatusLine | None:
    """Return the last line, or `None` if there is none that can be trusted."""
    path = find_line_file(address)
    try:
        content = json.loads(read_end(path, MAX_BYTES)) if path else {}
        text, code, age = str(content["text"]), int(content["code"]), now - float(content["written"])
    except (OSError, ValueError, LookupError, TypeError, OverflowError, RecursionError):
        return None
    if code not in range(4) or not age >= -EARLY_S:
        return None
    return StatusLine(re.sub(_UNFIT, "?", clean(text))[:MAX_LINE_CHARS], code, max(0.0, age))
