"""Lists of Ray's state API put together: what has not changed between two answers stays the same value, and all that was made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from cockpit.clock import shift_of
from cockpit.model import Actor, PlacementGroup
from cockpit.sources.ray import actors, wire
from cockpit.sources.ray.actors import WAITING, ActorFacts
from cockpit.sources.ray.nodes import LossDebounce

PAUSE_PER_ANSWER_TIME = 20
"""Ray's state API works on one question at a time: it is left alone for so many times as long as it took."""
NOT_DEAD = "not DEAD"
"""The list of all other states at once."""
FEW_ACTORS = 200
"""Actors, dead ones too, of which Ray lists all that are not dead in about the time that it needs for a list of each state."""


class GroupLists:
    """All placement groups but removed ones, as last listed."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._shift = clock, shift_of(clock)
        self.groups: dict[str, PlacementGroup] = {}
        """By id."""
        self._made: dict[str, tuple[wire.Group, float, PlacementGroup]] = {}
        """What each was made of, the entry and the shift of Ray's clock, and the group."""
        self._doubt = LossDebounce(clock)

    def doubt_loss(self, listing: wire.Listing[wire.Group]) -> None:
        """Raises `SourceError` while a sudden loss is not believed yet."""
        lost = f"Ray suddenly lists no placement groups, not even removed ones (before: {len(self.groups)})"
        self._doubt.take(lost if listing.total == 0 and self.groups else None)

    def take(self, entries: Iterable[wire.Group], strategies: Mapping[actors.Shape, frozenset[str | None]]) -> None:
        """One list; `strategies` as the autoscaler monitor tells them of groups that wait."""
        shift = self._shift()
        listed = {entry.placement_group_id: entry for entry in entries if entry.state != "REMOVED"}
        self._made = {key: (entry, shift, self._group(entry, shift, strategies)) for key, entry in listed.items()}
        self.groups = {key: group for key, (_, _, group) in self._made.items()}

    def _group(self, entry: wire.Group, shift: float, strategies: Mapping[actors.Shape, frozenset[str | None]]) -> PlacementGroup:
        """Its strategy is told only while it waits, and remembered from then on."""
        made = self._made.get(entry.placement_group_id)
        before = made[2] if made else None
        strategy = before.strategy if before else None
        if strategy is None and entry.state != "CREATED":
            strategy = actors.strategy(entry, strategies)
        if made and before and made[:2] == (entry, shift) and before.strategy == strategy:
            return before
        since = before.since if before and before.state == entry.state and before.since else self._clock()
        return actors.parse_group(entry, since, strategy, shift)


class ActorLists:
    """The actors of each state, and when each list is worth asking for again."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lists: dict[str, wire.Listing[wire.Actor]] = {}
        self._asked: dict[str, float] = {}
        self._due: dict[str, float] = {}
        self._cheap = False
        self._total: int | None = None
        self._since: dict[str, actors.WaitStart] = {}
        self._met = False
        self._made: dict[str, tuple[tuple[object, ...], Actor]] = {}
        self._doubt = LossDebounce(clock)

    def __len__(self) -> int:
        return sum(len(listing.result) for listing in self._lists.values())

    def due(self, state: str) -> bool:
        """Whether this state's list is worth asking for now."""
        return self._clock() >= self._due.get(state, 0.0)

    @property
    def are_few(self) -> bool:
        """Whether Ray has so few that one list of all states costs it less than one of each. It tells with every list how many it has."""
        return self._total is not None and self._total <= FEW_ACTORS

    def take(self, state: str, listing: wire.Listing[wire.Actor], took: float) -> None:
        """One list; that of all states is forgotten when Ray has got so many meanwhile that it may have been cut."""
        is_lost = listing.total == 0 and any(old.result for old in self._lists.values())
        self._doubt.take("Ray suddenly lists no actors, not even dead ones" if is_lost else None)
        self._total = listing.total
        pause = max(9.0 if state == "ALIVE" else 4.0, PAUSE_PER_ANSWER_TIME * took)
        self._due[state] = self._clock() + pause
        if state != NOT_DEAD:
            self._take_state(state, listing, took)
        elif self.are_few and not listing.cut:
            for one in (*WAITING, "ALIVE"):
                entries = tuple(entry for entry in listing.result if entry.state == one)
                self._take_state(one, replace(listing, result=entries, num_filtered=len(entries)), took)
        else:
            self._total, self._due = None, {}

    def _take_state(self, state: str, listing: wire.Listing[wire.Actor], took: float) -> None:
        now = self._clock()
        if state != "ALIVE" and self._has_left(state, listing) and self._cheap:
            self._due["ALIVE"] = now
        self._lists[state] = self._keep_known(state, listing)
        self._asked[state] = now
        self._cheap = took < 0.5 if state == "ALIVE" else self._cheap

    def _keep_known(self, state: str, listing: wire.Listing[wire.Actor]) -> wire.Listing[wire.Actor]:
        """The same with the entries of the last answer where nothing has changed: what was made of them is still true."""
        last = self._lists.get(state)
        before = {entry.actor_id: entry for entry in last.result} if last else {}
        kept = ((before.get(entry.actor_id), entry) for entry in listing.result)
        return replace(listing, result=tuple([old if old == new else _drop_reply(new) for old, new in kept]))

    def facts(self, groups: dict[str, PlacementGroup]) -> ActorFacts:
        """All lists as one; an actor that is in two of them is as the later one has it."""
        entries: dict[str, wire.Actor] = {}
        for state in sorted(self._lists, key=lambda state: self._asked[state]):
            entries.update((entry.actor_id, entry) for entry in self._lists[state].result)
        now = self._clock()
        first = actors.WaitStart(now, at_least=not self._met)
        self._since = {key: self._since.get(key, first) for key, entry in entries.items() if entry.state in WAITING}
        self._met = True
        self._made = {key: made for key, made in self._made.items() if key in entries}
        return ActorFacts(
            actors=tuple(self._actor(key, entry, groups) for key, entry in entries.items()),
            counts={
                state: len(listing.result) if listing.num_filtered is None else listing.num_filtered
                for state, listing in self._lists.items()
            },
            complete=not any(listing.cut for listing in self._lists.values()),
        )

    def _actor(self, key: str, entry: wire.Actor, groups: dict[str, PlacementGroup]) -> Actor:
        """The same for as long as all that it is made of is: thousands of values needn't be made anew with every look."""
        since = self._since.get(key)
        made_of = (entry, since, groups.get(entry.placement_group_id or ""))
        made = self._made.get(key)
        if made is None or any(old is not new for old, new in zip(made[0], made_of, strict=True)):
            made = self._made[key] = (made_of, actors.parse_actor(entry, since, groups))
        return made[1]

    def _has_left(self, state: str, listing: wire.Listing[wire.Actor]) -> bool:
        """Whether an actor has left this state, perhaps to live."""
        before = self._lists.get(state)
        return before is not None and not {entry.actor_id for entry in before.result} <= {entry.actor_id for entry in listing.result}


def _drop_reply(entry: wire.Actor) -> wire.Actor:
    """With no part of the reply in it, which would stay in memory, 8 MB for 10,000 actors, for as long as the actor does."""
    return replace(entry, fallback_strategy=entry.fallback_strategy.copy())
