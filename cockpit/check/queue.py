"""What waits ahead in Ray's queue: what of it would be placed before the job, and what of it the job would overtake."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

import msgspec

from cockpit.model import Actor, Snapshot
from cockpit.monitor.pending_reasons import STRATEGIES, is_waiting
from cockpit.placement import Ask, FreeCapacity, Strategy, ask, shape

WHO = "what waits ahead of it"
PASSED = ("held", "fragmented", "short", "label", "deadlock", "itself")
"""Ray has no room for these now, and lets others pass them."""


class Ahead(msgspec.Struct, frozen=True):
    """So many alike that wait."""

    what: str
    ask: Ask
    number: int
    whole: bool
    """All of it is placed together."""


class Queue(msgspec.Struct, frozen=True):
    """What waits, oldest first."""

    first: tuple[Ahead, ...]
    """There is room for it, or nobody knows: it takes its share before the job does."""
    passed: tuple[Ahead, ...]


NOBODY = Queue((), ())


def queue_of(snapshot: Snapshot) -> Queue:
    """What waits for resources now; what waits in vain, or only for its own start, is left out."""
    waiting = [*_groups(snapshot), *_actors(snapshot)]
    waiting.sort(key=lambda each: inf if each[0] is None else each[0])
    first = tuple(ahead for _, wait, ahead in waiting if wait in (None, "room"))
    return Queue(first, tuple(ahead for _, wait, ahead in waiting if wait in PASSED))


def _groups(snapshot: Snapshot) -> Iterator[tuple[float | None, str | None, Ahead]]:
    alive = {node.id for node in snapshot.nodes or () if node.state == "ALIVE"}
    for group in snapshot.placement_groups or ():
        if group.state in ("PENDING", "RESCHEDULING"):
            unplaced = [shape(bundle.needs, bundle.labels) for bundle in group.bundles if bundle.node not in alive]
            if unplaced:
                strategy: Strategy = next((known for known in STRATEGIES if known == group.strategy), "PACK")
                yield group.since, group.wait, Ahead(f"group {group.name or group.id[:8]}", ask(unplaced, strategy), 1, whole=True)


def _actors(snapshot: Snapshot) -> Iterator[tuple[float | None, str | None, Ahead]]:
    alike: dict[tuple[object, ...], list[Actor]] = {}
    for actor in snapshot.actors or ():
        if is_waiting(actor) and not actor.internal and actor.placement_group is None:
            alike.setdefault((actor.class_, actor.wait, *sorted(actor.needs.items()), *sorted(actor.labels.items())), []).append(actor)
    for actors in alike.values():
        one = actors[0]
        wanted = ask({shape(one.needs or {"CPU": 1.0}, one.labels): len(actors)}, "PACK")
        since = min((actor.since for actor in actors if actor.since is not None), default=None)
        yield since, one.wait, Ahead(f"actor {one.class_}", wanted, len(actors), whole=False)


def take_place(ground: FreeCapacity, queue: Queue) -> None:
    """Let what waits ahead have what Ray would give it."""
    for ahead in queue.first:
        if not ahead.ask.names:
            continue
        number = ahead.number if ahead.whole else min(ahead.number, ground.most(ahead.ask))
        if number:
            ground.take(ahead.ask if ahead.whole else ask({ahead.ask.shapes[0][0]: number}, "PACK"), WHO, ahead.what)
