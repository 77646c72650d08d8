"""Merges the lists of Ray's state API into facts. An unchanged entry keeps its value, so that nothing derived from it is computed again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from cockpit.model import Actor, PlacementGroup
from cockpit.sources.ray import actors, wire
from cockpit.sources.ray.actors import WAITING, ActorFacts
from cockpit.sources.ray.nodes import LossDebounce
from cockpit.times.clock import shift_of

PAUSE_PER_ANSWER_TIME = 20
"""The pause before the next request, as a multiple of the time of the last answer: Ray's state API serves one request at a time."""

NOT_DEAD = "not DEAD"
"""The name of the list with the actors of all states but DEAD."""
FEW_ACTORS = 200
"""The number of actors, including dead ones, up to which Ray lists all living ones as fast as the actors of a single state."""


class GroupLists:
    """The placement groups of the last list, without removed ones."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._shift = clock, shift_of(clock)
        self.groups: dict[str, PlacementGroup] = {}
        """The groups by id."""
        self._converted: dict[str, tuple[wire.Group, float, PlacementGroup]] = {}
        """For each id: the entry, the shift of Ray's clock, and the group that was made from these two."""
        self._losses = LossDebounce(clock)

    def check_loss(self, listing: wire.Listing[wire.Group]) -> None:
        """Raise `SourceError` while it is too early to accept that all groups are suddenly gone."""
        loss = f"Ray suddenly lists no placement groups, not even removed ones (before: {len(self.groups)})"
        self._losses.check(loss if listing.total == 0 and self.groups else None)

    def update(self, entries: Iterable[wire.Group], strategies: Mapping[actors.Shape, frozenset[str | None]]) -> None:
        """Replace the groups with the groups of a new list. `strategies` come from the autoscaler monitor's report of waiting groups."""
        shift = self._shift()
        listed = {entry.placement_group_id: entry for entry in entries if entry.state != "REMOVED"}
        self._converted = {key: (entry, shift, self._convert(entry, shift, strategies)) for key, entry in listed.items()}
        self.groups = {key: group for key, (_, _, group) in self._converted.items()}

    def _convert(self, entry: wire.Group, shift: float, strategies: Mapping[actors.Shape, frozenset[str | None]]) -> PlacementGroup:
        known = self._converted.get(entry.placement_group_id)
        before = known[2] if known else None
        # The strategy is only known while the group waits, so it is kept from then on.
        strategy = before.strategy if before else None
        if strategy is None and entry.state != "CREATED":
            strategy = actors.find_strategy(entry, strategies)
        if known and before and known[:2] == (entry, shift) and before.strategy == strategy:
            return before
        since = before.since if before and before.state == entry.state and before.since else self._clock()
        return actors.parse_group(entry, since, strategy, shift)


class ActorLists:
    """The lists of actors by state, and when each list is due again."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lists: dict[str, wire.Listing[wire.Actor]] = {}
        self._listed_at: dict[str, float] = {}
        self._due: dict[str, float] = {}
        self._is_alive_list_fast = False
        self._total: int | None = None
        self._since: dict[str, actors.WaitStart] = {}
        self._has_facts = False
        self._converted: dict[str, tuple[tuple[object, ...], Actor]] = {}
        """For each id: the values that the actor was made from, and the actor."""
        self._losses = LossDebounce(clock)

    def __len__(self) -> int:
        return sum(len(listing.result) for listing in self._lists.values())

    def is_due(self, state: str) -> bool:
        """Whether the list of this state should be requested now."""
        return self._clock() >= self._due.get(state, 0.0)

    @property
    def are_few(self) -> bool:
        """Whether Ray has so few actors that one list of all states is cheaper than one list for each. Every list has their total."""
        return self._total is not None and self._total <= FEW_ACTORS

    def update(self, state: str, listing: wire.Listing[wire.Actor], took: float) -> None:
        """Add a new list, which Ray took `took` seconds to make. Raises `SourceError` for a sudden loss of all actors.

        A list of all states is dropped if there are now too many actors for it: it may have been cut.
        """
        is_lost = listing.total == 0 and any(old.result for old in self._lists.values())
        self._losses.check("Ray suddenly lists no actors, not even dead ones" if is_lost else None)
        self._total, now = listing.total, self._clock()
        if state == NOT_DEAD and (not self.are_few or listing.cut):
            self._total, self._due = None, {}
            return
        self._due[state] = now + max(9.0 if state == "ALIVE" else 4.0, PAUSE_PER_ANSWER_TIME * took)
        # Without a reference to the reply, which would keep the reply in memory: 8 MB for 10,000 actors.
        entries = [replace(entry, fallback_strategy=entry.fallback_strategy.copy()) for entry in listing.result]
        lists = {state: entries}
        if state == NOT_DEAD:
            lists = {each: [entry for entry in entries if entry.state == each] for each in (*WAITING, "ALIVE")}
        for each, listed in lists.items():
            before = self._lists.get(each)
            filtered = len(listed) if state == NOT_DEAD else listing.num_filtered
            self._lists[each] = replace(listing, result=tuple(listed), num_filtered=filtered)
            self._listed_at[each] = now
            if each == "ALIVE":
                self._is_alive_list_fast = took < 0.5
            elif self._is_alive_list_fast and before and not _ids(before) <= _ids(self._lists[each]):
                self._due["ALIVE"] = now  # an actor that left another state may be alive now

    def facts(self, groups: dict[str, PlacementGroup]) -> ActorFacts:
        """All lists together. If an actor is in two lists, the newer one counts."""
        entries: dict[str, wire.Actor] = {}
        for state in sorted(self._lists, key=lambda state: self._listed_at[state]):
            entries.update((entry.actor_id, entry) for entry in self._lists[state].result)
        first = actors.WaitStart(self._clock(), at_least=not self._has_facts)
        self._since = {key: self._since.get(key, first) for key, entry in entries.items() if entry.state in WAITING}
        self._has_facts = True
        before, self._converted = self._converted, {}
        for key, entry in entries.items():
            inputs = (entry, self._since.get(key), groups.get(entry.placement_group_id or ""))
            known = before.get(key)
            self._converted[key] = known if known and known[0] == inputs else (inputs, actors.parse_actor(entry, inputs[1], groups))
        return ActorFacts(
            actors=tuple(actor for _, actor in self._converted.values()),
            counts={
                state: len(listing.result) if listing.num_filtered is None else listing.num_filtered
                for state, listing in self._lists.items()
            },
            complete=not any(listing.cut for listing in self._lists.values()),
        )


def _ids(listing: wire.Listing[wire.Actor]) -> set[str]:
    return {entry.actor_id for entry in listing.result}
