"""Jobs whose GPUs do nothing: all of them idle, or waiting for each other at 100 % with little power."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from statistics import median
from typing import Literal

import msgspec

from cockpit.alike import group_by
from cockpit.config.thresholds import STALE_AFTER_S
from cockpit.findings.facts import Facts
from cockpit.findings.sources import rests_on
from cockpit.model import LEFT_OVER, Finding, Gpu, Job, Level, Node, Process, Remedy
from cockpit.model.titles import whole_name
from cockpit.text import age, clean, plural, size

IDLE_PERCENT, IDLE_CLEAR_PERCENT = 1.0, 5.0
"""Percent of utilization up to which a GPU counts as idle; once found idle, up to the second, so that a short use changes nothing."""
SPIN_PERCENT, SPIN_CLEAR_PERCENT = 95.0, 90.0
"""Percent from which on a GPU is all taken by a kernel, which may be one that waits."""
SPIN_POWER_CLEAR_FACTOR = 1.2
"""Of the share of power at which a GPU begins to count as waiting: where it ends."""
DOUBT_FACTOR = 3
"""Times as long as else, where something speaks against it."""
GPUS_PER_ODD_ONE = 8
"""At most one GPU of so many is the odd one out."""
ODD_POWER_SHARE = 0.25
"""Share of the others' power by which that of the odd one out differs."""
MAX_WATTS = 100_000.0
"""Watts that no GPU draws, whatever it says."""
MAX_EVIDENCE_LINES = 8
# What NVIDIA's data sheets and product briefs call maximum or thermal design power, under the names that NVML gives: briefs PB-11133-001
# (H100 PCIe), PB-10137-001 and PB-10577-001 (A100 PCIe), PB-08744-001 (V100 PCIe); data sheets of the others; B200 as in HGX servers.
# A limit that was set lower makes a GPU that works look no idler than it is: it still draws most of that.
_WATTS: tuple[tuple[frozenset[str], float], ...] = tuple(
    (frozenset(words.split()), watts)
    for words, watts in (
        ("B200", 1000), ("H200 NVL", 600), ("H200", 700), ("H100 PCIE", 350), ("H100 NVL", 400), ("H100 HBM3", 700), ("A100 SXM4", 400),
        ("A100 PCIE 80GB", 300), ("A100 PCIE 40GB", 250), ("L40S", 350), ("L40", 300), ("V100 SXM2", 300), ("V100 PCIE", 250),
    )
)  # fmt: skip

Does = Literal["idle", "spins", "lost", "works"]


class Marks(msgspec.Struct, frozen=True):
    """Up to which percent a GPU is idle, and from which on, below which share of its power, it waits."""

    idle: float
    spins: float
    power: float


class UsedGpu(msgspec.Struct, frozen=True):
    """A GPU of a job."""

    node: Node
    gpu: Gpu
    process: Process
    does: Does

    @property
    def text(self) -> str:
        """As people call it."""
        return f"{self.node.title} GPU {self.gpu.label}"


class Stall(msgspec.Struct, frozen=True):
    """A job none of whose GPUs works."""

    job: Job
    used: Sequence[UsedGpu]
    since: float
    lasted: float
    """Seconds; those of which nothing has been heard don't count."""
    silent: float | None
    """Seconds since its log was written to; `None` when that is not known."""
    seen: float | None

    def those(self, does: Does) -> list[UsedGpu]:
        """Its GPUs that do this."""
        return [used for used in self.used if used.does == does]


@rests_on("ray.jobs", "nvml", "processes", "logs")
def stalled_jobs(facts: Facts) -> Iterator[Finding]:
    """Running jobs none of whose GPUs works. Of a job that works one GPU is looked at, or a few. A single look can't tell."""
    if facts.is_single_look:
        return
    busy: frozenset[str] | None = None
    known = facts.known.processes or ()  # of a host that has fallen silent too: what its GPUs do is unknown, and may be work
    holding = (each for each in known if each.gpus and each.job and each.kind not in LEFT_OVER)
    for job_id, holders in group_by(holding, lambda process: process.job or "").items():
        job = facts.jobs.get(job_id)
        used = _used_gpus(facts, job, holders) if job and job.running else None
        if not job or not used:
            continue
        busy = _nodes_with_unknown_work(facts) if busy is None else busy
        if not _has_unknown_work(facts, job_id, used, busy):
            stall = _describe_stall(facts, job, used)
            yield from _hang_findings(facts, stall) if stall.those("spins") else _stall_findings(facts, stall)


def _used_gpus(facts: Facts, job: Job, holders: Iterable[Process]) -> list[UsedGpu] | None:
    """The job's GPUs; `None` as soon as one of them works, or its activity is unknown."""
    marks = _marks(facts, job)
    found: dict[tuple[str, int], UsedGpu] = {}
    for process in holders:
        if not facts.is_seen_now(process):
            return None
        node = facts.nodes.get(process.node or "")
        for hold in process.gpus:
            gpu = _find_gpu(facts, node, hold.index)
            if node is None or gpu is None:
                return None
            if hold.memory is None and not node.probed:
                continue  # Ray's agent also lists who used a GPU a moment ago
            does = _activity(gpu, marks)
            if does is None or does == "works":
                return None
            found[process.node or "", hold.index] = UsedGpu(node, gpu, process, does)
    return list(found.values())


def _marks(facts: Facts, job: Job) -> Marks:
    hung, power = facts.was_found("job-hung", _subject(job)), facts.limits.spin_power
    if hung:
        return Marks(IDLE_CLEAR_PERCENT, SPIN_CLEAR_PERCENT, power * SPIN_POWER_CLEAR_FACTOR)
    return Marks(IDLE_CLEAR_PERCENT if facts.was_found("job-stalled", _subject(job)) else IDLE_PERCENT, SPIN_PERCENT, power)


def _find_gpu(facts: Facts, node: Node | None, index: int) -> Gpu | None:
    gpus = (facts.machine(node).gpus if node else None) or ()
    if 0 <= index < len(gpus) and gpus[index].index == index:
        return gpus[index]
    return next((gpu for gpu in gpus if gpu.index == index), None)


def _activity(gpu: Gpu, marks: Marks) -> Does | None:
    """`None`: unknown. A GPU with an unknown power limit counts as working."""
    if gpu.fault:
        return "lost"
    rate = gpu.utilization
    if rate is None or not 0 <= rate <= 100:
        return None
    if rate <= marks.idle:
        return "idle"
    return "spins" if rate >= marks.spins and _power_share(gpu) < marks.power else "works"


def _power_share(gpu: Gpu) -> float:
    """Of its power limit, what it draws; all of it where that is not known. Without a probe its name tells of the limit."""
    power, limit = _plausible_watts(gpu) or 0.0, gpu.power_limit or most_watts(gpu.name) or 0.0
    return power / limit if power > 0 and 0 < limit <= MAX_WATTS else 1.0


@lru_cache(maxsize=64)
def most_watts(name: str | None) -> float | None:
    """The most that a GPU draws, by its name: for nodes that no probe looks at, where Ray's agent tells of power and of no limit.

    The first line all of whose words are in the name; `None` for others, and for parts of a GPU.
    """
    words = frozenset(re.split(r"[\s-]+", (name or "").upper()))
    return None if "MIG" in words else next((watts for all_, watts in _WATTS if all_ <= words), None)


def _plausible_watts(gpu: Gpu) -> float | None:
    return gpu.power if gpu.power is not None and 0 <= gpu.power <= MAX_WATTS else None


def _has_unknown_work(facts: Facts, job: str, used: Sequence[UsedGpu], busy: Collection[str]) -> bool:
    """Whether a GPU works for a process of no known job, on a node where this job has processes."""
    return bool(busy) and (
        any(each.node.id in busy for each in used)
        or any(actor.job == job and actor.node in busy for actor in facts.snapshot.actors or ())
    )  # fmt: skip


def _nodes_with_unknown_work(facts: Facts) -> frozenset[str]:
    """Nodes on which a GPU works for a process of no known job: an engine that an actor has started is one, where no probe looks."""
    return frozenset(
        one.node
        for one in facts.snapshot.processes or ()
        if one.kind == "unknown" and one.job is None and one.node and any(_is_working(facts, one, hold.index) for hold in one.gpus)
    )


def _is_working(facts: Facts, process: Process, index: int) -> bool:
    gpu = _find_gpu(facts, facts.nodes.get(process.node or ""), index)
    return gpu is not None and (gpu.utilization or 0) > IDLE_PERCENT and _power_share(gpu) > facts.limits.spin_power


def _describe_stall(facts: Facts, job: Job, used: Sequence[UsedGpu]) -> Stall:
    """How long it has been like this, by facts that were fresh; memory that changes is a sign of life where GPUs are at 100 %."""
    memory = sum(each.gpu.memory_used or 0 for each in used)
    spins = any(each.does == "spins" for each in used)
    lasted = facts.seconds_lasting(f"gpus spin at {memory}" if spins else "gpus idle", job.key)
    seen = facts.oldest_stale({each.node.id: each.node for each in used}.values())
    behind = facts.now - seen if seen is not None else 0.0
    return Stall(job, used, facts.now - lasted, max(0.0, lasted - behind), _log_silence(facts, job), seen)


def _log_silence(facts: Facts, job: Job) -> float | None:
    """Of hosts whose probes have fallen silent themselves nothing is known."""
    told = [
        max(0.0, facts.now - wrote)
        for host in facts.snapshot.hosts.values()
        for wrote in [host.wrote.get(facts.snapshot.cluster.session or "", {}).get(job.submission or "")]
        if wrote is not None
        and 0 < wrote <= facts.now + STALE_AFTER_S
        and host.taken is not None
        and facts.now - host.taken <= STALE_AFTER_S
    ]
    return min(told, default=None)


def _stall_findings(facts: Facts, stall: Stall) -> Iterator[Finding]:
    """Where the log is silent too, the shorter of both counts; where it isn't, or can't be seen, much longer."""
    limits, lasted, silent = facts.limits, stall.lasted, stall.silent
    both = min(lasted, silent) if silent is not None else 0.0
    level: Level | None = None
    if both >= limits.idle_for or (silent is None and lasted >= limits.idle_unheard):
        level = "warning"
    elif both >= limits.idle_for / 2 or lasted >= limits.idle_unheard:
        level = "info"
    job, idle = stall.job, stall.those("idle")
    if not level or not idle:
        return
    held = sum(min(max(0, each.gpu.memory_used or 0), each.gpu.memory_total or 0) for each in idle)
    yield Finding(
        code="job-stalled",
        level=level,
        subject=_subject(job),
        text=f"{_all_words(stall.used)} of {_subject(job)} {'have' if len(stall.used) > 1 else 'has'} been at "
        f"{max(each.gpu.utilization or 0 for each in idle):.0f}% for {age(lasted)}, with {size(held)} of memory in use{_log_words(stall)}",
        evidence=(*_node_lines(stall.used), *_log_line(stall)),
        since=stall.since,
        remedy=Remedy(
            "find what it waits for: read the end of its log and the stacks of its processes (`py-spy dump --pid PID`); "
            "loading a model, saving a checkpoint or scoring on another host looks the same; if it hangs, stop it and start it again",
            "stop-job",
        ),
        about=(job.key,),
        seen=stall.seen,
    )


def _hang_findings(facts: Facts, stall: Stall) -> Iterator[Finding]:
    """GPUs that wait for each other. One alone has nobody to wait for."""
    job, spins, lasted, silent, least = stall.job, stall.those("spins"), stall.lasted, stall.silent, facts.limits.spin_for
    if len(stall.used) < 2:
        return
    quiet = silent is not None and silent >= least
    doubtful = not quiet and (silent is not None or (len(spins) == 1 and len(stall.used) > 2))
    if lasted < least * (DOUBT_FACTOR if doubtful else 1):
        return
    odd = _odd_gpus(stall)
    most = max(_plausible_watts(each.gpu) or 0 for each in spins)
    number = _all_words(spins) if len(spins) == len(stall.used) else f"{len(spins)} of {plural(len(stall.used), 'GPU')}"
    have, wait = ("have", "they wait") if len(spins) > 1 else ("has", "it waits")
    suspect = f"; different from the others: {', '.join(each.text for each in odd)}" if odd else ""
    yield Finding(
        code="job-hung",
        level="critical" if lasted >= 2 * least and not doubtful else "warning",
        subject=_subject(job),
        text=f"{number} of {_subject(job)} {have} been at 100% with at most {most:.0f} W for {age(lasted)}: {wait} for other ranks, "
        f"as in a hung NCCL collective{suspect}{_log_words(stall)}",
        evidence=(*(f"different from the others: {_gpu_line(each)}" for each in odd), *_node_lines(stall.used), *_log_line(stall)),
        since=stall.since,
        remedy=Remedy(
            "compare the stacks of its ranks (`py-spy dump --pid PID`), first the rank whose GPU differs, and search for "
            "Xid errors on its host (`dmesg | grep -i xid`); then stop the job and start it from its last checkpoint",
            "stop-job",
        ),
        about=(job.key, *dict.fromkeys(each.process.key for each in odd)),
        seen=stall.seen,
    )


def _odd_gpus(stall: Stall) -> list[UsedGpu]:
    """The few that do what the others don't, or do it with another power."""
    most = max(1, len(stall.used) // GPUS_PER_ODD_ONE)
    spins = stall.those("spins")
    others = [each for each in stall.used if each.does != "spins"]
    if few := next((few for few in (others, spins) if 0 < len(few) <= most and len(few) * 2 < len(stall.used)), None):
        return few
    powers = [power for each in spins if (power := _plausible_watts(each.gpu)) is not None]
    if others or len(powers) < 3:  # of two nobody knows which is the odd one
        return []
    usual = median(powers)
    apart = [each for each in spins if (power := _plausible_watts(each.gpu)) is not None and abs(power - usual) > ODD_POWER_SHARE * usual]
    return apart if len(apart) <= most else []


def _subject(job: Job) -> str:
    return f"job {clean(job.id)[:80]}"


def _all_words(used: Sequence[UsedGpu]) -> str:
    return {1: "The only GPU", 2: "Both GPUs"}.get(len(used), f"All {len(used)} GPUs")


def _log_words(stall: Stall) -> str:
    if stall.silent is None:
        return "; whether its log still grows is unknown"
    return f", and its log has not grown for {age(stall.silent)}" if stall.silent >= stall.lasted / 2 else "; its log still grows"


def _log_line(stall: Stall) -> tuple[str, ...]:
    if stall.silent is None:
        return ()
    return (f"job-driver-{clean(stall.job.submission or '')[:80]}.log was last written {age(stall.silent)} ago",)


def _node_lines(used: Sequence[UsedGpu]) -> tuple[str, ...]:
    nodes = group_by(used, lambda each: each.node.key)
    told = tuple(_node_line(each) for each in list(nodes.values())[:MAX_EVIDENCE_LINES])
    return told if len(nodes) <= MAX_EVIDENCE_LINES else (*told, f"the same on {plural(len(nodes) - MAX_EVIDENCE_LINES, 'more node')}")


def _node_line(used: Sequence[UsedGpu]) -> str:
    powers = [power for each in used if (power := _plausible_watts(each.gpu)) is not None]
    watts = f", {number_range(powers)} W" if powers else ""
    gpus = ", ".join(gpu.label for gpu in sorted((each.gpu for each in used), key=lambda gpu: gpu.index))
    return f"{used[0].node.title} GPU {gpus}: {_percent_range(used)}{watts} (`nvidia-smi`)"


def _percent_range(used: Sequence[UsedGpu]) -> str:
    rates = [each.gpu.utilization for each in used if each.does != "lost" and each.gpu.utilization is not None]
    return f"{number_range(rates)}%" if rates else "lost"


def number_range(values: Sequence[float]) -> str:
    """`0-3`; one number where they are the same."""
    return "-".join(dict.fromkeys((f"{min(values):.0f}", f"{max(values):.0f}")))


def _gpu_line(used: UsedGpu) -> str:
    gpu, process = used.gpu, used.process
    watts = f", {power:.0f} W" if (power := _plausible_watts(gpu)) is not None else ""
    return f"{used.text}: {_percent_range((used,))}{watts}, pid {process.pid} {clean(whole_name(process))[:60]}".rstrip()
