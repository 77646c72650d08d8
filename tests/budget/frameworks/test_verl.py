"""veRL commands and forks: their pools, release by release, and what can't be known."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit.budget import Budget
from cockpit.budget.scripts import UNKNOWN
from tests.budget.frameworks.commands import groups, never
from tests.budget.frameworks.commands import read as read_command

MAIN = "verl.trainer.main_ppo"
COUNTS = "trainer.nnodes=2 trainer.n_gpus_per_node=4"
ROLLOUT = "actor_rollout_ref.rollout"
POOL = "import hydra\nspec = {'global': [config.trainer.n_gpus_per_node] * config.trainer.nnodes}\n"


def read(words: str, release: str | None = None, program: str = MAIN, **more) -> Budget:
    return read_command(program, words, pins={"verl": release} if release else {}, **more)


def test_each_node_of_the_pool_is_a_group_of_its_own():
    budget = read(f"algorithm.adv_estimator=grpo {COUNTS}", "0.7.1")
    assert [(group.name, group.bundles, group.strategy) for group in budget.groups or ()] == [
        ("TaskRunner", (({"CPU": 1.0}, 1),), None),
        *[("actor + rollout", (({"GPU": 1.0, "CPU": 3.0}, 4),), "STRICT_PACK")] * 2,
    ]
    assert (budget.gpus, budget.amount("CPU"), budget.dialect, budget.mark) == (8, 25, "0.7.1", "firm")


def test_defaults_are_one_node_of_eight_and_without_a_release_the_cpus_are_open():
    budget = read("algorithm.adv_estimator=grpo")
    assert (groups(budget), budget.amount("CPU"), budget.mark) == ([("actor + rollout", 8, "STRICT_PACK")], None, "firm")
    assert read("", "0.6.1").amount("CPU") == 9


@pytest.mark.parametrize(
    ("more", "release", "names"),
    [
        ("", "0.3.0", "actor + rollout + ref + critic"),
        ("", "0.6.1", "actor + rollout + critic"),
        ("critic.enable=False", "0.7.0", "actor + rollout"),
        ("algorithm.adv_estimator=grpo actor_rollout_ref.actor.use_kl_loss=True", "0.7.0", "actor + rollout + ref"),
    ],
)
def test_which_models_share_the_pool(more: str, release: str, names: str):
    assert [name for name, *_ in groups(read(more, release))] == [names]


@pytest.mark.parametrize(
    ("more", "release", "apart"),
    [
        ("reward_model.enable=True reward_model.enable_resource_pool=True reward_model.nnodes=1 reward_model.n_gpus_per_node=2", "0.6.1",
         ("reward model", 2, "STRICT_PACK")),
        ("reward.reward_model.enable=True reward.reward_model.enable_resource_pool=True reward.reward_model.nnodes=1", None,
         ("reward model", 8, "STRICT_PACK")),
        ("distillation.enabled=True distillation.nnodes=1 distillation.n_gpus_per_node=3", "0.8.0", ("teacher", 3, "STRICT_PACK")),
        (f"trainer.v1.trainer_mode=separate_async {ROLLOUT}.nnodes=1 {ROLLOUT}.n_gpus_per_node=4 {ROLLOUT}.tensor_model_parallel_size=4",
         "0.9.1", ("rollout", 4, "PACK")),
    ],
)  # fmt: skip
def test_what_has_nodes_of_its_own_is_added(more: str, release: str | None, apart: tuple[str, int, str]):
    assert groups(read(f"algorithm.adv_estimator=grpo {COUNTS} {more}", release))[2:] == [apart]
    assert len(groups(read(f"algorithm.adv_estimator=grpo {COUNTS} reward_model.enable=True", release))) == 2


@pytest.mark.parametrize(
    ("program", "words", "release", "made"),
    [
        ("verl.experimental.one_step_off_policy.main_ppo", f"{COUNTS} rollout.nnodes=1 rollout.n_gpus_per_node=4", "0.7.1", [4, 4, 2, 2]),
        ("recipe.one_step_off_policy.main_ppo", f"{COUNTS} rollout.nnodes=1 rollout.n_gpus_per_node=4", "0.6.1", [4, 4, 4]),
        ("verl.experimental.fully_async_policy.fully_async_main", f"{ROLLOUT}.tensor_model_parallel_size=8", None, [8, 8]),
        (
            "verl.experimental.fully_async_policy.fully_async_main",
            f"{ROLLOUT}.tensor_model_parallel_size=16 rollout.nnodes=2",
            None,
            [8, 8, 8],
        ),
        ("recipe.gkd.main_gkd", "", None, [4, 4]),
        ("verl.trainer.main_generation", COUNTS, None, [4, 4]),
        ("verl.trainer.main_generation_server", f"{COUNTS} {ROLLOUT}.tensor_model_parallel_size=4", None, [4, 4]),
        ("verl.trainer.sft_trainer_ray", "", None, [1]),
        ("examples/split_placement/main_ppo_split.py", COUNTS, None, [4, 4]),
        ("recipe.dapo.main_dapo", COUNTS, None, [4, 4]),
        ("verl_tool.trainer.main_ppo", COUNTS, None, [4, 4]),
    ],
)
def test_each_kind_of_program_makes_its_own_pools(program: str, words: str, release: str | None, made: list[int]):
    assert [gpus for _, gpus, _ in groups(read(words, release, program))] == made


def test_on_ascend_the_pool_is_of_npus():
    budget = read(f"{COUNTS} trainer.device=npu")
    assert (budget.amount("GPU"), budget.gpus) == (0, 8)


def test_simplerl_is_known_by_its_keys():
    budget = read(f"{COUNTS} trainer.remove_clip=True")
    assert (budget.framework, budget.dialect, budget.gpus) == ("simpleRL-reason", "v1", 8)


class TestForks:
    def test_any_program_with_the_two_counts_is_one_pool_with_a_doubt(self):
        budget = read(COUNTS, program="agents.train")
        assert (budget.framework, budget.gpus, budget.mark) == ("veRL", 8, "likely")
        assert budget.doubts == ("agents.train is not a program of veRL: counted by trainer.nnodes × trainer.n_gpus_per_node",)

    def test_a_program_whose_own_file_has_the_pool_is_firm(self):
        assert read(COUNTS, program="agents.train", files={"src/agents/train.py": POOL}).mark == "firm"

    def test_a_program_with_several_pools_is_a_doubt(self):
        text = f"{POOL}resource_pool_spec = {{}}\nresource_pool_spec['judge'] = [1]\n"
        assert "may build more than one pool" in read(COUNTS, files={"verl/trainer/main_ppo.py": text}).doubts[0]

    def test_a_section_that_no_release_has_and_that_switches_something_on_is_the_doubt(self):
        budget = read(f"{COUNTS} judge.if_use_judge=True judge.rollout.tensor_model_parallel_size=4 other.path=x")
        assert budget.doubts == ("no release of veRL has the section judge: what it switches on may need GPUs of its own",)
        assert not read(f"{COUNTS} +judge.path=x +trainer.something_new=3 env.use_proxy=False").doubts

    def test_rllms_asynchronous_training_has_a_rollout_pool(self):
        words = "rllm.async_training.enable=true rollout.nnodes=1 rollout.n_gpus_per_node=4 trainer.nnodes=1 trainer.n_gpus_per_node=4"
        assert read(f"{words} {ROLLOUT}.tensor_model_parallel_size=1 rllm/backend=verl", program="examples.train").gpus == 8

    def test_counts_come_from_the_trees_own_configuration(self):
        program = f"{POOL}@hydra.main(config_path='config', config_name='ppo_trainer')\ndef main(config): ...\n"
        files = {
            "train.py": program,
            "config/base.yaml": "defaults: [ppo_trainer, envs]\ntrainer: {n_gpus_per_node: 2}\n",
            "config/envs.yaml": "a: 1",
        }
        budget = read("--config-name base", program="train.py", files=files)
        assert (budget.gpus, budget.mark) == (2, "firm"), "one node by the trainer's own default"
        own = {**files, "config/ppo_trainer.yaml": "trainer: {nnodes: 3, n_gpus_per_node: 8}\n"}
        assert read("--config-name base", program="train.py", files=own).gpus == 6
        assert read("", program="train.py", files=own).gpus == 24
        assert read("--config-name=base trainer.nnodes=2", program="train.py", files=own).gpus == 4

    def test_a_tree_says_its_release(self):
        assert read(COUNTS, files={"verl/verl/version/version": "0.2.0.dev\n"}).dialect == "0.2.0"


@pytest.mark.parametrize(
    "words",
    [
        "trainer.nnodes=?", "trainer.nnodes=", "trainer.nnodes=null", "trainer.nnodes=True", "trainer.nnodes=2.0", "trainer.nnodes=[2]",
        "trainer.nnodes=0", "trainer.nnodes=${oc.env:NODES}", "trainer.nnodes=${data.x}", "trainer=3 trainer.nnodes=x",
        "--config-name=mine", "--config-path=/abs/path --config-name=mine trainer.nnodes=1", "data.x=1 ?", "trainer.nnodes=9999999",
    ],
)  # fmt: skip
def test_what_cannot_be_known_is_no_number(words: str):
    budget = read(words)
    assert (budget.gpus, budget.mark) == (None, "unknown")
    assert budget.unread


def test_what_is_missing_is_named_with_its_reason():
    assert read("trainer.nnodes=?").unread == ("trainer.nnodes is known only at run time",)
    (missing, _) = read("--config-name=mine").unread
    assert missing == "trainer.nnodes is not set, and the configuration verl/trainer/config/mine.yaml can't be read"
    assert "only prints" in read("--cfg job").unread[0]


def test_values_are_found_behind_interpolations_and_in_sections():
    assert read("trainer.nnodes=${data.n} +data.n=3 trainer.n_gpus_per_node=2").gpus == 6
    assert read("'+trainer={nnodes: 3, n_gpus_per_node: 2}'").gpus == 6
    budget = read("trainer.nnodes=${oc.env:NODES,2}")
    assert (budget.gpus, budget.mark) == (16, "likely")
    assert read("trainer.nnodes=${oc.env:NODES,2}", env={"NODES": "4"}).gpus == 32


def test_words_that_are_known_only_at_run_time_are_a_doubt_beside_counts_that_are_given():
    assert (read(f"{COUNTS} ?").gpus, read(f"{COUNTS} ?").mark) == (8, "likely")


def test_a_word_that_hydra_rejects_is_a_doubt_and_the_number_stays():
    budget = read(f"actor_rollout_ref.model.path=YOUR MODEL {COUNTS}")
    assert (budget.gpus, budget.doubts) == (8, ("`MODEL` is not an override: Hydra rejects the command as written",))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (f"{ROLLOUT}.tensor_model_parallel_size=3", f"An engine needs 3 GPUs ({ROLLOUT}.tensor_model_parallel_size and related keys)"),
        ("data.train_batch_size=255", "is not divisible by 8 GPUs"),
        ("trainer.nnodes=-1", "trainer.nnodes is -1: nothing to place"),
    ],
)
def test_contradictions_say_which_key_to_change(words: str, told: str):
    found = never(read(f"{COUNTS} {ROLLOUT}.n=1 {words}", "0.5.0"))
    assert any(told in text for text in found), found
    assert never(read(f"{COUNTS} {ROLLOUT}.n=1 {words}", program="agents.train")) == [], "a fork may take it"


def test_what_agrees_with_itself_is_left_in_peace():
    assert read(f"{COUNTS} data.train_batch_size=256 {ROLLOUT}.tensor_model_parallel_size=4", "0.7.1").lines == ()
    assert [line.level for line in read(COUNTS).lines] == ["fine"]


_KEYS = st.sampled_from(
    ["trainer.nnodes", "trainer.n_gpus_per_node", f"{ROLLOUT}.n", "trainer", "judge.use", "+x", "reward_model.enable_resource_pool"]
)
_VALUES = st.sampled_from(["1", "8", "-1", "x", "", "True", "[1", "{a: 1}", "{nnodes: 2}", "null", "${a}", UNKNOWN, f"x{UNKNOWN}"])
_WORDS = st.lists(
    st.one_of(st.builds("{}={}".format, _KEYS, _VALUES), st.text(max_size=6), st.sampled_from(["--config-name", "-cn"])), max_size=8
)


@settings(max_examples=80, deadline=None)
@given(_WORDS, st.sampled_from([None, "0.5.0", "0.9.1"]))
def test_no_words_trip_it(words: list[str], release: str | None):
    budget = read(shlex.join(words).replace(UNKNOWN, "?"), release)
    assert budget.gpus is not None or budget.unread
