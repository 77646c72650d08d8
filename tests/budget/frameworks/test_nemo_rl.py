"""What NeMo-RL commands ask for: the cluster of a YAML file and its parents."""

from __future__ import annotations

import pytest

from cockpit.budget import Budget
from tests.budget.frameworks.commands import groups
from tests.budget.frameworks.commands import read as read_command

PROGRAM = "import os\nfrom nemo_rl.algorithms.grpo import setup\nconfig = join(here, 'configs', 'grpo_math_1B.yaml')\n"
RECIPES = "examples/configs/recipes"
FILES = {
    "examples/run_grpo.py": PROGRAM,
    "examples/configs/grpo_math_1B.yaml": "cluster: {num_nodes: 1, gpus_per_node: 2}\npolicy: {generation: {colocated: {enabled: true}}}\n",
    "examples/configs/recipes/big.yaml": "defaults: ../grpo_math_1B.yaml\ncluster: {num_nodes: 4, gpus_per_node: 8}\n",
    "examples/configs/recipes/gym.yaml": "defaults: big.yaml\ncluster: {num_nodes: 1}\nenv: {nemo_gym: {num_gpu_nodes: 2}}\n",
    "examples/configs/recipes/wide.yaml": "defaults: big.yaml\npolicy: {generation: {vllm_cfg: {tensor_parallel_size: 16}}}\n",
    "examples/configs/recipes/lost.yaml": "defaults: gone.yaml\npolicy: {x: 1}\n",
}


def read(words: str, files: dict[str, str] = FILES) -> Budget:
    return read_command("examples/run_grpo.py", words, files)


def test_a_chain_of_files_gives_nodes_and_gpus_and_words_lie_over_it():
    budget = read("--config examples/configs/recipes/big.yaml grpo.max_num_steps=3")
    assert (budget.framework, groups(budget), budget.mark) == ("NeMo-RL", [("policy + generation", 8, "PACK")] * 4, "firm")
    assert budget.amount("CPU") == 64
    assert read("--config=examples/configs/recipes/big.yaml ++cluster.num_nodes=2").gpus == 16
    assert read("").gpus == 2, "the file that the program names"


def test_gym_takes_nodes_beside_the_cluster():
    assert groups(read("--config examples/configs/recipes/gym.yaml")) == [
        ("policy + generation", 8, "PACK"),
        *[("NeMo Gym", 8, "PACK")] * 2,
    ]


def test_an_engine_that_is_larger_than_a_node_makes_one_group_for_all():
    assert groups(read("--config examples/configs/recipes/wide.yaml")) == [("policy + generation", 32, "SPREAD")]
    assert groups(read("--config examples/configs/recipes/big.yaml policy.generation.backend=sglang")) == [
        ("policy + generation", 32, "PACK")
    ]


SEPARATE = "policy.generation.colocated.enabled=false policy.generation.colocated.resources.gpus_per_node"
REWARD = "data.default.env_name=reward_model env.reward_model.resources.gpus_per_node"


@pytest.mark.parametrize(
    ("words", "made"),
    [
        (f"--config {RECIPES}/big.yaml {SEPARATE}=8 policy.generation.colocated.resources.num_nodes=1",
         [("policy", 8, "PACK")] * 3 + [("generation", 8, "PACK")]),
        (f"cluster.gpus_per_node=8 {SEPARATE}=2", [("policy", 6, "PACK"), ("generation", 2, "PACK")]),
        (f"--config {RECIPES}/big.yaml {REWARD}=8 env.reward_model.resources.num_nodes=1",
         [("reward model", 8, "PACK")] + [("policy + generation", 8, "PACK")] * 3),
        (f"cluster.gpus_per_node=8 {REWARD}=2 env.reward_model.resources.num_nodes=1",
         [("reward model", 2, "PACK"), ("policy + generation", 6, "PACK")]),
        (f"cluster.gpus_per_node=8 {REWARD}=2 env.reward_model.resources.num_nodes=1 {SEPARATE}=2",
         [("reward model", 2, "PACK"), ("policy", 4, "PACK"), ("generation", 2, "PACK")]),
        ("cluster.gpus_per_node=8 env.reward_model.resources.gpus_per_node=2", [("policy + generation", 8, "PACK")]),
    ],
)  # fmt: skip
def test_generation_and_a_reward_model_of_their_own_divide_the_cluster(words: str, made: list[tuple[str, int, str]]):
    budget = read(words)
    assert (groups(budget), budget.mark) == (made, "firm")


def test_a_part_whose_size_is_not_set_is_named():
    assert read(f"cluster.gpus_per_node=8 {SEPARATE}=null").unread == (
        "policy.generation.colocated.resources.gpus_per_node is null, not a number",
    )


@pytest.mark.parametrize(
    ("program", "words", "cpus"),
    [("run_grpo", "", 4), ("run_grpo", "policy.generation.backend=megatron", 2), ("run_grpo", "policy.megatron_cfg.enabled=true", 4),
     ("run_distillation", "", 6), ("run_grpo_rm", "", 4), ("run_sft", "", 2), ("run_vlm_sft", "", 2)],
)  # fmt: skip
def test_each_bundle_has_a_cpu_for_each_model_that_shares_it(program: str, words: str, cpus: int):
    files = {**FILES, f"examples/{program}.py": PROGRAM}
    assert read_command(f"examples/{program}.py", words, files).amount("CPU") == cpus


def test_a_parent_that_cannot_be_read_is_named():
    budget = read("--config examples/configs/recipes/lost.yaml")
    assert budget.gpus is None
    assert budget.unread[0] == "cluster.num_nodes is not set, and examples/configs/recipes/gone.yaml can't be read"
    assert read("--config ? cluster.num_nodes=1").gpus is None
