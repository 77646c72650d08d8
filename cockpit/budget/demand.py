"""Holds what a training command asks Ray for: its groups of bundles, in the order in which it makes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from cockpit.placement import Strategy

Mark = Literal["firm", "likely", "unknown"]
"""How sure a number is. A `likely` number comes with its doubts."""
Level = Literal["fine", "doubt", "later", "unknown", "never"]
"""From best to worst. `doubt`: it fits, but something speaks against it; `unknown`: it could not be checked."""


class Line(msgspec.Struct, frozen=True):
    """One thing that was checked."""

    level: Level
    text: str
    """One sentence with its numbers."""
    change: str | None = None
    """Which flag or setting to change, and to what; `None`: none, or that is unknown."""


class Group(msgspec.Struct, frozen=True):
    """Bundles that Ray places together or not at all."""

    name: str
    """The models that it is for, with the framework's names: `actor`, `vLLM`, `actor + ref`."""
    bundles: tuple[tuple[Mapping[str, float], int], ...] | None
    """Each shape with the number of its bundles, such as `({"GPU": 1, "CPU": 1}, 8)`; `None`: unknown."""
    strategy: Strategy | None = "PACK"
    """`None`: these are actors or tasks without a placement group."""
    unsure: tuple[str, ...] = ()
    """Resources whose number depends on the release, which is unknown: bundles have the numbers of the newest release."""

    def amount(self, resource: str) -> float | None:
        """The amount of a resource in all bundles; `None`: unknown."""
        if self.bundles is None or resource in self.unsure:
            return None
        return sum(shape.get(resource, 0.0) * number for shape, number in self.bundles)


def entrypoint_groups(shape: Mapping[str, float]) -> tuple[Group, ...]:
    """The group of what a job reserves for its entrypoint; no group if it reserves nothing."""
    shape = {name: amount for name, amount in shape.items() if amount}
    return (Group("entrypoint", ((shape, 1),), None),) if shape else ()


class Budget(msgspec.Struct, frozen=True):
    """What one command asks for. Only what was read is counted."""

    framework: str | None
    """The name that its maintainers use. `Ray`: the job or its preset asks for it; `None`: the command is not known."""
    dialect: str | None = None
    """The releases that have its flags: `0.10.2 and later`."""
    groups: tuple[Group, ...] | None = None
    """In the order in which they are made; the command waits for each before it makes the next. `None`: unknown."""
    unread: tuple[str, ...] = ()
    """Sentences on what is missing for the number, and where. The first one decides."""
    lines: tuple[Line, ...] = ()
    """Contradictions within the command, or to a rule of its framework."""
    settings: Mapping[str, str] = {}
    """By flag or key: what matters beside counts, such as memory shares, sleep, offload and batch sizes."""
    doubts: tuple[str, ...] = ()
    """Sentences on why the number is only likely."""

    @property
    def mark(self) -> Mark:
        """How sure the number of GPUs is."""
        return "unknown" if self.gpus is None else "likely" if self.doubts else "firm"

    @property
    def gpus(self) -> float | None:
        """All GPUs, on Ascend all NPUs; `None`: a group is unknown."""
        gpus, npus = self.amount("GPU"), self.amount("NPU")
        return None if gpus is None or npus is None else gpus + npus

    def amount(self, resource: str) -> float | None:
        """The amount of a resource that all groups ask for together; `None`: a group is unknown."""
        if self.groups is None:
            return None
        amounts = [group.amount(resource) for group in self.groups]
        return None if None in amounts else sum(amount for amount in amounts if amount is not None)
