"""A job whose steps take longer than before is found, with the phase and what changed; jobs with uneven steps are not."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from cockpit.findings import FindingTracker, Limits
from cockpit.findings.slower_steps import find_rise, slower_steps
from cockpit.model import Activity, Finding, Job, ListedWorkers, PhaseSpan, Snapshot, Step
from tests.findings.detection import detect, only
from tests.world import NOW, actor, gpu, node, process, snapshot

JOB = Job("train1", "02000000", "train1", "RUNNING", started=NOW - 9000)
RANK = process(101, command="ray::WorkerDict", name="ray::WorkerDict", job="02000000")


def world(rollouts: Sequence[float], *, training: float = 40.0, longer: Sequence[int] = (), **more: Any) -> Snapshot:
    """A job whose steps consist of a rollout with these seconds and a training."""
    steps: list[Step] = []
    spans: list[PhaseSpan] = []
    at = NOW - 5 - sum(rollouts) - training * len(rollouts)
    for number, seconds in enumerate(rollouts, 1):
        spans += [
            PhaseSpan(JOB.key, "rollout", at, at + seconds),
            PhaseSpan(JOB.key, "training", at + seconds, at + seconds + training),
        ]
        steps.append(Step(JOB.key, at, at + seconds + training, number, number in longer))
        at += seconds + training
    facts = {
        "nodes": (node(1, host="w1", gpus=tuple(gpu(index) for index in range(8)), seen=NOW),),
        "processes": (RANK,),
        "hosts": {},
        "jobs": (JOB,),
        "actors": (),
        "placement_groups": (),
        "faults": (),
        "activities": (Activity(JOB.key, "training", since=at),),
        "spans": (*spans, PhaseSpan(JOB.key, "training", at)),
        "steps": tuple(steps),
        **more,
    }
    return snapshot(**facts)


def found(seen: Snapshot) -> tuple[Finding, ...]:
    return detect(seen, 10, detectors=(slower_steps,))


USUAL = [60.0, 62.0, 58.0, 61.0, 59.0, 60.0, 63.0, 57.0, 60.0, 61.0]


def test_five_steps_that_take_a_third_longer_are_told_with_their_phase():
    assert found(world([*USUAL, *[100.0] * 4])) == ()
    assert found(world([*USUAL[1:], *[100.0] * 5])) == ()
    assert found(world([*USUAL, *[84.0] * 5]))[0].text.startswith("rollout takes 1m24s"), "of the steps that is a quarter only"
    told = only(found(world([*USUAL, *[100.0] * 5])), "steps-slower")
    assert told.text == (
        "steps of job train1 take 2m20s instead of 1m40s (+40 %), mostly because rollout takes 1m40s of a step instead of 1m00s, "
        "since 11m45s (step 11)"
    )
    assert (told.level, told.subject, told.about, told.since) == ("warning", "job train1", (JOB.key,), NOW - 705)
    assert told.evidence == (
        "seconds of the last steps: 100 102 98 101 99 100 103 97 100 101 140 140 140 140 140",
        "cockpit sees no throttled GPU, full memory, restarted actor or new job where it runs",
    )
    assert "nvidia-smi -q -d PERFORMANCE" in told.remedy.text


def test_phases_that_only_rays_list_shows_are_too_rough_to_be_compared():
    slow = [*USUAL, *[100.0] * 5]
    seen = world(slow, processes=(), listed_workers=(ListedWorkers("node1", NOW, (RANK,)),))
    told = only(found(seen), "steps-slower")
    assert told.text == "steps of job train1 take 2m20s instead of 1m40s (+40 %), since 11m45s (step 11)"
    seen = world([*USUAL, *[84.0] * 5], processes=(), listed_workers=(ListedWorkers("node1", NOW, (RANK,)),))
    assert found(seen) == ()


def test_it_lasts_while_steps_are_slow_and_clears_when_they_are_not():
    slow = [*USUAL, *[100.0] * 12]
    assert only(found(world(slow)), "steps-slower").since == NOW - 5 - 12 * 140
    assert only(found(world([*slow, 60.0])), "steps-slower"), "a single step"
    assert found(world([*slow, 60.0, 61.0, 60.0])) == ()


def test_one_phase_that_rises_is_told_if_the_steps_would_notice():
    assert found(world([*[20.0] * 10, *[45.0] * 5], training=300)) == ()
    told = only(found(world([*[20.0] * 10, *[60.0] * 5], training=300)), "steps-slower")
    assert told.text == "rollout takes 1m00s of a step instead of 20s in job train1, since 30m05s (step 11)"


def test_steps_with_a_checkpoint_or_an_evaluation_do_not_count():
    rollouts = [*USUAL, *[100.0] * 5]
    assert found(world(rollouts, longer=(11, 12, 13, 14, 15))) == ()
    assert found(world(rollouts, longer=(15,))) == ()


def test_a_few_seconds_are_nothing():
    assert found(world([*[1.0] * 10, *[4.0] * 5], training=1.0)) == ()


def test_what_changed_at_the_same_time_is_told():
    rollouts = [*USUAL, *[100.0] * 5]
    hot = (node(1, host="w1", gpus=(gpu(0), gpu(1, slowed=(True, False))), seen=NOW),)
    assert only(found(world(rollouts, nodes=hot)), "steps-slower").text.endswith(
        "(step 11); at the same time: GPU 1 of w1 is slowed by heat or power"
    )
    again = (actor(1, restarts=1, since=NOW - 700), actor(2, restarts=1, since=NOW - 5000))
    assert only(found(world(rollouts, actors=again)), "steps-slower").text.endswith("at the same time: PolicyModelActor was restarted")
    other = Job("eval2", "03000000", "eval2", "RUNNING", started=NOW - 720)
    near = (RANK, process(301, job="03000000"))
    told = only(found(world(rollouts, jobs=(JOB, other), processes=near)), "steps-slower")
    assert told.text.endswith("at the same time: job eval2 began on the same machines 12m00s ago")


@pytest.mark.parametrize("absurd", [float("nan"), float("inf"), -1e300, 1e300])
def test_absurd_times_are_no_finding(absurd: float):
    seen = world([*USUAL, *[100.0] * 5])
    assert found(replace(seen, steps=tuple(replace(step, ended=step.began + absurd) for step in seen.steps))) == ()
    assert found(replace(seen, steps=())) == ()
    assert found(replace(seen, jobs=(replace(JOB, status="SUCCEEDED"),))) == ()


def test_a_single_sample_finds_nothing():
    assert FindingTracker(Limits(), (slower_steps,), assumed=600.0)(world([*USUAL, *[100.0] * 5])).findings == ()


def test_no_healthy_job_with_uneven_steps_is_reported():
    rng = random.Random(44)
    for _ in range(3000):
        shortest, ratio = rng.choice([2.0, 30.0, 100.0, 600.0]), rng.choice([3.0, 3.0, 1.5])
        phases = rng.choice([1, 1, 2, 4])
        seconds: list[float] = []
        for count in range(1, 80):
            seconds.append(sum(rng.uniform(shortest, ratio * shortest) for _ in range(phases)))
            if count >= 15:
                assert find_rise(seconds[-50:], 0.33, 5.0) is None, seconds[-50:]


def test_healthy_jobs_with_checkpoints_are_not_reported():
    rng = random.Random(45)
    for _ in range(40):
        longer = tuple(range(10, 50, 10))
        rollouts = [rng.uniform(40, 120) + (200 if number in longer else 0) for number in range(1, 50)]
        assert detect(world(rollouts, longer=longer), 0, detectors=(slower_steps,)) == ()
