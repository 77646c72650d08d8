"""Builds the pipeline from sources to snapshots of one cluster, and fetches what a person asks for beyond the snapshot."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

from cockpit.config.address import Address
from cockpit.config.reach import THROUGH_RAY, HostEntry
from cockpit.config.settings import Config
from cockpit.findings import DETECTORS, FindingTracker
from cockpit.model import Actor, Job, Process, Snapshot
from cockpit.monitor.cluster_choice import ClusterChoice, SessionJobs, jobs_by_session, local_sessions
from cockpit.monitor.engine_reader import EngineReader
from cockpit.monitor.failure_reader import FailureReader
from cockpit.monitor.host_selection import HostSelection, are_containers
from cockpit.monitor.logs import LogFinder
from cockpit.monitor.nccl_asker import NcclAsker
from cockpit.monitor.poller import Poller
from cockpit.monitor.port_questions import PortQuestions
from cockpit.monitor.source_readiness import SourceReadiness
from cockpit.monitor.start_reader import StartReader
from cockpit.monitor.step_reader import StepReader
from cockpit.monitor.worker_reader import WorkerReader
from cockpit.secrets import redact_variable
from cockpit.sources.kubernetes.api import KubernetesApi
from cockpit.sources.kubernetes.facts import read_ray_cluster
from cockpit.sources.probes.decode import StackThread, convert_answer
from cockpit.sources.probes.host_probe import ProbeTimings
from cockpit.sources.probes.pool import ProbePool
from cockpit.sources.probes.ray_tunnel import RayPlace
from cockpit.sources.ray.client import RayClient
from cockpit.sources.ray.log_files import LOG_LINES
from cockpit.sources.ray.node_metrics import NodeMetrics
from cockpit.sources.slurm import read_allocation
from cockpit.sources.source import Source, SourceError
from cockpit.times.clock import CLOCK
from cockpit.trust import find_token

SINGLE_LOOK_ASSUMED_S = 60.0
"""A single sample assumes that conditions have held for this long; a finding that needs longer is found only by watching."""
SINGLE_LOOK_PACE = ProbeTimings(max_starts_per_tick=ProbeTimings().max_running)
"""All probes may start at once: no screen is drawn that they could slow down."""
SLURM_EVERY_S = 60.0
"""Seconds between two requests: all jobs of a site ask the same slurmctld."""
KUBERNETES_EVERY_S = 30.0
"""The same. The API server answers from memory, and KubeRay's operator and the autoscaler ask it every few seconds."""
ORCHESTRATOR_TIMEOUT_S = 45.0
"""For all its requests together; each has a limit of its own."""
PROBE_INTERVALS_S = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
OTHER_HOSTS_TIMEOUT_S = 3.0
"""How long a single sample waits for other hosts after Ray and this host have answered."""
NAMED_HOSTS_TIMEOUT_S = 10.0
"""The same for hosts that were named for this run: a person wants them, and a busy Slurm takes seconds to start a step."""
ORCHESTRATOR_FIRST_TIMEOUT_S = 2.0
"""How long a single sample waits for Slurm or Kubernetes."""
FAILURES_TIMEOUT_S = 5.0
"""How long a single sample waits for the logs of failed jobs, and of actors that don't start."""
CLOSE_TIMEOUT_S = 1.0
"""How long a single sample waits until the pipeline has been cancelled, which takes a moment."""
ENGINES_TIMEOUT_S = 2.0
"""How long a single sample waits for the metrics of inference engines; on nodes that let nobody in, for nothing."""
STEPS_TIMEOUT_S = 2.0
"""How long a single sample waits for the logs of running jobs."""
READ_AFTER_S = 2.0
"""Seconds after the start from which on logs, metrics of engines and listening ports are read."""
PORTS_TIMEOUT_S = 2.0
"""How long a single sample waits for who listens on a port that a failed job wanted."""


class ClusterMonitor:
    """Watches one cluster and its hosts: probes and dashboard → poller → snapshots → choice of the cluster and of the probed hosts."""

    def __init__(
        self,
        config: Config,
        publish: Callable[[Snapshot], None],
        *,
        env: Mapping[str, str] = os.environ,
        once: bool = False,
        everywhere: bool = False,
        named: bool = False,
    ) -> None:
        """`once`: a single sample, which assumes that conditions have held for a while.

        `everywhere`: probe every known host; `named`: probe the hosts that were named for this run.
        """
        self.config, self.clock, self.interval = config, CLOCK, config.interval
        self.ending: list[Callable[[], None]] = []
        """Called when this is closed."""
        expected = () if are_containers(config) else tuple((entry.name, entry.target) for entry in config.hosts)
        tracker = FindingTracker(config.limits, DETECTORS, assumed=SINGLE_LOOK_ASSUMED_S if once else 0.0)
        ids = config.slurm.ids if config.slurm else frozenset[str]()
        self.poller = Poller(publish, expected=expected, slurm_ids=ids, tracker=tracker, clock=self.clock)
        self.pool = ProbePool(config, self.poller, clock=self.clock, timings=SINGLE_LOOK_PACE if once else None)
        self.choice = ClusterChoice(config, env, self.poller, self.pool.local)
        self.selection = HostSelection(config, self.pool, everywhere=everywhere, named=named)
        self.logs = LogFinder(lambda: self.poller.snapshot, self.choice.followed_ray, self.pool, self.selection)
        self.coverage = SourceReadiness(config, self.poller, self.choice, self.selection)
        self.kubernetes = KubernetesApi(config.kubernetes) if config.kubernetes else None
        """The API server of the RayCluster; `None`: the Ray is no RayCluster that is known."""
        self.orchestrators = tuple(self._orchestrators())
        self.ports = PortQuestions(self.poller, self.pool, config.limits.job_failed)
        self.nccl = NcclAsker(self.poller, self.pool, self.selection, by_itself=config.ask_nccl)
        self.failures = FailureReader(self.poller, self.logs, config.limits.job_failed)
        self.starts = StartReader(self.poller, self.logs, self.stack)
        self._node_metrics = NodeMetrics()
        self.engines = EngineReader(self.poller, self._node_metrics.read)
        self.steps = StepReader(self.poller, self.logs)
        self.workers = WorkerReader(self.poller, lambda node: self.choice.followed_ray().node_processes(node))
        self.poller.subscribe(self.choice.on_snapshot)
        self.poller.subscribe(self.selection.on_snapshot)
        if not once:
            for reader in (self.failures, self.starts, self.ports, self.steps, self.workers, self.engines, self.nccl):
                self.poller.subscribe(self._after_start(reader.on_snapshot))
        self._is_running = False
        self._started: asyncio.Future[None] | None = None
        self._publish = publish

    def _after_start(self, on_snapshot: Callable[[Snapshot], None]) -> Callable[[Snapshot], None]:
        """The function without the first snapshots: what it reads would make the first frame late."""
        began = self.clock()

        def on_later_snapshot(snapshot: Snapshot) -> None:
            if self.clock() - began >= READ_AFTER_S:
                on_snapshot(snapshot)

        return on_later_snapshot

    def start(self) -> None:
        """Begin to look before `run`, while the screen is still being built."""
        self._started = asyncio.ensure_future(self._look())

    @property
    def is_started(self) -> bool:
        """Whether it was started before `run`."""
        return self._started is not None

    def publish_to(self, publish: Callable[[Snapshot], None]) -> ClusterMonitor:
        """After `start`: publish to this function from `run` on, beginning with the last snapshot."""
        self._publish = publish
        return self

    async def run(self) -> None:
        """Look until cancelled."""
        if self._started is None:
            await self._look()
            return
        self.poller.subscribe(self._publish)
        if self.poller.snapshot.taken:
            self._publish(self.poller.snapshot)
        await self._started

    async def _look(self) -> None:
        self._is_running = True
        try:
            self.poller.ask(self.orchestrators)
            await asyncio.gather(self.pool.run(), self.poller.run(), self.choice.run())
        finally:
            self._is_running = False
            self._close_readers()
            self.poller.stop()
            await self._node_metrics.close()

    def close(self) -> None:
        """End all children and everything in `ending` at once, without waiting."""
        self._is_running = False
        for end in self.ending:
            end()
        self._close_readers()
        self.pool.close()

    def _close_readers(self) -> None:
        self.failures.close()
        self.starts.close()
        self.nccl.close()
        self.engines.close()
        self.steps.close()
        self.workers.close()

    def refresh(self, *, is_awaited: bool = False) -> None:
        """Poll Ray and all hosts again now; `is_awaited`: a person waits for it."""
        self.poller.refresh(is_awaited=is_awaited)
        self.pool.refresh()

    def _orchestrators(self) -> Iterator[Source[object]]:
        """Slurm and Kubernetes, if cockpit knows the Slurm job or the RayCluster."""
        if job := self.config.slurm:
            names_of = self.config.names_of
            yield Source("slurm", lambda: read_allocation(job.job, self.clock(), names_of), SLURM_EVERY_S, ORCHESTRATOR_TIMEOUT_S)
        if api := self.kubernetes:
            yield Source("kubernetes", lambda: read_ray_cluster(api), KUBERNETES_EVERY_S, ORCHESTRATOR_TIMEOUT_S)

    def change_interval(self, step: int) -> float:
        """Sample this host `step` steps less often, or if negative more often; returns the new interval in seconds."""
        nearest = min(range(len(PROBE_INTERVALS_S)), key=lambda number: abs(PROBE_INTERVALS_S[number] - self.interval))
        self.interval = PROBE_INTERVALS_S[max(0, min(len(PROBE_INTERVALS_S) - 1, nearest + step))]
        self.pool.set_interval(self.interval)
        return self.interval

    async def wait_until_complete(self, timeout: float = 8.0) -> None:
        """While it runs, wait until the snapshot has an answer of each source, but at most `timeout` seconds."""
        if self._is_running:
            await self.coverage.wait_until_complete(timeout)

    # Which cluster, which hosts

    @property
    def open_choices(self) -> tuple[Address, ...]:
        """The dashboards of several live sessions, until one is chosen."""
        return self.choice.choices if self.choice.address is None else ()

    def select_others(self) -> dict[str, HostEntry]:
        """Every other known host."""
        return self.selection.select_others(self.poller.snapshot)

    def places(self) -> dict[str, RayPlace]:
        """Hosts as nodes of the followed Ray, if that lives on this host too: then they can be reached through Ray."""
        cluster, nodes = self.poller.snapshot.cluster, self.poller.snapshot.nodes or ()
        if not cluster.session or not self.choice.is_alive(cluster.session):
            return {}
        names = {entry.target: name for name, entry in self.select_others().items()}
        alive = [(self.selection.entry(node).target, node.id) for node in nodes if node.id and node.state == "ALIVE"]
        return {names[target]: RayPlace(cluster.session, node) for target, node in alive if target in names}

    # Asked for by a person

    async def dead_actors(self) -> tuple[Actor, ...]:
        """Dead actors with the cause of death. Raises `SourceError`."""
        return await (await self._meant_ray()).dead_actors()

    async def node_processes(self, node: str) -> tuple[Process, ...]:
        """Ray's own processes on a node without a probe, up to half a minute old. Raises `SourceError`."""
        return await (await self._meant_ray()).node_processes(node)

    async def jobs(self) -> tuple[Job, ...]:
        """Jobs as Ray knows them now. Raises `SourceError`."""
        return (await (await self._meant_ray()).read_jobs()).jobs

    async def answering_session(self) -> str | None:
        """The session that answers now at the followed address; `None`: Ray does not report it. Raises `SourceError`."""
        return await self.choice.followed_ray().session()

    async def _meant_ray(self) -> RayClient:
        """The followed Ray, after checking that it is the one that answers. Raises `SourceError`."""
        ray = self.choice.followed_ray()
        await ray.check_meant()
        return ray

    async def jobs_by_session(self) -> list[SessionJobs]:
        """The jobs of the followed Ray, and of each other Ray on this host that answers. Raises `SourceError`.

        Only trusted Rays are asked, root's and ours: their answers decide which processes are ended.
        """
        followed = self.choice.ray if self.choice.why_not_trusted() is None else None
        token = find_token if self.choice.ray is None else lambda: None  # the token is for the followed Ray
        address = self.choice.address
        known = {address.url, address.origin} if address else set()
        live = [session for session in local_sessions(self.poller.parts.hosts) if session.live and session.dashboard and session.trusted]
        others = [session for session in live if known.isdisjoint((session.dashboard, session.name))]
        return await jobs_by_session(followed, others, token, self.clock, self.choice.why_not_believed)

    def follow_log(self, job: str, lines: int = LOG_LINES) -> AsyncIterator[Sequence[str]]:
        """Follow a job's log in batches, from its last `lines` until the job is over. Raises `SourceError` while it is read."""
        return self.choice.followed_ray().follow_log(job, lines)

    async def environment(self, process: Process) -> list[str]:
        """A process's environment as sorted `NAME=value`, with secrets hidden. Raises `SourceError`."""
        if process.ticks is None:
            raise SourceError(f"process {process.pid} is not probed, so cockpit can't rule out that another process took its pid")
        answer = await self.pool.ask(process.host, ("environ", str(process.pid), str(process.ticks)))
        found = convert_answer(answer, "environ", dict[str, str], process.host)
        return sorted(f"{name}={redact_variable(name, value)}" for name, value in found.items())

    async def stack(self, process: Process) -> tuple[StackThread, ...]:
        """The Python stacks of a process, read by its host's probe. Raises `SourceError`.

        A process that only Ray reports has no start time, so its pid alone identifies it: Ray and that probe count the same pids.
        """
        home = next((node for node in self.poller.snapshot.nodes or () if node.id and node.id == process.node), None)
        words = ("stack", str(process.pid), str(process.ticks or 0))
        answer = await self.pool.ask(process.host, words, self.selection.entry(home) if home else None)
        return convert_answer(answer, "threads", tuple[StackThread, ...], process.host)


def hosts_timeout_s(config: Config) -> float:
    """How many seconds a single sample waits for other hosts."""
    return NAMED_HOSTS_TIMEOUT_S if config.named_hosts else OTHER_HOSTS_TIMEOUT_S


async def sample_once(
    config: Config, *, env: Mapping[str, str] = os.environ, patience: float = 8.0, everywhere: bool = False, hosts_patience: float = 0.0
) -> ClusterMonitor:
    """Look for at most `patience` seconds; the poller of the result has the snapshot.

    `hosts_patience`: more seconds for other hosts that are named, or whose GPU processes have no known owner. A fault names each of them
    that has not answered.
    """
    monitor = ClusterMonitor(config, lambda _: None, env=env, once=True, everywhere=everywhere, named=hosts_patience > 0)
    monitor.poller.subscribe(lambda _: monitor.pool.set_complete_hosts(monitor.coverage.complete_hosts()))
    task = asyncio.ensure_future(monitor.run())
    try:
        await asyncio.wait(
            [task, knowing := asyncio.ensure_future(monitor.wait_until_complete(patience))], return_when=asyncio.FIRST_COMPLETED
        )
        knowing.cancel()
        for orchestrator in monitor.orchestrators:
            await monitor.poller.wait_for_answer(orchestrator.name, ORCHESTRATOR_FIRST_TIMEOUT_S)
        monitor.poller.rejoin()  # the pods that Kubernetes lists are hosts to wait for
        if hosts_patience and not monitor.open_choices:
            await monitor.coverage.wait_for_hosts(hosts_patience)
        await asyncio.gather(
            monitor.failures.read_once(FAILURES_TIMEOUT_S),
            monitor.starts.read_once(FAILURES_TIMEOUT_S),
            monitor.steps.read_once(STEPS_TIMEOUT_S),
            monitor.engines.read_once(ENGINES_TIMEOUT_S),
        )
        monitor.poller.rejoin()
        await monitor.ports.ask_once(PORTS_TIMEOUT_S)
    finally:
        monitor.close()
        task.cancel()
    await asyncio.wait([task], timeout=CLOSE_TIMEOUT_S)  # its end kills all children, also those of questions that a command asks next
    for silent in monitor.coverage.silent_sources():
        monitor.poller.report_fault(silent, f"has not answered within {patience:.0f} s")
    for name in monitor.coverage.unanswered_hosts() if everywhere or hosts_patience else ():
        if config.reach == THROUGH_RAY:
            why = "is not probed: `reach: ray` allows only actions"
        elif name in monitor.poller.parts.hosts:
            why = f"has not listed all its processes, GPUs and sessions within {hosts_patience or patience:.0f} s"
        else:
            why = f"has not been reached within {hosts_patience or patience:.0f} s"
        monitor.poller.report_fault("probe", f"{name} {why}", name)
    monitor.poller.rejoin()
    return monitor
