"""Finds the reason why each actor, placement group and large task waits, from Ray's answers and `cockpit.placement`.

If too little is known, Ray's own reason stays as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

import msgspec
from msgspec.structs import replace

from cockpit.model import DEADLOCK, GROUP_WAIT_PREFIX, Actor, Demand, Job, PlacementGroup, Quantity, Wait
from cockpit.placement import (
    SCALE,
    Deadlock,
    LivingNodes,
    NodeHold,
    PlacementNode,
    Request,
    Strategy,
    explain_verdict,
    find_deadlock,
    make_request,
    scale_amount,
    shape,
)
from cockpit.sources.ray.client import NodeFacts, StatusFacts
from cockpit.sources.ray.resources import mangle

SETTLED_S = 15.0
"""An actor or group that has waited this many seconds is in the autoscaler monitor's report, or waits for no resources: the report is
written every 5 s, and rests on facts that are up to 5 s old."""
STRATEGIES: tuple[Strategy, ...] = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")
_NODE = "ray.io/node-id"
MAX_LARGE_DEMAND = 100
"""Each raylet reports so many shapes of waiting tasks (`max_resource_shapes_per_load_report`, ray_config_def.h)."""
STARTING = "resources are reserved; the runtime environment or the worker process is starting"


class WaitFacts(msgspec.Struct, frozen=True):
    """Ray's answers, without those that are old."""

    nodes: NodeFacts
    status: StatusFacts | None
    actors: tuple[Actor, ...]
    groups: tuple[PlacementGroup, ...] | None
    grouped: float | None
    """When the groups were listed; `None`: the list is incomplete."""
    jobs: tuple[Job, ...]
    asked: float | None
    """When the status was read; `None`: it is too old to use."""
    large: tuple[Demand, ...] = ()
    """Demand that no node is large enough for; it may be of tasks or of actors."""


class Reason(msgspec.Struct, frozen=True):
    """Why something waits, in a sentence and in a word."""

    why: str | None = None
    wait: Wait | None = None


STARTS = Reason(STARTING, "starting")


def find_reasons(facts: WaitFacts) -> dict[str, Reason]:
    """Reasons by the ids of groups and actors, and by the keys of large demand. An actor has the reason of its waiting group."""
    reasons = Reasons(facts)
    why = {group.id: reasons.of_group(group) for group in facts.groups or () if group.pending}
    groups = {group.id: replace(group, why=why[group.id].why) if group.id in why else group for group in facts.groups or ()}
    actors = {actor.id: reasons.of_actor(actor, groups) for actor in facts.actors if is_waiting(actor)}
    return {**why, **actors, **{demand.key: reasons.of_demand(demand) for demand in facts.large}}


def find_large_demand(nodes: NodeFacts, demand: Iterable[Demand]) -> tuple[Demand, ...]:
    """The demand for more than any living node has. A node of unknown size may be large enough."""

    def may_hold(resources: Mapping[str, Quantity], needs: Mapping[str, float]) -> bool:
        return not resources or all((has := resources.get(name)) and (has.total is None or has.total >= needs[name]) for name in needs)

    alive = [node.resources for node in nodes.nodes if node.state == "ALIVE"]
    large = (each for each in demand if not any(may_hold(resources, each.needs) for resources in alive))
    return tuple(islice(large, MAX_LARGE_DEMAND))


def is_waiting(actor: Actor) -> bool:
    """Whether an actor waits for a place, for the first time or again."""
    return actor.state in ("PENDING_CREATION", "RESTARTING")


def has_waited(actor: Actor, asked: float | None) -> bool:
    """Whether it had waited for longer than `SETTLED_S` when Ray was asked."""
    return asked is not None and actor.since is not None and asked - actor.since > SETTLED_S


class Reasons:
    """Judges the requests of one moment."""

    def __init__(self, facts: WaitFacts) -> None:
        self._facts = facts
        self._waiting = [actor for actor in facts.actors if is_waiting(actor)]
        self._jobs = {job.job: job for job in facts.jobs if job.job}
        self._names = {node.id: node.title for node in facts.nodes.nodes if node.id}
        self._workers = {worker.actor: worker for worker in facts.nodes.workers if worker.actor}
        self._users: dict[str, list[Actor]] = {}
        """By placement group, the actors that have a place in it."""
        for actor in facts.actors:
            if actor.placement_group and self._home(actor):
                self._users.setdefault(actor.placement_group, []).append(actor)
        demand = facts.status.demand if facts.status and facts.asked else None
        self._queued = None if demand is None else frozenset(shape(each.needs).amounts for each in demand)
        """The shapes that raylets report as waiting for resources; `None`: unknown."""
        self._in_group: dict[tuple[str, int | None], LivingNodes] = {}
        """The nodes as seen by actors of a placement group, by group and bundle."""
        # Thousands of actors have few different needs, so each request and each answer is made once.
        self._requests: dict[tuple[object, ...], Request] = {}
        self._answers: dict[tuple[Request, str | None], Reason | None] = {}
        # The dashboard reports the full names of resources late; until then the nodes are not known.
        wanted = {name for actor in self._waiting for name in actor.needs} | {name for each in facts.large for name in each.needs}
        wanted |= {name for group in facts.groups or () if group.pending for bundle in group.bundles for name in bundle.needs}
        mangled = {mangle(name) for name in wanted} - wanted
        are_names_known = not any(name in mangled for node in facts.nodes.nodes for name in node.resources)
        self.nodes = LivingNodes(self._list_nodes(), known=are_names_known)
        self._alive = {node.id for node in self.nodes.nodes}
        self._held_up: dict[str, dict[Request, int]] = {}
        """By job that holds resources, its requests that others hold up."""
        self._deadlock = self._find_deadlock()

    def of_group(self, group: PlacementGroup) -> Reason:
        """Why a group waits, followed by Ray's own reason."""
        if group.state == "PREPARED":
            return Reason(group.why)
        wanted = self._request_of_group(group)
        found = (wanted and self._explain(wanted, group.job)) or Reason()
        said = f" (Ray: {group.why})" if group.why else ""
        return replace(found, why=f"{found.why}{said}" if found.why else group.why)

    def of_actor(self, actor: Actor, groups: Mapping[str, PlacementGroup]) -> Reason:
        """Why an actor waits. `groups`: all of them, with their reasons."""
        if actor.state == "PENDING_CREATION" and (worker := self._workers.get(actor.id)):
            where = self._names.get(worker.node, worker.node[:8])
            return Reason(f"its constructor is running on {where}, pid {worker.pid}", "starting")
        if actor.placement_group is None:
            return self._of_single(actor, self.nodes, self._request_of_actor(actor)) or Reason(actor.why)
        group = groups.get(actor.placement_group)
        if group is None:
            return Reason("its placement group was removed", "removed") if has_waited(actor, self._facts.grouped) else Reason(actor.why)
        if group.pending:
            return Reason(f"{GROUP_WAIT_PREFIX}{group.why}" if group.why else "its placement group waits", "group")
        key = (group.id, actor.bundle)
        if key not in self._in_group:
            self._in_group[key] = LivingNodes(self._list_nodes_in_group(actor, group))
        found = self._of_single(actor, self._in_group[key], make_request([shape(actor.needs)], "STRICT_PACK"))
        if found is None or found is STARTS:
            return found or Reason()
        return replace(found, why=f"in its placement group it {found.why}")

    def of_demand(self, demand: Demand) -> Reason:
        """Why these tasks wait. No reason if a waiting actor needs the same: Ray counts actors and tasks together."""
        wanted = make_request([shape(demand.needs)], "STRICT_PACK")
        asked = {self._request_of_actor(actor).shapes[0][0].amounts for actor in self._waiting}
        if wanted.shapes[0][0].amounts in asked or not self._is(wanted, "never"):
            return Reason()
        return self._explain(wanted, None) or Reason()

    def _of_single(self, actor: Actor, nodes: LivingNodes, wanted: Request) -> Reason | None:
        """Why an actor has no place on one of these nodes. `None`: unknown, or the facts may be older than the actor's request."""
        queued = None if self._queued is None else wanted.shapes[0][0].amounts in self._queued
        has_settled = has_waited(actor, self._facts.asked)
        verdict = nodes.judge(wanted)
        if verdict is None or (verdict.kind != "never" and not (has_settled or queued)):
            return None
        if verdict.kind != "never" and queued is False and actor.state == "PENDING_CREATION":
            return STARTS
        if verdict.kind != "now":
            return self._explain(wanted, actor.job) if nodes is self.nodes else self._judge(nodes, wanted)
        if nodes is not self.nodes or not has_settled or actor.state == "RESTARTING":
            return None
        if self._queued is None:
            why = "there is room for it: the runtime environment or the worker process is starting, or it may be bound to a node"
            return Reason(why, "room")
        held = [hold.amounts.get("GPU", 0) for node in self.nodes.nodes for hold in node.holds]
        is_split = wanted.sum("GPU") >= SCALE and any(amount % SCALE for amount in held)
        parts = "the free GPUs may be fractions of several GPUs, or " if is_split else ""
        return Reason(f"there is room for it, but Ray keeps it queued: {parts}it may be bound to a node (Ray does not report that)", "room")

    def _explain(self, wanted: Request, job: str | None) -> Reason | None:
        """Why a job's request has no place; starts with the deadlock, if waiting alone will not help."""
        key = (wanted, job)
        if key not in self._answers:
            found = self._judge(self.nodes, wanted)
            if found is not None and job is not None and wanted in self._held_up.get(job, ()):
                if job in self._deadlock.themselves:
                    found = Reason(f"its own job holds what it needs: {found.why}", "itself")
                elif job in self._deadlock.each_other:
                    found = Reason(f"{DEADLOCK}{found.why}", "deadlock")
            self._answers[key] = found
        return self._answers[key]

    def _judge(self, nodes: LivingNodes, wanted: Request) -> Reason | None:
        verdict = nodes.judge(wanted)
        words = None if verdict is None else explain_verdict(nodes, wanted, verdict)
        if words is None or verdict is None:
            return None
        match verdict.kind:
            case "never" if self._facts.nodes.growing:
                return Reason(f"does not fit on the current nodes: {words}")
            case "never":
                return Reason(f"never fits on these nodes: {words}", "never")
            case "now" | "missed":
                return Reason(words, "room")
            case kind:
                return Reason(words, kind)

    def _is(self, wanted: Request, *kinds: str) -> bool:
        verdict = self.nodes.judge(wanted)
        return verdict is not None and verdict.kind in kinds

    def _home(self, actor: Actor) -> str | None:
        """The node on which an actor holds resources, also while its constructor runs: the list of actors has no node then."""
        if actor.state == "ALIVE":
            return actor.node
        worker = self._workers.get(actor.id) if actor.state == "PENDING_CREATION" else None
        return worker.node if worker else None

    def _request_of_actor(self, actor: Actor) -> Request:
        """An actor that declares nothing needs one CPU to be placed, and gives it back. Ray's own actors declare that they need none."""
        needs = actor.needs or ({} if actor.internal else {"CPU": 1.0})
        key = (*needs.items(), *actor.labels.items())
        if key not in self._requests:
            self._requests[key] = make_request([shape(needs, actor.labels)], "STRICT_PACK")
        return self._requests[key]

    def _request_of_group(self, group: PlacementGroup) -> Request | None:
        """The bundles of a group that have no place. With an unknown strategy only if no strategy could place them."""
        placed = {bundle.node for bundle in group.bundles if bundle.node in self._alive}
        unplaced = [shape(bundle.needs, bundle.labels) for bundle in group.bundles if bundle.node not in self._alive]
        if not unplaced:
            return None
        strategy = next((known for known in STRATEGIES if known == group.strategy), None)
        wanted = make_request(unplaced, strategy or "PACK", filter(None, placed))
        return wanted if strategy or self._is(wanted, "never") else None

    def _list_nodes(self) -> Iterator[PlacementNode]:
        """The living nodes, each with the resources that actors hold and groups have reserved there, used or not."""
        holds: dict[str, list[NodeHold]] = {}
        for actor in self._facts.actors:
            if not actor.placement_group and (home := self._home(actor)):
                holds.setdefault(home, []).append(self._hold(actor.job, f"actor {actor.class_}", actor.needs))
        for group in self._facts.groups or ():
            users = ", ".join(list(dict.fromkeys(actor.class_ for actor in self._users.get(group.id, ())))[:2])
            what = f"group {group.name or group.id[:8]}{users and ' of '}{users}"
            for bundle in group.bundles:
                if bundle.node and group.state in ("CREATED", "RESCHEDULING"):
                    holds.setdefault(bundle.node, []).append(self._hold(group.job, what, bundle.needs))
        usage_by_node = (self._facts.status.usage if self._facts.status else None) or {}
        for node in self._facts.nodes.nodes:
            if node.state != "ALIVE" or not node.id:
                continue
            usage = usage_by_node.get(node.id) or {}
            total = {name: scale_amount(has.total) for name, has in node.resources.items() if has.total is not None}
            used = {name: usage.get(name, has).used for name, has in node.resources.items()} if self._facts.asked is not None else {}
            known = {name: scale_amount(amount) for name, amount in used.items() if amount is not None}
            yield PlacementNode(node.id, node.title, total, known, {_NODE: node.id, **node.labels}, tuple(holds.get(node.id, ())))

    def _list_nodes_in_group(self, actor: Actor, group: PlacementGroup) -> Iterator[PlacementNode]:
        """A placed group as its actors see it: the actor's own bundle, or the group's resources on each node."""
        users = self._users.get(group.id, ())
        if actor.bundle is not None and actor.bundle < len(group.bundles):
            bundle = group.bundles[actor.bundle]
            yield self._node_in_group(
                f"bundle {actor.bundle}", _scale(bundle.needs), [each for each in users if each.bundle == actor.bundle]
            )
            return
        for node in dict.fromkeys(bundle.node for bundle in group.bundles if bundle.node):
            total: Counter[str] = Counter()
            for bundle in group.bundles:
                total.update(_scale(bundle.needs) if bundle.node == node else {})
            yield self._node_in_group(self._names.get(node, node[:8]), total, [each for each in users if self._home(each) == node])

    def _node_in_group(self, name: str, total: Mapping[str, int], users: Iterable[Actor]) -> PlacementNode:
        used = Counter(dict.fromkeys(total, 0))
        holds = tuple(self._hold(each.job, f"actor {each.class_}", each.needs) for each in users)
        for hold in holds:
            used.update(hold.amounts)
        return PlacementNode(name, name, total, used, {}, holds)

    def _hold(self, job: str | None, what: str, needs: Mapping[str, float]) -> NodeHold:
        who = f"job {job}" if job else "no job"
        if known := self._jobs.get(job or ""):
            who = f"job {known.id}" if known.running else f"ended job {known.id}"
        return NodeHold(job, who, what, _scale(needs))

    def _find_deadlock(self) -> Deadlock:
        """Collect the requests that are held up, by job, and find the jobs among them that wait for each other or for themselves."""
        requests: dict[str, Counter[Request]] = {}
        for group in self._facts.groups or ():
            if group.pending and group.job and (wanted := self._request_of_group(group)):
                requests.setdefault(group.job, Counter())[wanted] += 1
        for actor in self._waiting:
            if actor.job and actor.placement_group is None and not actor.internal and not self._home(actor):
                requests.setdefault(actor.job, Counter())[self._request_of_actor(actor)] += 1
        holders = {hold.job for node in self.nodes.nodes for hold in node.holds}
        for job, wanted_by_job in requests.items():
            held = {each: times for each, times in wanted_by_job.items() if self._is(each, "held", "fragmented", "short", "label")}
            if held and job in holders:
                self._held_up[job] = held
        return find_deadlock(self.nodes, self._held_up) if self._held_up else Deadlock()


def _scale(needs: Mapping[str, float]) -> dict[str, int]:
    """Amounts in ten-thousandths, as `cockpit.placement` counts."""
    return {name: scale_amount(amount) for name, amount in needs.items()}
