"""What veRL commands ask for: the same commands that the published releases were given in `truth_verl.py`."""

import shlex

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cockpit.budget import budget_of
from cockpit.budget.demand import Budget, Group
from cockpit.budget.frameworks.verl import verl

GRPO = (
    "algorithm.adv_estimator=grpo data.train_batch_size=512 data.max_prompt_length=1024 data.max_response_length=2048 "
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B actor_rollout_ref.actor.ppo_mini_batch_size=128 "
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 actor_rollout_ref.actor.use_kl_loss=True "
    "actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.n=8 actor_rollout_ref.rollout.tensor_model_parallel_size=2 "
    "actor_rollout_ref.rollout.gpu_memory_utilization=0.6 actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8 "
    "trainer.n_gpus_per_node=8 trainer.nnodes=2"
)
NEW = f"{GRPO} trainer.use_v1=True"
FULLY_ASYNC, ONE_STEP = "verl.experimental.fully_async_policy.fully_async_main", "verl.experimental.one_step_off_policy.main_ppo"


def asked(words: str, module: str = "verl.trainer.main_ppo", **more) -> Budget:
    return verl(shlex.split(words), module, **more)


def groups(budget: Budget) -> list[tuple[str, object, str | None]]:
    assert budget.groups is not None
    return [(group.name, group.bundles, group.strategy) for group in budget.groups]


def lines_of(budget: Budget, level: str) -> list[str]:
    return [line.text for line in budget.lines if line.level == level]


def test_each_node_of_the_pool_is_a_group_of_its_own():
    budget = asked(f"{GRPO} +ray_init.num_cpus=32 actor_rollout_ref.actor.checkpoint.contents=[model]")
    shape = {"GPU": 1.0, "CPU": 1.0}
    assert groups(budget) == [
        ("TaskRunner", (({"CPU": 1.0}, 1),), None),
        ("actor + rollout + ref", ((shape, 8),), "STRICT_PACK"),
        ("actor + rollout + ref", ((shape, 8),), "STRICT_PACK"),
    ]
    assert (budget.amount("GPU"), budget.amount("CPU"), budget.dialect) == (16, 17, "0.3 to 0.4.0")


def test_defaults_are_one_node_of_eight():
    assert asked("algorithm.adv_estimator=gae").amount("GPU") == 8


@pytest.mark.parametrize(
    ("tell", "dialect", "cpus"),
    [
        ("critic.kl_ctrl.kl_coef=0.1", "0.2 to 0.4.1", 17),
        (
            "algorithm.rollout_correction.rollout_is=token reward_model.strategy=fsdp actor_rollout_ref.rollout.mode=sync",
            "0.6.1 to 0.7.0",
            None,
        ),
        ("reward.custom_reward_function.path=x.py trainer.use_legacy_worker_impl=auto", "0.7.1", 49),
        ("trainer.v1.trainer_mode=sync", "0.9.0 and later", 57),
        ("trainer.use_v1=False", "0.9.0 and later", 48),
        ("", "0.2 and later", None),
    ],
)
def test_a_release_is_told_by_its_keys_and_cpus_by_the_release(tell: str, dialect: str, cpus: float | None):
    budget = asked(f"{GRPO} {tell}")
    assert (budget.dialect, budget.amount("CPU"), budget.amount("GPU")) == (dialect, cpus, 16)
    assert bool(lines_of(budget, "fine")) == (cpus is None)


@pytest.mark.parametrize(
    ("program", "key", "dialect"),
    [
        ("recipe.fully_async_policy.fully_async_main", "algorithm.rollout_is=True", "0.6.1 to 0.7.0"),
        ("verl.trainer.main_generation", "trainer.use_v1=True", "up to 0.7.0"),
    ],
)
def test_a_key_that_no_release_of_a_program_has_tells_none(program: str, key: str, dialect: str):
    assert verl(["trainer.nnodes=2", "trainer.n_gpus_per_node=8", key], program).dialect == dialect


def test_a_checkout_says_which_release_it_is():
    files = {"verl/version/version": "0.6.1\n"}
    budget = asked(GRPO, read=files.get)
    assert (budget.dialect, budget.amount("CPU")) == ("0.6.1", 17)


def test_servers_hold_a_cpu_each_where_rollout_is_asynchronous_until_0_7_0():
    budget = asked(f"{GRPO} actor_rollout_ref.rollout.mode=async", read={"verl/version/version": "0.7.0"}.get)
    assert groups(budget)[-1] == ("rollout servers", (({"CPU": 1.0}, 8),), None)
    assert budget.amount("CPU") == 1 + 48 + 8


@pytest.mark.parametrize("key", ["reward.reward_model", "reward_model"])
def test_a_reward_model_may_have_nodes_of_its_own(key: str):
    budget = asked(f"{GRPO} {key}.enable=True {key}.enable_resource_pool=True {key}.nnodes=1 {key}.n_gpus_per_node=4")
    assert groups(budget)[-1] == ("reward model", (({"GPU": 1.0, "CPU": 3.0}, 4),), "STRICT_PACK")
    assert budget.amount("GPU") == 20


def test_a_reward_model_among_the_others_adds_nothing():
    assert asked(f"{GRPO} reward_model.enable=True reward_model.strategy=fsdp").amount("GPU") == 16


def test_teachers_have_nodes_of_their_own():
    budget = asked(f"{GRPO} distillation.enabled=True distillation.nnodes=1 distillation.n_gpus_per_node=2")
    assert (budget.amount("GPU"), groups(budget)[-1][0]) == (18, "teacher")


def test_rollouts_apart_make_their_groups_engine_by_engine():
    apart = (
        "trainer.v1.trainer_mode=separate_async actor_rollout_ref.rollout.nnodes=1 actor_rollout_ref.rollout.n_gpus_per_node=8 "
        "actor_rollout_ref.rollout.checkpoint_engine.backend=nccl"
    )
    budget = asked(f"{NEW} {apart}")
    assert groups(budget)[-4:] == [("rollout", (({"GPU": 1.0, "CPU": 2.0}, 2),), "PACK")] * 4
    assert (budget.amount("GPU"), lines_of(budget, "never")) == (24, [])


def test_an_engine_of_two_nodes_has_a_group_on_each():
    budget = asked(
        "rollout.nnodes=2 rollout.n_gpus_per_node=4 actor_rollout_ref.rollout.tensor_model_parallel_size=8 trainer.nnodes=1", ONE_STEP
    )
    assert [group[1] for group in groups(budget)[-2:]] == [(({"GPU": 1.0, "CPU": 2.0}, 4),)] * 2
    assert budget.amount("GPU") == 16


def test_asynchronous_recipes_add_their_rollout_pool():
    assert asked("trainer.nnodes=2 rollout.nnodes=1", FULLY_ASYNC).amount("GPU") == 24
    old = asked("trainer.nnodes=2 rollout.nnodes=1 rollout.n_gpus_per_node=4", "recipe.one_step_off_policy.main_ppo")
    assert (old.amount("GPU"), groups(old)[-1][2] or groups(old)[-2][2], old.dialect) == (20, "STRICT_PACK", "0.5.0 to 0.7.0")


def test_what_is_not_a_gpu_is_not_counted_as_one():
    budget = asked(f"{GRPO} trainer.device=npu")
    assert (budget.amount("GPU"), budget.amount("NPU")) == (0, 16)


def test_simplerl_is_known_by_its_keys():
    budget = asked(f"{GRPO} trainer.remove_clip=False trainer.remove_previous_ckpt=True")
    assert (budget.framework, budget.dialect, budget.amount("GPU"), budget.amount("CPU")) == ("simpleRL-reason", "v1", 16, 17)


def test_words_that_cannot_be_known_make_no_simplerl():
    assert asked(f"\0 {GRPO}").framework == "veRL"


def test_the_megatron_trainer_has_the_same_nodes():
    budget = asked(f"--config-path=./config --config-name=ppo_megatron_trainer.yaml {GRPO}")
    assert (budget.amount("GPU"), budget.settings["actor_rollout_ref.actor.strategy"]) == (16, "megatron")


@pytest.mark.parametrize(
    "words",
    [
        "trainer.nnodes=\0",
        "trainer.nnodes=\"'2'\"",
        "trainer.nnodes=2.0",
        "trainer.nnodes=null",
        "trainer.nnodes=True",
        "~trainer.nnodes",
        "trainer.nnodes=${oc.env:NODES}",
        "trainer.nnodes=int(2)",
        "trainer=null",
        "trainer.nnodes=99999999",
        "trainer.nnodes=0",
        "trainer.nnodes=-1",
        "\0",
        "trainer.n\0=2",
        "-m trainer.nnodes=1,2",
        "trainer.device=xpu",
        "trainer@trainer=big",
    ],
)
def test_what_cannot_be_known_is_no_number(words: str):
    budget = asked(words)
    assert budget.amount("GPU") is None
    assert budget.unread or lines_of(budget, "never")


def test_values_are_found_behind_interpolations():
    assert asked("trainer.nnodes=${rollout_nodes} +rollout_nodes=3").amount("GPU") == 24
    assert asked("trainer.nnodes='${oc.decode:${oc.env:NODES,2}}'").amount("GPU") is None
    assert asked("trainer.nnodes='${trainer.nnodes}'").amount("GPU") is None


def test_somebodys_own_configuration_leaves_open_what_it_may_add():
    words = "--config-path=/home/me/conf --config-name=mine trainer.nnodes=2 trainer.n_gpus_per_node=4"
    budget = asked(words)
    assert budget.amount("GPU") is None
    assert any("/home/me/conf/mine.yaml" in sentence for sentence in budget.unread)
    assert Group("actor + rollout", (({"GPU": 1.0, "CPU": 3.0}, 4),), "STRICT_PACK", ("CPU",)) in (budget.groups or ())


def test_somebodys_own_configuration_is_read_where_it_can_be():
    files = {"/conf/mine.yaml": "defaults: [ppo_trainer, _self_]\ntrainer: {nnodes: 3, n_gpus_per_node: 4}\n"}
    assert asked("--config-path=/conf --config-name=mine", read=files.get).amount("GPU") == 12
    assert asked("--config-path=/conf --config-name=mine trainer.nnodes=1", read=files.get).amount("GPU") == 4
    assert asked("--config-path=/conf --config-name=other", read=files.get).amount("GPU") is None
    broken = {"/conf/mine.yaml": "defaults: [ppo_trainer, big@trainer: x]\n: [", "/conf/list.yaml": "[1]"}
    assert asked("--config-path=/conf --config-name=mine", read=broken.get).amount("GPU") is None
    assert asked("--config-path=/conf --config-name=list", read=broken.get).amount("GPU") is None


@pytest.mark.parametrize("odd", ["trainer: {device: [cuda]}", "trainer: {v1: {trainer_mode: [sync]}}", "reward_model: {nnodes: {a: 1}}"])
def test_a_list_where_a_word_belongs_breaks_nothing(odd: str):
    mine = {"/conf/mine.yaml": f"defaults: [ppo_trainer, _self_]\n{odd}"}
    assert asked("--config-path=/conf --config-name=mine trainer.nnodes=1 trainer.n_gpus_per_node=8", read=mine.get).framework == "veRL"


def test_a_path_that_is_not_absolute_is_looked_up_beside_the_program():
    mine = "trainer: {nnodes: 3, n_gpus_per_node: 4}\ndefaults: [ppo_trainer, _self_]\n"
    assert asked("--config-path=conf --config-name=mine", read={"verl/trainer/conf/mine.yaml": mine}.get).amount("GPU") == 12
    assert asked("--config-path=conf --config-name=mine", read={"conf/mine.yaml": mine}.get).amount("GPU") is None
    assert asked("--config-dir=conf --config-name=mine", read={"conf/mine.yaml": mine}.get).amount("GPU") == 12
    assert asked("--config-dir=conf", read={"conf/ppo_trainer.yaml": mine}.get).amount("GPU") == 8
    assert asked("--config-path=conf --config-name=mine", read={"verl/trainer/conf/mine.yaml": "defaults:\nx: 1"}.get).amount("GPU") is None


QAT, FAPO = (
    "--config-path=\0/recipe/qat/config --config-name=dapo_qat_trainer",
    "--config-path=/x/recipe/fapo/config --config-name=rm_config",
)


def test_a_configuration_that_a_recipe_ships_is_known_by_the_end_of_its_path():
    nodes = "trainer.nnodes=2 trainer.n_gpus_per_node=4"
    assert asked(f"{QAT} {nodes}").amount("GPU") == 8
    assert asked(f"{QAT.replace('dapo_qat', 'other')} {nodes}").amount("GPU") is None
    reward = "reward_model.enable=True reward_model.enable_resource_pool=True reward_model.n_gpus_per_node=8"
    assert asked(f"{FAPO} {nodes} {reward} reward_model.nnodes=1 +reward_model.rollout.n=1").amount("GPU") == 16
    assert asked(f"{FAPO} {nodes} {reward}").amount("GPU") is None


def test_a_configuration_that_a_recipe_ships_is_read_where_it_is_there():
    files = {"recipe/qat/config/dapo_qat_trainer.yaml": "defaults: [ppo_trainer, _self_]\ntrainer: {nnodes: 3}"}
    assert asked(QAT, read=files.get).amount("GPU") == 24


def test_engines_alone_are_as_many_as_their_tensor_parallelism_leaves_room_for():
    engines = "trainer.n_gpus_per_node=8 actor_rollout_ref.rollout.tensor_model_parallel_size=4"
    budget = asked(engines, "verl.trainer.main_generation_server", read={"verl/version/version": "0.9.0"}.get)
    assert groups(budget) == [("rollout", (({"GPU": 1.0, "CPU": 2.0}, 4),), "PACK")] * 2
    assert (budget.amount("GPU"), budget.amount("CPU")) == (8, None)
    larger = asked(f"{engines} actor_rollout_ref.rollout.data_parallel_size=2", "verl.trainer.main_generation_server")
    assert larger.amount("GPU") == 16


def test_supervised_training_on_ray_has_one_pool_and_no_runner():
    budget = asked("trainer.n_gpus_per_node=8", "verl.trainer.sft_trainer_ray")
    assert groups(budget) == [("model", (({"GPU": 1.0, "CPU": 10.0}, 8),), "STRICT_PACK")]
    assert asked("", "verl.trainer.sft_trainer_ray").amount("GPU") == 1


@pytest.mark.parametrize(
    "module",
    [
        "recipe.spo.spo_main_ppo",
        "recipe.gvpo.gvpo_main_ppo",
        "rep_exp.main_rep_exp",
        "recipe.atropos.main_atropos",
        "recipe.partial_rollout.main_ppo",
        "recipe.dapo.dapo_transfer_queue.main_dapo",
        "tests/e2e/arithmetic_sequence/rl/main_trainer.py",
    ],
)
@pytest.mark.parametrize("version", [None, "0.9.0"])
def test_programs_of_recipes_have_one_pool_and_their_cpus_are_open(module: str, version: str | None):
    budget = asked("trainer.nnodes=2 trainer.n_gpus_per_node=4", module, read=lambda _: version)
    assert (budget.amount("GPU"), budget.amount("CPU")) == (8, None)


def test_a_script_that_asks_for_an_ascend_driver_is_read_as_on_gpus():
    script = """
    DEVICE=${DEVICE:-$(python3 -c 'import torch_npu' 2>/dev/null && echo npu || echo gpu)}
    PER_NODE=8
    case "${DEVICE}" in npu) PER_NODE=16 ;; esac
    MORE=()
    if [ "${DEVICE}" = npu ]; then MORE=(trainer.device=npu); fi
    python3 -m verl.trainer.main_ppo trainer.n_gpus_per_node=${PER_NODE} trainer.nnodes=2 "${MORE[@]}"
    """
    assert budget_of(script).amount("GPU") == 16
    assert budget_of(script, env={"DEVICE": "npu"}).amount("NPU") == 32


def test_a_checkout_between_two_releases_is_told_by_the_keys():
    words = f"{GRPO} distillation.enabled=True distillation.nnodes=1 distillation.n_gpus_per_node=2"
    budget = asked(words, read={"verl/version/version": "0.8.0.dev"}.get)
    assert (budget.dialect, budget.amount("GPU")) == ("0.8.0", 18)


def test_groups_that_releases_make_in_several_ways_are_said_to_be():
    budget = asked(f"{GRPO} +distillation.enabled=True +distillation.nnodes=1 +distillation.n_gpus_per_node=2")
    assert budget.amount("GPU") is None
    assert "teacher: its placement groups differ between the releases that accept this command" in budget.unread


def test_an_empty_word_stops_hydra_and_hides_no_count():
    budget = asked(f"{GRPO} ''")
    assert budget.amount("GPU") == 16
    assert "is empty" in lines_of(budget, "never")[0]
    assert asked(f"{GRPO} ' '").groups is None
    assert lines_of(asked(f"{GRPO} ' '"), "never")


@pytest.mark.parametrize("words", ["trainer.nnodes", "--cfg job", "--help", "--nodes=2", "trainer.nnodes=2 --config-name=ppo_trainer a=1"])
def test_a_command_that_trains_nothing_asks_for_nothing(words: str):
    budget = asked(words)
    assert budget.groups is None
    assert len(budget.unread) == 1


def test_a_program_that_is_not_known_is_said_to_be():
    budget = asked(GRPO, "recipe.vla.main_ppo")
    assert budget.groups is None
    assert "recipe.vla.main_ppo" in budget.unread[0]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("actor_rollout_ref.rollout.tensor_model_parallel_size=3", "trainer has 2 × 8 = 16 GPUs: not divisible"),
        ("actor_rollout_ref.actor.ppo_mini_batch_size=1024", "data.train_batch_size 512 is smaller than"),
        ("data.train_batch_size=7 actor_rollout_ref.rollout.n=1", "= 7 is not divisible by 16 GPUs"),
        ("actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=null", "Neither actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu nor"),
        (
            "reward_model.enable=True trainer.use_legacy_worker_impl=auto",
            "Neither reward_model.micro_batch_size_per_gpu nor reward_model.use_dynamic_bsz is set",
        ),
        ("distillation.enabled=True", "distillation.nnodes is 0"),
    ],
)
def test_contradictions_say_which_key_to_change(words: str, text: str):
    found = [line for line in asked(f"{GRPO} {words}").lines if text in line.text]
    assert found
    assert all(line.change for line in found)


def test_what_agrees_with_itself_is_left_in_peace():
    assert [line for line in asked(GRPO).lines if line.level != "fine"] == []


def test_keys_of_different_releases_are_a_doubt():
    budget = asked(f"{GRPO} trainer.use_v1=True critic.kl_ctrl.kl_coef=0.1")
    assert any("different releases" in text for text in lines_of(budget, "doubt"))
    assert budget.amount("GPU") == 16


def test_settings_are_those_that_every_release_reads_alike():
    found = asked(GRPO).settings
    assert found["actor_rollout_ref.rollout.gpu_memory_utilization"] == "0.6"
    assert found["actor_rollout_ref.rollout.free_cache_engine"] == "True"
    assert "actor_rollout_ref.rollout.mode" not in found


words = st.lists(
    st.one_of(
        st.text(max_size=12),
        st.builds(
            "{}{}={}".format,
            st.sampled_from(["", "+", "++", "~"]),
            st.sampled_from(["trainer.nnodes", "trainer.n_gpus_per_node", "trainer", "rollout.nnodes", "distillation.enabled", "a\0", "x"]),
            st.one_of(
                st.sampled_from(["2", "\0", "{nnodes:2}", "{nnodes:\0}", "null", "${x}", "1,2", "True", "1e1", "'3'"]), st.text(max_size=6)
            ),
        ),
    ),
    max_size=6,
)


@settings(max_examples=150)
@example(["trainer.nnodes=2", "trainer.\0=3"], FULLY_ASYNC)
@given(words, st.sampled_from(["verl.trainer.main_ppo", FULLY_ASYNC, "recipe.gkd.main_gkd", "examples/split_placement/main_ppo_split.py"]))
def test_no_words_break_it_and_no_count_comes_from_a_word_that_is_not_known(argv: list[str], module: str):
    budget = verl(argv, module)
    if "\0" in argv:
        budget = verl([*argv, "\0"], module)
        assert budget.amount("GPU") is None
    if budget.amount("GPU") is None and budget.groups is not None:
        assert budget.unread or any(line.level == "never" for line in budget.lines)
