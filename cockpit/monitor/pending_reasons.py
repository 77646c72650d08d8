"""Why actors and placement groups wait, in a sentence: what Ray says of nodes, actors, groups and demand, judged by `cockpit.placement`.

Where too little is known, Ray's own words stay as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

import msgspec
from msgspec.structs import replace

from cockpit.model import DEADLOCK, GROUP_WAIT_PREFIX, Actor, Demand, Job, Node, PlacementGroup, Quantity, Wait
from cockpit.placement import (
    SCALE,
    Ask,
    Deadlock,
    LivingNodes,
    NodeHold,
    Place,
    PlacementVerdict,
    Strategy,
    ask,
    deadlock,
    scale_amount,
    sentence,
    shape,
)
from cockpit.sources.ray.client import NodeFacts, StatusFacts
from cockpit.sources.ray.resources import mangle

SETTLED_S = 15.0
"""Seconds after which what waits is in the monitor's report, or waits for no resources: it is written every 5 s, of what is as old."""
STRATEGIES: tuple[Strategy, ...] = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")
_NODE = "ray.io/node-id"
MAX_LARGE_DEMAND = 100
"""So many kinds of waiting tasks each raylet tells of (`max_resource_shapes_per_load_report`, ray_config_def.h)."""
STARTING = "resources are reserved; the runtime environment or the worker process is starting"


class WaitFacts(msgspec.Struct, frozen=True):
    """What Ray said, and which of it is not old."""

    nodes: NodeFacts
    status: StatusFacts | None
    actors: tuple[Actor, ...]
    groups: tuple[PlacementGroup, ...] | None
    grouped: float | None
    """When the groups were listed; `None` where the list was cut."""
    jobs: tuple[Job, ...]
    asked: float | None
    """When the monitor's report was read; `None` while it is too old to use."""
    large: tuple[Demand, ...] = ()
    """What may be tasks that no node is large enough for."""


class Reason(msgspec.Struct, frozen=True):
    """Why something waits, in a sentence and in a word."""

    why: str | None = None
    wait: Wait | None = None


STARTS = Reason(STARTING, "starting")


def find_reasons(facts: WaitFacts) -> dict[str, Reason]:
    """By id, of groups and of actors: those of a group that waits say what it waits for."""
    reasons = Reasons(facts)
    pending = [group for group in facts.groups or () if group.pending]
    why = {group.id: reasons.of_group(group) for group in pending}
    by_id = {group.id: replace(group, why=why[group.id].why) if group.id in why else group for group in facts.groups or ()}
    actors = {actor.id: reasons.of_actor(actor, by_id) for actor in facts.actors if is_waiting(actor)}
    return {**why, **actors, **{demand.key: reasons.of_demand(demand) for demand in facts.large}}


def find_large_demand(nodes: NodeFacts, demand: Iterable[Demand]) -> tuple[Demand, ...]:
    """What asks for more than any living node has."""
    alive = [node.resources for node in nodes.nodes if node.state == "ALIVE"]
    large = (each for each in demand if not any(_may_hold(resources, each.needs) for resources in alive))
    return tuple(islice(large, MAX_LARGE_DEMAND))


def _may_hold(resources: Mapping[str, Quantity], needs: Mapping[str, float]) -> bool:
    """Whether a node is large enough, or it is not known how large it is."""
    return not resources or all((has := resources.get(name)) and (has.total is None or has.total >= needs[name]) for name in needs)


def is_waiting(actor: Actor) -> bool:
    """Whether an actor waits for a place, for the first time or again."""
    return actor.state in ("PENDING_CREATION", "RESTARTING")


class Reasons:
    """The cluster at one moment, and why something waits in it."""

    def __init__(self, facts: WaitFacts) -> None:
        self._facts = facts
        self._waiting = [actor for actor in facts.actors if is_waiting(actor)]
        self._titles = {job.job: job for job in facts.jobs if job.job}
        self._names = {node.id: node.title for node in facts.nodes.nodes if node.id}
        self._workers = {worker.actor: worker for worker in facts.nodes.workers if worker.actor}
        self._users: dict[str, list[Actor]] = {}
        for actor in facts.actors:
            if actor.placement_group and self._home(actor):
                self._users.setdefault(actor.placement_group, []).append(actor)
        self._alike: dict[tuple[object, ...], NodeHold] = {}
        self._inside: dict[tuple[str, int | None], LivingNodes] = {}
        demand = facts.status.demand if facts.status and facts.asked else None
        self._queued = None if demand is None else frozenset(shape(each.needs).amounts for each in demand)
        """The shapes that raylets say wait for resources."""
        self.world = LivingNodes(self._places(), known=_are_names_known(facts, self._waiting))
        self._alive = {place.id for place in self.world.places}
        self._told: dict[tuple[Ask, str | None], Reason | None] = {}
        self._single: dict[tuple[object, ...], Ask] = {}
        self._found, self._held_up = self._find_deadlock()

    def of_group(self, group: PlacementGroup) -> Reason:
        """Why a group waits; Ray's own words behind it."""
        if group.state == "PREPARED":
            return Reason(group.why)
        found = next((self._sentence(each, group.job) for each in self._asks(group)), None) or Reason()
        said = f" (Ray: {group.why})" if group.why else ""
        return replace(found, why=f"{found.why}{said}" if found.why else group.why)

    def of_actor(self, actor: Actor, groups: Mapping[str, PlacementGroup]) -> Reason:
        """Why an actor waits."""
        if actor.state == "PENDING_CREATION" and (worker := self._workers.get(actor.id)):
            where = self._names.get(worker.node, worker.node[:8])
            return Reason(f"its constructor is running on {where}, pid {worker.pid}", "starting")
        if actor.placement_group is not None:
            return self._of_bound(actor, actor.placement_group, groups)
        return self._first(actor, self.world, self._ask(actor)) or Reason(actor.why)

    def of_demand(self, demand: Demand) -> Reason:
        """Why these tasks wait. Nothing where a waiting actor asks for the same: Ray counts both as one."""
        wanted = ask([shape(demand.needs)], "STRICT_PACK")
        asked = {self._ask(actor).shapes[0][0].amounts for actor in self._waiting}
        if wanted.shapes[0][0].amounts in asked or not self._is(wanted, "never"):
            return Reason()
        return self._sentence(wanted, None) or Reason()

    def _ask(self, actor: Actor) -> Ask:
        """What an actor asks for; one value for all with the same needs."""
        needs = _to_start(actor)
        key = (*needs.items(), *actor.labels.items())
        if key not in self._single:
            self._single[key] = ask([shape(needs, actor.labels)], "STRICT_PACK")
        return self._single[key]

    def _of_bound(self, actor: Actor, id_: str, groups: Mapping[str, PlacementGroup]) -> Reason:
        group = groups.get(id_)
        if group is None:
            return Reason("its placement group was removed", "removed") if has_waited(actor, self._facts.grouped) else Reason(actor.why)
        if group.pending:
            return Reason(f"{GROUP_WAIT_PREFIX}{group.why}" if group.why else "its placement group waits", "group")
        key = (id_, actor.bundle)
        if key not in self._inside:
            self._inside[key] = LivingNodes(self._bundles(actor, group))
        found = self._first(actor, self._inside[key], ask([shape(actor.needs)], "STRICT_PACK"))
        if found is None or found is STARTS:
            return found or Reason()
        return replace(found, why=f"in its placement group it {found.why}")

    def _first(self, actor: Actor, world: LivingNodes, wanted: Ask) -> Reason | None:
        """The sentence for one that needs one node; nothing while the facts may be older than it is."""
        queued = None if self._queued is None else wanted.shapes[0][0].amounts in self._queued
        long = has_waited(actor, self._facts.asked)
        verdict = world.judge(wanted)
        if verdict is None or (verdict.kind != "never" and not (long or queued)):
            return None
        if verdict.kind != "never" and queued is False and actor.state == "PENDING_CREATION":
            return STARTS
        if verdict.kind == "now":
            return self._free(wanted) if world is self.world and long and actor.state != "RESTARTING" else None
        return self._sentence(wanted, actor.job) if world is self.world else _reason_of(world, wanted, self._facts.nodes.growing)

    def _free(self, wanted: Ask) -> Reason:
        """What holds up an actor for which there is room, as far as Ray tells."""
        held = [hold.amounts.get("GPU", 0) for place in self.world.places for hold in place.holds]
        parted = wanted.sum("GPU") >= SCALE and any(amount % SCALE for amount in held)
        if self._queued is None:
            told = "there is room for it: the runtime environment or the worker process is starting, or it may be bound to a node"
            return Reason(told, "room")
        parts = "the free GPUs may be fractions of several GPUs, or " if parted else ""
        return Reason(f"there is room for it, but Ray keeps it queued: {parts}it may be bound to a node (Ray does not report that)", "room")

    def _home(self, actor: Actor) -> str | None:
        """The node where it has what it needs, also while its constructor runs, of which the list of actors knows nothing."""
        if actor.state == "ALIVE":
            return actor.node
        worker = self._workers.get(actor.id) if actor.state == "PENDING_CREATION" else None
        return worker.node if worker else None

    def _sentence(self, wanted: Ask, job: str | None) -> Reason | None:
        """Its words, found once for all that ask for the same."""
        key = (wanted, job)
        if key not in self._told:
            told = _reason_of(self.world, wanted, self._facts.nodes.growing)
            self._told[key] = told and self._of_deadlock(wanted, job, told)
        return self._told[key]

    def _places(self) -> Iterator[Place]:
        usage = (self._facts.status.usage if self._facts.status else None) or {}
        holds = self._holds()
        for node in self._facts.nodes.nodes:
            if node.state == "ALIVE" and node.id:
                yield _place_of(node, usage.get(node.id), tuple(holds.get(node.id, ())), trusted=self._facts.asked is not None)

    def _holds(self) -> Mapping[str, list[NodeHold]]:
        """By node, what actors hold and what groups have reserved there, used or not."""
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
        return holds

    def _hold(self, job: str | None, what: str, needs: Mapping[str, float]) -> NodeHold:
        key = (job, what, *needs.items())
        if key not in self._alike:
            self._alike[key] = NodeHold(job, self._who(job), what, _fixed_amounts(needs))
        return self._alike[key]

    def _who(self, job: str | None) -> str:
        known = self._titles.get(job or "")
        if known is None:
            return f"job {job}" if job else "no job"
        return f"job {known.id}" if known.running else f"ended job {known.id}"

    def _bundles(self, actor: Actor, group: PlacementGroup) -> Iterator[Place]:
        """A placed group as its actors see it: its bundles, or what it has on each node."""
        users = self._users.get(group.id, ())
        if actor.bundle is not None and actor.bundle < len(group.bundles):
            bundle = group.bundles[actor.bundle]
            bound = [each for each in users if each.bundle == actor.bundle]
            yield self._share(f"bundle {actor.bundle}", Counter(_fixed_amounts(bundle.needs)), bound)
            return
        for node in dict.fromkeys(bundle.node for bundle in group.bundles if bundle.node):
            there: Counter[str] = Counter()
            for bundle in group.bundles:
                there.update(_fixed_amounts(bundle.needs) if bundle.node == node else {})
            yield self._share(self._names.get(node, node[:8]), there, [each for each in users if self._home(each) == node])

    def _share(self, name: str, total: Counter[str], users: Iterable[Actor]) -> Place:
        used = Counter(dict.fromkeys(total, 0))
        holds = tuple(self._hold(each.job, f"actor {each.class_}", each.needs) for each in users)
        for hold in holds:
            used.update(hold.amounts)
        return Place(name, name, total, used, {}, holds)

    def _asks(self, group: PlacementGroup) -> Iterator[Ask]:
        """What a group waits for. Without its strategy only what no strategy could make possible is certain."""
        placed = {bundle.node for bundle in group.bundles if bundle.node in self._alive}
        unplaced = [shape(bundle.needs, bundle.labels) for bundle in group.bundles if bundle.node not in self._alive]
        strategy = next((known for known in STRATEGIES if known == group.strategy), None)
        if unplaced:
            wanted = ask(unplaced, strategy or "PACK", filter(None, placed))
            if strategy or self._is(wanted, "never"):
                yield wanted

    def _is(self, wanted: Ask, *kinds: str) -> bool:
        verdict = self.world.judge(wanted)
        return verdict is not None and verdict.kind in kinds

    def _find_deadlock(self) -> tuple[Deadlock, Mapping[str, Mapping[Ask, int]]]:
        asks: dict[str, Counter[Ask]] = {}
        for group in self._facts.groups or ():
            if group.pending and group.job:
                asks.setdefault(group.job, Counter()).update(self._asks(group))
        for actor in self._waiting:
            if actor.job and actor.placement_group is None and not actor.internal and not self._home(actor):
                asks.setdefault(actor.job, Counter())[self._ask(actor)] += 1
        holders = {hold.job for place in self.world.places for hold in place.holds}
        held_up = {
            job: mine
            for job, wanted in asks.items()
            if job in holders
            and (mine := {each: times for each, times in wanted.items() if self._is(each, "held", "fragmented", "short", "label")})
        }
        return (deadlock(self.world, held_up) if held_up else Deadlock()), held_up

    def _of_deadlock(self, wanted: Ask, job: str | None, told: Reason) -> Reason:
        """Something comes before the sentence when waiting alone will not help."""
        if job is None or wanted not in self._held_up.get(job, ()):
            return told
        if job in self._found.themselves:
            return Reason(f"its own job holds what it needs: {told.why}", "itself")
        if job in self._found.each_other:
            return Reason(f"{DEADLOCK}{told.why}", "deadlock")
        return told


def has_waited(actor: Actor, asked: float | None) -> bool:
    """Whether it waited already long before something was asked."""
    return asked is not None and actor.since is not None and asked - actor.since > SETTLED_S


def _reason_of(world: LivingNodes, wanted: Ask, growing: bool) -> Reason | None:
    verdict: PlacementVerdict | None = world.judge(wanted)
    told = None if verdict is None else sentence(world, wanted, verdict)
    if told is None or verdict is None:
        return None
    match verdict.kind:
        case "never" if growing:
            return Reason(f"does not fit on the current nodes: {told}")
        case "never":
            return Reason(f"never fits on these nodes: {told}", "never")
        case "now" | "missed":
            return Reason(told, "room")
        case kind:
            return Reason(told, kind)


def _place_of(node: Node, usage: Mapping[str, Quantity] | None, holds: tuple[NodeHold, ...], *, trusted: bool) -> Place:
    total = {name: scale_amount(has.total) for name, has in node.resources.items() if has.total is not None}
    used = {name: (usage or {}).get(name, has).used for name, has in node.resources.items()}
    known = {name: scale_amount(amount) for name, amount in used.items() if amount is not None}
    labels = {_NODE: node.id or "", **node.labels}
    return Place(node.id or "", node.title, total, known if trusted else {}, labels, holds)


def _are_names_known(facts: WaitFacts, waiting: Iterable[Actor]) -> bool:
    """Whether the names of all resources are those that were given to Ray: the dashboard takes a while to tell them."""
    wanted = {name for actor in waiting for name in actor.needs}
    wanted |= {name for demand in facts.large for name in demand.needs}
    wanted |= {name for group in facts.groups or () if group.pending for bundle in group.bundles for name in bundle.needs}
    strange = {mangle(name) for name in wanted} - wanted
    return not any(name in strange for node in facts.nodes.nodes for name in node.resources)


def _to_start(actor: Actor) -> Mapping[str, float]:
    """An actor that declares nothing takes one CPU to be placed, and gives it back. Ray's own declare that they take none."""
    return actor.needs or ({} if actor.internal else {"CPU": 1.0})


def _fixed_amounts(needs: Mapping[str, float]) -> dict[str, int]:
    return {name: scale_amount(amount) for name, amount in needs.items()}
