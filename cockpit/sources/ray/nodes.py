"""Converts the dashboard's answers about nodes into facts, and refuses answers that have suddenly lost nodes or figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from cockpit.model import AgentReport, Amount, Disk, Gpu, Hold, Holder, HostMemory, Kind, Node, NodeState, Process, Quantity, Value, Worker
from cockpit.secrets import redact
from cockpit.sources.ray import wire
from cockpit.sources.ray.resources import ResourceNames, is_grouped, parse_uses, plausible_amount, plausible_int
from cockpit.sources.source import SourceError
from cockpit.text import plural
from cockpit.times.clock import redate, shift_of

MIB = 2**20
LOSS_ANSWERS = 3
LOSS_CONFIRM_S = 5.0
CLOCK_TOLERANCE_S = 10.0
"""The seconds by which the clocks of two hosts may differ. A node whose first report is older was silent before cockpit started."""


class NodeFacts(Value, frozen=True):
    """All nodes, including dead ones, and the processes that Ray's agents report on them."""

    nodes: tuple[Node, ...]
    workers: tuple[Worker, ...]
    holders: tuple[Holder, ...]
    metrics_ports: Mapping[str, int] = {}
    """By node id: the port at which its agent exports metrics."""
    growing: bool = False
    """Some of the nodes were started by an autoscaler, which may start more."""


class LossDebounce:
    """Accepts a sudden loss only after three answers over at least five seconds.

    A dashboard module that has just been restarted gives empty answers (200) for 2 to 3 s.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: float | None = None
        self._times = 0

    def check(self, loss: str | None) -> None:
        """Check one answer, of which `loss` names the missing part. Raises `SourceError` while it is too early to accept the loss."""
        if loss is None:
            self._since, self._times = None, 0
            return
        self._times += 1
        if self._since is None:
            self._since = self._clock()
        if self._times < LOSS_ANSWERS or self._clock() - self._since < LOSS_CONFIRM_S:
            raise SourceError(f"{loss}; cockpit checks again first")


class _NodeRecord(msgspec.Struct):
    """The last known values of one node. The dashboard clears a node's entry when the node dies, and its figures when a module restarts."""

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

    def set_times(self, started: float | None, ended: float | None) -> None:
        """Set the times that are still unknown, in milliseconds since 1970; 0 and `None` mean unknown."""
        self.started = self.started or (plausible_amount(started) or 0) / 1000 or None
        self.ended = self.ended or (plausible_amount(ended) or 0) / 1000 or None


class Nodes:
    """The nodes of all answers so far."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._shift = clock, shift_of(clock)
        self._records: dict[str, _NodeRecord] = {}
        self._losses = LossDebounce(clock)
        self._names = ResourceNames()
        self._used: Mapping[str, str] = {}

    def __len__(self) -> int:
        return len(self._records)

    @property
    def needs_identities(self) -> bool:
        """Whether some node has no identity yet, or died without a known reason: only `/api/v0/nodes` has these."""
        return any(record.identity is None or (not record.alive and record.message is None) for record in self._records.values())

    def add_identities(self, identities: Iterable[wire.NodeEntry]) -> None:
        """Store the identities of known nodes."""
        for identity in identities:
            if record := self._records.get(identity.node_id):
                record.identity = identity
                record.message = record.message or identity.state_message
                record.set_times(identity.start_time_ms, identity.end_time_ms)
                self._names.learn(identity.resources_total or ())

    def update(self, data: wire.NodesData) -> None:
        """Merge one answer into the known values. Raises `SourceError` if it lacks nodes or figures that were there before."""
        listed = {entry.raylet.node_id: entry for entry in data.summary if entry.raylet.node_id}
        self._losses.check(self._find_loss(listed))
        self._records = {node_id: self._records.get(node_id) or _NodeRecord() for node_id in listed}
        newest = max((now for entry in listed.values() if (now := plausible_amount(entry.now)) is not None), default=0.0)
        for node_id, entry in listed.items():
            self._update_record(self._records[node_id], entry, newest)
        self._used = data.node_logical_resources or {}

    def facts(self) -> NodeFacts:
        """All known facts."""
        living = [(node_id, record) for node_id, record in self._records.items() if record.alive]
        return NodeFacts(
            nodes=tuple(self._node(node_id, record) for node_id, record in self._records.items()),
            workers=tuple(worker for node_id, record in living for worker in _workers(node_id, record)),
            holders=tuple(holder for node_id, record in living if record.figures for holder in _holders(node_id, record.figures.gpus)),
            metrics_ports={
                node_id: port
                for node_id, record in living
                if record.raylet and (port := plausible_int(record.raylet.metrics_export_port)) and 0 < port < 1 << 16
            },
            growing=any(record.raylet and record.raylet.node_type_name for _, record in living),
        )

    def _find_loss(self, listed: Mapping[str, wire.Summary]) -> str | None:
        """The missing part of an answer. A dead node stays in the list, and not all nodes lose their figures at once."""
        living = {node_id: record for node_id, record in self._records.items() if record.alive}
        if gone := living.keys() - listed.keys():
            now = f"{plural(len(listed), 'node')} (before: {len(self._records)})"
            return f"Ray's dashboard suddenly lists {now}, without {len(gone)} that were alive"
        had_figures = any(record.now is not None for record in living.values())
        if had_figures and all(listed[node_id].now is None for node_id in living):
            return "Ray's dashboard suddenly has no figures of any node"
        return None

    def _update_record(self, record: _NodeRecord, entry: wire.Summary, newest: float) -> None:
        """Merge one entry. `newest` is the latest time of all entries of the answer, by the hosts' clocks."""
        raylet = entry.raylet
        record.state = "ALIVE" if raylet.state == "ALIVE" else "DEAD" if raylet.state == "DEAD" else "UNKNOWN"
        if (now := plausible_amount(entry.now)) is not None:
            if now != record.now:
                late = newest - now if record.now is None else 0.0
                record.now, record.seen = now, self._clock() - (late if late > CLOCK_TOLERANCE_S else 0.0)
            record.figures = entry
        if raylet.node_manager_address or record.raylet is None:
            record.raylet = raylet
        if raylet.core_workers_stats is not None and raylet.core_workers_stats != record.workers:
            record.workers = raylet.core_workers_stats
        # Both figures of the object store are 0 until the raylet has reported them.
        used, left = raylet.object_store_used_memory, raylet.object_store_available_memory
        total = plausible_int(used + left) if used is not None and left is not None else None
        if total and total > 0:
            record.store = Amount(used=plausible_int(used), total=total)
        record.set_times(raylet.start_time_ms, raylet.end_time_ms)
        if message := raylet.state_message or (raylet.death_info and raylet.death_info.reason_message):
            record.message = message

    def _node(self, node_id: str, record: _NodeRecord) -> Node:
        raylet, identity = record.raylet or wire.Raylet(), record.identity or wire.NodeEntry(node_id)
        figures = record.figures or wire.Summary()
        ip = identity.node_ip or raylet.node_manager_address or figures.ip or ""
        name = identity.node_name or raylet.node_name or ""
        totals = identity.resources_total
        if not totals:
            totals = {self._names.unmangle(name): total for name, total in (raylet.resources_total or {}).items()}
        used = parse_uses(self._used.get(node_id, "")) if record.alive else {}
        resources = {
            name: Quantity(used=plausible_amount(used[name][0]) if name in used else None, total=plausible_amount(total))
            for name, total in totals.items()
            if not is_grouped(name)
        }
        node = Node(
            id=node_id,
            host=figures.hostname or raylet.node_manager_hostname or name or ip,
            ip=ip,
            name=name if name != ip else "",
            head=bool(identity.is_head_node if identity.is_head_node is not None else raylet.is_head_node),
            state=record.state,
            agent=AgentReport(seen=record.seen),
            resources=resources,
            labels=identity.labels if identity.labels is not None else raylet.labels or {},
            started=redate(record.started, self._shift()),
        )
        if not record.alive:
            return replace(
                node,
                message=redact(record.message or "") or None,
                ended=redate(record.ended, self._shift()),
                had=tuple(worker.actor for worker in _workers(node_id, record) if worker.actor),
            )
        mem = figures.mem or ()
        agent = AgentReport(
            seen=record.seen,
            cpu=plausible_amount(figures.cpu),
            cpus=plausible_int(figures.cpus[0]) if figures.cpus else None,
            memory=HostMemory(used=plausible_int(mem[3]), total=plausible_int(mem[0])) if len(mem) > 3 else None,
            shared=plausible_int(_known_figure(figures.shm)),
            disks=_disks(figures.disk),
            gpus=_gpus(figures, resources),
        )
        workers = None if record.workers is None else sum(worker.worker_type != "DRIVER" for worker in record.workers)
        return replace(node, agent=agent, object_store=record.store or Amount(), workers=workers)


def _disks(disks: Mapping[str, wire.DiskUse] | None) -> tuple[Disk, ...]:
    """The disks. As in the probe, space that users can't write to is used. Ray's disk of one byte in Kubernetes is left out."""
    return tuple(
        Disk(
            path=path,
            used=plausible_int(_known_figure(disk.used if disk.free is None or disk.total is None else disk.total - disk.free)),
            total=plausible_int(disk.total),
        )
        for path, disk in (disks or {}).items()
        if disk.total is None or disk.total > 1
    )


def _gpus(figures: wire.Summary, resources: Mapping[str, Quantity]) -> tuple[Gpu, ...] | None:
    """The GPUs; `None` if Ray can't see them: the list of a node with GPUs is empty if Ray 2.9 has no gpustat."""
    if figures.gpus is None:
        return None
    promised = resources.get("GPU", Quantity()).total
    if not figures.gpus and promised:
        return None
    return tuple(
        Gpu(
            index=_index(place, gpu),
            uuid=gpu.uuid or "",
            name=gpu.name,
            utilization=_known_figure(gpu.utilization_gpu),
            memory_used=_bytes(gpu.memory_used),
            memory_total=_bytes(gpu.memory_total),
            power=None if (power := _known_figure(gpu.power_mw)) is None else power / 1000,
            temperature=_known_figure(gpu.temperature_c),
        )
        for place, gpu in enumerate(figures.gpus)
    )


def _known_figure(number: float | None) -> float | None:
    """The number; `None` for the -1 that Ray sends if NVML failed."""
    return None if number is None or number < 0 else plausible_amount(number)


def _bytes(mebibytes: float | None) -> int | None:
    return None if mebibytes is None or mebibytes < 0 else plausible_int(mebibytes * MIB)


def _index(place: int, gpu: wire.Gpu) -> int:
    index = plausible_int(gpu.index)
    return place if index is None else index


def identifier(text: str | None) -> str | None:
    """The id; `None` if it is null, empty or all f, which mean no id."""
    return text if text and text.strip("f") else None


def _workers(node_id: str, record: _NodeRecord) -> list[Worker]:
    """The workers and drivers, without the agent, which is listed as a driver because it runs the supervisors of jobs."""
    agent = record.figures.agent.pid if record.figures and record.figures.agent else None
    return [
        Worker(
            node=node_id,
            pid=pid,
            job=identifier(worker.job_id),
            actor=identifier(worker.actor_id),
            driver=worker.worker_type == "DRIVER",
            id=identifier(worker.worker_id),
        )
        for worker in record.workers or ()
        if (pid := plausible_int(worker.pid)) and pid != agent
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
        if (pid := plausible_int(held.pid))
    ]


def processes(node_id: str, detail: wire.Detail) -> tuple[Process, ...]:
    """The processes of Ray on one node."""
    held: dict[int, list[Hold]] = {}
    for holder in _holders(node_id, detail.gpus):
        held.setdefault(holder.pid, []).append(Hold(index=holder.index, memory=holder.memory))
    agent = detail.agent.pid if detail.agent else None
    found = []
    for info in detail.workers:
        if not plausible_amount(info.pid):
            continue
        core = info.core_worker_stats[0] if info.core_worker_stats and info.pid != agent else None
        command = " ".join(part for part in info.cmdline or () if part)
        process = Process(
            host=detail.hostname or detail.raylet.node_manager_hostname or detail.ip or "",
            pid=info.pid,
            started=plausible_amount(info.create_time),
            command=redact(command) or None,
            rss=plausible_int(info.memory_info.rss) if info.memory_info else None,
            gpus=tuple(held.get(info.pid, ())),
            kind=_kind(core, command),
            job=identifier(core.job_id) if core else None,
            actor=identifier(core.actor_id) if core else None,
            node=node_id,
        )
        found.append(process)
    return tuple(found)


def _kind(core: wire.CoreWorker | None, command: str) -> Kind:
    """The kind of a process. Ray adds the figures of its worker up to 35 s late; until then its title decides."""
    if core is not None:
        return "driver" if core.worker_type == "DRIVER" else "worker"
    if (
        command in ("ray::DashboardAgent", "ray::RuntimeEnvAgent")
        or "/runtime_env/agent/main.py" in command
        or "/dashboard/agent.py" in command
    ):
        return "ray"
    return "worker" if command.startswith("ray::") else "unknown"
