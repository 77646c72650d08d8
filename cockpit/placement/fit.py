"""Whether bundles fit on nodes: exactly, and as Ray's own way of looking finds it.

Ray (`bundle_scheduling_policy.cc`) takes the bundles largest first and never takes a step back, so that it can miss a placement that
exists. With bundles of one shape it misses none.
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
Room = Literal["yes", "missed", "no", "unknown"]
"""`missed`: there is room, but Ray's way of looking doesn't find it. `unknown`: it would take too long to tell."""
MAX_SEARCH_STEPS = 20_000
"""Steps of a search, some hundredths of a second, after which nothing is claimed."""
MAX_REACHED_STATES = 300
MAX_SHAPES = 8
UNLIMITED = 1 << 40


class Slot(msgspec.Struct, frozen=True):
    """What a node has left, and as bits which of the shapes its labels admit. Nodes with the same are one to the search."""

    has: Vector
    admits: int


Stock = Mapping[Slot, int]
"""So many nodes of each kind."""


class TooLongError(Exception):
    """A search has taken all its steps."""


def room(stock: Stock, bundles: Bundles, strategy: Strategy) -> Room:
    """Whether there is room for all bundles."""
    try:
        if strategy == "STRICT_PACK":
            return "yes" if _place_whole(stock, bundles) else "no"
        possible = _can_spread(stock, bundles) if strategy == "STRICT_SPREAD" else _can_hold_each(stock, bundles)
        if not possible or (len(bundles) == 1):
            return "yes" if possible else "no"
        if greedy_moves(stock, bundles, strategy) is not None:
            return "yes"
        return "missed" if strategy == "STRICT_SPREAD" or _search(stock, bundles) else "no"
    except TooLongError:
        return "unknown"


def capacity(slot: Slot, number: int, need: Vector) -> int:
    """How many bundles of a shape, the `number`th, a node takes."""
    if not slot.admits >> number & 1:
        return 0
    return min((have // want for have, want in zip(slot.has, need, strict=True) if want), default=UNLIMITED)


def _total_need(bundles: Bundles) -> Vector:
    return tuple(sum(need[place] * count for need, count in bundles) for place in range(len(bundles[0][0])))


def _can_spread(stock: Stock, bundles: Bundles) -> bool:
    """Hall's theorem: each set of bundles must have as many nodes that take one of them."""
    if len(bundles) > MAX_SHAPES:
        raise TooLongError
    takers: Counter[int] = Counter()
    for slot, nodes in stock.items():
        takers[sum(1 << number for number, (need, _) in enumerate(bundles) if capacity(slot, number, need))] += nodes
    some = range(len(bundles))
    sets = chain.from_iterable(combinations(some, size) for size in range(1, len(bundles) + 1))
    return all(
        sum(bundles[number][1] for number in chosen)
        <= sum(nodes for mask, nodes in takers.items() if any(mask >> number & 1 for number in chosen))
        for chosen in sets
    )


def _can_hold_each(stock: Stock, bundles: Bundles) -> bool:
    """Whether each shape alone would fit, and there is enough in all: without it no search is needed; for one shape it is the answer."""
    for number, (need, count) in enumerate(bundles):
        if sum(nodes * min(count, capacity(slot, number, need)) for slot, nodes in stock.items()) < count:
            return False
    return all(need <= sum(slot.has[place] * nodes for slot, nodes in stock.items()) for place, need in enumerate(_total_need(bundles)))


class Move(msgspec.Struct, frozen=True):
    """So many nodes of a kind take so many bundles of each shape; `again`: nodes that have taken some before."""

    slot: Slot
    nodes: int
    taken: Vector
    again: bool = False


def greedy_moves(stock: Stock, bundles: Bundles, strategy: Strategy) -> list[Move] | None:
    """What Ray puts where, in its order; `None` where it finds no room."""
    if strategy == "STRICT_PACK":
        return _place_whole(stock, bundles)
    ordered = sorted(enumerate(bundles), key=lambda item: item[1][0], reverse=True)
    if len(stock) * (len(bundles) if strategy == "PACK" else sum(count for _, count in bundles)) > 10 * MAX_SEARCH_STEPS:
        raise TooLongError
    fresh = Counter(dict(stock))
    return _pack(fresh, ordered) if strategy == "PACK" else _spread(fresh, ordered, again=strategy == "SPREAD")


def _place_whole(stock: Stock, bundles: Bundles) -> list[Move] | None:
    """All of it on the emptiest node that takes it."""
    everything = (1 << len(bundles)) - 1
    admitting = Counter({slot: nodes for slot, nodes in stock.items() if slot.admits & everything == everything})
    slot = _emptiest_node(admitting, 0, _total_need(bundles))
    return None if slot is None else [Move(slot, 1, tuple(count for _, count in bundles))]


def _pack(fresh: Counter[Slot], ordered: list[tuple[int, tuple[Vector, int]]]) -> list[Move] | None:
    """The emptiest node for the first bundle, and on it as many of the others as it takes; then the next node."""
    left = {number: count for number, (_, count) in ordered}
    made: list[Move] = []
    for number, (need, _) in ordered:
        while left[number]:
            slot = _emptiest_node(fresh, number, need)
            if slot is None:
                return None
            taken, rest = {}, slot
            for other, (size, _) in ordered:
                taken[other] = min(left[other], capacity(rest, other, size))
                rest = _take_from(rest, size, taken[other])
            times = min(fresh[slot], *(left[other] // number for other, number in taken.items() if number))  # equal nodes fill alike
            fresh[slot] -= times
            left = {other: count - times * taken[other] for other, count in left.items()}
            made.append(Move(slot, times, tuple(taken[other] for other in range(len(ordered)))))
    return made


def _spread(fresh: Counter[Slot], ordered: list[tuple[int, tuple[Vector, int]]], *, again: bool) -> list[Move] | None:
    """Each bundle on the emptiest node without one; where there is none, `again` on those that have."""
    used: Counter[Slot] = Counter()
    made: list[Move] = []
    for number, (need, count) in ordered:
        for _ in range(count):
            slot = _emptiest_node(fresh, number, need)
            where = fresh if slot else used
            slot = slot or (_emptiest_node(used, number, need) if again else None)
            if slot is None:
                return None
            where[slot] -= 1
            used[_take_from(slot, need, 1)] += 1
            made.append(Move(slot, 1, tuple(int(other == number) for other in range(len(ordered))), where is used))
    return made


def _take_from(slot: Slot, need: Vector, times: int) -> Slot:
    return Slot(tuple(have - times * want for have, want in zip(slot.has, need, strict=True)), slot.admits) if times else slot


def _emptiest_node(stock: Counter[Slot], number: int, need: Vector) -> Slot | None:
    """The node with most left over, by Ray's `LeastResourceScorer`."""
    able = [slot for slot, nodes in stock.items() if nodes and capacity(slot, number, need)]
    return max(able, key=lambda slot: sum((have - want) / have for have, want in zip(slot.has, need, strict=True) if want), default=None)


def _search(stock: Stock, bundles: Bundles) -> bool:
    """Whether any placement exists: what of the bundles the first nodes can take, node by node, the better of two kept."""
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
        reached = _drop_dominated(further)
    return False


def _fillings(slot: Slot, bundles: Bundles, left: Vector, number: int) -> Iterator[Vector]:
    """All ways to fill a node, so that of the last shape no more would go in."""
    need = bundles[number][0]
    most = min(left[number], capacity(slot, number, need))
    if number == len(bundles) - 1:
        yield (most,)
        return
    for count in range(most, -1, -1):
        for others in _fillings(_take_from(slot, need, count), bundles, left, number + 1):
            yield (count, *others)


def _drop_dominated(reached: set[Vector]) -> set[Vector]:
    kept: list[Vector] = []
    for one in sorted(reached, key=sum, reverse=True):
        if not any(all(less <= more for less, more in zip(one, other, strict=True)) for other in kept):
            kept.append(one)
    return set(kept)
