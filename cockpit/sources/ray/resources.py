"""Ray's names for resources: what the dashboard does to them, and what placement groups do; and which of its numbers are amounts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

Number = TypeVar("Number", int, float)
MAX_AMOUNT = 1e18
"""No cluster has so much of anything; whatever is smaller fits 64 bits."""
_GROUPED = re.compile(r"(?P<name>.+?)_group_(?:(?P<bundle>\d+)_)?[0-9a-f]{36}")
_MANGLED_GROUP = re.compile(r".+?Group\d*[0-9A-Fa-f]{36}")
_MEMORY = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}
_USE = re.compile(
    r"\s*(?P<used>[\d.e+-]+)(?P<unit>[A-Za-z]*)/(?P<total>[\d.e+-]+)(?P<whole>[A-Za-z]*) (?P<name>\S+)"
    r"(?: \((?P<inner>[\d.e+-]+)(?P<part>[A-Za-z]*) used of (?P<reserved>[\d.e+-]+)(?P<piece>[A-Za-z]*) reserved in placement groups\))?"
)
KNOWN = ("object_store_memory", "node:__internal_head__", "accelerator_type:")


def plausible_amount(number: Number | None) -> Number | None:
    """`None` for what is no amount: NaN, infinity, absurdly much. Ray passes on whatever its agents and users write."""
    return number if number is not None and -MAX_AMOUNT < number < MAX_AMOUNT else None


def whole(number: float | None) -> int | None:
    """The same, without what comes after the point."""
    return int(number) if number is not None and -MAX_AMOUNT < number < MAX_AMOUNT else None


def mangle(name: str) -> str:
    """What the dashboard makes of a name (`to_camel_case` in dashboard/utils.py); there is no way back."""
    first, *others = name.split("_")
    return first + "".join(part.title() for part in others)


class ResourceNames:
    """Real names of resources that have been seen, by what the dashboard makes of them."""

    def __init__(self) -> None:
        self._real = {mangle(name): name for name in KNOWN[:2]}

    @property
    def count(self) -> int:
        """How many are known: what was read with fewer may have mangled ones."""
        return len(self._real)

    def learn(self, names: Iterable[str]) -> None:
        """Remember real names."""
        self._real.update((mangle(name), name) for name in names if "_" in name and not is_grouped(name))

    def unmangle(self, name: str) -> str:
        """The name as it was given to Ray; one that was never seen stays as it is."""
        if name.startswith("acceleratorType:"):
            return f"{KNOWN[2]}{name[16:]}"
        return self._real.get(name, name)


def is_grouped(name: str) -> bool:
    """Whether this is a placement group's share of a resource, under its real or its mangled name."""
    return _GROUPED.fullmatch(name) is not None or _MANGLED_GROUP.fullmatch(name) is not None


def strip_group_names(resources: Mapping[str, float] | None) -> dict[str, float]:
    """What was asked for, with the names of placement groups taken off.

    `GPU_group_<group>` and `GPU_group_<bundle>_<group>` are the same GPU, named twice; `bundle_group_…` is no resource.
    """
    asked: dict[str, float] = {}
    for name, amount in (resources or {}).items():
        match = _GROUPED.fullmatch(name)
        real = match["name"] if match else name
        if (not match or real != "bundle") and plausible_amount(amount) is not None:
            asked[real] = max(amount, asked.get(real, 0.0))
    return asked


def bundle_of(resources: Mapping[str, float] | None) -> int | None:
    """The number of the bundle that something was bound to; `None` where any of its group would do."""
    found = (match["bundle"] for name in resources or () if (match := _GROUPED.fullmatch(name)))
    return next((int(number) for number in found if number), None)


def parse_uses(text: str) -> dict[str, tuple[float, float]]:
    """Handed out and in all, by resource, from lines such as `1.0/2.0 CPU (1.0 used of 1.0 reserved in placement groups)`.

    What a placement group has reserved is handed out, used or not; Ray's first figure leaves the unused part of it out
    (`parse_usage` in autoscaler/_private/util.py). Amounts of memory are rounded by Ray.
    """
    found = {}
    for line in text.splitlines():
        if match := _USE.fullmatch(line):
            used, total = parse_amount(match["used"], match["unit"]), parse_amount(match["total"], match["whole"])
            if match["reserved"]:
                used += parse_amount(match["reserved"], match["piece"]) - parse_amount(match["inner"], match["part"])
            found[match["name"]] = (used, total)
    return found


def parse_amount(digits: str, unit: str = "") -> float:
    """A number as Ray prints it, times its unit of memory; what is none counts as nothing."""
    try:
        return float(digits) * _MEMORY.get(unit, 1)
    except ValueError:
        return 0.0
