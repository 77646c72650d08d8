"""A line of somebody's log as pieces of safe text, each with the colours its writer gave it; nothing else gets through.

Colours (SGR, ECMA-48 8.3.117) are kept; every other well-formed escape sequence is dropped with what it carries (a title, a
clipboard, a link); what is malformed shows as a replacement sign. Blinking and hidden text are not honoured.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from rich.color import Color
from rich.style import Style

from cockpit.text import clean, redact

LONGEST: Final = 4_000
"""Characters of one line that are drawn."""
SLACK: Final = 200
"""Read beyond that, so that a secret across the cut is still whole enough to be known as one."""

_SEQUENCE: Final = re.compile(
    r"""\x1b(?:
        \[(?P<sgr>[0-9;]*)m
      | \[[0-9:;<=>?]*[ -/]*[@-~]                # any other control sequence: cursor, erase, modes
      | \][^\x07\x1b]*(?:\x07|\x1b\\)            # OSC: title, clipboard, link
      | [PX^_][^\x1b]*\x1b\\                     # DCS, SOS, PM, APC
      | [ -/][0-~]                               # character sets
      | [0-?@-OQ-WYZ`-~]                         # the rest
    )""",
    re.VERBOSE,
)
_ON: Final = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse", 9: "strike", 21: "underline"}
_OFF: Final = {22: {"bold", "dim"}, 23: {"italic"}, 24: {"underline"}, 27: {"reverse"}, 29: {"strike"}}


class Pen(NamedTuple):
    """How text is being written at one place of a line."""

    color: Color | None = None
    ground: Color | None = None
    attributes: frozenset[str] = frozenset()


def last_written(line: str) -> str:
    """What a terminal would be left with: a progress bar that returns the carriage writes over what it wrote before."""
    return line.rstrip("\r").rpartition("\r")[2] if "\r" in line else line


def visible(line: str) -> str:
    """The text alone, for searching in."""
    line = last_written(line)
    return _SEQUENCE.sub("", line) if "\x1b" in line else line


def pieces(line: str, *, cut: str = "…") -> list[tuple[str, Style]]:
    """The line as it may be drawn, without secrets; where one is taken out the line's colours go too. `cut` ends a line too long."""
    line = last_written(line)
    found = _coloured(line[: LONGEST + SLACK])
    plain = "".join(text for text, _ in found)
    if (hidden := redact(plain)) != plain:
        found = [(hidden, Style.null())]
    if len(line) <= LONGEST:
        return found
    return [*_first(found, LONGEST), (cut, Style.null())]


def _coloured(line: str) -> list[tuple[str, Style]]:
    if "\x1b" not in line:
        return [(clean(line.expandtabs()), Style.null())]
    found: list[tuple[str, Style]] = []
    pen, at, column = Pen(), 0, 0
    for match in (*_SEQUENCE.finditer(line), None):
        text = line[at : match.start() if match else None]
        if text:
            text = _tabbed(text, column)
            found.append((clean(text), style(pen)))
            column += len(text)
        if match:
            at = match.end()
            if match["sgr"] is not None:
                pen = moved(pen, match["sgr"])
    return found


def _tabbed(text: str, column: int) -> str:
    """Tabs lead to every eighth column of the line, not of the piece."""
    offset = column % 8
    return (" " * offset + text).expandtabs()[offset:] if "\t" in text else text


def _first(found: list[tuple[str, Style]], length: int) -> list[tuple[str, Style]]:
    kept = []
    for text, look in found:
        kept.append((text[:length], look))
        length -= len(text)
        if length <= 0:
            break
    return kept


@lru_cache(4096)
def style(pen: Pen) -> Style:
    """Text in the colour of its ground would be hidden: then it keeps only the colour."""
    ground = None if pen.ground == pen.color else pen.ground
    return Style.combine([Style(color=pen.color, bgcolor=ground), *(Style.parse(name) for name in sorted(pen.attributes))])


@lru_cache(4096)
def moved(pen: Pen, codes: str) -> Pen:
    """The pen after `ESC [ codes m`."""
    numbers = [int(code[:4] or 0) for code in codes.split(";")]
    while numbers:
        number = numbers.pop(0)
        if number == 0:
            pen = Pen()
        elif number in _ON:
            pen = pen._replace(attributes=pen.attributes | {_ON[number]})
        elif number in _OFF:
            pen = pen._replace(attributes=pen.attributes - _OFF[number])
        elif number // 10 in (3, 9):
            pen = pen._replace(color=_color(number, numbers))
        elif number // 10 in (4, 10):
            pen = pen._replace(ground=_color(number - 10, numbers))
    return pen


def _color(number: int, rest: list[int]) -> Color | None:
    """30-37 and 90-97 are the sixteen; 38 takes what follows it: `5;n` or `2;r;g;b`; 39 is the default."""
    if number == 38:
        kind = rest.pop(0) if rest else 0
        values = [min(255, value) for value in rest[: {5: 1, 2: 3}.get(kind, 0)]]
        del rest[: len(values)]
        if kind == 5 and values:
            return Color.from_ansi(values[0])
        return Color.from_rgb(*values) if kind == 2 and len(values) == 3 else None
    if number % 10 > 7:
        return None
    return Color.from_ansi(number - 30 if number < 40 else number - 82)
