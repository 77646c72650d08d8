"""Makes the JSON and the exit code of `cockpit status`, the public contract for scripts."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from cockpit.findings.failures import failure_of, reason_of
from cockpit.findings.ray_gpus import find_all_not_given
from cockpit.model import (
    Actor,
    Amount,
    Bundle,
    Disk,
    FilledDisk,
    Gpu,
    GpuLinks,
    HostMemory,
    Job,
    Machine,
    NcclReport,
    Node,
    Phase,
    PlacementGroup,
    Quantity,
    Snapshot,
    Xid,
)
from cockpit.phases import Rank, ranks_of, seconds_by_phase
from cockpit.report.faults import by_cause
from cockpit.report.phases import JobPhases, activity_words, phases_by_job, wait_words

OK, WARNING, CRITICAL, NO_ANSWER = 0, 1, 2, 3
Shape = TypeVar("Shape", bound=msgspec.Struct)


class GpuStatus(msgspec.Struct, frozen=True):
    """`nodes[].gpus[]`."""

    index: int
    uuid: str
    name: str | None
    utilization: float | None
    memory_used: int | None
    memory_total: int | None
    power: float | None
    power_limit: float | None
    temperature: float | None
    ecc: int | None
    fault: str | None
    power_default: float | None
    clock: int | None
    clock_reasons: int | None
    links: GpuLinks | None
    xids: tuple[Xid, ...] | None
    given_to_ray: bool | None
    """Whether the raylet of its node may use it; `null`: unknown."""


class NodeStatus(msgspec.Struct, frozen=True):
    """`nodes[]`. `gpus` is `null` when no source lists them, empty when there are none."""

    id: str | None
    host: str
    ip: str
    name: str
    head: bool
    state: str
    message: str | None
    age: float | None
    cpu: float | None
    memory: HostMemory
    object_store: Amount
    shm: Amount
    disks: tuple[Disk, ...]
    filled: tuple[FilledDisk, ...]
    """The contents of disks and /dev/shm that are nearly full, the largest first; only from a probe."""
    resources: Mapping[str, Quantity]
    gpus: tuple[GpuStatus, ...] | None
    gpus_age: float | None
    """The age of `gpus`: if NVML fails, they are older than the other figures; else it equals `age`."""


class PendingActor(msgspec.Struct, frozen=True):
    """`actors.pending[]`."""

    id: str
    class_: str = msgspec.field(name="class")
    name: str
    state: str
    job: str | None
    needs: Mapping[str, float]
    placement_group: str | None
    waiting: float | None
    at_least: bool
    """It already waited when cockpit first saw it, so it may have waited longer than `waiting`: Ray does not report since when."""
    why: str | None
    wait: str | None
    """The reason in one word."""


class ActorsStatus(msgspec.Struct, frozen=True):
    """`actors`."""

    counts: Mapping[str, int] | None
    complete: bool | None
    pending: tuple[PendingActor, ...] | None


class GroupStatus(msgspec.Struct, frozen=True):
    """`placement_groups[]`."""

    id: str
    name: str
    state: str
    strategy: str | None
    bundles: tuple[Bundle, ...]
    job: str | None
    waiting: float | None
    why: str | None
    wait: str | None
    """The reason in one word."""


class FailureStatus(msgspec.Struct, frozen=True):
    """`jobs[].failure`."""

    text: str | None
    """The error in its own words, without secrets; at most a few lines; `null`: the cause follows from the exit code."""
    cause: str | None
    """What went wrong, in one sentence; `null`: the error is not known."""
    known: str | None
    """The name of the known error, as on the page Failed jobs of the documentation."""
    remedy: str | None
    raised_at: str | None
    node: str | None
    """The id of the node whose process reports it."""
    pid: int | None
    rank: int | None
    also: int
    """The number of other processes that report the same error."""
    others: str | None
    """Another error that other processes report."""
    file: str | None
    """The log that was read for it; `null`: none was, so it stands in Ray's message."""


class PhaseStatus(msgspec.Struct, frozen=True):
    """`jobs[].phase`."""

    name: Phase | None
    """`null`: unknown."""
    also: tuple[Phase, ...]
    """Other phases at the same time, as of asynchronous trainers."""
    method: str | None
    """`Class.method` that runs, if the phase is unknown and the method has no phase that cockpit knows."""
    since: float | None
    """Since when it is in this phase, or since cockpit sees it."""
    framework: str | None
    is_phase_logged: bool = msgspec.field(name="logged")
    """Its log says so; the titles of its workers can't."""
    text: str
    """The phase, the step and their usual times in one line."""
    waits: str | None
    """Who waits for whom, in one sentence; `null`: the titles of its workers don't show it."""


class UsualStatus(msgspec.Struct, frozen=True):
    """`jobs[].steps.usual{}`."""

    median: float
    spread: float
    """Half of the distance between the quartiles."""


class StepStatus(msgspec.Struct, frozen=True):
    """`jobs[].steps.ended[]`."""

    number: int | None
    began: float
    ended: float
    longer: bool
    """It had a checkpoint or an evaluation, so it does not count for the usual time."""
    phases: Mapping[str, float]
    """The seconds of each phase; `unknown` is one of them."""


class StepsStatus(msgspec.Struct, frozen=True):
    """`jobs[].steps`."""

    number: int | None
    """The number of the running step; `null`: unknown, as when cockpit has not seen the first one."""
    total: int | None
    """How many there will be, as the log says."""
    began: float | None
    phases: Mapping[str, float]
    """The seconds of each phase in the running step."""
    seen: int
    """Steps that have ended while cockpit watched."""
    usual: Mapping[str, UsualStatus]
    """The usual seconds of each phase in a step, and of a whole `step`; empty before three steps have ended."""
    per_hour: float | None
    left: float | None
    """The seconds until the last step ends, if all take as long as usual."""
    disagree: bool
    """The titles of the workers end steps in another pace than the log, so that only the log's count is given."""
    ended: tuple[StepStatus, ...]
    """The last steps, at most 50, in order."""


class RankStatus(msgspec.Struct, frozen=True):
    """`jobs[].ranks[]`: a worker of a running job."""

    class_: str = msgspec.field(name="class")
    host: str
    pid: int
    actor: str | None
    gpus: tuple[int, ...]
    method: str | None
    """`null`: its title is idle, which does not mean that an asynchronous actor is; or its host is silent."""
    phase: Phase | None
    behind: float | None
    """Since when it is still in a method that the other workers of its class have ended; `null`: it is not behind."""


class JobStatus(msgspec.Struct, frozen=True):
    """`jobs[]`."""

    id: str
    status: str
    entrypoint: str | None
    started: float | None
    ended: float | None
    message: str | None
    reason: str | None
    """Why a failed job failed, in one sentence, as its finding begins with it; `null`: unknown, or it has not failed."""
    failure: FailureStatus | None
    """The error that caused its failure; `null`: unknown, or it has not failed."""
    phase: PhaseStatus | None
    """What it does; `null`: it does not run, or none of its workers was seen."""
    steps: StepsStatus | None
    """Its training steps; `null`: nothing is known of its phases."""
    ranks: tuple[RankStatus, ...] | None
    """Its workers by class, node and GPU; `null`: it does not run, or none of them was seen."""


class HoldStatus(msgspec.Struct, frozen=True):
    """`processes[].gpus[]`."""

    index: int
    memory: int | None


class ProcessStatus(msgspec.Struct, frozen=True):
    """`processes[]`."""

    host: str
    pid: int
    started: float | None
    parent: int | None
    user: str | None
    command: str | None
    rss: int | None
    gpus: tuple[HoldStatus, ...]
    kind: str
    why: tuple[str, ...]
    job: str | None
    actor: str | None
    session: str | None
    """The session of any Ray; `job` and `actor` belong to `cluster` only."""


class SessionStatus(msgspec.Struct, frozen=True):
    """`sessions[]`."""

    host: str
    name: str
    path: str
    live: bool | None
    owner: str | None
    size: int | None
    keeps: tuple[str, ...]


class ClusterStatus(msgspec.Struct, frozen=True):
    """`cluster`."""

    address: str | None
    ray_version: str | None
    session: str | None
    cluster_id: str | None
    auth: str | None
    reachable: bool | None


class Remedy(msgspec.Struct, frozen=True):
    """`findings[].remedy`."""

    text: str
    action: str | None = msgspec.field(name="act")


class EngineStatus(msgspec.Struct, frozen=True):
    """`engines[]`: inference engines of running jobs."""

    software: str
    """`vllm` or `sglang`."""
    number: str
    """Its number beside others of the same server."""
    model: str | None
    node: str | None
    """The id of its node."""
    pid: int | None
    job: str | None
    """As in `processes[]`."""
    actor: str | None
    by: str
    """Who reports it: the metrics endpoint of its `node`, its own `server`, or only the list of `processes`, without numbers."""
    running: int | None
    """Requests, as `waiting`."""
    waiting: int | None
    kv_cache: float | None
    """The share of its KV cache in use, 0 to 1."""
    tokens_per_second: float | None
    """Generated in the last minute; `null` in a single sample, unless the engine computes it."""
    preemptions_per_minute: float | None
    preemptions: int | None
    read: float | None
    """When it reported these numbers."""
    unanswered: float | None
    """Since when whoever reports it does not answer."""
    why: str | None
    """The reason of `unanswered`."""
    ended: float | None
    """Since when its processes are gone, though its actor lives."""


class FindingStatus(msgspec.Struct, frozen=True):
    """`findings[]`."""

    code: str
    level: str
    subject: str
    text: str
    evidence: tuple[str, ...]
    since: float | None
    remedy: Remedy | None
    seen: float | None
    """When the oldest of its facts were true, if one of its sources has fallen silent; `null`: now."""
    sources: tuple[str, ...]
    """Its sources, such as `ray.jobs`, `w1 nvml`."""


class FaultStatus(msgspec.Struct, frozen=True):
    """`faults[]`."""

    source: str
    host: str | None
    text: str
    since: float
    sources: tuple[str, ...]
    """All sources that fail by the same cause, `source` first."""


class HostStatus(msgspec.Struct, frozen=True):
    """`hosts[]`: hosts with a probe."""

    name: str
    age: float | None
    """The age of its last sample."""
    ages: Mapping[str, float | None]
    """The age of the last answer of each source of its probe, such as `nvml`, `processes`, `disks`."""


class Status(msgspec.Struct, frozen=True):
    """What `cockpit status --json` prints. Sizes are bytes, times POSIX seconds, ages seconds, `null` is unknown."""

    taken: float
    cluster: ClusterStatus
    nodes: tuple[NodeStatus, ...] | None
    actors: ActorsStatus
    placement_groups: tuple[GroupStatus, ...] | None
    jobs: tuple[JobStatus, ...] | None
    processes: tuple[ProcessStatus, ...] | None
    sessions: tuple[SessionStatus, ...] | None
    findings: tuple[FindingStatus, ...] = ()
    nccl: tuple[NcclReport, ...] = ()
    """What NCCL last reported about running jobs; only jobs about which a running cockpit has asked it."""
    faults: tuple[FaultStatus, ...] = ()
    hosts: tuple[HostStatus, ...] = ()
    engines: tuple[EngineStatus, ...] | None = None
    ages: Mapping[str, float | None] = {}
    """By source of the cluster (`ray.nodes`, `ray.jobs`, `slurm`): seconds since its last good answer."""
    schema: int = 1


def status_of(snapshot: Snapshot) -> Status:
    """A snapshot in the shape of the contract."""
    now, not_given, phases = snapshot.taken, find_all_not_given(snapshot), phases_by_job(snapshot)
    pending: tuple[PendingActor, ...] | None = None
    if snapshot.actors is not None:
        waiting = (actor for actor in snapshot.actors if actor.pending or actor.state == "RESTARTING")
        pending = tuple(_as(PendingActor, actor, waiting=_waiting_time(actor, now)) for actor in waiting)
    return Status(
        taken=now,
        cluster=_as(ClusterStatus, snapshot.cluster),
        nodes=_each(snapshot.nodes, lambda node: _node(node, snapshot.index.machine(node), now, not_given.get(node.key))),
        actors=ActorsStatus(snapshot.actor_counts, snapshot.actors_complete, pending),
        placement_groups=_each(snapshot.placement_groups, lambda group: _as(GroupStatus, group, waiting=_waiting_time(group, now))),
        jobs=_each(snapshot.jobs, lambda job: _job(job, phases.get(job.key), snapshot)),
        processes=_each(
            snapshot.processes, lambda process: _as(ProcessStatus, process, gpus=_each(process.gpus, lambda hold: _as(HoldStatus, hold)))
        ),
        sessions=_each(snapshot.sessions, lambda session: _as(SessionStatus, session)),
        findings=_each(
            snapshot.findings, lambda finding: _as(FindingStatus, finding, remedy=finding.remedy and _as(Remedy, finding.remedy))
        ),
        nccl=snapshot.nccl,
        faults=_each(by_cause(snapshot.faults), lambda fault: _as(FaultStatus, fault, sources=fault.sources)),
        hosts=tuple(
            HostStatus(host.name, _age(host.taken, now), {source: _age(host.observed_at(source), now) for source in sorted(host.observed)})
            for host in snapshot.hosts.values()
        ),
        engines=_each(snapshot.engines, lambda engine: _as(EngineStatus, engine)),
        ages={source: _age(at, now) for source, at in snapshot.as_of.items() if not source.startswith("probe:")},
    )


def job_status(job: Job, snapshot: Snapshot) -> JobStatus:
    """One job in the shape of the contract."""
    return _job(job, phases_by_job(snapshot).get(job.key), snapshot)


def _age(moment: float | None, now: float) -> float | None:
    return None if moment is None else max(0.0, round(now - moment, 1))


def _as(kind: type[Shape], value: msgspec.Struct, **more: Any) -> Shape:
    """A `kind` with the fields of `value`; `more` replaces some of them."""
    return kind(**{name: more[name] if name in more else getattr(value, name) for name in kind.__struct_fields__})


def _each(values: tuple[Any, ...] | None, make: Any) -> Any:
    return None if values is None else tuple(map(make, values))


def _job(job: Job, phases: JobPhases | None, snapshot: Snapshot) -> JobStatus:
    failure = failure_of(job, snapshot) if job.status == "FAILED" else None
    reason = reason_of(failure) if failure is not None else None
    activity = phases.activity if phases is not None else None
    behind = {one.process: one.since for one in activity.laggards} if activity is not None else {}
    return _as(
        JobStatus,
        job,
        reason=reason,
        failure=_as(FailureStatus, failure) if failure is not None and reason else None,
        phase=_phase(job, phases, snapshot) if phases is not None else None,
        steps=_steps(phases, snapshot.taken) if phases is not None else None,
        ranks=None if activity is None else tuple(_rank(rank, behind.get(rank.process.key)) for rank in ranks_of(job, snapshot)),
    )


def _phase(job: Job, phases: JobPhases, snapshot: Snapshot) -> PhaseStatus | None:
    if (activity := phases.activity) is None:
        return None
    text, waits = activity_words(phases, snapshot.taken), wait_words(job, activity, snapshot) or None
    return _as(PhaseStatus, activity, name=activity.phase, text=text, waits=waits)


def _steps(phases: JobPhases, now: float) -> StepsStatus:
    activity = phases.activity
    usual = {str(what or "unknown"): UsualStatus(round(time.median, 1), round(time.spread, 1)) for what, time in phases.usual.items()}
    rate, left = phases.steps_per_hour, phases.seconds_left(now)
    ended: list[StepStatus] = []
    for step in phases.steps:
        seconds = _seconds(seconds_by_phase(phases.spans, step.began, step.ended))
        ended.append(StepStatus(step.number, step.began, step.ended, step.is_longer, seconds))
    return StepsStatus(
        number=activity.step if activity is not None else None,
        total=activity.total_steps if activity is not None else None,
        began=activity.step_began if activity is not None else None,
        phases=_seconds(phases.running_seconds(now)),
        seen=activity.steps_seen if activity is not None else len(ended),
        usual=usual,
        per_hour=None if rate is None else round(rate, 2),
        left=None if left is None else round(left, 1),
        disagree=activity is not None and activity.steps_disagree,
        ended=tuple(ended),
    )


def _seconds(by_phase: Mapping[Phase | None, float]) -> Mapping[str, float]:
    return {phase or "unknown": round(seconds, 1) for phase, seconds in by_phase.items()}


def _rank(rank: Rank, behind: float | None) -> RankStatus:
    process, title = rank.process, rank.title
    gpus = tuple(hold.index for hold in process.gpus)
    method, phase = (None, None) if rank.is_old else (title.method or None, rank.phase)
    return RankStatus(title.class_, process.host, process.pid, process.actor, gpus, method, phase, behind)


def _node(node: Node, machine: Machine, now: float, not_given: Sequence[Gpu] | None) -> NodeStatus:
    gpus = _each(machine.gpus, lambda gpu: _as(GpuStatus, gpu, given_to_ray=None if not_given is None else gpu not in not_given))
    gpus_seen = machine.seen if machine.gpus_seen is None else machine.gpus_seen
    measured = {name: getattr(machine, name) for name in ("cpu", "memory", "shm", "disks", "filled")}
    gpus_age = None if gpus is None else _age(gpus_seen, now)
    return _as(NodeStatus, node, **measured, age=_age(machine.seen, now), gpus=gpus, gpus_age=gpus_age)


def _waiting_time(thing: Actor | PlacementGroup, now: float) -> float | None:
    return round(max(0.0, now - thing.since), 1) if thing.since is not None and (thing.pending or thing.state == "RESTARTING") else None


def status_json(snapshot: Snapshot, *, indent: int = 0) -> str:
    """The status as JSON: in one line, or indented for people."""
    raw = msgspec.json.encode(status_of(snapshot))
    return (msgspec.json.format(raw, indent=indent) if indent else raw).decode()


def export(snapshot: Snapshot, now: float) -> Path:
    """Write the status as JSON into the current folder; only its owner may read it. Raises `OSError`."""
    path = Path(f"cockpit-{time.strftime('%Y%m%d-%H%M%S', time.localtime(now))}.json")
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(file, "w", encoding="utf-8") as out:  # by its handle: the owner of the folder may have replaced the file by a link
        out.write(status_json(snapshot, indent=2) + "\n")
    return path.resolve()


def exit_code(snapshot: Snapshot, named: Collection[str] = ()) -> int:
    """0 OK · 1 warning or old data · 2 critical · 3 no answer; critical also if something other than Ray answers.

    Data is old when nodes, actors, groups or jobs are unknown, or a source fails. A host without a probe doesn't count if its node is
    alive, unless it is among `named`, the hosts of the config.
    """
    answers = any(fault.source == "ray.identity" and fault.cause == "not ray" for fault in snapshot.faults)
    if not snapshot.cluster.reachable and not answers and not _lives_at_address(snapshot):
        return NO_ANSWER
    levels = {finding.level for finding in snapshot.findings}
    if "critical" in levels or not snapshot.cluster.reachable:
        return CRITICAL
    unknown = None in (snapshot.nodes, snapshot.actors, snapshot.placement_groups, snapshot.jobs)
    well = {name for node in snapshot.nodes or () if node.state == "ALIVE" for name in (node.title, node.host, node.ip)}.difference(named)
    failing = any(fault.source != "probe" or fault.host not in well for fault in snapshot.faults)
    return WARNING if "warning" in levels or unknown or failing else OK


def _lives_at_address(snapshot: Snapshot) -> bool:
    """Whether Ray runs on a probed host, and the silent dashboard is on that host.

    The probe of a busy host may not answer with its processes in time. Then a Ray of this host that answers counts too.
    """
    where = urlsplit(snapshot.cluster.address or "").hostname
    live = {session.host for session in snapshot.sessions or () if session.live}
    known = [name for host in snapshot.hosts.values() if host.name in live for name in (host.name, *host.addresses)]
    is_here = bool(live) or any(ray.answers for ray in snapshot.cluster.others or ())
    return is_here and where in ("127.0.0.1", "localhost", "::1", None, *live, *known)
