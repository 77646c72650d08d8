"""Finds jobs in a deadlock: each holds some resources and waits for more, and none can continue until one releases its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from cockpit.placement.nodes import LivingNodes
from cockpit.placement.request import Ask, Shape, ask


class Deadlock(msgspec.Struct, frozen=True):
    """Jobs that wait for each other, and jobs that wait for resources that they hold themselves."""

    each_other: frozenset[str] = frozenset()
    themselves: frozenset[str] = frozenset()


def deadlock(nodes: LivingNodes, asks: Mapping[str, Mapping[Ask, int]]) -> Deadlock:
    """Return the waiting jobs that can continue only if resources are released. `asks` has each job's requests and their number.

    The resources of jobs that wait for nothing count as free: such a job will end some day.
    """
    nodes = nodes.merge_equal({each for asks_of_job in asks.values() for each in asks_of_job})

    # A job continues when each of its requests fits, and all together, if empty nodes could hold them all.
    waiting: dict[str, tuple[Ask, ...]] = {}
    for job, asks_of_job in asks.items():
        bundles: Counter[Shape] = Counter()
        for each, times in asks_of_job.items():
            bundles.update({shape: number * times for shape, number in each.shapes})
        everything = ask(bundles, "PACK")
        waiting[job] = (*asks_of_job, *([everything] if nodes.room(everything, "ever") != "no" else []))

    themselves = frozenset(job for job in waiting if _stuck_jobs(nodes, {job: waiting[job]}))
    others = {job: asks_of_job for job, asks_of_job in waiting.items() if job not in themselves}
    stuck = _stuck_jobs(nodes, others)
    # A job belongs to the deadlock if another job could continue without it.
    members = frozenset(job for job in stuck if _stuck_jobs(nodes, {other: others[other] for other in stuck - {job}}) != stuck - {job})
    return Deadlock(members if len(members) > 1 else frozenset(), themselves)


def _stuck_jobs(nodes: LivingNodes, waiting: Mapping[str, Sequence[Ask]]) -> frozenset[str]:
    """Return the jobs that are left after every job that can continue has ended and released its resources."""
    left = frozenset(waiting)
    while left:
        freed = nodes.only(left)
        able = {job for job in left if all(freed.room(each, "now") != "no" for each in waiting[job])}
        if not able:
            return left
        left -= able
    return left
