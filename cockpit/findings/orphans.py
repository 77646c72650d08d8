"""GPU memory that is held by what Ray has left behind."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.findings.facts import Facts
from cockpit.model import LEFT_OVER, Finding, Gpu, Process, Remedy
from cockpit.text import age, clean, plural, size


def orphaned_memory(facts: Facts) -> Iterator[Finding]:
    """Orphans and stale Ray processes that hold GPU memory, by host."""
    orphaned: dict[str, list[Process]] = {}
    for process in facts.snapshot.processes or ():
        if process.kind in LEFT_OVER and process.gpus:
            orphaned.setdefault(process.host, []).append(process)
    for host, left in orphaned.items():
        lasted = facts.lasts("gpu-memory-orphaned", host)
        if lasted >= facts.limits.orphan_age and not facts.just_ended(facts.limits.orphan_age):
            yield _finding(facts, host, sorted(left, key=lambda process: -(process.gpu_memory or 0)), lasted)


def _finding(facts: Facts, host: str, left: list[Process], lasted: float) -> Finding:
    known = [amount for process in left for hold in process.gpus if (amount := _sound(hold.memory)) is not None]
    gpus = sorted({hold.index for process in left for hold in process.gpus})
    held = f"{size(sum(known))} of GPU memory" if known else "GPU memory"
    return Finding(
        code="gpu-memory-orphaned",
        level="critical" if len(gpus) > 1 else "warning",
        subject=host,
        text=f"{held} on {plural(len(gpus), 'GPU')} of {host} ({', '.join(map(_label, gpus))}) is held "
        f"by {plural(len(left), 'process', 'processes')} that no live Ray owns, for at least {age(lasted)}",
        evidence=tuple(map(_line, left)),
        since=facts.now - lasted,
        remedy=Remedy("end them: nothing that lives needs them", "kill-orphans"),
        about=tuple(process.key for process in left),
        seen=facts.old(host),
    )


def _line(process: Process) -> str:
    where = ", ".join(f"GPU {_label(hold.index)}: {size(_sound(hold.memory))}" for hold in process.gpus)
    name = clean(process.name or process.command or "")
    return f"pid {process.pid} ({process.kind}) {name} holds {where}: {clean('; '.join(process.why))}"


def _label(index: int) -> str:
    return Gpu(index).label


def _sound(memory: int | None) -> int | None:
    return memory if memory is None or memory >= 0 else None
