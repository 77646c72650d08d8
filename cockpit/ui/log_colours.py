"""A line of somebody's log as pieces of safe text, each with the colours its writer gave it; nothing else gets through.

Colours (SGR, ECMA-48 8.3.117) are kept, and rich says what they mean; every other well-formed escape sequence is dropped with what it
carries (a title, a clipboard, a link); what is malformed shows as a replacement sign. Blinking and hidden text are not honoured.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from rich.ansi import AnsiDecoder
from rich.style import Style

from cockpit.secrets import redact
from cockpit.text import clean

MAX_DRAWN_CHARS: Final = 4_000
"""Characters of one line that are drawn."""
SLACK_CHARS: Final = 200
"""Read beyond that, so that a secret across the cut is still whole enough to be known as one."""

_SEQUENCE: Final = re.compile(r"""(?x)\x1b(?:
        \[(?P<sgr>[0-9;]{0,99})m                   # a colour; all that SGR knows in one sequence takes half of that
      | \[[0-9:;<=>?]*[ -/]*[@-~]                # any other control sequence: cursor, erase, modes
      | \][^\x07\x1b]*(?:\x07|\x1b\\)            # OSC: title, clipboard, link
      | [PX^_][^\x1b]*\x1b\\                     # DCS, SOS, PM, APC
      | [ -/][0-~]                               # character sets
      | [0-?@-OQ-WYZ`-~]                         # the rest
    )""")
_DRAWN: Final = ("bold", "dim", "italic", "underline", "reverse", "strike")
"""Beside the colours: what blinks, hides or frames text is not drawn."""


def drop_overwritten(line: str) -> str:
    """What a terminal would be left with: a progress bar that returns the carriage writes over what it wrote before."""
    return line.rstrip("\r").rpartition("\r")[2] if "\r" in line else line


def strip_sequences(line: str) -> str:
    """The text alone, for searching in."""
    line = drop_overwritten(line)
    return _SEQUENCE.sub("", line) if "\x1b" in line else line


def split_line(line: str, *, cut: str = "…", hide: Callable[[str], str] = redact) -> list[tuple[str, Style]]:
    """The line as it may be drawn, without secrets; where one is taken out the line's colours go too. `cut` ends a line too long."""
    line = drop_overwritten(line)
    found = _split_colours(line[: MAX_DRAWN_CHARS + SLACK_CHARS])
    plain = "".join(text for text, _ in found)
    if (hidden := hide(plain)) != plain:
        found = [(hidden, Style.null())]
    if len(line) <= MAX_DRAWN_CHARS:
        return found
    return [*_first(found, MAX_DRAWN_CHARS), (cut, Style.null())]


def _split_colours(line: str) -> list[tuple[str, Style]]:
    if "\x1b" not in line:
        return [(clean(line.expandtabs()), Style.null())]
    found: list[tuple[str, Style]] = []
    written, at, column = Style.null(), 0, 0
    for match in (*_SEQUENCE.finditer(line), None):
        text = line[at : match.start() if match else None]
        if text:
            text = _expand_tabs(text, column)
            found.append((clean(text), drawn_style(written)))
            column += len(text)
        if match:
            at = match.end()
            if match["sgr"] is not None:
                written = read_style(written, match[0])
    return found


def _expand_tabs(text: str, column: int) -> str:
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
def drawn_style(written: Style) -> Style:
    """As it is drawn. Text in the colour of its ground would be hidden: then it keeps only the colour."""
    color, ground = (None if known is None or known.is_default else known for known in (written.color, written.bgcolor))
    colours = Style(color=color, bgcolor=None if ground == color else ground)
    return Style.combine([colours, *(Style.parse(name) for name in _DRAWN if getattr(written, name))])


@lru_cache(4096)
def read_style(before: Style, sequence: str) -> Style:
    """How text is written after the escape sequence of a colour."""
    decoder = AnsiDecoder()
    decoder.style = before
    decoder.decode_line(sequence)
    return decoder.style
