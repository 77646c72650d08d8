"""GPUs that Ray counts as free, and that workers of a running job use all the same, as RLinf's do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from cockpit.findings import FindingTracker, Limits
from cockpit.findings.unreserved_gpus import unreserved_gpus
from cockpit.model import Actor, Fault, Finding, Hold, Host, Job, Process, Quantity, Snapshot
from tests.findings.detection import detect, only
from tests.world import GIB, NOW, actor, gpu, node, process, snapshot

JOB = Job("rlinf1", "02000000", "rlinf1", "RUNNING", started=NOW - 9000)
OTHER = Job("train2", "03000000", "train2", "RUNNING", started=NOW - 9000)
GPUS = tuple(gpu(index, 60) for index in range(4))
USED = {"GPU": Quantity(0, 4)}


def pinned(number: int, **more: Any) -> Actor:
    """An actor that is bound to its node and asks for no GPU."""
    return actor(number, **{"needs": {"CPU": 1.0}, **more})


def worker(number: int, index: int, memory: float = 60, **more: Any) -> Process:
    """The process of the actor with this number; it holds memory of one GPU."""
    held = (Hold(index, int(memory * GIB)),)
    return process(1000 + number, **{"actor": f"{number:032x}", "job": "02000000", "name": "ray::ActorGroup", "gpus": held, **more})


def world(processes: Sequence[Process], actors: Sequence[Actor], **more: Any) -> Snapshot:
    resources, jobs = more.pop("resources", USED), more.pop("jobs", (JOB,))
    host = Host("node1", ("10.0.0.1",), NOW, gpus=GPUS, processes=tuple(processes), nodes=(f"{1:056x}",))
    nodes = (node(1, gpus=GPUS, resources=resources, seen=NOW),)
    facts = {"placement_groups": (), "jobs": jobs, "faults": (), "hosts": {"node1": host}}
    return snapshot(nodes=nodes, processes=tuple(processes), actors=tuple(actors), **{**facts, **more})


def found(seen: Snapshot, seconds: float = 120) -> tuple[Finding, ...]:
    return detect(seen, seconds, detectors=(unreserved_gpus,))


RLINF = world([worker(number, number - 1) for number in (1, 2, 3)], [pinned(number) for number in (1, 2, 3)])


def test_the_job_and_the_number_of_gpus_are_told():
    told = only(found(RLINF), "gpu-unreserved")
    assert (told.level, told.subject) == ("info", "job rlinf1")
    assert told.text == "Ray believes 3 GPUs of node1 are free, but job rlinf1 uses them: other work placed there shares the memory"
    assert told.evidence[0].startswith("node1: Ray counts 0 GPUs as used (`ray status -v`); pid 1001 ray::ActorGroup holds 60G of GPU 0; ")
    assert {JOB.key, node(1).key, worker(1, 0).key} <= set(told.about)
    assert found(RLINF, 50) == (), "a worker that ends gives its GPU back before its memory is free"
    assert only(FindingTracker(Limits(), (unreserved_gpus,), assumed=60.0)(RLINF).findings, "gpu-unreserved").since is None


def test_it_is_a_warning_where_other_work_may_be_placed():
    assert only(found(replace(RLINF, jobs=(JOB, OTHER))), "gpu-unreserved").level == "warning"
    waiting = pinned(9, state="PENDING_CREATION", node=None, needs={"GPU": 1.0}, wait="room")
    assert only(found(replace(RLINF, actors=(*RLINF.actors, waiting))), "gpu-unreserved").level == "warning"


def test_beside_a_job_that_has_asked_only_what_is_more_than_its_gpus_counts():
    asked = actor(4, needs={"GPU": 1.0}, job=OTHER.job)
    both = [worker(1, 0), worker(4, 1, job=OTHER.job)]
    told = only(found(world(both, [pinned(1), asked], resources={"GPU": Quantity(1, 4)}, jobs=(JOB, OTHER))), "gpu-unreserved")
    assert told.text.startswith("Ray believes 1 GPU of node1 is free, but job rlinf1 uses it")
    loads = world(both[:1], [pinned(1), asked], resources={"GPU": Quantity(1, 4)}, jobs=(JOB, OTHER))
    assert found(loads) == (), "the only GPU in use may be the one that was asked for"


@pytest.mark.parametrize(
    ("process", "owner", "more"),
    [
        (worker(1, 0), pinned(1, needs={"GPU": 1.0}), {"resources": {"GPU": Quantity(1, 4)}}),
        (worker(1, 0, kind="child"), pinned(1, placement_group="g"), {"resources": {"GPU": Quantity(1, 4)}}),
        (worker(1, 0, kind="child"), pinned(1), {"resources": {"GPU": Quantity(4, 4)}}),
        (worker(1, 0, 2), pinned(1), {}),
        (worker(1, 0), pinned(1, state="DEAD"), {}),
        (worker(1, 0), pinned(1, internal=True), {}),
        (worker(1, 0, kind="driver", actor=None), pinned(1), {}),
        (worker(1, 0, kind="child", actor=None), pinned(1), {}),
        (worker(1, 0, ours=False, job=None), pinned(1), {}),
        (worker(1, 0), pinned(1), {"jobs": (replace(JOB, status="SUCCEEDED", ended=NOW - 5),)}),
        (worker(1, 0), pinned(1), {"resources": {"GPU": Quantity(0.5, 4)}}),
        (worker(1, 0), pinned(1), {"resources": {"GPU": Quantity(0, 2)}}),
        (worker(1, 0), pinned(1), {"resources": {"GPU": Quantity(None, 4)}}),
        (worker(1, 0), pinned(1), {"faults": (Fault("ray.status", "no answer", NOW - 60),)}),
    ],
    ids=["it asked", "an engine in a group", "all are handed out", "a context", "a dead actor", "a part of Ray", "a driver", "its child",
         "another Ray", "an ended job", "a share", "fewer in Ray", "an unknown count", "an old count"],
)  # fmt: skip
def test_what_is_in_order_or_not_known_is_no_finding(process: Process, owner: Actor, more: dict[str, Any]):
    assert found(world([process], [owner], **more)) == ()


def test_shares_of_a_gpu_may_lie_on_several():
    share = actor(5, needs={"GPU": 0.5})
    assert found(replace(RLINF, actors=(*RLINF.actors, share))) == ()
