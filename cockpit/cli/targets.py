"""Finds the actor, node or placement group that a typed name or id means, and suggests similar names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

from cockpit.actions.action import Action
from cockpit.model import Actor, Node, PlacementGroup, Snapshot
from cockpit.sources.source import SourceError
from cockpit.text import join_first

MIN_PREFIX_CHARS: Final = 8
"""An id may be shortened to this many characters: cockpit and Ray print such beginnings."""
MAX_NAMED: Final = 6
MIN_SIMILARITY: Final = 0.75
"""Similarity of a name that is suggested for a mistyped one; 1 means equal."""
MAX_COMPARED: Final = 2_000
"""Names that a mistyped name is compared with."""
SILENCE_FINDINGS: Final = ("address-wrong", "dashboard-silent")
"""Findings that explain why Ray does not answer."""


class UnclearTargetError(SourceError):
    """A name means several things, or nothing."""


def matching_actors(target: str, actors: Iterable[Actor], home: Node | None) -> list[Actor]:
    """Actors with this id or its beginning; else actors with this name; else actors of this class. `home`: only on this node."""
    here = [actor for actor in actors if home is None or actor.node == home.id]
    ways = (
        [actor for actor in here if _is_id(target, actor.id)],
        [actor for actor in here if actor.name == target],
        [actor for actor in here if actor.class_ == target],
    )
    return next(filter(None, ways), [])


def only_actor(target: str, actors: Sequence[Actor], snapshot: Snapshot) -> Actor | None:
    """The only actor; `None` if there is none. Raises `UnclearTargetError` if there are several."""
    if len(actors) > 1:
        titles = {node.id: node.title for node in snapshot.nodes or ()}
        names = [f"{actor.name or actor.id} ({actor.state}{f', {titles[actor.node]}' if actor.node in titles else ''})" for actor in actors]
        raise UnclearTargetError(f"{target} matches {len(actors)} actors: {join_first(names, MAX_NAMED)}; give the name or the id of one")
    return actors[0] if actors else None


def matching_nodes(snapshot: Snapshot, names: Sequence[str]) -> list[Node]:
    """Nodes with one of these names, living ones first. `names`: the typed name, then other names of the same node."""
    found = [
        node for node in snapshot.nodes or () if not {node.title, node.host, node.ip}.isdisjoint(names) or _is_id(names[0], node.id or "")
    ]
    return sorted(found, key=lambda node: node.state != "ALIVE")


def _is_id(text: str, whole: str) -> bool:
    return len(text) >= MIN_PREFIX_CHARS and whole.startswith(text.lower())


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """`; did you mean rm-72b?`; empty if no name is similar."""
    near = get_close_matches(word, [*dict.fromkeys(filter(None, names))][:MAX_COMPARED], 1, MIN_SIMILARITY)
    return f"; did you mean {near[0]}?" if near else ""


def explain(error: SourceError, snapshot: Snapshot) -> str:
    """The error's sentence. If Ray does not answer, it ends with the remedy of the finding that explains why."""
    found = (finding for finding in snapshot.findings if error.cause in ("silent", "not ray") and finding.code in SILENCE_FINDINGS)
    return next((f"{error}. What to do: {finding.remedy.text}" for finding in found if finding.remedy), str(error))


def find_id(action: Action, word: str, snapshot: Snapshot, names_of: Callable[[str], Sequence[str]]) -> str:
    """The id of the action's target, from its id or name. `names_of`: returns all names of the host that has this name.

    Raises `UnclearTargetError` unless exactly one living thing has that name, and `SourceError` if Ray has not listed such things.
    """
    if len(word) in action.id_digits and re.fullmatch(r"[0-9a-f]+", word):
        return word

    # The things that it may be, and the state in which they have ended.
    kinds: Mapping[type | None, tuple[Sequence[Any] | None, str]] = {
        Actor: (snapshot.actors, "DEAD"),
        PlacementGroup: (snapshot.placement_groups, "REMOVED"),
        Node: (snapshot.nodes, "DEAD"),
    }
    things, ended = kinds[action.takes]
    noun = action.noun.partition(" ")[2]
    if things is None:
        fault = next((fault for fault in snapshot.faults if fault.source.startswith("ray.")), None)
        why, cause = (fault.text, fault.cause) if fault else ("Ray has not answered", None)
        raise SourceError(f"the {noun}s are unknown: {why}", cause)

    ids_by_name: dict[str, list[str]] = {}
    for thing in things:
        names = {thing.title, thing.host, thing.ip} if isinstance(thing, Node) else {thing.name}
        for name in filter(None, names if thing.state != ended and thing.id else ()):
            ids_by_name.setdefault(name, []).append(thing.id)
    typed = names_of(word) if action.takes is Node else (word,)
    found = list(dict.fromkeys(one for name in typed for one in ids_by_name.get(name, ())))
    if len(found) == 1:
        return found[0]
    if found:
        raise UnclearTargetError(f"{word} matches {len(found)} {noun}s: {join_first(found, MAX_NAMED)}; give the id of one")
    hint = did_you_mean(word, ids_by_name)
    raise UnclearTargetError(f"there is no {noun} with the id or name {word} in the Ray cluster at {snapshot.cluster.address}{hint}")
