"""The newest lines of a log, packed: a million of them take some 20 MiB, and give the garbage collector nothing to visit."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from sys import getsizeof
from typing import Final

from textual.cache import LRUCache

from cockpit.text import size
from cockpit.ui.log_colours import MAX_DRAWN_CHARS, SLACK_CHARS, drop_overwritten

MAX_LINES: Final = 1_000_000
MAX_BYTES: Final = 64 << 20
"""Packed. Text that can't be packed is dropped sooner."""
BLOCK_LINES: Final = 256
"""Lines that are packed together: fewer pack badly, more make one look at a line dear."""


class LogLines:
    """Lines are numbered from 0 since the last `clear`, and keep their number when older ones are dropped."""

    def __init__(self, max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES) -> None:
        self.max_lines, self.max_bytes = max_lines, max_bytes
        self._unpacked: LRUCache[int, list[str]] = LRUCache(4)
        self.clear()

    def clear(self) -> None:
        self.dropped = 0
        """How many of the oldest lines are no longer kept; also the number of the oldest that is."""
        self._first = 0
        """The number of the first line of the first block."""
        self._blocks: list[bytes] = []
        self._open: list[str] = []
        """The newest lines, not yet enough for a block."""
        self._packed_bytes = self._open_bytes = 0
        self._unpacked.clear()

    def __len__(self) -> int:
        return self.end - self.dropped

    def __getitem__(self, number: int) -> str:
        """The line of that number; it must be kept."""
        return self.slice(number, number + 1)[0]

    @property
    def end(self) -> int:
        """The number that the next line will have."""
        return self._first + len(self._blocks) * BLOCK_LINES + len(self._open)

    @property
    def bytes(self) -> int:
        """What is kept takes so much memory."""
        return self._packed_bytes + self._open_bytes

    @property
    def limit(self) -> str:
        """In words: what is kept at most."""
        return f"{self.max_lines:,} lines, {size(self.max_bytes)} packed"

    def extend(self, lines: Sequence[str]) -> None:
        """Add lines, without their line ends."""
        if max(map(len, lines), default=0) > MAX_DRAWN_CHARS:
            lines = [line if len(line) <= MAX_DRAWN_CHARS else drop_overwritten(line)[: MAX_DRAWN_CHARS + SLACK_CHARS] for line in lines]
        self._open += [line.replace("\n", " ") if "\n" in line else line for line in lines]
        whole = len(self._open) // BLOCK_LINES * BLOCK_LINES
        for begin in range(0, whole, BLOCK_LINES):
            self._pack(self._open[begin : begin + BLOCK_LINES])
        del self._open[:whole]
        self._open_bytes = sum(map(getsizeof, self._open))
        self._drop()

    def _pack(self, lines: Sequence[str]) -> None:
        block = zlib.compress("\n".join(lines).encode("utf-8", "surrogatepass"), 1)
        self._blocks.append(block)
        self._packed_bytes += getsizeof(block)

    def _drop(self) -> None:
        self.dropped = max(self.dropped, self.end - self.max_lines)
        count = min(len(self._blocks), (self.dropped - self._first) // BLOCK_LINES)
        freed = sum(map(getsizeof, self._blocks[:count]))
        while count < len(self._blocks) and self.bytes - freed > self.max_bytes:
            freed += getsizeof(self._blocks[count])
            count += 1
        del self._blocks[:count]
        self._packed_bytes -= freed
        self._first += count * BLOCK_LINES
        self.dropped = max(self.dropped, self._first)

    def text(self, number: int) -> str:
        """The kept lines from this one to the last of its block, joined by line feeds."""
        place, offset = divmod(number - self._first, BLOCK_LINES)
        if place < len(self._blocks) and not offset:
            return zlib.decompress(self._blocks[place]).decode("utf-8", "surrogatepass")
        return "\n".join(self._block(place)[offset:])

    def slice(self, begin: int, end: int) -> list[str]:
        """The lines from one number to before another, as far as they are kept."""
        begin, end = max(begin, self.dropped), min(end, self.end)
        lines: list[str] = []
        while begin < end:
            place, offset = divmod(begin - self._first, BLOCK_LINES)
            found = self._block(place)[offset : offset + end - begin]
            lines += found
            begin += len(found)
        return lines

    def _block(self, place: int) -> list[str]:
        if place >= len(self._blocks):
            return self._open
        number = self._first + place * BLOCK_LINES
        if (lines := self._unpacked.get(number)) is None:
            self._unpacked[number] = lines = self.text(number).split("\n")
        return lines
