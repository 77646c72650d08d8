"""Detects a GPU that does far less than the others of its group of actors, which do the same work."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from statistics import median

import msgspec

from cockpit.findings.facts import Facts
from cockpit.findings.gpu_history import UTILIZATION
from cockpit.findings.sources import rests_on
from cockpit.findings.stalls import find_gpu, most_watts, number_range
from cockpit.model import Actor, Finding, Gpu, Node, Process, Remedy
from cockpit.model.titles import whole_name
from cockpit.text import age, clean, plural
from cockpit.text.grouping import group_by

CODE = "gpu-lags"
MIN_FELLOWS = 4
"""Fewest GPUs in a group that are compared."""
GPUS_PER_LAGGARD = 8
"""Of this many GPUs at most one lags: if more are behind, they have less to do."""
MIN_BUSY_PERCENT = 60.0
"""Average utilization in percent from which on the others count as working."""
MAX_BUSY_SHARE, MAX_BUSY_SHARE_CLEAR = 0.5, 0.65
"""Share of the others' utilization up to which a GPU lags; the second once it was found."""
MAX_POWER_SHARE = 0.75
"""The same for power: it distinguishes a GPU that computes all the time from one that only waits at 100 %."""
MIN_EVEN_SHARE = 0.8
"""Share of the median that all others must reach: if they differ among themselves, nothing is usual."""

Role = tuple[str | None, str, str]
"""A job, a class, and a name without its digits: actors with the same role do the same work."""


class Rank(msgspec.Struct, frozen=True):
    """A GPU of an actor, with its average utilization in percent and power in watts."""

    node: Node
    gpu: Gpu
    actor: Actor
    process: Process
    busy: float
    power: float

    @property
    def key(self) -> str:
        """The key of the GPU's row."""
        return f"{self.node.key}:{self.gpu.index}"


@rests_on("ray.nodes", "ray.actors", "nvml", "processes")
def lagging_gpus(facts: Facts) -> Iterator[Finding]:
    """GPUs that do far less than the others of their group for minutes. A single sample can't find them."""
    if facts.is_single_sample or facts.has_fault("ray.nodes"):
        return
    seen: set[str] = set()
    for ranks in _groups(facts):
        for rank in _find_laggards(facts, ranks):
            lasted = facts.seconds_lasting(CODE, rank.key) if rank.key not in seen else 0.0
            seen.add(rank.key)
            if lasted >= facts.limits.gpu_lags_for:
                yield _lag_finding(facts, rank, ranks, lasted)


def _groups(facts: Facts) -> Iterator[Sequence[Rank]]:
    """Groups of ranks with one role and one GPU model, on GPUs that are shared by the same roles."""
    # Jobs with a GPU that may lag and another that works: a quick test, which most jobs fail.
    low, working = set[str | None](), set[str | None]()
    for process in facts.snapshot.processes or ():
        for hold in process.gpus if process.actor else ():
            load = facts.gpu_history.load(f"node:{process.node}", hold.index)
            percent = load[UTILIZATION] if load else None
            if percent is not None and percent <= 100 * MAX_BUSY_SHARE_CLEAR:
                low.add(process.job)
            if percent is not None and percent >= MIN_BUSY_PERCENT:
                working.add(process.job)
    jobs = low & working

    # By Ray's node id and GPU index: the roles of the actors that hold the GPU, each with one process of every such actor.
    roles: dict[tuple[str, int], dict[Role, list[Process]]] = {}
    for process in (facts.snapshot.processes or ()) if jobs else ():
        actor = facts.index.actors.get(process.actor or "") if process.gpus and process.node and process.job in jobs else None
        if actor is None or actor.state != "ALIVE":
            continue
        role = (actor.job, actor.class_, re.sub(r"\d+", "#", actor.name))
        for hold in process.gpus:
            holders = roles.setdefault((process.node or "", hold.index), {}).setdefault(role, [])
            if all(other.actor != process.actor for other in holders):
                holders.append(process)

    groups: dict[tuple[object, ...], list[Rank]] = {}
    for (node_id, index), by_role in roles.items():
        node = facts.index.nodes.get(node_id)
        gpu = find_gpu(facts, node, index)
        load = facts.gpu_history.load(node.key, index) if node else None
        if node is None or gpu is None or load is None or gpu.is_mig or any(len(holders) > 1 for holders in by_role.values()):
            continue
        busy, power, *_ = load
        if busy is not None and power is not None and busy <= 100:
            for role, (process, *_) in by_role.items():
                rank = Rank(node, gpu, facts.index.actors[process.actor or ""], process, busy, power)
                groups.setdefault((role, frozenset(by_role), gpu.name), []).append(rank)
    return (ranks for ranks in groups.values() if len(ranks) >= MIN_FELLOWS and len({rank.actor.id for rank in ranks}) == len(ranks))


def _find_laggards(facts: Facts, ranks: Sequence[Rank]) -> Sequence[Rank]:
    # The group must work: with the power of a waiting kernel the whole job may hang, which is another finding.
    busy, power = median(rank.busy for rank in ranks), median(rank.power for rank in ranks)
    limit = ranks[0].gpu.power_limit or most_watts(ranks[0].gpu.name)
    if busy < MIN_BUSY_PERCENT or (limit is not None and power < facts.limits.spin_power * limit):
        return ()
    behind: list[Rank] = []
    for rank in ranks:
        share = MAX_BUSY_SHARE_CLEAR if facts.was_found(CODE, _subject(facts, rank)) else MAX_BUSY_SHARE
        if rank.power <= MAX_POWER_SHARE * power and rank.busy <= share * busy:
            behind.append(rank)
    others = [rank for rank in ranks if rank not in behind]
    even = all(rank.busy >= MIN_EVEN_SHARE * busy and rank.power >= MIN_EVEN_SHARE * power for rank in others)
    return behind if even and len(behind) <= max(1, len(ranks) // GPUS_PER_LAGGARD) else ()


def _subject(facts: Facts, rank: Rank) -> str:
    return f"{facts.title(rank.node)} GPU {rank.gpu.label}"


def _lag_finding(facts: Facts, rank: Rank, ranks: Sequence[Rank], lasted: float) -> Finding:
    others, job = [each for each in ranks if each is not rank], facts.index.jobs.get(rank.actor.job or "")
    role = clean(f"{rank.actor.class_}{f' of job {facts.job_title(rank.actor.job)}' if rank.actor.job else ''}")[:120]
    name = clean(rank.actor.name or rank.actor.class_)[:60]
    text = (
        f"GPU {rank.gpu.label} of {facts.title(rank.node)} lags behind the other {len(others)} GPUs of {role}: "
        f"{_load_words((rank,))} on average, the others {_load_words(others)}, for {age(lasted)}"
    )
    evidence = [f"{_subject(facts, rank)}: {_load_words((rank,))}, pid {rank.process.pid} {name} (`nvidia-smi dmon -s pu`)"]
    for here in list(group_by(others, lambda each: each.node.key).values())[:8]:
        labels = ", ".join(each.gpu.label for each in sorted(here, key=lambda each: each.gpu.index))
        evidence.append(f"{facts.title(here[0].node)} GPU {labels}: {_load_words(here)}")

    # A process outside the group on the same GPU may take its time.
    held = facts.index.gpu_holders.get((rank.node.key, rank.gpu.index), ())
    strangers = [process for process, _ in held if process.actor is None and process.kind not in ("worker", "driver", "child")]
    if strangers:
        names = ", ".join(f"pid {process.pid} ({process.kind}) {clean(whole_name(process))[:40]}".rstrip() for process in strangers[:4])
        evidence.append(f"also held by {plural(len(strangers), 'other process', 'other processes')}: {names}")
    remedy = Remedy(
        "the job is as slow as this rank: compare its stacks with those of the others (`py-spy dump --pid PID`); does this rank load "
        "data, offload or log while the others compute? Then look at its host (CPU, memory, disk, network) and at the GPU's clocks and "
        "links (`nvidia-smi -q -d PERFORMANCE`, `nvidia-smi nvlink -e`)"
    )
    since, seen = facts.now - lasted, facts.oldest_stale({each.node.id: each.node for each in ranks}.values())
    about = (rank.key, rank.process.key, rank.actor.key, *((job.key,) if job else ()))
    return Finding(CODE, "warning", _subject(facts, rank), text, tuple(evidence), since, remedy, about, seen)


def _load_words(ranks: Sequence[Rank]) -> str:
    return f"{number_range([rank.busy for rank in ranks])}% busy with {number_range([rank.power for rank in ranks])} W"
