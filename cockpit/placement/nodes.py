"""Judges requests against all living nodes: whether they fit now or on empty nodes, and which resources prevent it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from cockpit.placement.fit import Fit, Slot, capacity, check_fit
from cockpit.placement.request import Labels, NodeHold, PlacementNode, Request, matches

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
    is_blocked_by_label: bool = False
    """Without the label selectors there would be room."""


class LivingNodes:
    """The living nodes. Results are cached: thousands of actors have only a few shapes."""

    def __init__(self, nodes: Iterable[PlacementNode], *, known: bool = True, counts: Sequence[int] = ()) -> None:
        """`known`: these are all nodes; `counts`: the number of nodes of each kind."""
        self.nodes = tuple(nodes)
        self._counts = counts or (1,) * len(self.nodes)
        self.known = known and bool(self.nodes) and all(node.total for node in self.nodes)
        self._stocks: dict[tuple[object, ...], Counter[Slot]] = {}
        self._fits: dict[tuple[object, ...], Fit] = {}
        self._verdicts: dict[Request, PlacementVerdict | None] = {}

    def judge(self, request: Request) -> PlacementVerdict | None:
        """Return the verdict, or `None` if too little is known."""
        if request not in self._verdicts:
            self._verdicts[request] = self._judge(request) if self.known else None
        return self._verdicts[request]

    def _judge(self, request: Request) -> PlacementVerdict | None:
        ever = self.check_fit(request, "ever")
        if ever == "no":
            return PlacementVerdict("never", *self.find_obstacle(request, "ever"))
        if ever == "unknown" or not all(name in node.used or not node.total.get(name) for node in self.nodes for name in request.names):
            return None
        now = self.check_fit(request, "now")
        if now != "no":
            return None if now == "unknown" else PlacementVerdict("now" if now == "yes" else "missed")
        names, label = self.find_obstacle(request, "now")
        if label:
            return PlacementVerdict("label", names, label)
        if "GPU" in request.names and "GPU" not in names:
            return PlacementVerdict("short", names)
        is_enough = all(self.sum(request, name, "now") >= request.sum(name) for name in names)
        return PlacementVerdict("fragmented" if is_enough else "held", names)

    def find_obstacle(self, request: Request, when: When) -> tuple[tuple[str, ...], bool]:
        """Return the resources that are too few, and whether the labels are the obstacle.

        If the request would fit without one single resource, these resources are returned; otherwise those that don't fit even alone.
        """
        names = request.names
        label = bool(request.labels) and self.check_fit(request, when, labels=False) != "no"
        alone = tuple(name for name in names if self.check_fit(request, when, tuple(other for other in names if other != name)) != "no")
        return alone or tuple(name for name in names if self.check_fit(request, when, (name,)) == "no") or names, label

    def check_fit(self, request: Request, when: When, names: tuple[str, ...] | None = None, *, labels: bool = True) -> Fit:
        """Return whether there is room. `names` limits the question to some resources; `labels=False` ignores the selectors."""
        names = request.names if names is None else names
        key = (request, when, names, labels)
        if key not in self._fits:
            bundles = [(tuple(dict(shape.amounts).get(name, 0) for name in names), number) for shape, number in request.shapes]
            self._fits[key] = check_fit(self.stock(request, when, names, labels=labels), bundles, request.strategy)
        return self._fits[key]

    def stock(self, request: Request, when: When, names: Sequence[str], *, labels: bool = True) -> Counter[Slot]:
        """Return the nodes' amounts of these resources; equal nodes are counted."""
        wanted = tuple(shape.labels for shape, _ in request.shapes) if labels and request.labels else ()
        key = (wanted, when, tuple(names), request.excluded)
        if key not in self._stocks:
            stock: Counter[Slot] = Counter()
            for node, count in zip(self.nodes, self._counts, strict=True):
                if node.id not in request.excluded:
                    stock[Slot(tuple([amount_on(node, name, when) for name in names]), admitted_shapes(node.labels, wanted))] += count
            self._stocks[key] = stock
        return self._stocks[key]

    def count_fitting(self, request: Request, when: When) -> int | None:
        """Return how many bundles would fit, or `None` if the request has several shapes."""
        if len(request.shapes) != 1:
            return None
        need = tuple(amount for _, amount in request.shapes[0][0].amounts)
        stock = self.stock(request, when, request.names)
        most = 1 if request.strategy == "STRICT_SPREAD" else request.size
        return sum(nodes * min(most, capacity(slot, 0, need)) for slot, nodes in stock.items())

    def open_to(self, request: Request) -> Sequence[PlacementNode]:
        """Return the nodes whose labels admit one of the bundles, or all bundles if they go to one node."""
        if not request.labels and not request.excluded:
            return self.nodes
        wanted = [request.labels] if request.is_on_one_node else [shape.labels for shape, _ in request.shapes]
        return [node for node in self.nodes if node.id not in request.excluded and any(matches(node.labels, labels) for labels in wanted)]

    def sum(self, request: Request, name: str, when: When) -> int:
        """Return the total of a resource on all nodes whose labels admit the request."""
        return sum(amount_on(node, name, when) for node in self.open_to(request))

    def merge_equal(self, requests: Iterable[Request]) -> LivingNodes:
        """Return nodes with the same answers to these requests, but fewer: equal nodes are one, and each job has one hold on a node."""
        requests = tuple(requests)
        names, excluded = (
            {name for request in requests for name in request.names},
            {id_ for request in requests for id_ in request.excluded},
        )
        keys = {key for request in requests for key, _ in request.labels}
        counts: Counter[tuple[object, ...]] = Counter()
        kinds: dict[tuple[object, ...], PlacementNode] = {}
        for node in self.nodes:
            held: dict[str | None, Counter[str]] = {}
            for hold in node.holds:
                held.setdefault(hold.job, Counter()).update({name: amount for name, amount in hold.amounts.items() if name in names})
            holds = tuple(NodeHold(job, "", "", held[job]) for job in sorted(held, key=str) if held[job])
            labels = tuple(node.labels.get(key) for key in keys)
            amounts = [(hold.job, *sorted(hold.amounts.items())) for hold in holds]
            kind = (node.id in excluded and node.id, labels, *(node.total.get(name) for name in names), *amounts)
            counts[kind] += 1
            kinds[kind] = replace(node, holds=holds)
        return LivingNodes(kinds.values(), known=self.known, counts=tuple(counts[kind] for kind in kinds))

    def with_holds_of(self, jobs: Container[str | None]) -> LivingNodes:
        """Return the nodes as if only these jobs held resources."""
        nodes = []
        for node in self.nodes:
            used: Counter[str] = Counter()
            for hold in node.holds:
                if hold.job in jobs:
                    used.update(hold.amounts)
            nodes.append(replace(node, used=used))
        return LivingNodes(nodes, known=self.known, counts=self._counts)


def amount_on(node: PlacementNode, name: str, when: When) -> int:
    """Return the total or free amount of a resource on a node. Ray assigns more than the total when blocked workers wake up."""
    total = node.total.get(name, 0)
    return total if when == "ever" else max(0, total - node.used.get(name, 0))


def admitted_shapes(labels: Mapping[str, str], wanted: Sequence[Labels]) -> int:
    """Return as bits which shapes a node with these labels admits. `wanted` has the selectors of each shape; empty: all are admitted."""
    if not wanted:
        return ALL_SHAPES
    return sum(1 << number for number, selectors in enumerate(wanted) if not selectors or matches(labels, selectors))
