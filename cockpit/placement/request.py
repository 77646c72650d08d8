"""What is asked for and what there is to give, in amounts that add up as Ray's do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

SCALE = 10_000
"""Ray counts in ten-thousandths: three times 0.1 and 0.3 are the same."""
Strategy = Literal["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"]
Amounts = tuple[tuple[str, int], ...]
Labels = tuple[tuple[str, str], ...]
IMPLICIT_PREFIX = "node:__internal_implicit_resource_"
"""Every node has one of each such resource without saying so."""
RANKED_LAST = ("object_store_memory", "memory", "CPU")


class Shape(msgspec.Struct, frozen=True, order=True):
    """What one bundle, actor or task needs: amounts, and what the labels of its node must be."""

    amounts: Amounts
    labels: Labels = ()


class Ask(msgspec.Struct, frozen=True):
    """So many bundles of each shape, to be placed together or not at all."""

    shapes: tuple[tuple[Shape, int], ...]
    strategy: Strategy
    elsewhere: frozenset[str] = frozenset()
    """Nodes that hold bundles of it already, and by its strategy may hold no more."""

    @property
    def size(self) -> int:
        """How many bundles."""
        return sum(number for _, number in self.shapes)

    @property
    def together(self) -> bool:
        """Whether all of it goes to one node."""
        return self.strategy == "STRICT_PACK" or self.size == 1

    @property
    def names(self) -> tuple[str, ...]:
        """The resources it needs, in the order in which Ray weighs them."""
        return tuple(sorted({name for shape, _ in self.shapes for name, _ in shape.amounts}, key=rank))

    @property
    def labels(self) -> Labels:
        """All that is asked of labels."""
        return tuple(dict.fromkeys(label for shape, _ in self.shapes for label in shape.labels))

    def sum(self, name: str) -> int:
        """How much of a resource in all."""
        return sum(number * dict(shape.amounts).get(name, 0) for shape, number in self.shapes)


class NodeHold(msgspec.Struct, frozen=True):
    """What a job holds of a node, by an actor or a placement group."""

    job: str | None
    """By what Ray tells jobs apart; `None` for what belongs to none."""
    who: str
    what: str
    amounts: Mapping[str, int]


class Place(msgspec.Struct, frozen=True):
    """A living node: what it has, and what of it is handed out; of a resource that `used` doesn't name that is unknown."""

    id: str
    name: str
    total: Mapping[str, int]
    used: Mapping[str, int]
    labels: Mapping[str, str] = {}
    holds: tuple[NodeHold, ...] = ()


def rank(name: str) -> tuple[int, str]:
    """GPUs first, then custom resources, CPUs last: so Ray orders bundles."""
    return (0, "") if name == "GPU" else (2 + RANKED_LAST.index(name), "") if name in RANKED_LAST else (1, name)


def scale_amount(amount: float) -> int:
    """In ten-thousandths; negative amounts count as 0."""
    return max(0, round(amount * SCALE))


def shape(needs: Mapping[str, float], labels: Mapping[str, str] | None = None) -> Shape:
    """One bundle's shape; two with the same needs are equal."""
    wanted = ((name, scale_amount(needs[name])) for name in sorted(needs, key=rank) if not name.startswith(IMPLICIT_PREFIX))
    return Shape(tuple((name, amount) for name, amount in wanted if amount > 0), tuple(sorted((labels or {}).items())))


def ask(bundles: Iterable[Shape] | Mapping[Shape, int], strategy: Strategy, elsewhere: Iterable[str] = ()) -> Ask:
    """An ask for all these bundles, one by one or counted."""
    counted = Counter(bundles)
    return Ask(tuple(sorted(counted.items())), strategy, frozenset(elsewhere) if strategy == "STRICT_SPREAD" else frozenset())


def matches(labels: Mapping[str, str], wanted: Iterable[tuple[str, str]]) -> bool:
    """Whether a node's labels are as asked: `a`, `!a`, `in(a, b)` or `!in(a, b)`. A label that isn't there is in no list."""
    return all((labels.get(key) in _selector_values(selector.removeprefix("!"))) != selector.startswith("!") for key, selector in wanted)


def _selector_values(selector: str) -> list[str]:
    inside = selector[3:-1] if selector.startswith("in(") and selector.endswith(")") else None
    return [selector] if inside is None else [value.strip() for value in inside.split(",")]
