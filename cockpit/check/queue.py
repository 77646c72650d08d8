"""Reads Ray's queue: the actors and placement groups that would be placed before the job, and those that the job would overtake."""

from __future__ import annotations

from math import inf

import msgspec

from cockpit.model import Actor, Snapshot
from cockpit.monitor.pending_reasons import STRATEGIES, is_waiting
from cockpit.placement import FreeCapacity, Request, Strategy, make_request, shape

WHO = "what waits ahead of it"
PASSED = ("held", "fragmented", "short", "label", "deadlock", "itself")
"""Reasons for which Ray has no room now, and lets others pass."""


class Ahead(msgspec.Struct, frozen=True):
    """A waiting placement group, or all waiting actors of one kind."""

    what: str
    request: Request
    number: int
    whole: bool
    """All of it is placed together."""


class Queue(msgspec.Struct, frozen=True):
    """The waiting actors and groups, oldest first."""

    first: tuple[Ahead, ...]
    """Those with room, or for an unknown reason: they are placed before the job."""
    passed: tuple[Ahead, ...]
    """Those without room: the job overtakes them."""


EMPTY_QUEUE = Queue((), ())


def queue_of(snapshot: Snapshot) -> Queue:
    """Return everything that waits for resources. Requests that can never be placed, or only start slowly, are left out."""
    waiting: list[tuple[float | None, str | None, Ahead]] = []  # when each began to wait, and the reason

    # Placement groups, with their bundles that are not placed.
    alive = {node.id for node in snapshot.nodes or () if node.state == "ALIVE"}
    for group in snapshot.placement_groups or ():
        unplaced = [shape(bundle.needs, bundle.labels) for bundle in group.bundles if bundle.node not in alive]
        if group.state in ("PENDING", "RESCHEDULING") and unplaced:
            strategy: Strategy = next((known for known in STRATEGIES if known == group.strategy), "PACK")
            waiting.append(
                (group.since, group.wait, Ahead(f"group {group.name or group.id[:8]}", make_request(unplaced, strategy), 1, whole=True))
            )

    # Actors, equal ones together.
    equal: dict[tuple[object, ...], list[Actor]] = {}
    for actor in snapshot.actors or ():
        if is_waiting(actor) and not actor.internal and actor.placement_group is None:
            equal.setdefault((actor.class_, actor.wait, *sorted(actor.needs.items()), *sorted(actor.labels.items())), []).append(actor)
    for actors in equal.values():
        one = actors[0]
        wanted = make_request({shape(one.needs or {"CPU": 1.0}, one.labels): len(actors)}, "PACK")
        since = min((actor.since for actor in actors if actor.since is not None), default=None)
        waiting.append((since, one.wait, Ahead(f"actor {one.class_}", wanted, len(actors), whole=False)))

    waiting.sort(key=lambda each: inf if each[0] is None else each[0])
    first = tuple(ahead for _, wait, ahead in waiting if wait in (None, "room"))
    return Queue(first, tuple(ahead for _, wait, ahead in waiting if wait in PASSED))


def place_queue(capacity: FreeCapacity, queue: Queue) -> None:
    """Give the waiting groups and actors the resources that Ray would give them."""
    for ahead in queue.first:
        if not ahead.request.names:
            continue
        number = ahead.number if ahead.whole else min(ahead.number, capacity.count_fitting(ahead.request))
        if number:
            capacity.take(ahead.request if ahead.whole else make_request({ahead.request.shapes[0][0]: number}, "PACK"), WHO, ahead.what)
