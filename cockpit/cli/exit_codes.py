"""The exit codes of all commands, how their help lists them, and the sentence for one that is not 0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cockpit import output

DONE, NOT_ALL, NO_ANSWER = 0, 1, 3
BAD_USAGE: Final = NO_ANSWER
"""Of every command. `status` follows monitoring plugins: 0 OK, 1 warning, 2 critical, 3 unknown. So 2 can't mean a mistyped option."""
EXIT_CODES: Final = {
    "0": "done, or nothing to do; of `status`: OK",
    "1": "something failed, was refused, or is not known; of `status`: warning",
    "2": "only of `status` and `doctor`: critical; of `check`: never fits",
    "3": "no answer; or bad usage: a wrong option, a name that doesn't exist",
    "128+N": "ended by signal N (130: ctrl+c)",
}
"""What they mean everywhere; a command's own help says it in its words."""
STATUS_EXIT_CODES: Final = {0: "OK", 1: "warning or stale data", 2: "critical", 3: "no answer, or bad usage"}
ACT_EXIT_CODES: Final = {
    0: "done, or nothing to do",
    1: "something failed, was refused, or is not known",
    3: "no answer, no such thing, or bad usage",
}


def with_exit_codes(text: str, codes: Mapping[int, str] | Mapping[str, str]) -> str:
    """The help of a command, with a line for each of its exit codes that click doesn't wrap."""
    width = max(len(str(code)) for code in codes)
    return "\n".join([text, "", "\b", "Exit codes:", *(f"  {code:<{width}}  {meaning}" for code, meaning in codes.items())])


def refuse(text: str, code: int) -> int:
    """The sentence on stderr, and the code."""
    output.note(text)
    return code
