"""One cluster under watch, or looked at once: puts the pipeline together, and answers what a person asks beyond the snapshot."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from cockpit.clock import CLOCK
from cockpit.config.address import Address
from cockpit.config.reach import THROUGH_RAY, HostEntry
from cockpit.config.settings import Config
from cockpit.findings import DETECTORS, FindingTracker
from cockpit.model import Actor, Job, Process, Session, Snapshot
from cockpit.monitor.cluster_choice import ClusterChoice, SessionJobs, jobs_by_session, local_sessions
from cockpit.monitor.coverage import Coverage
from cockpit.monitor.host_selection import HostSelection, are_containers
from cockpit.monitor.logs import LogFinder
from cockpit.monitor.poller import Poller
from cockpit.monitor.port_questions import PortQuestions
from cockpit.secrets import redact_variable
from cockpit.sources.probes.decode import StackThread, convert_answer
from cockpit.sources.probes.host_probe import ProbeTimings
from cockpit.sources.probes.pool import ProbePool
from cockpit.sources.probes.ray_tunnel import RayPlace
from cockpit.sources.ray.client import RayClient
from cockpit.sources.ray.log_files import LOG_LINES
from cockpit.sources.source import Source, SourceError
from cockpit.trust import find_token

if TYPE_CHECKING:
    from cockpit.sources.kubernetes.api import KubernetesApi

SINGLE_LOOK_ASSUMED_S = 60.0
"""For which a single look takes things to have been so: what needs longer to be sure of takes somebody who watches."""
SINGLE_LOOK_PACE = ProbeTimings(burst=ProbeTimings().most)
"""Nothing is drawn that many starts at once could hold up."""
SLURM_EVERY_S = 60.0
"""Seconds between two questions: all jobs of a site ask one slurmctld."""
KUBERNETES_EVERY_S = 30.0
"""The same: KubeRay's own operator and the autoscaler ask the API server every few seconds; this answers from its memory."""
ORCHESTRATOR_TIMEOUT_S = 45.0
"""For all answers together; each has a limit of its own."""
PROBE_INTERVALS_S = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)


class ClusterMonitor:
    """One cluster and its hosts, watched until closed: probes and dashboard → poller → snapshots → choice of cluster and of hosts."""

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
        """`once`: a single look, for which what is seen is taken to have been so for a while; `everywhere`: at every host there is.

        `named`: at those that were named for this run too.
        """
        self.config, self.clock, self.interval = config, CLOCK, config.interval
        self.ending: list[Callable[[], None]] = []
        """What ends together with this."""
        expected = () if are_containers(config) else tuple((entry.name, entry.target) for entry in config.hosts)
        tracker = FindingTracker(config.limits, DETECTORS, assumed=SINGLE_LOOK_ASSUMED_S if once else 0.0)
        ids = config.slurm.ids if config.slurm else frozenset[str]()
        self.poller = Poller(publish, expected=expected, slurm_ids=ids, tracker=tracker, clock=self.clock)
        self.pool = ProbePool(config, self.poller, clock=self.clock, timings=SINGLE_LOOK_PACE if once else None)
        self.choice = ClusterChoice(config, env, self.poller, self.pool.local)
        self.selection = HostSelection(config, self.pool, everywhere=everywhere, named=named)
        self.logs = LogFinder(lambda: self.poller.snapshot, self.choice.followed_ray, self.pool, self.selection)
        self.coverage = Coverage(config, self.poller, self.choice, self.selection)
        self.kubernetes = self._kubernetes_api()
        """Who is asked of the RayCluster that this Ray is; `None`: it is none that is known."""
        self.orchestrators = tuple(self._orchestrators())
        self.ports = PortQuestions(self.poller, self.pool, config.limits.job_failed)
        self.poller.subscribe(self.choice.hear)
        self.poller.subscribe(self.selection.hear)
        if not once:
            self.poller.subscribe(self.ports.hear)
        self._is_running = False
        self._started: asyncio.Future[None] | None = None
        self._publish = publish

    def start(self) -> None:
        """Look already, while whoever is to hear of it is still being made."""
        self._started = asyncio.ensure_future(self._look())

    @property
    def is_started(self) -> bool:
        """Whether it looks already, though it may not be run yet."""
        return self._started is not None

    def publish_to(self, publish: Callable[[Snapshot], None]) -> ClusterMonitor:
        """Have this called as soon as it runs: with what is known by then, and with every snapshot. Only where it was started."""
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
            self.poller.stop()

    def close(self) -> None:
        """End every child at once, and whatever else stands on this; waits for nothing."""
        self._is_running = False
        for end in self.ending:
            end()
        self.pool.close()

    def refresh(self, *, is_awaited: bool = False) -> None:
        """As `Poller.refresh`; hosts too."""
        self.poller.refresh(is_awaited=is_awaited)
        self.pool.refresh()

    def _kubernetes_api(self) -> KubernetesApi | None:
        if self.config.kubernetes is None:
            return None
        from cockpit.sources.kubernetes.api import KubernetesApi

        return KubernetesApi(self.config.kubernetes)

    def _orchestrators(self) -> Iterator[Source[object]]:
        """Slurm and Kubernetes, asked of the job and of the RayCluster that cockpit was told of."""
        if job := self.config.slurm:
            from cockpit.sources.slurm import read_allocation  # deferred, here and below: most clusters have neither

            names_of = self.config.names_of
            yield Source("slurm", lambda: read_allocation(job.job, self.clock(), names_of), SLURM_EVERY_S, ORCHESTRATOR_TIMEOUT_S)
        if api := self.kubernetes:
            from cockpit.sources.kubernetes.facts import read_ray_cluster

            yield Source("kubernetes", lambda: read_ray_cluster(api), KUBERNETES_EVERY_S, ORCHESTRATOR_TIMEOUT_S)

    def change_interval(self, step: int) -> float:
        """Look at this host so many steps oftener (-1) or less often (1); answers with the new interval, in seconds."""
        nearest = min(range(len(PROBE_INTERVALS_S)), key=lambda number: abs(PROBE_INTERVALS_S[number] - self.interval))
        self.interval = PROBE_INTERVALS_S[max(0, min(len(PROBE_INTERVALS_S) - 1, nearest + step))]
        self.pool.set_interval(self.interval)
        return self.interval

    async def wait_until_complete(self, timeout: float = 8.0) -> None:
        """While it looks, wait until everybody who is asked has answered once, but not longer than that; it is in the snapshot then."""
        if self._is_running:
            await self.coverage.wait_until_complete(timeout)

    # Which cluster, which hosts

    @property
    def open_choices(self) -> tuple[Address, ...]:
        """Several live sessions, as long as nobody has chosen one."""
        return self.choice.choices if self.choice.address is None else ()

    def select_others(self) -> dict[str, HostEntry]:
        """Every other host there is."""
        return self.selection.select_others(self.poller.snapshot)

    def places(self) -> dict[str, RayPlace]:
        """Where hosts are in the Ray that is followed, if it lives on this host too: then there is another way to them."""
        cluster, nodes = self.poller.snapshot.cluster, self.poller.snapshot.nodes or ()
        if not cluster.session or not self.choice.is_alive(cluster.session):
            return {}
        names = {entry.target: name for name, entry in self.select_others().items()}
        alive = [(self.selection.entry(node).target, node.id) for node in nodes if node.id and node.state == "ALIVE"]
        return {names[target]: RayPlace(cluster.session, node) for target, node in alive if target in names}

    # Asked for by a person

    async def dead_actors(self) -> tuple[Actor, ...]:
        """Dead actors with their cause. Raises `SourceError`."""
        return await (await self._meant_ray()).dead_actors()

    async def node_processes(self, node: str) -> tuple[Process, ...]:
        """Ray's own processes on a node, up to half a minute old, for when no probe looks there. Raises `SourceError`."""
        return await (await self._meant_ray()).node_processes(node)

    async def jobs(self) -> tuple[Job, ...]:
        """Jobs as Ray knows them now. Raises `SourceError`."""
        return (await (await self._meant_ray()).read_jobs()).jobs

    async def answering_session(self) -> str | None:
        """The session that answers now at the address that is followed; `None`: it does not say which it is. Raises `SourceError`."""
        return await self.choice.followed_ray().session()

    async def _meant_ray(self) -> RayClient:
        """The Ray that is followed, once it is known that it answers itself. Raises `SourceError`."""
        ray = self.choice.followed_ray()
        await ray.check_meant()
        return ray

    async def jobs_by_session(self) -> list[SessionJobs]:
        """Jobs by session: of the Ray that is followed, and of each other that lives here and answers. Raises `SourceError`.

        Only those are asked who are trusted: their word decides what is ended.
        """
        followed = self.choice.ray if self.choice.why_not_trusted() is None else None
        token = find_token if self.choice.ray is None else lambda: None  # the token is for the Ray that is followed
        return await jobs_by_session(followed, self._other_sessions(), token, self.clock, self.choice.why_not_believed)

    def _other_sessions(self) -> Sequence[Session]:
        """The sessions of root's and ours that live here and are not followed."""
        address = self.choice.address
        followed = {address.url, address.origin} if address else set()
        live = [one for one in local_sessions(self.poller.parts.hosts) if one.live and one.dashboard and one.trusted]
        return [one for one in live if followed.isdisjoint((one.dashboard, one.name))]

    def follow_log(self, job: str, lines: int = LOG_LINES) -> AsyncIterator[Sequence[str]]:
        """The log of a job, from its last lines on, in batches until it is over. Raises `SourceError` as it is read."""
        return self.choice.followed_ray().follow_log(job, lines)

    async def environment(self, process: Process) -> list[str]:
        """The process's environment as `NAME=value`, sorted, secrets hidden. Raises `SourceError`."""
        if process.ticks is None:
            raise SourceError(f"process {process.pid} is not probed, so cockpit can't rule out that another process took its pid")
        answer = await self.pool.ask(process.host, ("environ", str(process.pid), str(process.ticks)))
        found = convert_answer(answer, "environ", dict[str, str], process.host)
        return sorted(f"{name}={redact_variable(name, value)}" for name, value in found.items())

    async def stack(self, process: Process) -> tuple[StackThread, ...]:
        """The Python stacks of a process, as its host's probe answers. Raises `SourceError`.

        Of one that only Ray has told of, its pid must do: Ray counts pids as the probe over there does.
        """
        home = next((node for node in self.poller.snapshot.nodes or () if node.id and node.id == process.node), None)
        words = ("stack", str(process.pid), str(process.ticks or 0))
        answer = await self.pool.ask(process.host, words, self.selection.entry(home) if home else None)
        return convert_answer(answer, "threads", tuple[StackThread, ...], process.host)


OTHER_HOSTS_TIMEOUT_S = 3.0
"""For which a single look waits for other hosts once Ray and this host have answered."""
NAMED_HOSTS_TIMEOUT_S = 10.0
"""The same for hosts that were named for this run: they are what was asked for, and a busy Slurm takes seconds to begin a step."""
ORCHESTRATOR_FIRST_TIMEOUT_S = 2.0
"""For which it waits for what Slurm says of its job, or Kubernetes of its RayCluster."""
PORTS_TIMEOUT_S = 2.0
"""For which it waits to hear who listens on a port that a failed job wanted."""


def hosts_timeout_s(config: Config) -> float:
    """How many seconds a single look waits for other hosts."""
    return NAMED_HOSTS_TIMEOUT_S if config.named_hosts else OTHER_HOSTS_TIMEOUT_S


async def look_once(
    config: Config, *, env: Mapping[str, str] = os.environ, patience: float = 8.0, everywhere: bool = False, hosts_patience: float = 0.0
) -> ClusterMonitor:
    """Everything that can be known within `patience` seconds; its poller holds the snapshot.

    `hosts_patience`: seconds more for other hosts that are named, or whose GPU processes have no known owner. A fault names those of them
    that have not been heard.
    """
    monitor = ClusterMonitor(config, lambda _: None, env=env, once=True, everywhere=everywhere, named=hosts_patience > 0)
    monitor.poller.subscribe(lambda _: monitor.pool.set_complete_hosts(monitor.coverage.told_hosts()))
    task = asyncio.ensure_future(monitor.run())
    try:
        await asyncio.wait(
            [task, knowing := asyncio.ensure_future(monitor.wait_until_complete(patience))], return_when=asyncio.FIRST_COMPLETED
        )
        knowing.cancel()
        for orchestrator in monitor.orchestrators:
            await monitor.poller.wait_for_answer(orchestrator.name, ORCHESTRATOR_FIRST_TIMEOUT_S)
        monitor.poller.rejoin()  # the pods that they have told of are hosts to wait for
        if hosts_patience and not monitor.open_choices:
            await monitor.coverage.wait_for_hosts(hosts_patience)
        await monitor.ports.ask_once(PORTS_TIMEOUT_S)
    finally:
        monitor.close()
        task.cancel()
    for silent in monitor.coverage.silent_sources():
        monitor.poller.report_fault(silent, f"has not answered within {patience:.0f} s")
    if everywhere or hosts_patience:
        _doubt_unheard(monitor, hosts_patience or patience)
    monitor.poller.rejoin()
    return monitor


def _doubt_unheard(monitor: ClusterMonitor, patience: float) -> None:
    """Say which hosts have not been heard: what is shown is without them."""
    for name in monitor.coverage.unanswered_hosts():
        if monitor.config.reach == THROUGH_RAY:
            why = "is not probed: `reach: ray` allows only actions"
        elif name in monitor.poller.parts.hosts:
            why = f"has not listed all its processes, GPUs and sessions within {patience:.0f} s"
        else:
            why = f"has not been reached within {patience:.0f} s"
        monitor.poller.report_fault("probe", f"{name} {why}", name)
