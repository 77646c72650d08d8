"""Reasons for waiting, found again only when they can have changed, and told with every list of actors and groups."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Mapping
from operator import is_
from typing import Generic, TypeVar

import msgspec
from msgspec.structs import replace

from cockpit.config.thresholds import LARGE_CLUSTER_NODES
from cockpit.model import Actor, Demand, PlacementGroup
from cockpit.monitor.parts import Parts
from cockpit.monitor.pending_reasons import Reason, WaitFacts, find_large_demand, find_reasons, has_waited, is_waiting

T = TypeVar("T", Actor, PlacementGroup)

LARGE_PAUSE_S = 15.0
"""Seconds after which reasons are found again in a large cluster: it takes a tenth of one, and Ray itself is asked no oftener."""
NO_REASONS: Mapping[str, Reason] = {}


class WaitingThings(msgspec.Struct, frozen=True):
    """All of each kind; `None`: it is not known."""

    actors: tuple[Actor, ...] | None
    groups: tuple[PlacementGroup, ...] | None
    demand: tuple[Demand, ...] | None


class PendingReasons:
    """Gives reasons anew only when something has changed that matters to them: most of Ray's answers are what the last ones were."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: tuple[object, ...] | None = None
        self._why: Mapping[str, Reason] = {}
        """By id of what waits."""
        self._large: Mapping[str, Reason] = {}
        """The same of tasks that no node is large enough for, by key, as of when all was known that it takes to tell."""
        self._actors: _ReasonedValues[Actor] = _ReasonedValues(is_waiting)
        self._groups: _ReasonedValues[PlacementGroup] = _ReasonedValues(lambda group: group.pending)
        self._found = -LARGE_PAUSE_S
        self._answered: tuple[bool, ...] = ()
        """Who had answered when the reasons were found; with the first word of another one they are found at once."""

    def __call__(self, parts: Parts) -> WaitingThings:
        """All actors, groups and demand, what waits with the reason that was found last, which grows old together with it."""
        failed = {source: fault.since for (source, _), fault in parts.faults.items()}
        facts = _wait_facts(parts, failed)
        if facts is not None and (facts.large or any(map(is_waiting, facts.actors)) or any(group.pending for group in facts.groups or ())):
            answers = (facts.status, facts.asked, parts.actors, parts.groups, parts.jobs)
            self._find(facts, tuple(answer is not None for answer in answers))
        if facts is not None and failed.keys().isdisjoint(("ray.status", "ray.actors")):
            self._large = {each.key: told for each in facts.large if (told := self._why.get(each.key)) and told.why}
        # Where only the nodes have grown old, what followed from them is nothing that the rest still says.
        lost = "ray.nodes" in failed and all(parts.as_of.get(other, 0.0) > failed["ray.nodes"] for other in ("ray.identity", "ray.gcs"))
        why = NO_REASONS if lost else self._why
        actors, groups = parts.actors.actors if parts.actors else None, parts.groups.groups if parts.groups else None
        demand = _with_reasons(parts.status.demand, NO_REASONS if lost else self._large) if parts.status else None
        return WaitingThings(self._actors.of(actors, why), self._groups.of(groups, why), demand)

    def _find(self, facts: WaitFacts, answered: tuple[bool, ...]) -> None:
        """Find them again, unless that was done a moment ago in a large cluster."""
        if len(facts.nodes.nodes) > LARGE_CLUSTER_NODES and answered == self._answered and self._clock() - self._found < LARGE_PAUSE_S:
            return
        if (matter := _facts_that_matter(facts)) != self._known:
            self._why = find_reasons(facts)
            self._known = matter
        self._found, self._answered = self._clock(), answered


def _wait_facts(parts: Parts, failed: Container[str]) -> WaitFacts | None:
    """What reasons are made of: nothing that has grown old. `None`: the nodes are unknown."""
    if parts.nodes is None or "ray.nodes" in failed or "ray.gcs" in failed:
        return None
    status, asked = (None, None) if "ray.status" in failed else (parts.status, parts.as_of.get("ray.status"))
    actors, groups = parts.actors.actors if parts.actors else (), parts.groups.groups if parts.groups else None
    grouped = parts.as_of.get("ray.placement_groups") if parts.groups and parts.groups.complete else None
    is_whole = parts.actors is not None and parts.actors.complete  # else a waiting actor that is not listed may be what asks
    large = find_large_demand(parts.nodes, status.demand or ()) if status and asked and is_whole else ()
    return WaitFacts(parts.nodes, status, actors, groups, grouped, parts.jobs.jobs if parts.jobs else (), asked, large)


def _with_reasons(demand: tuple[Demand, ...] | None, why: Mapping[str, Reason]) -> tuple[Demand, ...] | None:
    """The same object where there is none: most that waits is a queue that moves."""
    if demand is None or not why:
        return demand
    return tuple(replace(each, why=told.why, wait=told.wait) if (told := why.get(each.key)) else each for each in demand)


class _ReasonedValues(Generic[T]):
    """Values with their reasons; the same objects as before where nothing has changed, since the screen compares by identity."""

    def __init__(self, pending: Callable[[T], bool]) -> None:
        self._pending: Callable[[T], bool] = pending
        self._made: dict[str, tuple[T, T]] = {}
        """By id: as it came, and as it is told."""
        self._last: tuple[tuple[T, ...] | None, Mapping[str, Reason], tuple[T, ...] | None] = (None, {}, None)

    def of(self, listed: tuple[T, ...] | None, why: Mapping[str, Reason]) -> tuple[T, ...] | None:
        if listed is None:
            return None
        if self._last[0] is not listed or self._last[1] is not why:
            before, self._made = self._made, {}
            pending = self._pending
            told = tuple([self._one(each, why, before.get(each.id)) if pending(each) else each for each in listed])
            self._last = (listed, why, next((old for old in (listed, self._last[2]) if _are_same_values(old, told)), told))
        return self._last[2]

    def _one(self, each: T, why: Mapping[str, Reason], before: tuple[T, T] | None) -> T:
        reason = why.get(each.id) or Reason(each.why)
        if before is None or before[0] != each or Reason(before[1].why, before[1].wait) != reason:
            before = (each, replace(each, why=reason.why, wait=reason.wait))
        self._made[each.id] = before
        return before[1]


def _are_same_values(old: tuple[T, ...] | None, new: tuple[T, ...]) -> bool:
    return old is not None and len(old) == len(new) and all(map(is_, old, new))


def _facts_that_matter(facts: WaitFacts) -> tuple[object, ...]:
    """What the reasons are made of: not what nodes measure, and of times only whether something has waited for long."""
    nodes = [(node.id, node.state, node.title, node.resources, node.labels) for node in facts.nodes.nodes]
    long = [(has_waited(actor, facts.asked), has_waited(actor, facts.grouped)) for actor in facts.actors if is_waiting(actor)]
    workers, growing = facts.nodes.workers, facts.nodes.growing
    return nodes, workers, growing, facts.status, facts.actors, facts.groups, facts.jobs, long, facts.asked is None
