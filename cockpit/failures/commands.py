"""Fills the parts of an error into its remedy, so that its commands are safe to paste into a shell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_PLAIN: Final = re.compile(r"(?!-)[\w./:@%+,=\[\]-]+")
"""A part that a shell reads as one word, and that no program reads as a flag."""
_QUOTED: Final = re.compile(r"(?!-)(?:[\w./:@%+,=\[\]<>~() -]|!=)+")
"""A part that is harmless between single quotes, also if double quotes enclose them."""

_ACTS: Final = re.compile(
    r"(?:\S+ -m )?pip3? (?:install|download)\b|git config\b|ray (?:start|status|job delete)\b|RAY_ADDRESS=|enroot import\b"
    r"|(?:srun )?--container-image=|python3? -m verl\.|ldd\b"
)
"""Commands that install, trust, join, delete, load or run something. Of a log, only numbers may become words of them."""
_NUMBER: Final = re.compile(r"\d+(?:\.\w+)*")


def fill_remedy(remedy: str, parts: Mapping[str, str]) -> str:
    """Fill the parts into the remedy. A part that may be more than one word of a command is replaced by its name.

    A part is never the program of a command, and never names what the command installs, trusts, joins, deletes or loads.
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
