"""Whether the groups of a budget have their place, one after the other, each holding what the former took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from cockpit.budget import Budget, Group, Line
from cockpit.check.changes import Changes
from cockpit.check.nodes import Site
from cockpit.check.queue import NOBODY, Queue, take_place
from cockpit.check.runs import GroupRun, runs_of
from cockpit.placement import SCALE, Ask, FreeCapacity, LivingNodes, NodeShare, Place, PlacementVerdict, Shape, amount, ask, sentence, shape
from cockpit.text import UNKNOWN, count, join_first

JOB = "this job"
When = Literal["now", "ever"]
SHOWN = 3
"""Nodes that a line names."""


class PlacedGroups(msgspec.Struct, frozen=True):
    """What came of it."""

    lines: tuple[Line, ...]
    homes: Mapping[str, Mapping[str, Mapping[str, int]]] = {}
    """By node and by group: the amounts that it would get there."""

    def on(self, place: str, resource: str, groups: Iterable[str] | None = None) -> float:
        """How much of a resource the job, or only these of its groups, would hold on a node."""
        wanted = None if groups is None else set(groups)
        mine = self.homes.get(place, {})
        return sum(each.get(resource, 0) for group, each in mine.items() if wanted is None or group in wanted) / SCALE


def names(groups: Iterable[Group]) -> set[str]:
    """The resources that groups ask for."""
    return {name for group in groups for needs, number in group.bundles or () if number for name, need in needs.items() if need > 0}


def place_groups(groups: Sequence[Group], site: Site, queue: Queue, budget: Budget) -> PlacedGroups:
    """A line for each kind of group, and where it would be."""
    unread = next((group for group in groups if group.bundles is None), None)
    runs = [run for run in runs_of(groups) if run.ask.names]
    if site.why is not None:
        return PlacedGroups((Line("unknown", f"placement is unknown: {site.why}"),))
    whole = LivingNodes(site.places)
    if impossible := tuple(_impossible(runs, site, whole, budget)):
        return PlacedGroups(impossible)
    wanted = {name for run in runs for name in run.ask.names}
    if not all(name in place.used or not place.total.get(name) for place in site.places for name in wanted):
        return PlacedGroups((Line("unknown", "free resources are unknown: Ray does not report what is in use at the moment"),))
    if unread is not None:
        runs = [run for run in runs_of(groups[: groups.index(unread)]) if run.ask.names]
    found = _in_turn(runs, site, queue, budget)
    if unread is None:
        return found
    blind = Line("unknown", f"{unread.name}: what it asks for can't be read; groups after it were not checked")
    return replace(found, lines=(*found.lines, blind))


def _impossible(runs: Sequence[GroupRun], site: Site, whole: LivingNodes, budget: Budget) -> Iterator[Line]:
    """What no empty nodes would have room for: each run by itself, else all of them, which are held together."""
    alone = [run for run in runs if whole.room(run.ask, "ever") == "no"]
    surely = [run for run in alone if run.sure is run.ask or (run.sure.names and whole.room(run.sure, "ever") == "no")]
    changes = Changes(runs, tuple(replace(place, used={}, holds=()) for place in site.places), NOBODY, site, budget)
    refused = [(run.title, run.sure, whole.judge(run.sure) or PlacementVerdict("never")) for run in surely]
    together = _together(runs)
    lacking: list[str] = []
    if sum(run.number for run in runs) > 1 and whole.room(together, "ever") == "no":
        lacking = [name for name in ("GPU", "CPU") if name in together.names and whole.room(together, "ever", (name,)) == "no"]
        unnamed = [name for name in lacking if not any(name in verdict.names for _, _, verdict in refused)]
        refused = [*(("all groups together", together, PlacementVerdict("never", (name,))) for name in unnamed), *refused]
        refused = refused or [("all groups together", together, whole.judge(together) or PlacementVerdict("never"))]
    for who, wanted, verdict in refused:
        told = f"{who}: {sentence(whole, wanted, verdict, has_gpus='GPU' not in lacking)}"
        yield _refuse(told, site, changes.words(verdict.names, lacks_cpus="CPU" in lacking))
    yield from (_unsure(run, run.title, whole) for run in alone if run not in surely)


def _unsure(run: GroupRun, title: str, world: LivingNodes) -> Line:
    """Only an older release would have room."""
    verdict = world.judge(run.ask)
    told = verdict and sentence(world, run.ask, verdict)
    release = f"the amount of {' and '.join(run.group.unsure)} depends on the framework's release"
    return Line("unknown", f"{title}: {told or 'no room with the newest release'}; {release}: a release that asks for fewer would fit")


def _refuse(told: str, site: Site, change: str | None) -> Line:
    if site.more:
        return Line("later", f"{told} (current nodes only); {site.more}", change)
    return Line("never", told, change)


def _together(runs: Iterable[GroupRun]) -> Ask:
    """All bundles at once; what goes to one node is one bundle. That no two of some may share a node is left out."""
    counted: Counter[Shape] = Counter()
    for run in runs:
        sure = run.sure
        if sure.strategy == "STRICT_PACK":
            counted[Shape(tuple((name, sure.sum(name)) for name in sure.names))] += run.number
        else:
            counted.update({each: number * run.number for each, number in sure.shapes})
    return ask(counted, "PACK")


def _in_turn(runs: Sequence[GroupRun], site: Site, queue: Queue, budget: Budget) -> PlacedGroups:
    ground = FreeCapacity(site.places, [*(run.ask for run in runs), *(ahead.ask for ahead in queue.first)])
    take_place(ground, queue)
    homes: dict[str, dict[str, Counter[str]]] = {}
    lines: list[Line] = []
    for run in runs:
        before = {place.id: place for place in ground.places()}
        taken: list[NodeShare] = []
        for done in range(run.number):
            gives = ground.take(run.ask, JOB, run.group.name)
            if gives is None:
                rest = len(runs) - runs.index(run) - 1
                changes = Changes(runs, site.places, queue, site, budget)
                lines.append(_waits(run, done, ground, changes, rest))
                return PlacedGroups((*lines, *_others(runs, queue, "other work already waits for the same resources")), homes)
            taken += gives
        for one in taken:
            homes.setdefault(one.place.id, {}).setdefault(run.group.name, Counter()).update(one.amounts)
        lines.append(Line("fine", f"{run.title}: {bundles(run.group)}: {_where(run.ask, taken, before)}"))
    return PlacedGroups((*lines, *_others(runs, queue, "it would start before others that already wait for the same resources")), homes)


def bundles(group: Group) -> str:
    """`8 x 1 GPU + 1 CPU`; `–` for an amount that depends on a release."""
    if group.bundles is None:
        return "unknown"
    return ", ".join(f"{number} x {_needs(needs, group.unsure)}" for needs, number in group.bundles)


def _needs(needs: Mapping[str, float], unsure: Collection[str]) -> str:
    parts = (f"{UNKNOWN} {name}" if name in unsure else amount(name, need) for name, need in shape(needs).amounts)
    return " + ".join(parts) or "nothing"


def _where(wanted: Ask, taken: Iterable[NodeShare], before: Mapping[str, Place]) -> str:
    """On which nodes, and what is free there; many nodes are counted."""
    name = wanted.names[0]
    share: Counter[str] = Counter()
    for one in taken:
        if gives := one.amounts.get(name, 0):
            share[one.place.id] += gives
    if len(share) > SHOWN:
        alike = Counter(share.values()).most_common(SHOWN)
        return "; ".join(f"{amount(name, each)} on each of {number} nodes" for each, number in alike)
    return "; ".join(
        f"{amount(name, each)} on {before[id_].name}, which has {_free(before[id_], name)} free" for id_, each in share.items()
    )


def _free(place: Place, name: str) -> str:
    total = place.total.get(name, 0)
    return f"{amount(name, max(0, total - place.used.get(name, 0)), bare=True)} of {amount(name, total, bare=True)}"


def _waits(run: GroupRun, done: int, ground: FreeCapacity, changes: Changes, rest: int) -> Line:
    world = LivingNodes(ground.places())
    which = f"{run.group.name} (group {done + 1} of {run.number})" if run.number > 1 else run.group.name
    if run.group.unsure and world.room(run.sure, "now") == "yes":
        return _unsure(run, which, world)
    verdict = world.judge(run.ask)
    told = verdict and sentence(world, run.ask, verdict)
    if verdict is None or told is None:
        return Line("unknown", f"{run.title}: too many possible placements to check")
    after = f"; {count(rest)} more after it also {'waits' if rest == 1 else 'wait'}" if rest else ""
    return Line("later", f"{which}: {told}{_empty(changes.site)}{after}", changes.words(verdict.names))


def _empty(site: Site) -> str:
    if any(any(place.used.values()) for place in site.places):
        return ""
    return ", although these nodes are empty: Ray places group by group and finds no room for all"


def _others(runs: Sequence[GroupRun], queue: Queue, words: str) -> Iterator[Line]:
    """What waits for the same."""
    mine = {name for run in runs for name in run.ask.names}
    passed = [ahead for ahead in queue.passed if mine & set(ahead.ask.names)]
    if passed:
        yield Line("doubt", f"{words}: {join_first([f'{ahead.what} ({_sum(ahead.ask)})' for ahead in passed])}")


def _sum(wanted: Ask) -> str:
    return " + ".join(amount(name, wanted.sum(name)) for name in wanted.names[:2])
