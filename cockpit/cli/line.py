"""Prints the last known state as one line for tmux or a prompt (`cockpit status --line`), with few imports and no request."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

from cockpit.files.status_line import OLD_S, read_line
from cockpit.text import UNKNOWN, to_ascii

STALE, NOTHING_KNOWN = 1, 3


def answer_line(words: Sequence[str]) -> int | None:
    """Answer `status --line`, and return the exit code; `None`: the words are another command, or need click to read them."""
    match words:
        case ["status", "--line"] if not os.environ.get("COCKPIT_ADDRESS"):
            return print_line(None)
        case ["status", "--line", "--address", address] if address.startswith(("http://", "https://")):
            return print_line(address)
    return None


def print_line(address: str | None, *, ascii: bool = False) -> int:
    """Print the line of this cluster; `None`: of the cluster that was sampled last.

    Return the exit code of that sample, at least a warning if it is old.
    """
    line = read_line(address, time.time())
    if line is None:
        text, code = UNKNOWN, NOTHING_KNOWN
    elif line.age < OLD_S:
        text, code = line.text, line.code
    else:
        units = (("d", 86400), ("h", 3600), ("min", 60))
        unit, seconds = next(((unit, seconds) for unit, seconds in units if line.age >= 2 * seconds), units[-1])
        text, code = f"{line.text} ({line.age // seconds:.0f} {unit} old)", max(line.code, STALE)

    # `cockpit.text.output` would import click and the rules of secrets; the text is already clean.
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        sys.stdout.write(f"{to_ascii(text, is_drawn=False) if ascii else text}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code
