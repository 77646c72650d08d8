"""Detects a Slurm job that is about to end or was requeued, and nodes that Slurm takes out of service while Ray uses them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from cockpit.findings.facts import Facts
from cockpit.findings.sources import rests_on
from cockpit.model import Finding, Level, Remedy, SlurmNode
from cockpit.text import clean, plural

MAX_NAMED = 6
SIGNS = "*~#!%$@^-+"
"""Signs after a state (sinfo(1), NODE STATE CODES); `*`: its slurmd doesn't answer."""
OUT = frozenset(["down", "error"])
LEAVING = frozenset(["draining", "drained", "fail", "failing"])
"""`fail`, `failing`: an administrator expects the node to fail (sinfo(1))."""


@rests_on("slurm")
def ending_allocation(facts: Facts) -> Iterator[Finding]:
    """The Slurm job is about to end, and everything in it."""
    job = facts.snapshot.allocation
    if job is None or job.state == "PENDING" or job.ends is None or job.ends - facts.now > facts.limits.slurm_ends:
        return
    if job.ends < facts.now and facts.has_fault("slurm"):  # it has ended, and Slurm no longer knows it
        return
    running = [one.id for one in facts.snapshot.jobs or () if one.status == "RUNNING"]
    jobs = "" if not running else f"job {clean(running[0])}" if len(running) == 1 else f"{len(running)} running jobs"
    ends = " and ".join(filter(None, ("this Ray cluster" if facts.snapshot.cluster.reachable else "", jobs)))
    left, title = f"{max(1, math.ceil((job.ends - facts.now) / 60))} min", f"Slurm job {job.job}"
    text = f"{title} reaches its time limit in {left}{f', and {ends} will end with it' if ends else ''}"
    evidence = [f"squeue: job {job.job} is {clean(job.state)}, {left} left"]
    evidence += [f"job {clean(one)} is RUNNING in Ray" for one in running[:MAX_NAMED]]
    remedy = Remedy(
        "save a checkpoint before that, and submit the job again from it; or ask for more time: "
        f"`scontrol update JobId={job.job} TimeLimit=+60`, which most sites allow only to Slurm operators"
    )
    level: Level = "warning" if running or (ends and facts.snapshot.jobs is None) else "info"
    yield Finding("slurm-ends", level, title, text, tuple(evidence), remedy=remedy)


@rests_on("slurm")
def requeued_allocation(facts: Facts) -> Iterator[Finding]:
    """The Slurm job ran, since its nodes are known, and waits again."""
    job = facts.snapshot.allocation
    if job is None or job.state != "PENDING":
        return
    title, why = f"Slurm job {job.job}", "one of its nodes has failed, or it was preempted or requeued"
    text = f"{title} waits for nodes again, and what ran in it has ended: {why}"
    remedy = Remedy(
        f"`scontrol show job {job.job}` shows why, `sinfo` which node is down; when the job runs again, it may have other nodes: start "
        "cockpit again"
    )
    yield Finding("slurm-requeued", "critical", title, text, (f"squeue: job {job.job} is {job.state}",), remedy=remedy)


@rests_on("slurm", "ray.nodes")
def leaving_nodes(facts: Facts) -> Iterator[Finding]:
    """Nodes that Slurm calls down or drains, and that Ray counts as alive. Until Ray has listed its nodes, all nodes of the job count."""
    job = facts.snapshot.allocation
    if job is None:
        return
    alive = {name: node.key for node in facts.living_nodes for name in (node.host, node.host.partition(".")[0], node.name, node.ip) if name}
    places = {node.name: alive[name] for node in job.nodes for name in reversed((node.name, *node.others)) if name in alive}
    has_ray_answered = any(node.id for node in facts.snapshot.nodes or ())
    known = [node for node in job.nodes if node.name in places or not has_ray_answered]
    silent = [node for node in known if "*" in node.state or _state(node) in OUT]
    if silent:
        them = "it" if len(silent) == 1 else "them"
        text = (
            f"Slurm calls {_names(silent)} down or not responding{f', but Ray counts {them} as alive' if places else ''}: "
            f"when Slurm gives up the node, it ends job {job.job} on all nodes"
        )
        remedy = (
            f"see whether slurmd runs there (`scontrol show node {clean(silent[0].name)}`), and save a checkpoint; "
            "a job that was submitted with --no-kill continues without the node"
        )
        yield _finding("slurm-node-down", text, remedy, silent, places)
    if draining := [node for node in known if _state(node) in LEAVING and node not in silent]:
        text = (
            f"Slurm takes {_names(draining)} out of service after job {job.job}: what runs there continues, "
            "but a job that is submitted again will not get the same nodes"
        )
        remedy = "read the reason: if it is a fault of the node, save a checkpoint and start again on other nodes"
        yield _finding("slurm-node-drain", text, remedy, draining, places)


def _state(node: SlurmNode) -> str:
    return node.state.lower().rstrip(SIGNS)


def _finding(code: str, text: str, remedy: str, nodes: Sequence[SlurmNode], places: Mapping[str, str]) -> Finding:
    """`places`: the keys of Ray's nodes by name."""
    lines = (f"sinfo: {node.name} is {node.state}{f': {node.reason}' if node.reason else ''}" for node in nodes[:MAX_NAMED])
    about = tuple(places[node.name] for node in nodes if node.name in places)
    return Finding(code, "warning", _names(nodes), text, tuple(map(clean, lines)), remedy=Remedy(remedy), about=about)


def _names(nodes: Sequence[SlurmNode]) -> str:
    return clean(nodes[0].name) if len(nodes) == 1 else plural(len(nodes), "node")
