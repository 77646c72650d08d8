"""Finds jobs in a deadlock: each holds some resources and waits for more, and none can continue until one releases its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from cockpit.placement.nodes import LivingNodes
from cockpit.placement.request import Request, Shape, make_request


class Deadlock(msgspec.Struct, frozen=True):
    """Jobs that wait for each other, and jobs that wait for resources that they hold themselves."""

    each_other: frozenset[str] = frozenset()
    themselves: frozenset[str] = frozenset()


def find_deadlock(nodes: LivingNodes, requests: Mapping[str, Mapping[Request, int]]) -> Deadlock:
    """Return the waiting jobs that can continue only if resources are released. `requests` has each job's requests and their number.

    The resources of jobs that wait for nothing count as free: such a job will end some day.
    """
    nodes = nodes.merge_equal({each for requests_of_job in requests.values() for each in requests_of_job})

    # A job continues when each of its requests fits, and all together, if empty nodes could hold them all.
    waiting: dict[str, tuple[Request, ...]] = {}
    for job, requests_of_job in requests.items():
        bundles: Counter[Shape] = Counter()
        for each, times in requests_of_job.items():
            bundles.update({shape: number * times for shape, number in each.shapes})
        everything = make_request(bundles, "PACK")
        waiting[job] = (*requests_of_job, *([everything] if nodes.check_fit(everything, "ever") != "no" else []))

    themselves = frozenset(job for job in waiting if _stuck_jobs(nodes, {job: waiting[job]}))
    others = {job: requests_of_job for job, requests_of_job in waiting.items() if job not in themselves}
    stuck = _stuck_jobs(nodes, others)
    # A job belongs to the deadlock if another job could continue without it.
    members = frozenset(job for job in stuck if _stuck_jobs(nodes, {other: others[other] for other in stuck - {job}}) != stuck - {job})
    return Deadlock(members if len(members) > 1 else frozenset(), themselves)


def _stuck_jobs(nodes: LivingNodes, waiting: Mapping[str, Sequence[Request]]) -> frozenset[str]:
    """Return the jobs that are left after every job that can continue has ended and released its resources."""
    left = frozenset(waiting)
    while left:
        freed = nodes.with_holds_of(left)
        able = {job for job in left if all(freed.check_fit(each, "now") != "no" for each in waiting[job])}
        if not able:
            return left
        left -= able
    return left
