"""Where no probe sees a job's workers, Ray's own list of them gives a rough phase, and no steps."""

from __future__ import annotations

from cockpit.model import Activity, ListedWorkers, Process, Snapshot
from cockpit.phases import ActivityTracker, ranks_of
from cockpit.phases.tracker import LISTED_STALE_S
from cockpit.report.phases import activity_words, phases_by_job
from tests.phases.course import JOB
from tests.world import NOW, node, process, snapshot

NODE = node(2).id or ""


class Listed:
    """A job whose workers only Ray lists."""

    def __init__(self) -> None:
        self.tracker = ActivityTracker()
        self.lists: tuple[ListedWorkers, ...] = ()
        self.processes: tuple[Process, ...] = ()
        self.last = Snapshot()

    def see(self, after: float, method: str | None = None) -> Activity:
        """So many seconds after the begin; with `method` a list is read just then (empty: all are idle)."""
        if method is not None:
            title = f"ray::WorkerDict.{method}" if method else "ray::WorkerDict"
            found = tuple(process(100 + each, kind="worker", job=JOB.job, command=title, node=NODE) for each in range(2))
            self.lists = (ListedWorkers(NODE, NOW + after, found),)
        facts = {"jobs": (JOB,), "processes": self.processes, "actors": (), "hosts": {}}
        self.last = self.tracker.add_activities(snapshot(**{**facts, "taken": NOW + after, "listed_workers": self.lists}))
        return self.last.activities[0]


def test_the_phase_is_that_of_the_list():
    listed = Listed()
    assert listed.see(0, "actor_rollout_generate_sequences").phase == "rollout"
    assert listed.see(10).phase == "rollout"
    activity = listed.see(30, "actor_rollout_update_actor")
    assert (activity.phase, activity.framework, activity.since) == ("training", "veRL", NOW + 30)
    assert [span.phase for span in listed.last.spans] == ["rollout", "training"]


def test_an_old_list_says_nothing():
    listed = Listed()
    listed.see(0, "actor_rollout_generate_sequences")
    assert listed.see(LISTED_STALE_S).phase == "rollout"
    assert listed.see(LISTED_STALE_S + 1).phase is None


def test_steps_are_not_counted_and_nobody_is_called_behind():
    listed = Listed()
    for number in range(10):
        listed.see(60 * number, "actor_rollout_generate_sequences")
        listed.see(60 * number + 30, "actor_rollout_update_actor")
    activity = listed.see(600)
    assert (activity.step, activity.steps_seen, activity.step_began, activity.laggards) == (None, 0, None, ())
    assert listed.last.steps == ()


def test_idle_once_is_unknown():
    listed = Listed()
    listed.see(0, "actor_rollout_update_actor")
    assert listed.see(30, "").phase is None
    assert listed.see(60, "actor_rollout_update_actor").phase == "training"


def test_its_ranks_are_those_of_the_list():
    listed = Listed()
    listed.see(0, "actor_rollout_update_actor")
    assert [(rank.title.text, rank.phase) for rank in ranks_of(JOB, listed.last)] == [
        ("WorkerDict.actor_rollout_update_actor", "training")
    ] * 2


def test_a_probe_that_comes_later_counts_alone():
    listed = Listed()
    listed.see(0, "actor_rollout_update_actor")
    worker = process(100, host="node2", kind="worker", job=JOB.job, command="ray::WorkerDict.actor_rollout_generate_sequences")
    facts = {"jobs": (JOB,), "processes": (worker,), "actors": (), "hosts": {}}
    seen = listed.tracker.add_activities(snapshot(**{**facts, "taken": NOW + 4, "listed_workers": listed.lists}))
    assert seen.activities[0].phase == "rollout"


def test_a_probe_that_sees_only_the_trainer_leaves_the_phase_to_the_list():
    listed = Listed()
    runner = process(50, host="node1", kind="worker", job=JOB.job, command="ray::TaskRunner.run")
    listed.processes = (runner,)
    assert listed.see(0).phase is None
    assert listed.see(2, "actor_rollout_update_actor").phase == "training"
    assert {rank.title.class_ for rank in ranks_of(JOB, listed.last)} == {"TaskRunner", "WorkerDict"}


def test_a_list_shows_its_age_and_no_times():
    listed = Listed()
    for number in range(5):
        listed.see(60 * number, "actor_rollout_generate_sequences")
        listed.see(60 * number + 30, "actor_rollout_update_actor")
    listed.see(310)
    phases = phases_by_job(listed.last)[JOB.key]
    assert activity_words(phases, NOW + 310) == "training (by Ray's list, 40s ago)"
    assert phases.running_seconds(NOW + 310) == {}
    assert phases.shares == {}
    assert set(phases.usual) <= {"step"}


def test_between_two_lists_that_are_far_apart_the_phase_is_unknown():
    listed = Listed()
    listed.see(0, "actor_rollout_generate_sequences")
    listed.see(8 * 3600, "actor_rollout_generate_sequences")
    assert [span.phase for span in listed.last.spans] == ["rollout", None, "rollout"]
    assert listed.last.spans[0].ended == NOW


def test_a_process_of_another_user_that_looks_like_a_worker_of_the_job_is_none():
    def worker(pid: int, method: str, **more: object) -> Process:
        return process(pid, job=JOB.job, command=f"ray::WorkerDict.{method}", **more)

    listed = Listed()
    forged = (worker(3, "actor_rollout_update_actor", user="mallory"), worker(4, "save_checkpoint", user="mallory", host="node2"))
    listed.processes = (worker(2, "actor_rollout_generate_sequences", actor=f"{2:032x}"), *forged)
    assert listed.see(0).phase == "rollout"
    assert [rank.process.pid for rank in ranks_of(JOB, listed.last)] == [2]
    assert "mallory" not in str(listed.last.activities)


def test_until_ray_has_listed_actors_every_worker_counts():
    listed = Listed()
    listed.processes = (process(2, job=JOB.job, command="ray::WorkerDict.actor_rollout_update_actor"),)
    assert listed.see(0).phase == "training"
