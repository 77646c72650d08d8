"""Memory that no process explains, and GPUs that only Ray counts as free."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from cockpit.findings import Limits
from cockpit.findings.gpu_leftovers import orphaned_memory
from cockpit.findings.gpu_memory import free_but_held, unexplained_memory
from cockpit.model import Fault, Finding, Gpu, Hold, Host, Job, Process, Quantity, Snapshot
from tests.findings.detection import FreshTracker, codes, detect, only
from tests.world import GIB, NOW, actor, gpu, node, process, snapshot, theirs

UNEXPLAINED, HELD = (unexplained_memory,), (free_but_held,)
ID = f"{1:056x}"


def seen(gpus: tuple[Gpu, ...], processes: tuple[Process, ...] | None, **more: Any) -> Snapshot:
    """A probed node with these GPUs, all free in Ray."""
    resources = more.pop("resources", {"GPU": Quantity(0, len(gpus))})
    facts = {
        "hosts": {"node1": Host("node1", ("10.0.0.1",), NOW, gpus=gpus, processes=processes, nodes=(ID,))},
        "nodes": (node(1, gpus=gpus, resources=resources, seen=NOW),),
        "processes": processes,
        "actors": (),
        "placement_groups": (),
        "faults": (),
    }
    return snapshot(**{**facts, **more})


def holder(pid: int, index: int, memory: float | None, **more: Any) -> Process:
    return process(pid, gpus=(Hold(index, None if memory is None else int(memory * GIB)),), **more)


def test_unexplained_memory_is_reported_with_a_way_to_find_its_holder():
    gpus = (gpu(0, 30.5), gpu(1, 0.6))
    found = only(detect(seen(gpus, (holder(1, 0, 10, job="02000000"),)), detectors=UNEXPLAINED), "gpu-memory-unexplained")
    assert (found.level, found.subject) == ("warning", "node1")
    assert found.text == "20G of GPU memory is in use on 1 GPU of node1 (0), but no visible process holds it"
    assert found.evidence == ("GPU 0: 30G in use, 10G of it by visible processes (`nvidia-smi`)",)
    assert "fuser -v /dev/nvidia*" in found.remedy.text
    assert detect(seen(gpus, (holder(1, 0, 10, job="02000000"),)), 55, detectors=UNEXPLAINED) == ()
    named = seen((gpu(0, 30),), (), nodes=(node(1, name="head", gpus=(gpu(0, 30),), seen=NOW),))
    found = only(detect(named, detectors=UNEXPLAINED), "gpu-memory-unexplained")
    assert (found.subject, found.text.partition(",")[0]) == ("head", "30G of GPU memory is in use on 1 GPU of head (0)")
    ghost = holder(4711, 0, 30, kind="unknown", ticks=None)
    found = only(detect(seen((gpu(0, 30),), (ghost,)), detectors=UNEXPLAINED), "gpu-memory-unexplained")
    assert found.evidence[0].endswith("; NVML lists pid 4711, not in this process table")


def test_one_sample_just_after_a_jobs_end_reports_nothing():
    def find(ended: float) -> set[str]:
        over = Job("train1", "01000000", "train1", "SUCCEEDED", started=NOW - 900, ended=NOW - ended)
        return codes(
            FreshTracker(Limits(), (unexplained_memory, orphaned_memory), assumed=60.0)(seen(gpus, (left,), jobs=(over,))).findings
        )

    gpus, left = (gpu(0, 30), gpu(1, 20)), holder(7, 0, 30, kind="orphan")
    assert [find(5), find(30), find(90)] == [set(), {"gpu-memory-orphaned"}, {"gpu-memory-orphaned", "gpu-memory-unexplained"}]


def test_memory_of_the_driver_or_without_any_named_process_is_no_finding():
    gpus = (gpu(0, 11.5), gpu(1, 0.6))
    assert detect(seen(gpus, (holder(1, 0, 10),)), detectors=UNEXPLAINED) == ()
    works = process(1, job="02000000")
    assert detect(seen((gpu(0, 70),), (works,)), detectors=UNEXPLAINED) == (), "in a container NVML names no process"
    assert detect(seen((gpu(0, 70),), (holder(1, 0, None),)), detectors=UNEXPLAINED) == ()
    assert detect(seen((gpu(0, 70),), None), detectors=UNEXPLAINED) == ()
    assert detect(seen((gpu(0, memory_used=None), Gpu(1, fault="lost", memory_used=9 << 30)), ()), detectors=UNEXPLAINED) == ()
    assert codes(detect(seen((gpu(0, 70),), ()), detectors=UNEXPLAINED)) == {"gpu-memory-unexplained"}


def test_it_ends_at_a_lower_mark_than_it_begins():
    def at(used: float) -> Snapshot:
        return seen((gpu(0, used),), ())

    judge = FreshTracker(Limits(unexplained_age=0), UNEXPLAINED)
    reported = [codes(judge(at(used)).findings) for used in (1.9, 2.1, 1.6, 1.4)]
    assert reported == [set(), {"gpu-memory-unexplained"}, {"gpu-memory-unexplained"}, set()]


def test_gpus_that_are_free_in_ray_but_held_by_others_are_reported():
    gpus = (gpu(0, 40), gpu(1, 0.6))
    found = only(detect(seen(gpus, (holder(7, 0, 39, kind="foreign"),)), detectors=HELD), "gpu-memory-held")
    assert (found.level, found.subject) == ("warning", "node1")
    assert found.text == (
        "Ray counts 1 GPU of node1 as free, but its memory is in use by others: work placed there may run out of GPU memory"
    )
    assert found.evidence == ("GPU 0: 40G of 80G in use, by pid 7 (foreign) python",)
    assert found.remedy.action is None
    assert detect(seen(gpus, (holder(7, 0, 39, kind="foreign"),)), 55, detectors=HELD) == ()


def test_gpus_used_by_another_ray_are_not_free():
    gpus, worker = (gpu(0, 40), gpu(1, 0.6)), theirs(7, gpus=(Hold(0, 39 * GIB),))
    shared = seen(gpus, (worker,))
    host = replace(shared.hosts["node1"], processes=(process(7, gpus=worker.gpus),), nodes=(ID, "f" * 56))
    found = only(detect(replace(shared, hosts={"node1": host}), detectors=HELD), "gpu-memory-held")
    assert found.evidence == ("GPU 0: 40G of 80G in use, by pid 7 (worker of another Ray session) python",)
    assert found.remedy.action is None


def test_without_a_probe_rays_agent_shows_memory_of_unknown_processes():
    def find(pids: tuple[Process, ...], used: float = 0, **more: Any) -> tuple[Finding, ...]:
        far = node(1, gpus=(gpu(0, 40), gpu(1, 40)), probed=False, resources={"GPU": Quantity(used, 2)}, seen=NOW)
        return detect(snapshot(nodes=(far,), hosts={}, processes=pids, **{"actors": (), "placement_groups": (), "faults": (), **more}))

    left = tuple(holder(40 + index, index, 39, kind="unknown", ticks=None, node=ID, host="node1") for index in (0, 1))
    found = only(find(left), "gpu-memory-held")
    assert (found.level, found.remedy.action, found.about) == ("info", "kill-orphans", (node(1).key,))
    assert found.text.startswith("Ray counts 2 GPUs of node1 as free, but their memory is in use outside this Ray cluster")
    assert found.evidence[0] == "GPU 0: 40G of 80G in use, by pid 40 (unknown) python"
    waiting = actor(9, state="PENDING_CREATION", node=None, needs={"GPU": 1.0}, wait="room", since=NOW - 200)
    assert only(find(left, actors=(waiting,)), "gpu-memory-held").level == "warning"
    assert only(find(left, actors=(replace(waiting, since=NOW - 20),)), "gpu-memory-held").level == "info"
    assert only(find(left, actors=(replace(waiting, since=NOW, at_least=True),), jobs=()), "gpu-memory-held").level == "warning"
    assert "gpu-memory-held" not in codes(find(left, used=2)), "an actor's engine is no worker of Ray either"
    assert "gpu-memory-held" not in codes(find(tuple(replace(each, kind="worker") for each in left)))


def test_memory_with_its_own_finding_is_repeated_once_something_waits_for_it():
    orphan = holder(7, 0, 39, kind="orphan")
    assert detect(seen((gpu(0, 40),), (orphan,)), detectors=HELD) == ()
    waiting = actor(9, state="PENDING_CREATION", node=None, needs={"GPU": 1.0}, wait="room")
    found = only(detect(seen((gpu(0, 40),), (orphan,), actors=(waiting,)), detectors=HELD), "gpu-memory-held")
    assert (found.level, found.remedy.action) == ("critical", "kill-orphans")
    assert found.text.endswith("may run out of GPU memory, and 1 actor or placement group waits for GPUs")
    assert found.evidence[-1] == "waits for GPUs: actor PolicyModelActor actor9"
    held = replace(waiting, wait="held")
    assert only(detect(seen((gpu(0, 40),), (orphan,), actors=(held,)), detectors=HELD), "gpu-memory-held").level == "warning"


def test_reserved_own_and_unknown_gpus_are_not_reported():
    foreign = holder(7, 0, 39, kind="foreign")
    one_of_two = {"GPU": Quantity(1, 2)}
    assert detect(seen((gpu(0, 40), gpu(1, 0.6)), (foreign,), resources=one_of_two), detectors=HELD) == ()
    used = holder(8, 1, 39, kind="worker", job="02000000")
    assert codes(detect(seen((gpu(0, 40), gpu(1, 40)), (foreign, used), resources=one_of_two), detectors=HELD)) == {"gpu-memory-held"}
    own = holder(8, 0, 39, kind="child", job="02000000")
    assert detect(seen((gpu(0, 40),), (own,)), detectors=HELD) == ()
    foreign = holder(7, 0, 39, kind="foreign")
    for unknown in ({}, {"GPU": Quantity(None, 1)}, {"GPU": Quantity(0, 4)}, {"GPU": Quantity(float("nan"), 1)}, {"GPU": Quantity(9, 1)}):
        assert detect(seen((gpu(0, 40),), (foreign,), resources=unknown), detectors=HELD) == ()
    small = holder(7, 0, 1, kind="foreign")
    assert detect(seen((gpu(0, 5),), (small,)), detectors=HELD) == ()
    failed = (Fault("ray.status", "no answer", NOW - 60),)
    assert detect(seen((gpu(0, 40),), (foreign,), faults=failed), detectors=HELD) == ()
