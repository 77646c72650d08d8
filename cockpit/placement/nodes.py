"""All living nodes as bundles see them: what fits now, what would fit on empty nodes, and what of it stands in the way."""

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
"""The bits of a node that admits every shape."""
PlacementKind = Literal["now", "missed", "held", "fragmented", "short", "label", "never"]
"""`short`: GPUs are there, something else is not. `fragmented`: enough in all, but in pieces. `missed`: Ray doesn't find the room."""


class PlacementVerdict(msgspec.Struct, frozen=True):
    """Whether an ask can be placed; if not, by which resources it is held up."""

    kind: PlacementKind
    names: tuple[str, ...] = ()
    label: bool = False
    """There would be room, were it not for labels."""


class LivingNodes:
    """The living nodes. What was asked once is remembered: thousands of actors have a few shapes."""

    def __init__(self, places: Iterable[Place], *, known: bool = True, counts: Sequence[int] = ()) -> None:
        """`known`: there are no nodes but these; `counts`: how many there are of each."""
        self.places = tuple(places)
        self._counts = counts or (1,) * len(self.places)
        self.known = known and bool(self.places) and all(place.total for place in self.places)
        self._stocks: dict[tuple[object, ...], Counter[Slot]] = {}
        self._rooms: dict[tuple[object, ...], Room] = {}
        self._verdicts: dict[Ask, PlacementVerdict | None] = {}

    def judge(self, ask: Ask) -> PlacementVerdict | None:
        """The verdict; `None` where too little is known for one."""
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
        if now == "no":
            return self._judge_blocked(ask)
        return None if now == "unknown" else PlacementVerdict("now" if now == "yes" else "missed")

    def _judge_blocked(self, ask: Ask) -> PlacementVerdict:
        names, label = self.obstacle(ask, "now")
        if label:
            return PlacementVerdict("label", names, label)
        if "GPU" in ask.names and "GPU" not in names:
            return PlacementVerdict("short", names)
        in_pieces = all(self.sum(ask, name, "now") >= ask.sum(name) for name in names)
        return PlacementVerdict("fragmented" if in_pieces else "held", names)

    def obstacle(self, ask: Ask, when: When) -> tuple[tuple[str, ...], bool]:
        """The resources for want of which it does not fit, those first that alone are to blame; and whether it is for its labels."""
        names = ask.names
        label = bool(ask.labels) and self.room(ask, when, labels=False) != "no"
        alone = tuple(name for name in names if self.room(ask, when, tuple(other for other in names if other != name)) != "no")
        return alone or tuple(name for name in names if self.room(ask, when, (name,)) == "no") or names, label

    def room(self, ask: Ask, when: When, names: tuple[str, ...] | None = None, *, labels: bool = True) -> Room:
        """Whether there is room, as far as these resources go (all, unless told)."""
        names = ask.names if names is None else names
        key = (ask, when, names, labels)
        if key not in self._rooms:
            bundles = [(tuple(dict(shape.amounts).get(name, 0) for name in names), number) for shape, number in ask.shapes]
            self._rooms[key] = room(self.stock(ask, when, names, labels=labels), bundles, ask.strategy)
        return self._rooms[key]

    def stock(self, ask: Ask, when: When, names: Sequence[str], *, labels: bool = True) -> Counter[Slot]:
        """What the nodes have of these resources, equal nodes counted."""
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
        """How many bundles of its only shape would fit; `None` if it has several."""
        if len(ask.shapes) != 1:
            return None
        need = tuple(amount for _, amount in ask.shapes[0][0].amounts)
        stock = self.stock(ask, when, ask.names)
        most = 1 if ask.strategy == "STRICT_SPREAD" else ask.size
        return sum(nodes * min(most, capacity(slot, 0, need)) for slot, nodes in stock.items())

    def open_to(self, ask: Ask) -> Sequence[Place]:
        """The nodes whose labels admit any of its bundles; for what goes to one node, all of them."""
        if not ask.labels and not ask.elsewhere:
            return self.places
        wanted = [ask.labels] if ask.together else [shape.labels for shape, _ in ask.shapes]
        return [place for place in self.places if place.id not in ask.elsewhere and any(matches(place.labels, labels) for labels in wanted)]

    def sum(self, ask: Ask, name: str, when: When) -> int:
        """How much of a resource there is on all nodes that its labels admit."""
        return sum(has(place, name, when) for place in self.open_to(ask))

    def merge_equal(self, asks: Iterable[Ask]) -> LivingNodes:
        """The same world as far as these asks go: with one hold of each job on a node, and equal nodes as one."""
        asks = tuple(asks)
        names, apart = {name for ask in asks for name in ask.names}, {id_ for ask in asks for id_ in ask.elsewhere}
        keys = {key for ask in asks for key, _ in ask.labels}
        counts: Counter[tuple[object, ...]] = Counter()
        kinds: dict[tuple[object, ...], Place] = {}
        for place in self.places:
            holds = _holds_by_job(place.holds, names)
            labels = tuple(place.labels.get(key) for key in keys)
            held = [(hold.job, *sorted(hold.amounts.items())) for hold in holds]
            kind = (place.id in apart and place.id, labels, *(place.total.get(name) for name in names), *held)
            counts[kind] += 1
            kinds[kind] = replace(place, holds=holds)
        return LivingNodes(kinds.values(), known=self.known, counts=tuple(counts[kind] for kind in kinds))

    def only(self, jobs: Container[str | None]) -> LivingNodes:
        """The world in which nobody holds anything but these jobs."""
        return LivingNodes(
            (replace(place, used=_amounts_held_by(jobs, place.holds)) for place in self.places), known=self.known, counts=self._counts
        )


def has(place: Place, name: str, when: When) -> int:
    """What a node has of a resource, at all or free. Ray hands out more than there is when blocked workers wake up."""
    total = place.total.get(name, 0)
    return total if when == "ever" else max(0, total - place.used.get(name, 0))


def admitted_shapes(there: Mapping[str, str], wanted: Sequence[Labels]) -> int:
    """As bits, which of the shapes that want these labels a node admits; all of them where no labels are wanted at all."""
    if not wanted:
        return ALL_SHAPES
    return sum(1 << number for number, labels in enumerate(wanted) if not labels or matches(there, labels))


def _holds_by_job(holds: Iterable[NodeHold], names: Container[str]) -> tuple[NodeHold, ...]:
    merged: dict[str | None, Counter[str]] = {}
    for hold in holds:
        merged.setdefault(hold.job, Counter()).update({name: amount for name, amount in hold.amounts.items() if name in names})
    return tuple(NodeHold(job, "", "", merged[job]) for job in sorted(merged, key=str) if merged[job])


def _amounts_held_by(jobs: Container[str | None], holds: Iterable[NodeHold]) -> Mapping[str, int]:
    held: Counter[str] = Counter()
    for hold in holds:
        if hold.job in jobs:
            held.update(hold.amounts)
    return held
