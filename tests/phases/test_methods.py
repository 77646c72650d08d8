"""The table of methods says which phase a title belongs to, and where a title says nothing."""

from __future__ import annotations

import pytest

from cockpit.phases.methods import METHODS, find_method, framework_of, is_known_sync
from cockpit.phases.titles import Title, read_title


@pytest.mark.parametrize(
    ("title", "phase"),
    [
        ("WorkerDict.actor_rollout_generate_sequences", "rollout"),
        ("WorkerDict.actor_rollout_ref_compute_ref_log_prob", "scoring"),
        ("WorkerDict.ref_compute_ref_log_prob", "scoring"),
        ("WorkerDict.critic_update_critic", "training"),
        ("WorkerDict.actor_rollout_ref_update_weights", "weight sync"),
        ("WorkerDict.rm_compute_rm_score", "scoring"),
        ("WorkerDict.actor_rollout_save_checkpoint", "checkpoint"),
        ("WorkerDict.generate_sequences", "rollout"),
        ("ReferenceModelActor.execute_batch", "scoring"),
        ("PolicyModelActor.fit", "training"),
        ("PolicyModelActor.broadcast_to_vllm", "weight sync"),
        ("CriticModelRayActor.fit", "training"),
        ("RolloutRayActor.generate_responses", "rollout"),
        ("RolloutManager.eval", "evaluation"),
        ("MegatronTrainRayActor.train", "training"),
        ("SGLangEngine.update_weights_from_distributed", "weight sync"),
        ("FSDPPolicyWorkerBase.forward", "scoring"),
        ("FSDPPolicyWorkerBase.forward_backward", "training"),
        ("MegatronPolicyWorker.get_logprobs", "scoring"),
        ("DTensorPolicyWorkerV2.train", "training"),
        ("VllmGenerationWorker.generate", "rollout"),
        ("ActorWorker.train_step", "training"),
        ("MathRuleRewardWorker.compute_rewards", "scoring"),
        ("PolicyTrainerRayProcess.step", "training"),
    ],
)
def test_the_phase_of_a_method(title, phase):
    read = read_title(f"ray::{title}")
    assert read is not None
    row = find_method(read.class_, read.method)
    assert row is not None
    assert row.phase == phase


@pytest.mark.parametrize(
    "title",
    [
        "TaskRunner.run",
        "main_task",
        "skyrl_entrypoint",
        "PPOTrainer.fit",
        "ActorModelRayActor.fit",
        "FusedWorker_actor_ref._fuw_execute",
        "RayRPCServer.call",
        "RayWorkerWrapper.__ray_call__",
        "WorkerDict.execute_func_rank_zero",
    ],
)
def test_a_method_that_hides_what_it_does_has_no_phase(title):
    read = read_title(f"ray::{title}")
    assert read is not None
    row = find_method(read.class_, read.method)
    assert row is not None
    assert (row.phase, row.kind) == (None, "whole")


def test_a_method_of_an_unknown_class_has_no_row():
    assert find_method("MyActor", "update_actor") is None
    assert find_method("WorkerDict", "update_everything") is None
    assert framework_of("MyActor") is None
    assert framework_of("MyEnvironment") is None


def test_every_row_has_a_source_and_is_the_first_for_its_own_names():
    for row in METHODS:
        assert row.source, row
        for class_ in row.classes.split() or [""]:
            for method in row.methods.split():
                found = find_method(class_.replace("*", "X"), method.replace("*", "x"))
                assert found is row, (class_, method, found)


def test_every_row_without_a_phase_says_why():
    assert all(row.kind in ("whole", "brief") for row in METHODS if row.phase is None)
    assert all(row.phase is not None for row in METHODS if row.kind in ("work", "helper", "overlapping"))


def test_only_classes_whose_calls_never_overlap_are_known_to_be_idle():
    assert is_known_sync("PolicyModelActor")
    assert not is_known_sync("RolloutRayActor")
    assert not is_known_sync("WorkerDict")
    assert not is_known_sync("MyActor")


def test_titles_of_calls_tasks_and_idle_workers():
    assert read_title("ray::WorkerDict.update_actor") == Title("WorkerDict", "update_actor")
    assert read_title("ray::f()") == Title("", "f")
    assert read_title("ray::IDLE") == Title("", "")
    assert read_title("ray::IDLE_SpillWorker") == Title("", "")
    assert read_title("ray::WorkerDict") == Title("WorkerDict", "")
    assert read_title("ray::Mine", "Mine") == Title("Mine", "")
    assert read_title("ray::named by hand", "Mine") == Title("", "named")
    assert read_title("python train.py") is None


def test_a_hostile_title_is_cut_and_can_draw_nothing():
    read = read_title("ray::A\x1b[31m" + "x" * 300 + ".run\x07")
    assert read is not None
    assert len(read.text) <= 80
    assert "\x1b" not in read.text
