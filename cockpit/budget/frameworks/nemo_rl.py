"""Computes what a NeMo-RL command asks Ray for: one group for each node that its YAML files and their parents set."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from cockpit.budget.command import Settings, TrainingCommand, flatten, node_groups, one_each, product, read_words
from cockpit.budget.config_files import read_chain
from cockpit.budget.demand import Budget, Group

_PROGRAM = re.compile(r"(?:.*\.)?run_(?:async_)?(?:grpo|sft|dpo|rm|vlm|distillation|eval|ppo|opd)\w*")
_DEFAULT = "configs/grpo_math_1B.yaml"


def is_mine(command: TrainingCommand) -> bool:
    """Whether the program imports NeMo-RL, or is one of its examples with a settings file."""
    if not command.module.rpartition(".")[2].startswith("run_"):
        return False
    if found := command.source():
        return "nemo_rl" in found[1]
    return _PROGRAM.fullmatch(command.module) is not None and any(word.startswith(("--config", "cluster.")) for word in command.argv)


def budget_of(command: TrainingCommand) -> Budget:
    """The nodes of the cluster, and the additional nodes of NeMo Gym's servers."""
    words = read_words(command.argv)
    source = command.source()
    beside = posixpath.dirname(source[0] if source else command.program)
    named = re.search(r"['\"]([\w./-]+\.yaml)['\"]", source[1]) if source else None
    default = posixpath.join(beside, "configs", posixpath.basename(named[1])) if named else posixpath.join(beside, _DEFAULT)
    tree, gone = read_chain(command.read, words.flag("--config") or default)
    because = f"and {gone[0].replace(chr(0), '…')} can't be read" if gone else None
    settings = Settings.of_words(command, words, words.values, flatten(tree), open_because=because)
    groups = tuple(_groups(settings))
    return settings.budget(
        "NeMo-RL",
        groups,
        None,
        (),
        "policy.model_name",
        "policy.generation.vllm_cfg.gpu_memory_utilization",
        "checkpointing.checkpoint_dir",
    )


def _groups(settings: Settings) -> Iterator[Group]:
    nodes, gpus = settings.count("cluster.num_nodes"), settings.count("cluster.gpus_per_node")
    vllm = "policy.generation.vllm_cfg"
    engine = product(settings.count(f"{vllm}.tensor_parallel_size", 1), settings.count(f"{vllm}.pipeline_parallel_size", 1))
    is_megatron = settings.switch("policy.megatron_cfg.enabled")
    is_colocated = settings.switch("policy.generation.colocated.enabled", default=True)
    cpus = 2.0 if is_colocated and not is_megatron else 1.0
    name = "policy + generation" if is_colocated else "policy, generation"
    if (engine or 1) > (gpus or 8) or settings.text("policy.generation.backend") == "sglang":
        yield one_each(name, product(nodes, gpus), cpus=cpus)
    else:
        yield from node_groups(name, nodes, gpus, cpus, "PACK")
    if settings.is_set("env.nemo_gym.num_gpu_nodes") and (more := settings.count("env.nemo_gym.num_gpu_nodes")):
        yield from node_groups("NeMo Gym", more, gpus, 1.0, "PACK")
