"""OpenRLHF commands and forks: which groups each release makes, and how sure that is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit.budget import Budget
from cockpit.budget.scripts import UNKNOWN
from tests.budget.frameworks.commands import groups, never
from tests.budget.frameworks.commands import read as read_command

DOTTED = "--actor.model_name_or_path m --reward.model_name_or_path r"
PLAIN = "--pretrain m --reward_pretrain r"
SOURCE = "openrlhf/cli/train_ppo_ray.py"


def read(text: str, release: str | None = None, **more) -> Budget:
    return read_command("openrlhf.cli.train_ppo_ray", text, pins={"openrlhf": release} if release else {}, **more)


def test_every_model_has_a_group_of_its_own_and_vllm_comes_first():
    budget = read(f"{DOTTED} --actor.num_gpus_per_node 4 --vllm.num_engines 2 --vllm.tensor_parallel_size 2")
    assert groups(budget) == [("vLLM", 4, "PACK"), ("actor", 4, "PACK"), ("ref", 8, "PACK"), ("critic", 8, "PACK"), ("reward", 8, "PACK")]
    assert (budget.gpus, budget.amount("CPU"), budget.dialect, budget.mark) == (32, 32, "0.10.2 and later", "firm")


def test_one_gpu_a_node_is_taken_by_actors_without_a_group():
    budget = read(f"{DOTTED} --actor.num_nodes 3 --actor.num_gpus_per_node 1 --vllm.num_engines 1 --ref.num_gpus_per_node 2")
    assert groups(budget)[1:3] == [("actor", 3, None), ("ref", 2, "PACK")]


@pytest.mark.parametrize(
    ("more", "names"),
    [
        ("", ["actor", "ref", "critic", "reward"]),
        ("--algo.kl.init_coef 0", ["actor", "critic", "reward"]),
        ("--algo.kl.init_coef=-0.1", ["actor", "critic", "reward"]),
        ("--algo.advantage.estimator reinforce", ["actor", "ref", "reward"]),
        ("--reward.remote_url http://host/score", ["actor", "ref", "critic"]),
        ("--train.agent_func_path agent.py", ["actor", "ref", "critic"]),
        ("--train.colocate_actor_ref", ["actor + ref", "critic", "reward"]),
        ("--train.colocate_actor_ref --algo.kl.init_coef 0", ["actor", "critic", "reward"]),
        ("--train.colocate_critic_reward", ["actor", "ref", "critic + reward"]),
        ("--train.colocate_critic_reward --reward.remote_url u", ["actor", "ref", "critic"]),
        ("--train.colocate_all", ["actor + ref + critic + reward"]),
        ("--train.colocate_all --train.colocate_critic_reward", ["actor + ref", "critic + reward"]),
        ("--train.colocate_all --vllm.num_engines 8", ["actor + ref + critic + reward + vLLM"]),
        ("--train.colocate_all --vllm.num_engines 8 --train.async_enable", ["actor + ref + critic + reward", "vLLM"]),
        ("--train.colocate_actor_ref --vllm.num_engines 8", ["actor + ref", "vLLM", "critic", "reward"]),
    ],
)
def test_which_models_share_a_group(more: str, names: list[str]):
    budget = read(f"{DOTTED} {more}")
    assert [name for name, _, _ in groups(budget)] == names
    assert budget.gpus == 8 * len(names)


def test_before_0_5_8_nodes_were_bundles_strictly_spread_and_vllm_came_last():
    command = f"{PLAIN},s --actor_num_nodes 2 --ref_num_nodes 2 --colocate_actor_ref --vllm_num_engines 2 --vllm_tensor_parallel_size 4"
    budget = read(command, "0.5.5")
    assert groups(budget) == [
        ("actor + ref", 16, "STRICT_SPREAD"), ("critic", 8, "STRICT_SPREAD"), ("reward", 8, "STRICT_SPREAD"),
        ("reward", 8, "STRICT_SPREAD"), ("vLLM", 4, "PACK"), ("vLLM", 4, "PACK"),
    ]  # fmt: skip
    assert budget.groups[0].bundles == (({"GPU": 8.0, "CPU": 8.0}, 2),)


@pytest.mark.parametrize(("release", "strategy", "cpus"), [("0.5.7", None, 2), ("0.6.0.post2", None, 0), ("0.6.0.post3", "PACK", 2)])
def test_engines_of_one_gpu_had_no_group_before_0_6_0_post3(release: str, strategy: str | None, cpus: int):
    engine = next(group for group in read(f"{PLAIN} --vllm_num_engines 2", release).groups if group.name == "vLLM")
    assert (engine.strategy, engine.amount("GPU"), engine.amount("CPU")) == (strategy, 2, cpus)


@pytest.mark.parametrize(
    ("release", "coefficient", "ref"), [("0.5.9", "0", True), ("0.6.0", "0", False), ("0.7.1", "-1", True), ("0.7.1.post1", "-1", False)]
)
def test_since_when_the_reference_model_depends_on_its_coefficient(release: str, coefficient: str, ref: bool):
    budget = read(f"{PLAIN} --vllm_num_engines 8 --init_kl_coef={coefficient}", release)
    assert ("ref" in [name for name, _, _ in groups(budget)]) is ref


def test_where_releases_reserve_something_else_the_newest_is_counted_and_that_is_a_doubt():
    budget = read(f"{PLAIN} --vllm_num_engines 8 --init_kl_coef 0 --colocate_critic_reward")
    assert (budget.gpus, budget.mark) == (24, "likely")
    assert "releases up to about 0.5.9 reserve 32 GPUs" in budget.doubts[0]
    assert "the same in other placement groups" in read(f"{PLAIN} --vllm_num_engines 4").doubts[0]
    assert read(f"{PLAIN} --colocate_all_models --vllm_num_engines 8 --async_train").mark == "firm", "no older release has these flags"
    assert read(f"{PLAIN} --advantage_estimator group_norm --remote_rm_url u --vllm_num_engines 4", "0.8.5").mark == "firm"


def test_flags_of_another_dialect_than_the_release_are_a_doubt():
    budget = read(f"{DOTTED} --train.colocate_all", "0.8.5")
    assert (budget.gpus, "flags with dots are of OpenRLHF 0.10.2" in budget.doubts[0]) == (8, True)
    assert "flags without dots" in read(f"{PLAIN} --colocate_all_models", "0.11.0").doubts[0]


class TestTolerance:
    def test_the_last_of_several_counts(self):
        assert groups(read(f"{DOTTED} --actor.num_nodes 2 --actor.num_nodes=3 --algo.kl.init_coef 0"))[0] == ("actor", 24, "PACK")

    def test_flags_that_nobody_knows_are_ignored(self):
        words = "--answer_key a --gamma 1,0.99 --math_rule_cosine_max -10 --filter_sampling stray --eval"
        assert read(f"{DOTTED} {words}").groups == read(DOTTED).groups
        assert read(f"{DOTTED} {words}").mark == "firm"

    def test_a_flag_that_is_nearly_one_that_counts_is_a_doubt_and_nothing_is_renamed(self):
        budget = read(f"{DOTTED} --vllm.num_engine 4")
        (doubt,) = budget.doubts
        assert doubt.startswith("no release of OpenRLHF has --vllm.num_engine (is --vllm.num_engines meant?): it is ignored here")
        assert budget.groups == read(DOTTED).groups
        for flag in ("--ref_pretrain x", "--critic.num_nodes 1", "--rollout_num_engines 2"):
            assert not [doubt for doubt in read(f"{DOTTED} {flag}").doubts if "is ignored" in doubt]

    def test_a_count_that_is_not_known_is_no_number_and_named(self):
        budget = read(f"{DOTTED} --vllm.num_engines 2 --actor.num_gpus_per_node ?")
        assert (budget.gpus, budget.mark) == (None, "unknown")
        assert [group.amount("GPU") for group in budget.groups] == [2, None, 8, 8, 8]
        assert budget.unread == ("--actor.num_gpus_per_node is known only at run time",)

    def test_what_decides_whether_there_is_a_model_and_is_not_known_is_a_doubt(self):
        budget = read(f"{DOTTED} --algo.advantage.estimator ? --reward.remote_url http://?:5000")
        assert ([name for name, _, _ in groups(budget)], budget.mark) == (["actor", "ref", "critic"], "likely")

    def test_words_that_may_be_flags_are_a_doubt_beside_counts_that_are_given_and_leave_the_others_open(self):
        sizes = " ".join(f"--{role}.num_nodes 1 --{role}.num_gpus_per_node 8" for role in ("actor", "ref", "critic", "reward"))
        budget = read(f"{DOTTED} {sizes} --vllm.num_engines 8 --vllm.tensor_parallel_size 1 ?")
        assert (budget.gpus, budget.mark) == (40, "likely")
        assert read(f"{DOTTED} x ?").gpus is None
        assert read(f"{DOTTED} --train.colocate_all ? --logger.wandb.key=?").gpus == 8, "a value, not a flag"


class TestContradictions:
    @pytest.mark.parametrize(
        ("more", "told"),
        [
            ("--train.colocate_all --vllm.num_engines 3 --vllm.tensor_parallel_size 2", "3 engines × 2 = 6, but the actor has 8"),
            ("--train.colocate_all --vllm.num_engines 1 --vllm.tensor_parallel_size 3", "= 3, but the actor has 8"),
            ("--train.colocate_all --ref.num_gpus_per_node 4", "1 × 8 and 1 × 4"),
            ("--train.colocate_actor_ref --ref.num_nodes 2", "1 × 8 and 2 × 8"),
            ("--train.colocate_critic_reward --reward.num_gpus_per_node 4", "1 × 8 and 1 × 4"),
            ("--train.colocate_all --critic.num_nodes 2", "shares the actor's 8 GPUs, but asks for 16"),
            ("--actor.num_nodes 0", "--actor.num_nodes is 0"),
        ],
    )
    def test_each_is_told_with_its_numbers_and_no_remedy_changes_the_job(self, more: str, told: str):
        lines = [line for line in read(f"{DOTTED} {more}").lines if line.level == "never"]
        assert any(told in line.text for line in lines), lines
        assert not any(line.change for line in lines)

    def test_a_reward_model_that_nobody_names_has_gpus_all_the_same(self):
        (line,) = read("--actor.model_name_or_path m --algo.advantage.estimator reinforce").lines
        assert (line.level, line.text, line.change) == ("doubt", "8 GPUs are reserved for a reward model, and no flag names one", None)

    def test_a_plain_good_command_has_nothing_to_say(self):
        command = f"{DOTTED} --train.colocate_all --vllm.num_engines 4 --vllm.tensor_parallel_size 2 --vllm.enable_sleep"
        assert (read(command).lines, read(command).doubts) == ((), ())


class TestForks:
    def test_a_fork_in_the_tree_says_its_release_and_how_it_places(self):
        models = f"{PLAIN} --colocate_actor_ref --remote_rm_url u --advantage_estimator group_norm"
        command = f"{models} --actor_num_gpus_per_node 5 --vllm_num_engines 1"
        spread = {f"fork/{SOURCE}": 'placement_group(bundles, strategy="STRICT_SPREAD")', "fork/version.txt": "0.5.5.post2\n"}
        budget = read(f"{command} --vllm_tensor_parallel_size 2", files=spread)
        assert groups(budget) == [("actor + ref", 5, "STRICT_SPREAD"), ("vLLM", 2, "PACK")]
        assert (budget.groups[0].bundles, budget.dialect, budget.mark) == ((({"GPU": 5.0, "CPU": 5.0}, 1),), "0.5.5.post2", "firm")
        packed = {f"fork/{SOURCE}": "bundles", "fork/version.txt": "0.7.3a"}
        assert groups(read(command, files=packed))[0] == ("actor + ref", 5, "PACK")

    def test_a_program_of_another_name_with_its_flags_is_read_with_a_doubt(self):
        budget = read_command("tools.my_trainer", f"{PLAIN} --colocate_all_models --actor_num_gpus_per_node 4")
        assert (budget.framework, budget.gpus, budget.mark) == ("OpenRLHF", 4, "likely")
        assert read_command("openrlhf.cli.train_ppo_ray_prm", f"{PLAIN} --colocate_all_models").mark == "likely"

    def test_counts_in_a_programs_own_file_are_read(self):
        text = """
import os
DEBUG = False if os.environ.get("DEBUG", "False") == "False" else True
class Config(Base):
    total: int = 32 if not DEBUG else 8
    actor_num_nodes: int = total
    actor_num_gpus_per_node: int = 1
    vllm_num_engines: int = total // 2
    colocate_all: bool = True
"""
        budget = read_command("playground.exp", "", {"playground/exp.py": text})
        assert (groups(budget), budget.mark) == ([("all models", 32, "PACK")], "likely")
        assert read_command("playground.exp", "", {"playground/exp.py": text}, env={"DEBUG": "True"}).gpus == 8
        apart = text.replace(
            "colocate_all: bool = True", "colocate_actor_ref: bool = True\n    critic_pretrain = ''\n    remote_rm_url = 'u'"
        )
        assert read_command("playground.exp", "", {"playground/exp.py": apart}).gpus == 48


class TestSimpleRL:
    COMMAND = "--pretrain m --actor_num_gpus_per_node 2 --ref_num_gpus_per_node 2 --critic_num_gpus_per_node 2 --colocate_actor_ref"

    def test_a_reward_model_has_a_group_only_where_one_is_named(self):
        budget = read_command("openrlhf.cli.train_ppo_ray_box", f"{self.COMMAND} --vllm_num_engines 2")
        assert groups(budget) == [("actor + ref", 2, "STRICT_SPREAD"), ("critic", 2, "STRICT_SPREAD"), ("vLLM", 2, None)]
        assert (budget.framework, budget.dialect, budget.mark) == ("simpleRL-reason", "v0", "firm")
        assert read_command("openrlhf.cli.train_ppo_ray_box", f"{self.COMMAND} --reward_pretrain r --reward_num_gpus_per_node 2").gpus == 6


def test_what_matters_beside_counts_is_told_by_its_flag():
    told = read(f"{DOTTED} --vllm.gpu_memory_utilization 0.6 --ds.adam_offload --vllm.num_engines 8 --train.batch_size ?").settings
    assert (told["--vllm.gpu_memory_utilization"], told["--ds.adam_offload"]) == ("0.6", "True")
    assert read(f"{DOTTED} --vllm.num_engines 8").settings["--vllm.gpu_memory_utilization"] == "0.95", "the default takes memory too"


_FLAGS = st.sampled_from(
    ["--actor.num_nodes", "--actor_num_gpus_per_node", "--vllm_num_engines", "--vllm.tensor_parallel_size", "--colocate_all_models",
     "--train.async_enable", "--init_kl_coef", "--advantage_estimator", "--reward_pretrain", "--colocate_critic_reward", "--else"]
)  # fmt: skip
_VALUES = st.sampled_from(["0", "1", "2", "8", "-1", "0.5", "x", "", "a b", "gae", "reinforce", UNKNOWN, f"x{UNKNOWN}", "--", "-x", "="])
_WORDS = st.lists(st.one_of(_FLAGS, _VALUES, st.builds("{}={}".format, _FLAGS, _VALUES), st.text(max_size=5)), max_size=12)


@settings(max_examples=60, deadline=None)
@given(_WORDS, st.sampled_from([None, "0.5.1", "0.9.1", "0.11.0"]))
def test_no_words_trip_it(words: list[str], release: str | None):
    import shlex

    budget = read(shlex.join(words).replace(UNKNOWN, "?"), release)
    assert budget.gpus is not None or budget.unread
    assert never(budget) is not None
