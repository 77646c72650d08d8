"""What slime and miles commands ask for: one group, whose size is train and rollout GPUs, or the larger of them."""

from __future__ import annotations

import pytest

from cockpit.budget import Budget
from tests.budget.frameworks.commands import groups
from tests.budget.frameworks.commands import read as read_command

ACTOR = "--actor-num-nodes 2 --actor-num-gpus-per-node 4"
MILES = {"miles/ray/placement_group.py": ""}


def read(words: str, release: str | None = None, **more) -> Budget:
    return read_command("train.py", words, pins={"slime": release} if release else {}, **more)


@pytest.mark.parametrize(
    ("words", "gpus"),
    [
        (f"{ACTOR} --rollout-num-gpus 6", 14),
        (f"{ACTOR} --colocate", 8),
        (f"{ACTOR} --colocate --rollout-num-gpus 16", 16),
        (f"{ACTOR} --debug-train-only --rollout-num-gpus 6", 8),
        (f"{ACTOR} --debug-rollout-only --rollout-num-gpus 6", 6),
        (f"{ACTOR} --rollout-external-engine-addrs 10.0.0.1:1 10.0.0.2:1", 8),
        ("--colocate", 8),
        (f"{ACTOR} --rollout-num-gpus 6 --eval-num-gpus 2", 16),
    ],
)
def test_one_group_of_one_gpu_bundles_is_packed(words: str, gpus: int):
    budget = read(words, "0.3.1")
    assert [(number, strategy) for _, number, strategy in groups(budget)] == [(gpus, "PACK")]
    assert (budget.framework, budget.amount("CPU"), budget.mark) == ("slime", gpus + 1, "firm")


def test_a_critic_had_gpus_of_its_own_before_0_3():
    words = f"{ACTOR} --rollout-num-gpus 4 --advantage-estimator ppo"
    assert (read(words, "0.2.4").gpus, read(words, "0.3.0").gpus) == (20, 12)
    assert read(f"{words} --critic-num-nodes 1 --critic-num-gpus-per-node 2", "0.2.0").gpus == 14
    assert (read(words).gpus, read(words).mark) == (12, "likely")
    assert (read(words, files=MILES).framework, read(words, files=MILES).mark) == ("miles", "firm")


def test_arguments_of_a_model_that_are_known_only_at_run_time_are_a_doubt():
    budget = read(f"{ACTOR} --colocate ? --lr 1e-6 ?")
    assert (budget.gpus, budget.mark) == (8, "likely")


@pytest.mark.parametrize("words", [ACTOR, f"{ACTOR} --rollout-num-gpus ?", "--actor-num-nodes x --colocate", "--colocate ? ?"])
def test_a_size_that_is_not_known_is_no_number(words: str):
    budget = read(words)
    assert budget.gpus is None
    assert budget.unread
