"""Joins the processes that probes list with the node, job and actor that Ray reports for them.

Job ids count anew in each cluster, and people use the same submission id again, so that an id means nothing without its session.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from cockpit.model import Gpu, Hold, Host, Job, Kind, Process, Worker
from cockpit.sources.ray.client import JobFacts, NodeFacts
from cockpit.text.grouping import group_by

Thing = TypeVar("Thing")
ByPid = Mapping[int | None, Sequence[tuple[int | None, str, Thing]]]
"""By pid: the pid, a node and a thing that has this pid there. Raylets in different containers count pids by themselves."""
WORKER_GONE = re.compile(r"its worker( \d+)? is gone$")
"""The probe's first reason for a process that is undecided."""


class _RayFacts(msgspec.Struct, frozen=True):
    """What Ray knows about processes, sorted once for all hosts."""

    gpus: Mapping[str | None, tuple[Gpu, ...] | None]
    """Of each of its nodes, as the node's agent sees them."""
    workers: Mapping[str, list[Worker]]
    """By node."""
    drivers: Mapping[str | None, list[Job]]
    """Running jobs by the node of their driver."""
    jobs: Mapping[str, Job]
    """By the id that its processes carry; of two jobs with the same id the running one."""
    session: str | None
    only: str | None
    """If the session is unknown: the only session that any probe sees."""


def join_processes(
    reported: Mapping[str, list[Process]] | None,
    facts: NodeFacts | None,
    jobs: JobFacts | None,
    hosts: Mapping[str, Host],
    places: Mapping[str, str],
    session: str | None,
) -> tuple[Process, ...] | None:
    """The processes that probes list, with their owners; and those that Ray's agents report (`reported`) on hosts without a probe.

    `places`: by node id, the name of its host. `None`: nothing lists processes.
    """
    if reported is None and not any(host.processes is not None for host in hosts.values()):
        return None
    listed_jobs = jobs.jobs if jobs else ()
    sessions = {name for host in hosts.values() for name in _visible_sessions(host)} if not session else set()
    ray = _RayFacts(
        gpus={node.id: node.agent.gpus for node in (facts.nodes if facts else ())},
        workers=group_by(facts.workers if facts else (), lambda worker: worker.node),
        drivers=group_by((job for job in listed_jobs if job.driver_pid and job.running), lambda job: job.driver_node),
        jobs={job.job: job for job in sorted(listed_jobs, key=lambda job: job.running) if job.job},
        session=session,
        only=sessions.pop() if len(sessions) == 1 else None,
    )
    nodes_by_host = group_by(places, lambda node: places[node])
    machines = {host.machine for host in hosts.values() if host.processes is not None}
    joined: list[Process] = []
    seen: set[tuple[str, int]] = set()
    """Node and Ray's pid of each process that a probe sees."""
    visible: set[str] = set()
    """Nodes whose GPUs and processes a probe sees itself: anything else that Ray's agent reports there has ended since."""
    for host in hosts.values():
        if host.processes is None:
            continue
        nodes = nodes_by_host.get(host.name, [])
        # Another raylet on the host may have been given GPUs that the probe doesn't see: who holds those, only Ray's agent knows.
        apart = {node for node in nodes if (gpus := ray.gpus.get(node)) and not same_devices(gpus, host.gpus)}
        spaces = _PidSpaces(host)
        unseen = _by_pid((process.pid, node, process.gpus) for node in apart for process in (reported or {}).get(node, ()))
        owned = [
            process if process.gpus else replace(process, gpus=spaces.find(unseen, process) or ())
            for process in _add_owners(host, ray, nodes, spaces)
        ]
        joined += [process for process in owned if not process.is_seen_by(machines, host.machine)]
        seen |= {(node, _ray_pid(process)) for node in nodes for process in owned if spaces.may_count(node, process)}
        visible |= {node for node in nodes if node not in apart and ray.gpus.get(node) and spaces.sees(node)}
    probed = {node for node, name in places.items() if hosts[name].processes is not None}
    for node, processes in (reported or {}).items():
        if node not in probed:
            joined += processes
        elif node not in visible:
            hidden = "Ray's agent reports it on the GPU, but it is not in its host's process table"
            unlisted = (process for process in processes if (node, process.pid) not in seen)
            joined += [replace(process, why=(hidden,)) if process.kind == "unknown" else process for process in unlisted]
    return tuple(joined)


def _by_pid(entries: Iterable[tuple[int | None, str, Thing]]) -> ByPid[Thing]:
    return group_by(entries, lambda entry: entry[0])


def _ray_pid(process: Process) -> int:
    """The pid by which Ray knows it: in a container, the pid in the container's PID namespace."""
    return process.ns_pid or process.pid


class _PidSpaces:
    """The PID namespace of each raylet on a host: a pid that a node's Ray reports means a process in its raylet's namespace."""

    def __init__(self, host: Host) -> None:
        raylets = {ray.pid: ray.node for ray in host.rays or () if ray.role == "raylet"}
        self._by_node = {raylets[process.pid]: _pid_space(process) for process in host.processes or () if process.pid in raylets}

    def sees(self, node: str) -> bool:
        """Whether the probe sees the node's raylet, and with it all processes of its PID namespace."""
        return node in self._by_node

    def may_count(self, node: str, process: Process) -> bool:
        """Whether the node's Ray may know this process by its pid.

        A raylet that is not seen is taken to be in the namespace of one that is seen; if none is seen, in any.
        """
        if node in self._by_node:
            return self._by_node[node] == _pid_space(process)
        return not self._by_node or _pid_space(process) in self._by_node.values()

    def find(self, things: ByPid[Thing], process: Process) -> Thing | None:
        """The thing that Ray reports under the process's pid, on a node that counts it."""
        return next((thing for _, node, thing in things.get(_ray_pid(process), ()) if self.may_count(node, process)), None)


def _pid_space(process: Process) -> tuple[str | None, bool]:
    """The PID namespace; if it can't be read, at least whether it is another one than the probe's."""
    return process.inside, process.ns_pid is not None and process.inside is None


def _add_owners(host: Host, ray: _RayFacts, nodes: Sequence[str], spaces: _PidSpaces) -> list[Process]:
    """A host's processes with node, job and actor. A child belongs to the actor that it descends from."""
    workers = _by_pid((worker.pid, node, worker) for node in nodes for worker in ray.workers.get(node, ()))
    drivers = _by_pid((job.driver_pid, node, job) for node in nodes for job in ray.drivers.get(node, ()))
    by_pid = {process.pid: process for process in host.processes or ()}
    only_node = nodes[0] if len(nodes) == 1 else None
    # No other Ray lives here, nor has left a folder or a process: then an id without a session can only be of this session.
    is_alone = host.sessions is not None and _visible_sessions(host) <= {ray.session or ray.only}

    def find_worker(process: Process) -> Worker | None:
        """The nearest worker above the process, or the process itself."""
        seen: set[int] = set()
        at: Process | None = process
        while at is not None and at.pid not in seen:
            worker = spaces.find(workers, at)
            if worker is not None and at.kind != "foreign" and at.node in (None, worker.node) and _is_ours(at, ray) is not False:
                return worker
            seen.add(at.pid)
            at = by_pid.get(at.parent or 0)
        return None

    found: list[Process] = []
    for process in by_pid.values():
        worker, driver = find_worker(process), spaces.find(drivers, process)
        ours = _is_ours(process, ray, is_known=worker is not None or driver is not None)
        # A Ray's leftovers in a container can't be seen from outside, so their absence proves nothing there.
        is_concluded = ours is None and bool(process.job) and process.inside is None and is_alone
        owned = _with_owner(process, worker, driver, only_node, ours=True if is_concluded else ours)
        job = None if is_concluded else ray.jobs.get(owned.job or "")
        if job is not None:
            # A probe knows only Ray's own id of a job; people know the submission id.
            if job.id != owned.job:
                owned = replace(owned, why=tuple(reason.replace(f"job {owned.job}", f"job {job.id}") for reason in owned.why))
            owned = _settle_undecided(owned, job)
        found.append(owned)
    return found


def _is_ours(process: Process, ray: _RayFacts, *, is_known: bool = False) -> bool | None:
    """Whether it is of the followed Ray: by its session, else by its node, else because Ray lists its node and pid (`is_known`).

    `None`: nothing proves it either way.
    """
    session = process.asks[0] if process.session is None and len(process.asks) == 1 else process.session
    if session is not None and ray.session is not None:
        return session == ray.session
    return True if is_known or process.node in ray.gpus else None


def _visible_sessions(host: Host) -> set[str | None]:
    """The sessions of which a folder, a raylet or a process is seen on the host."""
    named = (*(session.name for session in host.sessions or ()), *(ray.session for ray in host.rays or ()))
    return {*named, *(process.session for process in host.processes or ())} - {None}


def _with_owner(process: Process, worker: Worker | None, driver: Job | None, node: str | None, *, ours: bool | None) -> Process:
    """Adds the owner's ids. Of another Ray's process they are no ids of ours; `node`: the only node on the host."""
    if not ours:
        node = process.node or (node if ours is None else None)
        other = replace(process, job=None, actor=None, other_job=process.job, ours=ours, node=node)
        return replace(other, why=(other.other_owner, *other.why)) if other.other_owner else other
    if driver is not None and process.kind in ("foreign", "unknown"):
        process = replace(process, kind="driver", why=(f"Ray knows it as the driver of job {driver.id}",), job=driver.job)
    if worker is None:
        return replace(process, node=process.node or node, ours=True)
    return replace(process, node=worker.node, job=process.job or worker.job, actor=worker.actor, ours=True)


def _settle_undecided(process: Process, job: Job) -> Process:
    """Decides by its job whether a process without a worker is an orphan: the probe can't, since only Ray knows whether a job runs.

    A running job outweighs every sign of death.
    """
    if not process.ours or not (process.undecided == "job" or (process.kind == "orphan" and job.running)):
        return process
    kept = [reason for reason in process.why if not reason.startswith("only Ray knows whether job")]
    if job.running:
        return replace(process, kind="child", undecided=None, why=(f"its job {job.id} still runs", *kept))
    gone, rest = (kept[:1], kept[1:]) if kept and WORKER_GONE.match(kept[0]) else ([], kept)
    causes = " and ".join((*gone, f"its job {job.id} {job.status or 'has ended'}"))
    return replace(process, kind="orphan", undecided=None, why=(f"{causes}; nothing alive owns it", *rest))


def list_reported_processes(facts: NodeFacts | None) -> Mapping[str, list[Process]] | None:
    """By node, the processes that Ray's agents report on GPUs. `None`: Ray has not answered."""
    if facts is None:
        return None
    workers = {(worker.node, worker.pid): worker for worker in facts.workers}
    titles = {node.id: node.title for node in facts.nodes}
    # Raylets that share a host all report the holders of its GPUs; a worker counts only on its own node.
    counts = Counter(node.ip for node in facts.nodes)
    shared = {node.id: node.ip for node in facts.nodes if counts[node.ip] > 1}
    homes = {(shared[worker.node], worker.pid): worker.node for worker in facts.workers if worker.node in shared}
    holds: dict[tuple[str, int], list[Hold]] = {}
    for holder in facts.holders:
        if holder.node not in shared or homes.get((shared[holder.node], holder.pid), holder.node) == holder.node:
            holds.setdefault((holder.node, holder.pid), []).append(Hold(holder.index, holder.memory))
    found: dict[str, list[Process]] = {}
    for (node, pid), gpus in holds.items():
        process = Process(host=titles.get(node) or node[:8], pid=pid, gpus=tuple(gpus), kind="unknown", node=node)
        if (worker := workers.get((node, pid))) is None:
            process = replace(process, why=("not a Ray worker; its host is not probed",))
        else:
            kind: Kind = "driver" if worker.driver else "worker"
            process = replace(process, kind=kind, why=("Ray lists it",), job=worker.job, actor=worker.actor, ours=True)
        found.setdefault(node, []).append(process)
    return found


def same_devices(rays: tuple[Gpu, ...], probes: tuple[Gpu, ...] | None) -> bool:
    """Whether Ray's agent and the probe see at least one GPU in common."""
    return not {gpu.uuid for gpu in rays}.isdisjoint(gpu.uuid for gpu in probes or ())
