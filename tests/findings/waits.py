"""Waiting actors and placement groups of two jobs, and the findings of one sample."""

from __future__ import annotations

from cockpit.findings.waiting import deadlocks, waiting_actors, waiting_groups
from cockpit.model import Bundle, Job, PlacementGroup
from tests.findings.detection import detect
from tests.world import NOW, actor, snapshot

ALONE = (waiting_groups, waiting_actors, deadlocks)
JOBS = (
    Job("train1", "01000000", "train1", "RUNNING", started=NOW - 900),
    Job("train2", "02000000", "train2", "RUNNING", started=NOW - 300),
)
HELD = "needs 8 GPUs on one node; node1 has 8 but 2 are reserved by job train1 (actor Critic)"
NODE = f"{1:056x}"


def waits(number=1, seconds=60.0, **more):
    facts = {
        "state": "PENDING_CREATION",
        "class_": "Critic",
        "node": None,
        "pid": None,
        "since": NOW - seconds,
        "why": HELD,
        "wait": "held",
    }
    return actor(number, **{**facts, **more})


def group(number=1, seconds=60.0, **more):
    facts = {"state": "PENDING", "strategy": "PACK", "bundles": (Bundle({"GPU": 8.0}),), "job": "02000000", "since": NOW - seconds}
    return PlacementGroup(f"{number:036x}", **{"name": f"vllm{number}", **facts, "why": HELD, "wait": "held", **more})


def seen(*actors, groups=(), jobs=JOBS, **more):
    """The findings of one sample."""
    return detect(snapshot(actors=actors, placement_groups=groups, jobs=jobs, **more), 0, detectors=ALONE)
