"""Restores the names of resources that the dashboard or placement groups have changed, and parses their amounts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

Number = TypeVar("Number", int, float)
MAX_AMOUNT = 1e18
"""A limit that no real amount reaches, below the largest 64-bit integer."""
_IN_GROUP = re.compile(r"(?P<name>.+?)_group_(?:(?P<bundle>\d+)_)?[0-9a-f]{36}")
_MANGLED_IN_GROUP = re.compile(r".+?Group\d*[0-9A-Fa-f]{36}")
_MEMORY_UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}
_USE = re.compile(
    r"\s*(?P<used>[\d.e+-]+)(?P<used_unit>[A-Za-z]*)/(?P<total>[\d.e+-]+)(?P<total_unit>[A-Za-z]*) (?P<name>\S+)"
    r"(?: \((?P<inner>[\d.e+-]+)(?P<inner_unit>[A-Za-z]*) used of "
    r"(?P<reserved>[\d.e+-]+)(?P<reserved_unit>[A-Za-z]*) reserved in placement groups\))?"
)
_KNOWN_NAMES = ("object_store_memory", "node:__internal_head__")
_ACCELERATOR, _MANGLED_ACCELERATOR = "accelerator_type:", "acceleratorType:"


def plausible_amount(number: Number | None) -> Number | None:
    """The number; `None` for NaN, infinity and absurdly large numbers. Ray passes on all that its agents and users write."""
    return number if number is not None and -MAX_AMOUNT < number < MAX_AMOUNT else None


def plausible_int(number: float | None) -> int | None:
    """The number as an integer, cut; `None` like `plausible_amount`."""
    return int(number) if number is not None and -MAX_AMOUNT < number < MAX_AMOUNT else None


def mangle(name: str) -> str:
    """The name as the dashboard changes it (`to_camel_case` in dashboard/utils.py). The change can't be reversed."""
    first, *others = name.split("_")
    return first + "".join(part.title() for part in others)


class ResourceNames:
    """The real names of all resources seen so far, by their mangled names."""

    def __init__(self) -> None:
        self._real = {mangle(name): name for name in _KNOWN_NAMES}

    def learn(self, names: Iterable[str]) -> None:
        """Add real names."""
        self._real.update((mangle(name), name) for name in names if "_" in name and not is_grouped(name))

    def unmangle(self, name: str) -> str:
        """The real name, as it was given to Ray; an unknown name is returned unchanged."""
        if name.startswith(_MANGLED_ACCELERATOR):
            return _ACCELERATOR + name.removeprefix(_MANGLED_ACCELERATOR)
        return self._real.get(name, name)


def is_grouped(name: str) -> bool:
    """Whether the name, real or mangled, means a placement group's share of a resource."""
    return _IN_GROUP.fullmatch(name) is not None or _MANGLED_IN_GROUP.fullmatch(name) is not None


def strip_group_names(resources: Mapping[str, float] | None) -> dict[str, float]:
    """The requested resources, with the names of placement groups removed.

    `GPU_group_<group>` and `GPU_group_<bundle>_<group>` name the same GPU; `bundle_group_…` is not a resource.
    """
    requested: dict[str, float] = {}
    for name, amount in (resources or {}).items():
        match = _IN_GROUP.fullmatch(name)
        real = match["name"] if match else name
        if (not match or real != "bundle") and plausible_amount(amount) is not None:
            requested[real] = max(amount, requested.get(real, 0.0))
    return requested


def bundle_of(resources: Mapping[str, float] | None) -> int | None:
    """The index of the bundle that is requested; `None` if any bundle of the group would do."""
    found = (match["bundle"] for name in resources or () if (match := _IN_GROUP.fullmatch(name)))
    return next((int(number) for number in found if number), None)


def parse_uses(text: str) -> dict[str, tuple[float, float]]:
    """The used and total amounts by resource, from lines such as `1.0/2.0 CPU (1.0 used of 1.0 reserved in placement groups)`.

    All that placement groups have reserved counts as used here. Ray's first figure leaves out the unused part of it (`parse_usage` in
    autoscaler/_private/util.py). Ray rounds amounts of memory.
    """
    found = {}
    for line in text.splitlines():
        if match := _USE.fullmatch(line):
            used, total = parse_amount(match["used"], match["used_unit"]), parse_amount(match["total"], match["total_unit"])
            if match["reserved"]:
                used += parse_amount(match["reserved"], match["reserved_unit"]) - parse_amount(match["inner"], match["inner_unit"])
            found[match["name"]] = (used, total)
    return found


def parse_amount(digits: str, unit: str = "") -> float:
    """The number that Ray prints, in bytes if it has a unit of memory; 0 if it is not a number."""
    try:
        return float(digits) * _MEMORY_UNITS.get(unit, 1)
    except ValueError:
        return 0.0
