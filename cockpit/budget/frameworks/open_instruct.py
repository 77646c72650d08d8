"""Computes what a GRPO command of open-instruct asks Ray for: learners on nodes of their own, and vLLM engines."""

from __future__ import annotations

import re

from cockpit.budget.command import Settings, TrainingCommand, one_each, product, whole
from cockpit.budget.demand import Budget, Group
from cockpit.placement import Strategy

_PROGRAM = re.compile(r"(?:.*\.)?(?:grpo|grpo_fast|ppo_fast|ppo_vllm_thread_ray\w*)")
_LEARNERS = "--num_learners_per_node"


def is_mine(command: TrainingCommand) -> bool:
    """Whether it is one of its programs, with the flag that no other framework has."""
    return _PROGRAM.fullmatch(command.module) is not None and any(
        word.partition("=")[0] in (_LEARNERS, "--vllm_num_engines", "--single_gpu_mode") for word in command.argv
    )


def budget_of(command: TrainingCommand) -> Budget:
    """One bundle for the learners of each node, and one GPU for each shard of an engine."""
    settings = Settings(command, command.words.given("--single_gpu_mode"))
    learners = [whole(word) for word in command.words.flags.get(_LEARNERS, ("1",))]
    known = [number for number in learners if number is not None]
    if len(known) < len(learners):
        settings.missing[f"{_LEARNERS} is known only at run time"] = None
    strategy: Strategy = "SPREAD" if command.module.endswith("grpo") else "STRICT_SPREAD"
    bundles = tuple(({"GPU": float(number), "CPU": 10.0 * number}, 1) for number in known if number > 0)
    groups = [Group("learners", bundles if bundles and len(known) == len(learners) else None, strategy)]
    if not settings.switch("--single_gpu_mode"):
        engines = product(settings.count("--vllm_num_engines", 1), settings.count("--vllm_tensor_parallel_size", 1))
        groups.append(one_each("vLLM", engines))
    return settings.budget("open-instruct", groups, "--vllm_gpu_memory_utilization")
