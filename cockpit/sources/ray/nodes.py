"""What Ray's dashboard says of nodes, their GPUs and workers, and what of it is to be believed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from cockpit.clock import redate, shift_of
from cockpit.model import AgentReport, Amount, Disk, Gpu, Hold, Holder, HostMemory, Kind, Node, NodeState, Process, Quantity, Value, Worker
from cockpit.secrets import redact
from cockpit.sources.ray import wire
from cockpit.sources.ray.resources import ResourceNames, is_grouped, parse_uses, plausible_amount, whole
from cockpit.sources.source import SourceError
from cockpit.text import plural

MIB = 2**20
DOUBTED_ANSWERS = 3
DOUBT_S = 5.0
CLOCK_TOLERANCE_S = 10.0
"""Seconds by which the clocks of two hosts may differ. A node that is further behind at first sight was silent before we came."""


class NodeFacts(Value, frozen=True):
    """All nodes, dead ones too, and the processes that Ray's agents report on them."""

    nodes: tuple[Node, ...]
    workers: tuple[Worker, ...]
    holders: tuple[Holder, ...]
    growing: bool = False
    """An autoscaler has made some of the nodes, and could make more."""


class LossDebounce:
    """A sudden loss is believed only when it has been seen three times over five seconds.

    A dashboard module that has just been restarted answers 200 with nothing in it for 2-3 s.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: float | None = None
        self._times = 0

    def take(self, loss: str | None) -> None:
        """What one answer lacks, in words; raises `SourceError` while it is too early to believe it."""
        if loss is None:
            self._since, self._times = None, 0
            return
        self._times += 1
        if self._since is None:
            self._since = self._clock()
        if self._times < DOUBTED_ANSWERS or self._clock() - self._since < DOUBT_S:
            raise SourceError(f"{loss}; cockpit checks again first")


class _Memory(msgspec.Struct):
    """What is remembered of one node. The dashboard blanks a node's record when it dies, and its figures when a module restarts."""

    now: float | None = None
    seen: float | None = None
    figures: wire.Summary | None = None
    raylet: wire.Raylet | None = None
    workers: tuple[wire.CoreWorker, ...] | None = None
    identity: wire.NodeEntry | None = None
    message: str | None = None
    started: float | None = None
    ended: float | None = None
    state: NodeState = "UNKNOWN"
    store: Amount | None = None

    @property
    def alive(self) -> bool:
        return self.state == "ALIVE"

    def date(self, started: float | None, ended: float | None) -> None:
        """Milliseconds since 1970; 0 and nothing stand for unknown."""
        self.started = self.started or (plausible_amount(started) or 0) / 1000 or None
        self.ended = self.ended or (plausible_amount(ended) or 0) / 1000 or None


class Nodes:
    """All nodes seen so far, and which of their facts are news."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._shift = clock, shift_of(clock)
        self._memories: dict[str, _Memory] = {}
        self._doubt = LossDebounce(clock)
        self._names = ResourceNames()
        self._used: Mapping[str, str] = {}

    def __len__(self) -> int:
        return len(self._memories)

    @property
    def strange(self) -> bool:
        """Whether there is a node whose identity only `/api/v0/nodes` can tell."""
        return any(memory.identity is None or (not memory.alive and memory.message is None) for memory in self._memories.values())

    def learn(self, identities: Iterable[wire.NodeEntry]) -> None:
        """Remember who is who."""
        for identity in identities:
            if memory := self._memories.get(identity.node_id):
                memory.identity = identity
                memory.message = memory.message or identity.state_message
                memory.date(identity.start_time_ms, identity.end_time_ms)
                self._names.learn(identity.resources_total or ())

    def take(self, data: wire.NodesData) -> None:
        """Put one answer together with what was known before."""
        listed = {entry.raylet.node_id: entry for entry in data.summary if entry.raylet.node_id}
        self._doubt.take(self._loss(listed))
        self._memories = {node_id: self._memories.get(node_id) or _Memory() for node_id in listed}
        newest = max((now for entry in listed.values() if (now := plausible_amount(entry.now)) is not None), default=0.0)
        for node_id, entry in listed.items():
            self._remember(self._memories[node_id], entry, newest)
        self._used = data.node_logical_resources or {}

    def facts(self) -> NodeFacts:
        """All that is known now."""
        living = [(node_id, memory) for node_id, memory in self._memories.items() if memory.alive]
        return NodeFacts(
            nodes=tuple(self._node(node_id, memory, parse_uses(self._used.get(node_id, ""))) for node_id, memory in self._memories.items()),
            workers=tuple(worker for node_id, memory in living for worker in _workers(node_id, memory)),
            holders=tuple(holder for node_id, memory in living if memory.figures for holder in _holders(node_id, memory.figures.gpus)),
            growing=any(memory.raylet and memory.raylet.node_type_name for _, memory in living),
        )

    def _loss(self, listed: Mapping[str, wire.Summary]) -> str | None:
        """What is missing and should not be: nodes don't leave the list, they die in it; and they don't lose all their figures at once."""
        living = {node_id: memory for node_id, memory in self._memories.items() if memory.alive}
        if gone := living.keys() - listed.keys():
            now = f"{plural(len(listed), 'node')} (before: {len(self._memories)})"
            return f"Ray's dashboard suddenly lists {now}, without {len(gone)} that were alive"
        had = any(memory.now is not None for memory in living.values())
        if had and all(listed[node_id].now is None for node_id in living):
            return "Ray's dashboard suddenly has no figures of any node"
        return None

    def _remember(self, memory: _Memory, entry: wire.Summary, newest: float) -> None:
        raylet = entry.raylet
        memory.state = "ALIVE" if raylet.state == "ALIVE" else "DEAD" if raylet.state == "DEAD" else "UNKNOWN"
        if (now := plausible_amount(entry.now)) is not None:
            if now != memory.now:
                late = newest - now if memory.now is None else 0.0
                memory.now, memory.seen = now, self._clock() - (late if late > CLOCK_TOLERANCE_S else 0.0)
            memory.figures = entry
        if raylet.node_manager_address or memory.raylet is None:
            memory.raylet = raylet
        if raylet.core_workers_stats is not None and raylet.core_workers_stats != memory.workers:
            memory.workers = raylet.core_workers_stats
        if (store := _store(raylet)).total:
            memory.store = store
        memory.date(raylet.start_time_ms, raylet.end_time_ms)
        if message := raylet.state_message or (raylet.death_info and raylet.death_info.reason_message):
            memory.message = message

    def _node(self, node_id: str, memory: _Memory, used: Mapping[str, tuple[float, float]]) -> Node:
        raylet, identity = memory.raylet or wire.Raylet(), memory.identity or wire.NodeEntry(node_id)
        figures = memory.figures or wire.Summary()
        ip = identity.node_ip or raylet.node_manager_address or figures.ip or ""
        name = identity.node_name or raylet.node_name or ""
        resources = self._resources(identity, raylet, used if memory.alive else {})
        told = Node(
            id=node_id,
            host=figures.hostname or raylet.node_manager_hostname or name or ip,
            ip=ip,
            name=name if name != ip else "",
            head=bool(identity.is_head_node if identity.is_head_node is not None else raylet.is_head_node),
            state=memory.state,
            message=None if memory.alive else redact(memory.message or "") or None,
            agent=AgentReport(seen=memory.seen),
            resources=resources,
            labels=identity.labels if identity.labels is not None else raylet.labels or {},
            started=redate(memory.started, self._shift()),
            ended=None if memory.alive else redate(memory.ended, self._shift()),
            had=() if memory.alive else tuple(worker.actor for worker in _workers(node_id, memory) if worker.actor),
        )
        return _with_figures(told, figures, memory) if memory.alive else told

    def _resources(self, identity: wire.NodeEntry, raylet: wire.Raylet, used: Mapping[str, tuple[float, float]]) -> dict[str, Quantity]:
        totals = identity.resources_total
        if not totals:
            totals = {self._names.unmangle(name): total for name, total in (raylet.resources_total or {}).items()}
        return {
            name: Quantity(used=plausible_amount(used[name][0]) if name in used else None, total=plausible_amount(total))
            for name, total in totals.items()
            if not is_grouped(name)
        }


def _with_figures(node: Node, figures: wire.Summary, memory: _Memory) -> Node:
    """The node with what its agent measures; those of a dead node are of no host any more."""
    mem = figures.mem or ()
    agent = AgentReport(
        seen=memory.seen,
        cpu=plausible_amount(figures.cpu),
        cpus=whole(figures.cpus[0]) if figures.cpus else None,
        memory=HostMemory(used=whole(mem[3]), total=whole(mem[0])) if len(mem) > 3 else None,
        shared=whole(_known_figure(figures.shm)),
        disks=_disks(figures.disk),
        gpus=_gpus(figures, node.resources),
    )
    return replace(
        node,
        agent=agent,
        object_store=memory.store or Amount(),
        workers=None if memory.workers is None else sum(worker.worker_type != "DRIVER" for worker in memory.workers),
    )


def _store(raylet: wire.Raylet) -> Amount:
    """Both figures are 0 until the raylet has told its own."""
    used, left = raylet.object_store_used_memory, raylet.object_store_available_memory
    total = whole(used + left) if used is not None and left is not None else None
    return Amount(used=whole(used), total=total) if total and total > 0 else Amount()


def _disks(disks: Mapping[str, wire.DiskUse] | None) -> tuple[Disk, ...]:
    """What a user can't write to is used, as on hosts that are looked at. In Kubernetes Ray makes up a disk of one byte."""
    return tuple(
        Disk(
            path=path,
            used=whole(_known_figure(disk.used if disk.free is None or disk.total is None else disk.total - disk.free)),
            total=whole(disk.total),
        )
        for path, disk in (disks or {}).items()
        if disk.total is None or disk.total > 1
    )


def _gpus(figures: wire.Summary, resources: Mapping[str, Quantity]) -> tuple[Gpu, ...] | None:
    """`None` where Ray can't look: an empty list on a node that was given GPUs is not "no GPUs" (2.9 needs gpustat to see them)."""
    if figures.gpus is None:
        return None
    promised = resources.get("GPU", Quantity()).total
    if not figures.gpus and promised:
        return None
    return tuple(_gpu(place, gpu) for place, gpu in enumerate(figures.gpus))


def _gpu(place: int, gpu: wire.Gpu) -> Gpu:
    return Gpu(
        index=_index(place, gpu),
        uuid=gpu.uuid or "",
        name=gpu.name,
        utilization=_known_figure(gpu.utilization_gpu),
        memory_used=_bytes(gpu.memory_used),
        memory_total=_bytes(gpu.memory_total),
        power=None if (power := _known_figure(gpu.power_mw)) is None else power / 1000,
        temperature=_known_figure(gpu.temperature_c),
    )


def _known_figure(number: float | None) -> float | None:
    """Ray writes -1 where NVML failed."""
    return None if number is None or number < 0 else plausible_amount(number)


def _bytes(mebibytes: float | None) -> int | None:
    return None if mebibytes is None or mebibytes < 0 else whole(mebibytes * MIB)


def _index(place: int, gpu: wire.Gpu) -> int:
    index = whole(gpu.index)
    return place if index is None else index


def identifier(text: str | None) -> str | None:
    """An id, or `None` for what stands for no id: null, nothing, or all f."""
    return text if text and text.strip("f") else None


def _workers(node_id: str, memory: _Memory) -> list[Worker]:
    """The agent calls itself a driver, because it runs the jobs' supervisors; it is none."""
    agent = memory.figures.agent.pid if memory.figures and memory.figures.agent else None
    return [
        Worker(
            node=node_id,
            pid=pid,
            job=identifier(worker.job_id),
            actor=identifier(worker.actor_id),
            driver=worker.worker_type == "DRIVER",
        )
        for worker in memory.workers or ()
        if (pid := whole(worker.pid)) and pid != agent
    ]


def _holders(node_id: str, gpus: Sequence[wire.Gpu] | None) -> list[Holder]:
    return [
        Holder(
            node=node_id,
            index=_index(place, gpu),
            pid=pid,
            memory=_bytes(held.gpu_memory_usage) or None,
        )
        for place, gpu in enumerate(gpus or ())
        for held in gpu.processes_pids or ()
        if (pid := whole(held.pid))
    ]


def processes(node_id: str, detail: wire.Detail) -> tuple[Process, ...]:
    """Ray's processes on one node."""
    held: dict[int, list[Hold]] = {}
    for holder in _holders(node_id, detail.gpus):
        held.setdefault(holder.pid, []).append(Hold(index=holder.index, memory=holder.memory))
    agent = detail.agent.pid if detail.agent else None
    return tuple(
        _process(node_id, detail, info, tuple(held.get(info.pid, ())), info.pid == agent)
        for info in detail.workers
        if plausible_amount(info.pid)
    )


def _process(node_id: str, detail: wire.Detail, info: wire.ProcessInfo, gpus: tuple[Hold, ...], agent: bool) -> Process:
    core = info.core_worker_stats[0] if info.core_worker_stats and not agent else None
    command = " ".join(part for part in info.cmdline or () if part)
    return Process(
        host=detail.hostname or detail.raylet.node_manager_hostname or detail.ip or "",
        pid=info.pid,
        started=plausible_amount(info.create_time),
        command=redact(command) or None,
        rss=whole(info.memory_info.rss) if info.memory_info else None,
        gpus=gpus,
        kind=_kind(core, command),
        job=identifier(core.job_id) if core else None,
        actor=identifier(core.actor_id) if core else None,
        node=node_id,
    )


def _kind(core: wire.CoreWorker | None, command: str) -> Kind:
    """Ray joins a process with its worker's figures up to 35 s late; till then its title must do."""
    if core is not None:
        return "driver" if core.worker_type == "DRIVER" else "worker"
    if (
        command in ("ray::DashboardAgent", "ray::RuntimeEnvAgent")
        or "/runtime_env/agent/main.py" in command
        or "/dashboard/agent.py" in command
    ):
        return "ray"
    return "worker" if command.startswith("ray::") else "unknown"
