"""Whose processes are: what probes list, with node, job and actor as Ray vouches for them, and each Ray's told from all others'.

Job ids count anew in each cluster and people give the same submission ids again, so that an id says nothing without its session.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from cockpit.alike import group_by
from cockpit.model import Gpu, Hold, Host, Job, Kind, Node, Process, Worker
from cockpit.sources.ray.client import JobFacts, NodeFacts

Thing = TypeVar("Thing")
WORKER_GONE = re.compile(r"its worker( \d+)? is gone$")
"""The probe's first reason for what is undecided."""


def processes_of(
    reported: Mapping[str, list[Process]] | None,
    facts: NodeFacts | None,
    jobs: JobFacts | None,
    hosts: Mapping[str, Host],
    places: Mapping[str, str],
    session: str | None,
) -> tuple[Process, ...] | None:
    """What probes list, owners added; and what Ray's agents report of hosts without a probe."""
    if reported is None and not any(host.processes is not None for host in hosts.values()):
        return None
    vouched = _collect_vouched(facts, jobs, session, None if session else _only_session(hosts))
    by_host = group_by(places, lambda node: places[node])
    listed: list[Process] = []
    seen: set[tuple[str, int]] = set()
    visible: set[str] = set()
    """Nodes whose GPUs and processes a probe sees itself: what Ray's agents report beyond that has ended since."""
    machines = {host.machine for host in hosts.values() if host.processes is not None}
    for host in hosts.values():
        if host.processes is not None:
            own = by_host.get(host.name, [])
            # What Ray's agents report of GPUs that the probe doesn't see, because another raylet on its host was given them.
            apart = {node for node in own if (gpus := vouched.gpus.get(node)) and not same_devices(gpus, host.gpus)}
            elsewhere = _by_pid((process.pid, node, process.gpus) for node in apart for process in (reported or {}).get(node, ()))
            spaces = _PidSpaces(host)
            found = [
                process if process.gpus else replace(process, gpus=spaces.first(elsewhere, process) or ())
                for process in _add_owners(host, vouched, own, spaces)
            ]
            listed += [process for process in found if not process.is_seen_by(machines, host.machine)]
            seen |= {(node, _rays_pid(process)) for node in own for process in found if spaces.is_counted_by(process, node)}
            visible |= {node for node in own if node not in apart and vouched.gpus.get(node) and spaces.sees(node)}
    probed = {node for node, name in places.items() if hosts[name].processes is not None}
    for node, processes in (reported or {}).items():
        if node not in probed:
            listed += processes
        elif node not in visible:
            listed += [_without_claims(process) for process in processes if (node, process.pid) not in seen]
    return tuple(listed)


class _Vouched(msgspec.Struct, frozen=True):
    """What Ray vouches for, by node: sorted once, for as many hosts as are looked at."""

    gpus: Mapping[str | None, tuple[Gpu, ...] | None]
    """Of every node that it has."""
    workers: Mapping[str, list[Worker]]
    drivers: Mapping[str | None, list[Job]]
    """Of jobs that run."""
    jobs: Mapping[str, Job] | None
    """By the id that its processes carry; of two with the same one that which runs."""
    session: str | None
    only: str | None
    """Of an unknown session: the only one that is seen anywhere."""


def _collect_vouched(facts: NodeFacts | None, jobs: JobFacts | None, session: str | None, only: str | None) -> _Vouched:
    listed = jobs.jobs if jobs else ()
    return _Vouched(
        gpus={node.id: node.agent.gpus for node in (facts.nodes if facts else ())},
        workers=group_by(facts.workers if facts else (), lambda worker: worker.node),
        drivers=group_by((job for job in listed if job.driver_pid and job.running), lambda job: job.driver_node),
        jobs={job.job: job for job in sorted(listed, key=lambda job: job.running) if job.job} if jobs else None,
        session=session,
        only=only,
    )


def _by_pid(told: Iterable[tuple[int | None, str, Thing]]) -> Mapping[int, Sequence[tuple[str, Thing]]]:
    """Each Ray on a host may count its own pids, so that several have the same one."""
    found: dict[int, list[tuple[str, Thing]]] = {}
    for pid, node, thing in told:
        if pid is not None:
            found.setdefault(pid, []).append((node, thing))
    return found


def _rays_pid(process: Process) -> int:
    """As Ray counts: in a container it has pids of its own, which here are somebody else's."""
    return process.ns_pid or process.pid


class _PidSpaces:
    """Which of a host's processes each node's Ray counts by their pids: those in the PID namespace of its raylet."""

    def __init__(self, host: Host) -> None:
        raylets = {ray.pid: ray.node for ray in host.rays or () if ray.role == "raylet"}
        self._of = {raylets[one.pid]: _pid_space(one) for one in host.processes or () if one.pid in raylets}

    def sees(self, node: str) -> bool:
        """Whether the node's raylet is among these processes, and with it all that is in its PID namespace."""
        return node in self._of

    def is_counted_by(self, process: Process, node: str | None) -> bool:
        """Of a node whose raylet is not seen nothing speaks against it."""
        if node in self._of:
            return self._of[node] == _pid_space(process)
        return not self._of or _pid_space(process) in self._of.values()

    def first(self, told: Mapping[int, Sequence[tuple[str, Thing]]], process: Process) -> Thing | None:
        """What a node's Ray tells of that process, by the pid that it knows it by."""
        by_pid = told.get(_rays_pid(process), ())
        return next((thing for node, thing in by_pid if self.is_counted_by(process, node)), None)


def _pid_space(process: Process) -> tuple[str | None, bool]:
    """Where its PID namespace can't be read, it is seen all the same that it is not ours."""
    return process.inside, process.ns_pid is not None and process.inside is None


def _add_owners(host: Host, vouched: _Vouched, ids: Sequence[str], spaces: _PidSpaces) -> tuple[Process, ...]:
    """A host's processes with node, job and actor, as Ray vouches for them; a child belongs to the actor it descends from."""
    workers = _by_pid((worker.pid, node, worker) for node in ids for worker in vouched.workers.get(node, ()))
    drivers = _by_pid((job.driver_pid, node, job) for node in ids for job in vouched.drivers.get(node, ()))
    found = {process.pid: process for process in host.processes or ()}
    only = ids[0] if len(ids) == 1 else None
    alone: bool | None = None

    def owner(process: Process) -> Worker | None:
        seen: set[int] = set()
        at: Process | None = process
        while at is not None and at.pid not in seen:
            worker = spaces.first(workers, at)
            if worker is not None and at.kind != "foreign" and at.node in (None, worker.node) and _is_ours(at, vouched) is not False:
                return worker
            seen.add(at.pid)
            at = found.get(at.parent or 0)
        return None

    def settle(process: Process) -> Process:
        nonlocal alone
        worker, driver = owner(process), spaces.first(drivers, process)
        ours = _is_ours(process, vouched, known=worker is not None or driver is not None)
        if ours is None and process.job and process.inside is None:  # what a Ray has left in a container is not seen from outside
            alone = _is_alone(host, vouched.session or vouched.only) if alone is None else alone
            return _with_ids(process, worker, driver, only, ours=alone or None)
        mine = _with_ids(process, worker, driver, only, ours=ours)
        job = (vouched.jobs or {}).get(mine.job or "")
        return _settle_undecided(_with_job_name(mine, job), job) if job else mine

    return tuple(settle(process) for process in found.values())


def _is_ours(process: Process, vouched: _Vouched, *, known: bool = False) -> bool | None:
    """By its session, else by its node, else because Ray knows it by its node and pid; `None` where nothing proves either."""
    session = process.asks[0] if process.session is None and len(process.asks) == 1 else process.session
    if session is not None and vouched.session is not None:
        return session == vouched.session
    return True if known or process.node in vouched.gpus else None


def _only_session(hosts: Mapping[str, Host]) -> str | None:
    """The one that is seen on any host, if there is no other that it could be mixed up with."""
    seen = {name for host in hosts.values() for name in _visible_sessions(host)}
    return seen.pop() if len(seen) == 1 else None


def _is_alone(host: Host, session: str | None) -> bool:
    """Whether no other Ray lives on a host, nor has left its folder or a process there: then an id alone can only be that session's."""
    return host.sessions is not None and _visible_sessions(host) <= {session}


def _visible_sessions(host: Host) -> set[str | None]:
    named = (*(one.name for one in host.sessions or ()), *(ray.session for ray in host.rays or ()))
    return {*named, *(process.session for process in host.processes or ())} - {None}


def _with_ids(process: Process, owner: Worker | None, driver: Job | None, node: str | None, *, ours: bool | None) -> Process:
    if not ours:
        node = process.node or (node if ours is None else None)
        other = replace(process, job=None, actor=None, other_job=process.job, ours=ours, node=node)
        return replace(other, why=(other.other_owner, *other.why)) if other.other_owner else other
    if driver is not None and process.kind in ("foreign", "unknown"):
        process = replace(process, kind="driver", why=(f"Ray knows it as the driver of job {driver.id}",), job=driver.job)
    if owner is None:
        return replace(process, node=process.node or node, ours=True)
    return replace(process, node=owner.node, job=process.job or owner.job, actor=owner.actor, ours=True)


def _with_job_name(process: Process, job: Job) -> Process:
    """Its reasons call its job as its owner does: a probe knows Ray's own id of it alone."""
    if job.id == process.job or not any(f"job {process.job}" in reason for reason in process.why):
        return process
    return replace(process, why=tuple(reason.replace(f"job {process.job}", f"job {job.id}") for reason in process.why))


def _settle_undecided(process: Process, job: Job) -> Process:
    """Whether a process whose worker is gone is still wanted hangs on its job, and only its own Ray knows: each counts jobs anew.

    A job that runs outweighs every sign of death.
    """
    if not process.ours or not (process.undecided == "job" or (process.kind == "orphan" and job.running)):
        return process
    kept = [reason for reason in process.why if not reason.startswith("only Ray knows whether job")]
    if job.running:
        return replace(process, kind="child", undecided=None, why=(f"its job {job.id} still runs", *kept))
    gone, rest = (kept[:1], kept[1:]) if kept and WORKER_GONE.match(kept[0]) else ([], kept)
    causes = " and ".join((*gone, f"its job {job.id} {job.status or 'has ended'}"))
    return replace(process, kind="orphan", undecided=None, why=(f"{causes}; nothing alive owns it", *rest))


def reported_by(facts: NodeFacts | None) -> Mapping[str, list[Process]] | None:
    """By node: GPU holders as Ray's agents see them."""
    if facts is None:
        return None
    workers = {(worker.node, worker.pid): worker for worker in facts.workers}
    names = {node.id: node.title for node in facts.nodes}
    shared = _shared_addresses(facts.nodes)
    homes = {(shared[worker.node], worker.pid): worker.node for worker in facts.workers if worker.node in shared}
    holds: dict[tuple[str, int], list[Hold]] = {}
    for holder in facts.holders:
        if holder.node not in shared or homes.get((shared[holder.node], holder.pid), holder.node) == holder.node:
            holds.setdefault((holder.node, holder.pid), []).append(Hold(holder.index, holder.memory))
    found: dict[str, list[Process]] = {}
    for (node, pid), gpus in holds.items():
        process = _seen_by_ray(node, names.get(node) or node[:8], pid, tuple(gpus), workers.get((node, pid)))
        found.setdefault(node, []).append(process)
    return found


def _shared_addresses(nodes: Sequence[Node]) -> dict[str | None, str]:
    """By id of a node that shares its host with others: their address. They all see its GPUs; a worker counts where it works."""
    several = {address for address, count in Counter(node.ip for node in nodes).items() if count > 1}
    return {node.id: node.ip for node in nodes if node.ip in several}


def _seen_by_ray(node: str, host: str, pid: int, gpus: tuple[Hold, ...], worker: Worker | None) -> Process:
    if worker is None:
        return Process(host=host, pid=pid, gpus=gpus, kind="unknown", why=("not a Ray worker; its host is not probed",), node=node)
    kind: Kind = "driver" if worker.driver else "worker"
    return Process(
        host=host, pid=pid, gpus=gpus, kind=kind, why=("Ray lists it",), job=worker.job, actor=worker.actor, ours=True, node=node
    )


def _without_claims(process: Process) -> Process:
    """Several raylets on one host may be given different GPUs; the probe there sees those of only one."""
    if process.kind != "unknown":
        return process
    return replace(process, why=("Ray's agent reports it on the GPU, but it is not in its host's process table",))


def same_devices(rays: tuple[Gpu, ...], probes: tuple[Gpu, ...] | None) -> bool:
    """Whether Ray's agent and the probe see some GPU in common."""
    return not {gpu.uuid for gpu in rays}.isdisjoint(gpu.uuid for gpu in probes or ())
