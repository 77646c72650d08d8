"""Predicts GPUs whose memory grows and will be full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from cockpit.findings.facts import Facts
from cockpit.findings.gpu_history import Growth, plausible_memory
from cockpit.findings.sources import rests_on
from cockpit.findings.trend import seconds_until
from cockpit.model import LEFT_OVER, Finding, Gpu, Hold, Node, Process, Remedy
from cockpit.model.titles import whole_name
from cockpit.text import age, clean, plural, size

CODE = "gpu-memory-grows"
MIN_USED_SHARE = 0.5
"""Share of a GPU's memory from which on growth matters: below it, filling up takes longer than the growth has taken so far."""
CLEAR_FACTOR = 1.5
"""A finding ends only when the GPU will be full later than this factor times the time at which it began."""
MAX_EVIDENCE_LINES = 8
MAX_HOLDERS = 3


class GrowingGpu(msgspec.Struct, frozen=True):
    """A GPU that will be full, and the processes that hold its memory, the largest first."""

    node: Node
    gpu: Gpu
    growth: Growth
    left: float
    """Seconds until it is full."""
    holders: Sequence[tuple[Process, Hold]]

    @property
    def job(self) -> str | None:
        """The job of the largest holder that has one."""
        return next((process.job for process, _ in self.holders if process.job), None)


@rests_on("nvml", "processes")
def growing_gpu_memory(facts: Facts) -> Iterator[Finding]:
    """Growing GPU memory, one finding for each job, and for each node with holders of no job. A single sample can't find it."""
    by_subject: dict[str, list[GrowingGpu]] = {}
    for each in _find_growing(facts):
        subject = f"job {clean(facts.job_title(each.job))[:80]}" if each.job else facts.title(each.node)
        by_subject.setdefault(subject, []).append(each)
    for subject, growing in by_subject.items():
        mark = facts.limits.gpu_memory_forecast * (CLEAR_FACTOR if facts.was_found(CODE, subject) else 1)
        gpus = sorted((each for each in growing if each.left <= mark), key=lambda each: each.left)
        if not gpus:
            continue
        first, job = gpus[0], facts.index.jobs.get(gpus[0].job or "")
        when = "within a minute" if first.left < 60 else f"in ~{first.left / 60:.0f} min" if first.left < 3600 else f"in ~{age(first.left)}"
        which = f"{plural(len(gpus), 'GPU')}, first of them " if len(gpus) > 1 else ""
        text = (
            f"GPU memory of {subject} grows and will be full {when}: {which}GPU {first.gpu.label} of "
            f"{facts.title(first.node)} with {size(first.growth.now)} of {size(first.gpu.memory_total)} in use, "
            f"+{size(3600 * first.growth.slope)}/h for {age(first.growth.seconds)}"
        )
        evidence: list[str] = []
        for each in gpus[:MAX_EVIDENCE_LINES]:
            held: list[str] = []
            for process, hold in each.holders[:MAX_HOLDERS]:
                actor = facts.index.actors.get(process.actor or "")
                name = clean((actor.name or actor.class_) if actor else whole_name(process))[:60]
                held.append(f"pid {process.pid} {name} {size(hold.memory)}".replace("  ", " "))
            held += ["..."] if len(each.holders) > MAX_HOLDERS else []
            evidence.append(
                f"{facts.title(each.node)} GPU {each.gpu.label}: peak {size(each.growth.before)} {age(each.growth.seconds)} ago, "
                f"peak {size(each.growth.now)} now (`nvidia-smi`); held by {', '.join(held)}"
            )
        remedy = Remedy(
            "find what is kept from step to step: tensors in lists or metrics, caches, longer and longer sequences; PyTorch's cache counts "
            "as in use too: compare torch.cuda.memory_allocated() with memory_reserved(), and if only the second grows, set "
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; before it is full, save a checkpoint, stop the job and start it from there",
            "stop-job" if job and job.running else None,
        )
        rows = [job.key] if job else []
        for each in gpus:
            rows += [f"{each.node.key}:{each.gpu.index}", *(process.key for process, _ in each.holders[:MAX_HOLDERS])]
        about, seen = tuple(dict.fromkeys(rows)), facts.oldest_stale([each.node for each in gpus])
        yield Finding(CODE, "warning", subject, text, tuple(evidence), None, remedy, about, seen)


def _find_growing(facts: Facts) -> Iterator[GrowingGpu]:
    seen: set[str] = set()
    for node in facts.living_nodes:
        for gpu in facts.index.machine(node).gpus or ():
            used, total = plausible_memory(gpu), gpu.memory_total or 0
            if used is None or used < MIN_USED_SHARE * total or gpu.uuid in seen:
                continue
            growth = facts.gpu_history.growth(node.key, gpu.index)
            if growth is None or growth.now - growth.before < facts.limits.gpu_memory_grown * total:
                continue
            left = seconds_until(growth.now, total, growth.slope)
            held = facts.index.gpu_holders.get((node.key, gpu.index), ())
            holders = [(process, hold) for process, hold in held if process.kind not in LEFT_OVER]  # orphans have findings of their own
            if left is not None and holders:
                seen.update({gpu.uuid} - {""})  # raylets of one host share its GPUs
                yield GrowingGpu(node, gpu, growth, left, holders)
