"""The runbook as one plan: confirmed once, carried out step by step on the cluster that it starts, until a step fails."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

from msgspec.structs import replace

from cockpit.acts.executor import ActionExecutor
from cockpit.acts.launch.submission import secret_hider
from cockpit.acts.plan import Plan, Receipt
from cockpit.acts.recover.hosts import dashboard_of, listens_far
from cockpit.acts.recover.job import JobSteps
from cockpit.acts.recover.step_state import NAMES, OF_JOB, Step, StepError, steps_of
from cockpit.acts.recover.steps import OF_ALL_RAYS, Lines, RecoverySteps, Show, is_demo
from cockpit.acts.world import Hear
from cockpit.config import slurm
from cockpit.config.document import InputError
from cockpit.config.settings import Config
from cockpit.monitor.monitor import ClusterMonitor
from cockpit.presets import FilledPreset, Preset, RayStart, fill_preset, with_hosts
from cockpit.presets.allocation import NO_NODES
from cockpit.presets.variables import mistake
from cockpit.secrets import redact
from cockpit.sources.probes.requests import Progress
from cockpit.sources.slurm import read_job
from cockpit.sources.source import SourceError

StepFunction = Callable[[Hear, Show], Awaitable[Lines]]


class Recovery:
    """One preset's runbook. `plan` asks the hosts and changes nothing; `run` does what was agreed to, once."""

    def __init__(
        self,
        monitor: ClusterMonitor,
        executor: ActionExecutor,
        preset: Preset,
        filled: FilledPreset,
        *,
        dashboard: str,
        begin: str = NAMES[0],
        skip: Sequence[str] = (),
        follow: bool = True,
    ) -> None:
        """`dashboard` is where the cluster will answer. Raises `StepError` where `begin` and `skip` leave nothing to be done."""
        self.preset = preset
        self._monitor = monitor
        self.hide = secret_hider(filled.hidden)
        """Takes the preset's secrets out of a text."""
        self._steps = RecoverySteps(monitor, executor, preset, filled.preset.ray.env if filled.preset.ray else {}, dashboard)
        self._job = JobSteps(monitor, executor, preset)
        of_demo = OF_ALL_RAYS if isinstance(preset.ray, RayStart) and is_demo(preset.ray) else ()
        self.steps = _choose_steps(steps_of(job=preset.job is not None, follow=follow), begin, (*skip, *of_demo))
        self._changed = asyncio.Event()

    def __getitem__(self, name: str) -> Step:
        return next(step for step in self.steps if step.name == name)

    def _does(self, name: str) -> bool:
        return any(step.name == name and step.state != "skipped" for step in self.steps)

    @property
    def named_job(self) -> str | None:
        """The Slurm job that was named for this run, and has to be named again where it goes on."""
        return self._monitor.config.named_job

    @property
    def failed(self) -> Step | None:
        """The step at which it has stopped."""
        return next((step for step in self.steps if step.state == "failed"), None)

    @property
    def left(self) -> tuple[str, ...]:
        """After a failure: what is in which state."""
        return self._steps.left()

    def obstacles(self, plan: Plan) -> Sequence[str]:
        """Why not all of that plan would be done; empty when nothing is in its way."""
        return self._steps.obstacles(plan)

    async def plan(self, hear: Hear = lambda *_: None) -> Plan:
        """The one question: what would be stopped, and what ends with it. Raises `StepError` when it can't end well, `SourceError`."""
        reason = await self._steps.survey(hear)
        if reason and (self._does("hosts") or self._does("start")):
            raise StepError(reason) if self._steps.heard else SourceError(reason)
        if self._does("check") and (reason := await self._job.too_large(self._steps.gpus())):
            raise StepError(reason)
        if not self._does("wait") and any(map(self._does, OF_JOB)) and (reason := self._steps.why_not_followed()):
            raise StepError(reason)
        if not self._does("stop"):
            return Plan("stop", f"Recover {self.preset.name}", hosts=self._steps.hosts, notes=self._steps.describe_placement())
        plan = await self._steps.plan_stop(hear)
        self._set("stop", state="planned", plan=plan)
        return plan

    async def run(self) -> AsyncIterator[Step]:
        """Every step whenever something of it has changed; over when all are done, or one has failed."""
        for name in [step.name for step in self.steps if step.state != "skipped"]:
            async for step in self._run(name):
                yield step
            if self.failed is not None:
                return

    async def _run(self, name: str) -> AsyncIterator[Step]:
        began = time.monotonic()
        yield self._set(name, state="running", hosts={})
        task = asyncio.ensure_future(self._outcome(name))
        try:
            while not task.done():
                changed = asyncio.ensure_future(self._changed.wait())
                await asyncio.wait([task, changed], return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
                self._changed.clear()
                if not task.done():
                    yield self[name]
        finally:
            task.cancel()
        done = await task
        took = time.monotonic() - began
        if isinstance(done, StepError):
            yield self._set(name, state="failed", error=str(done), begin=done.begin, took=took)
        else:
            yield self._set(name, state="done", lines=done, took=took)

    async def _outcome(self, name: str) -> Lines | StepError:
        """What came of it, or why it has failed."""

        def hear(host: str, progress: Progress) -> None:
            self._set(name, hosts={**self[name].hosts, host: self.hide(progress.text)})

        def show(news: Plan | Receipt) -> None:
            self._set(name, **({"plan": news} if isinstance(news, Plan) else {"receipts": (*self[name].receipts, news)}))

        try:
            lines = await self._function_of(name)(hear, show)
        except (StepError, SourceError, InputError) as error:
            return StepError(self.hide(redact(str(error))), getattr(error, "begin", None))
        return tuple(map(self.hide, lines))

    def _function_of(self, name: str) -> StepFunction:
        steps = self._steps
        found: dict[str, StepFunction] = {
            "stop": steps.stop,
            "kill-orphans": steps.kill,
            "clean": steps.clean,
            "hosts": steps.check_hosts,
            "start": steps.start,
            "wait": steps.wait,
            "check": lambda *_: self._job.check(),
            "launch": self._job.launch,
            "follow": lambda hear, _: self._job.follow(hear),
        }
        return found[name]

    def _set(self, name: str, **news: object) -> Step:
        self.steps = tuple(replace(step, **news) if step.name == name else step for step in self.steps)
        self._changed.set()
        return self[name]


def _choose_steps(steps: Sequence[Step], begin: str, skip: Sequence[str]) -> tuple[Step, ...]:
    """None before `begin`, also where this runbook does not have that step itself: those before it stop a cluster."""
    left_out = {*skip, *NAMES[: NAMES.index(begin)]}
    if left_out.issuperset(step.name for step in steps):
        raise StepError(f"no step left to run: --from {begin} and --skip leave out all of them")
    return tuple(replace(step, state="skipped" if step.name in left_out else "waiting") for step in steps)


@asynccontextmanager
async def begin_recovery(
    config: Config,
    preset: Preset,
    env: Mapping[str, str],
    *,
    begin: str = NAMES[0],
    skip: Sequence[str] = (),
    follow: bool = True,
    ending: list[Callable[[], None]] | None = None,
) -> AsyncIterator[Recovery]:
    """Nothing is done yet. `ending` is told what to call should nobody come back to close it.

    Raises `InputError`, `StepError`, `SourceError`.
    """
    if preset.ray is None:
        raise InputError(f"{preset.path}: has no `ray` section, so cockpit can't start its cluster")
    preset = with_hosts(preset, config)
    if not isinstance(preset.ray, RayStart):
        raise mistake(preset, "ray.head", NO_NODES)
    await check_allocation(config, preset.ray)
    filled = fill_preset(preset, env)
    dashboard = _dashboard(config, preset.ray)
    # Probes that watch other hosts would only compete with what is done there.
    monitor = ClusterMonitor(replace(config, address=config.address or dashboard, probe_hosts="never"), lambda _: None)
    if ending is not None:
        ending.append(monitor.close)
    running = asyncio.ensure_future(monitor.run())
    try:
        yield Recovery(monitor, ActionExecutor(monitor), preset, filled, dashboard=dashboard, begin=begin, skip=skip, follow=follow)
    finally:
        monitor.close()
        running.cancel()


async def check_allocation(config: Config, start: RayStart) -> None:
    """That the job still has the nodes: a step proves it, another way to reach them does not. Raises `StepError`, `SourceError`."""
    if start.slurm is not None and config.slurm is not None and len(config.slurm.ids) > 1:
        raise StepError(f"Slurm job {start.slurm} is part of a heterogeneous job, in which cockpit can't start Ray")
    if start.slurm is None or config.origins.get("reach") in (slurm.JOB, slurm.FLAG):
        return
    job = await read_job(start.slurm)
    held = {node.name for node in slurm.read_nodes(job.nodes)} if job.state == "RUNNING" else set()
    if lost := [node.host for node in start.nodes if node.host not in held]:
        raise StepError(f"Slurm job {start.slurm} ({job.state}) no longer has {', '.join(lost)}")


def _dashboard(config: Config, start: RayStart) -> str:
    """Where the cluster's will answer, as seen from here; from elsewhere through a tunnel, if there is one. Raises `StepError`."""
    head = start.head.address or start.head.host
    near = _is_near(head)
    if near or listens_far(start):
        return dashboard_of(start, head, near=near)
    if config.address is None:
        ways = "set ray.head.dashboard_host in the preset, run cockpit there, or give the address of a tunnel with --address"
        raise StepError(f"the dashboard will only be reachable on {head}: {ways}")
    return config.address


def _is_near(host: str) -> bool:
    """Whether that is an address of this host: only then a socket can be bound to it."""
    with suppress(OSError):
        for family, kind, protocol, _, address in socket.getaddrinfo(host, 0, 0, socket.SOCK_DGRAM):
            with suppress(OSError), socket.socket(family, kind, protocol) as tried:
                tried.bind(address)
                return True
    return host == socket.gethostname()
