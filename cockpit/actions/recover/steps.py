"""Runs the steps of the runbook through the executor, and does nothing beyond the confirmed plan."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from cockpit.actions.action_context import OnProgress
from cockpit.actions.audit import user_name
from cockpit.actions.executor import ActionExecutor
from cockpit.actions.plan import ActionTarget, Plan, Receipt, Target
from cockpit.actions.plan_text import reasons, summary
from cockpit.actions.recover.arrival import wait_for_all
from cockpit.actions.recover.hosts import (
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
from cockpit.actions.recover.step_state import StepError
from cockpit.actions.table import find_action
from cockpit.config.address import Address
from cockpit.config.reach import HostEntry
from cockpit.monitor.monitor import ClusterMonitor
from cockpit.presets import Preset, RayStart
from cockpit.sources.probes.requests import Progress
from cockpit.sources.ray.client import RayClient
from cockpit.text import gpus_words, plural
from cockpit.trust import Peer, find_token

DEMO_MARK: Final = "COCKPIT_DEMO"
"""The environment variable of every process of a demo (demo/processes.py)."""
OF_ALL_RAYS: Final = ("kill-orphans", "clean")
"""Steps that act on the leftovers of every Ray cluster of a host. They are skipped for a demo: it may run beside another cluster."""
Show = Callable[[Plan | Receipt], None]
"""Called with the plan of a step as soon as it is known, and with its receipt."""
Lines = tuple[str, ...]
"""The results of a step, one sentence each."""
SPARED: Final = ("driver", "child")
"""Processes that a person started: they continue without their Ray, and don't hinder another one."""
SNAPSHOT_TIMEOUT_S: Final = 15.0
"""For a snapshot with all nodes, once Ray lists them."""


def is_demo(start: RayStart) -> bool:
    """Return whether the preset starts a demo."""
    return DEMO_MARK in start.env


class RecoverySteps:
    """The runbook's steps on the hosts of one preset, with the results so far."""

    def __init__(self, monitor: ClusterMonitor, executor: ActionExecutor, preset: Preset, env: Mapping[str, str], dashboard: str) -> None:
        """`env` is the preset's environment for Ray, with its secrets; `dashboard` is the URL that the cluster's dashboard will have."""
        if not isinstance(preset.ray, RayStart):
            raise StepError(f"{preset.name} has no `ray` section with hosts, so cockpit can't start its cluster")
        self._monitor, self._executor, self._preset, self._env = monitor, executor, preset, env
        self._start: RayStart = preset.ray
        monitor.choice.token = lambda: find_token(env) or find_token()  # the preset may give the token of the cluster that it starts
        self.dashboard = dashboard
        self.names: dict[str, str] = {}
        """cockpit's name for each host of the preset."""
        self.hosts: tuple[str, ...] = ()
        """The preset's hosts, and other hosts on which a part of the cluster is to be stopped."""
        self._known: dict[str, Target] = {}
        """The latest answer of each host of the preset."""
        self._stops: tuple[Plan, ...] = ()
        self._start_plan: Plan | None = None
        self.stopped: list[str] = []
        self.started: dict[str, str] = {}
        """The session that was started on each host."""
        self._partial: dict[str, str] = {}
        """Hosts on which only some parts of a session run, with that session."""

    # Before the confirmation

    async def survey(self, on_progress: OnProgress) -> str | None:
        """Ask all hosts which Ray they have. Return why Ray can't be started, if that is certain. Raises `SourceError`, `StepError`."""
        await self._monitor.wait_until_complete()
        for node in self._start.nodes:
            self.names[node.host] = self._executor.register_host(HostEntry(node.host, address=node.address or ""))
        if twice := same_host(self.names):
            raise StepError(twice)
        plan = await self._plan_start(on_progress, survey=True)
        if plan.refused and self.names[self._start.head.host] in self._known:
            plan = await self._plan_start(on_progress, survey=True)  # now workers can look for Ray where the head has it
        self.hosts = tuple(self.names.values())
        if reason := why_another_jobs(self._start, self.names, self._known):
            raise StepError(reason)
        return why_not(self._start, self.names, plan)

    async def plan_stop(self, on_progress: OnProgress) -> Plan:
        """Return one plan with everything that would be stopped, for the confirmation. Raises `SourceError`, `StepError`."""
        everywhere = tuple(dict.fromkeys((*self.hosts, *self._monitor.select_others())))
        stops = [
            await self._executor.plan(find_action("stop"), ActionTarget(session=name, hosts=everywhere), on_progress)
            for name in self.sessions()
        ]
        head = self._monitor.poller.snapshot.hosts.get(self.names[self._start.head.host])
        targets = tuple(target for plan in stops for target in plan.targets)
        if reason := why_another_ray(self._start, self.names, self._known, targets, head.addresses if head else ()):
            raise StepError(reason)
        self._stops = tuple(plan for plan in stops if not plan.empty)
        self.hosts = tuple(dict.fromkeys((*self.hosts, *(target.host for target in targets))))
        notes_of_stops = (note for plan in stops for note in plan.notes if "runs on this host" not in note)
        return Plan(
            action="stop",
            title=f"Recover {self._preset.name}",
            targets=targets,
            refused=tuple(target for plan in stops for target in plan.refused),
            notes=tuple(dict.fromkeys((*self.describe_placement(), *self._notes(), *notes_of_stops))),
            losses=tuple(dict.fromkeys(loss for plan in stops for loss in plan.losses)),
            unreached=tuple(dict.fromkeys(one for plan in stops for one in plan.unreached)),
            hosts=self.hosts,
            word=next((plan.word for plan in stops if plan.word), None),
            session=", ".join(plan.session for plan in stops if plan.session) or None,
            address=stops[0].address if len(stops) == 1 else None,
            beside=tuple(sorted({other for plan in stops for other in plan.beside} - {plan.session for plan in stops})),
        )

    def describe_placement(self) -> tuple[str, ...]:
        """Say on which nodes of a Slurm job head and workers will run: the preset itself names no nodes."""
        head, *workers = self.names.values()
        rest = f"workers on {', '.join(workers)}" if workers else "no workers"
        return (f"Slurm job {self._start.slurm}: the head runs on {head}, {rest}",) if self._start.slurm else ()

    def why_not_followed(self) -> str | None:
        """Return why the followed cluster can't be this preset's, or `None`. It may have been started in another Slurm job."""
        followed = self._monitor.poller.snapshot.cluster.session
        if self._start.slurm is None or followed in self.sessions():
            return None
        address, nodes = self._monitor.poller.snapshot.cluster.address, f"the nodes of Slurm job {self._start.slurm}"
        reason = f"{address} answers for {followed}, which does not run on {nodes}" if followed else f"no Ray on {nodes} answers"
        return f"{reason}: continue with --from start, without --skip wait"

    def sessions(self) -> tuple[str, ...]:
        """Return the sessions of this cluster that run on the preset's hosts."""
        return sessions_of(self._start, self.names, self._known)

    def _notes(self) -> tuple[str, ...]:
        sessions = self.sessions()
        is_silent = bool(sessions) and self._monitor.poller.snapshot.cluster.session not in sessions
        found = {str(ray["session"]) for target in self._known.values() for ray in (target.facts or {}).get("rays") or ()}
        others = sorted(found - {*sessions})
        doubts = [(host, (target.facts or {}).get("temp_dir_doubt")) for host, target in self._known.items()]
        return (
            *address_conflicts(self._start, self._monitor.config.hosts),
            *((f"of a demo only the Ray is restarted: {' and '.join(OF_ALL_RAYS)} are skipped",) if is_demo(self._start) else ()),
            *(of_host(host, str(doubt)) for host, doubt in doubts if doubt),
            *(("its dashboard does not answer: hosts beyond those of the preset are unknown",) if is_silent else ()),
            *((f"another cluster's Ray also runs there and is not touched: {', '.join(others)}",) if others else ()),
        )

    @property
    def has_answers(self) -> bool:
        """Whether any host of the preset has answered."""
        return bool(self._known)

    def gpus(self) -> float | None:
        """Return how many GPUs these hosts will offer together, or `None` if it is unknown for one of them."""
        known = [*expected_gpus(self._known.values()).values()]
        return None if None in known else sum(amount for amount in known if amount is not None)

    # The steps

    async def stop(self, on_progress: OnProgress, show: Show) -> Lines:
        """Stop exactly the confirmed targets."""
        lines = []
        for plan in self._stops:
            receipt = await self._perform(plan, on_progress, show)
            self._raise_failures(receipt)
            self.stopped += sorted({target.session for target in plan.targets if target.session})
            lines.append(summary(receipt))
        return tuple(lines) or (f"no Ray of this cluster runs on {', '.join(self.hosts)}",)

    async def kill(self, on_progress: OnProgress, show: Show) -> Lines:
        """Kill orphan and stale processes; the action proves the kind of each."""
        return await self._plan_and_perform("kill-orphans", ActionTarget(hosts=self.hosts), on_progress, show)

    async def clean(self, on_progress: OnProgress, show: Show) -> Lines:
        """Remove the files of dead sessions of any age."""
        return await self._plan_and_perform(
            "clean", ActionTarget(hosts=self.hosts, older_than=0.0, ended=tuple(self.stopped)), on_progress, show
        )

    async def _plan_and_perform(self, name: str, requested: ActionTarget, on_progress: OnProgress, show: Show) -> Lines:
        plan = await self._executor.plan(find_action(name), requested, on_progress)
        show(plan)
        left = (*plan.unknown, *(f"not touched: {reason}" for reason in reasons(plan.refused, plan.titles)))
        if plan.empty:
            self._raise_failures(Receipt(plan.action, plan.title, unreached=plan.unreached, hosts=plan.hosts))
            return ("nothing found" if plan.unknown else "nothing to do", *left)
        receipt = await self._perform(plan, on_progress, show)
        self._raise_failures(replace(receipt, refused=()))
        return (summary(receipt), *left)

    def obstacles(self, whole: Plan | Receipt) -> list[str]:
        """Return why a stop is incomplete. Only the preset's hosts must be reachable: one that only a dead Ray knew may be gone."""
        refused = reasons((target for target in whole.refused if target.part not in SPARED), whole.titles)
        return [*refused, *(one.error for one in whole.unreached if one.host in self.names.values())]

    def _raise_failures(self, receipt: Receipt) -> None:
        failed = [*reasons(receipt.failed, receipt.titles), *self.obstacles(receipt)]
        if failed:
            raise StepError("; ".join(failed[:3]) + (f"; and {len(failed) - 3} more" if len(failed) > 3 else ""))

    async def check_hosts(self, on_progress: OnProgress, show: Show) -> Lines:
        """Check that Ray can be started on each host now."""
        plan = await self._plan_start(on_progress)
        show(plan)
        self._note_partial(plan.refused)
        if reason := why_not(self._start, self.names, plan):
            raise StepError(reason, _step_to_repeat(plan.refused))
        self._start_plan = plan
        return (*host_lines(plan.targets), *plan.notes)

    async def start(self, on_progress: OnProgress, show: Show) -> Lines:
        """Start the head, then all workers at once."""
        if self._start_plan is None:
            await self.check_hosts(on_progress, show)
        plan, self._start_plan = self._start_plan or Plan("start", ""), None
        head = self.names[self._start.head.host]
        await self._start_on(_plan_of(plan, {head}, None), on_progress, show)
        rest = _plan_of(plan, {*self.names.values()} - {head}, self.started[head])
        if rest.targets:
            await self._start_on(rest, on_progress, show)
        return tuple(f"{host}: {session}" for host, session in self.started.items())

    async def _start_on(self, plan: Plan, on_progress: OnProgress, show: Show) -> None:
        receipt = await self._perform(plan, on_progress, show)
        self.started.update({target.host: target.session for target in receipt.done if target.session})
        self._note_partial((*receipt.failed, *receipt.refused))
        reasons = [of_host(target.host, target.error or target.reason) for target in (*receipt.failed, *receipt.refused)]
        reasons += [one.error for one in receipt.unreached]
        if reasons:
            raise StepError("; ".join(reasons), _step_to_repeat((*receipt.failed, *receipt.refused)))

    async def wait(self, on_progress: OnProgress, show: Show) -> Lines:  # `show`: all steps have the same signature
        """Wait until the GCS lists every node with all its GPUs, and the snapshot has them."""
        targets, head = self._known, self.names[self._start.head.host]
        session = self.started.get(head) or (targets[head].session if head in targets else None)
        if session is None:
            raise StepError("no Ray is known to run on the head: start it with --from start", "start")
        # If Ray runs on another host, or as a user other than root and us, only the preset vouches for this dashboard.
        user_of_head = (targets[head].facts or {}).get("user") if head in targets else None
        is_given = head != self._monitor.pool.local or user_of_head not in (None, "root", user_name())
        ray = RayClient(self.dashboard, token=self._monitor.choice.token, peer=Peer(self.dashboard, given=is_given))
        addresses = {host: str((target.facts or {}).get("address") or "") for host, target in targets.items()}
        wanted, began = expected_gpus(targets.values()), time.monotonic()
        try:
            gpus = await wait_for_all(ray, session, wanted, addresses, lambda host, text: on_progress(host, Progress(text)))
        finally:
            await ray.close()
        self._monitor.choice.follow(Address(self.dashboard, session, given=is_given))
        await self._wait_for_snapshot(session)
        nodes, after = plural(len(targets), "node"), time.monotonic() - began
        return (f"{nodes} with {gpus_words(gpus)} joined after {after:.1f} s; {self.dashboard} answers",)

    async def _wait_for_snapshot(self, session: str) -> None:
        """Wait until the snapshot shows this session with all its nodes, because the next steps judge by the snapshot."""
        poller, until = self._monitor.poller, time.monotonic() + SNAPSHOT_TIMEOUT_S
        poller.refresh()
        while time.monotonic() < until:
            alive = [node for node in poller.snapshot.nodes or () if node.state == "ALIVE"]
            if poller.snapshot.cluster.session == session and len(alive) >= len(self.names):
                return
            await poller.change(0.3)
            poller.rejoin()
        raise StepError(f"{self.dashboard} has not reported the new nodes within {SNAPSHOT_TIMEOUT_S:.0f} s")

    # Shared by several steps

    async def _perform(self, plan: Plan, on_progress: OnProgress, show: Show) -> Receipt:
        show(plan)
        receipt = await self._executor.perform(plan, on_progress)
        show(receipt)
        return receipt

    async def _plan_start(self, on_progress: OnProgress, **more: Any) -> Plan:
        """Ask each host how it would start Ray now. Workers need the address of the head's GCS, which only the head's answer has."""
        job = self._monitor.config.slurm
        more = {"job": self._preset.job is not None, "slurm": job.job if job else None, **more}
        requests = start_requests(self._start, self.names, self._env, self._known, **more)
        plan = await self._executor.plan(find_action("start"), ActionTarget(hosts=tuple(requests), requests=requests), on_progress)
        self._known.update({target.host: target for target in (*plan.targets, *plan.refused)})
        return plan

    def describe_state(self) -> tuple[str, ...]:
        """Describe the state of the cluster after a failure: what was stopped, and on which hosts Ray runs."""
        # Sessions that were found and not stopped, and those that were started since.
        running = {*self.sessions()} - {*self.stopped}
        rays = [(host, str(ray["session"])) for host, target in self._known.items() for ray in (target.facts or {}).get("rays") or ()]
        runs = {host: session for host, session in rays if session in running} | self.started
        runs = {host: session for host, session in runs.items() if host not in self._partial}

        missing = [host for host in self.names.values() if host not in (*runs, *self._partial)]
        return (
            *((f"stopped: {', '.join(dict.fromkeys(self.stopped))}",) if self.stopped else ()),
            *((f"Ray runs on {_hosts_and_sessions(runs)}",) if runs else ()),
            *((f"only some parts of Ray run on {_hosts_and_sessions(self._partial)}",) if self._partial else ()),
            *((f"not started on {', '.join(missing)}",) if (runs or self._partial) and missing else ()),
        )

    def _note_partial(self, against: Iterable[Target]) -> None:
        self._partial = {target.host: str(target.session) for target in against if target.live}


def _plan_of(plan: Plan, hosts: set[str], session: str | None) -> Plan:
    """Return the part of a plan for some hosts. Workers join only this session; the head joins none."""
    requests = {host: {**request, "session": session} for host, request in plan.requests.items() if host in hosts}
    return replace(
        plan, targets=tuple(target for target in plan.targets if target.host in hosts), hosts=tuple(requests), requests=requests, notes=()
    )


def _hosts_and_sessions(runs: Mapping[str, str]) -> str:
    return f"{', '.join(runs)} ({', '.join(dict.fromkeys(runs.values()))})"


def _step_to_repeat(against: Iterable[Target]) -> str | None:
    """Return "stop" if a part of this cluster's Ray still runs on a host, which a start refuses; `None` if a person must fix the cause."""
    return "stop" if any(target.live for target in against) else None
