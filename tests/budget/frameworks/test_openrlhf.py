"""OpenRLHF commands: which groups each release would make, what it would refuse, and what can't be known."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cockpit.budget import Budget
from cockpit.budget.frameworks.openrlhf import openrlhf, simplerl
from cockpit.budget.frameworks.openrlhf.args import flags
from cockpit.budget.frameworks.openrlhf.flags import NAMES, RELEASES
from cockpit.budget.scripts import UNKNOWN

ONE = {"GPU": 1.0, "CPU": 1.0}
DOTTED = "--actor.model_name_or_path m --reward.model_name_or_path r"
PLAIN = "--pretrain m --reward_pretrain r"


def read(text: str, release: str | None = None) -> Budget:
    return openrlhf([word.replace("?", UNKNOWN) for word in text.split()], release=release)


def groups(budget: Budget) -> list[tuple[str, int, str | None]]:
    """Name, bundles and strategy of each group."""
    assert budget.groups is not None, budget
    return [(group.name, sum(times for _, times in group.bundles or ()), group.strategy) for group in budget.groups]


def never(budget: Budget) -> list[str]:
    return [line.text for line in budget.lines if line.level == "never"]


def test_every_model_has_a_group_of_its_own_and_vllm_comes_first():
    budget = read(f"{DOTTED} --actor.num_gpus_per_node 4 --vllm.num_engines 2 --vllm.tensor_parallel_size 2")
    assert groups(budget) == [("vLLM", 4, "PACK"), ("actor", 4, "PACK"), ("ref", 8, "PACK"), ("critic", 8, "PACK"), ("reward", 8, "PACK")]
    assert (budget.amount("GPU"), budget.amount("CPU")) == (32, 32)
    assert budget.dialect == "0.10.2 and later"
    assert not budget.unread


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
        ("--train.colocate_critic_reward --algo.advantage.estimator reinforce", ["actor", "ref", "reward"]),
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
    assert budget.amount("GPU") == 8 * len(names)


def test_flags_before_dots_say_the_same():
    budget = read(f"{PLAIN} --colocate_all_models --vllm_num_engines 4 --vllm_tensor_parallel_size 2 --async_train --max_new_tokens 9")
    assert groups(budget) == [("actor + ref + critic + reward", 8, "PACK"), ("vLLM", 8, "PACK")]
    assert budget.dialect == "0.9.8 to 0.10.1.post2"


def test_before_0_5_8_nodes_were_bundles_strictly_spread_and_vllm_came_last():
    command = f"{PLAIN},s --actor_num_nodes 2 --ref_num_nodes 2 --colocate_actor_ref --vllm_num_engines 2 --vllm_tensor_parallel_size 4"
    budget = read(command, "0.5.5")
    assert groups(budget) == [
        ("actor + ref", 2, "STRICT_SPREAD"), ("critic", 1, "STRICT_SPREAD"), ("reward", 1, "STRICT_SPREAD"), ("reward", 1, "STRICT_SPREAD"),
        ("vLLM", 4, "PACK"), ("vLLM", 4, "PACK"),
    ]  # fmt: skip
    assert budget.groups[0].bundles == (({"GPU": 8.0, "CPU": 8.0}, 2),)
    assert (budget.amount("GPU"), budget.amount("CPU")) == (48, 48)


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("0.5.7", [("vLLM", 2, None)]),
        ("0.6.0.post2", [("vLLM", 2, None)]),
        ("0.6.0.post3", [("vLLM", 2, "PACK")]),
    ],
)
def test_engines_of_one_gpu_had_no_group_before_0_6_0_post3(release: str, expected: list[object]):
    budget = read(f"{PLAIN} --vllm_num_engines 2", release)
    assert [group for group in groups(budget) if group[0] == "vLLM"] == expected
    engine = next(group for group in budget.groups or () if group.name == "vLLM")
    assert (engine.amount("CPU") == 0) is (release == "0.6.0.post2")


@pytest.mark.parametrize(
    ("release", "coefficient", "ref"),
    [("0.5.9", "0", True), ("0.6.0", "0", False), ("0.7.1", "-1", True), ("0.7.1.post1", "-1", False)],
)
def test_since_when_the_reference_model_depends_on_its_coefficient(release: str, coefficient: str, ref: bool):
    budget = read(f"{PLAIN} --vllm_num_engines 8 --init_kl_coef={coefficient}", release)
    assert ("ref" in [name for name, _, _ in groups(budget)]) is ref


def test_where_releases_reserve_other_gpus_and_nobody_knows_which_it_is_there_is_no_number():
    budget = read(f"{PLAIN} --vllm_num_engines 8 --init_kl_coef 0 --colocate_critic_reward")
    assert budget.amount("GPU") is None
    assert "reserves 24 GPUs" in budget.unread[0]
    assert "32 GPUs" in budget.unread[0]
    assert read(f"{PLAIN} --vllm_num_engines 8 --init_kl_coef 0 --colocate_critic_reward", "0.5.7").amount("GPU") == 32


def test_where_releases_reserve_as_many_otherwise_the_newest_is_taken_and_that_is_said():
    budget = read(f"{PLAIN} --vllm_num_engines 4")
    assert budget.amount("GPU") == 36
    (line,) = (line for line in budget.lines if "Counted as OpenRLHF" in line.text)
    assert line.level == "doubt"
    assert "0.6.0.post3 to 0.10.1.post2" in line.text


class TestAsTheParserReads:
    def test_the_last_of_several_counts(self):
        assert groups(read(f"{DOTTED} --actor.num_nodes 2 --actor.num_nodes=3 --algo.kl.init_coef 0"))[0] == ("actor", 24, "PACK")

    def test_a_flag_may_be_shortened_where_that_is_clear(self):
        assert groups(read(f"{DOTTED} --actor.num_n 2 --algo.kl.init 0"))[0] == ("actor", 16, "PACK")
        assert "ambiguous" in never(read(f"{DOTTED} --actor.num 2"))[0]

    @pytest.mark.parametrize(
        ("mistake", "told"),
        [
            ("--actor.num_nodes two", "invalid int value: 'two'"),
            ("--actor.num_nodes", "expected one argument"),
            ("--algo.advantage.estimator ppo", "invalid choice: 'ppo'"),
            ("stray", "unrecognized arguments: stray"),
            ("--train.colocate_all=yes", "ignored explicit argument 'yes'"),
        ],
    )
    def test_what_every_release_refuses_never_runs(self, mistake: str, told: str):
        budget = read(f"{DOTTED} {mistake}")
        assert told in never(budget)[0]
        assert budget.groups is None

    def test_flags_of_two_dialects_never_run(self):
        assert "unrecognized arguments" in never(read(f"{DOTTED} --colocate_all_models --vllm_num_engines 2"))[0]

    def test_a_flag_that_no_release_has_is_a_doubt_beside_the_groups_of_all_others(self):
        budget = read(f"{DOTTED} --vllm.num_engine2 4 --nope.nothing --actor.num_gpus_per_node 2")
        assert budget.groups == read(f"{DOTTED} --actor.num_gpus_per_node 2").groups
        near, strange = budget.lines[-2:]
        assert "--vllm.num_engine2 is not a flag of OpenRLHF up to" in near.text
        assert "did you mean --vllm.num_engines? OpenRLHF exits with an error, and nothing starts." in near.text
        assert near.text.endswith("The groups are counted without it")
        assert (near.level, near.change) == ("doubt", "rename --vllm.num_engine2 to --vllm.num_engines")
        assert "only a fork can read it" in strange.text
        assert not never(budget)

    def test_what_seems_to_be_missing_beside_an_unknown_flag_may_be_read_by_a_fork(self):
        lacking = "--actor.model_name_or_path m --train.advantage x"
        assert not never(read(f"{lacking} --reward.remote_ur http://x"))


class TestUnknown:
    def test_a_number_that_is_not_known_is_no_number(self):
        budget = read(f"{DOTTED} --vllm.num_engines 2 --actor.num_gpus_per_node ?")
        assert budget.amount("GPU") is None
        assert [group.amount("GPU") for group in budget.groups or ()] == [2, None, 8, 8, 8]
        assert budget.unread == ("--actor.num_gpus_per_node has a value that is known only at run time",)

    def test_whether_a_model_is_there_may_not_be_known(self):
        budget = read(f"{DOTTED} --algo.kl.init_coef ?")
        assert budget.groups is None
        assert "--algo.kl.init_coef" in budget.unread[0]

    def test_words_that_may_be_flags_leave_nothing_known(self):
        assert read(f"{DOTTED} ?").groups is None
        assert read(f"{DOTTED} --? 3").groups is None
        assert read(f"{DOTTED} --nope.nothing ?").groups is None
        assert read(f"{DOTTED} --train.colocate_all ?").unread == ("Some arguments are known only at run time and may be flags",)

    def test_what_does_not_count_may_be_unknown(self):
        assert (
            read("--actor.model_name_or_path ? --reward.model_name_or_path ?/r --actor.adam.lr ? --logger.wandb.key=?").amount("GPU") == 32
        )

    def test_an_address_that_is_not_known_is_an_address(self):
        assert [name for name, _, _ in groups(read(f"{DOTTED} --reward.remote_url http://?:5000"))] == ["actor", "ref", "critic"]


class TestContradictions:
    @pytest.mark.parametrize(
        ("more", "told", "change"),
        [
            ("--train.colocate_all --vllm.num_engines 3 --vllm.tensor_parallel_size 2",
             "3 engines × 2 = 6, but the actor has 8", "set --vllm.num_engines to 4"),
            ("--train.colocate_all --vllm.num_engines 1 --vllm.tensor_parallel_size 3",
             "= 3, but the actor has 8", "set --vllm.tensor_parallel_size to a divisor of 8"),
            ("--train.colocate_all --ref.num_gpus_per_node 4",
             "1 × 8 and 1 × 4", "set --ref.num_nodes to 1 and --ref.num_gpus_per_node to 8"),
            ("--train.colocate_actor_ref --ref.num_nodes 2",
             "1 × 8 and 2 × 8", "set --ref.num_nodes to 1 and --ref.num_gpus_per_node to 8"),
            ("--train.colocate_critic_reward --reward.num_gpus_per_node 4",
             "1 × 8 and 1 × 4", "set --reward.num_nodes to 1 and --reward.num_gpus_per_node to 8"),
            ("--train.colocate_all --critic.num_nodes 2",
             "shares the actor's 8 GPUs, but asks for 16", "set --critic.num_nodes and --critic.num_gpus_per_node to the actor's"),
            ("--algo.advantage.estimator rloo", "samples per prompt, but --rollout.n_samples_per_prompt is 1",
             "set --rollout.n_samples_per_prompt to 2 or more"),
            ("--ds.packing_samples", "needs vLLM engines", "set --vllm.num_engines to 1 or more"),
            ("--train.batch_size 100 --train.micro_batch_size 8",
             "100 is not divisible by --train.micro_batch_size 8 × 8", "set --train.batch_size to 64 or 128"),
            ("--actor.num_nodes 0", "--actor.num_nodes of actor is 0", "set --actor.num_nodes to 1 or more"),
        ],
    )  # fmt: skip
    def test_each_says_what_to_change(self, more: str, told: str, change: str):
        lines = [line for line in read(f"{DOTTED} {more}").lines if line.level == "never"]
        assert any(told in line.text and line.change == change for line in lines), lines

    def test_a_reward_model_that_nobody_names_has_gpus_all_the_same(self):
        budget = read("--actor.model_name_or_path m --algo.advantage.estimator reinforce")
        assert groups(budget)[-1] == ("reward", 8, "PACK")
        assert "8 GPUs are reserved for one" in budget.lines[0].text

    def test_what_only_some_releases_refuse_is_a_doubt_with_the_releases(self):
        command = f"{DOTTED} --algo.advantage.estimator dr_grpo --vllm.num_engines 4"
        (line,) = (line for line in read(command).lines if "several samples" in line.text)
        assert (line.level, line.text.endswith("(OpenRLHF 0.11.0 and later)")) == ("doubt", True)
        assert "several samples" in never(read(command, "0.11.0"))[0]
        assert not never(read(command, "0.10.4"))

    def test_a_plain_good_command_has_nothing_to_say(self):
        command = f"{DOTTED} --train.colocate_all --vllm.num_engines 4 --vllm.tensor_parallel_size 2 --vllm.enable_sleep --ds.enable_sleep"
        assert read(command).lines == ()

    def test_weights_over_gloo_between_nodes_are_a_doubt(self):
        budget = read(f"{DOTTED} --actor.num_nodes 2 --vllm.num_engines 8 --vllm.sync_backend gloo")
        assert budget.lines[0].change == "set --vllm.sync_backend to nccl"


def test_what_matters_beside_counts_is_told_by_its_flag():
    settings = read(f"{DOTTED} --vllm.gpu_memory_utilization 0.6 --ds.adam_offload --vllm.num_engines 8 --train.batch_size ?").settings
    assert settings["--vllm.gpu_memory_utilization"] == "0.6"
    assert settings["--ds.adam_offload"] == "true"
    assert "--train.batch_size" not in settings
    assert "--vllm.enable_sleep" not in settings


class TestSimpleRL:
    SIZES = "--actor_num_gpus_per_node 2 --ref_num_gpus_per_node 2 --critic_num_gpus_per_node 2"
    COMMAND = f"--pretrain m {SIZES} --colocate_actor_ref --vllm_num_engines 2"

    def test_without_a_reward_model_there_is_no_group_for_one(self):
        budget = simplerl(self.COMMAND.split())
        assert groups(budget) == [("actor + ref", 1, "STRICT_SPREAD"), ("critic", 1, "STRICT_SPREAD"), ("vLLM", 2, None)]
        assert (budget.amount("GPU"), budget.dialect, budget.lines) == (6, "v0", ())

    def test_with_one_there_is(self):
        assert simplerl(f"{self.COMMAND} --reward_pretrain r --reward_num_gpus_per_node 2".split()).amount("GPU") == 8

    def test_a_flag_of_later_releases_is_not_known(self):
        assert simplerl(f"{self.COMMAND} --colocate_all_models".split()).groups is None

    def test_what_is_not_known_is_no_number(self):
        assert simplerl([*self.COMMAND.split(), "--actor_num_nodes", UNKNOWN]).amount("GPU") is None
        assert simplerl([*self.COMMAND.split(), UNKNOWN]).groups is None


_FLAGS = st.sampled_from(sorted({f"--{name}" for release in (RELEASES[0], "0.6.0", "0.10.1", RELEASES[-1]) for name, _ in flags(release)}))
_VALUES = st.sampled_from(["0", "1", "2", "8", "-1", "0.5", "x", "", "a b", "gae", "reinforce", UNKNOWN, f"x{UNKNOWN}", "--", "-x", "="])
_WORDS = st.lists(
    st.one_of(_FLAGS, _VALUES, st.builds(lambda flag, value: f"{flag}={value}", _FLAGS, _VALUES), st.text(max_size=5)), max_size=12
)


@settings(max_examples=60)
@given(_WORDS)
@example(["--reward_num_gpus_per_node=--"])
def test_no_words_trip_it(words: list[str]):
    budget = openrlhf(words)
    assert budget.groups is not None or budget.unread
    assert all((group.bundles is None) <= bool(budget.unread) for group in budget.groups or ())


_SIZES = (
    "actor_num_nodes", "actor_num_gpus_per_node", "ref_num_gpus_per_node", "critic_num_nodes", "reward_num_gpus_per_node",
    "vllm_num_engines", "vllm_tensor_parallel_size",
)  # fmt: skip
_DOTTED = {old: new for new, old in NAMES.items()}


@settings(max_examples=40)
@given(
    st.dictionaries(st.sampled_from(_SIZES), st.integers(1, 9)),
    st.sets(st.sampled_from(["colocate_actor_ref", "colocate_critic_reward", "colocate_all_models", "async_train"])),
    st.sampled_from(_SIZES),
)
def test_a_size_that_is_not_known_changes_no_other_count_and_is_never_counted(sizes: dict[str, int], switches: set[str], hidden: str):
    switched = [f"--{_DOTTED[name]}" for name in sorted(switches)]
    words = [*DOTTED.split(), *switched, *(f"--{_DOTTED[name]}={size}" for name, size in sizes.items())]
    known, unknown = openrlhf(words), openrlhf([*words, f"--{_DOTTED[hidden]}", UNKNOWN])
    assert known.amount("GPU") is not None
    for before, after in zip(known.groups or (), unknown.groups or (), strict=False):
        assert after.bundles is None or after.name != before.name or after == before
    untouched = unknown.groups == known.groups
    assert (unknown.amount("GPU") is None) is (not untouched) or hidden.startswith("vllm")


@pytest.mark.parametrize(("release", "made"), [("0.4.5", True), ("0.5.0", True), ("0.5.1", False)])
def test_a_critic_without_a_model_is_left_out_only_since_there_is_another_way(release: str, made: bool):
    budget = openrlhf([*f"{PLAIN} --critic_num_gpus_per_node 4 --critic_pretrain".split(), ""], release=release)
    assert ("critic" in [name for name, *_ in groups(budget)]) == made
