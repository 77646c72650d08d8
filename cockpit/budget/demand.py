"""What a training command asks of Ray: groups of bundles in the order in which it makes them, and what of it can't be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from cockpit.placement import Strategy

Mark = Literal["firm", "likely", "unknown"]
"""How sure a number is: `likely` has its doubts beside it."""
Level = Literal["fine", "doubt", "later", "unknown", "never"]
"""From best to worst. `doubt`: it fits, and yet; `unknown`: nobody could look."""


class Line(msgspec.Struct, frozen=True):
    """One thing that was checked."""

    level: Level
    text: str
    """One sentence with its numbers."""
    change: str | None = None
    """Which flag or setting to change to what; `None` where nothing need be, or nobody knows."""


class Group(msgspec.Struct, frozen=True):
    """Bundles that are placed together or not at all."""

    name: str
    """Which models it is for, as the framework calls them: `actor`, `vLLM`, `actor + ref`."""
    bundles: tuple[tuple[Mapping[str, float], int], ...] | None
    """So many of each shape (`{"GPU": 1, "CPU": 1}`, 8); `None`: can't be read."""
    strategy: Strategy | None = "PACK"
    """`None`: plain actors or tasks, each placed for itself."""
    unsure: tuple[str, ...] = ()
    """Resources whose number depends on the framework's release, which the command leaves open: bundles hold the newest one's."""

    def amount(self, resource: str) -> float | None:
        """How much of a resource in all; `None` where that can't be known."""
        if self.bundles is None or resource in self.unsure:
            return None
        return sum(shape.get(resource, 0.0) * number for shape, number in self.bundles)


def entrypoint_groups(shape: Mapping[str, float]) -> tuple[Group, ...]:
    """What a job reserves for its entrypoint alone; none where that is nothing."""
    shape = {name: amount for name, amount in shape.items() if amount}
    return (Group("entrypoint", ((shape, 1),), None),) if shape else ()


class Budget(msgspec.Struct, frozen=True):
    """What one command asks for. Nothing that was not read is counted."""

    framework: str | None
    """As its maintainers write it; `Ray`: what the job or its preset says itself; `None`: not a command that is known here."""
    dialect: str | None = None
    """Of which versions its flags are: `0.10.2 and later`."""
    groups: tuple[Group, ...] | None = None
    """In the order in which they are made, each waited for before the next; `None`: can't be read."""
    unread: tuple[str, ...] = ()
    """What is missing for the number, and where, in sentences; the first one decides."""
    lines: tuple[Line, ...] = ()
    """Where the command contradicts itself, or its framework's rules."""
    settings: Mapping[str, str] = {}
    """What matters beside counts, by the framework's own flag or key: memory shares, sleep, offload, batch sizes."""
    doubts: tuple[str, ...] = ()
    """Why the number is only likely, in sentences."""

    @property
    def mark(self) -> Mark:
        """How sure the number of GPUs is."""
        return "unknown" if self.gpus is None else "likely" if self.doubts else "firm"

    @property
    def gpus(self) -> float | None:
        """All GPUs, or what Ray calls NPU on Ascend; `None` when a group can't be read."""
        gpus, npus = self.amount("GPU"), self.amount("NPU")
        return None if gpus is None or npus is None else gpus + npus

    def amount(self, resource: str) -> float | None:
        """How much of a resource all groups ask for together; `None` when any of them can't be read."""
        if self.groups is None:
            return None
        amounts = [group.amount(resource) for group in self.groups]
        return None if None in amounts else sum(amount for amount in amounts if amount is not None)
