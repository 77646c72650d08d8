"""A GPU that lags behind its fellows: those of the same group of actors, which do the same work."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from statistics import median

import msgspec

from cockpit.findings.facts import Facts
from cockpit.findings.gpu_history import UTILIZATION
from cockpit.findings.sources import rests_on
from cockpit.findings.stalls import most_watts, number_range
from cockpit.model import Actor, Finding, Gpu, Node, Process, Remedy
from cockpit.model.titles import whole_name
from cockpit.text import age, clean, plural

CODE = "gpu-lags"
MIN_FELLOWS = 4
"""GPUs of a group from which on one can be told from the others."""
GPUS_PER_LAGGARD = 8
"""At most one GPU of so many lags; where more do, they have less to do."""
MIN_BUSY_PERCENT = 60.0
"""Percent of utilization, on average, from which on the others count as working."""
MAX_BUSY_SHARE, MAX_BUSY_SHARE_CLEAR = 0.5, 0.65
"""Of the others' utilization, at most as much a GPU that lags has; the second once it was told."""
MAX_POWER_SHARE = 0.75
"""The same of their power: a GPU that only waits at 100 % shows there, and one that computes all the time does not lag."""
MIN_EVEN_SHARE = 0.8
"""Of the median, which all the others have at least: where they differ among themselves, nobody knows what is usual."""
MIG_FROM = 1000
"""Indices from which on it is a MIG device."""

Role = tuple[str | None, str, str]
"""A job, a class, and a name without its numbers: actors that have these in common do the same."""


class Rank(msgspec.Struct, frozen=True):
    """A GPU of one such actor, with what it does on average."""

    node: Node
    gpu: Gpu
    actor: Actor
    process: Process
    busy: float
    power: float

    @property
    def key(self) -> str:
        """That of its row."""
        return f"{self.node.key}:{self.gpu.index}"


@rests_on("ray.nodes", "ray.actors", "nvml", "processes")
def lagging_gpus(facts: Facts) -> Iterator[Finding]:
    """GPUs with far less to do than their fellows, for minutes. A single look can't tell."""
    if facts.is_single_look or facts.has_fault("ray.nodes"):
        return
    seen: set[str] = set()
    for ranks in _groups(facts):
        for rank in _find_laggards(facts, ranks):
            lasted = facts.seconds_lasting(CODE, rank.key) if rank.key not in seen else 0.0
            seen.add(rank.key)
            if lasted >= facts.limits.gpu_lags_for:
                yield _lag_finding(facts, rank, ranks, lasted)


def _jobs_with_both(facts: Facts) -> set[str | None]:
    """Jobs of which one GPU may lag and another may work: quickly, for most have none or only such."""
    low: set[str | None] = set()
    busy: set[str | None] = set()
    for process in facts.snapshot.processes or ():
        for hold in process.gpus if process.actor else ():
            load = facts.gpu_history.load(f"node:{process.node}", hold.index)
            percent = load[UTILIZATION] if load else None
            if percent is not None and percent <= 100 * MAX_BUSY_SHARE_CLEAR:
                low.add(process.job)
            if percent is not None and percent >= MIN_BUSY_PERCENT:
                busy.add(process.job)
    return low & busy


def _groups(facts: Facts) -> Iterator[Sequence[Rank]]:
    """Ranks of one role, on GPUs that are shared by the same roles, of one model."""
    jobs = _jobs_with_both(facts)
    roles = _roles_by_gpu(facts, jobs) if jobs else {}
    groups: dict[tuple[object, ...], list[Rank]] = {}
    for (node_id, index), by_role in roles.items():
        node = facts.nodes.get(node_id)
        gpu = next((gpu for gpu in (facts.machine(node).gpus if node else None) or () if gpu.index == index), None)
        load = facts.gpu_history.load(node.key, index) if node else None
        if node is None or gpu is None or load is None or index >= MIG_FROM or any(len(held) > 1 for held in by_role.values()):
            continue
        busy, power, *_ = load
        if busy is not None and power is not None and busy <= 100:
            for role, (held, *_) in by_role.items():
                rank = Rank(node, gpu, facts.actors[held.actor or ""], held, busy, power)
                groups.setdefault((role, frozenset(by_role), gpu.name), []).append(rank)
    return (ranks for ranks in groups.values() if len(ranks) >= MIN_FELLOWS and len({rank.actor.id for rank in ranks}) == len(ranks))


def _roles_by_gpu(facts: Facts, jobs: Collection[str | None]) -> Mapping[tuple[str, int], dict[Role, list[Process]]]:
    """By Ray's id of a node and the index of a GPU: the roles of the actors that hold it, each with a process for each actor."""
    found: dict[tuple[str, int], dict[Role, list[Process]]] = {}
    for process in facts.snapshot.processes or ():
        actor = facts.actors.get(process.actor or "") if process.gpus and process.node and process.job in jobs else None
        if actor is None or actor.state != "ALIVE":
            continue
        role = (actor.job, actor.class_, _pattern(actor.name))
        for hold in process.gpus:
            held = found.setdefault((process.node or "", hold.index), {}).setdefault(role, [])
            if all(other.actor != process.actor for other in held):
                held.append(process)
    return found


@lru_cache(maxsize=20_000)
def _pattern(name: str) -> str:
    return re.sub(r"\d+", "#", name)


def _find_laggards(facts: Facts, ranks: Sequence[Rank]) -> Sequence[Rank]:
    busy, power = median(rank.busy for rank in ranks), median(rank.power for rank in ranks)
    if busy < MIN_BUSY_PERCENT or not _are_working(facts, ranks, power):
        return ()
    behind = [rank for rank in ranks if rank.power <= MAX_POWER_SHARE * power and rank.busy <= _max_busy_share(facts, rank) * busy]
    others = [rank for rank in ranks if rank not in behind]
    even = all(rank.busy >= MIN_EVEN_SHARE * busy and rank.power >= MIN_EVEN_SHARE * power for rank in others)
    return behind if even and len(behind) <= max(1, len(ranks) // GPUS_PER_LAGGARD) else ()


def _max_busy_share(facts: Facts, rank: Rank) -> float:
    return MAX_BUSY_SHARE_CLEAR if facts.was_found(CODE, _subject(facts, rank)) else MAX_BUSY_SHARE


def _are_working(facts: Facts, ranks: Sequence[Rank], power: float) -> bool:
    """Whether what they draw is more than what a kernel draws that only waits; then the whole job may hang, which is told elsewhere."""
    limit = ranks[0].gpu.power_limit or most_watts(ranks[0].gpu.name)
    return limit is None or power >= facts.limits.spin_power * limit


def _subject(facts: Facts, rank: Rank) -> str:
    return f"{facts.title(rank.node)} GPU {rank.gpu.label}"


def _lag_finding(facts: Facts, rank: Rank, ranks: Sequence[Rank], lasted: float) -> Finding:
    others, job = [each for each in ranks if each is not rank], facts.jobs.get(rank.actor.job or "")
    role = clean(f"{rank.actor.class_}{f' of job {facts.job_title(rank.actor.job)}' if rank.actor.job else ''}")[:120]
    return Finding(
        code=CODE,
        level="warning",
        subject=_subject(facts, rank),
        text=f"GPU {rank.gpu.label} of {facts.title(rank.node)} lags behind the other {len(others)} GPUs of {role}: "
        f"{_load_words((rank,))} on average, the others {_load_words(others)}, for {age(lasted)}",
        evidence=(
            _rank_line(facts, rank),
            *(_node_line(facts, node, others) for node in list(dict.fromkeys(each.node.key for each in others))[:8]),
            *_stranger_lines(facts, rank),
        ),
        since=facts.now - lasted,
        remedy=Remedy(
            "the job is as slow as this rank: compare its stacks with those of the others (`py-spy dump --pid PID`); does this rank load "
            "data, offload or log while the others compute? Then look at its host (CPU, memory, disk, network) and at the GPU's clocks and "
            "links (`nvidia-smi -q -d PERFORMANCE`, `nvidia-smi nvlink -e`)"
        ),
        about=(rank.key, rank.process.key, rank.actor.key, *((job.key,) if job else ())),
        seen=facts.oldest_stale({each.node.id: each.node for each in ranks}.values()),
    )


def _load_words(ranks: Sequence[Rank]) -> str:
    return f"{number_range([rank.busy for rank in ranks])}% busy with {number_range([rank.power for rank in ranks])} W"


def _rank_line(facts: Facts, rank: Rank) -> str:
    name = clean(rank.actor.name or rank.actor.class_)[:60]
    return f"{_subject(facts, rank)}: {_load_words((rank,))}, pid {rank.process.pid} {name} (`nvidia-smi dmon -s pu`)"


def _node_line(facts: Facts, node: str, others: Sequence[Rank]) -> str:
    there = [rank for rank in others if rank.node.key == node]
    labels = ", ".join(rank.gpu.label for rank in sorted(there, key=lambda rank: rank.gpu.index))
    return f"{facts.title(there[0].node)} GPU {labels}: {_load_words(there)}"


def _stranger_lines(facts: Facts, rank: Rank) -> tuple[str, ...]:
    """Who else holds it, and nobody's fellow: it may be what takes the time."""
    held = facts.index.gpu_holders.get((rank.node.key, rank.gpu.index), ())
    others = [process for process, _ in held if process.actor is None and process.kind not in ("worker", "driver", "child")]
    if not others:
        return ()
    names = ", ".join(f"pid {process.pid} ({process.kind}) {clean(whole_name(process))[:40]}".rstrip() for process in others[:4])
    return (f"also held by {plural(len(others), 'other process', 'other processes')}: {names}",)
