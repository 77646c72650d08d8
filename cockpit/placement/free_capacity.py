"""Keeps the free resources of nodes while requests are placed one after the other, on the nodes that Ray would choose."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec.structs import replace

from cockpit.placement.fit import Move, Slot, TooLongError, Vector, capacity, greedy_moves
from cockpit.placement.nodes import admitted_shapes
from cockpit.placement.request import NodeHold, PlacementNode, Request, Shape, rank


class NodeKind(msgspec.Struct, frozen=True):
    """Nodes that are equal for every request: equal free resources, and equal labels as far as selectors use them."""

    has: Vector
    labels: tuple[str | None, ...]


class NodeShare(msgspec.Struct, frozen=True):
    """The resources that one node gives to a request."""

    node: PlacementNode
    amounts: Mapping[str, int]


class FreeCapacity:
    """The free resources of nodes, all of which are known. Equal nodes are counted, so that thousands cost little more than a few."""

    def __init__(self, nodes: Iterable[PlacementNode], requests: Iterable[Request]) -> None:
        """`requests`: all requests that will be placed."""
        requests = tuple(requests)
        self._nodes = {node.id: node for node in nodes}
        self._names = tuple(sorted({name for request in requests for name in request.names}, key=rank))
        self._keys = tuple(sorted({key for request in requests for key, _ in request.labels}))
        self._kinds: dict[NodeKind, deque[str]] = {}
        self._taken: dict[str, list[NodeHold]] = {}
        for node in self._nodes.values():
            free = tuple([max(0, node.total.get(name, 0) - node.used.get(name, 0)) for name in self._names])
            self._kinds.setdefault(NodeKind(free, tuple([node.labels.get(key) for key in self._keys])), deque()).append(node.id)

    def take(self, request: Request, who: str = "", what: str = "") -> tuple[NodeShare, ...] | None:
        """Place the request as Ray would, and keep its resources. `None` if Ray finds no room, or the search would take too long."""
        bundles = [(self._vector(shape), number) for shape, number in request.shapes]
        kinds_of_slots = self._kinds_of_slots(request)
        stock = {slot: sum(len(self._kinds[kind]) for kind in kinds) for slot, kinds in kinds_of_slots.items()}
        try:
            moves = greedy_moves(stock, bundles, request.strategy)
        except TooLongError:
            return None
        return None if moves is None else tuple(self._fill_nodes(request, moves, kinds_of_slots, (who, what)))

    def count_fitting(self, request: Request) -> int:
        """Return the number of bundles that fit, of the request's only shape."""
        need = self._vector(request.shapes[0][0])
        return sum(
            len(self._kinds[kind]) * capacity(slot, 0, need) for slot, kinds in self._kinds_of_slots(request).items() for kind in kinds
        )

    def nodes(self) -> tuple[PlacementNode, ...]:
        """Return the nodes with everything that was taken."""
        nodes = []
        for node in self._nodes.values():
            taken = self._taken.get(node.id, [])
            used = Counter(node.used)
            for hold in taken:
                used.update(hold.amounts)
            nodes.append(replace(node, used=used, holds=(*node.holds, *taken)) if taken else node)
        return tuple(nodes)

    def _vector(self, shape: Shape) -> Vector:
        needs = dict(shape.amounts)
        return tuple([needs.get(name, 0) for name in self._names])

    def _kinds_of_slots(self, request: Request) -> dict[Slot, list[NodeKind]]:
        """Return the kinds of nodes, grouped by the slot that they are for this request."""
        kinds_of_slots: dict[Slot, list[NodeKind]] = {}
        wanted = [shape.labels for shape, _ in request.shapes] if request.labels else []
        for kind, ids in self._kinds.items():
            if ids:
                labels = {key: value for key, value in zip(self._keys, kind.labels, strict=True) if value is not None}
                kinds_of_slots.setdefault(Slot(kind.has, admitted_shapes(labels, wanted)), []).append(kind)
        return kinds_of_slots

    def _fill_nodes(
        self, request: Request, moves: Iterable[Move], kinds_of_slots: dict[Slot, list[NodeKind]], holder: tuple[str, str]
    ) -> Iterator[NodeShare]:
        """Take the resources of the moves. A used node goes to the end of its kind: a bundle that needs a node of its own finds it last."""
        shares: dict[str, Counter[str]] = {}
        for move in moves:
            amounts: Counter[str] = Counter()
            for (shape, _), number in zip(request.shapes, move.taken, strict=True):
                amounts.update({name: number * amount for name, amount in shape.amounts if number})
            less = tuple([amounts.get(name, 0) for name in self._names])
            for _ in range(move.nodes):
                kind = next(kind for kind in kinds_of_slots[move.slot] if self._kinds[kind])
                node = self._kinds[kind].pop() if move.again else self._kinds[kind].popleft()
                rest = NodeKind(tuple([have - want for have, want in zip(kind.has, less, strict=True)]), kind.labels)
                self._kinds.setdefault(rest, deque()).append(node)
                kinds = kinds_of_slots.setdefault(Slot(rest.has, move.slot.admits), [])
                if rest not in kinds:
                    kinds.append(rest)
                shares.setdefault(node, Counter()).update(amounts)
        for node, amounts in shares.items():
            self._taken.setdefault(node, []).append(NodeHold(holder[0], *holder, amounts))
            yield NodeShare(self._nodes[node], amounts)
