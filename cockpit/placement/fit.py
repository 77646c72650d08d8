"""Decides whether bundles fit on nodes: exactly, and by Ray's own algorithm.

Ray (`bundle_scheduling_policy.cc`) places the largest bundle first and never takes a step back, so it can miss a placement that exists.
With bundles of one shape it misses none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations
from typing import Literal

import msgspec

from cockpit.placement.request import Strategy

Vector = tuple[int, ...]
Bundles = Sequence[tuple[Vector, int]]
Fit = Literal["yes", "missed", "no", "unknown"]
"""`missed`: there is room, but Ray's algorithm doesn't find it. `unknown`: the search would take too long."""
MAX_SEARCH_STEPS = 20_000
"""A search ends without a result after so many steps, some hundredths of a second."""
MAX_REACHED_STATES = 300
MAX_SHAPES = 8
UNLIMITED = 1 << 40


class Slot(msgspec.Struct, frozen=True):
    """A node's free amounts, and as bits the shapes that its labels admit. Nodes with equal slots are equal for a search."""

    has: Vector
    admits: int


Stock = Mapping[Slot, int]
"""The number of nodes with each slot."""


class TooLongError(Exception):
    """A search has used up its steps."""


def check_fit(stock: Stock, bundles: Bundles, strategy: Strategy) -> Fit:
    """Return whether there is room for all bundles."""
    try:
        if strategy == "STRICT_PACK":
            return "yes" if _strict_pack(stock, bundles) else "no"
        possible = _can_spread(stock, bundles) if strategy == "STRICT_SPREAD" else _can_hold_each(stock, bundles)
        if not possible or (len(bundles) == 1):
            return "yes" if possible else "no"
        if greedy_moves(stock, bundles, strategy) is not None:
            return "yes"
        return "missed" if strategy == "STRICT_SPREAD" or _search(stock, bundles) else "no"
    except TooLongError:
        return "unknown"


def capacity(slot: Slot, number: int, need: Vector) -> int:
    """Return how many bundles of the shape with this number a node takes. `need` is the shape's amounts."""
    if not slot.admits >> number & 1:
        return 0
    return min((have // want for have, want in zip(slot.has, need, strict=True) if want), default=UNLIMITED)


def _total_need(bundles: Bundles) -> Vector:
    return tuple(sum(need[index] * count for need, count in bundles) for index in range(len(bundles[0][0])))


def _can_spread(stock: Stock, bundles: Bundles) -> bool:
    """Return whether each bundle can have a node of its own: by Hall's theorem, if each set of bundles has as many nodes that take one."""
    if len(bundles) > MAX_SHAPES:
        raise TooLongError
    takers: Counter[int] = Counter()
    for slot, nodes in stock.items():
        takers[sum(1 << number for number, (need, _) in enumerate(bundles) if capacity(slot, number, need))] += nodes
    for chosen in chain.from_iterable(combinations(range(len(bundles)), size) for size in range(1, len(bundles) + 1)):
        wanted = sum(bundles[number][1] for number in chosen)
        if wanted > sum(nodes for mask, nodes in takers.items() if any(mask >> number & 1 for number in chosen)):
            return False
    return True


def _can_hold_each(stock: Stock, bundles: Bundles) -> bool:
    """Return whether each shape fits alone, and the total is enough. If not, no search is needed; for one shape it is the exact answer."""
    for number, (need, count) in enumerate(bundles):
        if sum(nodes * min(count, capacity(slot, number, need)) for slot, nodes in stock.items()) < count:
            return False
    return all(need <= sum(slot.has[index] * nodes for slot, nodes in stock.items()) for index, need in enumerate(_total_need(bundles)))


class Move(msgspec.Struct, frozen=True):
    """A number of equal nodes, each of which takes a number of bundles of each shape. `again`: these nodes have taken bundles before."""

    slot: Slot
    nodes: int
    taken: Vector
    again: bool = False


def greedy_moves(stock: Stock, bundles: Bundles, strategy: Strategy) -> list[Move] | None:
    """Return Ray's placement in its order, or `None` if Ray finds no room."""
    if strategy == "STRICT_PACK":
        return _strict_pack(stock, bundles)
    ordered = sorted(enumerate(bundles), key=lambda item: item[1][0], reverse=True)
    if len(stock) * (len(bundles) if strategy == "PACK" else sum(count for _, count in bundles)) > 10 * MAX_SEARCH_STEPS:
        raise TooLongError
    fresh = Counter(dict(stock))
    return _pack(fresh, ordered) if strategy == "PACK" else _spread(fresh, ordered, again=strategy == "SPREAD")


def _strict_pack(stock: Stock, bundles: Bundles) -> list[Move] | None:
    """Place all bundles on the emptiest node that takes them."""
    everything = (1 << len(bundles)) - 1
    admitting = Counter({slot: nodes for slot, nodes in stock.items() if slot.admits & everything == everything})
    slot = _emptiest_node(admitting, 0, _total_need(bundles))
    return None if slot is None else [Move(slot, 1, tuple(count for _, count in bundles))]


def _pack(fresh: Counter[Slot], ordered: list[tuple[int, tuple[Vector, int]]]) -> list[Move] | None:
    """Place the first bundle on the emptiest node, and there as many others as fit; then continue with the next node."""
    left = {number: count for number, (_, count) in ordered}
    moves: list[Move] = []
    for number, (need, _) in ordered:
        while left[number]:
            slot = _emptiest_node(fresh, number, need)
            if slot is None:
                return None
            taken, rest = {}, slot
            for other, (size, _) in ordered:
                taken[other] = min(left[other], capacity(rest, other, size))
                rest = _take_from(rest, size, taken[other])
            # Equal nodes are filled in the same way, as long as enough bundles are left.
            times = min(fresh[slot], *(left[other] // number for other, number in taken.items() if number))
            fresh[slot] -= times
            left = {other: count - times * taken[other] for other, count in left.items()}
            moves.append(Move(slot, times, tuple(taken[other] for other in range(len(ordered)))))
    return moves


def _spread(fresh: Counter[Slot], ordered: list[tuple[int, tuple[Vector, int]]], *, again: bool) -> list[Move] | None:
    """Place each bundle on the emptiest unused node. If there is none and `again` is set, it goes to a used one."""
    used: Counter[Slot] = Counter()
    moves: list[Move] = []
    for number, (need, count) in ordered:
        for _ in range(count):
            slot = _emptiest_node(fresh, number, need)
            where = fresh if slot else used
            slot = slot or (_emptiest_node(used, number, need) if again else None)
            if slot is None:
                return None
            where[slot] -= 1
            used[_take_from(slot, need, 1)] += 1
            moves.append(Move(slot, 1, tuple(int(other == number) for other in range(len(ordered))), where is used))
    return moves


def _take_from(slot: Slot, need: Vector, times: int) -> Slot:
    return Slot(tuple(have - times * want for have, want in zip(slot.has, need, strict=True)), slot.admits) if times else slot


def _emptiest_node(stock: Counter[Slot], number: int, need: Vector) -> Slot | None:
    """Return the node with the most resources left, by Ray's `LeastResourceScorer`."""
    able = [slot for slot, nodes in stock.items() if nodes and capacity(slot, number, need)]
    return max(able, key=lambda slot: sum((have - want) / have for have, want in zip(slot.has, need, strict=True) if want), default=None)


def _search(stock: Stock, bundles: Bundles) -> bool:
    """Return whether any placement exists. Node by node, it keeps the sets of bundles that the nodes so far can take."""
    goal = tuple(count for _, count in bundles)
    reached: set[Vector] = {(0,) * len(goal)}
    steps = 0
    for slot in chain.from_iterable([slot] * nodes for slot, nodes in stock.items()):
        further: set[Vector] = set()
        for taken in reached:
            for more in _fillings(slot, bundles, tuple(want - have for want, have in zip(goal, taken, strict=True)), 0):
                further.add(tuple(map(sum, zip(taken, more, strict=True))))
                steps += 1
                if steps > MAX_SEARCH_STEPS:
                    raise TooLongError
        if goal in further:
            return True
        if len(further) > MAX_REACHED_STATES:
            raise TooLongError

        # A set that is part of another set needs no further search.
        kept: list[Vector] = []
        for one in sorted(further, key=sum, reverse=True):
            if not any(all(less <= more for less, more in zip(one, other, strict=True)) for other in kept):
                kept.append(one)
        reached = set(kept)
    return False


def _fillings(slot: Slot, bundles: Bundles, left: Vector, number: int) -> Iterator[Vector]:
    """Yield all ways to fill a node with the shapes from `number` on, with as many bundles of the last shape as possible."""
    need = bundles[number][0]
    most = min(left[number], capacity(slot, number, need))
    if number == len(bundles) - 1:
        yield (most,)
        return
    for count in range(most, -1, -1):
        for others in _fillings(_take_from(slot, need, count), bundles, left, number + 1):
            yield (count, *others)
