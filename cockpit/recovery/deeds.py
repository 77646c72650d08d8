"""What each step of the runbook does: plans through the door, and never more than what was agreed to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from cockpit.actions.plan import Plan, Receipt, Target
from cockpit.actions.table import Aim, find_act
from cockpit.actions.words import named, summary
from cockpit.config import Address
from cockpit.door import Door
from cockpit.lookout import Lookout
from cockpit.presets import Preset, RayStart
from cockpit.reach import HostEntry
from cockpit.recovery.arrival import Arrival
from cockpit.recovery.hosts import asked, elsewhere, expected_gpus, numbers, of_host, same_host, sessions_of, why_not
from cockpit.recovery.step import StepError
from cockpit.sources.errand import Progress
from cockpit.sources.ray import Ray, find_token
from cockpit.text import plural

Hear = Callable[[str, Progress], None]
Show = Callable[[Plan | Receipt], None]
"""Told what a step will do as soon as that is known, and what it has done."""
Lines = tuple[str, ...]
"""What came of a step, a sentence each."""
SPARED: Final = ("driver", "child")
"""What a person has started lives on without its Ray, and is in nobody's way."""


class Deeds:
    """The hosts of one preset, what has been found there, and what has been done to them."""

    def __init__(self, lookout: Lookout, door: Door, preset: Preset, env: Mapping[str, str], dashboard: str) -> None:
        """`env` is the preset's for Ray, with its secrets; `dashboard` where the cluster's answers once it is there."""
        if preset.ray is None:
            raise StepError(f"{preset.name} says nothing of how its cluster is started: it has no `ray`")
        self._lookout, self._door, self._preset, self._env = lookout, door, preset, env
        self._start: RayStart = preset.ray
        lookout.token = lambda: find_token(env) or find_token()  # the cluster's may be the preset's to say
        self.dashboard = dashboard
        self.names: dict[str, str] = {}
        """What each host of the preset is called here."""
        self.hosts: tuple[str, ...] = ()
        """Those of the preset, and where else there is something of the cluster that is to be stopped."""
        self._known: dict[str, Target] = {}
        """What each host of the preset has said of itself last."""
        self._stops: tuple[Plan, ...] = ()
        self._fit: Plan | None = None
        self.stopped: list[str] = []
        self.started: dict[str, str] = {}
        """By host, the session that runs there."""
        self._halves: dict[str, str] = {}
        """By host, the session of which only a part runs there."""

    # Before anything is asked of a person

    async def survey(self, hear: Hear) -> str | None:
        """Who is there, and which Ray; why it can't end well, if that is certain already. Raises `SourceError`."""
        await self._lookout.known()
        for node in self._start.nodes:
            self.names[node.host] = self._door.meet(HostEntry(node.host, address=node.address or ""))
        if twice := same_host(self.names):
            raise StepError(twice)
        plan = await self._starts(hear, survey=True)
        if plan.refused and self.names[self._start.head.host] in self._known:
            plan = await self._starts(hear, survey=True)  # now they know where the head has its Ray
        self.hosts = tuple(self.names.values())
        return why_not(self._start, self.names, plan)

    async def plan_stop(self, hear: Hear) -> Plan:
        """All that would be stopped; it is the question's. Raises `SourceError`."""
        everywhere = tuple(dict.fromkeys((*self.hosts, *self._lookout.others())))
        stops = [await self._door.plan(find_act("stop"), Aim(session=name, hosts=everywhere), hear) for name in self.sessions()]
        self._stops = tuple(plan for plan in stops if not plan.empty)
        self.hosts = tuple(dict.fromkeys((*self.hosts, *(target.host for plan in stops for target in plan.targets))))
        return _together(self._preset.name, stops, self.hosts, self._notes())

    def sessions(self) -> tuple[str, ...]:
        """Those of this cluster that live on the preset's hosts, and the one that is followed, where it is this cluster's."""
        return sessions_of(self._start, self.names, self._known)

    def _notes(self) -> tuple[str, ...]:
        cluster = self._lookout.poller.snapshot.cluster
        silent = bool(self.sessions()) and cluster.session not in self.sessions()
        others = {str(ray["session"]) for target in self._known.values() for ray in (target.facts or {}).get("rays") or ()}
        apart = sorted(others - {*self.sessions()})
        return (
            *elsewhere(self._start, self._lookout.config.hosts),
            *(("its dashboard has not answered: hosts that it has beyond the preset's are not known",) if silent else ()),
            *((f"another cluster's Ray lives there too, and is left alone: {', '.join(apart)}",) if apart else ()),
        )

    @property
    def heard(self) -> bool:
        """Whether any host of the preset has answered."""
        return bool(self._known)

    def gpus(self) -> float | None:
        """All that these hosts will offer; `None` where it can't be told of one of them."""
        known = [*expected_gpus(self._known.values()).values()]
        return None if None in known else sum(amount for amount in known if amount is not None)

    # The steps

    async def stop(self, hear: Hear, show: Show) -> Lines:
        """Exactly what was agreed to."""
        told = []
        for plan in self._stops:
            receipt = await self._performed(plan, hear, show)
            self._weigh(receipt, spared=True)
            self.stopped += sorted({target.session for target in plan.targets if target.session})
            told.append(summary(receipt))
        return tuple(told) or (f"no Ray of this cluster runs on {', '.join(self.hosts)}",)

    async def kill(self, hear: Hear, show: Show) -> Lines:
        """Orphan and stale processes: the act proves that of each."""
        return await self._swept("kill-orphans", Aim(hosts=self.hosts), hear, show)

    async def clean(self, hear: Hear, show: Show) -> Lines:
        """Dead sessions, however young, and what points at them."""
        return await self._swept("clean", Aim(hosts=self.hosts, older_than=0.0, ended=tuple(self.stopped)), hear, show)

    async def _swept(self, name: str, aim: Aim, hear: Hear, show: Show) -> Lines:
        plan = await self._door.plan(find_act(name), aim, hear)
        show(plan)
        refused = tuple(f"left: {named(target)}: {target.reason}" for target in plan.refused)
        if plan.empty:
            self._weigh(Receipt(plan.act, plan.title, unreached=plan.unreached, hosts=plan.hosts))
            return ("nothing is left over", *refused)
        receipt = await self._performed(plan, hear, show)
        self._weigh(receipt)
        return (summary(receipt), *refused)

    def _weigh(self, receipt: Receipt, *, spared: bool = False) -> None:
        """A host that only a dead Ray knew may be gone for good; one of the preset is needed."""
        failed = [f"{named(target)}: {target.error}" for target in receipt.failed]
        if spared:
            failed += [f"{named(target)}: {target.reason}" for target in receipt.refused if target.part not in SPARED]
        failed += [one.error for one in receipt.unreached if one.host in self.names.values()]
        if failed:
            raise StepError("; ".join(failed[:3]) + (f"; and {len(failed) - 3} more" if len(failed) > 3 else ""))

    async def check_hosts(self, hear: Hear, show: Show) -> Lines:
        """Whether each could have its Ray now."""
        plan = await self._starts(hear)
        show(plan)
        self._halve(plan.refused)
        if reason := why_not(self._start, self.names, plan):
            raise StepError(reason, _first(plan.refused))
        self._fit = plan
        return (*numbers(plan.targets), *plan.notes)

    async def start(self, hear: Hear, show: Show) -> Lines:
        """The head, and when it runs all the others at once."""
        if self._fit is None:
            await self.check_hosts(hear, show)
        plan, self._fit = self._fit or Plan("start", ""), None
        head = self.names[self._start.head.host]
        await self._begun(_part(plan, {head}, None), hear, show)
        rest = _part(plan, {*self.names.values()} - {head}, self.started[head])
        if rest.targets:
            await self._begun(rest, hear, show)
        return tuple(f"{host}: {session}" for host, session in self.started.items())

    async def _begun(self, plan: Plan, hear: Hear, show: Show) -> None:
        receipt = await self._performed(plan, hear, show)
        self.started.update({target.host: target.session for target in receipt.done if target.session})
        self._halve((*receipt.failed, *receipt.refused))
        reasons = [of_host(target.host, target.error or target.reason) for target in (*receipt.failed, *receipt.refused)]
        reasons += [one.error for one in receipt.unreached]
        if reasons:
            raise StepError("; ".join(reasons), _first((*receipt.failed, *receipt.refused)))

    async def wait(self, hear: Hear, show: Show) -> Lines:  # noqa: ARG002 as its sisters
        """Until the GCS lists every node with all its GPUs, and the dashboard tells so."""
        targets, head = self._known, self.names[self._start.head.host]
        session = self.started.get(head) or (targets[head].session if head in targets else None)
        if session is None:
            raise StepError("no Ray is known to run on the head: nothing is there to be waited for, and --from start starts it", "start")
        arrival = Arrival(Ray(self.dashboard, token=self._lookout.token), session, expected_gpus(targets.values()), _addresses(targets))
        began = time.monotonic()
        gpus = await arrival.whole(lambda host, text: hear(host, Progress(text)))
        self._lookout.follow(Address(self.dashboard, session))
        await self._seen(session)
        nodes, after = plural(len(targets), "node"), time.monotonic() - began
        return (f"{nodes} and {gpus:g} GPUs are there after {after:.1f} s; {self.dashboard} answers",)

    async def _seen(self, session: str, patience: float = 15.0) -> None:
        """Until the snapshot is of this session: what comes next is judged by it."""
        poller, until = self._lookout.poller, time.monotonic() + patience
        poller.refresh()
        while time.monotonic() < until:
            alive = [node for node in poller.snapshot.nodes or () if node.state == "ALIVE"]
            if poller.snapshot.cluster.session == session and len(alive) >= len(self.names):
                return
            await poller.change(0.3)
            poller.rejoin()
        raise StepError(f"{self.dashboard} has not told of the new nodes within {patience:.0f} s")

    # What they share

    async def _performed(self, plan: Plan, hear: Hear, show: Show) -> Receipt:
        show(plan)
        receipt = await self._door.perform(plan, hear)
        show(receipt)
        return receipt

    async def _starts(self, hear: Hear, **more: Any) -> Plan:
        """What starting would be on each host, as of now. Workers need to know where the head will be, which only the head can say."""
        requests = asked(self._start, self.names, self._env, self._known, job=self._preset.job is not None, **more)
        plan = await self._door.plan(find_act("start"), Aim(hosts=tuple(requests), requests=requests), hear)
        self._known.update({target.host: target for target in (*plan.targets, *plan.refused)})
        return plan

    def left(self) -> tuple[str, ...]:
        """In which state things are, for whoever has to go on."""
        halves = self._halves
        runs = {host: session for host, session in self._running().items() if host not in halves}
        missing = [host for host in self.names.values() if host not in (*runs, *halves)]
        return (
            *((f"stopped: {', '.join(dict.fromkeys(self.stopped))}",) if self.stopped else ()),
            *((f"Ray runs on {_where(runs)}",) if runs else ()),
            *((f"only a part of Ray runs on {_where(halves)}",) if halves else ()),
            *((f"not started on {', '.join(missing)}",) if (runs or halves) and missing else ()),
        )

    def _halve(self, against: Iterable[Target]) -> None:
        self._halves = {target.host: str(target.session) for target in against if target.live}

    def _running(self) -> dict[str, str]:
        """By host, the session that runs there as far as is known: what was started, and what was found and not stopped."""
        mine = {*self.sessions()} - {*self.stopped}
        rays = [(host, str(ray["session"])) for host, target in self._known.items() for ray in (target.facts or {}).get("rays") or ()]
        return {**{host: session for host, session in rays if session in mine}, **self.started}


def _together(name: str, plans: Iterable[Plan], hosts: tuple[str, ...], notes: tuple[str, ...]) -> Plan:
    """One question out of all that would be stopped."""
    plans = tuple(plans)
    return Plan(
        act="stop",
        title=f"Recover {name}",
        targets=tuple(target for plan in plans for target in plan.targets),
        refused=tuple(target for plan in plans for target in plan.refused),
        notes=tuple(dict.fromkeys((*notes, *(note for plan in plans for note in plan.notes if "runs on this host" not in note)))),
        losses=tuple(dict.fromkeys(loss for plan in plans for loss in plan.losses)),
        unreached=tuple(dict.fromkeys(one for plan in plans for one in plan.unreached)),
        hosts=hosts,
        word=next((plan.word for plan in plans if plan.word), None),
    )


def _part(plan: Plan, hosts: set[str], session: str | None) -> Plan:
    """Of some hosts alone; they join only that session."""
    requests = {host: {**request, "session": session} for host, request in plan.requests.items() if host in hosts}
    return replace(
        plan, targets=tuple(target for target in plan.targets if target.host in hosts), hosts=tuple(requests), requests=requests, notes=()
    )


def _where(runs: Mapping[str, str]) -> str:
    return f"{', '.join(runs)} ({', '.join(dict.fromkeys(runs.values()))})"


def _first(against: Iterable[Target]) -> str | None:
    """The step before all others where a part of that Ray is in its own way; `None`: it has to be mended by hand."""
    return "stop" if any(target.live for target in against) else None


def _addresses(targets: Mapping[str, Target]) -> dict[str, str]:
    return {host: str((target.facts or {}).get("address") or "") for host, target in targets.items()}
