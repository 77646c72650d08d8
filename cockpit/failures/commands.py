"""Fills the parts of an error into its remedy, in which each command stays what the table says: people paste it into a shell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_PLAIN: Final = re.compile(r"(?!-)[\w./:@%+,=\[\]-]+")
"""A part that a shell takes as one word, and a program not as a flag."""
_QUOTED: Final = re.compile(r"(?!-)(?:[\w./:@%+,=\[\]<>~() -]|!=)+")
"""A part that is harmless between single quotes, also where these stand between double quotes."""


def fill_remedy(remedy: str, parts: Mapping[str, str]) -> str:
    """The remedy with the parts. In a command, a part that may do more than be a word of it is left out: its name stands there instead.

    The program of a command is never a part.
    """
    pieces = remedy.split("`")
    outside = {name: part.replace("`", "'") for name, part in parts.items()}
    pieces[::2] = [piece.format_map(outside) for piece in pieces[::2]]
    pieces[1::2] = [piece.format_map({name: _word(name, part, piece) for name, part in parts.items()}) for piece in pieces[1::2]]
    return "`".join(pieces)


def _word(name: str, part: str, command: str) -> str:
    harmless = _QUOTED if f"'{{{name}}}'" in command else _PLAIN
    is_program = command.startswith(f"{{{name}}} ")
    return part if harmless.fullmatch(part) and not is_program else name.upper()
