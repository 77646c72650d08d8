"""The exit codes of commands, and how their help lists them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

BAD_USAGE: Final = 3
"""Of every command. `status` follows monitoring plugins: 0 OK, 1 warning, 2 critical, 3 unknown. So 2 can't mean a mistyped option."""
STATUS_EXIT_CODES: Final = {0: "OK", 1: "warning or stale data", 2: "critical", 3: "no answer, or bad usage"}
ACT_EXIT_CODES: Final = {0: "done, or nothing to do", 1: "something failed or was refused", 3: "nothing reachable, or bad usage"}


def with_exit_codes(text: str, codes: Mapping[int, str]) -> str:
    """The help of a command, with a line for each of its exit codes that click doesn't wrap."""
    return "\n".join([text, "", "\b", "Exit codes:", *(f"  {code}  {meaning}" for code, meaning in codes.items())])
