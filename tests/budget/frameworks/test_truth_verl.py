"""Budgets of veRL commands beside the groups that the releases themselves make of them (`make truth`)."""

from __future__ import annotations

import json
import os
import random
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cockpit.budget.demand import Budget, Group
from tests.budget.frameworks.commands import never, read

pytestmark = [pytest.mark.truth, pytest.mark.timeout(900)]

PUBLISHED = ("0.2.0.post2", "0.3.0.post1", "0.4.1", "0.5.0", "0.6.1", "0.7.0", "0.7.1", "0.8.0", "0.9.1")
COMMANDS = 24
LEAST_BUILT = 8
"""Of a release's commands, so many at least are built to the end: the others it refuses for reasons that cost no GPU."""
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cockpit"
LATER = ("TransferQueue", "rollout servers")
"""What is made before or after the pools, which is where a run ends here."""
NOT_CHECKED_BEFORE_MODELS = ("An engine ",)
NEEDED = (
    "actor_rollout_ref.rollout.name=vllm actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=4 critic.ppo_micro_batch_size_per_gpu=4"
)
NEW_REWARD, OLD_REWARD, ROLLOUT, ACTOR = "reward.reward_model", "reward_model", "actor_rollout_ref.rollout", "actor_rollout_ref.actor"


def installed(name: str, *packages: str) -> Path:
    """Packages from an index, in a folder of their own."""
    folder = CACHE / name
    if not folder.exists():
        done = subprocess.run(
            [sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), *packages], capture_output=True, text=True
        )
        if done.returncode:
            pytest.skip(f"no index gives {packages}: {done.stderr.strip().splitlines()[-1]}")
    return folder


def truth(release: str, commands: list[list[str]]) -> list[dict[str, Any]]:
    sources = installed(f"truth-verl-{release}", "--no-deps", f"verl=={release}")
    real = installed("truth-hydra-1.3.2", "hydra-core==1.3.2", "omegaconf==2.3.0", "numpy")
    script = [sys.executable, str(Path(__file__).with_name("truth_verl.py")), str(sources), "verl.trainer.main_ppo"]
    found = subprocess.run(
        script, input=json.dumps(commands), capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(real)}
    )
    asked: list[dict[str, Any]] = json.loads(found.stdout)
    return asked


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


def made(budget: Budget) -> list[tuple[str | None, list[dict[str, float]]]]:
    groups: tuple[Group, ...] = budget.groups or ()
    return [
        (group.strategy, [dict(shape) for shape, number in group.bundles or () for _ in range(number)])
        for group in groups
        if not group.name.startswith(LATER)
    ]


@pytest.mark.parametrize("release", PUBLISHED)
def test_a_release_makes_the_groups_that_the_budget_says(release: str):
    writer = Writer(release)
    commands = [writer.command() for _ in range(COMMANDS)]
    built = 0
    for words, real in zip(commands, truth(release, commands), strict=True):
        if real["stopped"] is not None:
            continue
        built += 1
        budget = read("verl.trainer.main_ppo", shlex.join(words), pins={"verl": release})
        assert made(budget) == [(each["strategy"], each["bundles"]) for each in real["asked"]], words
        assert [text for text in never(budget) if not text.startswith(NOT_CHECKED_BEFORE_MODELS)] == [], words
        anywhere = read("verl.trainer.main_ppo", shlex.join(words))
        assert anywhere.gpus == budget.gpus or anywhere.mark != "firm", words
    assert built >= LEAST_BUILT
