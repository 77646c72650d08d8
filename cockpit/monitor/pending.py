"""Adds to actors, placement groups and demand the reason why they wait; reasons are found again only when the facts have changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Mapping
from typing import Generic, TypeVar

import msgspec
from msgspec.structs import replace

from cockpit.config.thresholds import LARGE_CLUSTER_NODES
from cockpit.model import Actor, Demand, PlacementGroup
from cockpit.monitor.pending_reasons import Reason, WaitFacts, find_large_demand, find_reasons, has_waited, is_waiting
from cockpit.monitor.source_answers import Parts

T = TypeVar("T", Actor, PlacementGroup)

LARGE_PAUSE_S = 15.0
"""In a large cluster reasons are found again after so many seconds: it takes a tenth of one, and Ray itself is polled no more often."""
NO_REASONS: Mapping[str, Reason] = {}


class WaitingThings(msgspec.Struct, frozen=True):
    """All of each kind; `None`: unknown."""

    actors: tuple[Actor, ...] | None
    groups: tuple[PlacementGroup, ...] | None
    demand: tuple[Demand, ...] | None


class PendingReasons:
    """Finds reasons again only when facts have changed on which they rest: most answers of Ray equal the last ones."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._used: tuple[object, ...] | None = None
        """The facts from which the reasons were found."""
        self._why: Mapping[str, Reason] = NO_REASONS
        """By id of an actor or a group, or by key of demand."""
        self._large: Mapping[str, Reason] = NO_REASONS
        """The reasons of demand that no node is large enough for, from the last time when all facts for it were fresh."""
        self._actors: _ReasonedValues[Actor] = _ReasonedValues(is_waiting)
        self._groups: _ReasonedValues[PlacementGroup] = _ReasonedValues(lambda group: group.pending)
        self._found_at = -LARGE_PAUSE_S
        self._answered: tuple[bool, ...] = ()
        """Which sources had answered when the reasons were found; with the first answer of another one they are found at once."""

    def __call__(self, parts: Parts) -> WaitingThings:
        """All actors, groups and demand, with the reasons that were found last; these grow old together with their facts."""
        failed = {source: fault.since for (source, _), fault in parts.faults.items()}
        facts = _fresh_facts(parts, failed)
        if facts is not None and (facts.large or any(map(is_waiting, facts.actors)) or any(group.pending for group in facts.groups or ())):
            self._find(facts, tuple(each is not None for each in (facts.status, facts.asked, parts.actors, parts.groups, parts.jobs)))
        if facts is not None and failed.keys().isdisjoint(("ray.status", "ray.actors")):
            self._large = {each.key: found for each in facts.large if (found := self._why.get(each.key)) and found.why}
        # If only the node list is stale, the reasons derived from it are dropped.
        is_lost = "ray.nodes" in failed and all(parts.as_of.get(other, 0.0) > failed["ray.nodes"] for other in ("ray.identity", "ray.gcs"))
        why, large = (NO_REASONS, NO_REASONS) if is_lost else (self._why, self._large)
        demand = parts.status.demand if parts.status else None
        if demand is not None and large:  # without any reason the tuple stays the same object
            demand = tuple(replace(each, why=found.why, wait=found.wait) if (found := large.get(each.key)) else each for each in demand)
        actors, groups = parts.actors.actors if parts.actors else None, parts.groups.groups if parts.groups else None
        return WaitingThings(self._actors.of(actors, why), self._groups.of(groups, why), demand)

    def _find(self, facts: WaitFacts, answered: tuple[bool, ...]) -> None:
        is_large = len(facts.nodes.nodes) > LARGE_CLUSTER_NODES
        if is_large and answered == self._answered and self._clock() - self._found_at < LARGE_PAUSE_S:
            return
        # Not what nodes measure, and of times only whether something has waited for long.
        nodes = [(node.id, node.state, node.title, node.resources, node.labels) for node in facts.nodes.nodes]
        long = [(has_waited(actor, facts.asked), has_waited(actor, facts.grouped)) for actor in facts.actors if is_waiting(actor)]
        others = (facts.nodes.workers, facts.nodes.growing, facts.status, facts.actors, facts.groups, facts.jobs, facts.asked is None)
        used = (nodes, long, *others)
        if used != self._used:
            self._why, self._used = find_reasons(facts), used
        self._found_at, self._answered = self._clock(), answered


def _fresh_facts(parts: Parts, failed: Container[str]) -> WaitFacts | None:
    """The facts for reasons, without the facts of a failing source. `None`: the nodes are unknown."""
    if parts.nodes is None or "ray.nodes" in failed or "ray.gcs" in failed:
        return None
    status, asked = (None, None) if "ray.status" in failed else (parts.status, parts.as_of.get("ray.status"))
    actors, groups = parts.actors.actors if parts.actors else (), parts.groups.groups if parts.groups else None
    grouped = parts.as_of.get("ray.placement_groups") if parts.groups and parts.groups.complete else None
    is_complete = parts.actors is not None and parts.actors.complete  # else the demand may be of an actor that is not listed
    large = find_large_demand(parts.nodes, status.demand or ()) if status and asked and is_complete else ()
    return WaitFacts(parts.nodes, status, actors, groups, grouped, parts.jobs.jobs if parts.jobs else (), asked, large)


class _ReasonedValues(Generic[T]):
    """Values with their reasons; the same tuple as before if neither has changed, since the screen compares by identity."""

    def __init__(self, is_pending: Callable[[T], bool]) -> None:
        self._is_pending: Callable[[T], bool] = is_pending
        self._last: tuple[tuple[T, ...] | None, Mapping[str, Reason], tuple[T, ...] | None] = (None, {}, None)
        """The last arguments and their result."""

    def of(self, listed: tuple[T, ...] | None, why: Mapping[str, Reason]) -> tuple[T, ...] | None:
        if listed is None or not any(map(self._is_pending, listed)):
            return listed
        if self._last[0] is not listed or self._last[1] is not why:
            values: list[T] = []
            for each in listed:
                reason = (why.get(each.id) or Reason(each.why)) if self._is_pending(each) else None
                values.append(replace(each, why=reason.why, wait=reason.wait) if reason else each)
            self._last = (listed, why, tuple(values))
        return self._last[2]
