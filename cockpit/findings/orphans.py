"""GPU memory held by orphan and stale processes."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.findings.facts import Facts
from cockpit.model import LEFT_OVER, Finding, Gpu, Process, Remedy
from cockpit.text import age, clean, plural, size

CODE = "gpu-memory-orphaned"


def orphaned_memory(facts: Facts) -> Iterator[Finding]:
    """Orphans and stale Ray processes that hold GPU memory, by node."""
    orphaned: dict[str, list[Process]] = {}
    for process in facts.snapshot.processes or ():
        if process.kind in LEFT_OVER and process.gpus:
            orphaned.setdefault(facts.place(process), []).append(process)
    for place, left in orphaned.items():
        lasted = facts.seconds_lasting(CODE, place)
        if lasted >= facts.limits.orphan_age and not facts.has_job_just_ended(facts.limits.orphan_age):
            yield _finding(facts, place, sorted(left, key=lambda process: -(process.gpu_memory or 0)))


def _finding(facts: Facts, place: str, left: list[Process]) -> Finding:
    since = facts.first_seen(CODE, place)
    known = [amount for process in left for hold in process.gpus if (amount := _plausible(hold.memory)) is not None]
    gpus = sorted({hold.index for process in left for hold in process.gpus})
    held = f"{size(sum(known))} of GPU memory" if known else "GPU memory"
    return Finding(
        code=CODE,
        level="critical" if len(gpus) > 1 else "warning",
        subject=place,
        text=f"{plural(len(left), 'orphan process holds', 'orphan processes hold')} {held} on {_gpus_words(place, gpus)}: "
        f"{_cause(facts, left)} and nothing alive owns {'it' if len(left) == 1 else 'them'}",
        evidence=(
            *map(_process_line, left),
            *([f"the memory has been held for at least {age(facts.now - since)}"] if since is not None else []),
        ),
        since=since,
        remedy=Remedy(
            f"end {'it' if len(left) == 1 else 'them'}: no live process needs {'it' if len(left) == 1 else 'them'}", "kill-orphans"
        ),
        about=tuple(process.key for process in left),
        seen=facts.stale_since(left[0].host),
    )


def _gpus_words(place: str, indices: list[int]) -> str:
    labels = ", ".join(map(_gpu_label, indices))
    return f"{place} GPU {labels}" if len(indices) == 1 else f"{len(indices)} GPUs of {place} ({labels})"


def _cause(facts: Facts, left: list[Process]) -> str:
    """Their job where they have the same, and Ray says that it is over."""
    ids = {process.job for process in left}
    job = facts.jobs.get(ids.pop() or "") if len(ids) == 1 else None
    if job is None or job.running:
        return f"{'its' if len(left) == 1 else 'their'} job or Ray has ended"
    ago = f" {age(facts.now - job.ended)} ago" if job.ended is not None and job.ended <= facts.now else ""
    return f"job {job.id} {job.status or 'is over'}{ago}"


def _process_line(process: Process) -> str:
    where = ", ".join(f"GPU {_gpu_label(hold.index)}: {size(_plausible(hold.memory))}" for hold in process.gpus)
    name = clean(process.name or process.command or "")
    return f"pid {process.pid} ({process.kind}) {name} holds {where}: {clean('; '.join(process.why))}"


def _gpu_label(index: int) -> str:
    return Gpu(index).label


def _plausible(memory: int | None) -> int | None:
    return memory if memory is None or memory >= 0 else None
