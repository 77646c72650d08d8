"""Budgets of OpenRLHF commands beside what the releases themselves reserve (`make truth`)."""

from __future__ import annotations

import random
import shlex
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from cockpit.budget import Budget
from cockpit.budget.frameworks.openrlhf import DOTTED
from cockpit.budget.scripts import commands as commands_of
from cockpit.presets.preset import read_preset
from tests.budget.frameworks.commands import never, read
from tests.budget.frameworks.releases import asked_here, asked_there, truth

pytestmark = [pytest.mark.truth, pytest.mark.timeout(600)]

PUBLISHED = (
    "0.3.8", "0.4.5", "0.5.2.post1", "0.5.7", "0.5.9.post1", "0.6.0.post3", "0.6.3.post2", "0.7.0.post1",
    "0.7.5", "0.8.5", "0.9.1.post1", "0.9.10", "0.10.1.post2", "0.10.4", "0.11.2",
)  # fmt: skip
COMMANDS = 40
SINCE = {
    "colocate_all_models": "0.5.8", "vllm_enable_sleep": "0.5.8", "async_train": "0.8.0", "agent_func_path": "0.8.0",
    "remote_rm_url": "0.4.0", "advantage_estimator": "0.5.1", "packing_samples": "0.4.4",
}  # fmt: skip
"""Flags that not every release has."""
LEAST_BUILT = 5
"""Of a release's commands, so many at least are built to the end: the others it refuses itself."""
NOT_ASSERTED_BEFORE_MODELS = ("shares the actor's",)
"""What fails only when Ray or a model starts, which here they don't."""


def run(release: str, commands: list[list[str]]) -> list[dict[str, Any]]:
    return truth("truth_openrlhf.py", "openrlhf", release, commands, "openrlhf/cli/train_ppo_ray.py")


class Writer:
    """Writes commands at random, most of them sensible, in one release's flags."""

    def __init__(self, release: str) -> None:
        self.random = random.Random(release)
        self.release = Version(release)
        self.words: list[str] = []

    def put(self, chance: float, name: str, *values: object) -> None:
        flag = DOTTED[name] if self.release >= Version("0.10.2") else name
        if self.release >= Version(SINCE.get(name, "0")) and self.random.random() < chance:
            joined = len(values) == 1 and self.random.random() < 0.3
            self.words += [f"--{flag}={values[0]}"] if joined else [f"--{flag}", *map(str, values)]

    def command(self) -> list[str]:
        pick, self.words = self.random.choice, []
        nodes, gpus, tensor = pick([1, 1, 2]), pick([1, 2, 4, 8]), pick([1, 1, 2, 4])
        for role in ("actor", "ref", "critic", "reward"):
            same = self.random.random() < 0.75
            self.put(0.8, f"{role}_num_nodes", nodes if same else pick([1, 2, 3]))
            self.put(0.8, f"{role}_num_gpus_per_node", gpus if same else pick([1, 2, 3, 8]))
        self.put(0.95, "vllm_num_engines", pick([max(1, nodes * gpus // tensor), nodes * gpus, 1, 2]))
        self.put(0.9, "vllm_tensor_parallel_size", tensor)
        for name in ("colocate_actor_ref", "colocate_critic_reward", "colocate_all_models", "async_train", "vllm_enable_sleep"):
            self.put(0.3, name)
        self.put(1, "pretrain", "m")
        self.put(0.8, "reward_pretrain", pick(["r", "r", "r,s"]))
        self.put(0.3, "remote_rm_url", pick(["http://a", "f.py"]))
        self.put(0.1, "agent_func_path", "a.py")
        self.put(0.5, "init_kl_coef", pick(["0", "0.0", "1e-3", "0.01", "-0.1"]))
        self.put(0.6, "advantage_estimator", pick(["gae", "reinforce"]))
        return self.words


def read_words(words: list[str], release: str | None = None) -> Budget:
    return read("openrlhf.cli.train_ppo_ray", shlex.join(words), pins={"openrlhf": release} if release else {})


@pytest.mark.parametrize("release", PUBLISHED)
def test_groups_are_the_releases_own_and_where_nobody_says_the_release_another_number_has_a_doubt(release: str):
    writer = Writer(release)
    commands = [writer.command() for _ in range(COMMANDS)]
    built = 0
    for words, real in zip(commands, run(release, commands), strict=True):
        if real["stopped"]:
            continue
        built += 1
        budget, anywhere = read_words(words, release), read_words(words)
        assert asked_here(budget) == asked_there(real), words
        told = [text for text in never(budget) if not any(late in text for late in NOT_ASSERTED_BEFORE_MODELS)]
        assert told == [], words
        assert anywhere.gpus == budget.gpus or anywhere.mark == "likely" or never(anywhere), words
    assert built >= LEAST_BUILT


SHIPPED = sorted((Path(__file__).parents[3] / "cockpit" / "presets" / "shipped").glob("openrlhf*.yaml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
@pytest.mark.parametrize("release", [release for release in PUBLISHED if Version(release) >= Version("0.10.2")])
def test_a_preset_that_ships_is_taken_and_reserves_what_its_budget_says(path: Path, release: str):
    job = read_preset(path).job
    assert job
    (command,) = commands_of(job.entrypoint, env={}, read=lambda _: None).commands
    words = list(command.argv[command.argv.index("openrlhf.cli.train_ppo_ray") + 1 :])
    (real,) = run(release, [words])
    assert real["stopped"] is None
    assert asked_here(read_words(words, release)) == asked_there(real) == asked_here(read_words(words))
