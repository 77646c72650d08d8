"""What EasyR1 commands ask for: words over a file over defaults, as OmegaConf merges them."""

import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit.budget import budget_of
from cockpit.budget.demand import Budget
from cockpit.budget.frameworks.easyr1 import easyr1

FILE = {"conf/mine.yaml": "algorithm: {adv_estimator: gae}\ntrainer: {nnodes: 2, n_gpus_per_node: 4}\ndata: {rollout_batch_size: 512}\n"}


def asked(words: str, files: dict[str, str] = FILE) -> Budget:
    return easyr1(shlex.split(words), files.get)


def test_each_node_is_a_group_and_the_runner_and_the_reward_managers_hold_cpus():
    budget = asked("trainer.nnodes=2 trainer.n_gpus_per_node=4 worker.reward.num_cpus=3")
    shape = {"GPU": 1.0, "CPU": 1.0}
    assert [(group.name, group.bundles, group.strategy) for group in budget.groups or ()] == [
        ("Runner", (({"CPU": 1.0}, 1),), None),
        ("reward managers", (({"CPU": 3.0}, 2),), None),
        *[("actor + rollout + ref", ((shape, 4),), "STRICT_PACK")] * 2,
    ]
    assert (budget.amount("GPU"), budget.amount("CPU")) == (8, 15)


def test_how_many_cpus_the_reward_managers_hold_depends_on_the_release():
    assert asked("").amount("CPU") is None
    assert asked("").amount("GPU") == 8


@pytest.mark.parametrize(
    ("words", "gpus"),
    [
        ("config=conf/mine.yaml", 8),
        ("config=conf/mine.yaml trainer.nnodes=1", 4),
        ("trainer.nnodes=1 config=conf/mine.yaml", 4),
        ("config=conf/mine.yaml 'trainer={nnodes: 3}'", 12),
        ("trainer.nnodes=2 trainer.nnodes=3", 24),
        ("trainer[nnodes]=3", 24),
        ("trainer.n_gpus_per_node=010", 8),
        ("trainer.n_gpus_per_node=0x10", 16),
        ("trainer.n_gpus_per_node=\"'4'\"", 4),
    ],
)
def test_words_lie_over_the_file_and_that_over_the_defaults(words: str, gpus: int):
    assert asked(words).amount("GPU") == gpus


@pytest.mark.parametrize("words", ["", "config=conf/mine.yaml"])
def test_the_critic_shares_the_pool(words: str):
    names = {group.name for group in asked(words).groups or ()}
    assert ("actor + rollout + ref + critic" in names) == bool(words)


@pytest.mark.parametrize(
    "words",
    [
        "trainer.nnodes=\0",
        "trainer.nnodes=",
        "trainer.nnodes",
        "trainer.nnodes=null",
        "trainer.nnodes=True",
        "trainer.nnodes=2.0",
        "trainer.nnodes=[2]",
        "trainer.nnodes=[2",
        "trainer.nnodes=${oc.env:NODES}",
        "trainer=3",
        "trainer.nnodes=0",
        "\0",
        "trainer.\0=2",
        "++trainer.nnodes=2",
        "--config-path=conf",
        "config=other.yaml",
        "config=\0",
        "config=other.yaml trainer.nnodes=2",
    ],
)
def test_what_cannot_be_known_is_no_number(words: str):
    budget = asked(words)
    assert budget.amount("GPU") is None
    assert budget.unread


def test_a_file_that_cannot_be_read_matters_only_where_the_words_leave_something_open():
    budget = asked("config=other.yaml trainer.nnodes=2 trainer.n_gpus_per_node=4")
    assert (budget.amount("GPU"), budget.unread) == (8, ())


def test_the_file_of_the_examples_is_read_where_it_is_there():
    assert asked("config=examples/config.yaml", {"examples/config.yaml": "trainer: {nnodes: 4}"}).amount("GPU") == 32
    assert asked("config=examples/config.yaml trainer.n_gpus_per_node=2").amount("GPU") is None


def test_it_is_found_in_a_script():
    budget = budget_of("set -x\npython3 -m verl.trainer.main \\\n    trainer.n_gpus_per_node=4 \\\n    trainer.nnodes=${NNODES:-2}\n")
    assert (budget.framework, budget.amount("GPU")) == ("EasyR1", 8)


@settings(max_examples=150)
@given(st.lists(st.text(alphabet="trainer.nodsgpu_[]={}:,'\"\0 12$-\n", max_size=24), max_size=5))
def test_no_words_break_it(words: list[str]):
    budget = easyr1([*words, "trainer.nnodes=\0"])
    assert budget.amount("GPU") is None
    assert budget.unread
