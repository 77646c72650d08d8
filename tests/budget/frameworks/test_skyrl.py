"""What SkyRL commands ask for: all on the engines' GPUs, or groups of their own, in the order in which they are made."""

from __future__ import annotations

import pytest

from cockpit.budget import Budget
from tests.budget.frameworks.commands import groups, never
from tests.budget.frameworks.commands import read as read_command

ENGINE, PLACE = "generator.inference_engine", "trainer.placement"
ENGINES = f"{ENGINE}.num_engines=2 {ENGINE}.tensor_parallel_size=2"
POLICY = f"{PLACE}.policy_num_nodes=2 {PLACE}.policy_num_gpus_per_node=4"


def read(words: str, program: str = "skyrl.train.entrypoints.main_base") -> Budget:
    return read_command(program, words)


def test_colocated_all_share_a_group_as_large_as_the_engines():
    budget = read(f"{ENGINES} {PLACE}.policy_num_gpus_per_node=4 {PLACE}.ref_num_gpus_per_node=4")
    assert never(budget) == []
    assert (groups(budget), budget.amount("CPU"), budget.mark) == ([("all models + engines", 4, "PACK")], 5, "firm")
    assert never(read(f"{ENGINES} {POLICY}")) == [
        "With trainer.placement.colocate_all all must have the same number of GPUs: engines 4, policy 8, ref 1"
    ]


@pytest.mark.parametrize(
    ("more", "made"),
    [
        (f"{PLACE}.ref_num_nodes=2 {PLACE}.ref_num_gpus_per_node=4", [("engines", 4, "PACK"), ("policy + ref", 8, "PACK")]),
        ("trainer.algorithm.use_kl_loss=false", [("engines", 4, "PACK"), ("policy", 8, "PACK")]),
        (f"{PLACE}.colocate_policy_ref=false", [("engines", 4, "PACK"), ("policy", 8, "PACK"), ("ref", 1, None)]),
        (f"trainer.algorithm.use_kl_loss=false trainer.critic.model.path=m {PLACE}.critic_num_gpus_per_node=2",
         [("engines", 4, "PACK"), ("policy", 8, "PACK"), ("critic", 2, "PACK")]),
        ("trainer.algorithm.use_kl_loss=false generator.inference_engine.run_engines_locally=false", [("policy", 8, "PACK")]),
        (f"trainer.algorithm.use_kl_loss=false {ENGINE}.external_proxy_url=http://proxy", [("policy", 8, "PACK")]),
        (f"trainer.algorithm.use_kl_loss=false {ENGINE}.enable_pd=true {ENGINE}.num_prefill=1",
         [("prefill engines", 2, "PACK"), ("decode engines", 2, "PACK"), ("policy", 8, "PACK")]),
    ],
)  # fmt: skip
def test_apart_each_has_its_group_in_the_order_in_which_it_is_made(more: str, made: list[tuple[str, int, str | None]]):
    budget = read(f"{ENGINES} {POLICY} {PLACE}.colocate_all=false {more}")
    assert groups(budget) == made
    assert next(group for group in budget.groups or () if group.name.startswith("policy")).bundles == (({"GPU": 4.0, "CPU": 4.0}, 2),)


def test_keys_of_the_generation_before_are_read_and_a_program_of_any_name():
    words = (
        "generator.num_inference_engines=4 generator.inference_engine_tensor_parallel_size=2 trainer.placement.policy_num_gpus_per_node=8"
    )
    assert read(words, "examples.train.my_main").gpus == 8


def test_policy_and_ref_that_share_gpus_have_the_same_counts():
    assert never(read(f"{ENGINES} {POLICY} {PLACE}.colocate_all=false")) == [
        "With trainer.placement.colocate_policy_ref policy and ref must have the same nodes and GPUs per node: 2 × 4 and 1 × 1"
    ]


@pytest.mark.parametrize(("package", "gpus"), [("skyrl-train", 4), ("skyrl", 1)])
def test_only_the_first_release_of_skyrl_train_has_other_defaults(package: str, gpus: int):
    budget = read_command("skyrl_train.entrypoints.main_base", f"{PLACE}.colocate_policy_ref=true", pins={package: "0.1.0"})
    assert (budget.gpus, never(budget)) == (gpus, [])


@pytest.mark.parametrize("words", [f"{ENGINE}.num_engines=?", f"{PLACE}.colocate_all=false {PLACE}.policy_num_nodes=?", "data.x=1 ?"])
def test_a_count_that_is_not_known_is_no_number(words: str):
    assert read(words).gpus is None
    assert read(words).unread
