"""What somebody means who types the name or the id of an actor, a node or a group; and what they may have meant."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

from cockpit.acts.act import Act
from cockpit.model import Actor, Node, PlacementGroup, Snapshot
from cockpit.sources.source import SourceError
from cockpit.text import join_first

MIN_PREFIX_CHARS: Final = 8
"""Characters of an id that stand for all of it, as cockpit and Ray print it."""
MAX_NAMED: Final = 6
MIN_LIKENESS: Final = 0.75
"""From which on a name is taken for what was meant; 1: it is the same."""
SILENCE_FINDINGS: Final = ("address-wrong", "dashboard-silent")
"""Findings that say why Ray does not answer."""
MAX_COMPARED: Final = 2_000
"""Names that a mistyped one is compared with."""


class UnclearTargetError(SourceError):
    """It means several things, or nothing."""


def matching_actors(target: str, actors: Iterable[Actor], home: Node | None) -> list[Actor]:
    """By id or its beginning, else by name, else by class."""
    here = [actor for actor in actors if home is None or actor.node == home.id]
    ways = (
        [actor for actor in here if _is_id(target, actor.id)],
        [actor for actor in here if actor.name == target],
        [actor for actor in here if actor.class_ == target],
    )
    return next(filter(None, ways), [])


def only_actor(target: str, actors: Sequence[Actor], snapshot: Snapshot) -> Actor | None:
    """Raises `UnclearTargetError` where there are several."""
    if len(actors) > 1:
        titles = {node.id: node.title for node in snapshot.nodes or ()}
        names = [f"{actor.name or actor.id} ({actor.state}{f', {titles[actor.node]}' if actor.node in titles else ''})" for actor in actors]
        raise UnclearTargetError(f"{target} matches {len(actors)} actors: {join_first(names, MAX_NAMED)}; give the name or the id of one")
    return actors[0] if actors else None


def matching_nodes(snapshot: Snapshot, names: Sequence[str]) -> list[Node]:
    """Living ones first. `names`: all that the node is called that is meant, the typed one first."""
    found = [
        node for node in snapshot.nodes or () if not {node.title, node.host, node.ip}.isdisjoint(names) or _is_id(names[0], node.id or "")
    ]
    return sorted(found, key=lambda node: node.state != "ALIVE")


def _is_id(text: str, whole: str) -> bool:
    return len(text) >= MIN_PREFIX_CHARS and whole.startswith(text.lower())


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """`; did you mean rm-72b?`, or nothing."""
    near = get_close_matches(word, [*dict.fromkeys(filter(None, names))][:MAX_COMPARED], 1, MIN_LIKENESS)
    return f"; did you mean {near[0]}?" if near else ""


def explain(error: SourceError, snapshot: Snapshot) -> str:
    """Its sentence; where Ray does not answer also what to do, as `cockpit status` says it."""
    found = (finding for finding in snapshot.findings if error.cause in ("silent", "not ray") and finding.code in SILENCE_FINDINGS)
    return next((f"{error}. What to do: {finding.remedy.text}" for finding in found if finding.remedy), str(error))


def find_id(act: Act, word: str, snapshot: Snapshot, names_of: Callable[[str], Sequence[str]]) -> str:
    """The id of what the act is aimed at by its id or its name. Raises `UnclearTargetError` where that is not exactly one.

    `names_of`: all that the host is called that somebody calls so.
    """
    if len(word) in act.id_digits and re.fullmatch(r"[0-9a-f]+", word):
        return word
    what, place = act.noun.partition(" ")[2], snapshot.cluster.address
    names = _names_of(act, snapshot)
    if names is None:
        fault = next((fault for fault in snapshot.faults if fault.source.startswith("ray.")), None)
        why, cause = (fault.text, fault.cause) if fault else ("Ray has not answered", None)
        raise SourceError(f"the {what}s are unknown: {why}", cause)
    found = {one: None for name in (names_of(word) if act.takes is Node else (word,)) for one in names.get(name, ())}
    if len(found) == 1:
        return next(iter(found))
    if found:
        raise UnclearTargetError(f"{word} matches {len(found)} {what}s: {join_first([*found], MAX_NAMED)}; give the id of one")
    raise UnclearTargetError(f"there is no {what} with the id or name {word} in the Ray cluster at {place}{did_you_mean(word, names)}")


def _names_of(act: Act, snapshot: Snapshot) -> Mapping[str, Sequence[str]] | None:
    """Ids by name: of what lives, and has a name of its own. `None`: Ray has not said what there is."""
    kinds: Mapping[type | None, tuple[Sequence[Any] | None, str]] = {
        Actor: (snapshot.actors, "DEAD"),
        PlacementGroup: (snapshot.placement_groups, "REMOVED"),
        Node: (snapshot.nodes, "DEAD"),
    }
    things, ended = kinds[act.takes]
    if things is None:
        return None
    found: dict[str, list[str]] = {}
    for thing in things:
        called = {thing.title, thing.host, thing.ip} if isinstance(thing, Node) else {thing.name}
        for name in filter(None, called if thing.state != ended and thing.id else ()):
            found.setdefault(name, []).append(thing.id)
    return found
