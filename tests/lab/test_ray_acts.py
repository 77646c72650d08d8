"""Jobs, actors and placement groups of a real Ray are ended if they were meant, and left alone if not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from cockpit.actions.losses import left_by_job, lost_with_job
from cockpit.model import Snapshot
from cockpit.sources.ray.client import RayClient
from cockpit.sources.ray.http import Dashboard
from cockpit.sources.ray.jobs import JobActions
from cockpit.sources.source import NotMeantError, SourceError
from tests.lab.cluster import Cluster, eventually
from tests.lab.observe import action as by_command
from tests.lab.observe import ask_probe

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open("/tmp/stubborn", "w").close()
time.sleep(10000)
"""
LEAVES = """
import ray, sys, time
from ray.util.placement_group import placement_group
ray.init(address="auto", log_to_driver=False, namespace="train")
@ray.remote(num_cpus=0, max_restarts=-1)
class Keeper:
    def ready(self): pass
keepers = [Keeper.remote(), Keeper.options(lifetime="detached", name="keeper", num_gpus=1).remote()]
ray.get([keeper.ready.remote() for keeper in keepers])
ray.get(placement_group([{"CPU": 1}], name="engines", lifetime="detached").ready())
open("/tmp/ready", "w").close()
time.sleep(float(sys.argv[1]))
"""
"""An actor without a name, and a detached actor and group that outlive their job."""


@pytest.fixture
def scene(cluster: Cluster) -> Iterator[Cluster]:
    yield from played(cluster)


@pytest.fixture
def old_scene(old_cluster: Cluster) -> Iterator[Cluster]:
    yield from played(old_cluster)


@pytest.fixture
def guarded_scene(token_cluster: Cluster) -> Iterator[Cluster]:
    yield from played(token_cluster)


def played(cluster: Cluster) -> Iterator[Cluster]:
    """Ends what a test leaves behind."""
    for name in ("ready", "stubborn"):
        (cluster.head.tmp / name).unlink(missing_ok=True)
    (cluster.head.tmp / "jobs" / "leaves.py").write_text(LEAVES)
    (cluster.head.tmp / "jobs" / "stubborn.py").write_text(STUBBORN)
    yield cluster
    cluster.stop_jobs()
    for verb, what in (("kill_actor", "actors"), ("remove_placement_group", "placement_groups")):
        for name in alive(cluster, what):
            action(cluster, verb, stage="do", targets=action(cluster, verb, name)["targets"])
    cluster.heal()


def alive(cluster: Cluster, what: str) -> dict[str, dict[str, Any]]:
    """Ray's living objects of this kind that are not its own, by id."""
    listing = cluster.http.get(f"/api/v0/{what}", params={"limit": 1000, "detail": 1}).json()["data"]["result"]["result"]
    key = "actor_id" if what == "actors" else "placement_group_id"
    there = [one for one in listing if one["state"] not in ("DEAD", "REMOVED")]
    return {one[key]: one for one in there if "SUPERVISOR" not in (one.get("ray_namespace") or "")}


def action(cluster: Cluster, verb: str, *names: str, **more: Any) -> dict[str, Any]:
    """The answer of the probe's action on the head."""
    request = {"act": "ray", "stage": "plan", "verb": verb, "ids": names, "session": None, **more}
    return ask_probe(cluster.head, request)


def ray_jobs(cluster: Cluster) -> set[str]:
    return {job["job_id"] for job in cluster.http.get("/api/jobs/").json()}


def start(cluster: Cluster, name: str, seconds: float) -> str:
    """Starts a job that leaves things behind; returns its id among actors."""
    cluster.submit(name, f"python leaves.py {seconds}")
    eventually((cluster.head.tmp / "ready").exists, within=120)
    job: str = eventually(lambda: cluster.http.get(f"/api/jobs/{name}").json()["job_id"])
    return job


@asynccontextmanager
async def acting(cluster: Cluster) -> AsyncIterator[JobActions]:
    dashboard = Dashboard(cluster.address, token=lambda: cluster.token, transport=None)
    yield JobActions(dashboard)
    await dashboard.close()


async def seen(cluster: Cluster) -> Snapshot:
    ray = RayClient(cluster.address, token=lambda: cluster.token)
    try:
        jobs, groups = await ray.read_jobs(), await ray.read_placement_groups()
        actors = await ray.read_actors()
    finally:
        await ray.close()
    return Snapshot(jobs=jobs.jobs, placement_groups=groups.groups, actors=actors.actors, actors_complete=actors.complete)


async def started(cluster: Cluster, name: str) -> float | None:
    return next(job.started for job in (await seen(cluster)).jobs or () if job.id == name)


async def check_jobs(cluster: Cluster) -> None:
    cluster.submit("deaf", "exec python stubborn.py")
    eventually((cluster.head.tmp / "stubborn").exists)
    when = await started(cluster, "deaf")
    async with acting(cluster) as actions:
        with pytest.raises(NotMeantError, match="stop it first"):
            await actions.delete_job("deaf", when)
        with pytest.raises(NotMeantError, match="now a different job"):
            await actions.stop_job("deaf", (when or 0) + 1)
        assert cluster.job("deaf") == "RUNNING"
        ended = await actions.stop_job("deaf", when)
        assert (ended.job.status, ended.already) == ("STOPPED", False)
        assert not cluster.head.matching("stubborn.py")
        assert (await actions.stop_job("deaf", when)).already
        assert (await actions.delete_job("deaf", when)).status == "STOPPED"
        # A process that watches the job may write it again, without a start: JobInfoStorageClient.put_status, common.py of Ray 2.60.
        with pytest.raises(NotMeantError, match=r"no longer lists job deaf|now a different job"):
            await actions.delete_job("deaf", when)


async def check_left_behind(cluster: Cluster) -> None:
    job = start(cluster, "train1", 10000)
    before = await seen(cluster)
    lost, left = lost_with_job(before, "train1"), left_by_job(before, "train1")
    assert lost == ("1 actor of job train1 ends with it: Keeper",)
    assert left == (
        "actor Keeper keeper of job train1 is detached: it stays and keeps 1 GPU",
        "placement group engines of job train1 is detached: it stays",
    )
    (nameless,) = [name for name, actor in alive(cluster, "actors").items() if not actor["name"]]
    plan = action(cluster, "kill_actor", nameless)
    assert [target["leaked"] for target in plan["targets"]] == [False]

    async with acting(cluster) as actions:
        await actions.stop_job("train1", await started(cluster, "train1"))
    eventually(lambda: nameless not in alive(cluster, "actors"))
    gone = action(cluster, "kill_actor", stage="do", targets=plan["targets"])
    assert [target["reason"] for target in gone["refused"]] == ["it has ended: Ray reports DEAD"]
    assert gone["done"] == []

    jobs = ray_jobs(cluster)
    (keeper,), (group,) = alive(cluster, "actors").items(), alive(cluster, "placement_groups")
    (target,) = action(cluster, "kill_actor", keeper[0])["targets"]
    expected = {"class": "Keeper", "name": "keeper", "namespace": "train", "job": job, "detached": True, "leaked": True}
    assert {key: target[key] for key in expected} == expected
    assert (target["pid"], target["node"]) == (keeper[1]["pid"], keeper[1]["node_id"])
    (done,) = action(cluster, "kill_actor", stage="do", targets=[target])["done"]
    assert done["outcome"].startswith("Ray reported DEAD ")
    if cluster.hosts == [cluster.head]:
        assert done["outcome"].endswith(f"its process {target['pid']} has ended")
    eventually(lambda: not any(host.matching("ray::Keeper") for host in cluster.hosts))

    (target,) = action(cluster, "remove_placement_group", group)["targets"]
    assert (target["name"], target["job"], target["leaked"]) == ("engines", job, True)
    assert len(action(cluster, "remove_placement_group", stage="do", targets=[target])["done"]) == 1
    assert (alive(cluster, "actors"), alive(cluster, "placement_groups")) == ({}, {})
    assert ray_jobs(cluster) == jobs


def check_wrong_ids(cluster: Cluster) -> None:
    start(cluster, "train2", 10000)
    (nameless,) = [name for name, actor in alive(cluster, "actors").items() if not actor["name"]]
    (group,) = alive(cluster, "placement_groups")
    assert "32 hex digits" in action(cluster, "kill_actor", group)["error"]
    (unknown,) = action(cluster, "kill_actor", "ab" * 16)["refused"]
    assert unknown["reason"] == "this Ray session has no actor with that id"
    (unknown,) = action(cluster, "remove_placement_group", "ab" * 18)["refused"]
    assert unknown["reason"] == "this Ray session has no placement group with that id"
    target, keeper = action(cluster, "kill_actor", nameless, *(alive(cluster, "actors").keys() - {nameless}))["targets"]
    (other,) = action(cluster, "kill_actor", stage="do", targets=[{**target, "class": "Critic"}])["refused"]
    assert other["reason"] == "its class has changed since the plan was made"
    assert nameless in alive(cluster, "actors")
    assert len(action(cluster, "kill_actor", stage="do", targets=[target, keeper])["done"]) == 2
    assert alive(cluster, "actors") == {}  # one of them may restart for ever
    assert cluster.job("train2") == "RUNNING"


async def test_jobs_are_stopped_and_deleted(scene: Cluster):
    await check_jobs(scene)


async def test_a_jobs_leftovers_are_shown_and_then_ended(scene: Cluster):
    await check_left_behind(scene)


def test_only_what_was_planned_is_ended(scene: Cluster):
    check_wrong_ids(scene)


def test_a_supervisor_of_a_job_is_rays_own(scene: Cluster):
    start(scene, "train3", 10000)
    listing = scene.http.get("/api/v0/actors", params={"detail": 1}).json()["data"]["result"]["result"]
    (supervisor,) = [one["actor_id"] for one in listing if one["state"] == "ALIVE" and one["class_name"] == "JobSupervisor"]
    (refused,) = action(scene, "kill_actor", supervisor)["refused"]
    assert "it is Ray's own" in refused["reason"]
    (refused,) = action(scene, "kill_actor", stage="do", targets=[refused])["refused"]
    assert "it is Ray's own" in refused["reason"]
    assert scene.job("train3") == "RUNNING"


@pytest.mark.incident
def test_a_hanging_gcs_is_reported_as_hanging(scene: Cluster):
    start(scene, "train4", 10000)
    (target,) = [one for name in alive(scene, "actors") for one in action(scene, "kill_actor", name)["targets"] if not one["name"]]
    gcs = scene.part("gcs")
    gcs.freeze()
    error = action(scene, "kill_actor", stage="do", targets=[target])["error"]
    gcs.thaw()
    assert "does not answer (DEADLINE_EXCEEDED" in error
    assert error.endswith("whether anything has ended is unknown")


@pytest.mark.incident
@pytest.mark.old_ray
async def test_jobs_of_an_old_ray(old_scene: Cluster):
    await check_jobs(old_scene)


@pytest.mark.incident
@pytest.mark.old_ray
async def test_leftovers_of_a_job_of_an_old_ray(old_scene: Cluster):
    await check_left_behind(old_scene)


@pytest.mark.incident
@pytest.mark.old_ray
def test_only_what_was_planned_is_ended_in_an_old_ray(old_scene: Cluster):
    check_wrong_ids(old_scene)


async def test_a_ray_that_requires_a_token_gets_it(guarded_scene: Cluster):
    await check_jobs(guarded_scene)
    await check_left_behind(guarded_scene)


async def test_without_the_token_nothing_is_done(guarded_scene: Cluster):
    guarded_scene.submit("sleeps", "sleep 10000")
    when = await started(guarded_scene, "sleeps")
    dashboard = Dashboard(guarded_scene.address, token=lambda: None, transport=None)
    with pytest.raises(SourceError, match="requires a token"):
        await JobActions(dashboard).stop_job("sleeps", when)
    await dashboard.close()
    assert guarded_scene.job("sleeps") in ("PENDING", "RUNNING")


HOLDS = """
import ray, time
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
ray.init(address="auto", log_to_driver=False)
worker = next(node["NodeID"] for node in ray.nodes() if not node["Resources"].get("node:__internal_head__"))
@ray.remote(num_cpus=1)
class Holder:
    def ready(self): pass
there = NodeAffinitySchedulingStrategy(worker, soft=False)
holder = Holder.options(scheduling_strategy=there).remote()
ray.get(holder.ready.remote())
open("/tmp/holds", "w").close()
time.sleep(10000)
"""


def nodes(cluster: Cluster) -> dict[bool, dict[str, Any]]:
    """The head (`True`) and the worker, as Ray's state API lists them."""
    listed = cluster.http.get("/api/v0/nodes", params={"detail": 1}).json()["data"]["result"]["result"]
    return {node["is_head_node"]: node for node in listed if node["state"] == "ALIVE"}


def test_a_drained_node_keeps_its_work_until_it_is_done_and_then_ends(cluster: Cluster):
    (cluster.head.tmp / "holds").unlink(missing_ok=True)
    (cluster.head.tmp / "jobs" / "holds.py").write_text(HOLDS)
    cluster.submit("holds", "python holds.py")
    eventually((cluster.head.tmp / "holds").exists)
    (head, worker) = nodes(cluster)[True]["node_id"], nodes(cluster)[False]["node_id"]
    assert "56 hex digits" in action(cluster, "drain_node", "ab" * 16)["error"]
    (refused,) = action(cluster, "drain_node", head)["refused"]
    assert refused["reason"] == "it is the head node, which the cluster needs"
    (unknown,) = action(cluster, "drain_node", "ab" * 28)["refused"]
    assert unknown["reason"] == "this Ray session has no node with that id"
    (target,) = action(cluster, "drain_node", worker)["targets"]
    assert (target["what"], target["id"], target["state"]) == ("node", worker, "ALIVE")
    (other,) = action(cluster, "drain_node", stage="do", targets=[{**target, "name": "another"}])["refused"]
    assert other["reason"] == "its name has changed since the plan was made"
    code, answer, stderr = by_command(cluster.head, f"drain-node {worker} --yes")
    assert code == 0, stderr
    (done,) = answer["done"]
    assert done["outcome"].startswith("Ray reported DRAINING ")
    assert "takes no new work" in answer["losses"][0]
    assert "1 actor on " in answer["losses"][1]
    (again,) = action(cluster, "drain_node", stage="do", targets=[target])["refused"]
    assert again["reason"] == "it is being drained already"
    assert cluster.job("holds") == "RUNNING"
    assert False in nodes(cluster), "its work continues"
    cluster.stop_jobs()
    eventually(lambda: False not in nodes(cluster), within=90)
    (gone,) = action(cluster, "drain_node", worker)["refused"]
    assert gone["reason"] == "it has ended: Ray reports DEAD"
