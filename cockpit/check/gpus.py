"""Whether the GPUs that a job would get are whole, and have their memory free: Ray counts GPUs, not what is in them."""

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

NODES = 6
"""Nodes that are told of one by one."""
HOLDERS = 3
UTILIZATION = "gpu_memory_utilization"
ENGINES = ("vllm", "rollout", "sglang")
"""What the groups are called in which an inference engine takes its share of a GPU."""


class MemoryNeed(msgspec.Struct, frozen=True):
    """How much of a GPU's memory must be free."""

    why: str
    bytes: int | None = None
    """On each GPU; `None`: a share of it."""
    share: float = 0.0
    strict: bool = True
    """Without it the job can't run."""
    groups: tuple[str, ...] | None = None
    """Whose GPUs need it; `None`: all."""

    def of(self, gpu: Gpu) -> float | None:
        """Of this one; `None` where its size isn't known."""
        return self.bytes if self.bytes is not None else None if gpu.memory_total is None else self.share * gpu.memory_total


class NodeGpus(msgspec.Struct, frozen=True):
    """The GPUs of one node, of which the job gets some."""

    place: str
    title: str
    candidates: tuple[Gpu, ...]
    """Those that nobody of Ray's uses."""
    holders: Mapping[int, Sequence[Process]]
    counted: bool
    """Ray counts as many as there are."""
    known: bool
    """Somebody tells what is in use."""


def gpu_memory(placed: PlacedGroups, site: Site, snapshot: Snapshot, budget: Budget, needs: Needs, limits: Limits) -> Iterator[Line]:
    """Lines of the nodes whose GPUs it would get."""
    homes = [place for place in placed.homes if placed.on(place, "GPU") >= 1]
    if told := _never(site, needs.gpu_memory_free, sum(placed.on(place, "GPU") for place in homes)):
        yield told
        return
    wants = tuple(_wants(budget, needs, limits))
    seen = list(_cards(site, snapshot, homes))
    worst = [line for cards in seen if cards.known and (line := _line(cards, wants, placed)) is not None]
    yield from worst[:NODES]
    if rest := worst[NODES:]:
        level: Level = "later" if any(line.level == "later" for line in rest) else "doubt"
        yield Line(level, f"the same on {plural(len(rest), 'more node')}")
    if blind := [cards.title for cards in seen if not cards.known]:
        text = f"free GPU memory is unknown on {join_first(blind)}: neither a probe nor Ray's agent reports it"
        yield Line("doubt" if needs.gpu_memory_free is None else "unknown", text)
    elif homes and not worst:
        free = [left for cards in seen for gpu in cards.candidates if (left := _free_bytes(gpu)) is not None]
        told_why = "; ".join(want.why for want in wants)
        yield Line("fine", f"GPU memory: at least {size(min(free, default=None))} free on each GPU that the job may get; {told_why}")


def _wants(budget: Budget, needs: Needs, limits: Limits) -> Iterator[MemoryNeed]:
    """What the preset asks for, and what an engine takes; where neither is said, what would be odd."""
    if needs.gpu_memory_free is not None:
        yield MemoryNeed(f"needs.gpu_memory_free asks for {size(needs.gpu_memory_free)}", needs.gpu_memory_free)
    shares = ((key, value, share_of(value)) for key, value in budget.settings.items() if key.endswith(UTILIZATION))
    key, value, share = next((each for each in shares if each[2] is not None), ("", "", None))
    if share is not None:
        engines = tuple(group.name for group in budget.groups or () if any(word in group.name.lower() for word in ENGINES))
        yield MemoryNeed(f"{key} {value} takes {share:.0%} of each", share=share, groups=engines or None)
    elif needs.gpu_memory_free is None:
        yield MemoryNeed(f"a GPU counts as free with at most {limits.gpu_free:.0%} in use", share=1 - limits.gpu_free, strict=False)


def _never(site: Site, need: int | None, wanted: float) -> Line | None:
    """Where too few GPUs are that large, were they empty."""
    if need is None:
        return None
    told = [site.gpus(place.id) for place in site.places]
    gpus = [gpu for each in told for gpu in each or ()]
    if not gpus or None in told or site.more or any(gpu.memory_total is None for gpu in gpus):
        return None
    large = [gpu for gpu in gpus if (gpu.memory_total or 0) >= need]
    if len(large) >= wanted:
        return None
    most = max(gpu.memory_total or 0 for gpu in gpus)
    asked = f"needs.gpu_memory_free asks for {size(need)} on each of {wanted:.0f} GPUs"
    text = f"{asked}, but only {len(large)} {'is' if len(large) == 1 else 'are'} that large; the largest has {size(most)}"
    return Line("never", text, f"needs.gpu_memory_free: {size(most)} or less")


def _cards(site: Site, snapshot: Snapshot, homes: Sequence[str]) -> Iterator[NodeGpus]:
    for place in homes:
        gpus = site.gpus(place) or ()
        mine = {gpu.index: _holders(site, snapshot, place, gpu) for gpu in gpus}
        candidates = tuple(gpu for gpu in gpus if not any(map(is_at_work, mine.get(gpu.index, ()))))
        counted = site.by_id[place].total.get("GPU", 0) == SCALE * len(gpus)
        known = bool(gpus) and all(gpu.memory_used is not None or gpu.fault for gpu in candidates)
        yield NodeGpus(place, site.title(place), candidates, mine, counted, known)


def _holders(site: Site, snapshot: Snapshot, place: str, gpu: Gpu) -> list[Process]:
    node, host = site.nodes.get(place), site.hosts.get(place)
    key = node.key if node else f"node:{host.name if host else place}"
    return [process for process, _ in snapshot.index.gpu_holders.get((key, gpu.index), ())]


def _free_bytes(gpu: Gpu) -> int | None:
    return None if gpu.memory_used is None or gpu.memory_total is None else max(0, gpu.memory_total - gpu.memory_used)


def _line(cards: NodeGpus, wants: Sequence[MemoryNeed], placed: PlacedGroups) -> Line | None:
    """The worst that is to be said of a node's GPUs."""
    lines = [line for want in wants if (line := _judge_held(cards, want, ceil(placed.on(cards.place, "GPU", want.groups)))) is not None]
    return next((line for line in lines if line.level == "later"), lines[0] if lines else None)


def _judge_held(cards: NodeGpus, want: MemoryNeed, needed: int) -> Line | None:
    """Which GPUs it gets only Ray decides: of those that nobody of Ray's uses any may be among them."""
    short = [gpu for gpu in cards.candidates if _lacks(gpu, want)]
    if not short or not needed:
        return None
    there = len(cards.candidates)
    sure = needed - (there - len(short)) if cards.counted else 0
    which = f"{len(short)} of the {plural(there, 'GPU')} that Ray does not use on {cards.title}"
    holders = [cards.holders.get(gpu.index, ()) for gpu in short]
    told = "; ".join(map(_describe, short[:HOLDERS], holders)) + (f"; and {len(short) - HOLDERS} more" if len(short) > HOLDERS else "")
    chance = f"the job would get at least {sure} of them" if sure > 0 else "the job may get one of them"
    text = f"{which} {'has' if len(short) == 1 else 'have'} too little free memory ({want.why}), {chance}: {told}"
    return Line("later" if sure > 0 and want.strict else "doubt", text, _change(chain.from_iterable(holders), cards.title))


def _lacks(gpu: Gpu, want: MemoryNeed) -> bool:
    left, need = _free_bytes(gpu), want.of(gpu)
    return bool(gpu.fault) or (left is not None and need is not None and left < need)


def _describe(gpu: Gpu, holders: Sequence[Process]) -> str:
    if gpu.fault:
        return f"GPU {gpu.label} can't be reached by NVML ({clean(gpu.fault)[:60]})"
    whose = ", ".join(_whose(process, gpu.index) for process in holders[:HOLDERS]) or "held by no visible process"
    return f"GPU {gpu.label} has {size(_free_bytes(gpu))} free of {size(gpu.memory_total)} ({whose})"


def _whose(process: Process, index: int) -> str:
    held = next((hold.memory for hold in process.gpus if hold.index == index), None)
    user = f" of {clean(process.user)}" if process.user and not process.left_over else ""
    kind = f"{process.kind} of another Ray session" if process.ours is False else process.kind
    return f"pid {process.pid}, {kind}{user}, {size(held)}"


def _change(holders: Iterable[Process], host: str) -> str:
    everybody = {process.key: process for process in holders}.values()
    left = [process for process in everybody if process.left_over]
    if left:
        freed = sum(process.gpu_memory or 0 for process in left)
        return f"`cockpit kill-orphans {quote(clean(host))}` frees {size(freed)}"
    others = sorted({clean(process.user) for process in everybody if process.user})
    if others:
        return f"ask {', '.join(others)} to stop what holds it, or start Ray without those GPUs (CUDA_VISIBLE_DEVICES)"
    return f"find what holds it (`fuser -v /dev/nvidia*` on {host}), or start Ray without those GPUs (CUDA_VISIBLE_DEVICES)"
