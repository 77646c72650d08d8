"""Plans a preset's runbook as one plan, and runs it step by step after one confirmation, until a step fails."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

from msgspec.structs import replace

from cockpit.actions.action_context import OnProgress
from cockpit.actions.executor import ActionExecutor
from cockpit.actions.launch.submission import secret_hider
from cockpit.actions.plan import Plan, Receipt
from cockpit.actions.recover.hosts import dashboard_of, listens_far
from cockpit.actions.recover.job import JobSteps
from cockpit.actions.recover.step_state import NAMES, OF_JOB, Step, StepError, steps_of
from cockpit.actions.recover.steps import OF_ALL_RAYS, Lines, RecoverySteps, Show, is_demo
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

StepFunction = Callable[[OnProgress, Show], Awaitable[Lines]]


class Recovery:
    """One preset's runbook. `plan` asks the hosts and changes nothing; `run` performs the confirmed plan, once."""

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
        """`dashboard` is the URL that the cluster's dashboard will have. Raises `StepError` if `begin` and `skip` leave no step."""
        self.preset = preset
        self._monitor = monitor
        self.hide = secret_hider(filled.hidden)
        """Removes the preset's secrets from a text."""
        self._steps = RecoverySteps(monitor, executor, preset, filled.preset.ray.env if filled.preset.ray else {}, dashboard)
        self._job = JobSteps(monitor, executor, preset)

        # Steps before `begin` stop a cluster, so none of them runs, also if this runbook does not have the step `begin` itself.
        skipped = {*skip, *NAMES[: NAMES.index(begin)]}
        if isinstance(preset.ray, RayStart) and is_demo(preset.ray):
            skipped |= {*OF_ALL_RAYS}
        steps = steps_of(job=preset.job is not None, follow=follow)
        if skipped.issuperset(step.name for step in steps):
            raise StepError(f"no step left to run: --from {begin} and --skip leave out all of them")
        self.steps = tuple(replace(step, state="skipped" if step.name in skipped else "waiting") for step in steps)
        self._changed = asyncio.Event()

    def __getitem__(self, name: str) -> Step:
        return next(step for step in self.steps if step.name == name)

    def _includes(self, name: str) -> bool:
        return any(step.name == name and step.state != "skipped" for step in self.steps)

    @property
    def named_job(self) -> str | None:
        """The Slurm job that was named for this run; a command that continues the run must name it again."""
        return self._monitor.config.named_job

    @property
    def failed(self) -> Step | None:
        """The step that has failed."""
        return next((step for step in self.steps if step.state == "failed"), None)

    @property
    def state_now(self) -> tuple[str, ...]:
        """The state of the cluster after a failure, one sentence each."""
        return self._steps.describe_state()

    def obstacles(self, plan: Plan) -> Sequence[str]:
        """Return why a part of the plan would not be done; empty if all of it would."""
        return self._steps.obstacles(plan)

    async def plan(self, on_progress: OnProgress = lambda *_: None) -> Plan:
        """Return the plan to confirm: what would be stopped, and what ends with it. Raises `SourceError`, `StepError`."""
        reason = await self._steps.survey(on_progress)
        if reason and (self._includes("hosts") or self._includes("start")):
            raise StepError(reason) if self._steps.has_answers else SourceError(reason)
        if self._includes("check") and (reason := await self._job.too_large(self._steps.gpus())):
            raise StepError(reason)
        if not self._includes("wait") and any(map(self._includes, OF_JOB)) and (reason := self._steps.why_not_followed()):
            raise StepError(reason)
        if not self._includes("stop"):
            return Plan("stop", f"Recover {self.preset.name}", hosts=self._steps.hosts, notes=self._steps.describe_placement())
        plan = await self._steps.plan_stop(on_progress)
        self._set("stop", state="planned", plan=plan)
        return plan

    async def run(self) -> AsyncIterator[Step]:
        """Yield a step whenever it has changed, until all steps are done or one has failed."""
        for name in [step.name for step in self.steps if step.state != "skipped"]:
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
                return
            yield self._set(name, state="done", lines=done, took=took)

    async def _outcome(self, name: str) -> Lines | StepError:
        """Perform the step. Return its results, or its failure."""

        def on_progress(host: str, progress: Progress) -> None:
            self._set(name, hosts={**self[name].hosts, host: self.hide(progress.text)})

        def show(news: Plan | Receipt) -> None:
            self._set(name, **({"plan": news} if isinstance(news, Plan) else {"receipts": (*self[name].receipts, news)}))

        try:
            lines = await self._function_of(name)(on_progress, show)
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
            "follow": lambda on_progress, _: self._job.follow(on_progress),
        }
        return found[name]

    def _set(self, name: str, **news: object) -> Step:
        self.steps = tuple(replace(step, **news) if step.name == name else step for step in self.steps)
        self._changed.set()
        return self[name]


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
    """Prepare a recovery; nothing is changed yet. Raises `InputError`, `StepError`, `SourceError`.

    `ending` gets the function that releases everything, for a caller that ends without leaving this context.
    """
    if preset.ray is None:
        raise InputError(f"{preset.path}: has no `ray` section, so cockpit can't start its cluster")
    preset = with_hosts(preset, config)
    if not isinstance(preset.ray, RayStart):
        raise mistake(preset, "ray.head", NO_NODES)
    await check_allocation(config, preset.ray)
    filled = fill_preset(preset, env)

    # The dashboard is reached directly, or through a tunnel whose address the config has.
    head = preset.ray.head.address or preset.ray.head.host
    near = _is_this_host(head)
    if near or listens_far(preset.ray):
        dashboard = dashboard_of(preset.ray, head, near=near)
    elif config.address is not None:
        dashboard = config.address
    else:
        ways = "set ray.head.dashboard_host in the preset, run cockpit there, or give the address of a tunnel with --address"
        raise StepError(f"the dashboard will only be reachable on {head}: {ways}")

    # Probes that watch other hosts would only compete with the actions there.
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
    """Check that the Slurm job still has the preset's nodes. Raises `StepError`, `SourceError`.

    If the hosts are reached through a step of that job, `srun` itself proves it.
    """
    if start.slurm is not None and config.slurm is not None and len(config.slurm.ids) > 1:
        raise StepError(f"Slurm job {start.slurm} is part of a heterogeneous job, in which cockpit can't start Ray")
    if start.slurm is None or config.origins.get("reach") in (slurm.JOB, slurm.FLAG):
        return
    job = await read_job(start.slurm)
    held = {node.name for node in slurm.read_nodes(job.nodes)} if job.state == "RUNNING" else set()
    if lost := [node.host for node in start.nodes if node.host not in held]:
        raise StepError(f"Slurm job {start.slurm} ({job.state}) no longer has {', '.join(lost)}")


def _is_this_host(host: str) -> bool:
    """Return whether a name or address means this host: a socket can be bound only to an address of this host."""
    with suppress(OSError):
        for family, kind, protocol, _, address in socket.getaddrinfo(host, 0, 0, socket.SOCK_DGRAM):
            with suppress(OSError), socket.socket(family, kind, protocol) as tried:
                tried.bind(address)
                return True
    return host == socket.gethostname()
