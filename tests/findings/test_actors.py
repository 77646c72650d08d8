"""Actors that are restarted again and again, and GPUs that ended jobs still hold."""

from __future__ import annotations

import pytest

from cockpit.findings import Limits
from cockpit.findings.actors import leaks, restart_loops
from cockpit.model import Bundle, Cluster, Failure, Job, PlacementGroup
from tests.findings.detection import FreshTracker, codes, detect, only
from tests.world import NOW, actor, process, snapshot

LEAKS = (leaks,)
NODE = f"{1:056x}"


def watched(*looks, complete=True, cluster=None, **more):
    """The findings of the last of these runs; each run is a time and the restarts of actors 1, 2, … until then."""
    judge = FreshTracker(Limits(), (restart_loops,))
    reported = ()
    for seconds, *restarts in looks:
        actors = tuple(actor(number, class_="Rollout", restarts=times) for number, times in enumerate(restarts, 1))
        now = {"jobs": (), **more, **({"cluster": Cluster(session=cluster[seconds])} if cluster else {})}
        facts = snapshot(actors=actors, taken=NOW + seconds, actors_complete=complete, **now)
        reported = judge(facts).findings
    return reported


def test_three_restarts_of_an_actor_in_ten_minutes_are_a_loop_and_mark_its_job():
    job = Job("ppo", "02000000", "ppo", "RUNNING")
    looks = ((0, 0), (200, 1), (400, 2), (590, 3))
    (found,) = watched(*looks)
    assert (found.code, found.level, found.subject) == ("actor-restarting", "warning", "Rollout of job 02000000")
    assert found.text == "Actor Rollout of job 02000000 was restarted 3 times in the last 9m50s"
    assert found.evidence[0] == "actor actor1: restarted 3 times in the last 9m50s"
    assert (found.remedy.action, found.about) == ("kill-actor", (actor(1).key,))
    assert watched(*looks, jobs=(job,))[0].about == (actor(1).key, job.key)


def test_actors_of_a_class_are_one_finding():
    (found,) = watched((0, 5, 0, 0), (300, 9, 3, 1))
    assert found.text == "3 actors Rollout of job 02000000 were restarted, one of them 4 times in the last 5m00s"
    assert found.evidence[0] == "actor actor1: restarted 4 times in the last 5m00s, 9 times in total"


def test_the_reported_duration_is_at_most_the_watched_time_and_ten_minutes():
    (found,) = watched((0, 10), (60, 11), (120, 12), (185, 13))
    assert found.text == "Actor Rollout of job 02000000 was restarted 3 times in the last 3m05s"
    looks = [(seconds, 2 * (seconds // 100)) for seconds in range(0, 1300, 35)]
    assert {watched(*looks[:count])[0].text.partition(" in the last ")[2] for count in range(20, len(looks))} == {"10m00s"}


def test_why_the_last_process_died_is_told_with_what_helps():
    died = Failure(
        actor(1).key, 3.0, text="X: y\nmore", cause="CUDA ran out of memory", known="x", remedy="use less", raised_at="a.py:3 in f"
    )
    looks = ((0, 0), (200, 1), (400, 2), (590, 3))
    (found,) = watched(*looks, failures=(died,))
    assert found.text == "Actor Rollout of job 02000000 was restarted 3 times in the last 9m50s: CUDA ran out of memory"
    assert found.evidence[1:4] == ("its last process reported: X: y", "its last process reported: more", "raised at a.py:3 in f")
    assert found.remedy.text == "use less; if it can't recover, kill the actor"
    (unknown,) = watched(*looks, failures=(Failure(actor(1).key, 3.0, text="OddError: no"),))
    assert unknown.text.endswith("in the last 9m50s: OddError: no")
    (unread,) = watched(*looks, failures=(Failure(actor(1).key, 3.0, unread="no way there"),))
    assert unread.text.endswith("in the last 9m50s")


def running(seconds):
    return {"jobs": (Job("ppo", "02000000", "ppo", "RUNNING", started=NOW - seconds),)}


def test_restarts_of_an_actor_of_a_young_job_are_a_loop_in_the_first_sample():
    (found,) = watched((0, 3), **running(420))
    assert found.text == "Actor Rollout of job ppo was restarted 3 times since its job started 7m00s ago"
    assert found.evidence[0] == "actor actor1: restarted 3 times since its job started 7m00s ago"
    assert watched((0, 2), **running(420)) == ()
    assert watched((0, 3), **running(601)) == ()
    assert watched((0, 3), jobs=(Job("ppo", "02000000", "ppo", "RUNNING"),)) == ()


def test_in_an_older_job_a_high_count_with_a_new_process_is_a_loop():
    def find(restarts, begun, **more):
        worker = process(1001, actor=actor(1).id, started=NOW - begun, **more)
        return watched((0, restarts), processes=(worker,), **running(3600))

    (found,) = find(18, 60)
    assert found.text == "Actor Rollout of job ppo was restarted 18 times since its job started 1h00m ago"
    assert find(17, 60) == find(18, 601) == find(18, 60, kind="child") == ()


def test_a_loop_known_from_rays_count_lasts_until_ten_minutes_without_a_restart():
    young = running(420)
    judge = FreshTracker(Limits(), (restart_loops,))
    again = actor(1, class_="Rollout", restarts=3)
    found = {at: bool(judge(snapshot(actors=(again,), taken=NOW + at, processes=(), **young)).findings) for at in range(0, 900, 5)}
    assert [at for at, find in found.items() if find] == list(range(0, 600, 5))


@pytest.mark.parametrize(
    "looks",
    [
        [(0, 9)],  # restarts before cockpit watched
        [(0, 0), (300, 2)],
        [(0, 0), (400, 1), (800, 2), (1200, 3)],
        [(0, 0), (5000, 3)],  # over an hour or all at once: unknown
        [(0, None), (300, None)],
        [(0, -9), (300, -1)],
        [(0, 9), (300, 2)],
    ],
)
def test_few_slow_or_earlier_restarts_are_no_loop(looks):
    assert watched(*looks) == ()


def test_a_loop_ends_only_after_ten_quiet_minutes():
    loop = [(0, 0), (99, 0), (100, 3)]
    assert watched(*loop, (400, 3), (699, 3))
    assert not watched(*loop, (400, 3), (800, 3))
    assert watched(*loop, (645, 3), (650, 4), (900, 4))


def test_a_new_actor_that_fails_counts_and_a_cut_list_or_another_cluster_does_not():
    assert watched((0, 0), (60, 0, 3))
    assert watched((0, 0), (60, 3), complete=False) == ()
    assert watched((0, 0), (60, 3), cluster={0: "old", 60: "new"}) == ()


def job(status="FAILED", **more):
    return Job("train1", "02000000", "train1", status, **{"started": NOW - 900, "ended": NOW - 600, **more})


def group(**more):
    facts = {
        "name": "vllm",
        "state": "CREATED",
        "bundles": (Bundle({"GPU": 4.0, "CPU": 1.0}, NODE),) * 2,
        "job": "02000000",
        "detached": True,
    }
    return PlacementGroup(f"{7:036x}", **{**facts, **more})


OVER = (job(),)


def left(*actors, groups=(), jobs=OVER, seconds=0):
    return detect(snapshot(actors=actors, placement_groups=groups, jobs=jobs), seconds, detectors=LEAKS)


def test_a_leak_is_reported_with_what_it_holds():
    found = only(left(groups=(group(),)), "placement-group-leaked")
    assert found.text == "Job train1 has ended (FAILED), but its placement group vllm still holds 8 GPUs"
    assert found.evidence[0] == "placement group vllm (CREATED, detached) holds 8 GPUs"
    assert (found.level, found.subject, found.since) == ("warning", "job train1", NOW - 600)
    assert (found.remedy.action, found.about) == ("remove-placement-group", (group().key,))
    alone = actor(1, class_="Engine", needs={"GPU": 0.5}, detached=True)
    (found,) = left(alone, actor(2, class_="Engine", placement_group=group().id))
    assert (found.code, found.remedy.action, found.about) == ("actor-leaked", "kill-actor", (alone.key,))
    assert found.text == "Job train1 has ended (FAILED), but its actor Engine still holds 0.5 GPU"
    assert codes(left(actor(1, placement_group=group().id), groups=(group(),))) == {"placement-group-leaked"}
    found = only(left(*(actor(number, class_=f"E{number}", needs={"GPU": 1.0}) for number in range(1, 6))), "actor-leaked")
    assert found.text == "Job train1 has ended (FAILED), but 5 of its actors (E1, E2, E3 and 2 more) still hold 5 GPUs"
    assert left(groups=(group(),), jobs=(job(ended=None),), seconds=50) == ()
    assert left(groups=(group(),), jobs=(job(ended=None),), seconds=60)


@pytest.mark.parametrize(
    "jobs",
    [(job("RUNNING", ended=None),), (job("PENDING", ended=None),), (job(""),), (), None, (job(ended=NOW - 30),)],
    ids=["runs", "pending", "unknown state", "unknown job", "unknown jobs", "just over"],
)
def test_nothing_leaks_from_a_running_unknown_or_just_ended_job(jobs):
    assert left(actor(1), groups=(group(),), jobs=jobs) == ()


def test_detached_actors_and_actors_without_gpus_are_no_leaks():
    served = (actor(1, namespace="serve"), actor(2, needs={"CPU": 9.0}), actor(3, state="DEAD"), actor(4, needs={"GPU": float("nan")}))
    groups = (group(name="SERVE_REPLICA::app"), group(state="PENDING"), group(bundles=(Bundle({"CPU": 1.0}, NODE), Bundle({"GPU": 1.0}))))
    assert left(*served, groups=groups) == ()
