"""Jobs that each hold a part and wait for the rest: none can continue until one releases its resources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from cockpit.placement.nodes import LivingNodes
from cockpit.placement.request import Ask, Shape, ask


class Deadlock(msgspec.Struct, frozen=True):
    """Jobs that wait for each other, and those that wait for what they hold themselves."""

    each_other: frozenset[str] = frozenset()
    themselves: frozenset[str] = frozenset()


def deadlock(world: LivingNodes, asks: Mapping[str, Mapping[Ask, int]]) -> Deadlock:
    """Of the jobs that wait, with what each asks for how often: those that nothing but letting go can help.

    Whatever a job holds that waits for nothing is taken for free: it will end some day.
    """
    world = world.merge_equal({each for mine in asks.values() for each in mine})
    waiting = {job: _asks_to_continue(world, mine) for job, mine in asks.items()}
    themselves = frozenset(job for job in waiting if _stuck_jobs(world, {job: waiting[job]}))
    others = {job: mine for job, mine in waiting.items() if job not in themselves}
    stuck = _stuck_jobs(world, others)
    members = frozenset(job for job in stuck if _stuck_jobs(world, {other: others[other] for other in stuck - {job}}) != stuck - {job})
    return Deadlock(members if len(members) > 1 else frozenset(), themselves)


def _asks_to_continue(world: LivingNodes, asks: Mapping[Ask, int]) -> tuple[Ask, ...]:
    """Each alone, and all together where empty nodes would hold them all: what a job needs to go on."""
    bundles: Counter[Shape] = Counter()
    for each, times in asks.items():
        bundles.update({shape: number * times for shape, number in each.shapes})
    everything = ask(bundles, "PACK")
    return (*asks, *([everything] if world.room(everything, "ever") != "no" else []))


def _stuck_jobs(world: LivingNodes, waiting: Mapping[str, Sequence[Ask]]) -> frozenset[str]:
    """Those that are left when every job that can go on has done so and let go."""
    left = frozenset(waiting)
    while left:
        freed = world.only(left)
        able = {job for job in left if all(freed.room(each, "now") != "no" for each in waiting[job])}
        if not able:
            return left
        left -= able
    return left
