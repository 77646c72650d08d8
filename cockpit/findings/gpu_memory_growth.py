"""GPU memory that grows until the GPU is full, told ahead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import msgspec

from cockpit.alike import group_by
from cockpit.findings.facts import Facts
from cockpit.findings.gpu_history import Growth, plausible_memory
from cockpit.findings.sources import rests_on
from cockpit.findings.trend import seconds_until
from cockpit.model import LEFT_OVER, Finding, Gpu, Hold, Node, Process, Remedy
from cockpit.model.titles import whole_name
from cockpit.text import age, clean, plural, size

CODE = "gpu-memory-grows"
MIN_USED_SHARE = 0.5
"""Of a GPU: what is below that can't be full as soon as it has taken to grow."""
CLEAR_FACTOR = 1.5
"""Times as far ahead as at its begin is it still told."""
MAX_EVIDENCE_LINES = 8
MAX_HOLDERS = 3

Holders = Sequence[tuple[Process, Hold]]


class GrowingGpu(msgspec.Struct, frozen=True):
    """A GPU that will be full, who holds it, and in how many seconds."""

    node: Node
    gpu: Gpu
    growth: Growth
    left: float
    holders: Holders

    @property
    def job(self) -> str | None:
        """That of who holds most."""
        return next((process.job for process, _ in self.holders if process.job), None)


@rests_on("nvml", "processes")
def growing_gpu_memory(facts: Facts) -> Iterator[Finding]:
    """One finding for each job, and for each node whose GPUs are held by nobody with a job. A single look can't tell."""
    for subject, gpus in group_by(_find_growing(facts), partial(_subject, facts)).items():
        gpus.sort(key=lambda each: each.left)
        mark = facts.limits.gpu_memory_forecast * (CLEAR_FACTOR if facts.was_found(CODE, subject) else 1)
        if gpus[0].left <= mark:
            yield _growth_finding(facts, subject, [each for each in gpus if each.left <= mark])


def _find_growing(facts: Facts) -> Iterator[GrowingGpu]:
    seen: set[str] = set()
    for node in facts.living_nodes:
        for gpu in facts.machine(node).gpus or ():
            used, total = plausible_memory(gpu), gpu.memory_total or 0
            if used is None or used < MIN_USED_SHARE * total or gpu.uuid in seen:
                continue
            growth = facts.gpu_history.growth(node.key, gpu.index)
            if growth is None or growth.now - growth.before < facts.limits.gpu_memory_grown * total:
                continue
            left, holders = seconds_until(growth.now, total, growth.slope), _holders(facts, node, gpu)
            if left is not None and holders:
                seen.update({gpu.uuid} - {""})  # raylets of one host share its GPUs
                yield GrowingGpu(node, gpu, growth, left, holders)


def _holders(facts: Facts, node: Node, gpu: Gpu) -> Holders:
    """Who holds it, the greatest first; what is left over has a finding of its own."""
    held = facts.index.gpu_holders.get((node.key, gpu.index), ())
    return [(process, hold) for process, hold in held if process.kind not in LEFT_OVER]


def _subject(facts: Facts, growing: GrowingGpu) -> str:
    return f"job {clean(facts.job_title(growing.job))[:80]}" if growing.job else facts.title(growing.node)


def _growth_finding(facts: Facts, subject: str, gpus: Sequence[GrowingGpu]) -> Finding:
    first, job = gpus[0], facts.jobs.get(gpus[0].job or "")
    which = f"{plural(len(gpus), 'GPU')}, first of them " if len(gpus) > 1 else ""
    return Finding(
        code=CODE,
        level="warning",
        subject=subject,
        text=f"GPU memory of {subject} grows and will be full {_when(first.left)}: {which}GPU {first.gpu.label} of "
        f"{facts.title(first.node)} with {size(first.growth.now)} of {size(first.gpu.memory_total)} in use, "
        f"+{size(3600 * first.growth.slope)}/h for {age(first.growth.seconds)}",
        evidence=tuple(_growth_line(facts, each) for each in gpus[:MAX_EVIDENCE_LINES]),
        remedy=Remedy(
            "find what is kept from step to step: tensors in lists or metrics, caches, longer and longer sequences; PyTorch's cache counts "
            "as in use too: compare torch.cuda.memory_allocated() with memory_reserved(), and if only the second grows, set "
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; before it is full, save a checkpoint, stop the job and start it from there",
            "stop-job" if job and job.running else None,
        ),
        about=(*((job.key,) if job else ()), *dict.fromkeys(key for each in gpus for key in _rows(each))),
        seen=facts.oldest_stale([each.node for each in gpus]),
    )


def _when(seconds: float) -> str:
    return "within a minute" if seconds < 60 else f"in ~{age(seconds)}" if seconds >= 3600 else f"in ~{seconds / 60:.0f} min"


def _growth_line(facts: Facts, each: GrowingGpu) -> str:
    held = ", ".join(_holder_words(facts, process, hold) for process, hold in each.holders[:MAX_HOLDERS])
    more = ", ..." if len(each.holders) > MAX_HOLDERS else ""
    return (
        f"{facts.title(each.node)} GPU {each.gpu.label}: peak {size(each.growth.before)} {age(each.growth.seconds)} ago, "
        f"peak {size(each.growth.now)} now (`nvidia-smi`); held by {held}{more}"
    )


def _holder_words(facts: Facts, process: Process, hold: Hold) -> str:
    actor = facts.actors.get(process.actor or "")
    name = clean((actor.name or actor.class_) if actor else whole_name(process))[:60]
    return f"pid {process.pid} {name} {size(hold.memory)}".replace("  ", " ")


def _rows(each: GrowingGpu) -> tuple[str, ...]:
    return f"{each.node.key}:{each.gpu.index}", *(process.key for process, _ in each.holders[:MAX_HOLDERS])
