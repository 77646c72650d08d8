"""Clusters of one training job whose phases and steps have been watched."""

from __future__ import annotations

from typing import Any

from cockpit.model import Activity, Hold, Job, Laggard, PhaseSpan, Process, Snapshot, Step
from tests.world import GIB, NOW, node, process

JOB = Job("ppo-7b", "02000000", "ppo-7b", "RUNNING", "python train.py", NOW - 5000)
STEP = (("rollout", 60.0), ("scoring", 30.0), ("training", 20.0), ("weight sync", 10.0))
"""The phases of each step, and their seconds."""
STEP_S = 120.0
IN_STEP_S = 40.0
"""Seconds since the running step began."""


def rank(number: int, method: str = "", class_: str = "PolicyModelActor", **more: Any) -> Process:
    """A worker; eight of them have the GPUs of a node. An idle one has no method."""
    title = f"ray::{class_}.{method}" if method else f"ray::{class_}"
    on = 1 + number // 8
    facts = {"host": f"node{on}", "node": f"{on:056x}", "job": "02000000", "gpus": (Hold(number % 8, 60 * GIB),), **more}
    return process(2000 + number, command=title, **facts)


def past(steps: int) -> tuple[tuple[PhaseSpan, ...], tuple[Step, ...]]:
    """The phases of so many steps and of the running one, and the steps that have ended."""
    spans: list[PhaseSpan] = []
    ended: list[Step] = []
    for number in range(steps):
        begun = moment = NOW - IN_STEP_S - STEP_S * (steps - number)
        for phase, seconds in STEP:
            spans.append(PhaseSpan(JOB.key, phase, moment, moment + seconds))
            moment += seconds
        ended.append(Step(JOB.key, begun, moment, 412 - steps + number))
    spans.append(PhaseSpan(JOB.key, "rollout", NOW - IN_STEP_S))
    return tuple(spans), tuple(ended)


def phased(*processes: Process, steps: int = 4, **more: Any) -> Snapshot:
    """The job in its step 412, in rollout; `more`: fields of its activity, or of the snapshot."""
    spans, ended = past(steps)
    own = {name: more.pop(name) for name in list(more) if name in Activity.__struct_fields__ and name != "job"}
    known = {"phase": "rollout", "since": NOW - IN_STEP_S, "step": 412, "step_began": NOW - IN_STEP_S, "steps_seen": steps, **own}
    nodes = tuple(node(number, probed=False) for number in sorted({int(each.node or "1", 16) for each in processes} or {1}))
    facts = {
        "taken": NOW,
        "nodes": nodes,
        "jobs": (JOB,),
        "processes": processes,
        "activities": (Activity(JOB.key, **known),),
        "spans": spans,
        "steps": ended,
        **more,
    }
    return Snapshot(**facts)


def lagging(count: int = 8, odd: int = 3, **more: Any) -> Snapshot:
    """All workers but one have been idle for four minutes; that one is still in `fit`."""
    ranks = [rank(number, "fit" if number == odd else "") for number in range(count)]
    behind = Laggard(ranks[odd].key, "PolicyModelActor.fit", NOW - 240, count - 1)
    return phased(*ranks, phase="training", laggards=(behind,), **more)
