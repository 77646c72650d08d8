"""Reasons for waiting, found again only when they can have changed, and told with every list of actors and groups."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from operator import is_
from typing import Generic, NamedTuple, TypeVar

import msgspec

from cockpit.config.thresholds import LARGE
from cockpit.model import Actor, PlacementGroup
from cockpit.monitor.pending_reasons import Reason, WaitFacts, find_reasons, has_waited, is_waiting
from cockpit.sources.ray.client import ActorFacts, GroupFacts, JobFacts, NodeFacts, StatusFacts

replace = msgspec.structs.replace
T = TypeVar("T", Actor, PlacementGroup)

LARGE_PAUSE_S = 15.0
"""Seconds after which reasons are found again in a large cluster: it takes a tenth of one, and Ray itself is asked no oftener."""
NO_NODES = NodeFacts(nodes=(), workers=(), holders=())
NO_REASONS: Mapping[str, Reason] = {}


class ReasonInputs(NamedTuple):
    """The answers that reasons are made of; those that have grown old are left out."""

    nodes: NodeFacts | None
    status: StatusFacts | None
    asked: float | None
    """When the status was read."""
    grouped: float | None
    """When the groups were listed."""
    actors: ActorFacts | None
    groups: GroupFacts | None
    jobs: JobFacts | None
    lost: bool = False
    """Only the nodes have grown old: what followed from them is nothing that the rest still says."""

    @property
    def answered_parts(self) -> tuple[bool, ...]:
        """Who has answered."""
        return tuple(answer is not None for answer in (self.status, self.asked, self.actors, self.groups, self.jobs))

    def facts(self) -> WaitFacts:
        """What follows from them; the nodes are known."""
        listed, known = self.actors.actors if self.actors else (), self.groups.groups if self.groups else None
        complete = self.grouped if self.groups and self.groups.complete else None
        return WaitFacts(self.nodes or NO_NODES, self.status, listed, known, complete, self.jobs.jobs if self.jobs else (), self.asked)


class PendingReasons:
    """Gives reasons anew only when something has changed that matters to them: most of Ray's answers are what the last ones were."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: tuple[object, ...] | None = None
        self._why: Mapping[str, Reason] = {}
        """By id of what waits."""
        self._actors: _ReasonedValues[Actor] = _ReasonedValues(is_waiting)
        self._groups: _ReasonedValues[PlacementGroup] = _ReasonedValues(lambda group: group.pending)
        self._found = -LARGE_PAUSE_S
        self._answered: tuple[bool, ...] = ()
        """Who had answered when the reasons were found; with the first word of another one they are found at once."""

    def due(self, asked: ReasonInputs) -> bool:
        """Whether reasons should be found again."""
        if asked.nodes is None or not self._has_waiting(asked):
            return False
        many = len(asked.nodes.nodes) > LARGE
        return not many or asked.answered_parts != self._answered or self._clock() - self._found >= LARGE_PAUSE_S

    def explain(self, asked: ReasonInputs) -> None:
        """Find them again. It touches nothing that is drawn, so that another thread may do it."""
        facts = asked.facts()
        if (matter := _facts_that_matter(facts)) != self._known:
            self._why = find_reasons(facts)
            self._known = matter
        self._found, self._answered = self._clock(), asked.answered_parts

    def with_reasons(self, asked: ReasonInputs) -> tuple[tuple[Actor, ...] | None, tuple[PlacementGroup, ...] | None]:
        """All actors and groups, those that wait with the reason that was found last, which grows old together with them."""
        why = NO_REASONS if asked.lost else self._why
        actors, groups = asked.actors, asked.groups
        return self._actors.of(actors.actors if actors else None, why), self._groups.of(groups.groups if groups else None, why)

    @staticmethod
    def _has_waiting(asked: ReasonInputs) -> bool:
        actors, groups = asked.actors, asked.groups
        return any(map(is_waiting, actors.actors if actors else ())) or any(group.pending for group in (groups.groups if groups else ()))


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
        if before is None or before[0] != each or (before[1].why, before[1].wait) != reason:
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
