"""Detects jobs whose GPUs do no work: all of them are idle, or wait for each other at 100 % with little power."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from statistics import median
from typing import Literal

import msgspec

from cockpit.config.thresholds import STALE_AFTER_S
from cockpit.findings.facts import Facts
from cockpit.findings.failures import last_report, reason_of
from cockpit.findings.nccl import evidence_lines, find_report
from cockpit.findings.rank_words import phase_lines
from cockpit.findings.sources import rests_on
from cockpit.model import LEFT_OVER, Failure, Finding, Gpu, Job, Level, NcclReport, Node, Process, Remedy, Snapshot
from cockpit.model.titles import whole_name
from cockpit.text import age, clean, plural, size
from cockpit.text.grouping import group_by

IDLE_PERCENT, IDLE_CLEAR_PERCENT = 1.0, 5.0
"""Utilization up to which a GPU counts as idle; the second once it was found idle, so that a short use changes nothing."""
SPIN_PERCENT, SPIN_CLEAR_PERCENT = 95.0, 90.0
"""Utilization from which on a kernel runs all the time, perhaps one that waits; the second once the job was found hung."""
SPIN_POWER_CLEAR_FACTOR = 1.2
"""Factor on the power mark of a waiting GPU once the job was found hung."""
DOUBT_FACTOR = 3
"""Times as long as usual it must last if something speaks against a hang."""
GPUS_PER_ODD_ONE = 8
"""Of this many GPUs at most one counts as different from the others."""
ODD_POWER_SHARE = 0.25
"""Share of the others' median power by which the power of a different GPU deviates."""
MAX_WATTS = 100_000.0
"""More than any GPU draws: higher figures are wrong."""
PHASE_CODE = "phase-stuck"
STALL_CODES = ("job-stalled", "job-hung", PHASE_CODE)
MAX_EVIDENCE_LINES = 8
# Maximum or thermal design power from NVIDIA's data sheets and product briefs, by the names that NVML gives: briefs PB-11133-001
# (H100 PCIe), PB-10137-001 and PB-10577-001 (A100 PCIe), PB-08744-001 (V100 PCIe); data sheets for the others; B200 as in HGX servers.
# If a lower limit was set, a working GPU does not look idle: it still draws most of that limit.
_WATTS: tuple[tuple[frozenset[str], float], ...] = tuple(
    (frozenset(words.split()), watts)
    for words, watts in (
        ("B200", 1000), ("H200 NVL", 600), ("H200", 700), ("H100 PCIE", 350), ("H100 NVL", 400), ("H100 HBM3", 700), ("A100 SXM4", 400),
        ("A100 PCIE 80GB", 300), ("A100 PCIE 40GB", 250), ("L40S", 350), ("L40", 300), ("V100 SXM2", 300), ("V100 PCIE", 250),
    )
)  # fmt: skip

Activity = Literal["idle", "spins", "lost"]
"""`spins`: a kernel runs all the time with little power, so it probably waits."""


class UsedGpu(msgspec.Struct, frozen=True):
    """A GPU of a job."""

    node: Node
    gpu: Gpu
    process: Process
    activity: Activity

    @property
    def text(self) -> str:
        """`w1 GPU 3`."""
        return f"{self.node.title} GPU {self.gpu.label}"


class Stall(msgspec.Struct, frozen=True):
    """A job none of whose GPUs works."""

    job: Job
    used: Sequence[UsedGpu]
    since: float
    lasted: float
    """Seconds, without those in which its sources were silent."""
    silent: float | None
    """Seconds since its log was written to; `None` if unknown."""
    seen: float | None
    snapshot: Snapshot
    report: Failure | None = None
    """What its log last reported; `None`: it was not read."""
    nccl: NcclReport | None = None
    """What NCCL last reported about it; `None`: it was not asked."""

    def with_activity(self, activity: Activity) -> list[UsedGpu]:
        """Its GPUs with this activity."""
        return [used for used in self.used if used.activity == activity]

    def finding(self, code: str, level: Level, text: str, remedy: str, odd: Sequence[UsedGpu] = (), phase: Iterable[str] = ()) -> Finding:
        """A finding about the job; `odd`: its GPUs that differ from the others; `phase`: lines about its phase and ranks."""
        evidence = list(phase)
        for each in odd:
            name, power = clean(whole_name(each.process))[:60], _plausible_watts(each.gpu)
            watts = "" if power is None else f", {power:.0f} W"
            line = f"{each.text}: {_percent_range((each,))}{watts}, pid {each.process.pid} {name}".rstrip()
            evidence.append(f"different from the others: {line}")
        evidence += _node_lines(self.used)
        log = "; whether its log still grows is unknown"
        file = f"job-driver-{clean(self.job.submission or '')[:80]}.log"
        report = self.report
        if self.silent is not None:
            is_quiet = self.silent >= self.lasted / 2
            log = f", and its log has not grown for {age(self.silent)}" if is_quiet else "; its log still grows"
            if report is not None and report.repeats is not None and is_quiet:
                log = f", and its log has only repeated one line for {age(self.silent)}"
                evidence.append(f"{file} repeats: {report.repeats}")
            else:
                evidence.append(f"{file} was last written {age(self.silent)} ago")
        if report is not None and (reason := reason_of(report)):
            evidence += [f"its log last reported: {line}" for line in dict.fromkeys((reason, (report.text or reason).partition("\n")[0]))]
            if report.known is not None and not report.is_consequence:
                log += f"; its log last reported: {reason}"
        by_power = tuple(dict.fromkeys(each.process.key for each in odd))
        if self.nccl is not None and self.nccl.asked >= self.since:
            evidence += evidence_lines(self.nccl, self.snapshot, by_power, self.snapshot.taken)
        about = (self.job.key, *by_power)
        stop = Remedy(remedy, "stop-job")
        return Finding(code, level, job_subject(self.job), text + log, tuple(evidence), self.since, stop, about, self.seen)


@rests_on("ray.jobs", "nvml", "processes", "logs")
def stalled_jobs(facts: Facts) -> Iterator[Finding]:
    """Running jobs none of whose GPUs works. A single sample can't find them. For a working job few GPUs are read: the first decides."""
    if facts.is_single_sample:
        return
    working: frozenset[str] | None = None
    # Processes of silent hosts count too: the activity of their GPUs is unknown, and may be work.
    known = facts.known.processes or ()
    holding = (each for each in known if each.gpus and each.job and each.kind not in LEFT_OVER)
    for job_id, holders in group_by(holding, lambda process: process.job or "").items():
        job = facts.index.jobs.get(job_id)
        used = _used_gpus(facts, job, holders) if job and job.running else None
        if not job or not used:
            continue
        # A GPU may work for the job in a process of no known job, on a node where the job has processes.
        working = _nodes_with_unknown_work(facts) if working is None else working
        nodes = {each.node.id for each in used}
        nodes |= {actor.node for actor in facts.snapshot.actors or () if actor.job == job_id} if working else set()
        if working.isdisjoint(nodes):
            # Since when the GPUs have not worked. At 100 %, memory that changes is a sign of life.
            spins, memory = any(each.activity == "spins" for each in used), sum(each.gpu.memory_used or 0 for each in used)
            lasted = facts.seconds_lasting(f"gpus spin at {memory}" if spins else "gpus idle", job.key)
            seen = facts.oldest_stale({each.node.id: each.node for each in used}.values())
            behind = facts.now - seen if seen is not None else 0.0

            silent, report = seconds_silent(facts, job)
            stall = Stall(
                job,
                used,
                facts.now - lasted,
                max(0.0, lasted - behind),
                silent,
                seen,
                facts.snapshot,
                report,
                find_report(job, facts.snapshot),
            )
            if spins:
                yield from _hang_findings(facts, stall)
            elif not facts.was_found(PHASE_CODE, job_subject(job)):  # that finding says more about the same cause
                yield from _stall_findings(facts, stall)


def seconds_silent(facts: Facts, job: Job) -> tuple[float | None, Failure | None]:
    """For how long the job's log has been silent, `None` if unknown, and what it last reported.

    Probes that have fallen silent themselves know nothing about it.
    """
    folder, submission = facts.snapshot.cluster.session or "", job.submission or ""
    silences: list[float] = []
    for host in facts.fresh_hosts:
        wrote = host.wrote.get(folder, {}).get(submission)
        if wrote is not None and 0 < wrote <= facts.now + STALE_AFTER_S:
            silences.append(max(0.0, facts.now - wrote))
    # A log that only repeats a line, such as `GET /health`, grows although nothing happens.
    report = last_report(job.key, facts.snapshot)
    if report is not None and report.repeats_since is not None:
        silences = [max(min(silences, default=0.0), facts.now - report.repeats_since)]
    return min(silences, default=None), report


def does_a_gpu_work(facts: Facts, job: Job) -> bool:
    """Whether any GPU of the job is known to compute, as far as its last figures say: they may be old, as a reason against a claim."""
    use = facts.known.index.gpus_by_job.get(job.job or job.id)
    for place, index in use.places if use is not None else ():
        node = facts.known.index.nodes_by_key.get(place)
        gpu = next((gpu for gpu in (facts.known.index.machine(node).gpus if node else None) or () if gpu.index == index), None)
        if gpu is not None and IDLE_CLEAR_PERCENT < (gpu.utilization or 0.0) <= 100 and _power_share(gpu) >= facts.limits.spin_power:
            return True
    return False


def jobs_with_still_gpus(snapshot: Snapshot) -> Iterator[str]:
    """The keys of running jobs all of whose GPUs are known to do nothing now: their logs are worth a look before there is a finding."""
    busy: dict[str, bool] = {}
    for process in snapshot.processes or ():
        if not process.gpus or not process.job or process.kind in LEFT_OVER or busy.get(process.job):
            continue
        node = snapshot.index.nodes.get(process.node or "")
        gpus = {gpu.index: gpu for gpu in (snapshot.index.machine(node).gpus if node else None) or ()}
        found = [gpus.get(hold.index) for hold in process.gpus]
        busy[process.job] = not all(gpu is not None and _is_still(gpu) for gpu in found)
    for name, is_busy in busy.items():
        job = snapshot.index.jobs.get(name)
        if not is_busy and job is not None and job.running:
            yield job.key


def _is_still(gpu: Gpu) -> bool:
    if gpu.fault:
        return True
    return gpu.utilization is not None and (0 <= gpu.utilization <= IDLE_CLEAR_PERCENT or gpu.utilization >= SPIN_CLEAR_PERCENT)


def _used_gpus(facts: Facts, job: Job, holders: Iterable[Process]) -> list[UsedGpu] | None:
    """The job's GPUs; `None` as soon as one of them works, or its activity is unknown."""
    idle_percent, spin_percent, spin_power = IDLE_PERCENT, SPIN_PERCENT, facts.limits.spin_power
    if facts.was_found("job-hung", job_subject(job)):
        idle_percent, spin_percent, spin_power = IDLE_CLEAR_PERCENT, SPIN_CLEAR_PERCENT, spin_power * SPIN_POWER_CLEAR_FACTOR
    elif facts.was_found("job-stalled", job_subject(job)):
        idle_percent = IDLE_CLEAR_PERCENT
    found: dict[tuple[str, int], UsedGpu] = {}
    for process in holders:
        if not facts.is_seen_now(process):
            return None
        node = facts.index.nodes.get(process.node or "")
        for hold in process.gpus:
            gpu = find_gpu(facts, node, hold.index)
            if node is None or gpu is None:
                return None
            if hold.memory is None and not node.probed:
                continue  # Ray's agent also lists processes that used a GPU a moment ago
            activity: Activity
            if gpu.fault:
                activity = "lost"
            elif gpu.utilization is None or not 0 <= gpu.utilization <= 100:
                return None
            elif gpu.utilization <= idle_percent:
                activity = "idle"
            elif gpu.utilization >= spin_percent and _power_share(gpu) < spin_power:
                activity = "spins"
            else:
                return None
            found[process.node or "", hold.index] = UsedGpu(node, gpu, process, activity)
    return list(found.values())


def find_gpu(facts: Facts, node: Node | None, index: int) -> Gpu | None:
    """The node's GPU with this index; `None` if the node or the GPU is unknown."""
    gpus = facts.index.machine(node).gpus if node else None
    return next((gpu for gpu in gpus or () if gpu.index == index), None)


def _power_share(gpu: Gpu) -> float:
    """Its power as a share of its power limit; 1 if unknown. Without a probe the limit follows from its name."""
    power, limit = _plausible_watts(gpu) or 0.0, gpu.power_limit or most_watts(gpu.name) or 0.0
    return power / limit if power > 0 and 0 < limit <= MAX_WATTS else 1.0


@lru_cache(maxsize=64)
def most_watts(name: str | None) -> float | None:
    """The highest power of a GPU in watts, by its name: without a probe only Ray's agent reports power, and it reports no limit.

    The first line of the table all of whose words are in the name; `None` for unknown names, and for MIG devices.
    """
    words = frozenset(re.split(r"[\s-]+", (name or "").upper()))
    return None if "MIG" in words else next((watts for all_, watts in _WATTS if all_ <= words), None)


def _plausible_watts(gpu: Gpu) -> float | None:
    return gpu.power if gpu.power is not None and 0 <= gpu.power <= MAX_WATTS else None


def _nodes_with_unknown_work(facts: Facts) -> frozenset[str]:
    """Nodes on which a GPU works for a process of no known job, such as an engine that an actor started where no probe runs."""
    found: set[str] = set()
    for process in facts.snapshot.processes or ():
        if process.kind != "unknown" or process.job is not None or not process.node or process.node in found:
            continue
        for hold in process.gpus:
            gpu = find_gpu(facts, facts.index.nodes.get(process.node or ""), hold.index)
            if gpu is not None and (gpu.utilization or 0) > IDLE_PERCENT and _power_share(gpu) > facts.limits.spin_power:
                found.add(process.node)
    return frozenset(found)


def _stall_findings(facts: Facts, stall: Stall) -> Iterator[Finding]:
    """Idle GPUs. If the log is silent too, the shorter of both times counts; if it grows or can't be seen, it must last much longer."""
    limits, lasted, silent = facts.limits, stall.lasted, stall.silent
    both = min(lasted, silent) if silent is not None else 0.0
    level: Level | None = None
    if both >= limits.idle_for or (silent is None and lasted >= limits.idle_unheard):
        level = "warning"
    elif both >= limits.idle_for / 2 or lasted >= limits.idle_unheard:
        level = "info"
    idle = stall.with_activity("idle")
    if not level or not idle:
        return
    held = sum(min(max(0, each.gpu.memory_used or 0), each.gpu.memory_total or 0) for each in idle)
    busy = max(each.gpu.utilization or 0 for each in idle)
    have = f"{_all_words(stall.used)} of {job_subject(stall.job)} {'have' if len(stall.used) > 1 else 'has'}"
    remedy = (
        "find what it waits for: read the end of its log and the stacks of its processes (`py-spy dump --pid PID`); "
        "loading a model, saving a checkpoint or scoring on another host looks the same; if it hangs, stop it and start it again"
    )
    text = f"{have} been at {busy:.0f}% for {age(lasted)}, with {size(held)} of memory in use"
    yield stall.finding("job-stalled", level, text, remedy)


def _hang_findings(facts: Facts, stall: Stall) -> Iterator[Finding]:
    """GPUs that wait for each other. A single GPU has no other to wait for."""
    spins, lasted, silent, least = stall.with_activity("spins"), stall.lasted, stall.silent, facts.limits.spin_for
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
    text = (
        f"{number} of {job_subject(stall.job)} {have} been at 100% with at most {most:.0f} W for {age(lasted)}: {wait} for other ranks, "
        f"as in a hung NCCL collective{suspect}"
    )
    remedy = (
        "compare the stacks of its ranks (`py-spy dump --pid PID`), first the rank whose GPU differs, and search for "
        "Xid errors on its host (`dmesg | grep -i xid`); then stop the job and start it from its last checkpoint"
    )
    level: Level = "critical" if lasted >= 2 * least and not doubtful else "warning"
    yield stall.finding("job-hung", level, text, remedy, odd, phase_lines(facts, stall.job))


def _odd_gpus(stall: Stall) -> list[UsedGpu]:
    """The few GPUs whose activity or power differs from the others'."""
    most = max(1, len(stall.used) // GPUS_PER_ODD_ONE)
    spins = stall.with_activity("spins")
    others = [each for each in stall.used if each.activity != "spins"]
    if few := next((few for few in (others, spins) if 0 < len(few) <= most and len(few) * 2 < len(stall.used)), None):
        return few
    powers = [power for each in spins if (power := _plausible_watts(each.gpu)) is not None]
    if others or len(powers) < 3:  # of two GPUs either may be the different one
        return []
    usual = median(powers)
    apart = [each for each in spins if (power := _plausible_watts(each.gpu)) is not None and abs(power - usual) > ODD_POWER_SHARE * usual]
    return apart if len(apart) <= most else []


def job_subject(job: Job) -> str:
    """The subject of a finding about a job."""
    return f"job {clean(job.id)[:80]}"


def _all_words(used: Sequence[UsedGpu]) -> str:
    return {1: "The only GPU", 2: "Both GPUs"}.get(len(used), f"All {len(used)} GPUs")


def _node_lines(used: Sequence[UsedGpu]) -> list[str]:
    lines: list[str] = []
    nodes = list(group_by(used, lambda each: each.node.key).values())
    for here in nodes[:MAX_EVIDENCE_LINES]:
        powers = [power for each in here if (power := _plausible_watts(each.gpu)) is not None]
        watts = f", {number_range(powers)} W" if powers else ""
        gpus = ", ".join(gpu.label for gpu in sorted((each.gpu for each in here), key=lambda gpu: gpu.index))
        lines.append(f"{here[0].node.title} GPU {gpus}: {_percent_range(here)}{watts} (`nvidia-smi`)")
    if len(nodes) > MAX_EVIDENCE_LINES:
        lines.append(f"the same on {plural(len(nodes) - MAX_EVIDENCE_LINES, 'more node')}")
    return lines


def _percent_range(used: Sequence[UsedGpu]) -> str:
    rates = [each.gpu.utilization for each in used if each.activity != "lost" and each.gpu.utilization is not None]
    return f"{number_range(rates)}%" if rates else "lost"


def number_range(values: Sequence[float]) -> str:
    """`0-3`; a single number if both ends are the same."""
    return "-".join(dict.fromkeys((f"{min(values):.0f}", f"{max(values):.0f}")))
