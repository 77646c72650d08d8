"""GPU memory that is held by what Ray has left behind."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.findings.facts import Facts
from cockpit.model import Finding, Process, Remedy
from cockpit.text import plural, size


def orphaned_memory(facts: Facts) -> Iterator[Finding]:
    """Orphans and stale Ray processes that hold GPU memory, by host."""
    for host, processes in facts.processes.items():
        left = [process for process in processes if process.left_over and process.gpus]
        if left and facts.lasts("gpu-memory-orphaned", host) >= facts.limits.orphan_age:
            yield _finding(host, sorted(left, key=lambda process: -(process.gpu_memory or 0)))


def _finding(host: str, left: list[Process]) -> Finding:
    known = [process.gpu_memory for process in left if process.gpu_memory is not None]
    gpus = sorted({hold.index for process in left for hold in process.gpus})
    held = f"{size(sum(known))} of GPU memory" if known else "GPU memory"
    return Finding(
        code="gpu-memory-orphaned",
        level="critical" if len(gpus) > 1 else "warning",
        subject=host,
        text=f"{held} on {plural(len(gpus), 'GPU')} of {host} ({', '.join(map(str, gpus))}) is held by {plural(len(left), 'process')} "
        "that no live Ray owns",
        evidence=tuple(map(_line, left)),
        remedy=Remedy("end them: nothing that lives needs them", "kill-orphans"),
        about=tuple(process.key for process in left),
    )


def _line(process: Process) -> str:
    where = ", ".join(f"GPU {hold.index}: {size(hold.memory)}" for hold in process.gpus)
    return f"pid {process.pid} ({process.kind}) {process.name or process.command or ''} holds {where}: {'; '.join(process.why)}"
