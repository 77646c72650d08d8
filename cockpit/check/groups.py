"""Places the groups of a budget on the nodes one after the other, and says which of them fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from cockpit.budget import Group, Line
from cockpit.check.changes import Changes
from cockpit.check.nodes import Site
from cockpit.check.queue import EMPTY_QUEUE, Queue, place_queue
from cockpit.check.runs import GroupRun, runs_of
from cockpit.placement import (
    SCALE,
    FreeCapacity,
    LivingNodes,
    NodeShare,
    PlacementNode,
    PlacementVerdict,
    Request,
    Shape,
    amount,
    explain_verdict,
    make_request,
    shape,
)
from cockpit.text import UNKNOWN, count, join_first

JOB = "this job"
MAX_NODES = 3
"""Nodes that a line names."""


class PlacedGroups(msgspec.Struct, frozen=True):
    """The result of a placement."""

    lines: tuple[Line, ...]
    amounts_by_node: Mapping[str, Mapping[str, Mapping[str, int]]] = {}
    """The amounts of resources that each group would get on each node: by node, group and resource."""

    def amount_on(self, node: str, resource: str, groups: Iterable[str] | None = None) -> float:
        """Return how much of a resource the job would hold on a node; only these groups if they are given."""
        wanted = None if groups is None else set(groups)
        amounts = self.amounts_by_node.get(node, {})
        return sum(each.get(resource, 0) for group, each in amounts.items() if wanted is None or group in wanted) / SCALE


def resource_names(groups: Iterable[Group]) -> set[str]:
    """Return the resources that the groups ask for."""
    return {name for group in groups for needs, number in group.bundles or () if number for name, need in needs.items() if need > 0}


def place_groups(groups: Sequence[Group], site: Site, queue: Queue) -> PlacedGroups:
    """Place all groups, behind the queue. Return a line for each run of equal groups and the amounts on each node."""
    unread = next((group for group in groups if group.bundles is None), None)
    runs = [run for run in runs_of(groups) if run.request.names]
    if site.why is not None:
        return PlacedGroups((Line("unknown", site.why),))
    if impossible := tuple(_impossible_lines(runs, site)):
        return PlacedGroups(impossible)
    wanted = {name for run in runs for name in run.request.names}
    if not all(name in node.used or not node.total.get(name) for node in site.placement_nodes for name in wanted):
        return PlacedGroups((Line("unknown", "free resources are unknown: Ray does not report what is in use at the moment"),))
    if unread is None:
        return _place_in_order(runs, site, queue)
    runs = [run for run in runs_of(groups[: groups.index(unread)]) if run.request.names]
    placed = _place_in_order(runs, site, queue)
    unknown = Line("unknown", f"{unread.name}: what it asks for can't be read; groups after it were not checked")
    return replace(placed, lines=(*placed.lines, unknown))


def _impossible_lines(runs: Sequence[GroupRun], site: Site) -> Iterator[Line]:
    """Lines about runs that would not fit on empty nodes, each by itself, or all together: a job holds them all at once."""
    nodes = LivingNodes(site.placement_nodes)
    alone = [run for run in runs if nodes.check_fit(run.request, "ever") == "no"]
    certain = [run for run in alone if run.sure is run.request or (run.sure.names and nodes.check_fit(run.sure, "ever") == "no")]
    refused = [(run.title, run.sure, nodes.judge(run.sure) or PlacementVerdict("never")) for run in certain]

    # All bundles at once. A STRICT_PACK group needs one node, so it counts as one bundle. STRICT_SPREAD is ignored here.
    counted: Counter[Shape] = Counter()
    for run in runs:
        sure = run.sure
        if sure.strategy == "STRICT_PACK":
            counted[Shape(tuple((name, sure.sum(name)) for name in sure.names))] += run.number
        else:
            counted.update({each: number * run.number for each, number in sure.shapes})
    together = make_request(counted, "PACK")
    lacking: list[str] = []
    if sum(run.number for run in runs) > 1 and nodes.check_fit(together, "ever") == "no":
        lacking = [name for name in ("GPU", "CPU") if name in together.names and nodes.check_fit(together, "ever", (name,)) == "no"]
        unnamed = [name for name in lacking if not any(name in verdict.names for _, _, verdict in refused)]
        refused = [*(("all groups together", together, PlacementVerdict("never", (name,))) for name in unnamed), *refused]
        refused = refused or [("all groups together", together, nodes.judge(together) or PlacementVerdict("never"))]

    changes = Changes(runs, tuple(replace(node, used={}, holds=()) for node in site.placement_nodes), EMPTY_QUEUE, site)
    for title, wanted, verdict in refused:
        text = f"{title}: {explain_verdict(nodes, wanted, verdict, has_gpus='GPU' not in lacking)}"
        change = changes.words(verdict.names, lacks_cpus="CPU" in lacking)
        yield Line("later", f"{text} (current nodes only); {site.more}", change) if site.more else Line("never", text, change)
    yield from (_depends_on_release(run, run.title, nodes) for run in alone if run not in certain)


def _depends_on_release(run: GroupRun, title: str, nodes: LivingNodes) -> Line:
    """Return the line for a run that fits only with a release of the framework that asks for fewer resources."""
    verdict = nodes.judge(run.request)
    reason = verdict and explain_verdict(nodes, run.request, verdict)
    release = f"the amount of {' and '.join(run.group.unsure)} depends on the framework's release"
    return Line("unknown", f"{title}: {reason or 'no room with the newest release'}; {release}: a release that asks for fewer would fit")


def _place_in_order(runs: Sequence[GroupRun], site: Site, queue: Queue) -> PlacedGroups:
    """Place the runs one after the other, up to the first that has to wait."""
    capacity = FreeCapacity(site.placement_nodes, [*(run.request for run in runs), *(ahead.request for ahead in queue.first)])
    place_queue(capacity, queue)
    amounts_by_node: dict[str, dict[str, Counter[str]]] = {}
    lines: list[Line] = []
    note = "it would start before others that already wait for the same resources"
    for run in runs:
        before = {node.id: node for node in capacity.nodes()}
        taken: list[NodeShare] = []
        done = 0
        while done < run.number and (shares := capacity.take(run.request, JOB, run.group.name)) is not None:
            taken += shares
            done += 1
        if done < run.number:
            lines.append(_waiting_line(run, done, capacity, Changes(runs, site.placement_nodes, queue, site)))
            note = "other work already waits for the same resources"
            break
        for one in taken:
            amounts_by_node.setdefault(one.node.id, {}).setdefault(run.group.name, Counter()).update(one.amounts)
        lines.append(Line("fine", f"{run.title}: {describe_bundles(run.group)}: {_describe_places(run.request, taken, before)}"))

    # Work in the queue that waits for the same resources, and that the job overtakes.
    wanted = {name for run in runs for name in run.request.names}
    passed = [ahead for ahead in queue.passed if wanted & set(ahead.request.names)]
    if passed:
        sums = [" + ".join(amount(name, ahead.request.sum(name)) for name in ahead.request.names[:2]) for ahead in passed]
        others = [f"{ahead.what} ({total})" for ahead, total in zip(passed, sums, strict=True)]
        lines.append(Line("doubt", f"{note}: {join_first(others)}"))
    return PlacedGroups(tuple(lines), amounts_by_node)


def describe_bundles(group: Group) -> str:
    """Describe the bundles: `8 x 1 GPU + 1 CPU`. An amount that depends on the framework's release is `–`."""
    if group.bundles is None:
        return "unknown"
    described = []
    for needs, number in group.bundles:
        parts = (f"{UNKNOWN} {name}" if name in group.unsure else amount(name, need) for name, need in shape(needs).amounts)
        described.append(f"{number} x {' + '.join(parts) or 'nothing'}")
    return ", ".join(described)


def _describe_places(wanted: Request, taken: Iterable[NodeShare], before: Mapping[str, PlacementNode]) -> str:
    """Name the nodes with their free amount; many nodes are only counted."""
    name = wanted.names[0]
    share: Counter[str] = Counter()
    for one in taken:
        if gives := one.amounts.get(name, 0):
            share[one.node.id] += gives
    if len(share) > MAX_NODES:
        equal = Counter(share.values()).most_common(MAX_NODES)
        return "; ".join(f"{amount(name, each)} on each of {number} nodes" for each, number in equal)
    described = []
    for id_, each in share.items():
        node = before[id_]
        total = node.total.get(name, 0)
        free = f"{amount(name, max(0, total - node.used.get(name, 0)), bare=True)} of {amount(name, total, bare=True)}"
        described.append(f"{amount(name, each)} on {node.name}, which has {free} free")
    return "; ".join(described)


def _waiting_line(run: GroupRun, done: int, capacity: FreeCapacity, changes: Changes) -> Line:
    """Return the line for the first run that has no room; `done` of its groups are placed."""
    nodes = LivingNodes(capacity.nodes())
    which = f"{run.group.name} (group {done + 1} of {run.number})" if run.number > 1 else run.group.name
    if run.group.unsure and nodes.check_fit(run.sure, "now") == "yes":
        return _depends_on_release(run, which, nodes)
    verdict = nodes.judge(run.request)
    reason = verdict and explain_verdict(nodes, run.request, verdict)
    if verdict is None or reason is None:
        return Line("unknown", f"{run.title}: too many possible placements to check")
    if not any(any(node.used.values()) for node in changes.nodes):
        reason = f"{reason}, although these nodes are empty: Ray places group by group and finds no room for all"
    rest = len(changes.runs) - changes.runs.index(run) - 1
    after = f"; {count(rest)} more after it also {'waits' if rest == 1 else 'wait'}" if rest else ""
    return Line("later", f"{which}: {reason}{after}", changes.words(verdict.names))
