"""Whether the GPUs that a job would get are whole, and have their memory free: Ray counts GPUs, not what is in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import NamedTuple

from cockpit.budget import Budget, Line
from cockpit.check.groups import Placed
from cockpit.check.site import Site
from cockpit.findings.gpu_memory import RAYS
from cockpit.limits import Limits
from cockpit.model import Gpu, Process, Snapshot
from cockpit.placement import SCALE
from cockpit.presets import Needs
from cockpit.text import clean, plural, size

NODES = 6
"""Nodes that are told of one by one."""
HOLDERS = 3
UTILIZATION = "gpu_memory_utilization"
ENGINES = ("vllm", "rollout", "sglang")
"""What the groups are called in which an inference engine takes its share of a GPU."""


class Want(NamedTuple):
    """How much of a GPU's memory must be free."""

    why: str
    bytes: int | None
    """On each GPU; `None`: a share of it."""
    share: float
    strict: bool
    """Without it the job can't run."""

    def of(self, gpu: Gpu) -> float | None:
        """Of this one; `None` where its size isn't known."""
        return self.bytes if self.bytes is not None else None if gpu.memory_total is None else self.share * gpu.memory_total


class Short(NamedTuple):
    """A GPU that the job may get and has too little."""

    gpu: Gpu
    free: int | None
    want: float | None
    holders: Sequence[Process]


def gpu_memory(placed: Placed, site: Site, snapshot: Snapshot, budget: Budget, needs: Needs, limits: Limits) -> Iterator[Line]:
    """Lines of the nodes whose GPUs it would get."""
    want, engines = _want(budget, needs, limits)
    homes = [place for place in placed.homes if placed.on(place, "GPU") >= 1]
    if want.bytes is not None and (told := _never(site, want.bytes, sum(placed.on(place, "GPU") for place in homes))):
        yield told
        return
    holders = _holders(site, snapshot)
    blind: list[str] = []
    worst: list[Line] = []
    free: list[int] = []
    for place in homes:
        gpus = site.gpus(place)
        if not gpus or any(gpu.memory_used is None and not gpu.fault for gpu in gpus):
            blind.append(site.title(place))
            continue
        mine = holders.get(place, {})
        needed = ceil(placed.on(place, "GPU", engines))
        worst += _node(site, place, gpus, mine, want, needed)
        free += [left for gpu in gpus if not _rays(mine.get(gpu.index, ())) and (left := _left(gpu)) is not None]
    yield from worst[:NODES]
    if len(worst) > NODES:
        yield Line(max(worst[NODES:], key=lambda line: line.level == "later").level, f"the same on {len(worst) - NODES} more nodes")
    if blind:
        text = f"how much GPU memory is free is not known on {_names(blind)}: neither a probe nor Ray's agent tells"
        yield Line("unknown" if want.bytes is not None else "doubt", text)
    elif homes and not worst and free:
        yield Line("fine", f"GPU memory: at least {size(min(free))} is free on each GPU that it may get; {want.why}")


def _want(budget: Budget, needs: Needs, limits: Limits) -> tuple[Want, list[str] | None]:
    """What must be free, and the groups whose GPUs need it (all, where `None`)."""
    if needs.gpu_memory_free is not None:
        return Want(f"needs.gpu_memory_free asks for {size(needs.gpu_memory_free)}", needs.gpu_memory_free, 0.0, strict=True), None
    for key, value in budget.settings.items():
        share = _number(value) if key.endswith(UTILIZATION) else None
        if share is not None and 0 < share <= 1:
            engines = [group.name for group in budget.groups or () if any(word in group.name.lower() for word in ENGINES)]
            return Want(f"{key} {value} takes {share:.0%} of each", None, share, strict=True), engines or None
    return Want(f"more than {limits.gpu_free:.0%} in use would be told", None, 1 - limits.gpu_free, strict=False), None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _never(site: Site, need: int, wanted: float) -> Line | None:
    """Where too few GPUs are that large, were they empty."""
    told = [site.gpus(place.id) for place in site.places]
    gpus = [gpu for each in told for gpu in each or ()]
    if not gpus or None in told or site.more or any(gpu.memory_total is None for gpu in gpus):
        return None
    large = [gpu for gpu in gpus if (gpu.memory_total or 0) >= need]
    if len(large) >= wanted:
        return None
    most = max(gpu.memory_total or 0 for gpu in gpus)
    asked = f"needs.gpu_memory_free asks for {size(need)} on each of {wanted:.0f} GPUs"
    text = f"{asked}; {len(large)} are that large, the largest has {size(most)}"
    return Line("never", text, f"needs.gpu_memory_free: {size(most)} or less")


def _holders(site: Site, snapshot: Snapshot) -> dict[str, dict[int, list[Process]]]:
    """By node and GPU."""
    names = {host.name: place for place, host in site.hosts.items()} | {node.title: place for place, node in site.nodes.items()}
    found: dict[str, dict[int, list[Process]]] = {}
    for process in snapshot.processes or ():
        if process.gpus:
            place = process.node if process.node in site.nodes else names.get(process.host)
            for hold in process.gpus if place is not None else ():
                found.setdefault(place or "", {}).setdefault(hold.index, []).append(process)
    return found


def _rays(holders: Sequence[Process]) -> bool:
    return any(process.kind in RAYS for process in holders)


def _left(gpu: Gpu) -> int | None:
    return None if gpu.memory_used is None or gpu.memory_total is None else max(0, gpu.memory_total - gpu.memory_used)


def _node(site: Site, place: str, gpus: Sequence[Gpu], holders: Mapping[int, Sequence[Process]], want: Want, needed: int) -> Iterator[Line]:
    """Which GPUs it gets only Ray decides: of those that nobody of Ray's uses any may be among them."""
    candidates = [gpu for gpu in gpus if not _rays(holders.get(gpu.index, ()))]
    short = [each for gpu in candidates if (each := _short(gpu, want, holders.get(gpu.index, ()))) is not None]
    if not short:
        return
    home = site.by_id[place]
    counted = home.total.get("GPU", 0) == SCALE * len(gpus)
    sure = needed - (len(candidates) - len(short)) if counted else 0
    which = f"{len(short)} of the {plural(len(candidates), 'GPU')} that nobody of Ray's uses on {home.name}"
    told = "; ".join(_told(each) for each in short[:HOLDERS]) + (f"; and {len(short) - HOLDERS} more" if len(short) > HOLDERS else "")
    chance = f"it would surely get {sure} of them" if sure > 0 else "it may get one of them"
    yield Line(
        "later" if sure > 0 and want.strict else "doubt",
        f"{which} {'has' if len(short) == 1 else 'have'} too little free memory ({want.why}), {chance}: {told}",
        _change(short, home.name),
    )


def _short(gpu: Gpu, want: Want, holders: Sequence[Process]) -> Short | None:
    left, need = _left(gpu), want.of(gpu)
    if gpu.fault or (left is not None and need is not None and left < need):
        return Short(gpu, left, need, holders)
    return None


def _told(each: Short) -> str:
    if each.gpu.fault:
        return f"GPU {each.gpu.label} can't be reached by NVML ({clean(each.gpu.fault)[:60]})"
    whose = ", ".join(_whose(process, each.gpu.index) for process in each.holders[:HOLDERS]) or "no process that can be seen holds it"
    return f"GPU {each.gpu.label} has {size(each.free)} free of {size(each.gpu.memory_total)} ({whose})"


def _whose(process: Process, index: int) -> str:
    held = next((hold.memory for hold in process.gpus if hold.index == index), None)
    user = f" of {clean(process.user)}" if process.user and not process.left_over else ""
    return f"pid {process.pid}, {process.kind}{user}, {size(held)}"


def _change(short: Sequence[Short], host: str) -> str | None:
    everybody = {process.key: process for each in short for process in each.holders}.values()
    left = [process for process in everybody if process.left_over]
    if left:
        freed = sum(process.gpu_memory or 0 for process in left)
        return f"`cockpit kill-orphans {host}` frees {size(freed)}"
    others = sorted({clean(process.user) for process in everybody if process.user})
    if others:
        return f"ask {', '.join(others)} to end what holds it, or start Ray without those GPUs (CUDA_VISIBLE_DEVICES)"
    return f"find out who holds it (`fuser -v /dev/nvidia*` on {host}), or start Ray without those GPUs (CUDA_VISIBLE_DEVICES)"


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:NODES]) + (f" and {len(names) - NODES} more" if len(names) > NODES else "")
