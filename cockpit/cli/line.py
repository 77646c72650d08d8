"""`cockpit status --line`: what the last look has left, as one line for tmux or a prompt; it asks nobody, and imports little."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

from cockpit.line_file import OLD_S, StatusLine, read_line
from cockpit.text import UNKNOWN, to_ascii

STALE, NOTHING_KNOWN = 1, 3


def answer_line(words: Sequence[str]) -> int | None:
    """The exit code of `status --line [--address URL]`, once answered; `None`: another command, or one that click must read."""
    match words:
        case ["status", "--line"] if not os.environ.get("COCKPIT_ADDRESS"):
            return print_line(None)
        case ["status", "--line", "--address", address] if address.startswith(("http://", "https://")):
            return print_line(address)
    return None


def print_line(address: str | None, *, ascii: bool = False) -> int:
    """Print that of this cluster, or (`None`) of the one that was looked at last.

    The exit code is that of the look, and a warning at least once it is old.
    """
    line = read_line(address, time.time())
    if line is None:
        _say(UNKNOWN, ascii=ascii)
        return NOTHING_KNOWN
    if line.age < OLD_S:
        _say(line.text, ascii=ascii)
        return line.code
    _say(f"{line.text} ({_old_words(line)})", ascii=ascii)
    return max(line.code, STALE)


def _old_words(line: StatusLine) -> str:
    for unit, seconds in (("d", 86400), ("h", 3600)):
        if line.age >= 2 * seconds:
            return f"{line.age // seconds:.0f} {unit} old"
    return f"{line.age // 60:.0f} min old"


def _say(text: str, *, ascii: bool) -> None:
    """As `cockpit.output` does, which imports click and all that hides secrets; the text is clean."""
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        sys.stdout.write(f"{to_ascii(text, is_drawn=False) if ascii else text}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
