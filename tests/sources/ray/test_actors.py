from __future__ import annotations

import json
from typing import Any

import pytest

from cockpit.sources.lenient_json import decode
from cockpit.sources.ray import actors, wire
from cockpit.sources.ray.actors import WAITING
from cockpit.sources.ray.listings import ActorLists
from cockpit.sources.ray.status import GroupDemand
from cockpit.sources.source import SourceError
from tests.sources.ray.recorded_ray import Clock, RecordedRay, listing, of_state, recorded


def asked_states(ray: RecordedRay) -> list[str | None]:
    return [request.url.params.get("filter_values") for request in ray.asked if request.url.path == "/api/v0/actors"]


def an_actor(number: int, state: str, **more: Any) -> dict[str, Any]:
    return {
        "actor_id": f"{number:032x}",
        "class_name": "W",
        "state": state,
        "job_id": "02000000",
        "name": "",
        "node_id": None,
        "pid": 0,
        **more,
    }


class Actors(RecordedRay):
    """A Ray with the actors that a test puts in."""

    def __init__(self, *actors: dict[str, Any]) -> None:
        super().__init__()
        self.clock = Clock()
        self.put(*actors)

    def put(self, *actors: dict[str, Any], **counts: int) -> None:
        self.paths["/api/v0/actors"] = of_state(listing(*actors, **counts))


async def test_only_living_actors_are_listed_by_state():
    ray = RecordedRay()
    facts = await ray.ray().read_actors()
    assert {actor.state for actor in facts.actors} == {"ALIVE", "PENDING_CREATION", "DEPENDENCIES_UNREADY"}
    assert facts.counts == {"DEPENDENCIES_UNREADY": 1, "PENDING_CREATION": 7, "RESTARTING": 0, "ALIVE": 6}
    assert facts.complete
    assert asked_states(ray) == ["DEPENDENCIES_UNREADY", "PENDING_CREATION", "RESTARTING", "ALIVE"]
    assert all(request.url.params["limit"] == "10000" for request in ray.asked if request.url.path == "/api/v0/actors")


@pytest.mark.parametrize("version", ["2.60", "2.44.1", "2.9.3"])
async def test_the_supervisor_of_a_job_is_internal(version):
    facts = await RecordedRay(version).ray().read_actors()
    assert {actor.class_ for actor in facts.actors if actor.internal} == {"JobSupervisor"}
    assert any(not actor.internal for actor in facts.actors)


async def test_the_number_of_restarts_is_unknown_to_an_old_ray():
    assert {actor.restarts for actor in (await RecordedRay("2.9.3").ray().read_actors()).actors} == {None}
    assert {actor.restarts for actor in (await RecordedRay("2.44.1").ray().read_actors()).actors} == {0}


async def test_the_needs_of_an_actor_in_a_group_do_not_contain_the_groups_name():
    facts = await RecordedRay(actors="actors_groups").ray().read_actors()
    bound = next(actor for actor in facts.actors if actor.name == "w1")
    assert bound.needs == {"GPU": 1.0, "CPU": 1.0}
    assert bound.placement_group == "1170df76616358ce8c39a7b4122302000000"


async def test_a_waiting_actor_has_no_node_and_no_invented_reason():
    pending = next(actor for actor in (await RecordedRay().ray().read_actors()).actors if actor.pending)
    assert (pending.node, pending.pid) == (None, None)
    ray = RecordedRay().ray()
    await ray.read_placement_groups()
    why = {(actor.state, actor.placement_group is not None): actor.why for actor in (await ray.read_actors()).actors}
    assert why["DEPENDENCIES_UNREADY", False] == "its constructor's arguments are not ready"
    assert why["PENDING_CREATION", True] == "its placement group waits: its bundles do not fit, even on empty nodes"
    assert why["PENDING_CREATION", False] is None


async def test_a_waiting_actor_has_the_time_since_it_was_first_seen():
    ray = Actors(an_actor(1, "PENDING_CREATION"))
    it = ray.ray(ray.clock)
    first = (await it.read_actors()).actors[0].since
    ray.clock.now += 60.0
    ray.put(an_actor(1, "PENDING_CREATION"), an_actor(2, "PENDING_CREATION"), an_actor(3, "RESTARTING"))
    listed = (await it.read_actors()).actors
    assert [(actor.since, actor.at_least) for actor in listed] == [(first, True), (ray.clock.now, False), (ray.clock.now, False)]
    ray.clock.now += 60.0
    ray.put(an_actor(1, "ALIVE"))
    assert [actor.since for actor in (await it.read_actors()).actors] == [None]


async def test_a_cut_list_is_incomplete():
    ray = Actors()
    ray.put(*(an_actor(number, "PENDING_CREATION") for number in range(3)), total=12203, num_after_truncation=10091)
    facts = await ray.ray().read_actors()
    assert not facts.complete
    assert facts.counts is not None
    assert facts.counts["PENDING_CREATION"] == 3


async def test_of_many_actors_the_living_are_listed_less_often_than_the_waiting():
    ray = Actors()
    ray.put(an_actor(1, "ALIVE"), total=201, num_after_truncation=201)
    it = ray.ray(ray.clock)
    for _ in range(4):
        await it.read_actors()
        ray.clock.now += 5.0
    assert (asked_states(ray).count("ALIVE"), asked_states(ray).count("RESTARTING")) == (2, 4)


@pytest.mark.parametrize("total", [1, 201])
async def test_the_living_are_listed_at_once_when_an_actor_stops_waiting(total: int):
    ray = Actors()
    ray.put(an_actor(1, "PENDING_CREATION"), total=total)
    it = ray.ray(ray.clock)
    await it.read_actors()
    ray.put(an_actor(1, "ALIVE"), total=total)
    ray.clock.now += 5.0
    assert [actor.state for actor in (await it.read_actors()).actors] == ["ALIVE"]


def asked_at_last(ray: RecordedRay) -> list[tuple[str, str]]:
    """The requests of the second read of the actors."""
    asked = [request.url.params for request in ray.asked if request.url.path == "/api/v0/actors"]
    return [(params["filter_predicates"], params["filter_values"]) for params in asked[4:]]


@pytest.mark.parametrize("version", ["2.60", "2.44.1", "2.9.3"])
async def test_few_actors_are_read_by_one_request_with_the_same_result_as_by_four(version: str):
    ray, clock = RecordedRay(version), Clock()
    it = ray.ray(clock)
    first = await it.read_actors()
    clock.now += 5.0
    second = await it.read_actors()
    assert asked_at_last(ray) == [("!=", "DEAD")]
    assert {actor.id: actor for actor in second.actors} == {actor.id: actor for actor in first.actors}
    assert (second.counts, second.complete) == (first.counts, first.complete)


@pytest.mark.parametrize("counts", [{"total": 201}, {"total": 200, "num_after_truncation": 199}, {"total": 200, "num_filtered": 3}])
async def test_a_list_of_all_states_counts_only_while_actors_are_few_and_it_is_not_cut(counts: dict[str, int]):
    ray = Actors(an_actor(1, "ALIVE"))
    it = ray.ray(ray.clock)
    await it.read_actors()
    ray.put(an_actor(1, "ALIVE"), an_actor(2, "PENDING_CREATION"), **counts)
    ray.clock.now += 5.0
    facts = await it.read_actors()
    assert [values for _, values in asked_at_last(ray)] == ["DEAD", *WAITING, "ALIVE"]
    assert {actor.state for actor in facts.actors} == {"ALIVE", "PENDING_CREATION"}


async def test_actors_that_have_become_few_are_read_by_one_request():
    ray = Actors()
    ray.put(an_actor(1, "ALIVE"), total=201, num_after_truncation=201)
    it = ray.ray(ray.clock)
    await it.read_actors()
    for _ in range(2):
        ray.put(an_actor(1, "ALIVE"))
        ray.clock.now += 5.0
        await it.read_actors()
    assert asked_at_last(ray)[-1] == ("!=", "DEAD")


async def test_a_slow_list_is_not_requested_for_twenty_times_its_duration():
    lists = ActorLists(clock := Clock())
    lists.update("PENDING_CREATION", wire.Listing(total=1), took=2.0)
    clock.now += 39.0
    assert not lists.is_due("PENDING_CREATION")
    clock.now += 1.0
    assert lists.is_due("PENDING_CREATION")


@pytest.mark.parametrize(("took", "is_due"), [(0.4, True), (0.6, False)])
async def test_the_living_are_listed_at_once_when_an_actor_stops_waiting_unless_their_list_is_slow(took: float, is_due: bool):
    lists = ActorLists(clock := Clock())
    lists.update("PENDING_CREATION", wire.Listing((wire.Actor("a", state="PENDING_CREATION"),), total=1), took=0.0)
    lists.update("ALIVE", wire.Listing(total=1), took)
    clock.now += 5.0
    assert not lists.is_due("ALIVE")
    lists.update("PENDING_CREATION", wire.Listing(total=1), took=0.0)
    assert lists.is_due("ALIVE") is is_due


async def test_the_loss_of_all_actors_even_dead_ones_is_accepted_only_if_it_lasts():
    ray = Actors(an_actor(1, "ALIVE"), an_actor(2, "DEAD"))
    it = ray.ray(ray.clock)
    await it.read_actors()
    for round_ in range(4):  # each loss must be confirmed again
        ray.put()
        for _ in range(2):
            ray.clock.now += 10.0
            with pytest.raises(SourceError, match="checks again first"):
                await it.read_actors()
        if round_ < 3:
            ray.put(an_actor(1, "ALIVE"), an_actor(2, "DEAD"))
            assert len((await it.read_actors()).actors) == 1
    ray.clock.now += 10.0
    assert (await it.read_actors()).actors == ()


async def test_actors_that_all_end_at_once_are_accepted():
    ray = Actors(an_actor(1, "ALIVE"))
    it = ray.ray(ray.clock)
    await it.read_actors()
    ray.put(an_actor(1, "DEAD"))
    ray.clock.now += 10.0
    assert (await it.read_actors()).actors == ()


async def test_dead_actors_have_their_causes():
    why = {actor.name or actor.class_: actor.why or "" for actor in await RecordedRay().ray().dead_actors()}
    assert why["BadInit"] == "its constructor failed: RuntimeError: constructor blew up: CUDA out of memory (fake)"
    assert why["bad_affinity"].startswith("The node specified via NodeAffinitySchedulingStrategy doesn't exist")
    assert why["_ray_internal_job_actor_badrenv"].endswith("No such file or directory: 'conda'")
    assert why["named1"].startswith("its owner has died. Owner Id")
    (hog,) = await RecordedRay(actors="actors_oom").ray().dead_actors()
    assert hog.why is not None
    assert hog.why.startswith("Ray's memory monitor killed it: 1 worker(s) were killed due to the node running low on memory")
    assert "\n" not in hog.why


@pytest.mark.parametrize(
    "cause",
    [
        {"actor_died_error_context": {"error_message": "killed with HF_TOKEN=hf_abcdefghijkl"}},
        {"creation_task_failure_context": {"formatted_exception_string": "Traceback\n  x\nKeyError: HF_TOKEN=hf_abcdefghijkl"}},
        {"runtime_env_failed_context": {"error_message": "pip: HF_TOKEN=hf_abcdefghijkl"}},
        {"actor_unschedulable_context": {"error_message": "no node, HF_TOKEN=hf_abcdefghijkl"}},
        {"oom_context": {"error_message": "ended, HF_TOKEN=hf_abcdefghijkl"}},
    ],
)
async def test_no_cause_of_death_contains_a_secret(cause):
    ray = Actors(an_actor(1, "DEAD", death_cause=cause))
    (dead,) = await ray.ray().dead_actors()
    assert dead.why is not None
    assert "HF_TOKEN=•••" in dead.why


@pytest.mark.parametrize("context", ["actor_died", "creation_task_failure", "runtime_env_failed", "actor_unschedulable", "oom"])
async def test_a_death_without_a_message_breaks_nothing(context):
    key = {"actor_died": "actor_died_error_context"}.get(context, f"{context}_context")
    (dead,) = await Actors(an_actor(1, "DEAD", death_cause={key: {}})).ray().dead_actors()
    assert dead.why is None or len(dead.why) > 10


async def test_removed_groups_are_left_out_and_a_bundle_has_a_node_once_it_is_placed():
    facts = await RecordedRay().ray().read_placement_groups()
    assert [group.name for group in facts.groups] == ["pg_strict_spread", "pg_infeasible", "pg_ok"]
    groups = {group.name: group for group in (await RecordedRay().ray().read_placement_groups()).groups}
    assert [bundle.node for bundle in groups["pg_strict_spread"].bundles] == [None, None]
    assert groups["pg_ok"].bundles[0].node is not None
    assert groups["pg_strict_spread"].since == pytest.approx(1795224081.968, abs=0.01)


async def test_a_waiting_groups_strategy_is_found_by_its_bundles_and_then_remembered():
    ray = RecordedRay()
    it = ray.ray()
    assert {group.strategy for group in (await it.read_placement_groups()).groups} == {None}
    await it.read_status()
    assert [group.strategy for group in (await it.read_placement_groups()).groups] == ["STRICT_SPREAD", "PACK", None]
    ray.paths["/api/cluster_status"]["data"]["clusterStatus"]["loadMetricsReport"]["pgDemand"] = []
    await it.read_status()
    assert [group.strategy for group in (await it.read_placement_groups()).groups] == ["STRICT_SPREAD", "PACK", None]


def test_two_strategies_for_the_same_bundles_or_a_topology_leave_it_unknown():
    group = wire.Group("a", bundles=(wire.GroupBundle({"GPU": 1.0}),))
    demands = [actors.GroupDemand(({"GPU": 1.0},), strategy, 1) for strategy in ("PACK", "SPREAD")]
    assert actors.find_strategy(group, actors.strategies_by_shape(demands[:1])) == "PACK"
    assert actors.find_strategy(group, actors.strategies_by_shape(demands)) is None
    bundles = [{"unit_resources": {"GPU": 1.0}, "label_selector": {"gpu": "h100"}}]
    demands = [GroupDemand(({"GPU": 1.0},), "PACK", 1)]
    plain, racked = (
        decode(json.dumps({"placement_group_id": "a", "bundles": bundles, "topology_strategy": topology}).encode(), wire.Group)
        for topology in ({}, {"rack": "STRICT_PACK"})
    )
    assert tuple(actors.find_strategy(group, actors.strategies_by_shape(demands)) for group in (plain, racked)) == ("PACK", None)
    assert actors.parse_group(plain, None, None).bundles[0].labels == {"gpu": "h100"}


@pytest.mark.parametrize("version", ["2.44.1", "2.9.3"])
async def test_no_resources_of_older_rays_is_infeasible_in_newer_ones(version):
    (group,) = (await RecordedRay(version).ray().read_placement_groups()).groups
    assert (group.pending, group.why) == (True, "not enough resources are free for all its bundles")


async def test_groups_and_jobs_are_read_more_often_while_one_waits_or_runs():
    ray = RecordedRay()
    it = ray.ray()
    groups, jobs = (next(source for source in it.sources if source.name == name) for name in ("ray.placement_groups", "ray.jobs"))
    assert groups.pause() == 10.0
    await it.read_placement_groups()
    await it.read_jobs()
    assert (groups.pause(), jobs.pause()) == (5.0, 5.0)
    ray.paths["/api/jobs/"] = [job for job in recorded("jobs") if job["status"] == "FAILED"]
    await it.read_jobs()
    assert jobs.pause() == 10.0


async def test_jobs_are_read_with_all_their_facts_and_a_driver_that_was_not_submitted_by_the_id_of_its_job():
    jobs = {job.id: job for job in (await RecordedRay().ray().read_jobs()).jobs}
    done, failed, waiting = jobs["raysubmit_P8GeGrtyjBPkys5g"], jobs["fail-1"], jobs["needs-gpus"]
    assert (done.job, done.status, done.exit_code, done.driver_pid) == ("03000000", "SUCCEEDED", 0, 14172)
    assert (done.started, done.ended) == (1795223967.264, 1795223972.886)
    assert failed.error_type == "JOB_ENTRYPOINT_COMMAND_ERROR"
    assert failed.message is not None
    assert "failing on purpose" in failed.message
    assert (waiting.running, waiting.job, waiting.ended) == (True, None, None)
    jobs = {job.id: job for job in (await RecordedRay(jobs="jobs_driver").ray().read_jobs()).jobs}
    assert (jobs["03000000"].submission, jobs["03000000"].ended, jobs["03000000"].driver_pid) == (None, None, 17937)


async def test_a_job_is_read_without_its_secrets():
    ray = RecordedRay()
    ray.paths["/api/jobs/"] = [
        {
            "submission_id": "a",
            "status": "FAILED",
            "entrypoint": "HF_TOKEN=hf_abcdefghijkl python x.py --api-key=abcdef123",
            "message": "Bearer abcdefghijkl",
        }
    ]
    (job,) = (await ray.ray().read_jobs()).jobs
    assert job.entrypoint == "HF_TOKEN=••• python x.py --api-key=•••"
    assert job.message == "Bearer •••"


async def test_a_jobs_environment_is_read_without_its_secrets():
    jobs = {job.id: job for job in (await RecordedRay().ray().read_jobs()).jobs}
    assert [job.runtime_env for job in jobs.values() if job.runtime_env] == [
        {"working_dir": "/home/user/jobs"},
        {"conda": "no_such_env_xyz"},
    ]
    assert [job.metadata for job in jobs.values() if job.metadata] == [{"owner": "alice", "purpose": "rl-train"}]
    ray = RecordedRay()
    env = {"HF_TOKEN": "abc", "VLLM_USE_V1": "1", "DB": "postgres://me:abc@db/x"}
    odd = [{"submission_id": name, "runtime_env": value} for name, value in (("b", "text"), ("c", [1]), ("d", None), ("e", {}))]
    ray.paths["/api/jobs/"] = [{"submission_id": "a", "runtime_env": {"env_vars": env}, "metadata": {"token": "abc", "n": 1}}, *odd]
    job, *others = (await ray.ray().read_jobs()).jobs
    assert job.runtime_env == {"env_vars": {"HF_TOKEN": "•••", "VLLM_USE_V1": "1", "DB": "postgres://•••@db/x"}}
    assert job.metadata == {"token": "•••", "n": "1"}
    assert {other.runtime_env for other in others} == {None}


async def test_of_a_jobs_absurd_values_the_message_is_cut_and_times_are_unknown():
    ray = RecordedRay()
    never = {"submission_id": "a", "start_time": 18446744073709551615, "end_time": 0, "message": "x" * 10**6}
    beyond = {"submission_id": "b", "start_time": 2.5e14, "end_time": "nan", "driver_exit_code": 10**30}
    ray.paths["/api/jobs/"] = [never, beyond]
    jobs = (await ray.ray().read_jobs()).jobs
    assert [(job.started, job.ended, job.exit_code) for job in jobs] == [(None, None, None)] * 2
    assert len(jobs[0].message or "") == actors.MAX_MESSAGE_CHARS


async def test_a_group_with_a_creation_time_beyond_the_calendar_waits_since_it_was_seen():
    ray, clock = RecordedRay(), Clock()
    stats = {"creation_request_received_ns": 10**400, "scheduling_state": "QUEUED"}
    ray.paths["/api/v0/placement_groups"] = listing({"placement_group_id": "a", "state": "PENDING", "stats": stats})
    (group,) = (await ray.ray(clock).read_placement_groups()).groups
    assert group.since == clock.now


def waiting_for(**more: Any) -> Any:
    entry = decode(json.dumps(an_actor(1, "PENDING_CREATION", **more)).encode(), wire.Actor)
    return actors.parse_actor(entry, None, {})


def test_an_actor_has_the_labels_and_the_bundle_that_its_description_names():
    assert waiting_for(label_selector={"gpu": "h100"}).labels == {"gpu": "h100"}
    assert waiting_for(label_selector={"gpu": "h100"}, fallback_strategy=[{"label_selector": {"gpu": "a100"}}]).labels == {}
    assert waiting_for(label_selector=None).labels == {}
    group = "1170df76616358ce8c39a7b4122302000000"
    assert waiting_for(required_resources={f"GPU_group_{group}": 1.0, f"GPU_group_12_{group}": 1.0}).bundle == 12
    assert waiting_for(required_resources={f"GPU_group_{group}": 1.0}).bundle is None
    assert waiting_for(required_resources={"GPU": 1.0}).bundle is None
