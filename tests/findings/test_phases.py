"""A job that stays in a phase far longer than ever is found, with the rank that holds it up; uneven healthy jobs are not."""

from __future__ import annotations

import random
from typing import Any

import pytest
from msgspec.structs import replace

from cockpit.findings import FindingTracker, Limits
from cockpit.findings.phases import limit_of, slow_phases, usual_of
from cockpit.findings.stalls import stalled_jobs
from cockpit.findings.stuck_io import stuck_processes
from cockpit.model import Activity, Cluster, Finding, Gpu, Hold, Host, Job, Laggard, ListedWorkers, PhaseSpan, Process, Snapshot, Step
from tests.findings.detection import codes, later, only
from tests.world import GIB, NOW, actor, gpu, node, process, snapshot

JOB = Job("train1", "02000000", "train1", "RUNNING", started=NOW - 9000)
SESSION = "session_1"
GENERATE, UPDATE = "actor_rollout_generate_sequences", "actor_rollout_update_actor"


def rank(pid: int, method: str = "", class_: str = "WorkerDict", **more: Any) -> Process:
    command = f"ray::{class_}.{method}" if method else f"ray::{class_}"
    return process(pid, **{"command": command, "name": command[:15], "job": "02000000", "gpus": (Hold(pid % 10, GIB),), **more})


def driver(**more: Any) -> Process:
    return process(500, **{"kind": "driver", "job": "02000000", "command": "python train.py", "name": "python", **more})


def history(phase: str | None, lasted: float, before: list[float]) -> tuple[PhaseSpan, ...]:
    """Ended spans of a phase, one after the other with scoring between them, and one that has lasted for a time."""
    spans: list[PhaseSpan] = []
    at = NOW - lasted
    spans.append(PhaseSpan(JOB.key, phase, at))
    for seconds in reversed(before):
        spans.insert(0, PhaseSpan(JOB.key, "scoring", at - 3, at))
        spans.insert(0, PhaseSpan(JOB.key, phase, at - 3 - seconds, at - 3))
        at -= 3 + seconds
    return tuple(spans)


def steps(count: int, seconds: float, ended: float) -> tuple[Step, ...]:
    return tuple(Step(JOB.key, ended - (count - n) * seconds, ended - (count - n - 1) * seconds, n + 1) for n in range(count))


def world(
    phase: str | None,
    lasted: float,
    before: list[float],
    *ranks: Process,
    laggards: tuple[Laggard, ...] = (),
    gpus: tuple[Gpu, ...] = (),
    silent: float | None = None,
    ended_steps: tuple[Step, ...] = (),
    **more: Any,
) -> Snapshot:
    wrote = {} if silent is None else {SESSION: {"train1": NOW - silent}}
    made = gpus or tuple(gpu(index, 60, utilization=None) for index in range(8))
    facts = {
        "cluster": Cluster(session=SESSION),
        "nodes": (node(1, host="w1", probe="node1", gpus=made, seen=NOW),),
        "processes": (*ranks, driver()),
        "hosts": {"node1": Host("node1", ("10.0.0.1",), NOW, gpus=made, nodes=(f"{1:056x}",), wrote=wrote, local=True)},
        "jobs": (JOB,),
        "actors": (),
        "placement_groups": (),
        "faults": (),
        "activities": (Activity(JOB.key, phase, since=NOW - lasted, laggards=laggards),),
        "spans": history(phase, lasted, before),
        "steps": ended_steps,
        **more,
    }
    return snapshot(**facts)


def found(seen: Snapshot, seconds: float, detectors: Any = (slow_phases,)) -> tuple[Finding, ...]:
    """The findings after this state has lasted for a time; sampled every 5 s."""
    judge = FindingTracker(Limits(), detectors)
    for at in range(int(seconds // 5)):
        judge(later(seen, 5.0 * at - seconds))
    return judge(seen).findings


TEN = [7.0] * 9 + [10.0]
ALL = [rank(101, UPDATE), rank(102, UPDATE), rank(103, UPDATE), rank(104, UPDATE)]


def test_a_stopped_rank_is_named_before_all_other_signs():
    stopped = [rank(101), rank(102, GENERATE, state="T"), rank(103), rank(104)]
    assert found(world("rollout", 29, TEN, *stopped), 40) == ()
    told = only(found(world("rollout", 35, TEN, *stopped), 40), "phase-stuck")
    assert told.text == (
        "job train1 has been in rollout for 35s, usually 7s, at most 10s in the last 10 times: WorkerDict on w1 GPU 2 (pid 102) is "
        "stopped by a signal (state T), and the others wait for it"
    )
    assert (told.level, told.subject, told.since) == ("warning", "job train1", NOW - 35)
    assert told.about == (JOB.key, stopped[1].key)
    assert told.evidence[0].startswith("3 of 4 WorkerDict idle by title: ")
    assert told.evidence[1] == f"1 of 4 WorkerDict in {GENERATE} (rollout): WorkerDict on w1 GPU 2 (pid 102)"
    assert "kill -CONT 102` on w1" in told.remedy.text
    assert told.remedy.action is None
    same = [rank(101, UPDATE), rank(102, UPDATE, state="T"), rank(103, UPDATE)]
    assert "pid 102) is stopped" in only(found(world("training", 40, TEN, *same), 40), "phase-stuck").text


def test_a_tracer_does_not_count_as_a_stop():
    assert found(world("training", 35, TEN, *ALL[:3], rank(104, UPDATE, state="t")), 40) == ()


def test_without_a_stopped_process_it_must_last_twice_as_long_as_ever():
    assert found(world("training", 39, TEN, *ALL), 60) == ()
    told = only(found(world("training", 41, TEN, *ALL), 60), "phase-stuck")
    assert told.text.endswith("at most 10s in the last 10 times: no rank differs from the others")
    assert told.evidence == (f"4 of 4 WorkerDict in {UPDATE} (training): 4 processes (pid 101, 102, 103 and 1 more)",)
    assert told.remedy.action == "stop-job"
    assert found(world("training", 49, [10.0] * 3, *ALL), 60) == ()
    assert only(found(world("training", 51, [10.0] * 3, *ALL), 60), "phase-stuck")
    assert found(world("training", 600, [10.0] * 2, *ALL), 600) == ()
    assert found(world("loading", 600, TEN, *ALL), 600) == ()


def test_the_rank_that_skipped_a_collective_is_named():
    skipped = [rank(101, UPDATE), rank(102, UPDATE), rank(103, UPDATE), rank(104)]
    text = only(found(world("training", 60, TEN, *skipped), 60), "phase-stuck").text
    assert text.endswith(f": WorkerDict on w1 GPU 4 (pid 104) is idle, while the other 3 are in {UPDATE}")
    other = [*skipped[:3], rank(104, "actor_rollout_save_checkpoint")]
    text = only(found(world("training", 60, TEN, *other), 60), "phase-stuck").text
    assert text.endswith(f": WorkerDict on w1 GPU 4 (pid 104) is in actor_rollout_save_checkpoint, while the other 3 are in {UPDATE}")


def test_of_two_ranks_both_are_named():
    two = [rank(101, "fit", "PolicyModelActor"), rank(102, "", "PolicyModelActor")]
    told = only(found(world("training", 60, TEN, *two), 60), "phase-stuck")
    assert "PolicyModelActor on w1 GPU 1 (pid 101) is in fit and PolicyModelActor on w1 GPU 2 (pid 102) is idle: one of them" in told.text
    assert told.about == (JOB.key, two[0].key, two[1].key)


def test_an_engine_that_stops_answering_is_named_and_idle_engines_are_not():
    engines = [rank(101, "generate_responses", "RolloutRayActor"), rank(102, "", "RolloutRayActor"), rank(103, "", "PolicyModelActor")]
    text = only(found(world("rollout", 60, TEN, *engines), 60), "phase-stuck").text
    assert text.endswith(": RolloutRayActor on w1 GPU 1 (pid 101) is still in generate_responses, the other engines are idle")


def test_processes_in_the_kernel_are_named_after_some_seconds():
    waits = [*ALL[:3], rank(104, UPDATE, state="D")]
    text = only(found(world("training", 60, TEN, *waits), 60, (stuck_processes, slow_phases)), "phase-stuck").text
    assert text.endswith("WorkerDict on w1 GPU 4 (pid 104) waits in the kernel (state D) for 1m00s")


def test_a_long_pause_is_the_drivers_and_is_measured_by_whole_steps():
    idle = [rank(101), rank(102)]
    past = {"ended_steps": steps(5, 20.0, NOW - 300)}
    assert found(world("waiting", 49, [], *idle, **past), 60) == ()
    told = only(found(world("waiting", 55, [], *idle, **past), 60), "phase-stuck")
    assert told.text == (
        "job train1 has been waiting for 55s, its longest step of the last 5 took 20s: no worker runs a method: it waits for its driver "
        "(pid 500 on w1), which computes rewards, loads data or asks a server"
    )
    assert told.about == (JOB.key, driver().key)
    unknown = only(found(world(None, 55, [], *idle, **past), 60), "phase-stuck").text
    assert unknown.startswith(
        "job train1 has been idle by all titles (it waits, or an engine without titles works) for 55s, its longest step"
    )
    assert found(world("waiting", 600, [], *idle), 600) == (), "before its first steps nothing is usual"
    waiting = actor(1, state="PENDING_CREATION", node=None)
    assert found(world("waiting", 600, [], *idle, actors=(waiting,), **past), 600) == (), "an actor that waits has findings of its own"


def test_workers_on_a_node_without_a_probe_are_said_not_to_be_seen():
    hidden = (
        actor(1, class_="WorkerDict", job="02000000", node=node(2).id),
        actor(2, class_="WorkerDict", job="02000000", node=node(2).id),
    )
    facts: dict[str, Any] = {"actors": hidden, "ended_steps": steps(12, 20.0, NOW - 300)}
    facts["nodes"] = (*world(None, 300, TEN).nodes, node(2, host="w2"))
    told = only(found(world(None, 300, TEN, rank(101), rank(102), **facts), 300), "phase-stuck")
    unseen = "2 WorkerDict on w2 are not seen: no probe reports them"
    assert "has been idle, by the titles that are seen, for 5m00s, its longest step of the last 12 took 20s: " in told.text
    assert told.text.endswith(f"no worker that is seen runs a method; {unseen}")
    assert "driver, which" not in told.text
    assert "workers that are not seen" in told.remedy.text
    method = "actor_rollout_compute_log_prob"
    listed = tuple(rank(pid, name, host="w2", actor=one.id) for pid, name, one in ((117, method, hidden[0]), (118, "", hidden[1])))
    facts["listed_workers"] = (ListedWorkers(node(2).id or "", NOW - 20, listed),)
    told = only(found(world(None, 300, TEN, rank(101), rank(102), **facts), 300), "phase-stuck")
    assert f"{unseen}; by Ray's list, read 20s ago, pid 117 is in {method}" in told.text


def test_without_titles_that_a_probe_follows_no_phase_is_too_long():
    past = {"ended_steps": steps(5, 20.0, NOW - 300)}
    listed = ListedWorkers(f"{2:056x}", NOW, (rank(201, UPDATE, host="node2"), rank(202, UPDATE, host="node2")))
    for phase in ("training", "waiting", None):
        assert codes(found(world(phase, 60, TEN, *ALL, **past), 60)) == {"phase-stuck"}
        assert found(world(phase, 60, TEN, **past), 60) == (), "nobody sees a worker"
        assert found(world(phase, 60, TEN, rank(101, "run", "TaskRunner"), **past), 60) == (), "it runs this for the whole job"
        assert found(world(phase, 60, TEN, listed_workers=(listed,), **past), 60) == (), "Ray lists its workers now and then"


def test_signs_of_life_triple_the_limit():
    works = tuple(gpu(index, 60, utilization=90.0, power=500.0) for index in range(8))
    assert found(world("training", 119, TEN, *ALL, gpus=works), 150) == ()
    told = only(found(world("training", 125, TEN, *ALL, gpus=works), 150), "phase-stuck")
    assert (told.level, told.text.endswith("; but one of its GPUs works")) == ("info", True)
    spins = tuple(gpu(index, 60, utilization=100.0, power=100.0) for index in range(8))
    assert only(found(world("training", 45, TEN, *ALL, gpus=spins), 150), "phase-stuck").level == "warning"
    assert found(world("training", 100, TEN, *ALL, silent=5), 150) == ()
    told = only(found(world("training", 125, TEN, *ALL, silent=5), 150), "phase-stuck")
    assert told.text.endswith("; but its log grows")
    assert (
        "job-driver-train1.log was last written 50s ago"
        in only(found(world("training", 60, TEN, *ALL, silent=50), 60), "phase-stuck").evidence
    )


def test_a_job_whose_steps_go_on_is_not_stuck():
    assert found(world("training", 60, TEN, *ALL, ended_steps=steps(4, 10.0, NOW - 5)), 60) == ()


def test_time_without_samples_does_not_count():
    assert found(world("training", 600, TEN, *ALL), 30) == ()


def test_the_last_title_of_a_silent_host_is_no_proof():
    away = rank(201, UPDATE, host="node2", node=f"{2:056x}")
    two = world("training", 60, TEN, rank(101), away)
    silent = Host("node2", ("10.0.0.2",), NOW - 300, nodes=(f"{2:056x}",))
    far = node(2, host="w2", probe="node2", gpus=(), seen=NOW - 300)
    assert found(replace(two, hosts={**two.hosts, "node2": silent}, nodes=(*two.nodes, far)), 60) == ()
    assert only(found(replace(two, hosts={**two.hosts, "node2": replace(silent, taken=NOW)}, nodes=(*two.nodes, far)), 60), "phase-stuck")


def test_a_rank_that_the_others_have_left_behind_is_told_until_its_phase_counts_as_stuck():
    slow = rank(104, UPDATE)
    left = [rank(101), rank(102), rank(103), slow]
    behind = (Laggard(slow.key, f"WorkerDict.{UPDATE}", NOW - 32, 3),)
    assert found(world("training", 36, TEN, *left, laggards=(replace(behind[0], since=NOW - 29),)), 60) == ()
    told = only(found(world("training", 36, TEN, *left, laggards=behind), 60), "rank-behind")
    assert (told.level, told.about) == ("info", (JOB.key, slow.key))
    assert told.text == (
        f"WorkerDict on w1 GPU 4 (pid 104) of job train1 has been alone in {UPDATE} (training) for 32s; 3 other ranks of its class have "
        "ended it. The whole phase took usually 7s, at most 10s in the last 10 times"
    )
    stuck = found(world("training", 45, TEN, *left, laggards=behind), 60)
    assert [finding.code for finding in stuck] == ["phase-stuck"]
    asynchronous = world("rollout", 5, [], *left, laggards=(replace(behind[0], since=NOW - 45),))
    spans = (*history("training", 50, TEN)[:-1], PhaseSpan(JOB.key, "rollout", NOW - 5))
    assert only(found(replace(asynchronous, spans=spans), 60), "rank-behind").level == "warning"


def test_it_replaces_the_guess_that_the_job_stalls():
    idle = tuple(gpu(index, 60, utilization=0.0, power=75.0) for index in range(8))
    stalled = world("training", 700, TEN, *ALL, gpus=idle, silent=700)
    assert only(found(stalled, 700, (stalled_jobs,)), "job-stalled")
    assert [finding.code for finding in found(stalled, 700, (slow_phases, stalled_jobs))] == ["phase-stuck"]


def test_gpus_that_spin_keep_their_finding_and_it_names_phase_and_ranks():
    spins = tuple(gpu(index, 60, utilization=100.0, power=100.0) for index in range(8))
    skipped = [rank(101, UPDATE), rank(102, UPDATE), rank(103, UPDATE), rank(104)]
    both = found(world("training", 400, TEN, *skipped, gpus=spins), 400, (slow_phases, stalled_jobs))
    told = only(both, "job-hung")
    assert told.evidence[:2] == (
        "it is in training for 6m40s",
        f"WorkerDict on w1 GPU 4 (pid 104) is idle, while the other 3 are in {UPDATE}",
    )


def test_it_clears_when_the_phase_changes():
    judge, stuck = FindingTracker(Limits(), (slow_phases,)), world("training", 60, TEN, *ALL)
    for at in range(13):
        judge(later(stuck, 5.0 * at - 60))
    assert judge(stuck).findings
    goes_on = replace(stuck, activities=(Activity(JOB.key, "rollout", since=NOW + 4),), spans=history("rollout", -4, TEN))
    assert judge(later(goes_on, 5.0)).findings == ()


@pytest.mark.parametrize("absurd", [float("nan"), float("inf"), -1e300, 1e300])
def test_absurd_times_are_no_finding(absurd: float):
    odd = world("training", 60, TEN, *ALL)
    assert found(replace(odd, activities=(Activity(JOB.key, "training", since=absurd),)), 0) == ()
    assert found(replace(odd, activities=(Activity(JOB.key, "training"),)), 60) == ()
    assert found(replace(odd, jobs=None), 60) == ()


def test_a_single_sample_finds_nothing():
    assert FindingTracker(Limits(), (slow_phases,), assumed=600.0)(world("training", 600, TEN, *ALL)).findings == ()


def test_no_healthy_job_with_uneven_phases_is_reported():
    rng, limits = random.Random(43), Limits()
    for _ in range(4000):
        shortest = rng.choice([0.5, 3.0, 30.0, 200.0, 900.0])
        past: list[float] = []
        for _ in range(60):
            seconds = rng.uniform(shortest, 3 * shortest)
            usual = usual_of(past)
            if usual is not None and usual.is_known:
                assert seconds < limit_of(usual, limits), past
            past.append(seconds)


def test_no_healthy_job_is_reported_at_the_end_of_its_phases():
    rng = random.Random(7)
    for _ in range(30):
        shortest = rng.choice([2.0, 30.0, 200.0])
        before = [rng.uniform(shortest, 3 * shortest) for _ in range(rng.randint(3, 40))]
        if len(before) >= 10 and max(before) < 1.5 * shortest:
            continue
        phase = rng.choice(["rollout", "scoring", "training", "checkpoint", "evaluation"])
        assert found(world(phase, 3 * shortest, before, *ALL), 3 * shortest) == ()
