"""Defines requests for resources and the nodes that have them, in amounts that add up exactly like Ray's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

SCALE = 10_000
"""Ray counts in ten-thousandths, so that three times 0.1 is 0.3."""
Strategy = Literal["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"]
Amounts = tuple[tuple[str, int], ...]
Labels = tuple[tuple[str, str], ...]
IMPLICIT_PREFIX = "node:__internal_implicit_resource_"
"""Every node has one of each such resource, although its list of resources doesn't have it."""
RANKED_LAST = ("object_store_memory", "memory", "CPU")


class Shape(msgspec.Struct, frozen=True, order=True):
    """The needs of one bundle, actor or task: amounts of resources, and label selectors for its node."""

    amounts: Amounts
    labels: Labels = ()


class Request(msgspec.Struct, frozen=True):
    """A request for bundles: the number of each shape. They are placed together or not at all."""

    shapes: tuple[tuple[Shape, int], ...]
    strategy: Strategy
    excluded: frozenset[str] = frozenset()
    """Nodes that already have bundles of the request, and by its strategy may get no more."""

    @property
    def size(self) -> int:
        """The number of bundles."""
        return sum(number for _, number in self.shapes)

    @property
    def is_on_one_node(self) -> bool:
        """Whether all bundles go to one node."""
        return self.strategy == "STRICT_PACK" or self.size == 1

    @property
    def names(self) -> tuple[str, ...]:
        """The resources that it needs, in Ray's order of weight."""
        return tuple(sorted({name for shape, _ in self.shapes for name, _ in shape.amounts}, key=rank))

    @property
    def labels(self) -> Labels:
        """The label selectors of all bundles."""
        return tuple(dict.fromkeys(label for shape, _ in self.shapes for label in shape.labels))

    def sum(self, name: str) -> int:
        """Return the total of a resource in all bundles."""
        return sum(number * dict(shape.amounts).get(name, 0) for shape, number in self.shapes)


class NodeHold(msgspec.Struct, frozen=True):
    """The resources that a job holds on a node through an actor or a placement group."""

    job: str | None
    """Ray's id of the job; `None` if it belongs to no job."""
    who: str
    what: str
    amounts: Mapping[str, int]


class PlacementNode(msgspec.Struct, frozen=True):
    """A living node: its resources, and how much of them is assigned. If `used` lacks a resource, its assigned amount is unknown."""

    id: str
    name: str
    total: Mapping[str, int]
    used: Mapping[str, int]
    labels: Mapping[str, str] = {}
    holds: tuple[NodeHold, ...] = ()


def rank(name: str) -> tuple[int, str]:
    """Return the key for Ray's order of resources: GPUs first, then custom resources, then memory and CPUs."""
    return (0, "") if name == "GPU" else (2 + RANKED_LAST.index(name), "") if name in RANKED_LAST else (1, name)


def scale_amount(amount: float) -> int:
    """Return the amount in ten-thousandths; a negative amount counts as 0."""
    return max(0, round(amount * SCALE))


def shape(needs: Mapping[str, float], labels: Mapping[str, str] | None = None) -> Shape:
    """Return the shape of one bundle. Bundles with equal needs have equal shapes."""
    wanted = ((name, scale_amount(needs[name])) for name in sorted(needs, key=rank) if not name.startswith(IMPLICIT_PREFIX))
    return Shape(tuple((name, amount) for name, amount in wanted if amount > 0), tuple(sorted((labels or {}).items())))


def make_request(bundles: Iterable[Shape] | Mapping[Shape, int], strategy: Strategy, excluded: Iterable[str] = ()) -> Request:
    """Return a request for these bundles, which are given one by one or counted."""
    counted = Counter(bundles)
    return Request(tuple(sorted(counted.items())), strategy, frozenset(excluded) if strategy == "STRICT_SPREAD" else frozenset())


def matches(labels: Mapping[str, str], wanted: Iterable[tuple[str, str]]) -> bool:
    """Return whether a node's labels match all selectors: `a`, `!a`, `in(a, b)` or `!in(a, b)`. A missing label is in no list."""
    for key, selector in wanted:
        positive = selector.removeprefix("!")
        values = [positive]
        if positive.startswith("in(") and positive.endswith(")"):
            values = [value.strip() for value in positive[3:-1].split(",")]
        if (labels.get(key) in values) == selector.startswith("!"):
            return False
    return True
