"""Folds a text into lines that fit into a width."""

from __future__ import annotations

from rich.cells import cell_len, chop_cells

MIN_LINE_CELLS = 2
"""A narrower line has no room for a wide character."""


def fold_text(text: str, width: int, *, by_words: bool = True, hang: int = 0, max_lines: int | None = None) -> list[str]:
    """Fold one clean line into lines of at most `width` cells.

    `by_words`: break before a word that fits into the next line, or after half of the line, and drop the blanks there. `hang`: cells by
    which all lines but the first are indented further. With `max_lines` the last line has the whole rest, however long.
    """
    indent = " " * min(width // 2, len(text) - len(text.lstrip()) + hang) if hang else ""
    rest = text.rstrip(" ") if by_words else text
    margin, lines = "", list[str]()
    while len(lines) + 1 != max_lines:
        room = max(MIN_LINE_CELLS, width - len(margin))
        start = rest[: 4 * room]  # to measure all of a long text for each line would take seconds
        if start == rest and cell_len(rest) <= room:
            break
        line = (chop_cells(start, room) or [start])[0]  # nothing to chop: the characters have no width
        before, _, part = line.rpartition(" ")
        if by_words and before.strip() and rest[len(line) : len(line) + 1] != " ":
            word = part + rest[len(line) :][:width].partition(" ")[0]
            if len(before) > room // 2 or cell_len(word) <= width - len(indent):
                line = before
        rest = rest[len(line) :]
        if by_words:
            line, rest = line.rstrip(" "), rest.lstrip(" ")
        lines.append(margin + line)
        margin = indent
    return [*lines, margin + rest]
