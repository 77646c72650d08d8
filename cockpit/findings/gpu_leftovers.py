"""Detects GPU memory held by orphans, stale Ray processes, and idle Ray workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cockpit.findings.facts import Facts
from cockpit.findings.sources import rests_on
from cockpit.model import Finding, Gpu, Level, Process, Remedy
from cockpit.model.titles import whole_name
from cockpit.text import age, clean, plural, size
from cockpit.text.grouping import group_by

ORPHANED_CODE, IDLE_CODE = "gpu-memory-orphaned", "gpu-memory-idle-worker"
IDLE_TITLE = "ray::IDLE"
"""Process title of a Ray worker without a task; an idle actor keeps its own title."""
CLEAR_FACTOR = 0.75
"""Share of the memory at which a finding about idle workers begins below which it ends."""
MAX_EVIDENCE_LINES = 8


@rests_on("nvml", "processes")
def orphaned_memory(facts: Facts) -> Iterator[Finding]:
    """Orphans and stale Ray processes that hold GPU memory, by node."""
    left = (process for process in facts.snapshot.processes or () if process.left_over and process.gpus)
    for place, orphans in group_by(left, facts.place).items():
        lasted = facts.seconds_lasting(ORPHANED_CODE, place)
        if lasted < facts.limits.orphan_age or facts.has_job_just_ended(facts.limits.orphan_age):
            continue
        orphans.sort(key=lambda process: -(process.gpu_memory or 0))
        since = facts.first_seen(ORPHANED_CODE, place)
        known = [hold.memory for process in orphans for hold in process.gpus if hold.memory is not None and hold.memory >= 0]
        labels = _labels(orphans)
        held = f"{size(sum(known))} of GPU memory" if known else "GPU memory"
        gpus = f"{place} GPU {labels[0]}" if len(labels) == 1 else f"{len(labels)} GPUs of {place} ({', '.join(labels)})"
        them, their = ("it", "its") if len(orphans) == 1 else ("them", "their")

        # The cause: the job of all of them, if Ray says that it has ended.
        cause, ids = f"{their} job or Ray has ended", {process.job for process in orphans}
        job = facts.index.jobs.get(ids.pop() or "") if len(ids) == 1 else None
        if job is not None and not job.running:
            ago = f" {age(facts.now - job.ended)} ago" if job.ended is not None and job.ended <= facts.now else ""
            cause = f"job {job.id} {job.status or 'ended'}{ago}"

        evidence: list[str] = []
        for process in orphans:
            name, why = clean(whole_name(process))[:80], clean("; ".join(process.why))
            evidence.append(f"pid {process.pid} ({process.kind}) {name} holds {_held_words(process)}: {why}")
        if since is not None:
            evidence.append(f"the memory has been held for at least {age(facts.now - since)}")
        hold = plural(len(orphans), "orphan process holds", "orphan processes hold")
        text = f"{hold} {held} on {gpus}: {cause} and nothing alive owns {them}"
        level: Level = "critical" if len(labels) > 1 else "warning"
        remedy = Remedy(f"kill {them}: no live process needs {them}", "kill-orphans")
        about, seen = tuple(process.key for process in orphans), facts.stale_since(orphans[0].host)
        yield Finding(ORPHANED_CODE, level, place, text, tuple(evidence), since, remedy, about, seen)


def _labels(processes: Sequence[Process]) -> list[str]:
    return [Gpu(index).label for index in sorted({hold.index for process in processes for hold in process.gpus})]


def _held_words(process: Process) -> str:
    amounts = ((Gpu(hold.index).label, hold.memory) for hold in process.gpus)
    return ", ".join(f"GPU {label}: {size(None if memory is None or memory < 0 else memory)}" for label, memory in amounts)


@rests_on("nvml", "processes")
def idle_workers(facts: Facts) -> Iterator[Finding]:
    """Ray workers that have been idle for long, by node: Ray counts their GPU memory as free. Titles are known only with a probe."""
    mark = facts.limits.idle_worker_memory
    lasting: list[Process] = []
    for process in facts.snapshot.processes or ():
        if process.kind == "worker" and process.gpus and process.actor is None and process.ours is not False:
            title = (process.command or process.name or "").split(maxsplit=1)
            is_idle = title[:1] == [IDLE_TITLE]
            if is_idle and (facts.seconds_lasting(IDLE_CODE, process.key) >= facts.limits.idle_worker_age or facts.is_single_sample):
                lasting.append(process)
    for place, workers in group_by(lasting, facts.place).items():
        total = sum(map(_sum_memory, workers))
        if not facts.is_over_mark(total, mark, CLEAR_FACTOR * mark, IDLE_CODE, place):
            continue
        workers.sort(key=lambda process: -_sum_memory(process))
        labels = _labels(workers)
        since = [moment for process in workers if (moment := facts.first_seen(IDLE_CODE, process.key)) is not None]
        lasting_words = f" for at least {age(facts.now - max(since))}" if since else ""
        text = (
            f"{plural(len(workers), 'idle Ray worker holds', 'idle Ray workers hold')} {size(total)} of GPU memory on "
            f"{plural(len(labels), 'GPU')} of {place} ({', '.join(labels)}){lasting_words}; "
            f"no task runs in {'it' if len(workers) == 1 else 'them'}"
        )
        evidence: list[str] = []
        for process in workers[:MAX_EVIDENCE_LINES]:
            job = f" of job {clean(facts.job_title(process.job))}" if process.job else ""
            began = f", started {age(facts.now - process.started)} ago" if process.started is not None else ""
            first = facts.first_seen(IDLE_CODE, process.key)
            idle = f", idle for at least {age(facts.now - first)}" if first is not None else ""
            held = f"pid {process.pid} {IDLE_TITLE}{job} holds {_held_words(process)}"
            evidence.append(f"{held}{began}{idle} (`nvidia-smi`, `ps -fp {process.pid}`)")
        remedy = Remedy(
            "kill them: without a task nothing is lost, and Ray starts new workers when it needs them; to prevent this, "
            "declare num_gpus for the tasks that use a GPU (then Ray stops the worker after the task, unless max_calls=0 is set), or "
            "set max_calls=1",
            "kill",
        )
        level: Level = "info" if facts.is_single_sample else "warning"  # a worker that was seen once may get its next task in a moment
        about, seen = tuple(process.key for process in workers), facts.stale_since(workers[0].host)
        yield Finding(IDLE_CODE, level, place, text, tuple(evidence), min(since, default=None), remedy, about, seen)


def _sum_memory(process: Process) -> int:
    return sum(max(0, hold.memory or 0) for hold in process.gpus)
