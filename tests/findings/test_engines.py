"""Engines that hold up their job."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from cockpit.findings import FindingTracker, Limits
from cockpit.findings.engines import dead_engines, full_caches, idle_engines, silent_engines, stuck_engines
from cockpit.model import Engine, Job, Snapshot
from tests.findings.detection import codes, detect, later, only
from tests.world import NOW, engine, snapshot

JOB = Job("ppo-7b", job="02000000", status="RUNNING")


def world(*engines: Engine, job: Job = JOB) -> Snapshot:
    return snapshot(engines=engines, jobs=(job,), as_of={"ray.engines": NOW, "ray.jobs": NOW})


def moved(made: Snapshot, seconds: float) -> Snapshot:
    """The same some seconds later, with engines that were read then."""
    engines = tuple(replace(one, read=one.read and one.read + seconds) for one in made.engines or ())
    return later(replace(made, engines=engines), seconds)


def test_a_dead_engine_is_reported_with_its_place_and_the_time():
    made = world(engine(ended=NOW - 190), engine(4712))
    found = only(detect(made, 10, detectors=(dead_engines,)), "engine-dead")
    assert found.level == "critical"
    assert found.text == (
        "vLLM (pid 4711) on node1 of job ppo-7b ended 3m10s ago, although the process of its actor still runs: no request to it is answered"
    )
    (evidence,) = found.evidence
    assert evidence == (
        "vLLM (pid 4711) on node1: pid 4711 has no VLLM::EngineCore below it any more; "
        "its last numbers: 4 running, 0 waiting, KV cache 40%, 800 tokens/s, 0 preemptions/min"
    )
    assert found.remedy is not None
    assert found.remedy.action == "stop-job"
    assert found.about == (JOB.key, f"actor:{4711:032x}")
    assert found.since == NOW - 190


def test_an_engine_that_has_just_ended_may_be_started_again():
    assert detect(world(engine(ended=NOW - 20)), 10, detectors=(dead_engines,)) == ()


def test_a_job_may_have_stopped_all_its_engines_itself():
    made = world(engine(ended=NOW - 190, by="processes", running=None, waiting=None))
    found = only(detect(made, 10, detectors=(dead_engines,)), "engine-dead")
    assert found.level == "warning"
    assert found.text.endswith("unless the job has stopped it, no request to it is answered")
    assert detect(world(engine(ended=NOW - 190, actor=None)), 10, detectors=(dead_engines,)) == (), "a driver has done with its own"


def test_many_dead_engines_are_one_finding():
    found = only(detect(world(*(engine(pid, ended=NOW - 100) for pid in range(1, 9))), 10, detectors=(dead_engines,)), "engine-dead")
    assert found.text.startswith(
        "8 engines (vLLM (pid 1) on node1, vLLM (pid 2) on node1, vLLM (pid 3) on node1 and 5 more) of job ppo-7b ended 1m40s ago"
    )


def test_engines_of_jobs_that_have_ended_are_not_reported():
    ended = replace(JOB, status="STOPPED")
    assert detect(world(engine(ended=NOW - 500), job=ended), 10, detectors=(dead_engines,)) == ()


def test_a_server_that_does_not_answer_is_reported():
    made = world(engine(by="server", port=8000, unanswered=NOW - 90, why="node1: no answer within 3 s\x1b[2J"))
    found = only(detect(made, 10, detectors=(silent_engines,)), "engine-silent")
    assert found.text == (
        "vLLM (pid 4711) on node1 of job ppo-7b has not answered for 1m30s, although its process runs: its rollouts probably hang"
    )
    assert "GET /metrics at port 8000 of vLLM (pid 4711) on node1: node1: no answer within 3 s" in found.evidence[0]
    assert "\x1b" not in found.evidence[0]


def test_while_a_host_is_silent_no_time_of_its_engines_grows():
    made = world(engine(ended=NOW - 10), engine(4712, by="server", port=8000, unanswered=NOW - 10))
    made = replace(made, taken=NOW + 300, as_of={"ray.engines": NOW + 300, "ray.jobs": NOW + 300})
    assert FindingTracker(Limits(), (dead_engines, silent_engines))(made).findings == (), "for ten seconds only they were seen so"
    made = replace(made, engines=(engine(ended=NOW - 190), engine(4712, by="server", port=8000, unanswered=NOW - 90)))
    dead, silent = FindingTracker(Limits(), (dead_engines, silent_engines))(made).findings
    assert (dead.code, silent.code) == ("engine-dead", "engine-silent")
    assert dead.seen == silent.seen == made.hosts["node1"].taken
    assert "job ppo-7b ended 8m10s ago" in dead.text
    assert "has not answered for 1m30s" in silent.text
    assert dead.text.endswith("as of 5m00s ago")


@pytest.mark.parametrize("fine", [{"by": "node"}, {"unanswered": None}, {"unanswered": NOW - 50}, {"ended": NOW - 10}])
def test_a_silent_node_is_no_silent_engine(fine: dict[str, Any]):
    made = world(engine(**{"by": "server", "port": 8000, "unanswered": NOW - 90, **fine}))
    assert detect(made, 10, detectors=(silent_engines,)) == ()


def test_an_engine_that_generates_nothing_is_reported():
    found = only(detect(world(engine(tokens_per_second=0.0)), 360, detectors=(stuck_engines,)), "engine-stuck")
    assert found.text == "vLLM (pid 4711) on node1 of job ppo-7b has generated no token for 6m00s, with 4 running requests"
    assert found.evidence == ("vLLM (pid 4711) on node1: 4 running, 0 waiting, KV cache 40%, 0 tokens/s, 0 preemptions/min",)


@pytest.mark.parametrize(
    "fine",
    [{"running": 0}, {"running": None}, {"tokens_per_second": None}, {"tokens_per_second": 0.1}, {"read": None}, {"read": NOW - 400}]
    + [{"tokens_per_second": number} for number in (-1.0, float("nan"), float("inf"), 1e300)],
)
def test_an_engine_that_may_work_is_not_stuck(fine: dict[str, Any]):
    assert detect(world(engine(**{"tokens_per_second": 0.0, **fine})), 360, detectors=(stuck_engines,)) == ()


def test_a_token_begins_the_time_anew():
    judge, stuck = FindingTracker(Limits(), (stuck_engines,)), world(engine(tokens_per_second=0.0))
    for seconds in range(0, 295, 5):
        assert codes(judge(moved(stuck, seconds)).findings) == set()
    judge(moved(world(engine()), 295))
    for seconds in range(300, 590, 5):
        assert codes(judge(moved(stuck, seconds)).findings) == set()


def test_an_engine_without_work_while_others_queue_is_reported():
    made = world(engine(1, running=0), engine(2, waiting=90), engine(3, waiting=30))
    found = only(detect(made, 240, detectors=(idle_engines,)), "engine-idle")
    assert found.level == "info"
    assert (
        found.text == "vLLM (pid 1) on node1 of job ppo-7b has had no work for 4m00s, while 120 requests for qwen-7b wait at other engines"
    )
    assert found.evidence[1] == "vLLM (pid 2) on node1: 4 running, 90 waiting, KV cache 40%, 800 tokens/s, 0 preemptions/min"


def test_through_ray_an_idle_engine_has_no_numbers_but_its_old_counters():
    idle = engine(1, running=None, waiting=None, kv_cache=None, tokens_per_second=0.0)
    assert codes(detect(world(idle, engine(2, waiting=90)), 240, detectors=(idle_engines,))) == {"engine-idle"}
    unknown = replace(idle, tokens_per_second=None)
    assert detect(world(unknown, engine(2, waiting=90)), 240, detectors=(idle_engines,)) == ()


@pytest.mark.parametrize("other", [{"waiting": 7}, {"waiting": None}, {"model": "judge"}, {"software": "sglang"}, {"job": "03000000"}])
def test_engines_that_could_not_take_the_work_are_fine(other: dict[str, Any]):
    made = world(engine(1, running=0), engine(2, **{"waiting": 90, **other}))
    assert detect(made, 240, detectors=(idle_engines,)) == ()


def test_a_full_cache_that_preempts_is_reported_until_it_is_well_below():
    full = world(engine(kv_cache=0.99, preemptions_per_minute=12.0))
    found = only(detect(full, 240, detectors=(full_caches,)), "engine-cache-full")
    assert found.text == (
        "The KV cache of vLLM (pid 4711) on node1 of job ppo-7b has been full for 4m00s, and 12 requests a minute are preempted: "
        "what they have generated is computed again"
    )
    judge = FindingTracker(Limits(), (full_caches,))
    for seconds in range(0, 200, 5):
        judge(moved(full, seconds))
    for share, there in ((0.92, {"engine-cache-full"}), (0.89, set())):
        lower = moved(world(engine(kv_cache=share, preemptions_per_minute=12.0)), 202 + 100 * (1 - share))
        assert codes(judge(lower).findings) == there


@pytest.mark.parametrize(
    "fine",
    [{"kv_cache": 0.94}, {"kv_cache": None}, {"preemptions_per_minute": 0.5}, {"preemptions_per_minute": None}]
    + [{"preemptions_per_minute": number} for number in (-1.0, float("nan"), float("inf"))],
)
def test_a_full_cache_without_preemptions_is_fine(fine: dict[str, Any]):
    assert detect(world(engine(**{"kv_cache": 0.99, "preemptions_per_minute": 12.0, **fine})), 240, detectors=(full_caches,)) == ()


def test_unknown_engines_are_no_finding():
    everything = (dead_engines, silent_engines, stuck_engines, idle_engines, full_caches)
    assert detect(replace(world(), engines=None), 240, detectors=everything) == ()
