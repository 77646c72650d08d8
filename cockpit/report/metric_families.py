"""Defines the metric families for Prometheus: for each its name, meaning, labels, and how to read its values from a snapshot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar, get_args

import msgspec

from cockpit.config.thresholds import STALE_AFTER_S
from cockpit.findings.sources import SourceTimes, without_old_facts
from cockpit.model import ENGINE_FRESH_S, LEFT_OVER, LEVELS, Engine, Machine, Node, NodeState, Quantity, Snapshot, Wait
from cockpit.report.phases import phases_by_job
from cockpit.report.status import NO_ANSWER
from cockpit.usage import Owner, sample_usage

Labels = tuple[str, ...]
Sample = tuple[Labels, float | None]
ID_DIGITS = 8
Thing = TypeVar("Thing")
WAITS: tuple[str, ...] = (*get_args(Wait), "unknown")
JUDGED = (*LEFT_OVER, "unknown")


class MetricFacts(msgspec.Struct, frozen=True):
    """A snapshot with values that several families need."""

    snapshot: Snapshot
    code: int
    nodes: Mapping[str, Node]
    """By a unique name."""
    living: Sequence[tuple[str, Node, Machine]]
    """Nodes that Ray has not declared dead, with their names and machines."""
    fresh: Sequence[tuple[str, Node, Machine]]
    """Living nodes whose machines have fresh figures: Prometheus can't see the age of a figure."""
    reserved: Mapping[str, float | None]
    """Reserved GPUs by job id, for jobs that have not ended; `None`: unknown."""

    @classmethod
    def of(cls, snapshot: Snapshot, code: int) -> MetricFacts:
        """`code`: the exit code of `cockpit status` for this snapshot. Facts that are too old are left out."""
        snapshot = without_old_facts(snapshot, SourceTimes(snapshot))
        nodes = _name_nodes(snapshot.nodes or ())
        living = [(name, node, snapshot.index.machine(node)) for name, node in nodes.items() if node.state != "DEAD"]
        fresh = [row for row in living if (seen := row[2].seen) is not None and snapshot.taken - seen <= STALE_AFTER_S]
        shares = sample_usage(snapshot)
        uses = {job.id: shares.uses.get(Owner("job", job.job or job.id)) for job in snapshot.jobs or () if job.running}
        reserved = {job: use.reserved if use else shares.none_reserved for job, use in uses.items()}
        return cls(snapshot, code, nodes, living, fresh, reserved)


def _name_nodes(nodes: Iterable[Node]) -> dict[str, Node]:
    """Nodes by a unique name. A dead node is dropped if a later one has its name; a second living one gets its id in the name."""
    named: dict[str, Node] = {}
    for node in sorted(nodes, key=lambda one: one.state == "DEAD"):
        if node.title not in named:
            named[node.title] = node
        elif node.state != "DEAD":
            named[f"{node.title} {(node.id or node.ip)[:ID_DIGITS]}"] = node
    return named


class Family(msgspec.Struct, frozen=True):
    """A metric family of Prometheus."""

    name: str
    help: str
    labels: Labels
    samples: Callable[[MetricFacts], Iterable[Sample]]


def _of(
    prefix: str, labels: Labels, rows: Callable[[MetricFacts], Iterable[tuple[Labels, Thing]]]
) -> Callable[[str, str, Callable[[Thing], float | None]], Family]:
    """Returns a constructor for families of one kind of thing; it takes a name, its meaning, and a function from thing to value."""

    def make(name: str, meaning: str, number: Callable[[Thing], float | None]) -> Family:
        return Family(f"cockpit_{prefix}{name}", meaning, labels, lambda facts: ((values, number(thing)) for values, thing in rows(facts)))

    return make


_of_cluster = _of("", (), lambda facts: [((), facts)])
_of_node = _of("node_", ("node",), lambda facts: (((name,), node) for name, node, _ in facts.fresh))
_of_machine = _of("node_", ("node",), lambda facts: (((name,), machine) for name, _, machine in facts.fresh))
_of_gpu = _of(
    "gpu_",
    ("node", "gpu"),
    lambda facts: (((name, gpu.label), gpu) for name, _, machine in facts.fresh for gpu in machine.current_gpus or ()),
)
_of_disk = _of(
    "disk_", ("node", "path"), lambda facts: (((name, disk.path), disk) for name, _, machine in facts.fresh for disk in machine.disks)
)
_of_resource = _of("node_", ("node",), lambda facts: (((name,), node.resources.get("GPU", Quantity())) for name, node, _ in facts.living))
"""From Ray's node list, which stays fresh when a node's agent is silent."""
_of_job = _of("job_", ("ray_job",), lambda facts: (((job,), gpus) for job, gpus in facts.reserved.items()))


def _engines(facts: MetricFacts) -> Iterator[tuple[Labels, Engine]]:
    """Inference engines, with the name of their node and the job in Ray."""
    names = {node.id: name for name, node in facts.nodes.items() if node.id}
    for engine in facts.snapshot.engines or ():
        job = facts.snapshot.index.job_title(engine.job)
        yield (
            (
                names.get(engine.node or "", engine.node or ""),
                str(engine.pid or ""),
                engine.software,
                engine.number,
                engine.model or "",
                job,
            ),
            engine,
        )


def _engine_states(facts: MetricFacts) -> Iterator[Sample]:
    """Whether each engine runs and answers. Nothing is known of an engine whose host does not answer."""
    for labels, engine in _engines(facts):
        is_down = engine.ended is not None or engine.unanswered is not None
        if is_down or engine.read is None or facts.snapshot.taken - engine.read <= ENGINE_FRESH_S:
            yield labels, not is_down


def _fresh_engines(facts: MetricFacts) -> Iterator[tuple[Labels, Engine]]:
    """Those whose numbers are true now."""
    for labels, engine in _engines(facts):
        if engine.read is not None and facts.snapshot.taken - engine.read <= ENGINE_FRESH_S:
            yield labels, engine


_ENGINE_LABELS = ("node", "pid", "software", "engine", "model", "ray_job")
_of_engine = _of("engine_", _ENGINE_LABELS, _fresh_engines)


def _of_counts(count: Callable[[Snapshot], Mapping[str, int] | None]) -> Callable[[MetricFacts], Iterator[Sample]]:
    return lambda facts: (((label,), number) for label, number in (count(facts.snapshot) or {}).items())


def _ray(facts: MetricFacts) -> Iterator[Sample]:
    cluster = facts.snapshot.cluster
    if cluster.ray_version is not None:
        yield (cluster.ray_version, cluster.session or ""), 1


def _count_nodes(snapshot: Snapshot) -> Mapping[str, int] | None:
    """Nodes by Ray's state; hosts that are no nodes don't count. `None`: Ray has listed no node."""
    states = [node.state for node in snapshot.nodes or () if node.id is not None]
    return _count(states, get_args(NodeState)) if states else None


def _findings(facts: MetricFacts) -> Iterator[Sample]:
    """Findings by level. 0 is known only if Ray or a probe answers."""
    counts = _count([finding.level for finding in facts.snapshot.findings], () if facts.code == NO_ANSWER else LEVELS)
    return (((level,), number) for level, number in counts.items())


def _findings_by_code(facts: MetricFacts) -> Iterator[Sample]:
    counts = Counter((finding.code, finding.level) for finding in facts.snapshot.findings)
    return ((labels, number) for labels, number in counts.items())


def _count_faults(snapshot: Snapshot) -> Mapping[str, int]:
    """Faults by source; 0 for sources that have ever answered. Sources of a host contain its name, such as `probe:w1`."""
    return _count([fault.source for fault in snapshot.faults], (source.partition(":")[0] for source in snapshot.as_of))


def _count(labels: Iterable[str], there: Iterable[str] = ()) -> dict[str, int]:
    """The number of each label; `there`: labels that count 0 if they are missing."""
    return {**dict.fromkeys(there, 0), **Counter(labels)}


def _ages(facts: MetricFacts) -> Iterator[Sample]:
    return (((name,), max(0.0, facts.snapshot.taken - machine.seen)) for name, _, machine in facts.living if machine.seen is not None)


def _source_ages(facts: MetricFacts) -> Iterator[Sample]:
    """Of a probe, `cockpit_node_age_seconds` is the age."""
    ages = ((source, facts.snapshot.taken - at) for source, at in facts.snapshot.as_of.items() if not source.startswith("probe:"))
    return (((source,), max(0.0, age)) for source, age in ages)


def _up(facts: MetricFacts) -> Iterator[Sample]:
    states = {"ALIVE": 1, "DEAD": 0}
    return (((name,), states.get(node.state)) for name, node in facts.nodes.items() if node.id is not None)


def _job_states(facts: MetricFacts) -> Iterator[Sample]:
    return (((job.id, job.status), 1) for job in facts.snapshot.jobs or () if job.running)


def _job_phases(facts: MetricFacts) -> Iterator[Sample]:
    """The phases that each running job is in; none if its phase is unknown."""
    jobs = {job.key: job.id for job in facts.snapshot.jobs or () if job.running}
    for activity in facts.snapshot.activities:
        if activity.job in jobs and activity.phase is not None:
            yield from (((jobs[activity.job], phase), 1) for phase in (activity.phase, *activity.also))


def _step_seconds(facts: MetricFacts) -> Iterator[Sample]:
    phases = phases_by_job(facts.snapshot)
    for job in facts.snapshot.jobs or ():
        if job.running and (known := phases.get(job.key)) is not None and known.steps:
            yield (job.id, "last"), known.steps[-1].seconds
            yield (job.id, "median"), known.usual_step.median if known.usual_step else None


def _waits(facts: MetricFacts) -> Iterator[Sample]:
    """Waiting actors and placement groups by reason. If Ray has cut its list of actors, their number is unknown."""
    snapshot = facts.snapshot
    actors = snapshot.actors if snapshot.actors_complete else None
    for kind, listed in (("actor", actors), ("placement_group", snapshot.placement_groups)):
        if listed is not None:
            waits = [one.wait or "unknown" for one in listed if one.pending or one.state == "RESTARTING"]
            yield from (((kind, reason), number) for reason, number in _count(waits, WAITS).items())


def _judged_processes(facts: MetricFacts) -> Iterator[Sample]:
    """Orphans, and processes that may be orphans (`unknown`), on hosts whose processes are known."""
    counts = Counter((process.host, process.kind) for process in facts.snapshot.processes or ())
    probed = [host.name for host in facts.snapshot.hosts.values() if host.processes is not None]
    return (((name, kind), counts[name, kind]) for name in probed for kind in JUDGED)


def _percent(value: float | None) -> float | None:
    return None if value is None else value / 100


# No label is called `job` or `instance`: Prometheus uses these itself, and would rename ours to exported_job.
FAMILIES = (
    _of_cluster("look_timestamp_seconds", "Time of this sample, in POSIX seconds.", lambda facts: facts.snapshot.taken),
    _of_cluster("status", "0 OK, 1 warning, 2 critical, 3 no answer: the exit code of cockpit status.", lambda facts: facts.code),
    _of_cluster("ray_reachable", "Whether the dashboard answers.", lambda facts: facts.snapshot.cluster.reachable),
    Family("cockpit_ray_info", "Version and session of Ray; always 1.", ("version", "session"), _ray),
    Family("cockpit_nodes", "Nodes by state in Ray.", ("state",), _of_counts(_count_nodes)),
    Family("cockpit_node_up", "Whether Ray reports the node as alive.", ("node",), _up),
    Family("cockpit_node_age_seconds", "Age of the node's figures; figures that are too old are left out.", ("node",), _ages),
    Family(
        "cockpit_source_age_seconds",
        "Age of the last answer of Ray, Slurm or Kubernetes, by source; facts that are too old are left out.",
        ("source",),
        _source_ages,
    ),
    _of_machine("cpu_ratio", "CPU in use, 0 to 1.", lambda machine: _percent(machine.cpu)),
    _of_machine("memory_used_bytes", "Host memory in use, as Ray's memory monitor counts it.", lambda machine: machine.memory.used),
    _of_machine("memory_total_bytes", "Host memory.", lambda machine: machine.memory.total),
    _of_machine("memory_kill_bytes", "Host memory in use above which Ray kills workers.", lambda machine: machine.memory.kill_at),
    _of_node("object_store_used_bytes", "Object store in use.", lambda node: node.object_store.used),
    _of_node("object_store_total_bytes", "Object store.", lambda node: node.object_store.total),
    _of_machine("shm_used_bytes", "Shared memory file system in use.", lambda machine: machine.shm.used),
    _of_machine("shm_total_bytes", "Shared memory file system.", lambda machine: machine.shm.total),
    _of_resource("gpus_reserved", "GPUs that jobs have reserved in Ray.", lambda gpus: gpus.used),
    _of_resource("gpus", "All GPUs that Ray has.", lambda gpus: gpus.total),
    _of_disk("used_bytes", "File system that Ray writes to: in use.", lambda disk: disk.used),
    _of_disk("total_bytes", "File system that Ray writes to.", lambda disk: disk.total),
    _of_gpu("memory_used_bytes", "GPU memory in use.", lambda gpu: gpu.memory_used),
    _of_gpu("memory_total_bytes", "GPU memory.", lambda gpu: gpu.memory_total),
    _of_gpu("utilization_ratio", "Share of time in which the GPU worked, 0 to 1.", lambda gpu: _percent(gpu.utilization)),
    _of_gpu("temperature_celsius", "Temperature of the GPU.", lambda gpu: gpu.temperature),
    _of_gpu("power_watts", "Power that the GPU draws.", lambda gpu: gpu.power),
    _of_gpu("power_limit_watts", "Power that the GPU may draw.", lambda gpu: gpu.power_limit),
    _of_gpu("ecc_uncorrected_errors", "Uncorrected ECC errors since the driver was loaded.", lambda gpu: gpu.ecc),
    Family(
        "cockpit_jobs", "Jobs by state in Ray.", ("state",), _of_counts(lambda snapshot: _count(job.status for job in snapshot.jobs or ()))
    ),
    Family("cockpit_job_state", "The state of a job that has not ended; always 1.", ("ray_job", "state"), _job_states),
    _of_job("gpus_reserved", "GPUs that a job that has not ended has reserved in Ray.", lambda gpus: gpus),
    Family("cockpit_job_phase", "The phase that a running job is in; 1 for each if it is in several.", ("ray_job", "phase"), _job_phases),
    Family(
        "cockpit_job_step_seconds",
        "How long the last training step took, and the median of the last ones.",
        ("ray_job", "which"),
        _step_seconds,
    ),
    Family("cockpit_actors", "Actors by state in Ray.", ("state",), _of_counts(lambda snapshot: snapshot.actor_counts)),
    Family("cockpit_waiting", "Actors, placement groups and jobs that wait, by reason.", ("kind", "reason"), _waits),
    Family(
        "cockpit_engine_up",
        "Whether an inference engine of a running job lives and answers.",
        _ENGINE_LABELS,
        _engine_states,
    ),
    _of_engine("requests_running", "Requests that it computes.", lambda engine: engine.running),
    _of_engine("requests_waiting", "Requests that wait at it.", lambda engine: engine.waiting),
    _of_engine("kv_cache_ratio", "Share of its KV cache in use, 0 to 1.", lambda engine: engine.kv_cache),
    _of_engine("tokens_per_second", "Tokens generated in the last minute, a second.", lambda engine: engine.tokens_per_second),
    _of_engine(
        "preemptions_per_minute", "Requests that it has thrown out in the last minute.", lambda engine: engine.preemptions_per_minute
    ),
    Family("cockpit_findings", "Findings by level.", ("level",), _findings),
    Family("cockpit_findings_by_code", "Current findings, by code.", ("code", "level"), _findings_by_code),
    Family(
        "cockpit_processes", "Ray processes that are orphans, or may be (unknown), on probed hosts.", ("host", "kind"), _judged_processes
    ),
    Family("cockpit_faults", "Failing sources, by source.", ("source",), _of_counts(_count_faults)),
)
