"""GPU memory in use that no process explains, and GPUs that Ray would hand out though their memory is held."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import ceil

import msgspec

from cockpit.findings.facts import Facts
from cockpit.findings.gpus import fill_in, has_waited_long, waiting_words
from cockpit.findings.sources import rests_on
from cockpit.findings.waiting import what_words
from cockpit.model import Finding, Gpu, Host, Level, Node, Process, Remedy
from cockpit.model.titles import whole_name
from cockpit.text import clean, plural, ratio, size

CLEAR_FACTOR = 0.75
"""Of the mark at which a finding begins: where it ends."""
CODE = "gpu-memory-held"
KINDS_AT_WORK = ("worker", "driver", "child")
MAX_EVIDENCE_LINES = 8
SEARCH_REMEDY = (
    "as root, list the processes that have the devices open: `fuser -v /dev/nvidia*`, also inside containers; "
    "if there are none, the driver's count is wrong: reset the GPU (`nvidia-smi -r -i INDEX`) or reboot the host"
)
END_REMEDY = Remedy("kill the orphan processes there, and ask the owners of the other processes to free the memory", "kill-orphans")


class HeldGpu(msgspec.Struct, frozen=True):
    """A GPU with what its processes hold."""

    gpu: Gpu
    holders: Sequence[Process]
    unexplained: int


@rests_on("nvml", "processes")
def unexplained_memory(facts: Facts) -> Iterator[Finding]:
    """Memory beside what NVML's list of processes accounts for, by host."""
    mark = facts.limits.unexplained_memory
    for host in facts.snapshot.hosts.values():
        name = facts.host_title(host)
        least = CLEAR_FACTOR * mark if facts.was_found("gpu-memory-unexplained", name) else mark
        over = [held for held in _gpus_with_holders(facts, host) if held.unexplained > least] if _has_unexplained(host, least) else []
        lasted = facts.seconds_lasting("gpu-memory-unexplained", name) if over else 0.0
        if over and lasted >= facts.limits.unexplained_age and not facts.has_job_just_ended(facts.limits.unexplained_age):
            yield _unexplained_finding(facts, host, over)


def _has_unexplained(host: Host, least: float) -> bool:
    """Whether a GPU has more memory in use than visible processes hold of it: quickly, for on most hosts none has."""
    mine: dict[int, int] = defaultdict(int)
    for process in host.processes or ():
        if process.gpus and process.ticks is not None:
            for hold in process.gpus:
                mine[hold.index] += max(0, hold.memory or 0)
    return any((gpu.memory_used or 0) - mine[gpu.index] > least for gpu in host.gpus or ())


def _gpus_with_holders(facts: Facts, host: Host) -> list[HeldGpu]:
    """The GPUs whose memory and holders are known; none where NVML doesn't tell who holds what, as in most containers."""
    if not host.gpus or host.processes is None:
        return []
    holding = [process for process in host.processes if process.gpus]
    told = any(process.ticks is not None for process in holding)
    if not told and any(process.job or process.actor for process in host.processes):
        return []
    holders: dict[int, list[Process]] = defaultdict(list)
    owned = {process.key: process for process in facts.index.processes_by_host.get(host.name, ())}
    for process in holding:
        for hold in process.gpus:
            holders[hold.index].append(owned.get(process.key, process))
    known = (_account(gpu, holders.get(gpu.index, ())) for gpu in host.gpus)
    return [held for held in known if held]


def _account(gpu: Gpu, holders: Sequence[Process]) -> HeldGpu | None:
    """Memory of a pid that is not in the process table counts as unexplained."""
    amounts = [(process, hold.memory) for process in holders for hold in process.gpus if hold.index == gpu.index]
    if gpu.fault or gpu.memory_used is None or any(amount is None for _, amount in amounts):
        return None
    if gpu.memory_total is not None and gpu.memory_used > gpu.memory_total:
        return None
    mine = sum(max(0, amount or 0) for process, amount in amounts if process.ticks is not None)
    return HeldGpu(gpu, holders, gpu.memory_used - mine)


def _unexplained_finding(facts: Facts, host: Host, over: Sequence[HeldGpu]) -> Finding:
    total, labels = sum(held.unexplained for held in over), [held.gpu.label for held in over]
    on = f"{plural(len(labels), 'GPU')} of {facts.host_title(host)} ({', '.join(labels)})"
    text = f"{size(total)} of GPU memory is in use on {on}, but no visible process holds it"
    evidence = map(_accounting_line, over[:MAX_EVIDENCE_LINES])
    return facts.host_finding(
        host, "gpu-memory-unexplained", "warning", text, evidence, fill_in(facts, host, SEARCH_REMEDY, [held.gpu for held in over])
    )


def _accounting_line(held: HeldGpu) -> str:
    ghosts = [str(process.pid) for process in held.holders if process.ticks is None]
    unseen = f"; NVML lists pid {', '.join(ghosts)}, not in this process table" if ghosts else ""
    mine = (held.gpu.memory_used or 0) - held.unexplained
    return f"GPU {held.gpu.label}: {size(held.gpu.memory_used)} in use, {size(mine)} of it by visible processes (`nvidia-smi`){unseen}"


@rests_on("ray.nodes", "ray.status", "ray.actors", "nvml", "processes")
def free_but_held(facts: Facts) -> Iterator[Finding]:
    """GPUs that Ray counts as free, and whose memory is held by what isn't Ray's: what is placed there runs out of memory.

    Where no probe looks, Ray's agents tell of memory, and of pids that Ray doesn't know.
    """
    if facts.has_fault("ray.status") or facts.has_fault("ray.nodes"):
        return
    just_ended = facts.has_job_just_ended(facts.limits.gpu_held_age)
    near = Counter(node.ip or node.host for node in facts.living_nodes)
    for node in facts.living_nodes:
        host = facts.index.host_of(node)
        seen = facts.machine(node).gpus
        held: Callable[[], list[HeldGpu]]
        if host and node.probed and seen and not just_ended and len(facts.index.nodes_on(host)) == 1:
            gpus, held = host.gpus or (), partial(_gpus_with_holders, facts, host)
        elif not host and not node.probed and seen and near[node.ip or node.host] == 1:
            gpus, held = seen, partial(_reported_holders, facts, node)
        else:
            continue
        sure, taken = _taken_gpus(facts, node, gpus, held)
        if sure < 1 or (host and not facts.waiting_for_gpus and not any(map(_is_held_by_foreign, taken))):
            continue
        if facts.seconds_lasting(CODE, facts.title(node)) >= facts.limits.gpu_held_age:
            yield (_held_finding if host else _in_use_finding)(facts, node, sure, taken)


def _reported_holders(facts: Facts, node: Node) -> list[HeldGpu]:
    holders = facts.index.gpu_holders
    gpus = facts.machine(node).gpus or ()
    return [HeldGpu(gpu, [process for process, _ in holders.get((node.key, gpu.index), ())], 0) for gpu in gpus]


def _in_use_finding(facts: Facts, node: Node, sure: int, taken: Sequence[HeldGpu]) -> Finding:
    """Where a job has just ended it may be that one's; and without anybody who waits it may be meant so."""
    waiting = [each for each in facts.waiting_for_gpus if has_waited_long(facts, each)]
    ended = facts.has_job_just_ended(facts.limits.gpu_held_age)
    evidence = (
        *map(_holders_line, taken[:MAX_EVIDENCE_LINES]),
        "no probe runs there; `nvidia-smi` and `ps -ef` on that host show whose pids these are",
    )
    text = _held_words(facts, node, sure, "outside this Ray cluster", waiting)
    about = (each.key for each in waiting[:MAX_EVIDENCE_LINES])
    return facts.node_finding(node, CODE, "warning" if waiting and not ended else "info", text, evidence, END_REMEDY, about)


def _held_words(facts: Facts, node: Node, sure: int, whose: str, waiting: Sequence[object]) -> str:
    wait = f", and {waiting_words(waiting)} for GPUs" if waiting else ""
    return (
        f"Ray counts {plural(sure, 'GPU')} of {facts.title(node)} as free, but {'its' if sure == 1 else 'their'} memory is in use {whose}: "
        f"work placed there may run out of GPU memory{wait}"
    )


def _taken_gpus(facts: Facts, node: Node, gpus: Sequence[Gpu], held: Callable[[], list[HeldGpu]]) -> tuple[int, list[HeldGpu]]:
    """How many of the GPUs that Ray counts as free are surely held by others, and all that are held by others.

    Which GPUs are free Ray doesn't say: those that it has handed out and nobody of its own uses yet may be among them.
    """
    spare, mark = _free_gpus(node, len(gpus)), facts.limits.gpu_free
    if spare < 1:
        return 0, []
    if facts.was_found(CODE, facts.title(node)):
        mark *= CLEAR_FACTOR
    if not any(_is_fuller(gpu, mark) for gpu in gpus):
        return 0, []
    known = held()
    rays = sum(map(_is_held_by_ray, known))
    taken = [each for each in known if _is_fuller(each.gpu, mark) and not _is_held_by_ray(each)]
    unused = max(0, len(gpus) - spare - rays)
    return min(spare, len(taken) - unused), taken


def _free_gpus(node: Node, there: int) -> int:
    """Whole GPUs that Ray counts as free; none where its count can't be compared with what is there."""
    gpus = node.resources.get("GPU")
    if gpus is None or gpus.total is None or gpus.used is None or gpus.total != there:
        return 0
    return there - ceil(gpus.used) if 0 <= gpus.used <= there else 0


def _is_fuller(gpu: Gpu, mark: float) -> bool:
    return (ratio(gpu.memory_used, gpu.memory_total) or 0.0) > mark


def _is_held_by_ray(held: HeldGpu) -> bool:
    return any(map(is_at_work, held.holders))


def is_at_work(process: Process) -> bool:
    """Whether it works for this cluster, as far as can be told: another Ray hands out the same GPUs, and neither knows of the other."""
    return process.kind in KINDS_AT_WORK and process.ours is not False


def _is_held_by_foreign(held: HeldGpu) -> bool:
    """Whether a visible process outside Ray holds it; orphans and memory without a process have findings of their own."""
    return any(not process.left_over and process.ticks is not None for process in held.holders)


def _held_finding(facts: Facts, node: Node, sure: int, taken: Sequence[HeldGpu]) -> Finding:
    waiting, holders = facts.waiting_for_gpus, [process for held in taken for process in held.holders]
    evidence = (
        *map(_holders_line, taken[:MAX_EVIDENCE_LINES]),
        *(f"waits for GPUs: {what_words(each)}" for each in waiting[:MAX_EVIDENCE_LINES]),
    )
    host = facts.index.host_of(node)
    remedy = Remedy(fill_in(facts, host, SEARCH_REMEDY, [held.gpu for held in taken]) if host else SEARCH_REMEDY)
    if any(process.left_over for process in holders):
        remedy = END_REMEDY
    elif any(map(_is_held_by_foreign, taken)):
        remedy = Remedy(END_REMEDY.text)
    level: Level = "critical" if any(each.wait == "room" for each in waiting) else "warning"
    about = (*dict.fromkeys(process.key for process in holders), *(each.key for each in waiting[:MAX_EVIDENCE_LINES]))
    return facts.node_finding(node, CODE, level, _held_words(facts, node, sure, "by others", waiting), evidence, remedy, about)


def _holders_line(held: HeldGpu) -> str:
    names = (
        f"pid {process.pid} ({process.kind}{' of another Ray session' if process.ours is False else ''}) "
        f"{clean(whole_name(process))[:60]}".rstrip()
        for process in held.holders
    )
    whose = ", ".join(names) or "no visible process"
    return f"GPU {held.gpu.label}: {size(held.gpu.memory_used)} of {size(held.gpu.memory_total)} in use, by {whose}"
