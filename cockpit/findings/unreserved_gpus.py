"""Detects GPUs that Ray counts as free although workers of a running job use them: the job, such as RLinf's, did not ask Ray for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from cockpit.findings.facts import Facts
from cockpit.findings.ray_gpus import count_in_ray
from cockpit.findings.sources import rests_on
from cockpit.findings.stalls import job_subject
from cockpit.model import Actor, Finding, Gpu, Host, Job, Node, Process, Remedy
from cockpit.model.titles import whole_name
from cockpit.text import clean, join_first, plural, size
from cockpit.text.grouping import group_by

CODE: Final = "gpu-unreserved"
MAX_LINES: Final = 8


class Use(msgspec.Struct, frozen=True):
    """GPUs of a node that a job uses without asking Ray for them."""

    node: Node
    number: int
    """So many at least: Ray does not say which of its GPUs are free."""
    processes: Sequence[Process]


@rests_on("ray.nodes", "ray.status", "ray.actors", "ray.jobs", "nvml", "processes")
def unreserved_gpus(facts: Facts) -> Iterator[Finding]:
    """GPUs of probed nodes, by job. A driver that uses a GPU beside its workers is no finding."""
    if facts.has_fault("ray.status") or facts.has_fault("ray.nodes"):
        return
    # Shares of a GPU may lie on several GPUs, so Ray's sum does not tell how many of them it has handed out.
    shared = {actor.node for actor in facts.snapshot.actors or () if (actor.needs.get("GPU") or 0) % 1 and not actor.placement_group}
    uses: dict[str, list[Use]] = {}
    for node in facts.living_nodes:
        for job, use in _uses_on(facts, node) if node.id not in shared else ():
            uses.setdefault(job, []).append(use)
    for name, found in uses.items():
        yield _finding(facts, facts.index.jobs[name], found)


def _uses_on(facts: Facts, node: Node) -> Iterator[tuple[str, Use]]:
    host, counted = facts.index.host_of(node), node.resources.get("GPU")
    gpus = facts.index.machine(node).gpus
    if not host or not node.probed or len(facts.index.nodes_on(host)) != 1 or not gpus or counted is None:
        return
    # The counts can be compared only if Ray has all GPUs that exist, and has handed out whole ones.
    if count_in_ray(node) != len(gpus) or counted.used is None or counted.used % 1 or not 0 <= counted.used < len(gpus):
        return
    holding = _holding(facts, host, {gpu.index: gpu for gpu in gpus})
    asked = {index for process, actor, indices in holding if _has_asked(actor) for index in indices}
    others = group_by([each for each in holding if not _has_asked(each[1])], lambda each: each[1].job)
    for job, mine in others.items():
        known = facts.index.jobs.get(job or "")
        if job is None or known is None or not known.running or len(_indices(mine) | asked) <= counted.used:
            continue
        # A worker that ends gives its GPU back to Ray before its memory is free.
        lasting = [each for each in mine if facts.seconds_lasting(CODE, each[0].key) >= facts.limits.gpu_held_age]
        sure = min(len(_indices(lasting)), len(_indices(lasting) | asked) - int(counted.used), len(gpus) - int(counted.used))
        if sure > 0:
            yield job, Use(node, sure, [process for process, _, _ in lasting])


Holding = tuple[Process, Actor, frozenset[int]]


def _holding(facts: Facts, host: Host, gpus: Mapping[int, Gpu]) -> list[Holding]:
    """The processes of living actors that hold a good part of a GPU's memory, their children included, with the indices of these GPUs."""
    found = []
    for process in facts.index.processes_by_host.get(host.name, ()):
        actor = facts.index.actors.get(process.actor or "")
        if actor is None or actor.internal or actor.state != "ALIVE" or process.kind not in ("worker", "child") or process.ours is False:
            continue
        indices = {
            hold.index
            for hold in process.gpus
            if hold.index in gpus and (hold.memory or 0) > facts.limits.gpu_free * (gpus[hold.index].memory_total or float("inf"))
        }
        if indices:
            found.append((process, actor, frozenset(indices)))
    return found


def _has_asked(actor: Actor) -> bool:
    """Whether Ray has given it GPUs, itself or as part of a placement group."""
    return bool(actor.placement_group or actor.needs.get("GPU"))


def _indices(holding: Sequence[Holding]) -> frozenset[int]:
    return frozenset[int]().union(*(indices for _, _, indices in holding))


def _finding(facts: Facts, job: Job, uses: Sequence[Use]) -> Finding:
    """It matters where other work may be placed; a job that is alone on its cluster is only worth knowing."""
    others = [other for other in facts.snapshot.jobs or () if other.running and other.key != job.key]
    number = sum(use.number for use in uses)
    nodes = join_first([facts.title(use.node) for use in uses])
    is_it = "is free, but {} uses it" if number == 1 else "are free, but {} uses them"
    text = f"Ray believes {plural(number, 'GPU')} of {nodes} {is_it.format(job_subject(job))}: other work placed there shares the memory"
    processes = [process for use in uses for process in use.processes]
    evidence = [
        f"{facts.title(use.node)}: Ray counts {use.node.resources['GPU'].used or 0:g} GPUs as used (`ray status -v`); {_holders(use)}"
        for use in uses[:MAX_LINES]
    ]
    moments = [moment for process in processes if (moment := facts.first_seen(CODE, process.key)) is not None]
    return Finding(
        CODE,
        "warning" if others or facts.waiting_for_gpus else "info",
        job_subject(job),
        text,
        tuple(evidence),
        min(moments, default=None),
        Remedy(
            "start no other work on these nodes until the job ends, or run it in a Ray of its own: Ray knows only GPUs that actors and "
            "placement groups ask for (num_gpus)"
        ),
        (job.key, *(use.node.key for use in uses), *(process.key for process in processes)),
        facts.oldest_stale([use.node for use in uses]),
    )


def _holders(use: Use) -> str:
    told = []
    for process in use.processes[:MAX_LINES]:
        held = ", ".join(f"{size(hold.memory)} of GPU {Gpu(hold.index).label}" for hold in process.gpus)
        told.append(f"pid {process.pid} {clean(whole_name(process))[:60]} holds {held}")
    more = len(use.processes) - MAX_LINES
    return "; ".join([*told, *([f"and {more} more"] if more > 0 else [])])
