"""What EasyR1 commands ask for: words over a file over defaults, as OmegaConf merges them."""

from __future__ import annotations

import pytest

from cockpit.budget import Budget, budget_of
from tests.budget.frameworks.commands import groups
from tests.budget.frameworks.commands import read as read_command

FILE = {"conf/mine.yaml": "algorithm: {adv_estimator: gae}\ntrainer: {nnodes: 2, n_gpus_per_node: 4}\ndata: {rollout_batch_size: 512}\n"}


def read(words: str, files: dict[str, str] = FILE) -> Budget:
    return read_command("verl.trainer.main", words, files)


def test_each_node_is_a_group_and_the_runner_and_the_reward_managers_hold_cpus():
    budget = read("trainer.nnodes=2 trainer.n_gpus_per_node=4 worker.reward.num_cpus=3")
    assert groups(budget) == [("actor + rollout + ref", 4, "STRICT_PACK")] * 2
    assert (budget.gpus, budget.amount("CPU"), budget.mark) == (8, 15, "firm")
    assert (read("").gpus, read("").amount("CPU")) == (8, None), "how many CPUs reward managers hold depends on the release"


@pytest.mark.parametrize(
    ("words", "gpus"),
    [
        ("config=conf/mine.yaml", 8),
        ("trainer.nnodes=1 config=conf/mine.yaml", 4),
        ("config=conf/mine.yaml 'trainer={nnodes: 3}'", 12),
        ("trainer.nnodes=2 trainer.nnodes=3", 24),
        ("trainer.n_gpus_per_node=\"'4'\"", 4),
        ("config=other.yaml trainer.nnodes=2 trainer.n_gpus_per_node=4 new.section=3", 8),
    ],
)
def test_words_lie_over_the_file_and_that_over_the_defaults(words: str, gpus: int):
    assert (read(words).gpus, read(words).mark) == (gpus, "firm")


def test_the_critic_shares_the_pool():
    assert groups(read("config=conf/mine.yaml"))[0][0] == "actor + rollout + ref + critic"


@pytest.mark.parametrize(
    "words", ["trainer.nnodes=?", "trainer.nnodes=", "trainer.nnodes=2.0", "?", "config=other.yaml trainer.nnodes=2", "config=?"]
)
def test_what_cannot_be_known_is_no_number(words: str):
    budget = read(words)
    assert budget.gpus is None
    assert budget.unread
    assert "config= names can't be read" in read("config=other.yaml").unread[0]


def test_it_is_found_in_a_script():
    budget = budget_of("set -x\npython3 -m verl.trainer.main \\\n    trainer.n_gpus_per_node=4 \\\n    trainer.nnodes=${NNODES:-2}\n")
    assert (budget.framework, budget.gpus, budget.mark) == ("EasyR1", 8, "likely")
