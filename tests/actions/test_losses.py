"""The losses of an action, from known facts only."""

from __future__ import annotations

from typing import Any

import pytest

from cockpit.actions.losses import left_by_job, lost_with_actor, lost_with_group, lost_with_job, lost_with_processes, lost_with_session
from cockpit.model import Actor, Bundle, Job, Node, PlacementGroup, Process, Snapshot
from tests.world import actor, process

HEAD, OTHER = f"{1:056x}", f"{2:056x}"
TRAIN = Job("train1", "02000000", "train1", "RUNNING", driver_node=HEAD)
GROUP = f"{9:036x}"


def critic(number: int, **more: Any) -> Actor:
    facts = {"class_": "Critic", "name": "", "needs": {"GPU": 1.0}, "placement_group": None, **more}
    return actor(number, **facts)


def placed(gpus: float, **more: Any) -> PlacementGroup:
    facts = {"name": "engines", "state": "CREATED", "bundles": (Bundle({"GPU": gpus}, HEAD),), "job": "02000000", "detached": False, **more}
    return PlacementGroup(GROUP, **facts)


def world(*actors: Actor, groups: tuple[PlacementGroup, ...] = (), **more: Any) -> Snapshot:
    facts = {
        "nodes": (Node(HEAD, "node1", head=True, state="ALIVE"), Node(OTHER, "node2", state="ALIVE")),
        "actors": actors, "actors_complete": True, "placement_groups": groups, "jobs": (TRAIN,), "processes": (), **more,
    }  # fmt: skip
    return Snapshot(**facts)


def test_actors_end_with_their_job_and_free_their_gpus():
    lost = lost_with_job(world(*(critic(number, needs={"GPU": 8 / 3}) for number in range(3))), "train1")
    assert lost == ("3 actors of job train1 end with it and free 8 GPUs: 3 × Critic",)


def test_gpus_of_a_group_are_not_counted_again_for_the_actors_in_it():
    actors = (critic(1, placement_group=GROUP), critic(2, placement_group=GROUP, class_="Policy"), critic(3))
    (lost,) = lost_with_job(world(*actors, groups=(placed(4),)), "train1")
    assert lost == "3 actors and 1 placement group of job train1 end with it and free 5 GPUs: 2 × Critic, Policy"


def test_pending_actors_and_groups_end_too_and_free_nothing():
    waiting = placed(4, state="PENDING", bundles=(Bundle({"GPU": 4.0}),))
    lost = lost_with_job(world(critic(1, state="PENDING_CREATION"), groups=(waiting,)), "train1")
    assert lost == ("1 actor and 1 placement group of job train1 end with it: Critic",)


def test_only_its_own_live_actors_end_with_a_job():
    others = (critic(1, job="03000000"), critic(2, state="DEAD"), critic(3, internal=True), critic(4, detached=True))
    assert lost_with_job(world(*others), "train1") == ()
    over = Job("train1", "02000000", "train1", "FAILED")
    assert lost_with_job(world(critic(1), jobs=(over,)), "train1") == ()


def test_detached_things_stay_and_are_named():
    keeper = critic(1, detached=True, name="keeper")
    left = left_by_job(world(keeper, critic(2), groups=(placed(2, detached=True),)), "train1")
    assert left == (
        "actor Critic keeper of job train1 is detached: it stays and keeps 1 GPU",
        "placement group engines of job train1 is detached: it stays and keeps 2 GPUs",
    )


@pytest.mark.parametrize("ask", [lost_with_job, left_by_job])
def test_unknown_lists_are_reported_as_unknown(ask: Any):
    assert ask(world(actors=None, placement_groups=None), "train1") == (
        "the list of actors is unknown",
        "the list of placement groups is unknown",
    )
    assert ask(world(actors_complete=False), "train1") == ("Ray's list of actors is incomplete: there may be more",)
    assert "is unknown" in ask(world(jobs=None), "train1")[0]


def test_with_the_head_the_whole_cluster_ends():
    detached = critic(1, node=OTHER, detached=True, job="01000000")
    assert lost_with_session(world(detached, critic(2, node=OTHER)), {"node1"}) == (
        "job train1 ends",
        "1 actor of job 01000000 ends with it and frees 1 GPU: Critic",
        "1 actor of job train1 ends with it and frees 1 GPU: Critic",
    )


def test_with_another_host_only_its_own_work_ends():
    snapshot = world(critic(1, node=HEAD), critic(2, node=OTHER, needs={}))
    assert lost_with_session(snapshot, {"node2"}) == ("1 actor of job train1 ends with it: Critic",)
    assert lost_with_session(snapshot, {"w7"}) == ()


def test_a_driver_of_unknown_place_is_no_driver_elsewhere():
    plain = Job("03000000", "03000000", None, "RUNNING")
    (loss,) = lost_with_session(world(jobs=(plain,)), {"node2"})
    assert loss == "job 03000000 may end: its driver's node is unknown"


def test_without_a_dashboard_the_losses_of_a_stop_are_unknown():
    assert "unknown" in lost_with_session(Snapshot(), {"node1"})[0]


def losses_of(*processes: Process, among: tuple[Process, ...] = ()) -> tuple[str, ...]:
    actors = (critic(1, needs={"GPU": 2.0}),)
    return lost_with_processes(world(*actors, processes=(*processes, *among)), processes)


def test_a_worker_is_the_actor_it_runs():
    assert losses_of(process(1001, actor=f"{1:032x}", job="02000000")) == (
        "process 1001 is actor Critic of job train1: the actor ends and frees 2 GPUs",
        "whether Ray restarts actor Critic depends on its max_restarts, which cockpit can't see; restarts so far: 0",
        "job train1 (2 GPUs) uses it and will probably fail",
    )


def test_an_engine_is_traced_to_the_worker_that_started_it():
    worker, engine = process(1001, actor=f"{1:032x}", job="02000000"), process(1100, parent=1001, kind="child", job="02000000")
    assert losses_of(engine, among=(worker,)) == (
        "process 1100 works for actor Critic of job train1",
        "job train1 (2 GPUs) uses it and will probably fail",
    )


def test_a_driver_is_its_job():
    assert losses_of(process(50, kind="driver", job="02000000")) == (
        "process 50 is the driver of job train1, which ends with it",
        "1 actor of job train1 ends with it and frees 2 GPUs: Critic",
    )


def test_a_raylet_is_the_ray_of_its_host():
    part, job, actors = losses_of(process(60, kind="ray", name="raylet"))
    assert part == "process 60 on node1 is a part of Ray itself (raylet)"
    assert (job, actors) == ("job train1 ends", "1 actor of job train1 ends with it and frees 2 GPUs: Critic")


def test_left_over_and_foreign_processes_cost_nothing():
    assert losses_of(process(70, kind="orphan"), process(71, kind="stale"), process(72, kind="foreign")) == ()


def test_a_loop_of_parents_ends_the_search():
    assert losses_of(process(1, parent=2, kind="child"), process(2, parent=1, kind="child")) == (
        "process 1 works for a live Ray session",
        "process 2 works for a live Ray session",
    )


def test_a_killed_actor_frees_what_it_holds():
    assert lost_with_actor(world(critic(1), critic(2)), f"{1:032x}") == (
        "actor Critic of job train1 ends and frees 1 GPU; Ray will not restart it",
        "job train1 (2 GPUs) uses it and will probably fail",
    )
    assert lost_with_actor(world(), f"{1:032x}") == ("what this actor does and holds is unknown",)


def test_an_ended_or_unknown_job_is_not_reported_to_fail():
    over = Job("train1", "02000000", "train1", "FAILED")
    for jobs in ((over,), (), None):
        assert lost_with_actor(world(critic(1), jobs=jobs), f"{1:032x}")[1:] == ()


def test_the_jobs_that_use_a_detached_actor_are_unknown():
    lost = lost_with_actor(world(critic(1, detached=True, name="keeper")), f"{1:032x}")
    assert lost[1:] == ("actor Critic keeper is detached: the jobs that use it are unknown",)


def test_the_actors_in_a_group_end_with_it():
    inside = critic(1, placement_group=GROUP, detached=True, job="01000000")
    assert lost_with_group(world(inside, groups=(placed(4, job="01000000"),)), GROUP) == ("1 actor of job 01000000 ends with it: Critic",)


def test_the_reservation_of_an_empty_group_of_a_running_job_is_a_loss():
    assert lost_with_group(world(groups=(placed(4),)), GROUP) == (
        "placement group engines of running job train1 is removed and frees 4 GPUs",
        "job train1 (4 GPUs) uses it and will probably fail",
    )
    over = Job("train1", "02000000", "train1", "FAILED")
    assert lost_with_group(world(groups=(placed(4),), jobs=(over,)), GROUP) == ()
    assert lost_with_group(world(groups=(placed(4),), jobs=None), GROUP) == ("whether its job still runs is unknown",)
    assert lost_with_group(world(), GROUP) == ("what this placement group holds is unknown",)
