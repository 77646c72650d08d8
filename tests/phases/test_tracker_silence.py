"""While hosts are silent nothing is known of a job: no phase, step or rank is concluded from their old titles."""

from __future__ import annotations

from msgspec.structs import replace

from cockpit.model import Host, Job, Snapshot
from cockpit.phases import ActivityTracker, ranks_of
from cockpit.report.phases import activity_words, phases_by_job, wait_words
from tests.phases.course import JOB, Course
from tests.world import NOW, process, snapshot

WORKERS = ("WorkerDict",) * 4


def step(course: Course) -> None:
    course.do(20.0, "actor_rollout_generate_sequences")
    course.do(10.0, "actor_rollout_compute_log_prob")
    course.do(20.0, "actor_rollout_update_actor")


def words(seen: Snapshot, job: Job = JOB) -> str:
    return activity_words(phases_by_job(seen)[job.key], seen.taken)


def test_a_silence_of_hours_ends_the_phase_and_the_step_and_makes_neither_longer():
    course = Course(*WORKERS)
    course.do(30.0, "init_model")
    for _ in range(12):
        step(course)
    course.do(8.0, "actor_rollout_generate_sequences")
    before = course.now
    for minutes in range(1, 480, 20):
        seen = course.tracker.add_activities(replace(course.last, taken=before + 60.0 * minutes))
        assert seen.activities[0].phase is None
        assert seen.activities[0].step is None
    course.now = before + 8 * 3600.0
    course.run(dict.fromkeys(range(4), "WorkerDict.actor_rollout_generate_sequences"), 6.0)
    assert words(course.last).startswith("rollout >4s"), "it began before it was seen again"
    course.do(8.0, "actor_rollout_generate_sequences")
    course.do(20.0, "actor_rollout_update_actor")
    step(course)
    assert max(one.seconds for one in course.last.steps) < 60.0
    assert max(span.ended - span.began for span in course.last.spans if span.phase and span.ended) < 60.0
    assert course.activity.step is None, "nobody knows how many steps there were meanwhile"


def test_the_same_holds_if_the_first_sample_after_the_silence_is_fresh():
    course = Course(*WORKERS)
    course.do(30.0, "init_model")
    for _ in range(3):
        step(course)
    course.run(dict.fromkeys(range(4), "WorkerDict.actor_rollout_update_actor"), 4.0)
    course.now += 8 * 3600.0
    step(course)
    step(course)
    assert max(one.seconds for one in course.last.steps) < 60.0


def look(tracker: ActivityTracker, now: float, *workers: tuple[int, str, str], **taken: float) -> Snapshot:
    """A snapshot with these workers (pid, host, title); `taken`: of each host."""
    hosts = {name: Host(name, ("10.0.0.1",), at) for name, at in taken.items()}
    made = tuple(process(pid, host=host, kind="worker", job=JOB.job, command=f"ray::{title}") for pid, host, title in workers)
    return tracker.add_activities(snapshot(taken=now, jobs=(JOB,), processes=made, actors=(), hosts=hosts))


def test_a_host_that_answers_does_not_keep_the_titles_of_a_silent_one():
    tracker = ActivityTracker()
    for seconds in range(0, 300, 2):
        now = NOW + seconds
        ranks = [(10 + number, "w1", "WorkerDict.actor_rollout_generate_sequences") for number in range(8)]
        seen = look(tracker, now, (1, "head", "TaskRunner.run"), *ranks, head=now, w1=min(now, NOW + 100))
        if seconds == 90:
            assert seen.activities[0].phase == "rollout"
    assert words(seen) == "–"
    assert [rank.is_old for rank in ranks_of(JOB, seen)] == [False] + [True] * 8


def test_a_rank_of_a_silent_host_is_not_behind_and_the_job_does_not_wait():
    tracker = ActivityTracker()
    for seconds in range(0, 300, 2):
        now = NOW + seconds
        title = "PolicyModelActor.fit" if seconds < 104 else "PolicyModelActor"
        ranks = [(1 + number, "w1", title) for number in range(7)]
        seen = look(tracker, now, *ranks, (30, "w2", "PolicyModelActor.fit"), w1=now, w2=min(now, NOW + 100))
    assert seen.activities[0].laggards == ()
    assert seen.activities[0].phase is None
    assert "fit" not in wait_words(JOB, seen.activities[0], seen)


def test_an_old_list_of_processes_in_a_fresh_sample_shows_no_phase():
    tracker = ActivityTracker()
    for seconds in range(0, 300, 2):
        now, at = NOW + seconds, min(NOW + seconds, NOW + 100)
        host = Host("w1", ("10.0.0.1",), now, observed={"processes": at, "titles": at})
        worker = process(1, host="w1", kind="worker", job=JOB.job, command="ray::PolicyModelActor.fit")
        seen = tracker.add_activities(snapshot(taken=now, jobs=(JOB,), processes=(worker,), actors=(), hosts={"w1": host}))
    assert words(seen) == "–"
