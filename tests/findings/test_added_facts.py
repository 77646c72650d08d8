"""What the cluster shows now is added to a failure, and an action is offered only if its target is proven."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from cockpit.findings.jobs import failed_jobs
from cockpit.model import (
    AgentReport,
    Amount,
    Disk,
    Failure,
    Finding,
    Hold,
    Host,
    Job,
    RayPorts,
    RayProcess,
    Session,
    ShmUser,
    Snapshot,
    Xid,
)
from tests.findings.detection import detect, only
from tests.world import GIB, NOW, actor, gpu, node, process, snapshot

FIRST, SECOND = node(1), node(2)
PROBED = replace(SECOND, probe="node2", agent=AgentReport())


def world(failure: Failure, **more: Any) -> Snapshot:
    """A job that failed on node 2, and what its log shows."""
    job = Job("ppo", None, "ppo", "FAILED", ended=NOW - 60, exit_code=1, driver_node=SECOND.id)
    hosts = {name: Host(name, (f"10.0.0.{name[-1]}",), NOW, nodes=(f"{int(name[-1]):056x}",)) for name in ("node1", "node2")}
    facts = {"jobs": (job,), "actors": (), "processes": (), "sessions": (), "oom_kills": (), "hosts": hosts, "nodes": (FIRST, PROBED)}
    return snapshot(**{**facts, **more, "failures": (replace(failure, about="job:ppo", moment=NOW - 60),)})


def told(failure: Failure, **more: Any) -> Finding:
    return only(detect(world(failure, **more), 0, detectors=(failed_jobs,)), "job-failed")


def error(look_up: str | None, action: str | None = None, **more: Any) -> Failure:
    return Failure(
        "", **{"text": "X: y", "known": "x", "cause": "it is so", "remedy": "do it", "look_up": look_up, "action": action, **more}
    )


def hosts(**more: Any) -> dict[str, Host]:
    return {"node2": Host("node2", ("10.0.0.2",), NOW, nodes=(SECOND.id or "",), **more)}


NAMED = (("name", "critic"), ("namespace", "train"))


def holder(number: int = 1, **more: Any) -> Any:
    return actor(number, **{"name": "critic", "namespace": "train", "detached": True, **more})


def test_the_only_living_detached_actor_with_that_name_can_be_killed():
    found = told(error("actor-name", "kill-actor", parts=NAMED), actors=(holder(), holder(2, name="other")), actors_complete=True)
    assert found.evidence[-2] == "actor critic is ALIVE now, detached, of job ppo, in namespace train".replace("ppo", "02000000")
    assert (found.remedy.action, found.about) == ("kill-actor", ("job:ppo", holder().key))


@pytest.mark.parametrize(
    "actors",
    [
        (holder(), holder(2)),
        (holder(detached=False),),
        (holder(detached=None),),
        (holder(state="DEAD"),),
        (holder(namespace="other"),),
        (holder(internal=True),),
        (),
    ],
)
def test_else_no_actor_is_offered_to_be_killed(actors: tuple[Any, ...]):
    found = told(error("actor-name", "kill-actor", parts=NAMED), actors=actors, actors_complete=True)
    assert (found.remedy.action, found.about) == (None, ("job:ppo",))


def test_an_actor_of_a_job_that_runs_is_not_offered_because_a_log_names_it():
    used = Job("02000000", "02000000", None, "RUNNING")
    failed = world(error("actor-name", "kill-actor", parts=NAMED), actors=(holder(),), actors_complete=True)
    assert only(detect(failed, 0, detectors=(failed_jobs,)), "job-failed").remedy.action == "kill-actor"
    busy = replace(failed, jobs=(*(failed.jobs or ()), used))
    found = only(detect(busy, 0, detectors=(failed_jobs,)), "job-failed")
    assert (found.remedy.action, found.about) == (None, ("job:ppo",))


def test_of_an_incomplete_list_nothing_is_claimed():
    found = told(error("actor-name", "kill-actor", parts=NAMED), actors=(holder(),), actors_complete=False)
    assert found.remedy.action is None
    gone = told(error("actor-name", "kill-actor", parts=NAMED), actors=(), actors_complete=False)
    assert not any("no living actor" in line for line in gone.evidence)


def test_who_holds_memory_of_the_gpus_there_now_is_told_and_orphans_can_be_ended():
    there = node(2, gpus=(gpu(0), gpu(1)))
    held = (
        process(7, node=SECOND.id, kind="orphan", session="session_old", gpus=(Hold(1, 61 * GIB),), command="python\n -m vllm"),
        process(8, node=SECOND.id, kind="foreign", user="bob", gpus=(Hold(0, 5 * GIB),)),
        process(9, node=FIRST.id, kind="orphan", gpus=(Hold(0, 70 * GIB),)),
    )
    found = told(error("gpu-memory", "kill-orphans"), nodes=(FIRST, there), hosts={}, processes=held)
    assert found.evidence[1] == "process 7 (orphan, session_old) holds 61G of 80G of node2 GPU 1 now: python -m vllm"
    assert found.evidence[2].startswith("process 8 (foreign, of bob) holds 5.0G of 80G of node2 GPU 0 now")
    assert (found.remedy.action, found.about) == ("kill-orphans", ("job:ppo", held[0].key))
    without = told(error("gpu-memory", "kill-orphans"), nodes=(FIRST, there), hosts={}, processes=held[1:])
    assert (without.remedy.action, without.about) == (None, ("job:ppo",))


@pytest.mark.parametrize(
    ("gpus", "started", "offered"), [((), -60, True), ((1,), -60, True), ((0,), -60, False), ((), 60, False), ((), None, False)]
)
def test_an_orphan_is_offered_only_if_it_was_there_before_and_on_the_gpu_of_the_failure(gpus, started, offered):
    there = node(2, gpus=(gpu(0), gpu(1)))
    begun = None if started is None else NOW - 60 + started
    held = process(7, node=SECOND.id, kind="orphan", gpus=(Hold(1, 61 * GIB),), started=begun)
    found = told(error("gpu-memory", "kill-orphans", gpus=gpus), nodes=(FIRST, there), hosts={}, processes=(held,))
    assert (found.remedy.action == "kill-orphans") == offered


def test_at_most_three_holders_are_told_and_only_of_the_gpus_of_the_process_if_they_are_known():
    there = node(2, gpus=tuple(gpu(index) for index in range(8)))
    held = tuple(process(100 + index, node=SECOND.id, gpus=(Hold(index, (index + 1) * GIB),)) for index in range(8))
    facts: dict[str, Any] = {"nodes": (FIRST, there), "hosts": {}, "processes": held}
    assert sum(" holds " in line for line in told(error("gpu-memory"), **facts).evidence) == 3
    own = [line for line in told(error("gpu-memory", gpus=(2,)), **facts).evidence if " holds " in line]
    assert len(own) == 1
    assert "GPU 2" in own[0]


def test_the_fullest_file_systems_there_are_told_with_that_of_the_path_and_dead_sessions_can_be_removed():
    disks = (Disk("/", 10, 100), Disk("/tmp", 99, 100), Disk("/data", 50, 100), Disk("/scratch", 80, 100))
    dead = Session(host="node2", name="session_old", path="/tmp/ray/session_old", live=False)
    live = Session(host="node2", name="session_new", path="/tmp/ray/session_new", live=True)
    full = error("disk", "clean", parts=(("path", "/data/x/y"),))
    found = told(full, hosts=hosts(disks=disks, sessions=(dead, live)))
    lines = [line for line in found.evidence if "full now" in line]
    assert [line.partition(" is ")[0] for line in lines] == ["/data on node2", "/tmp on node2", "/scratch on node2"]
    assert lines[1] == "/tmp on node2 is 99% full now (1B of 100B left)"
    assert (found.remedy.action, found.about) == ("clean", ("job:ppo", dead.key))
    assert told(full, hosts=hosts(disks=disks, sessions=(live,))).remedy.action is None
    assert told(full, hosts=hosts(disks=disks)).remedy.action is None


def test_the_size_and_users_of_shared_memory_there_are_told():
    users = tuple(ShmUser(name, size * GIB) for name, size in (("a", 1), ("b", 9), ("c", 3), (None, 2)))
    (line,) = [line for line in told(error("shm"), hosts=hosts(shm=Amount(15 * GIB, 16 * GIB), shm_users=users)).evidence if "shm" in line]
    assert line == "/dev/shm on node2 has 15G of 16G in use now: b 9.0G, c 3.0G, an unknown user 2.0G"


def test_the_worker_ports_of_the_raylet_there_are_counted():
    narrow = RayProcess("raylet", 5, node=SECOND.id, ports=RayPorts(((10002, 10005),)))
    assert "the raylet on node2 has 4 ports for workers (10002-10005)" in told(error("worker-ports"), hosts=hosts(rays=(narrow,))).evidence
    wide = replace(narrow, ports=RayPorts())
    assert "the raylet on node2 has any free port for its workers" in told(error("worker-ports"), hosts=hosts(rays=(wide,))).evidence


def test_the_driver_there_is_told_with_the_nodes_that_differ():
    def there(name: str, number: int, driver: str) -> Host:
        return Host(name, (), NOW, nodes=(f"{number:056x}",), driver=driver, rays=(RayProcess("raylet", 5, node=f"{number:056x}"),))

    two = {"node1": there("node1", 1, "550.1"), "node2": there("node2", 2, "535.2")}
    assert "the NVIDIA driver of node2 is 535.2; other nodes differ: node1: 550.1" in told(error("driver"), hosts=two).evidence
    same = {**two, "node1": replace(two["node1"], driver="535.2")}
    assert "the NVIDIA driver of node2 is 535.2" in told(error("driver"), hosts=same).evidence


def test_the_object_store_there_is_told():
    full = replace(SECOND, object_store=Amount(9 * GIB, 10 * GIB))
    assert "the object store of node2 has 9.0G of 10G in use now" in told(error("object-store"), nodes=(FIRST, full)).evidence


@pytest.mark.parametrize("look_up", ["gpu-memory", "disk", "shm", "worker-ports", "driver", "object-store", "actor-name", None])
def test_what_is_unknown_stays_unsaid(look_up: str | None):
    bare = replace(SECOND, agent=replace(SECOND.agent, gpus=None, shm=None, disks=None), object_store=Amount())
    found = told(error(look_up, "kill-orphans"), nodes=(FIRST, bare), hosts={}, actors=None, actors_complete=None)
    assert found.evidence == ("X: y", "`ray job logs ppo` shows the whole log")
    assert (found.remedy.action, found.about) == (None, ("job:ppo",))


@pytest.mark.parametrize("look_up", ["gpu-memory", "disk", "shm", "driver"])
def test_old_facts_say_nothing_about_now(look_up: str):
    old = {
        "node2": Host(
            "node2",
            ("10.0.0.2",),
            NOW - 500,
            nodes=(SECOND.id or "",),
            disks=(Disk("/x", 99, 100),),
            shm=Amount(1, 2),
            driver="535",
            gpus=(),
        )
    }
    bare = replace(SECOND, probe="node2", agent=replace(SECOND.agent, seen=NOW - 500))
    found = told(error(look_up), nodes=(FIRST, bare), hosts=old)
    assert found.evidence == ("X: y", "`ray job logs ppo` shows the whole log")


def test_a_text_in_a_log_is_no_reason_to_drain_a_node_unless_its_gpu_has_a_fault():
    lost = error(None, "drain-node", pid=7, ip="10.0.0.2")
    assert told(lost).remedy.action is None
    bad = node(2, gpus=(gpu(0, fault="lost"),))
    found = told(lost, nodes=(FIRST, bad), hosts={})
    assert (found.remedy.action, found.about) == ("drain-node", ("job:ppo", bad.key))
    head = replace(bad, head=True)
    assert told(lost, nodes=(FIRST, head), hosts={}).remedy.action is None
    assert told(replace(lost, ip="10.9.9.9"), nodes=(FIRST, bad), hosts={}).remedy.action is None


@pytest.mark.parametrize(("code", "action"), [(13, None), (31, None), (43, None), (63, None), (79, "drain-node"), (48, "drain-node")])
def test_an_error_that_any_job_can_cause_on_a_gpu_is_no_reason_to_drain_its_node(code: int, action: str | None):
    there = node(2, gpus=(gpu(0, xids=(Xid(code, NOW - 60),)),))
    assert told(error(None, "drain-node", pid=7, ip="10.0.0.2"), nodes=(FIRST, there), hosts={}).remedy.action == action


@pytest.mark.parametrize("action", ["kill-process", "kill-actor", "stop-ray", "launch"])
def test_no_other_action_is_offered(action: str):
    assert told(error("gpu-memory", action), processes=(process(7, node=SECOND.id, kind="orphan"),)).remedy.action is None
