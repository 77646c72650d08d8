"""Keeps the newest lines of a log and cuts the older ones."""

from __future__ import annotations

from collections.abc import Sequence
from sys import getsizeof
from typing import Final

from cockpit.text import size
from cockpit.ui.log_colours import MAX_DRAWN_CHARS, SLACK_CHARS, drop_overwritten, strip_sequences

MAX_LINES: Final = 200_000
MAX_BYTES: Final = 128 << 20
"""Limit for the memory of lines: 200,000 of usual length take 60 to 90 MiB, but a line may have thousands of characters."""


class LogLines:
    """Lines have numbers, from 0 since the last `clear`, and keep them when older lines are cut."""

    def __init__(self, max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES) -> None:
        self.max_lines, self.max_bytes = max_lines, max_bytes
        self.clear()

    def clear(self) -> None:
        self.cut = 0
        """How many lines have been cut; also the number of the oldest line that is kept."""
        self._lines: list[str] = []
        self._searched: list[str] = []
        """The same lines without colours, in lower case, so that a search of all lines takes some hundredths of a second."""
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, number: int) -> str:
        """The line of that number, which must not be cut."""
        return self._lines[number - self.cut]

    @property
    def end(self) -> int:
        """The number of the next line."""
        return self.cut + len(self._lines)

    def slice(self, begin: int, end: int) -> list[str]:
        """The lines from `begin` to before `end`, without those that were cut."""
        return self._lines[max(0, begin - self.cut) : max(0, end - self.cut)]

    def searched(self, number: int) -> str:
        """The line of that number without colours, in lower case."""
        return self._searched[number - self.cut]

    def cut_in_words(self) -> str:
        """`older lines are cut: 800,000 (limit 200,000 lines, 128M)`; empty if none are."""
        return f"older lines are cut: {self.cut:,} (limit {self.max_lines:,} lines, {size(self.max_bytes)})" if self.cut else ""

    def extend(self, lines: Sequence[str]) -> None:
        """Add lines, without their line ends."""
        for given in lines:
            line = given if len(given) <= MAX_DRAWN_CHARS else drop_overwritten(given)[: MAX_DRAWN_CHARS + SLACK_CHARS]
            line = line.replace("\n", " ")
            self._lines.append(line)
            self._searched.append(strip_sequences(line).casefold())
            self.bytes += getsizeof(line) + getsizeof(self._searched[-1])
        excess, kept_bytes = 0, self.bytes
        while len(self._lines) - excess > self.max_lines or kept_bytes > self.max_bytes:
            kept_bytes -= getsizeof(self._lines[excess]) + getsizeof(self._searched[excess])
            excess += 1
        del self._lines[:excess], self._searched[:excess]
        self.cut, self.bytes = self.cut + excess, kept_bytes
