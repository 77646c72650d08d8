from __future__ import annotations

import pytest

from cockpit.model import Activity, Laggard, PhaseSpan, Snapshot, Step
from cockpit.report.phases import JobPhases, activity_words, band, phase_words, phases_by_job, step_words, wait_words
from tests.report.phase_worlds import JOB, STEP_S, lagging, past, phased, rank
from tests.world import NOW


def told(of, now=NOW):
    return activity_words(phases_by_job(of)[JOB.key], now)


def waits(of):
    return wait_words(JOB, of.activities[0], of)


def test_the_line_has_step_phase_usual_time_and_speed():
    assert told(phased()) == "step 412 · rollout 40s (usual 1m00s ± 0s) · 30.0 steps/h"


def test_with_a_known_number_of_steps_the_line_says_when_it_ends():
    of = phased(total_steps=1000, steps_left=589)
    left = 589 * STEP_S - 40
    assert phases_by_job(of)[JOB.key].seconds_left(NOW) == pytest.approx(left)
    assert told(of).startswith("step 412/1000 · ")
    assert told(of).endswith(" · ends in about 19h37m")


def test_a_job_beyond_its_last_step_has_no_end():
    assert "ends" not in told(phased(total_steps=411, steps_left=0))


def test_a_phase_that_only_the_log_says_is_said_to_be_of_the_log():
    of = phased(phase="evaluation", since=NOW - 15, is_phase_logged=True)
    assert told(of) == "step 412 · evaluation 15s (as its log says) · 30.0 steps/h"


def test_the_end_counts_long_steps_too():
    spans, steps = past(4)
    longer = Step(JOB.key, steps[-1].began, steps[-1].began + 3 * STEP_S, 411, is_longer=True)
    known = JobPhases(phased().activities[0], spans, (*steps[:-1], longer))
    assert known.step_seconds == STEP_S, "usual is a step without a checkpoint"
    assert known.steps_per_hour == pytest.approx(3600 / (1.5 * STEP_S))


def test_before_three_steps_nothing_is_usual():
    of = phased(steps=2)
    assert told(of) == "step 412 · rollout 40s"
    assert phases_by_job(of)[JOB.key].step_seconds == STEP_S, "the last step"


def test_an_unknown_step_is_left_out_of_the_line():
    assert told(phased(step=None)) == "rollout 40s (usual 1m00s ± 0s) · 30.0 steps/h"


def test_the_first_phase_that_was_seen_began_earlier():
    of = phased(steps=0, step=None, step_began=None)
    assert told(of) == "rollout >40s"
    assert told(phased(steps=0, step=None, step_began=None, since=NOW)) == "rollout", "one look says nothing of its length"


def test_the_seconds_of_a_phase_are_those_of_the_whole_step():
    spans = (
        PhaseSpan(JOB.key, "scoring", NOW - 60, NOW - 50),
        PhaseSpan(JOB.key, "training", NOW - 50, NOW - 20),
        PhaseSpan(JOB.key, "scoring", NOW - 20),
    )
    of = phased(spans=spans, steps=0, phase="scoring", since=NOW - 20, step_began=NOW - 60)
    assert "scoring 30s" in told(of)


def test_several_phases_at_once_are_all_named():
    assert phase_words(Activity("job:a", "training", ("rollout",))) == "training + rollout"


def test_a_method_without_a_phase_is_shown_by_its_own_name():
    assert phase_words(Activity("job:a", method="Trainer.fit")) == "Trainer.fit"
    assert "Trainer.fit" in told(phased(phase=None, method="Trainer.fit"))
    assert "\x1b" not in phase_words(Activity("job:a", method="a\x1b[2Jb"))


def test_unknown_is_a_dash():
    assert [phase_words(None), phase_words(Activity("job:a")), step_words(None), step_words(Activity("job:a"))] == ["–"] * 4
    assert activity_words(JobPhases(), NOW) == "–"
    assert phases_by_job(Snapshot()) == {}


def test_the_worker_that_is_behind_is_named_with_its_place():
    assert waits(lagging()) == "7 of 8 PolicyModelActor have waited for 4m00s; node1 GPU 3 (pid 2003) is still in fit"


def test_others_that_went_on_do_not_wait():
    ranks = [rank(number, "broadcast_to_vllm" if number else "fit") for number in range(4)]
    of = phased(*ranks, laggards=(Laggard(ranks[0].key, "PolicyModelActor.fit", NOW - 60, 3),))
    assert waits(of) == "3 of 4 PolicyModelActor ended fit 1m00s ago; node1 GPU 0 (pid 2000) is still in fit"


def test_several_workers_behind_are_counted():
    ranks = [rank(number, "fit" if number < 5 else "") for number in range(64)]
    of = phased(*ranks, laggards=tuple(Laggard(one.key, "PolicyModelActor.fit", NOW - 60, 59) for one in ranks[:5]))
    assert waits(of).endswith("; node1 GPU 0 (pid 2000), node1 GPU 1 (pid 2001), node1 GPU 2 (pid 2002) and 2 more are still in fit")


def test_a_worker_that_has_gone_is_not_named():
    of = phased(rank(1), rank(2), laggards=(Laggard("proc:gone", "PolicyModelActor.fit", NOW - 60, 3),))
    assert waits(of) == ""


def test_idle_classes_wait_while_others_work():
    ranks = [rank(0), rank(1), *(rank(number, "execute_batch", "ReferenceModelActor") for number in (2, 3))]
    assert waits(phased(*ranks)) == "2 PolicyModelActor wait; 2 ReferenceModelActor are in execute_batch"


def test_an_idle_title_of_an_asynchronous_actor_is_no_wait():
    assert waits(phased(rank(0, "fit"), rank(1, "", "RolloutRayActor"))) == ""


def test_a_method_of_the_whole_job_is_no_work():
    assert waits(phased(rank(0), rank(1), rank(2, "run", "TaskRunner"))) == "2 PolicyModelActor wait"


def test_nobody_waits_for_anybody_if_all_are_idle():
    assert waits(phased(rank(0), rank(1), phase="waiting")) == ""


def test_a_band_has_the_phase_that_took_the_most_of_each_part():
    spans = (PhaseSpan("job:a", "rollout", 0.0, 14.0), PhaseSpan("job:a", "training", 14.0, 30.0), PhaseSpan("job:a", None, 30.0, 40.0))
    assert band(spans, 0, 50, 5) == ["rollout", "training", "training", None, None]
    assert band((PhaseSpan("job:a", "rollout", 25.0),), 0, 50, 5) == [None, None, "rollout", "rollout", "rollout"]
    assert band(spans, 0, 0, 5) == band(spans, 0, 50, 0) == []
