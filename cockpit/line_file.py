"""The file in which the last look at a cluster leaves its one line: where it lies, and what of it is believed.

It imports little: `cockpit status --line` runs every few seconds, in a prompt at every command.
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
"""Seconds after which a line is called old: while somebody looks, it is written every 30 s at least."""
EARLY_S: Final = 5.0
"""So far in the future a line may have been written; beyond that, nobody knows how old it is."""
_UNFIT: Final = r"[^\w ·,–.:/@+()-]"
"""What tmux, or a shell that expands its prompt, could obey: #[…], %{…}, `…`, $(…)."""


class StatusLine(NamedTuple):
    """What a look has left."""

    text: str
    code: int
    """The exit code that `cockpit status` would have had."""
    age: float
    """Seconds since it was written."""


def lines_path() -> Path:
    """`$XDG_STATE_HOME/cockpit/lines`; platformdirs would say the same, but takes its time."""
    state = os.environ.get("XDG_STATE_HOME", "").strip()
    return Path(state or Path.home() / ".local" / "state") / "cockpit" / "lines"


def line_path(address: str | None) -> Path:
    """That of the cluster whose dashboard is there."""
    import hashlib  # only where an address is known: a prompt names none

    where = (address or "").rstrip("/")
    return lines_path() / f"{hashlib.sha256(where.encode('utf-8', 'replace')).hexdigest()[:16]}{SUFFIX}"


def find_line_file(address: str | None) -> Path | None:
    """That of an address; without one, that of the cluster that was looked at last."""
    if address is not None:
        return line_path(address)
    try:
        with os.scandir(lines_path()) as entries:
            written = [(entry.stat(follow_symlinks=False).st_mtime, entry.path) for entry in entries if entry.name.endswith(SUFFIX)]
    except OSError:
        return None
    return Path(max(written)[1]) if written else None


def read_line(address: str | None, now: float) -> StatusLine | None:
    """What was left last; `None` where nothing was, or nothing that can be believed."""
    path = find_line_file(address)
    try:
        said = json.loads(read_end(path, MAX_BYTES)) if path else {}
        text, code, age = str(said["text"]), int(said["code"]), now - float(said["written"])
    except (OSError, ValueError, LookupError, TypeError, OverflowError, RecursionError):
        return None
    if code not in range(4) or not age >= -EARLY_S:
        return None
    return StatusLine(re.sub(_UNFIT, "?", clean(text))[:MAX_LINE_CHARS], code, max(0.0, age))
