"""Clusters of one node whose GPUs somebody has reserved, holds or uses."""

from __future__ import annotations

from cockpit.model import Bundle, Hold, Job, PlacementGroup, Snapshot
from tests.world import GIB, NOW, gpu, node, process

JOB = "02000000"


def gpus(*utilization, **more):
    return tuple(gpu(index, utilization=rate, **more) for index, rate in enumerate(utilization))


def group(*bundles, state="CREATED", job=JOB, **more):
    return PlacementGroup(f"{7:036x}", "vllm", state, None, tuple(bundles), job, **more)


def placed(gpus=1.0):
    return Bundle({"GPU": gpus}, f"{1:056x}")


def empty(number=4):
    return (node(1, seen=NOW, gpus=tuple(gpu(index, used=0, utilization=0.0) for index in range(number))),)


def world(*processes, rates=(90.0, 90.0, 90.0, 90.0), groups=(), actors=(), **more):
    facts = {
        "taken": NOW,
        "nodes": (node(1, gpus=gpus(*rates), seen=NOW),),
        "processes": tuple(processes),
        "placement_groups": groups,
        "actors": actors,
        "jobs": (Job("ppo-7b", JOB, "ppo-7b", "RUNNING"),),
        **more,
    }
    return Snapshot(**facts)


def holder(*indices, pid=1001, **more):
    return process(pid, job=JOB, gpus=tuple(Hold(index, 50 * GIB) for index in indices), **more)
