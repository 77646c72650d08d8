"""What open-instruct commands ask for: learners node by node, and engines."""

from __future__ import annotations

from tests.budget.frameworks.commands import groups, read

WORDS = "--num_learners_per_node 6 4 --vllm_num_engines 3 --vllm_tensor_parallel_size 2 --total_episodes 9"


def test_learners_are_spread_over_nodes_and_engines_come_beside():
    budget = read("open_instruct/grpo_fast.py", WORDS)
    assert (budget.framework, groups(budget), budget.mark) == (
        "open-instruct",
        [("learners", 10, "STRICT_SPREAD"), ("vLLM", 6, "PACK")],
        "firm",
    )
    assert (budget.groups or ())[0].bundles == (({"GPU": 6.0, "CPU": 60.0}, 1), ({"GPU": 4.0, "CPU": 40.0}, 1))
    assert groups(read("open_instruct/grpo.py", WORDS))[0][2] == "SPREAD"


def test_on_a_single_gpu_the_engine_shares_it():
    assert read("open_instruct/grpo_fast.py", "--single_gpu_mode --num_learners_per_node 1").gpus == 1


def test_a_count_that_is_not_known_is_no_number():
    assert read("open_instruct/grpo_fast.py", "--num_learners_per_node ? --vllm_num_engines 1").gpus is None
    assert read("open_instruct/grpo_fast.py", "--num_learners_per_node 4 --vllm_num_engines ?").unread
