"""Detects GPU memory in use that no process accounts for, and GPUs that Ray counts as free although their memory is in use."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from math import ceil

import msgspec

from cockpit.findings.facts import Facts
from cockpit.findings.gpus import fill_in, has_waited_long, waiting_words
from cockpit.findings.sources import rests_on
from cockpit.findings.waiting import kind_and_name
from cockpit.model import Finding, Gpu, Host, Level, Node, Process, Remedy
from cockpit.model.titles import whole_name
from cockpit.text import clean, plural, ratio, size

CLEAR_FACTOR = 0.75
"""Share of the mark at which a finding begins below which it ends."""
CODE = "gpu-memory-held"
KINDS_AT_WORK = ("worker", "driver", "child")
MAX_EVIDENCE_LINES = 8
SEARCH_REMEDY = (
    "as root, list the processes that have the devices open: `fuser -v /dev/nvidia*`, also inside containers; "
    "if there are none, the driver's count is wrong: reset the GPU (`nvidia-smi -r -i INDEX`) or reboot the host"
)
END_REMEDY = Remedy("kill the orphan processes there, and ask the owners of the other processes to free the memory", "kill-orphans")


class HeldGpu(msgspec.Struct, frozen=True):
    """A GPU with the processes that hold its memory."""

    gpu: Gpu
    holders: Sequence[Process]
    unexplained: int
    """Bytes in use that no visible process holds."""


@rests_on("nvml", "processes")
def unexplained_memory(facts: Facts) -> Iterator[Finding]:
    """Memory in use that NVML's list of processes does not account for, by host."""
    mark = facts.limits.unexplained_memory
    for host in facts.snapshot.hosts.values():
        name = facts.host_title(host)
        least = CLEAR_FACTOR * mark if facts.was_found("gpu-memory-unexplained", name) else mark
        over = [held for held in _gpus_with_holders(facts, host) if held.unexplained > least]
        lasted = facts.seconds_lasting("gpu-memory-unexplained", name) if over else 0.0
        if not over or lasted < facts.limits.unexplained_age or facts.has_job_just_ended(facts.limits.unexplained_age):
            continue
        total, labels = sum(held.unexplained for held in over), [held.gpu.label for held in over]
        text = (
            f"{size(total)} of GPU memory is in use on {plural(len(labels), 'GPU')} of {name} ({', '.join(labels)}), "
            "but no visible process holds it"
        )
        evidence: list[str] = []
        for held in over[:MAX_EVIDENCE_LINES]:
            ghosts = [str(process.pid) for process in held.holders if process.ticks is None]
            unseen = f"; NVML lists pid {', '.join(ghosts)}, not in this process table" if ghosts else ""
            mine = (held.gpu.memory_used or 0) - held.unexplained
            used = f"{size(held.gpu.memory_used)} in use, {size(mine)} of it by visible processes (`nvidia-smi`)"
            evidence.append(f"GPU {held.gpu.label}: {used}{unseen}")
        remedy = fill_in(facts, host, SEARCH_REMEDY, [held.gpu for held in over])
        yield facts.host_finding(host, "gpu-memory-unexplained", "warning", text, evidence, remedy)


def _gpus_with_holders(facts: Facts, host: Host) -> list[HeldGpu]:
    """The GPUs whose memory and holders are known; none if NVML does not list the holders, as in most containers."""
    if not host.gpus or host.processes is None:
        return []
    holding = [process for process in host.processes if process.gpus]
    are_holders_listed = any(process.ticks is not None for process in holding)
    if not are_holders_listed and any(process.job or process.actor for process in host.processes):
        return []
    holders: dict[int, list[Process]] = defaultdict(list)
    owned = {process.key: process for process in facts.index.processes_by_host.get(host.name, ())}
    for process in holding:
        for hold in process.gpus:
            holders[hold.index].append(owned.get(process.key, process))
    found: list[HeldGpu] = []
    for gpu in host.gpus:
        mine = holders.get(gpu.index, [])
        amounts = [(process, hold.memory) for process in mine for hold in process.gpus if hold.index == gpu.index]
        if gpu.fault or gpu.memory_used is None or any(amount is None for _, amount in amounts):
            continue
        if gpu.memory_total is not None and gpu.memory_used > gpu.memory_total:
            continue
        # Memory of a pid that is not in the process table counts as unexplained.
        visible = sum(max(0, amount or 0) for process, amount in amounts if process.ticks is not None)
        found.append(HeldGpu(gpu, mine, gpu.memory_used - visible))
    return found


@rests_on("ray.nodes", "ray.status", "ray.actors", "nvml", "processes")
def free_but_held(facts: Facts) -> Iterator[Finding]:
    """GPUs that Ray counts as free although processes outside Ray hold their memory: work placed there runs out of memory.

    Without a probe, Ray's agents report the memory, and pids that Ray doesn't know.
    """
    if facts.has_fault("ray.status") or facts.has_fault("ray.nodes"):
        return
    just_ended = facts.has_job_just_ended(facts.limits.gpu_held_age)
    near = Counter(node.ip or node.host for node in facts.living_nodes)
    for node in facts.living_nodes:
        # Whole GPUs that Ray counts as free; its count can be compared only if it has all the GPUs that exist.
        host, title = facts.index.host_of(node), facts.title(node)
        gpus, counted = facts.index.machine(node).gpus, node.resources.get("GPU")
        if not gpus or counted is None or counted.total != len(gpus) or counted.used is None or not 0 <= counted.used <= len(gpus):
            continue
        free = len(gpus) - ceil(counted.used)
        if free < 1:
            continue
        mark = facts.limits.gpu_free * (CLEAR_FACTOR if facts.was_found(CODE, title) else 1)
        full = {gpu.index for gpu in gpus if (ratio(gpu.memory_used, gpu.memory_total) or 0.0) > mark}
        if not full:
            continue
        if host and node.probed and not just_ended and len(facts.index.nodes_on(host)) == 1:
            known = _gpus_with_holders(facts, host)
        elif not host and not node.probed and near[node.ip or node.host] == 1:
            holders = facts.index.gpu_holders
            known = [HeldGpu(gpu, [process for process, _ in holders.get((node.key, gpu.index), ())], 0) for gpu in gpus]
        else:
            continue

        # Ray does not say which GPUs are free: a full one may be one that Ray has handed out and its work does not use yet.
        others = [held for held in known if not any(map(is_at_work, held.holders))]
        taken = [held for held in others if held.gpu.index in full]
        unused = max(0, len(gpus) - free - (len(known) - len(others)))
        sure = min(free, len(taken) - unused)
        if sure < 1 or (host and not facts.waiting_for_gpus and not any(map(_is_held_by_foreign, taken))):
            continue
        if facts.seconds_lasting(CODE, title) >= facts.limits.gpu_held_age:
            yield _held_finding(facts, node, host, sure, taken)


def _held_finding(facts: Facts, node: Node, host: Host | None, sure: int, taken: Sequence[HeldGpu]) -> Finding:
    """Without a probe the memory may belong to a job that has just ended; and if nothing waits for GPUs, it may be intended."""
    evidence = list(map(_holders_line, taken[:MAX_EVIDENCE_LINES]))
    keys: list[str] = []
    level: Level
    if host:
        whose, waiting, holders = "by others", list(facts.waiting_for_gpus), [process for held in taken for process in held.holders]
        evidence += [f"waits for GPUs: {kind_and_name(each)}" for each in waiting[:MAX_EVIDENCE_LINES]]
        keys += dict.fromkeys(process.key for process in holders)
        level = "critical" if any(each.wait == "room" for each in waiting) else "warning"
        remedy = Remedy(fill_in(facts, host, SEARCH_REMEDY, [held.gpu for held in taken]))
        if any(process.left_over for process in holders):
            remedy = END_REMEDY
        elif any(map(_is_held_by_foreign, taken)):
            remedy = Remedy(END_REMEDY.text)
    else:
        whose, waiting = "outside this Ray cluster", [each for each in facts.waiting_for_gpus if has_waited_long(facts, each)]
        evidence.append("no probe runs there; `nvidia-smi` and `ps -ef` on that host show whose pids these are")
        level = "warning" if waiting and not facts.has_job_just_ended(facts.limits.gpu_held_age) else "info"
        remedy = END_REMEDY
    wait = f", and {waiting_words(waiting)} for GPUs" if waiting else ""
    text = (
        f"Ray counts {plural(sure, 'GPU')} of {facts.title(node)} as free, but {'its' if sure == 1 else 'their'} memory is in use {whose}: "
        f"work placed there may run out of GPU memory{wait}"
    )
    about = (*keys, *(each.key for each in waiting[:MAX_EVIDENCE_LINES]))
    return facts.node_finding(node, CODE, level, text, evidence, remedy, about)


def is_at_work(process: Process) -> bool:
    """Whether it works for this cluster, as far as is known. Another Ray may hand out the same GPUs: neither knows of the other."""
    return process.kind in KINDS_AT_WORK and process.ours is not False


def _is_held_by_foreign(held: HeldGpu) -> bool:
    """Whether a visible process outside Ray holds it. Orphans, and memory without a process, have findings of their own."""
    return any(not process.left_over and process.ticks is not None for process in held.holders)


def _holders_line(held: HeldGpu) -> str:
    names = (
        f"pid {process.pid} ({process.kind}{' of another Ray session' if process.ours is False else ''}) "
        f"{clean(whole_name(process))[:60]}".rstrip()
        for process in held.holders
    )
    whose = ", ".join(names) or "no visible process"
    return f"GPU {held.gpu.label}: {size(held.gpu.memory_used)} of {size(held.gpu.memory_total)} in use, by {whose}"
