"""GPU memory held by processes that do nothing with it: orphans, stale processes of Ray's, and Ray workers that have no task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cockpit.alike import group_by
from cockpit.findings.facts import Facts
from cockpit.findings.sources import rests_on
from cockpit.model import Finding, Gpu, Process, Remedy
from cockpit.model.titles import whole_name
from cockpit.text import age, clean, plural, size

ORPHANED_CODE, IDLE_CODE = "gpu-memory-orphaned", "gpu-memory-idle-worker"
IDLE_TITLE = "ray::IDLE"
"""What Ray calls a worker without a task, in its title; an actor keeps its own."""
CLEAR_FACTOR = 0.75
"""Of the memory of idle workers at which it begins: where it ends."""
MAX_EVIDENCE_LINES = 8


@rests_on("nvml", "processes")
def orphaned_memory(facts: Facts) -> Iterator[Finding]:
    """Orphans and stale Ray processes that hold GPU memory, by node."""
    left = (process for process in facts.snapshot.processes or () if process.left_over and process.gpus)
    for place, orphans in group_by(left, facts.place).items():
        lasted = facts.seconds_lasting(ORPHANED_CODE, place)
        if lasted >= facts.limits.orphan_age and not facts.has_job_just_ended(facts.limits.orphan_age):
            yield _orphan_finding(facts, place, sorted(orphans, key=lambda process: -(process.gpu_memory or 0)))


def _orphan_finding(facts: Facts, place: str, orphans: Sequence[Process]) -> Finding:
    since = facts.first_seen(ORPHANED_CODE, place)
    known = [hold.memory for process in orphans for hold in process.gpus if hold.memory is not None and hold.memory >= 0]
    labels = _labels(orphans)
    held = f"{size(sum(known))} of GPU memory" if known else "GPU memory"
    gpus = f"{place} GPU {labels[0]}" if len(labels) == 1 else f"{len(labels)} GPUs of {place} ({', '.join(labels)})"
    them = "it" if len(orphans) == 1 else "them"
    return Finding(
        code=ORPHANED_CODE,
        level="critical" if len(labels) > 1 else "warning",
        subject=place,
        text=f"{plural(len(orphans), 'orphan process holds', 'orphan processes hold')} {held} on {gpus}: "
        f"{_cause(facts, orphans)} and nothing alive owns {them}",
        evidence=(
            *map(_orphan_line, orphans),
            *([f"the memory has been held for at least {age(facts.now - since)}"] if since is not None else []),
        ),
        since=since,
        remedy=Remedy(f"kill {them}: no live process needs {them}", "kill-orphans"),
        about=tuple(process.key for process in orphans),
        seen=facts.stale_since(orphans[0].host),
    )


def _labels(processes: Sequence[Process]) -> list[str]:
    return [Gpu(index).label for index in sorted({hold.index for process in processes for hold in process.gpus})]


def _cause(facts: Facts, orphans: Sequence[Process]) -> str:
    """Their job where they have the same, and Ray says that it is over."""
    ids = {process.job for process in orphans}
    job = facts.jobs.get(ids.pop() or "") if len(ids) == 1 else None
    if job is None or job.running:
        return f"{'its' if len(orphans) == 1 else 'their'} job or Ray has ended"
    ago = f" {age(facts.now - job.ended)} ago" if job.ended is not None and job.ended <= facts.now else ""
    return f"job {job.id} {job.status or 'ended'}{ago}"


def _orphan_line(process: Process) -> str:
    name, why = clean(whole_name(process))[:80], clean("; ".join(process.why))
    return f"pid {process.pid} ({process.kind}) {name} holds {_held_words(process)}: {why}"


def _held_words(process: Process) -> str:
    amounts = ((Gpu(hold.index).label, hold.memory) for hold in process.gpus)
    return ", ".join(f"GPU {label}: {size(None if memory is None or memory < 0 else memory)}" for label, memory in amounts)


@rests_on("nvml", "processes")
def idle_workers(facts: Facts) -> Iterator[Finding]:
    """Those that have been idle for long, by node: Ray counts what they hold as free. Of a host without a probe no titles are known."""
    idle = (process for process in facts.snapshot.processes or () if process.gpus and _is_idle_worker(process))
    lasting = (one for one in idle if facts.seconds_lasting(IDLE_CODE, one.key) >= facts.limits.idle_worker_age or facts.is_single_look)
    mark = facts.limits.idle_worker_memory
    for place, workers in group_by(lasting, facts.place).items():
        if facts.is_over_mark(sum(map(_sum_memory, workers)), mark, CLEAR_FACTOR * mark, IDLE_CODE, place):
            yield _idle_finding(facts, place, sorted(workers, key=lambda process: -_sum_memory(process)))


def _is_idle_worker(process: Process) -> bool:
    title = (process.command or process.name or "").split(maxsplit=1)
    return process.kind == "worker" and process.actor is None and process.ours is not False and title[:1] == [IDLE_TITLE]


def _sum_memory(process: Process) -> int:
    return sum(max(0, hold.memory or 0) for hold in process.gpus)


def _idle_finding(facts: Facts, place: str, idle: Sequence[Process]) -> Finding:
    labels = _labels(idle)
    since = [moment for process in idle if (moment := facts.first_seen(IDLE_CODE, process.key)) is not None]
    lasting = f" for at least {age(facts.now - max(since))}" if since else ""
    return Finding(
        code=IDLE_CODE,
        level="info" if facts.is_single_look else "warning",  # a worker that was seen once may get its next task in a moment
        subject=place,
        text=f"{plural(len(idle), 'idle Ray worker holds', 'idle Ray workers hold')} {size(sum(map(_sum_memory, idle)))} of GPU memory on "
        f"{plural(len(labels), 'GPU')} of {place} ({', '.join(labels)}){lasting}; no task runs in {'it' if len(idle) == 1 else 'them'}",
        evidence=tuple(_worker_line(facts, process) for process in idle[:MAX_EVIDENCE_LINES]),
        since=min(since, default=None),
        remedy=Remedy(
            "kill them: without a task nothing is lost, and Ray starts new workers when it needs them; to prevent this, "
            "declare num_gpus for the tasks that use a GPU (then Ray stops the worker after the task, unless max_calls=0 is set), or set "
            "max_calls=1",
            "kill",
        ),
        about=tuple(process.key for process in idle),
        seen=facts.stale_since(idle[0].host),
    )


def _worker_line(facts: Facts, process: Process) -> str:
    job = f" of job {clean(facts.job_title(process.job))}" if process.job else ""
    began = f", started {age(facts.now - process.started)} ago" if process.started is not None else ""
    since = facts.first_seen(IDLE_CODE, process.key)
    idle = f", idle for at least {age(facts.now - since)}" if since is not None else ""
    return f"pid {process.pid} {IDLE_TITLE}{job} holds {_held_words(process)}{began}{idle} (`nvidia-smi`, `ps -fp {process.pid}`)"
