"""Budgets of veRL commands beside the groups that the releases themselves make of them (`make truth`)."""

from __future__ import annotations

import random
import shlex

import pytest

from tests.budget.frameworks.commands import never, read
from tests.budget.frameworks.releases import asked_here, asked_there, truth

pytestmark = [pytest.mark.truth, pytest.mark.timeout(900)]

PUBLISHED = ("0.2.0.post2", "0.3.0.post1", "0.4.1", "0.5.0", "0.6.1", "0.7.0", "0.7.1", "0.8.0", "0.9.1")
COMMANDS = 24
LEAST_BUILT = 8
"""Of a release's commands, so many at least are built to the end: the others it refuses for reasons that cost no GPU."""
LATER = ("TransferQueue", "rollout servers")
"""What is made before or after the pools, which is where a run ends here."""
NOT_CHECKED_BEFORE_MODELS = ("An engine ",)
NEEDED = (
    "actor_rollout_ref.rollout.name=vllm actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=4 critic.ppo_micro_batch_size_per_gpu=4"
)
NEW_REWARD, OLD_REWARD, ROLLOUT, ACTOR = "reward.reward_model", "reward_model", "actor_rollout_ref.rollout", "actor_rollout_ref.actor"


class Writer:
    """Writes commands at random, most of them sensible."""

    def __init__(self, release: str) -> None:
        self.random = random.Random(release)
        self.number = tuple(int(part) for part in release.split(".")[:3] if part.isdigit())
        self.words: list[str] = []

    def put(self, chance: float, key: str, *values: object) -> None:
        if self.random.random() < chance:
            self.words.append(f"{self.random.choice(['', '', '++'])}{key}={self.random.choice(values)}")

    def command(self) -> list[str]:
        self.words = NEEDED.split()
        self.put(0.9, "trainer.nnodes", 1, 1, 2, 3, "${trainer.n_gpus_per_node}")
        self.put(0.9, "trainer.n_gpus_per_node", 1, 2, 4, 8)
        self.put(0.8, "algorithm.adv_estimator", "grpo", "gae")
        self.put(0.8, "data.train_batch_size", 48, 240, 255, 960)
        self.put(0.7, f"{ROLLOUT}.n", 1, 4, 5)
        self.put(0.7, f"{ACTOR}.ppo_mini_batch_size", 24, 48)
        self.put(0.9, f"{ACTOR}.ppo_micro_batch_size_per_gpu", 1, 4)
        self.put(0.9, f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu", 4)
        self.put(0.3, f"{ACTOR}.use_dynamic_bsz", True, False)
        self.put(0.3, f"{ACTOR}.use_kl_loss", True, False)
        self._newer()
        return self.words

    def _newer(self) -> None:
        if self.number < (0, 7, 1):
            self.put(0.2, f"{OLD_REWARD}.enable", True)
            self.put(0.6, f"{OLD_REWARD}.micro_batch_size_per_gpu", 4)
        reward = NEW_REWARD if self.number >= (0, 7, 1) else OLD_REWARD
        if self.number >= (0, 6) and self.random.random() < 0.5:
            self.words += [
                f"{reward}.enable=True",
                f"{reward}.enable_resource_pool=True",
                f"{reward}.nnodes=1",
                f"{reward}.n_gpus_per_node=2",
            ]
        if self.number >= (0, 8) and self.random.random() < 0.4:
            self.words += ["distillation.enabled=True", "distillation.nnodes=2", "distillation.n_gpus_per_node=3"]
        if self.number >= (0, 9):
            self.put(0.3, "trainer.use_v1", True, False)


@pytest.mark.parametrize("release", PUBLISHED)
def test_a_release_makes_the_groups_that_the_budget_says(release: str):
    writer = Writer(release)
    commands = [writer.command() for _ in range(COMMANDS)]
    built = 0
    for words, real in zip(commands, truth("truth_verl.py", "verl", release, commands, "verl.trainer.main_ppo"), strict=True):
        if real["stopped"] is not None:
            continue
        built += 1
        budget = read("verl.trainer.main_ppo", shlex.join(words), pins={"verl": release})
        assert asked_here(budget, but=LATER) == asked_there(real), words
        assert [text for text in never(budget) if not text.startswith(NOT_CHECKED_BEFORE_MODELS)] == [], words
        anywhere = read("verl.trainer.main_ppo", shlex.join(words))
        assert anywhere.gpus == budget.gpus or anywhere.mark != "firm", words
    assert built >= LEAST_BUILT
