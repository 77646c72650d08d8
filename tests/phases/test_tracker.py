"""What a job does is found out from the titles of its workers: its phase, its steps, and who is behind."""

from __future__ import annotations

import random
from typing import ClassVar

import pytest
from msgspec.structs import replace

from cockpit.model import Gpu, Hold, Host, Process
from tests.phases.course import JOB, Course
from tests.world import GIB, NOW, actor, gpu, node, process

WORKERS = ("WorkerDict",) * 4
OPENRLHF = ("PolicyModelActor", "PolicyModelActor", "ReferenceModelActor", "RolloutRayActor")


def verl_step(course: Course, length: float = 1.0) -> None:
    """A step of veRL's synchronous trainer."""
    course.do(6 * length, "actor_rollout_generate_sequences")
    course.do(0.3)
    course.do(3 * length, "actor_rollout_compute_log_prob")
    course.do(2 * length, "critic_update_critic")
    course.do(4 * length, "actor_rollout_update_actor")


def test_the_phases_of_a_step_begin_within_a_second():
    course = Course(*WORKERS)
    course.do(5.0, "actor_rollout_init_model")
    verl_step(course)
    course.do(4.0, "actor_rollout_generate_sequences")
    found = course.spans_from_start()
    assert [phase for phase, _ in found] == [None, "loading", "rollout", "scoring", "training", "rollout"]
    for (_, began), true in zip(found[1:], (0.0, 5.0, 11.3, 14.3, 20.3), strict=True):
        assert true <= began <= true + 1.0


def test_without_looks_between_samples_a_phase_begins_within_two_seconds():
    course = Course(*WORKERS, looks=False)
    verl_step(course)
    course.do(4.0, "actor_rollout_generate_sequences")
    found = [(phase, began) for phase, began in course.spans_from_start() if phase is not None]
    assert [phase for phase, _ in found] == ["rollout", "scoring", "training", "rollout"]
    for (_, began), true in zip(found, (0.0, 6.3, 9.3, 15.3), strict=True):
        assert true <= began <= true + 2.0


@pytest.mark.parametrize("seed", range(2))
def test_two_hundred_steps_of_uneven_length_are_counted_exactly(seed):
    lengths, course = random.Random(seed), Course(*WORKERS)
    course.do(5.0, "actor_rollout_init_model")
    for number in range(200):
        verl_step(course, lengths.uniform(0.4, 1.5))
        if number % 10 == 9:
            course.do(2.5, "actor_rollout_save_checkpoint")
    course.do(6.0, "actor_rollout_generate_sequences")
    assert course.activity.steps_seen == 200
    assert course.activity.step == 201
    assert [step.number for step in course.last.steps] == list(range(151, 201))


def test_a_step_with_a_checkpoint_is_longer_than_others():
    course = Course(*WORKERS)
    course.do(4.0, "actor_rollout_init_model")
    for _ in range(2):
        verl_step(course)
    course.do(3.0, "actor_rollout_save_checkpoint")
    verl_step(course)
    course.do(3.0, "actor_rollout_generate_sequences")
    assert [step.is_longer for step in course.last.steps] == [False, False, True]


def test_weight_sync_ends_a_step_where_there_is_one_and_the_first_sync_begins_the_first_step():
    course = Course("MegatronTrainRayActor", "MegatronTrainRayActor", "RolloutManager")
    course.do(4.0, "init", 0, 1)
    course.do(2.0, "update_weights", 0, 1)
    for _ in range(3):
        course.do(5.0, "generate", 2)
        course.do(6.0, "train", 0, 1)
        course.do(1.5, "update_weights", 0, 1)
    course.do(3.0, "generate", 2)
    assert course.activity.steps_seen == 3
    assert course.phases[1:] == ["loading", "weight sync", *["rollout", "training", "weight sync"] * 3, "rollout"]


def test_a_weight_sync_that_is_too_short_to_be_seen_still_ends_a_step():
    course = Course("MegatronTrainRayActor", "RolloutManager")
    course.do(2.0, "init", 0)
    for seconds in (1.0, 1.0, 0.1, 0.1, 1.0):
        course.do(5.0, "generate", 1)
        course.do(6.0, "train", 0)
        course.do(seconds, "update_weights", 0)
        course.do(0.4)
    course.do(5.0, "generate", 1)
    assert course.activity.steps_seen == 5


def test_begun_in_the_middle_of_a_run_steps_have_no_number():
    course = Course(*WORKERS)
    course.do(3.0, "actor_rollout_update_actor")
    for _ in range(3):
        verl_step(course)
    course.do(3.0, "actor_rollout_generate_sequences")
    assert course.activity.step is None
    assert [step.number for step in course.last.steps] == [None] * 3


def test_begun_in_the_middle_of_a_step_the_next_one_begins_after_the_weight_sync_and_not_after_the_training():
    course = Course("MegatronTrainRayActor", "RolloutManager")
    course.do(3.0, "train", 0)
    for _ in range(2):
        course.do(2.0, "update_weights", 0)
        course.do(5.0, "generate", 1)
        course.do(6.0, "train", 0)
    course.do(2.0, "update_weights", 0)
    course.do(3.0, "generate", 1)
    assert [round(step.seconds) for step in course.last.steps] == [13, 13]


def test_the_last_step_of_an_ended_job_counts_and_its_phases_stay():
    course = Course(*WORKERS)
    course.do(4.0, "actor_rollout_init_model")
    verl_step(course)
    ended = course.tracker.add_activities(
        replace(course.last, taken=course.now + 2, jobs=(replace(JOB, status="SUCCEEDED"),), processes=())
    )
    assert ended.activities == ()
    assert [step.number for step in ended.steps] == [1]
    assert ended.spans[-1].phase == "training"
    assert ended.spans[-1].ended is not None


@pytest.mark.parametrize("is_listed_first", [False, True], ids=["before Ray says so", "after Ray has said so"])
def test_what_workers_did_just_before_they_ended_counts(is_listed_first):
    course = Course("MegatronTrainRayActor", "RolloutManager")
    course.do(2.0, "init", 0)
    for _ in range(2):
        course.do(5.0, "generate", 1)
        course.do(6.0, "train", 0)
        course.do(2.0, "update_weights", 0)
    course.do(5.0, "generate", 1)
    course.do(6.0, "train", 0)
    now, last = course.now, course.last
    ended = replace(JOB, status="SUCCEEDED", ended=now + 1.5)
    if is_listed_first:
        course.tracker.add_activities(replace(last, taken=now + 1.6, jobs=(ended,)))
    titles = ((now + 0.5, "ray::MegatronTrainRayActor.update_weights"), (now + 1.3, "ray::MegatronTrainRayActor"))
    host = Host("node1", ("10.0.0.1",), now + 2, ended=(replace(last.processes[0], titles=titles),))
    found = course.tracker.add_activities(replace(last, taken=now + 2, hosts={"node1": host}, processes=()))
    found = course.tracker.add_activities(replace(found, taken=now + 4, jobs=(ended,)))
    assert [(span.phase, span.began) for span in found.spans][-1] == ("weight sync", now + 0.5)
    assert found.steps[-1].number == 3
    assert found.activities == ()


def test_the_phases_of_a_job_without_a_time_of_its_end_end_at_once():
    course = Course(*WORKERS)
    course.do(4.0, "actor_rollout_update_actor")
    ended = course.tracker.add_activities(replace(course.last, taken=course.now + 1, jobs=(replace(JOB, status="FAILED"),)))
    assert ended.spans[-1].ended is not None


def test_a_job_that_runs_again_under_its_old_id_begins_anew():
    course = Course(*WORKERS)
    course.do(4.0, "actor_rollout_update_actor")
    course.tracker.add_activities(replace(course.last, taken=course.now + 1, jobs=(replace(JOB, status="FAILED"),), processes=()))
    course.do(6.0, "actor_rollout_generate_sequences")
    assert course.phases[-1] == "rollout"
    assert "training" not in course.phases


def test_a_method_without_a_row_is_shown_by_its_own_name_and_is_no_phase():
    course = Course("MyTrainer", "MyTrainer")
    course.do(6.0, "my_own_update")
    assert course.seen[-1][1].phase is None
    assert course.seen[-1][1].method == "MyTrainer.my_own_update"


def test_a_method_that_runs_for_the_whole_job_gives_no_phase():
    course = Course("TaskRunner")
    course.do(10.0, "run")
    assert (course.activity.phase, course.activity.method) == (None, None)


def test_an_asynchronous_engine_generates_although_its_title_is_idle_most_of_the_time():
    course = Course(*OPENRLHF)
    course.do(4.0, "init_model_from_pretrained", 0, 1, 2)
    course.do(2.0, "broadcast_to_vllm", 0, 1)
    for _ in range(4):
        course.do(0.6, "generate_responses", 3)
        course.do(3.0)
    assert course.phases[-1] == "rollout"
    course.do(3.0, "execute_batch", 2)
    assert (course.phases[-1], course.activity.also) == ("scoring", ())


def test_idle_titles_of_an_asynchronous_engine_alone_are_not_waiting():
    course = Course(*OPENRLHF)
    course.do(3.0, "fit", 0, 1)
    course.do(20.0)
    assert course.activity.phase is None


def test_a_job_all_of_whose_workers_are_known_to_be_idle_waits_from_when_the_last_one_ended():
    course = Course("PolicyModelActor", "PolicyModelActor", "ReferenceModelActor")
    course.do(4.0, "fit", 0, 1)
    course.do(8.0)
    assert course.activity.phase == "waiting"
    assert course.activity.since is not None
    assert 4.0 <= course.activity.since - NOW <= 5.0


def test_a_short_pause_between_two_calls_is_no_phase():
    course = Course(*WORKERS)
    for _ in range(4):
        course.do(3.0, "actor_rollout_update_actor")
        course.do(1.2)
    assert course.phases == [None, "training"]


def with_gpus(course: GpuCourse, rate: float | None) -> None:
    """The workers hold the GPUs of a node, which work at this rate."""
    rates = course.rates or (rate,) * len(course.classes)
    gpus: tuple[Gpu, ...] = tuple(gpu(place, 60, utilization=each) for place, each in enumerate(rates))
    host = Host("node1", ("10.0.0.1",), NOW, gpus=gpus, nodes=(f"{1:056x}",))
    course.facts["nodes"] = (node(1, gpus=gpus, seen=course.now),)
    course.facts["hosts"] = {"node1": replace(host, taken=course.now)}


class GpuCourse(Course):
    """A course whose workers hold a GPU each."""

    rate: float | None = 0.0
    rates: tuple[float, ...] = ()
    """Of each GPU; empty: all have `rate`."""
    actors: ClassVar[dict[int, str]] = {}
    """The ids of the workers' actors, where they are known."""

    def _sample(self):
        with_gpus(self, self.rate)
        return super()._sample()

    def _process(self, place: int) -> Process:
        return replace(super()._process(place), gpus=(Hold(place, 59 * GIB),), node=f"{1:056x}", actor=self.actors.get(place))


def test_idle_trainers_beside_an_engine_are_in_rollout_while_their_gpus_work():
    course = GpuCourse(*WORKERS, "vLLMHttpServer")
    course.do(4.0, "actor_rollout_update_weights", 0, 1, 2, 3)
    course.rate = 90.0
    course.do(10.0)
    assert course.activity.phase == "rollout"
    course.rate = 0.0
    course.do(10.0)
    assert course.activity.phase == "waiting"


def test_busy_gpus_of_trainers_beside_an_engine_with_idle_gpus_are_no_rollout():
    course = GpuCourse("PolicyModelActor", "PolicyModelActor", "RolloutRayActor")
    engine = actor(9, class_="RolloutRayActor", job=JOB.job)
    course.facts["actors"] = (engine,)
    course.actors = {2: engine.id}
    course.rates = (90.0, 90.0, 0.0)
    course.do(10.0)
    assert course.activity.phase is None
    course.rates = (0.0, 0.0, 90.0)
    course.do(10.0)
    assert course.activity.phase == "rollout"


def test_busy_gpus_without_an_engine_and_without_a_title_have_no_phase():
    course = GpuCourse(*WORKERS)
    course.do(4.0, "actor_rollout_update_actor")
    course.rate = 90.0
    course.do(10.0)
    assert course.activity.phase is None


def test_a_method_that_waits_for_its_data_trains_only_while_gpus_work():
    course = GpuCourse("PolicyTrainerRayProcess", "PolicyTrainerRayProcess")
    course.do(6.0, "step")
    assert course.activity.phase == "waiting"
    course.rate = 80.0
    course.do(6.0, "step")
    assert course.phases[-1] == "training"


def test_an_asynchronous_trainer_shows_rollout_beside_training():
    course = Course("DetachActorWorker", "DetachActorWorker", "AgentLoopWorker")
    course.run(
        {0: "DetachActorWorker.actor_update_actor", 1: "DetachActorWorker.actor_update_actor", 2: "AgentLoopWorker.generate_sequences"}, 6.0
    )
    assert (course.activity.phase, course.activity.also) == ("training", ("rollout",))


def test_the_worker_that_is_still_in_a_method_is_behind():
    course = Course(*("WorkerDict",) * 8)
    course.run(dict.fromkeys(range(8), "WorkerDict.actor_rollout_update_actor"), 4.0)
    course.run({place: "WorkerDict" for place in range(8) if place != 5}, 14.0)
    (behind,) = course.activity.laggards
    assert behind.process == f"process:node1:105:{process(105, host='node1').ticks}"
    assert (behind.method, behind.others) == ("WorkerDict.actor_rollout_update_actor", 7)
    assert 4.0 <= behind.since - NOW <= 5.0
    assert course.activity.phase == "training"


def test_of_two_halves_none_is_behind():
    course = Course(*("WorkerDict",) * 8)
    course.run(dict.fromkeys(range(4), "WorkerDict.actor_rollout_update_actor"), 20.0)
    assert course.activity.laggards == ()


def test_workers_of_a_silent_host_have_no_phase():
    course = Course(*WORKERS)
    course.do(4.0, "actor_rollout_update_actor")
    old = course.tracker.add_activities(replace(course.last, taken=course.now + 300))
    assert old.activities[0].phase is None


def test_another_cluster_begins_without_history():
    course = Course(*WORKERS)
    course.do(4.0, "actor_rollout_update_actor")
    found = course.tracker.add_activities(
        replace(course.last, taken=course.now + 1, cluster=replace(course.last.cluster, session="session_other"))
    )
    assert len(found.spans) == 1


def test_the_history_of_a_job_is_bounded():
    course = Course("WorkerDict", looks=False)
    for _ in range(700):
        course.do(2.0, "actor_rollout_generate_sequences")
        course.do(2.0, "actor_rollout_update_actor")
    assert len(course.last.spans) == 600
    assert len(course.last.steps) == 50


def test_ranks_that_never_run_a_method_have_not_ended_it():
    course = Course(*["WorkerDict"] * 36)
    critics = dict.fromkeys(range(32, 36), "WorkerDict.critic_update_critic")
    for _ in range(2):
        course.do(20.0, "actor_rollout_generate_sequences", *range(32))
        course.run(critics, 30.0)
        assert course.activity.laggards == ()
        course.do(20.0, "actor_rollout_update_actor", *range(32))
        course.do(1.0)


@pytest.mark.parametrize(
    ("class_", "method"),
    [("FusedWorker_actor_rollout", "_fuw_execute"), ("RayRPCServer", "call"), ("WorkerDict", "execute_func_rank_zero")],
)
def test_while_a_method_hides_what_a_gpu_worker_does_busy_gpus_are_no_rollout(class_, method):
    course = GpuCourse(class_, "vLLMHttpServer")
    course.rate = 95.0
    course.run({0: f"{class_}.{method}"}, 30.0)
    assert course.activity.phase is None


def test_an_idle_title_of_a_trainer_with_a_heartbeat_is_neither_rollout_nor_waiting():
    course = GpuCourse(*["MegatronTrainRayActor"] * 4, "SGLangEngine")
    course.do(10.0, "init", 0, 1, 2, 3)
    course.rate = 90.0
    course.run(dict.fromkeys(range(4), "MegatronTrainRayActor.train"), 10.0)
    course.run(dict.fromkeys(range(4), "MegatronTrainRayActor"), 20.0)
    assert course.activity.phase is None
    unknown = Course(*["MegatronTrainRayActor"] * 4)
    unknown.do(10.0, "train")
    unknown.do(20.0)
    assert unknown.activity.phase is None


def test_the_number_of_a_step_is_known_only_if_the_trainers_were_seen_starting():
    paused = Course(*WORKERS, "RewardLoopWorker")
    paused.do(6.0)
    paused.do(6.0, "__init__", 4)
    paused.do(20.0, "actor_rollout_generate_sequences", 0, 1, 2, 3)
    paused.do(20.0, "actor_rollout_update_actor", 0, 1, 2, 3)
    paused.do(5.0, "actor_rollout_generate_sequences", 0, 1, 2, 3)
    assert paused.activity.step is None, "only a helper was started"
    engine = Course("RolloutManager", *["MegatronTrainRayActor"] * 4, "SGLangEngine")
    engine.do(6.0, "generate", 0)
    engine.do(8.0, "init", 5)
    engine.do(20.0, "generate", 0)
    engine.do(20.0, "train", 1, 2, 3, 4)
    engine.do(5.0, "update_weights", 1, 2, 3, 4)
    engine.do(5.0, "generate", 0)
    assert engine.activity.step is None, "only an engine was started again"


@pytest.mark.parametrize("listed", [(), (replace(JOB, job=None),)], ids=["not at all", "without its driver"])
def test_what_a_job_did_before_ray_listed_it_counts(listed):
    course = Course(*WORKERS, jobs=listed)
    course.do(5.0, "actor_rollout_init_model")
    course.do(4.0, "actor_rollout_generate_sequences")
    assert course.last.activities == ()
    course.facts["jobs"] = (JOB,)
    course.do(4.0, "actor_rollout_generate_sequences")
    course.do(4.0, "actor_rollout_update_actor")
    course.do(4.0, "actor_rollout_generate_sequences")
    assert course.phases == [None, "loading", "rollout", "training", "rollout"]
    assert {span.job for span in course.last.spans} == {JOB.key}
    assert course.activity.step == 2


def test_after_a_restart_of_the_trainers_or_from_a_checkpoint_the_number_of_a_step_is_unknown():
    course = Course(*WORKERS)
    course.do(10.0, "init_model")
    for _ in range(3):
        verl_step(course)
    course.do(4.0, "actor_rollout_generate_sequences")
    assert course.activity.step == 4
    course.do(10.0, "init_model")
    course.do(5.0, "actor_rollout_generate_sequences")
    assert course.activity.step is None
    resumed = Course(*WORKERS)
    resumed.do(10.0, "init_model")
    resumed.do(5.0, "load_checkpoint")
    verl_step(resumed)
    resumed.do(4.0, "actor_rollout_generate_sequences")
    assert resumed.activity.step is None


def test_the_framework_is_that_of_the_workers_whose_titles_show_phases():
    course = Course("ReplayBuffer", "WorkerDict")
    course.do(10.0, "actor_rollout_update_actor", 1)
    assert course.activity.framework == "veRL"
    alone = Course("RayRPCServer")
    alone.do(4.0)
    assert alone.activity.framework == "AReaL"
