"""Checks whether the GPUs that a job would get work, and have free memory: Ray only counts GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import ceil
from shlex import quote

import msgspec

from cockpit.budget import Budget, Level, Line
from cockpit.check.groups import PlacedGroups
from cockpit.check.nodes import Site
from cockpit.check.result import share_of
from cockpit.config.thresholds import Limits
from cockpit.findings.gpu_memory import is_at_work
from cockpit.model import Gpu, Process, Snapshot
from cockpit.placement import SCALE
from cockpit.presets import Needs
from cockpit.text import clean, join_first, plural, size

MAX_NODES = 6
"""Nodes with a line of their own."""
MAX_HOLDERS = 3
UTILIZATION = "gpu_memory_utilization"
ENGINES = ("vllm", "rollout", "sglang")
"""Words in the names of groups whose inference engine takes a share of a GPU's memory."""


class MemoryNeed(msgspec.Struct, frozen=True):
    """The memory that must be free on a GPU."""

    why: str
    bytes: int | None = None
    """On each GPU; `None`: a share of its memory."""
    share: float = 0.0
    strict: bool = True
    """Without it the job can't run."""
    groups: tuple[str, ...] | None = None
    """The groups whose GPUs need it; `None`: all."""

    def of(self, gpu: Gpu) -> float | None:
        """Return the need in bytes on this GPU; `None` if its size is unknown."""
        return self.bytes if self.bytes is not None else None if gpu.memory_total is None else self.share * gpu.memory_total


class NodeGpus(msgspec.Struct, frozen=True):
    """The GPUs of a node on which the job would run."""

    node: str
    title: str
    candidates: tuple[Gpu, ...]
    """GPUs that no process of Ray uses."""
    holders: Mapping[int, Sequence[Process]]
    counted: bool
    """Ray counts as many GPUs as the node has."""
    known: bool
    """The memory in use is known."""


def gpu_memory(placed: PlacedGroups, site: Site, snapshot: Snapshot, budget: Budget, needs: Needs, limits: Limits) -> Iterator[Line]:
    """Lines about the nodes whose GPUs the job would get."""
    node_ids = [node for node in placed.amounts_by_node if placed.amount_on(node, "GPU") >= 1]
    if line := _too_small_line(site, needs.gpu_memory_free, sum(placed.amount_on(node, "GPU") for node in node_ids)):
        yield line
        return

    wants = tuple(_memory_needs(budget, needs, limits))
    nodes = []
    for node_id in node_ids:
        node, host = site.nodes.get(node_id), site.hosts.get(node_id)
        key = node.key if node else f"node:{host.name if host else node_id}"
        gpus = site.gpus(node_id) or ()
        holders = {gpu.index: [process for process, _ in snapshot.index.gpu_holders.get((key, gpu.index), ())] for gpu in gpus}
        candidates = tuple(gpu for gpu in gpus if not any(map(is_at_work, holders[gpu.index])))
        counted = site.by_id[node_id].total.get("GPU", 0) == SCALE * len(gpus)
        known = bool(gpus) and all(gpu.memory_used is not None or gpu.fault for gpu in candidates)
        nodes.append(NodeGpus(node_id, site.title(node_id), candidates, holders, counted, known))

    bad: list[Line] = []
    for each in nodes:
        if not each.known:
            continue
        # Only the worst line of each node is shown.
        judged = [_judge_need(each, want, ceil(placed.amount_on(each.node, "GPU", want.groups))) for want in wants]
        lines = [line for line in judged if line is not None]
        if lines:
            bad.append(next((line for line in lines if line.level == "later"), lines[0]))
    yield from bad[:MAX_NODES]
    if rest := bad[MAX_NODES:]:
        level: Level = "later" if any(line.level == "later" for line in rest) else "doubt"
        yield Line(level, f"the same on {plural(len(rest), 'more node')}")

    if unknown := [each.title for each in nodes if not each.known]:
        text = f"free GPU memory is unknown on {join_first(unknown)}: neither a probe nor Ray's agent reports it"
        yield Line("doubt" if needs.gpu_memory_free is None else "unknown", text)
    elif node_ids and not bad:
        free = [left for each in nodes for gpu in each.candidates if (left := _free_bytes(gpu)) is not None]
        reasons = "; ".join(want.why for want in wants)
        yield Line("fine", f"GPU memory: at least {size(min(free, default=None))} free on each GPU that the job may get; {reasons}")


def _memory_needs(budget: Budget, needs: Needs, limits: Limits) -> Iterator[MemoryNeed]:
    """The preset's need, and the share that an engine takes. If neither is given, a GPU should be nearly empty."""
    if needs.gpu_memory_free is not None:
        yield MemoryNeed(f"needs.gpu_memory_free asks for {size(needs.gpu_memory_free)}", needs.gpu_memory_free)
    shares = ((key, value, share_of(value)) for key, value in budget.settings.items() if key.endswith(UTILIZATION))
    key, value, share = next((each for each in shares if each[2] is not None), ("", "", None))
    if share is not None:
        engines = tuple(group.name for group in budget.groups or () if any(word in group.name.lower() for word in ENGINES))
        yield MemoryNeed(f"{key} {value} takes {share:.0%} of each", share=share, groups=engines or None)
    elif needs.gpu_memory_free is None:
        yield MemoryNeed(f"a GPU counts as free with at most {limits.gpu_free:.0%} in use", share=1 - limits.gpu_free, strict=False)


def _too_small_line(site: Site, need: int | None, wanted: float) -> Line | None:
    """Return a line if too few GPUs have that much memory, even when they are empty."""
    if need is None:
        return None
    known = [site.gpus(node.id) for node in site.placement_nodes]
    gpus = [gpu for each in known for gpu in each or ()]
    if not gpus or None in known or site.more or any(gpu.memory_total is None for gpu in gpus):
        return None
    large = [gpu for gpu in gpus if (gpu.memory_total or 0) >= need]
    if len(large) >= wanted:
        return None
    most = max(gpu.memory_total or 0 for gpu in gpus)
    asked = f"needs.gpu_memory_free asks for {size(need)} on each of {wanted:.0f} GPUs"
    text = f"{asked}, but only {len(large)} {'is' if len(large) == 1 else 'are'} that large; the largest has {size(most)}"
    return Line("never", text, f"needs.gpu_memory_free: {size(most)} or less")


def _free_bytes(gpu: Gpu) -> int | None:
    return None if gpu.memory_used is None or gpu.memory_total is None else max(0, gpu.memory_total - gpu.memory_used)


def _judge_need(node: NodeGpus, want: MemoryNeed, needed: int) -> Line | None:
    """Return a line if GPUs that the job may get lack memory. Only Ray decides which of its unused GPUs the job gets."""
    short = []
    for gpu in node.candidates:
        free, need = _free_bytes(gpu), want.of(gpu)
        if gpu.fault or (free is not None and need is not None and free < need):
            short.append(gpu)
    if not short or not needed:
        return None
    there = len(node.candidates)
    sure = needed - (there - len(short)) if node.counted else 0
    which = f"{len(short)} of the {plural(there, 'GPU')} that Ray does not use on {node.title}"
    holders = [node.holders.get(gpu.index, ()) for gpu in short]
    described = "; ".join(map(_describe_gpu, short[:MAX_HOLDERS], holders))
    more = f"; and {len(short) - MAX_HOLDERS} more" if len(short) > MAX_HOLDERS else ""
    chance = f"the job would get at least {sure} of them" if sure > 0 else "the job may get one of them"
    text = f"{which} {'has' if len(short) == 1 else 'have'} too little free memory ({want.why}), {chance}: {described}{more}"
    return Line("later" if sure > 0 and want.strict else "doubt", text, _suggest_change(chain.from_iterable(holders), node.title))


def _describe_gpu(gpu: Gpu, holders: Sequence[Process]) -> str:
    """Describe a GPU's free memory, and the processes that hold the rest."""
    if gpu.fault:
        return f"GPU {gpu.label} can't be reached by NVML ({clean(gpu.fault)[:60]})"
    described = []
    for process in holders[:MAX_HOLDERS]:
        held = next((hold.memory for hold in process.gpus if hold.index == gpu.index), None)
        user = f" of {clean(process.user)}" if process.user and not process.left_over else ""
        kind = f"{process.kind} of another Ray session" if process.ours is False else process.kind
        described.append(f"pid {process.pid}, {kind}{user}, {size(held)}")
    held_by = ", ".join(described) or "held by no visible process"
    return f"GPU {gpu.label} has {size(_free_bytes(gpu))} free of {size(gpu.memory_total)} ({held_by})"


def _suggest_change(holders: Iterable[Process], host: str) -> str:
    """Return the way to free the GPUs: kill leftovers, or ask the owners."""
    every = {process.key: process for process in holders}.values()
    left = [process for process in every if process.left_over]
    if left:
        freed = sum(process.gpu_memory or 0 for process in left)
        return f"`cockpit kill-orphans {quote(clean(host))}` frees {size(freed)}"
    others = sorted({clean(process.user) for process in every if process.user})
    if others:
        return f"ask {', '.join(others)} to stop what holds it, or start Ray without those GPUs (CUDA_VISIBLE_DEVICES)"
    return f"find what holds it (`fuser -v /dev/nvidia*` on {host}), or start Ray without those GPUs (CUDA_VISIBLE_DEVICES)"
