"""Finds out whether a log grows only by the same few lines, such as `GET /health`. Then the job probably does nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import msgspec

from cockpit.failures.log_lines import read_lines

MAX_LINES: Final = 2000
MIN_LINES: Final = 20
"""Fewer equal lines say nothing."""
MAX_CHARS: Final = 200
"""Characters of a line that are compared."""
MAX_RAW_CHARS: Final = 600
"""Characters of a line that are read, with its marks."""
MAX_KINDS: Final = 3
"""So many kinds of lines may alternate, because a server writes its requests and its statistics in turn."""
_VARIES: Final = re.compile(
    r"\d{4}-\d\d-\d\d[T ]?|\d\d/[A-Z][a-z]{2}/\d{4}:?|\b\d\d?:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z| ?[+-]\d\d:?\d\d)?"  # times
    r"|\b(?:\d{1,3}\.){3}\d{1,3}(?::\d{1,5})?\b"  # addresses
    r"|\b[0-9a-fA-F]{8,64}(?:-[0-9a-fA-F]{4,12}){0,4}\b|0x[0-9a-fA-F]+"  # ids
    r"|\b\d{1,12}(?:\.\d{1,9})? ?(?:ns|us|µs|ms|s|sec|secs|seconds?|m|min|minutes?|h|hours?)\b"  # durations
)
_NUMBER: Final = re.compile(r"-?\d{1,15}(?:\.\d{1,15})?(?:[eE][+-]?\d{1,3})?")


class Repetition(msgspec.Struct, frozen=True):
    """The lines at the end of a log that differ only in numbers and times."""

    line: str
    """The last line of the log."""
    kinds: frozenset[str]
    """The texts of these lines, with a sign for each number and time."""
    begin: int
    """The number of the first of these lines in the text that was read."""
    seconds: float | None
    """The seconds from the first to the last of them by their own times; `None`: they have none."""


def find_repetition(raw_lines: Sequence[str]) -> Repetition | None:
    """The repetition that ends this log; `None`: its lines differ, or a number in them counts upwards or changes as a loss does."""
    skipped = max(0, len(raw_lines) - MAX_LINES)
    lines = [line for line in read_lines(raw[:MAX_RAW_CHARS] for raw in raw_lines[skipped:]) if line.text.strip()]
    fixed = [_VARIES.sub("…", line.text[:MAX_CHARS]) for line in lines]
    kinds = [_NUMBER.sub("#", text) for text in fixed]
    last = frozenset(kinds[-MIN_LINES:])
    if len(lines) < MIN_LINES or len(last) > MAX_KINDS:
        return None
    begin = next((number + 1 for number in range(len(kinds) - 1, -1, -1) if kinds[number] not in last), 0)
    # The count of numbers is kept too, because a `#` in the text itself stands for no number.
    values: dict[tuple[str, int], list[list[str]]] = {}
    for kind, text in zip(kinds[begin:], fixed[begin:], strict=True):
        numbers = _NUMBER.findall(text)
        values.setdefault((kind, len(numbers)), []).append(numbers)
    if any(_progresses(each) for each in values.values()):
        return None
    clocks = [line.clock for line in lines[begin:] if line.clock is not None]
    seconds = (clocks[-1] - clocks[0]) % 86400 if len(clocks) > 1 else None
    return Repetition(lines[-1].text.strip(), last, skipped + lines[begin].number, seconds)


def _progresses(every: list[list[str]]) -> bool:
    """Whether a number counts upwards, or a fraction changes. `every`: the numbers of each line of one kind."""
    for column in zip(*every, strict=True):
        if len(set(column)) == 1:
            continue
        values = [float(value) for value in column]
        counts = len(set(values)) > 2 and all(later >= earlier for earlier, later in pairwise(values))
        if counts or any("." in value for value in column):
            return True
    return False
