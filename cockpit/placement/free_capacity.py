"""What is left on each node while one ask after the other takes its share, where Ray would put it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec.structs import replace

from cockpit.placement.fit import Move, Slot, TooLongError, Vector, capacity, greedy_moves
from cockpit.placement.nodes import admitted_shapes
from cockpit.placement.request import Ask, NodeHold, Place, Shape, rank


class NodeKind(msgspec.Struct, frozen=True):
    """Nodes that are one to every ask: the same is left on them, and the labels that anybody asks for are the same."""

    has: Vector
    labels: tuple[str | None, ...]


class NodeShare(msgspec.Struct, frozen=True):
    """What one node gives to an ask."""

    place: Place
    amounts: Mapping[str, int]


class FreeCapacity:
    """The free room of nodes whose resources are all known. Equal nodes are counted, so that thousands cost little more than a few."""

    def __init__(self, places: Iterable[Place], asks: Iterable[Ask]) -> None:
        """`asks`: all that will be taken."""
        asks = tuple(asks)
        self._places = {place.id: place for place in places}
        self._names = tuple(sorted({name for ask in asks for name in ask.names}, key=rank))
        self._keys = tuple(sorted({key for ask in asks for key, _ in ask.labels}))
        self._kinds: dict[NodeKind, deque[str]] = {}
        self._gone: dict[str, list[NodeHold]] = {}
        for place in self._places.values():
            free = tuple([max(0, place.total.get(name, 0) - place.used.get(name, 0)) for name in self._names])
            self._kinds.setdefault(NodeKind(free, tuple([place.labels.get(key) for key in self._keys])), deque()).append(place.id)

    def take(self, ask: Ask, who: str = "", what: str = "") -> tuple[NodeShare, ...] | None:
        """Where Ray puts it, which is then held; `None` where Ray finds no room for it, or that would take too long to tell."""
        bundles = [(self._vector(shape), number) for shape, number in ask.shapes]
        homes = self._homes(ask)
        stock = {slot: sum(len(self._kinds[kind]) for kind in kinds) for slot, kinds in homes.items()}
        try:
            made = greedy_moves(stock, bundles, ask.strategy)
        except TooLongError:
            return None
        return None if made is None else tuple(self._fill_nodes(ask, made, homes, (who, what)))

    def most(self, ask: Ask) -> int:
        """How many bundles of its only shape find room."""
        need = self._vector(ask.shapes[0][0])
        return sum(len(self._kinds[kind]) * capacity(slot, 0, need) for slot, kinds in self._homes(ask).items() for kind in kinds)

    def places(self) -> tuple[Place, ...]:
        """The nodes as they stand now."""
        return tuple([self._stands(place, self._gone[place.id]) if place.id in self._gone else place for place in self._places.values()])

    @staticmethod
    def _stands(place: Place, gone: Iterable[NodeHold]) -> Place:
        used = Counter(place.used)
        for hold in gone:
            used.update(hold.amounts)
        return replace(place, used=used, holds=(*place.holds, *gone))

    def _vector(self, shape: Shape) -> Vector:
        needs = dict(shape.amounts)
        return tuple([needs.get(name, 0) for name in self._names])

    def _homes(self, ask: Ask) -> dict[Slot, list[NodeKind]]:
        """Kinds of nodes, as far as they differ to this ask."""
        homes: dict[Slot, list[NodeKind]] = {}
        wanted = [shape.labels for shape, _ in ask.shapes] if ask.labels else []
        for kind, ids in self._kinds.items():
            if ids:
                there = {key: value for key, value in zip(self._keys, kind.labels, strict=True) if value is not None}
                homes.setdefault(Slot(kind.has, admitted_shapes(there, wanted)), []).append(kind)
        return homes

    def _fill_nodes(
        self, ask: Ask, made: Iterable[Move], homes: dict[Slot, list[NodeKind]], holder: tuple[str, str]
    ) -> Iterator[NodeShare]:
        """Nodes that were given something stand last in their kind: a bundle that must not share finds them last."""
        given: dict[str, Counter[str]] = {}
        for move in made:
            gone = self._amounts(ask, move)
            less = tuple([gone.get(name, 0) for name in self._names])
            for _ in range(move.nodes):
                kind = next(kind for kind in homes[move.slot] if self._kinds[kind])
                place = self._kinds[kind].pop() if move.again else self._kinds[kind].popleft()
                rest = NodeKind(tuple([have - want for have, want in zip(kind.has, less, strict=True)]), kind.labels)
                self._kinds.setdefault(rest, deque()).append(place)
                self._remember(homes, move.slot, rest)
                given.setdefault(place, Counter()).update(gone)
        for place, amounts in given.items():
            self._gone.setdefault(place, []).append(NodeHold(holder[0], *holder, amounts))
            yield NodeShare(self._places[place], amounts)

    @staticmethod
    def _remember(homes: dict[Slot, list[NodeKind]], slot: Slot, rest: NodeKind) -> None:
        kinds = homes.setdefault(Slot(rest.has, slot.admits), [])
        if rest not in kinds:
            kinds.append(rest)

    def _amounts(self, ask: Ask, move: Move) -> dict[str, int]:
        gone: Counter[str] = Counter()
        for (shape, _), number in zip(ask.shapes, move.taken, strict=True):
            gone.update({name: number * amount for name, amount in shape.amounts if number})
        return dict(gone)
