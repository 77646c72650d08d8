"""What AReaL commands ask for: world sizes of backend strings, or the launcher's nodes."""

from __future__ import annotations

import pytest

from cockpit.budget.frameworks.areal import world_size
from tests.budget.frameworks.commands import groups, read
from tests.world import GIB

CONFIG = """
cluster: {n_nodes: 1, n_gpus_per_node: 8}
scheduler: {type: ray}
rollout: {backend: "sglang:d2p1t2", scheduling_spec: "${actor.scheduling_spec}"}
actor: {backend: "fsdp:d4p1t1", kl_ctl: 0.0, scheduling_spec: [{gpu: 1, cpu: 4, mem: 16}]}
ref: {backend: "${actor.backend}", scheduling_strategy: {type: separation}}
"""
FILES = {"a.yaml": CONFIG, "old.yaml": "allocation_mode: sglang:d4p1t2+d8\ncluster: {n_nodes: 3, n_gpus_per_node: 8}\n"}


@pytest.mark.parametrize(
    ("backend", "size"),
    [("fsdp:d4p1t1", 4), ("vllm:d32", 32), ("megatron:d2p2t4e8", 16), ("d8", 8), ("sglang:d1p1t4c2", 8),
     ("megatron:(attn:d2t4|ffn:d1t2e4)", 8),
     ("x", None), ("", None), ("fsdp:d4q", None)],
)  # fmt: skip
def test_a_world_is_the_product_of_its_dimensions_but_experts(backend: str, size: int | None):
    assert world_size(backend) == size


def test_rollout_engines_have_groups_of_their_own_and_train_roles_one_each_whatever_the_cluster_says():
    budget = read("examples/rl.py", "--config a.yaml cluster.n_nodes=2", FILES)
    assert groups(budget) == [("rollout", 2, "PACK")] * 2 + [("actor", 4, "PACK")]
    assert (budget.framework, budget.gpus, budget.mark) == ("AReaL", 8, "firm")


def test_each_rank_asks_for_what_its_scheduling_spec_says_and_an_engine_for_all_its_ranks_at_once():
    rollout, _, actor = read("examples/rl.py", "--config a.yaml", FILES).groups or ()
    assert rollout.bundles == (({"GPU": 2.0, "CPU": 8.0, "memory": 32 * GIB}, 1),)
    assert actor.bundles == (({"GPU": 1.0, "CPU": 4.0, "memory": 16 * GIB}, 4),)


def test_without_a_spec_there_is_a_doubt_and_defaults_count():
    budget = read("examples/rl.py", "scheduler.type=ray rollout.backend=sglang:d1t2 actor.backend=fsdp:d2")
    assert (budget.gpus, budget.amount("CPU"), budget.amount("memory")) == (4, 32, 128 * GIB)
    assert budget.doubts == tuple(f"{role}.scheduling_spec sets no gpu: counted as 1 for each rank" for role in ("rollout", "actor"))


def test_another_placement_strategy_is_a_doubt():
    files = {"a.yaml": CONFIG.replace("gpu: 1", "gpu: 1, ray_placement_strategy: deferred")}
    budget = read("examples/rl.py", "--config a.yaml", files)
    assert (budget.gpus, budget.doubts) == (
        8,
        ("actor.scheduling_spec.0.ray_placement_strategy is deferred: its groups may have other bundles",),
    )


def test_a_reference_model_counts_with_a_coefficient_unless_it_shares():
    assert read("examples/rl.py", "--config a.yaml actor.kl_ctl=0.1", FILES).gpus == 12
    assert read("examples/rl.py", "--config a.yaml actor.kl_ctl=0.1 ref.scheduling_strategy.type=colocation", FILES).gpus == 8


def test_on_ascend_they_are_npus():
    budget = read(
        "examples/rl.py",
        "--config vlm_npu/a.yaml rollout.backend=vllm:d32 actor.backend=fsdp:d16 scheduler.type=ray",
        {"vlm_npu/a.yaml": CONFIG},
    )
    assert (budget.amount("GPU"), budget.gpus) == (0, 48)


def test_another_scheduler_is_a_doubt():
    assert "Ray is not asked for these GPUs" in read("examples/rl.py", "--config a.yaml scheduler.type=local", FILES).doubts[0]
    assert "not set" in read("examples/rl.py", "rollout.backend=sglang:d4 actor.backend=fsdp:d4").doubts[0]


def test_the_mode_of_earlier_releases_is_a_sum_too():
    assert read("examples/rl.py", "--config old.yaml", FILES).gpus == 16
    assert read("examples/rl.py", "--config old.yaml allocation_mode=sglang:d4+fsdp:d8|d8", FILES).gpus == 12


def test_the_launcher_takes_whole_nodes():
    budget = read("areal.launcher.ray", "examples/rl.py --config old.yaml", FILES)
    assert groups(budget) == [("llm_server", 8, "PACK"), ("trainer", 8, "PACK"), ("trainer", 8, "PACK")]


@pytest.mark.parametrize(
    "words", ["--config gone.yaml rollout.backend=sglang:d4", "--config a.yaml actor.backend=?", "--config a.yaml actor.backend=x"]
)
def test_what_cannot_be_read_is_no_number(words: str):
    budget = read("examples/rl.py", words, FILES)
    assert budget.gpus is None
    assert budget.unread
