"""What each step of the runbook does: plans through the executor, and never more than what was agreed to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from cockpit.acts.act import Aim
from cockpit.acts.audit import user_name
from cockpit.acts.executor import ActionExecutor
from cockpit.acts.plan import Plan, Receipt, Target
from cockpit.acts.recover.arrival import wait_for_all
from cockpit.acts.recover.hosts import (
    address_conflicts,
    expected_gpus,
    host_lines,
    of_host,
    same_host,
    sessions_of,
    start_requests,
    why_another_jobs,
    why_another_ray,
    why_not,
)
from cockpit.acts.recover.step_state import StepError
from cockpit.acts.table import find_act
from cockpit.acts.text import reasons, summary
from cockpit.acts.world import Hear
from cockpit.config.address import Address
from cockpit.config.reach import HostEntry
from cockpit.monitor.monitor import ClusterMonitor
from cockpit.presets import Preset, RayStart
from cockpit.sources.probes.requests import Progress
from cockpit.sources.ray.client import RayClient
from cockpit.text import gpus_words, plural
from cockpit.trust import Peer, find_token

DEMO_MARK: Final = "COCKPIT_DEMO"
"""The environment variable of everything that belongs to a demo (demo/processes.py)."""
OF_ALL_RAYS: Final = ("kill-orphans", "clean")
"""Steps that look at all that any Ray has left on a host: a demo may run beside another."""
Show = Callable[[Plan | Receipt], None]
"""Told what a step will do as soon as that is known, and what it has done."""
Lines = tuple[str, ...]
"""What came of a step, a sentence each."""
SPARED: Final = ("driver", "child")
"""What a person has started lives on without its Ray, and is in nobody's way."""


def is_demo(start: RayStart) -> bool:
    """Whether the preset's Ray is that of a demo."""
    return DEMO_MARK in start.env


class RecoverySteps:
    """The hosts of one preset, what was found on them, and what was done to them."""

    def __init__(self, monitor: ClusterMonitor, executor: ActionExecutor, preset: Preset, env: Mapping[str, str], dashboard: str) -> None:
        """`env` is the preset's for Ray, with its secrets; `dashboard` where the cluster's answers once it is there."""
        if not isinstance(preset.ray, RayStart):
            raise StepError(f"{preset.name} has no `ray` section with hosts, so cockpit can't start its cluster")
        self._monitor, self._executor, self._preset, self._env = monitor, executor, preset, env
        self._start: RayStart = preset.ray
        monitor.choice.token = lambda: find_token(env) or find_token()  # the cluster's may be the preset's to say
        self.dashboard = dashboard
        self.names: dict[str, str] = {}
        """What each host of the preset is called here."""
        self.hosts: tuple[str, ...] = ()
        """Those of the preset, and where else there is something of the cluster that is to be stopped."""
        self._known: dict[str, Target] = {}
        """What each host of the preset has said of itself last."""
        self._stops: tuple[Plan, ...] = ()
        self._start_plan: Plan | None = None
        self.stopped: list[str] = []
        self.started: dict[str, str] = {}
        """By host, the session that runs there."""
        self._partial: dict[str, str] = {}
        """By host, the session of which only a part runs there."""

    # Before anything is asked of a person

    async def survey(self, hear: Hear) -> str | None:
        """Who is there, and which Ray; why it can't end well, if that is certain already. Raises `SourceError`."""
        await self._monitor.wait_until_complete()
        for node in self._start.nodes:
            self.names[node.host] = self._executor.register_host(HostEntry(node.host, address=node.address or ""))
        if twice := same_host(self.names):
            raise StepError(twice)
        plan = await self._plan_start(hear, survey=True)
        if plan.refused and self.names[self._start.head.host] in self._known:
            plan = await self._plan_start(hear, survey=True)  # now they know where the head has its Ray
        self.hosts = tuple(self.names.values())
        if reason := why_another_jobs(self._start, self.names, self._known):
            raise StepError(reason)
        return why_not(self._start, self.names, plan)

    async def plan_stop(self, hear: Hear) -> Plan:
        """All that would be stopped; it is the question's. Raises `SourceError`."""
        everywhere = tuple(dict.fromkeys((*self.hosts, *self._monitor.select_others())))
        stops = [await self._executor.plan(find_act("stop"), Aim(session=name, hosts=everywhere), hear) for name in self.sessions()]
        head = self._monitor.poller.snapshot.hosts.get(self.names[self._start.head.host])
        targets = (target for plan in stops for target in plan.targets)
        if reason := why_another_ray(self._start, self.names, self._known, targets, head.addresses if head else ()):
            raise StepError(reason)
        self._stops = tuple(plan for plan in stops if not plan.empty)
        self.hosts = tuple(dict.fromkeys((*self.hosts, *(target.host for plan in stops for target in plan.targets))))
        return _join_plans(self._preset.name, stops, self.hosts, (*self.describe_placement(), *self._notes()))

    def describe_placement(self) -> tuple[str, ...]:
        """Which node of a Slurm job will be what, in a sentence: the preset does not say it itself."""
        head, *workers = self.names.values()
        rest = f"workers on {', '.join(workers)}" if workers else "no workers"
        return (f"Slurm job {self._start.slurm}: the head runs on {head}, {rest}",) if self._start.slurm else ()

    def why_not_followed(self) -> str | None:
        """Why what is followed is no Ray of this preset's, which may have been started in another Slurm job; `None`: it may be."""
        followed = self._monitor.poller.snapshot.cluster.session
        if self._start.slurm is None or followed in self.sessions():
            return None
        address, nodes = self._monitor.poller.snapshot.cluster.address, f"the nodes of Slurm job {self._start.slurm}"
        told = f"{address} answers for {followed}, which does not run on {nodes}" if followed else f"no Ray on {nodes} answers"
        return f"{told}: continue with --from start, without --skip wait"

    def sessions(self) -> tuple[str, ...]:
        """Those of this cluster that live on the preset's hosts, and the one that is followed, where it is this cluster's."""
        return sessions_of(self._start, self.names, self._known)

    def _notes(self) -> tuple[str, ...]:
        cluster = self._monitor.poller.snapshot.cluster
        silent = bool(self.sessions()) and cluster.session not in self.sessions()
        others = {str(ray["session"]) for target in self._known.values() for ray in (target.facts or {}).get("rays") or ()}
        apart = sorted(others - {*self.sessions()})
        doubts = [(host, (target.facts or {}).get("temp_dir_doubt")) for host, target in self._known.items()]
        return (
            *address_conflicts(self._start, self._monitor.config.hosts),
            *((f"of a demo only the Ray is restarted: {' and '.join(OF_ALL_RAYS)} are skipped",) if is_demo(self._start) else ()),
            *(of_host(host, str(doubt)) for host, doubt in doubts if doubt),
            *(("its dashboard does not answer: hosts beyond those of the preset are unknown",) if silent else ()),
            *((f"another cluster's Ray also runs there and is not touched: {', '.join(apart)}",) if apart else ()),
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
            receipt = await self._perform(plan, hear, show)
            self._raise_failures(receipt)
            self.stopped += sorted({target.session for target in plan.targets if target.session})
            told.append(summary(receipt))
        return tuple(told) or (f"no Ray of this cluster runs on {', '.join(self.hosts)}",)

    async def kill(self, hear: Hear, show: Show) -> Lines:
        """Orphan and stale processes: the act proves that of each."""
        return await self._sweep("kill-orphans", Aim(hosts=self.hosts), hear, show)

    async def clean(self, hear: Hear, show: Show) -> Lines:
        """Dead sessions, however young, and what points at them."""
        return await self._sweep("clean", Aim(hosts=self.hosts, older_than=0.0, ended=tuple(self.stopped)), hear, show)

    async def _sweep(self, name: str, aim: Aim, hear: Hear, show: Show) -> Lines:
        plan = await self._executor.plan(find_act(name), aim, hear)
        show(plan)
        left = (*plan.unknown, *(f"not touched: {reason}" for reason in reasons(plan.refused, plan.titles)))
        if plan.empty:
            self._raise_failures(Receipt(plan.act, plan.title, unreached=plan.unreached, hosts=plan.hosts))
            return ("nothing found" if plan.unknown else "nothing to do", *left)
        receipt = await self._perform(plan, hear, show)
        self._raise_failures(replace(receipt, refused=()))
        return (summary(receipt), *left)

    def obstacles(self, whole: Plan | Receipt) -> list[str]:
        """Why not all of a stop is done. A host that only a dead Ray knew may be gone for good; one of the preset is needed."""
        refused = reasons((target for target in whole.refused if target.part not in SPARED), whole.titles)
        return [*refused, *(one.error for one in whole.unreached if one.host in self.names.values())]

    def _raise_failures(self, receipt: Receipt) -> None:
        failed = [*reasons(receipt.failed, receipt.titles), *self.obstacles(receipt)]
        if failed:
            raise StepError("; ".join(failed[:3]) + (f"; and {len(failed) - 3} more" if len(failed) > 3 else ""))

    async def check_hosts(self, hear: Hear, show: Show) -> Lines:
        """Whether each could have its Ray now."""
        plan = await self._plan_start(hear)
        show(plan)
        self._note_partial(plan.refused)
        if reason := why_not(self._start, self.names, plan):
            raise StepError(reason, _step_to_repeat(plan.refused))
        self._start_plan = plan
        return (*host_lines(plan.targets), *plan.notes)

    async def start(self, hear: Hear, show: Show) -> Lines:
        """The head, and when it runs all the others at once."""
        if self._start_plan is None:
            await self.check_hosts(hear, show)
        plan, self._start_plan = self._start_plan or Plan("start", ""), None
        head = self.names[self._start.head.host]
        await self._start_on(_plan_of(plan, {head}, None), hear, show)
        rest = _plan_of(plan, {*self.names.values()} - {head}, self.started[head])
        if rest.targets:
            await self._start_on(rest, hear, show)
        return tuple(f"{host}: {session}" for host, session in self.started.items())

    async def _start_on(self, plan: Plan, hear: Hear, show: Show) -> None:
        receipt = await self._perform(plan, hear, show)
        self.started.update({target.host: target.session for target in receipt.done if target.session})
        self._note_partial((*receipt.failed, *receipt.refused))
        reasons = [of_host(target.host, target.error or target.reason) for target in (*receipt.failed, *receipt.refused)]
        reasons += [one.error for one in receipt.unreached]
        if reasons:
            raise StepError("; ".join(reasons), _step_to_repeat((*receipt.failed, *receipt.refused)))

    async def wait(self, hear: Hear, show: Show) -> Lines:  # takes what every step is given
        """Until the GCS lists every node with all its GPUs, and the dashboard tells so."""
        targets, head = self._known, self.names[self._start.head.host]
        session = self.started.get(head) or (targets[head].session if head in targets else None)
        if session is None:
            raise StepError("no Ray is known to run on the head: start it with --from start", "start")
        address = Address(self.dashboard, session, given=head != self._monitor.pool.local or self._is_anothers(targets.get(head)))
        ray = RayClient(self.dashboard, token=self._monitor.choice.token, peer=Peer(self.dashboard, given=address.given))
        addresses = {host: str((target.facts or {}).get("address") or "") for host, target in targets.items()}
        wanted, began = expected_gpus(targets.values()), time.monotonic()
        try:
            gpus = await wait_for_all(ray, session, wanted, addresses, lambda host, text: hear(host, Progress(text)))
        finally:
            await ray.close()
        self._monitor.choice.follow(address)
        await self._wait_for_snapshot(session)
        nodes, after = plural(len(targets), "node"), time.monotonic() - began
        return (f"{nodes} with {gpus_words(gpus)} joined after {after:.1f} s; {self.dashboard} answers",)

    @staticmethod
    def _is_anothers(head: Target | None) -> bool:
        """Whether the Ray there runs as another user than root and us: then the preset alone says that its dashboard is meant."""
        user = (head.facts or {}).get("user") if head is not None else None
        return user not in (None, "root", user_name())

    async def _wait_for_snapshot(self, session: str, patience: float = 15.0) -> None:
        """Until the snapshot is of this session: what comes next is judged by it."""
        poller, until = self._monitor.poller, time.monotonic() + patience
        poller.refresh()
        while time.monotonic() < until:
            alive = [node for node in poller.snapshot.nodes or () if node.state == "ALIVE"]
            if poller.snapshot.cluster.session == session and len(alive) >= len(self.names):
                return
            await poller.change(0.3)
            poller.rejoin()
        raise StepError(f"{self.dashboard} has not reported the new nodes within {patience:.0f} s")

    # What they share

    async def _perform(self, plan: Plan, hear: Hear, show: Show) -> Receipt:
        show(plan)
        receipt = await self._executor.perform(plan, hear)
        show(receipt)
        return receipt

    async def _plan_start(self, hear: Hear, **more: Any) -> Plan:
        """What starting would be on each host, as of now. Workers need to know where the head will be, which only the head can say."""
        job = self._monitor.config.slurm
        more = {"job": self._preset.job is not None, "slurm": job.job if job else None, **more}
        requests = start_requests(self._start, self.names, self._env, self._known, **more)
        plan = await self._executor.plan(find_act("start"), Aim(hosts=tuple(requests), requests=requests), hear)
        self._known.update({target.host: target for target in (*plan.targets, *plan.refused)})
        return plan

    def left(self) -> tuple[str, ...]:
        """In which state things are, for whoever has to go on."""
        halves = self._partial
        runs = {host: session for host, session in self._running_sessions().items() if host not in halves}
        missing = [host for host in self.names.values() if host not in (*runs, *halves)]
        return (
            *((f"stopped: {', '.join(dict.fromkeys(self.stopped))}",) if self.stopped else ()),
            *((f"Ray runs on {_where(runs)}",) if runs else ()),
            *((f"only some parts of Ray run on {_where(halves)}",) if halves else ()),
            *((f"not started on {', '.join(missing)}",) if (runs or halves) and missing else ()),
        )

    def _note_partial(self, against: Iterable[Target]) -> None:
        self._partial = {target.host: str(target.session) for target in against if target.live}

    def _running_sessions(self) -> dict[str, str]:
        """By host, the session that runs there as far as is known: what was started, and what was found and not stopped."""
        mine = {*self.sessions()} - {*self.stopped}
        rays = [(host, str(ray["session"])) for host, target in self._known.items() for ray in (target.facts or {}).get("rays") or ()]
        return {**{host: session for host, session in rays if session in mine}, **self.started}


def _join_plans(name: str, plans: Iterable[Plan], hosts: tuple[str, ...], notes: tuple[str, ...]) -> Plan:
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
        session=", ".join(plan.session for plan in plans if plan.session) or None,
        address=plans[0].address if len(plans) == 1 else None,
        beside=tuple(sorted({other for plan in plans for other in plan.beside} - {plan.session for plan in plans})),
    )


def _plan_of(plan: Plan, hosts: set[str], session: str | None) -> Plan:
    """Of some hosts alone; they join only that session."""
    requests = {host: {**request, "session": session} for host, request in plan.requests.items() if host in hosts}
    return replace(
        plan, targets=tuple(target for target in plan.targets if target.host in hosts), hosts=tuple(requests), requests=requests, notes=()
    )


def _where(runs: Mapping[str, str]) -> str:
    return f"{', '.join(runs)} ({', '.join(dict.fromkeys(runs.values()))})"


def _step_to_repeat(against: Iterable[Target]) -> str | None:
    """The step before all others where a part of that Ray is in its own way; `None`: it has to be mended by hand."""
    return "stop" if any(target.live for target in against) else None
