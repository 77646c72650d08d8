"""Fills the parts of an error into its remedy, in which each command stays what the table says: people paste it into a shell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_PLAIN: Final = re.compile(r"(?!-)[\w./:@%+,=\[\]-]+")
"""A part that a shell takes as one word, and a program not as a flag."""
_QUOTED: Final = re.compile(r"(?!-)(?:[\w./:@%+,=\[\]<>~() -]|!=)+")
"""A part that is harmless between single quotes, also where these stand between double quotes."""

_ACTS: Final = re.compile(
    r"(?:\S+ -m )?pip3? (?:install|download)\b|git config\b|ray (?:start|status|job delete)\b|RAY_ADDRESS=|enroot import\b"
    r"|(?:srun )?--container-image=|python3? -m verl\.|ldd\b"
)
"""Commands whose words choose what is installed, trusted, joined, deleted, loaded or run: of a log they take only numbers."""
_NUMBER: Final = re.compile(r"\d+(?:\.\w+)*")


def fill_remedy(remedy: str, parts: Mapping[str, str]) -> str:
    """The remedy with the parts. In a command, a part that may do more than be a word of it is left out: its name stands there instead.

    The program of a command is never a part, nor is what it installs, trusts, joins, deletes or loads.
    """
    pieces = remedy.split("`")
    outside = {name: part.replace("`", "'") for name, part in parts.items()}
    pieces[::2] = [piece.format_map(outside) for piece in pieces[::2]]
    pieces[1::2] = [piece.format_map({name: _word(name, part, piece) for name, part in parts.items()}) for piece in pieces[1::2]]
    return "`".join(pieces)


def _word(name: str, part: str, command: str) -> str:
    harmless = _QUOTED if f"'{{{name}}}'" in command else _PLAIN
    is_program = command.startswith(f"{{{name}}} ")
    if _ACTS.match(command):
        is_number = f"=={{{name}}}" in command or f":{{{name}}}" in command  # a release or a port
        return part if is_number and _NUMBER.fullmatch(part) else name.upper()
    return part if harmless.fullmatch(part) and not is_program else name.upper()
