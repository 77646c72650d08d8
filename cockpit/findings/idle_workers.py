"""Workers of Ray that have no task and still hold GPU memory: Ray counts what they hold as free."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cockpit.findings.facts import Facts
from cockpit.model import Finding, Gpu, Level, Process, Remedy
from cockpit.text import age, clean, plural, size

CODE = "gpu-memory-idle-worker"
TITLE = "ray::IDLE"
"""What Ray calls a worker without a task, in its title; an actor keeps its own."""
CLEAR_FACTOR = 0.75
"""Of the memory at which it begins: where it ends."""
MAX_EVIDENCE_LINES = 8


def idle_workers(facts: Facts) -> Iterator[Finding]:
    """Those that have been idle for long, by node. Of a host without a probe no titles are known."""
    found: dict[str, list[Process]] = {}
    for process in facts.snapshot.processes or ():
        if process.gpus and _is_idle_worker(process):
            lasted = facts.seconds_lasting(CODE, process.key)
            if lasted >= facts.limits.idle_worker_age or facts.is_single_look:
                found.setdefault(facts.place(process), []).append(process)
    for place, idle in found.items():
        if facts.is_over_mark(sum(map(_held, idle)), mark := facts.limits.idle_worker_memory, CLEAR_FACTOR * mark, CODE, place):
            yield _idle_finding(facts, place, sorted(idle, key=lambda process: -_held(process)))


def _is_idle_worker(process: Process) -> bool:
    title = (process.command or process.name or "").split(maxsplit=1)
    return process.kind == "worker" and process.actor is None and process.ours is not False and title[:1] == [TITLE]


def _held(process: Process) -> int:
    return sum(max(0, hold.memory or 0) for hold in process.gpus)


def _idle_finding(facts: Facts, place: str, idle: Sequence[Process]) -> Finding:
    labels = [Gpu(index).label for index in sorted({hold.index for process in idle for hold in process.gpus})]
    since = [moment for process in idle if (moment := facts.first_seen(CODE, process.key)) is not None]
    level: Level = "info" if facts.is_single_look else "warning"  # a worker that was seen once may get its next task in a moment
    lasting = f" for at least {age(facts.now - max(since))}" if since else ""
    return Finding(
        code=CODE,
        level=level,
        subject=place,
        text=f"{plural(len(idle), 'idle Ray worker holds', 'idle Ray workers hold')} {size(sum(map(_held, idle)))} of GPU memory on "
        f"{plural(len(labels), 'GPU')} of {place} ({', '.join(labels)}){lasting}, though no task of theirs runs",
        evidence=tuple(_worker_line(facts, process) for process in idle[:MAX_EVIDENCE_LINES]),
        since=min(since, default=None),
        remedy=Remedy(
            "end them: without a task nothing is lost, and Ray starts new workers when it needs them; so that it doesn't come again, "
            "declare num_gpus for the tasks that use a GPU (then Ray ends the worker after the task, unless max_calls=0 is set), or set "
            "max_calls=1",
            "kill",
        ),
        about=tuple(process.key for process in idle),
        seen=facts.stale_since(idle[0].host),
    )


def _worker_line(facts: Facts, process: Process) -> str:
    where = ", ".join(f"GPU {Gpu(hold.index).label}: {size(hold.memory)}" for hold in process.gpus)
    job = f" of job {clean(facts.job_title(process.job))}" if process.job else ""
    began = f", started {age(facts.now - process.started)} ago" if process.started is not None else ""
    since = facts.first_seen(CODE, process.key)
    idle = f", idle for at least {age(facts.now - since)}" if since is not None else ""
    return f"pid {process.pid} {TITLE}{job} holds {where}{began}{idle} (`nvidia-smi`, `ps -fp {process.pid}`)"
