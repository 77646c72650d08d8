"""What NeMo-RL commands ask for: the cluster of a YAML file and its parents."""

from __future__ import annotations

from cockpit.budget import Budget
from tests.budget.frameworks.commands import groups
from tests.budget.frameworks.commands import read as read_command

PROGRAM = "import os\nfrom nemo_rl.algorithms.grpo import setup\nconfig = join(here, 'configs', 'grpo_math_1B.yaml')\n"
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
    assert groups(read("--config examples/configs/recipes/wide.yaml")) == [("policy + generation", 32, "PACK")]


def test_a_parent_that_cannot_be_read_is_named():
    budget = read("--config examples/configs/recipes/lost.yaml")
    assert budget.gpus is None
    assert budget.unread[0] == "cluster.num_nodes is not set, and examples/configs/recipes/gone.yaml can't be read"
    assert read("--config ? cluster.num_nodes=1").gpus is None
