"""Reads amounts of memory, and compares versions, as people write them."""

from __future__ import annotations

import re
import sys
from typing import Any, Final

_POWERS: Final = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_AMOUNT: Final = r"(?i)\s*(\d{1,20}(?:\.\d{1,20})?|\.\d{1,20})\s*([KMGTP]?)(I?B|)\s*"
_PART: Final = r"\s*(==|!=|>=|<=|>|<|)\s*(\d{1,9}(?:\.\d{1,9}){0,3})(?:\.\*)?\s*"
_NUMBERS: Final = r"\s*(\d{1,9}(?:\.\d{1,9})*)"


def is_number(value: Any) -> bool:
    """Return whether the value is a number that is finite as a float. `True` and `False` are no numbers."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def byte_count(value: Any) -> int | None:
    """Return the bytes of a number or text, or `None` if it is no amount.

    50GB counts in thousands; 50GiB and 50G (as the screen writes it) in 1024s.
    """
    if not isinstance(value, str):
        return int(value) if is_number(value) and value >= 0 else None
    match = re.fullmatch(_AMOUNT, value)
    if match is None:
        return None
    number, prefix, unit = match[1], match[2].upper(), match[3].upper()
    return int(float(number) * (1000 if prefix and unit == "B" else 1024) ** _POWERS[prefix])


def version_matches(wanted: str, version: str) -> bool | None:
    """Return whether the version matches: `2.44` is any 2.44.x, `>=2.40,<2.50` is a range. `None`: one of the two can't be read."""
    have = re.match(_NUMBERS, version)
    parts = [re.fullmatch(_PART, part) for part in wanted.split(",")]
    if have is None or not all(parts):
        return None
    from packaging.specifiers import SpecifierSet  # takes 5 ms of the start of the screen, which compares no versions

    rules = (f"{part[1] or '=='}{part[2]}{'' if part[1].startswith(('>', '<')) else '.*'}" for part in parts if part)
    return SpecifierSet(",".join(rules)).contains(have[1])
