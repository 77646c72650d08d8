"""Judges requests against all living nodes: whether they fit now or on empty nodes, and which resources prevent it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from cockpit.placement.fit import Room, Slot, capacity, room
from cockpit.placement.request import Ask, Labels, NodeHold, Place, matches

When = Literal["now", "ever"]
ALL_SHAPES = -1
"""The bits of a node whose labels admit every shape."""
PlacementKind = Literal["now", "missed", "held", "fragmented", "short", "label", "never"]
"""`short`: enough GPUs are free, but another resource is not. `fragmented`: enough in total, but not on one node.
`missed`: there is room, but Ray does not find it."""


class PlacementVerdict(msgspec.Struct, frozen=True):
    """Whether a request can be placed; if not, which resources are too few."""

    kind: PlacementKind
    names: tuple[str, ...] = ()
    label: bool = False
    """Without the label selectors there would be room."""


class LivingNodes:
    """The living nodes. Results are cached: thousands of actors have only a few shapes."""

    def __init__(self, places: Iterable[Place], *, known: bool = True, counts: Sequence[int] = ()) -> None:
        """`known`: these are all nodes; `counts`: the number of nodes of each kind."""
        self.places = tuple(places)
        self._counts = counts or (1,) * len(self.places)
        self.known = known and bool(self.places) and all(place.total for place in self.places)
        self._stocks: dict[tuple[object, ...], Counter[Slot]] = {}
        self._rooms: dict[tuple[object, ...], Room] = {}
        self._verdicts: dict[Ask, PlacementVerdict | None] = {}

    def judge(self, ask: Ask) -> PlacementVerdict | None:
        """Return the verdict, or `None` if too little is known."""
        if ask not in self._verdicts:
            self._verdicts[ask] = self._judge(ask) if self.known else None
        return self._verdicts[ask]

    def _judge(self, ask: Ask) -> PlacementVerdict | None:
        ever = self.room(ask, "ever")
        if ever == "no":
            return PlacementVerdict("never", *self.obstacle(ask, "ever"))
        if ever == "unknown" or not all(name in place.used or not place.total.get(name) for place in self.places for name in ask.names):
            return None
        now = self.room(ask, "now")
        if now != "no":
            return None if now == "unknown" else PlacementVerdict("now" if now == "yes" else "missed")
        names, label = self.obstacle(ask, "now")
        if label:
            return PlacementVerdict("label", names, label)
        if "GPU" in ask.names and "GPU" not in names:
            return PlacementVerdict("short", names)
        is_enough = all(self.sum(ask, name, "now") >= ask.sum(name) for name in names)
        return PlacementVerdict("fragmented" if is_enough else "held", names)

    def obstacle(self, ask: Ask, when: When) -> tuple[tuple[str, ...], bool]:
        """Return the resources that are too few, and whether the labels are the obstacle.

        If the request would fit without one single resource, these resources are returned; otherwise those that don't fit even alone.
        """
        names = ask.names
        label = bool(ask.labels) and self.room(ask, when, labels=False) != "no"
        alone = tuple(name for name in names if self.room(ask, when, tuple(other for other in names if other != name)) != "no")
        return alone or tuple(name for name in names if self.room(ask, when, (name,)) == "no") or names, label

    def room(self, ask: Ask, when: When, names: tuple[str, ...] | None = None, *, labels: bool = True) -> Room:
        """Return whether there is room. `names` limits the question to some resources; `labels=False` ignores the selectors."""
        names = ask.names if names is None else names
        key = (ask, when, names, labels)
        if key not in self._rooms:
            bundles = [(tuple(dict(shape.amounts).get(name, 0) for name in names), number) for shape, number in ask.shapes]
            self._rooms[key] = room(self.stock(ask, when, names, labels=labels), bundles, ask.strategy)
        return self._rooms[key]

    def stock(self, ask: Ask, when: When, names: Sequence[str], *, labels: bool = True) -> Counter[Slot]:
        """Return the nodes' amounts of these resources; equal nodes are counted."""
        wanted = tuple(shape.labels for shape, _ in ask.shapes) if labels and ask.labels else ()
        key = (wanted, when, tuple(names), ask.elsewhere)
        if key not in self._stocks:
            stock: Counter[Slot] = Counter()
            for place, count in zip(self.places, self._counts, strict=True):
                if place.id not in ask.elsewhere:
                    stock[Slot(tuple([has(place, name, when) for name in names]), admitted_shapes(place.labels, wanted))] += count
            self._stocks[key] = stock
        return self._stocks[key]

    def count_fitting(self, ask: Ask, when: When) -> int | None:
        """Return how many bundles would fit, or `None` if the request has several shapes."""
        if len(ask.shapes) != 1:
            return None
        need = tuple(amount for _, amount in ask.shapes[0][0].amounts)
        stock = self.stock(ask, when, ask.names)
        most = 1 if ask.strategy == "STRICT_SPREAD" else ask.size
        return sum(nodes * min(most, capacity(slot, 0, need)) for slot, nodes in stock.items())

    def open_to(self, ask: Ask) -> Sequence[Place]:
        """Return the nodes whose labels admit one of the bundles, or all bundles if they go to one node."""
        if not ask.labels and not ask.elsewhere:
            return self.places
        wanted = [ask.labels] if ask.together else [shape.labels for shape, _ in ask.shapes]
        return [place for place in self.places if place.id not in ask.elsewhere and any(matches(place.labels, labels) for labels in wanted)]

    def sum(self, ask: Ask, name: str, when: When) -> int:
        """Return the total of a resource on all nodes whose labels admit the request."""
        return sum(has(place, name, when) for place in self.open_to(ask))

    def merge_equal(self, asks: Iterable[Ask]) -> LivingNodes:
        """Return nodes with the same answers to these requests, but fewer: equal nodes are one, and each job has one hold on a node."""
        asks = tuple(asks)
        names, elsewhere = {name for ask in asks for name in ask.names}, {id_ for ask in asks for id_ in ask.elsewhere}
        keys = {key for ask in asks for key, _ in ask.labels}
        counts: Counter[tuple[object, ...]] = Counter()
        kinds: dict[tuple[object, ...], Place] = {}
        for place in self.places:
            held: dict[str | None, Counter[str]] = {}
            for hold in place.holds:
                held.setdefault(hold.job, Counter()).update({name: amount for name, amount in hold.amounts.items() if name in names})
            holds = tuple(NodeHold(job, "", "", held[job]) for job in sorted(held, key=str) if held[job])
            labels = tuple(place.labels.get(key) for key in keys)
            amounts = [(hold.job, *sorted(hold.amounts.items())) for hold in holds]
            kind = (place.id in elsewhere and place.id, labels, *(place.total.get(name) for name in names), *amounts)
            counts[kind] += 1
            kinds[kind] = replace(place, holds=holds)
        return LivingNodes(kinds.values(), known=self.known, counts=tuple(counts[kind] for kind in kinds))

    def only(self, jobs: Container[str | None]) -> LivingNodes:
        """Return the nodes as if only these jobs held resources."""
        places = []
        for place in self.places:
            used: Counter[str] = Counter()
            for hold in place.holds:
                if hold.job in jobs:
                    used.update(hold.amounts)
            places.append(replace(place, used=used))
        return LivingNodes(places, known=self.known, counts=self._counts)


def has(place: Place, name: str, when: When) -> int:
    """Return the total or free amount of a resource on a node. Ray assigns more than the total when blocked workers wake up."""
    total = place.total.get(name, 0)
    return total if when == "ever" else max(0, total - place.used.get(name, 0))


def admitted_shapes(labels: Mapping[str, str], wanted: Sequence[Labels]) -> int:
    """Return as bits which shapes a node with these labels admits. `wanted` has the selectors of each shape; empty: all are admitted."""
    if not wanted:
        return ALL_SHAPES
    return sum(1 << number for number, selectors in enumerate(wanted) if not selectors or matches(labels, selectors))
