"""Reads from torchrun's table of failures which rank failed first, on which host, and how it ended."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from cockpit.failures.log_lines import LogLine

_TITLE: Final = "Root Cause (first observed failure):"
_FIELD: Final = re.compile(r"\s{0,8}(?P<name>time|host|rank|exitcode|error_file|traceback)\s{0,8}: (?P<value>.{0,400})")
_MAX_LINES: Final = 12
"""Lines below the title that are read."""


def find_first_failure(lines: Sequence[LogLine]) -> LogLine | None:
    """The first failure in the last table in these lines, with the words of the table as text; `None`: there is no table."""
    begin = next((number for number in range(len(lines) - 1, -1, -1) if lines[number].text.startswith(_TITLE)), None)
    if begin is None:
        return None
    fields = {}
    for line in lines[begin + 1 : begin + 1 + _MAX_LINES]:
        if (field := _FIELD.match(line.text)) is not None:
            fields[field["name"]] = field["value"].strip()
        elif line.text.startswith("==="):
            break
    rank = re.match(r"\d{1,5}", fields.get("rank", ""))
    pid = re.search(r"\(pid: (\d{1,10})\)", fields.get("exitcode", ""))
    text = "\n".join(f"{name}: {fields[name]}" for name in ("exitcode", "traceback", "rank", "host") if name in fields)
    return replace(lines[begin], text=text, rank=int(rank[0]) if rank else None, pid=int(pid[1]) if pid else None)
