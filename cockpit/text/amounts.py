"""Writes amounts, ages, lists of names and errors as words."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import floor, isfinite

UNKNOWN = "–"
"""Written for an unknown value."""
_UNITS = ("B", "K", "M", "G", "T", "P")


@lru_cache(1024)
def size(amount: float | None) -> str:
    """Return bytes in at most five characters: `512M`, `3.4G`, `80G`."""
    if amount is None:
        return UNKNOWN
    unit = 0
    value = float(amount)
    while abs(value) >= 999.5 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.1f}{_UNITS[unit]}" if unit and abs(value) < 9.95 else f"{value:.0f}{_UNITS[unit]}"


def percent(value: float | None) -> str:
    """Return `42%`; `–` if unknown."""
    return UNKNOWN if value is None else f"{value:.0f}%"


def share_percent(fraction: float | None) -> str:
    """Return a fraction as `42%`, rounded down: a value below a threshold must not look as if it had reached it."""
    return percent(None if fraction is None else floor(100 * fraction + 1e-6) if isfinite(fraction) else fraction)


def ratio(used: float | None, total: float | None) -> float | None:
    """Return the used share from 0 to 1, or `None` if a number is unknown or the total is 0."""
    return used / total if used is not None and total else None


def count(value: float | None) -> str:
    """Return an amount of a resource: `8`, `0.25`."""
    return UNKNOWN if value is None else f"{value:.4g}" if abs(value) < 10000 else f"{value:.0f}"


def gpus_words(number: float) -> str:
    """Return `1 GPU`, `0.25 GPUs`."""
    return f"{count(number)} GPU{'' if number == 1 else 's'}"


def age(seconds: float | None) -> str:
    """Return `8s`, `3m07s`, `5h02m`, `12d04h`; a time in the future is `0s`."""
    if seconds is None:
        return UNKNOWN
    whole = max(0, int(seconds))
    if whole >= 100 * 86400:
        return f"{whole // 86400}d"
    for unit, length, smaller_unit, smaller in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if whole >= length:
            return f"{whole // length}{unit}{whole % length // smaller:02}{smaller_unit}"
    return f"{whole}s"


def plural(number: int, noun: str, many: str = "") -> str:
    """Return `1 node`, `2 nodes`; `many` is the plural if it needs more than an s."""
    return f"{number} {noun if number == 1 else many or noun + 's'}"


def join_first(names: Sequence[str], most: int = 4, more: str = "more") -> str:
    """Return `a, b and 3 more`: the first names, and the number of the others."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} {more}" if rest > 0 else "")


def explain_os_error(error: OSError) -> str:
    """Return the reason of a system error, such as `no space left on device`, to be put after a path."""
    return (error.strerror or str(error)).lower()
