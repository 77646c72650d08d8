"""GPU memory in use that no process explains, and GPUs that Ray would hand out though their memory is held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import ceil
from typing import NamedTuple

from cockpit.findings.facts import Facts
from cockpit.findings.gpus import long, waits
from cockpit.model import Finding, Gpu, Host, Node, Process, Remedy
from cockpit.text import clean, plural, ratio, size

OFF = 0.75
"""Of the mark at which a finding begins: where it ends."""
RAYS = ("worker", "driver", "child")
LISTED = 8
"""Lines of evidence of one kind."""
SEARCH = (
    "look with root's eyes for who has the devices open: `fuser -v /dev/nvidia*`, also inside containers; "
    "if nobody has, the driver has lost count: reset the GPU (`nvidia-smi -r -i INDEX`) or reboot the host"
)

Holders = Mapping[int, Sequence[Process]]


class Held(NamedTuple):
    """A GPU with what its processes hold."""

    gpu: Gpu
    holders: Sequence[Process]
    unexplained: int


def unexplained_memory(facts: Facts) -> Iterator[Finding]:
    """Memory beside what NVML's list of processes accounts for, by host."""
    mark = facts.limits.unexplained_memory
    for name, host in facts.snapshot.hosts.items():
        least = OFF * mark if facts.found("gpu-memory-unexplained", name) else mark
        over = [held for held in _held(host) if held.unexplained > least] if _more(host, least) else []
        lasted = facts.lasts("gpu-memory-unexplained", name) if over else 0.0
        if over and lasted >= facts.limits.unexplained_age and not facts.just_ended(facts.limits.unexplained_age):
            yield _unexplained(facts, host, over)


def _more(host: Host, least: float) -> bool:
    """Whether a GPU has more memory in use than visible processes hold of it: quickly, for on most hosts none has."""
    mine: dict[int, int] = {}
    for process in host.processes or ():
        if process.gpus and process.ticks is not None:
            for hold in process.gpus:
                if hold.memory and hold.memory > 0:
                    mine[hold.index] = mine.get(hold.index, 0) + hold.memory
    return any((gpu.memory_used or 0) - mine.get(gpu.index, 0) > least for gpu in host.gpus or ())


def _held(host: Host) -> list[Held]:
    """The GPUs whose memory and holders are known; none where NVML doesn't tell who holds what, as in most containers."""
    if not host.gpus or host.processes is None:
        return []
    holders: dict[int, list[Process]] = {}
    for process in host.processes:
        for hold in process.gpus:
            holders.setdefault(hold.index, []).append(process)
    told = any(process.ticks is not None for processes in holders.values() for process in processes)
    if not told and any(process.job or process.actor for process in host.processes):
        return []
    known = (_accounted(gpu, holders.get(gpu.index, ())) for gpu in host.gpus)
    return [held for held in known if held]


def _accounted(gpu: Gpu, holders: Sequence[Process]) -> Held | None:
    """What a pid holds that the process table doesn't have is accounted for by nobody."""
    amounts = [(process, hold.memory) for process in holders for hold in process.gpus if hold.index == gpu.index]
    if gpu.fault or gpu.memory_used is None or any(amount is None for _, amount in amounts):
        return None
    if gpu.memory_total is not None and gpu.memory_used > gpu.memory_total:
        return None
    mine = sum(max(0, amount or 0) for process, amount in amounts if process.ticks is not None)
    return Held(gpu, holders, gpu.memory_used - mine)


def _unexplained(facts: Facts, host: Host, over: Sequence[Held]) -> Finding:
    total, gpus = sum(held.unexplained for held in over), [held.gpu.label for held in over]
    return Finding(
        code="gpu-memory-unexplained",
        level="warning",
        subject=host.name,
        text=f"{size(total)} of GPU memory on {plural(len(gpus), 'GPU')} of {host.name} ({', '.join(gpus)}) is in use, "
        "and no process that can be seen there holds it",
        evidence=tuple(_sum(held) for held in over[:LISTED]),
        remedy=Remedy(SEARCH),
        about=tuple(node.key for node in map(facts.nodes.get, host.nodes) if node) or (f"node:{host.name}",),
        seen=facts.old(host.name),
    )


def _sum(held: Held) -> str:
    ghosts = [str(process.pid) for process in held.holders if process.ticks is None]
    unseen = f"; NVML names pid {', '.join(ghosts)}, which this process table doesn't have" if ghosts else ""
    mine = (held.gpu.memory_used or 0) - held.unexplained
    return f"GPU {held.gpu.label}: {size(held.gpu.memory_used)} in use, {size(mine)} of it by visible processes (`nvidia-smi`){unseen}"


def free_but_held(facts: Facts) -> Iterator[Finding]:
    """GPUs that Ray counts as free, and whose memory is held by what isn't Ray's: what is placed there runs out of memory."""
    if facts.fault("ray.status") or facts.fault("ray.nodes") or facts.just_ended(facts.limits.gpu_held_age):
        return
    for node in facts.alive:
        host = facts.hosts.get(node.id or "")
        if host is None or len(host.nodes) != 1 or not node.probed or not node.gpus:
            continue
        sure, taken = _taken(facts, node, host.gpus or (), partial(_held, host))
        if sure < 1 or not (facts.waiting_for_gpus or any(map(_foreign, taken))):
            continue
        if facts.lasts("gpu-memory-held", facts.title(node)) >= facts.limits.gpu_held_age:
            yield _held_by_others(facts, node, sure, taken)


def free_but_in_use(facts: Facts) -> Iterator[Finding]:
    """The same of nodes that no probe looks at: Ray's agents tell of memory, and of pids that Ray doesn't know."""
    if facts.fault("ray.status") or facts.fault("ray.nodes"):
        return
    near = Counter(node.ip or node.host for node in facts.alive)
    for node in facts.alive:
        if node.probed or not node.gpus or node.id in facts.hosts or near[node.ip or node.host] > 1:
            continue
        sure, taken = _taken(facts, node, node.gpus, partial(_reported, facts, node))
        if sure >= 1 and facts.lasts("gpu-memory-held", facts.title(node)) >= facts.limits.gpu_held_age:
            yield _in_use(facts, node, sure, taken)


def _reported(facts: Facts, node: Node) -> list[Held]:
    holders: dict[int, list[Process]] = {}
    for process in facts.processes.get(node.title, ()):
        for hold in process.gpus if process.node == node.id else ():
            holders.setdefault(hold.index, []).append(process)
    return [Held(gpu, holders.get(gpu.index, ()), 0) for gpu in node.gpus or ()]


def _in_use(facts: Facts, node: Node, sure: int, taken: Sequence[Held]) -> Finding:
    """A single look can't tell it from a job that has just ended, and without anybody who waits it may be meant so."""
    title, waiting = facts.title(node), [each for each in facts.waiting_for_gpus if long(facts, each)]
    wait = f", and {waits(waiting)} for GPUs" if waiting else ""
    return Finding(
        code="gpu-memory-held",
        level="warning" if waiting and not facts.once else "info",
        subject=title,
        text=f"Ray counts {plural(sure, 'GPU')} of {title} as free whose memory is in use by what Ray doesn't know: "
        f"what is placed there runs out of memory{wait}",
        evidence=(*map(_line, taken[:LISTED]), "no probe looks there; `nvidia-smi` and `ps -ef` on that host tell whose pids these are"),
        remedy=Remedy("end what a dead Ray has left over there, and ask the owners of the rest", "kill-orphans"),
        about=(node.key, *(each.key for each in waiting[:LISTED])),
        seen=facts.oldest((node,)),
    )


def _taken(facts: Facts, node: Node, gpus: Sequence[Gpu], held: Callable[[], list[Held]]) -> tuple[int, list[Held]]:
    """How many of the GPUs that Ray counts as free are surely held by others, and all that are held by others.

    Which GPUs are free Ray doesn't say: those that it has handed out and nobody of its own uses yet may be among them.
    """
    spare, mark = _spare(node, len(gpus)), facts.limits.gpu_free
    if spare < 1:
        return 0, []
    if facts.found("gpu-memory-held", facts.title(node)):
        mark *= OFF
    if not any(_fuller(gpu, mark) for gpu in gpus):
        return 0, []
    known = held()
    rays = sum(map(_rays, known))
    taken = [each for each in known if _fuller(each.gpu, mark) and not _rays(each)]
    unused = max(0, len(gpus) - spare - rays)
    return min(spare, len(taken) - unused), taken


def _spare(node: Node, there: int) -> int:
    """Whole GPUs that Ray counts as free; none where its count can't be compared with what is there."""
    gpus = node.resources.get("GPU")
    if gpus is None or gpus.total is None or gpus.used is None or gpus.total != there:
        return 0
    return there - ceil(gpus.used) if 0 <= gpus.used <= there else 0


def _fuller(gpu: Gpu, mark: float) -> bool:
    return (ratio(gpu.memory_used, gpu.memory_total) or 0.0) > mark


def _rays(held: Held) -> bool:
    return any(process.kind in RAYS for process in held.holders)


def _foreign(held: Held) -> bool:
    """Whether a visible process of somebody else holds it; what Ray has left over and what nobody holds are told of their own."""
    return any(not process.left_over and process.ticks is not None for process in held.holders)


def _held_by_others(facts: Facts, node: Node, sure: int, taken: Sequence[Held]) -> Finding:
    title, waiting = facts.title(node), facts.waiting_for_gpus
    wait = f", and {waits(waiting)} for GPUs" if waiting else ""
    left = [process for held in taken for process in held.holders if process.left_over]
    return Finding(
        code="gpu-memory-held",
        level="critical" if any(each.wait == "room" for each in waiting) else "warning",
        subject=title,
        text=f"Ray counts {plural(sure, 'GPU')} of {title} as free whose memory others hold: what is placed there runs out of memory{wait}",
        evidence=(*map(_line, taken[:LISTED]), *(f"waits for GPUs: {clean(each.name or each.id)[:80]}" for each in waiting[:LISTED])),
        remedy=Remedy("end what Ray has left over there, and ask the owners of the rest", "kill-orphans" if left else None)
        if any(map(_foreign, taken)) or left
        else Remedy(SEARCH),
        about=(
            node.key,
            *dict.fromkeys(process.key for held in taken for process in held.holders),
            *(each.key for each in waiting[:LISTED]),
        ),
        seen=facts.oldest((node,)),
    )


def _line(held: Held) -> str:
    names = (f"pid {process.pid} ({process.kind}) {clean(process.name or process.command or '')[:60]}".rstrip() for process in held.holders)
    whose = ", ".join(names) or "no process that can be seen"
    return f"GPU {held.gpu.label}: {size(held.gpu.memory_used)} of {size(held.gpu.memory_total)} in use, by {whose}"
