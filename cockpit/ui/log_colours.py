"""Splits a line of a foreign log into pieces of safe text with their colours, and removes everything else.

Colours (SGR, ECMA-48 8.3.117) are kept and parsed by rich. Every other well-formed escape sequence is dropped with its content (a title, a
clipboard, a link). Malformed sequences are drawn as replacement characters. Text is never drawn blinking or hidden.
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
"""Characters read beyond that, so that a secret across the cut is still recognized."""
_SEQUENCE: Final = re.compile(r"""(?x)\x1b(?:
        \[(?P<sgr>[0-9;]{0,99})m                   # a colour; a sequence with all SGR attributes is half as long
      | \[[0-9:;<=>?]*[ -/]*[@-~]                # any other control sequence: cursor, erase, modes
      | \][^\x07\x1b]*(?:\x07|\x1b\\)            # OSC: title, clipboard, link
      | [PX^_][^\x1b]*\x1b\\                     # DCS, SOS, PM, APC
      | [ -/][0-~]                               # character sets
      | [0-?@-OQ-WYZ`-~]                         # the rest
    )""")
_DRAWN: Final = ("bold", "dim", "italic", "underline", "reverse", "strike")
"""The attributes that are drawn, without those that let text blink, hide it or frame it."""


def drop_overwritten(line: str) -> str:
    """Keep the text after the last carriage return, as a terminal does with a progress bar."""
    return line.rstrip("\r").rpartition("\r")[2] if "\r" in line else line


def strip_sequences(line: str) -> str:
    """Remove all escape sequences, for searching."""
    line = drop_overwritten(line)
    return _SEQUENCE.sub("", line) if "\x1b" in line else line


def split_line(line: str, *, cut: str = "…", hide: Callable[[str], str] = redact) -> list[tuple[str, Style]]:
    """Split a line into safe pieces without secrets. A line with a secret loses its colours. `cut` ends a line that is too long."""
    line = drop_overwritten(line)
    found = _split_colours(line[: MAX_DRAWN_CHARS + SLACK_CHARS])
    plain = "".join(text for text, _ in found)
    if (hidden := hide(plain)) != plain:
        found = [(hidden, Style.null())]
    if len(line) <= MAX_DRAWN_CHARS:
        return found
    kept, room = [], MAX_DRAWN_CHARS
    for text, style in found:
        kept.append((text[:room], style))
        room -= len(text)
        if room <= 0:
            break
    return [*kept, (cut, Style.null())]


def _split_colours(line: str) -> list[tuple[str, Style]]:
    """Split a line at the escape sequences of colours, and clean the pieces."""
    if "\x1b" not in line:
        return [(clean(line.expandtabs()), Style.null())]
    found: list[tuple[str, Style]] = []
    written, at, column = Style.null(), 0, 0
    for match in (*_SEQUENCE.finditer(line), None):
        text = line[at : match.start() if match else None]
        if text:
            if "\t" in text:  # tabs go to every eighth column of the line, not of the piece
                offset = column % 8
                text = (" " * offset + text).expandtabs()[offset:]
            found.append((clean(text), drawn_style(written)))
            column += len(text)
        if match:
            at = match.end()
            if match["sgr"] is not None:
                written = read_style(written, match[0])
    return found


@lru_cache(4096)
def drawn_style(written: Style) -> Style:
    """The style that is drawn for a written one. If text and background have the same colour, the background is dropped."""
    color, ground = (None if known is None or known.is_default else known for known in (written.color, written.bgcolor))
    colours = Style(color=color, bgcolor=None if ground == color else ground)
    return Style.combine([colours, *(Style.parse(name) for name in _DRAWN if getattr(written, name))])


@lru_cache(4096)
def read_style(before: Style, sequence: str) -> Style:
    """The style after a colour sequence; `before`: the style before it."""
    decoder = AnsiDecoder()
    decoder.style = before
    decoder.decode_line(sequence)
    return decoder.style
