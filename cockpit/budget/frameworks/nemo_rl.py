"""Computes what a NeMo-RL command asks Ray for: one group for each node that its YAML files and their parents set."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from cockpit.budget.command import Settings, TrainingCommand, flatten, node_groups, one_each, product
from cockpit.budget.config_files import compose
from cockpit.budget.demand import Budget, Group
from cockpit.placement import Strategy

_PROGRAM = re.compile(r"(?:.*\.)?run_(?:async_)?(?:grpo|sft|dpo|rm|vlm|distillation|eval|ppo|opd)\w*")
_DEFAULT = "configs/grpo_math_1B.yaml"
_GENERATION = "policy.generation"
Nodes = tuple["int | None", "int | None"]
"""A number of nodes, and the GPUs on each."""


def is_mine(command: TrainingCommand) -> bool:
    """Whether the program imports NeMo-RL, or is one of its examples with a settings file."""
    if not command.module.rpartition(".")[2].startswith("run_"):
        return False
    if found := command.source():
        return "nemo_rl" in found[1]
    return _PROGRAM.fullmatch(command.module) is not None and any(word.startswith(("--config", "cluster.")) for word in command.argv)


def budget_of(command: TrainingCommand) -> Budget:
    """The nodes of the cluster, and the additional nodes of NeMo Gym's servers."""
    source = command.source()
    beside = posixpath.dirname(source[0] if source else command.program)
    named = re.search(r"['\"]([\w./-]+\.yaml)['\"]", source[1]) if source else None
    default = posixpath.join(beside, "configs", posixpath.basename(named[1])) if named else posixpath.join(beside, _DEFAULT)
    tree, gone = compose(command.read, *posixpath.split(command.words.flag("--config") or default))
    because = f"and {gone[0].replace(chr(0), '…')} can't be read" if gone else None
    settings = Settings(command, command.words.values, flatten(tree), open_because=because)
    return settings.budget("NeMo-RL", tuple(_groups(settings, command.module)), f"{_GENERATION}.vllm_cfg.gpu_memory_utilization")


def _groups(settings: Settings, module: str) -> Iterator[Group]:
    """A group for each node. Policy, generation and reward model share all nodes, or divide them, or a single node, among them."""
    nodes, gpus = settings.count("cluster.num_nodes"), settings.count("cluster.gpus_per_node")
    only_trains = re.search(r"run_(?:vlm_)?(?:sft|dpo|rm|eval)", module) is not None
    backend = settings.text(f"{_GENERATION}.backend", "vllm")
    rest = (nodes, gpus)
    if not only_trains and any(
        re.fullmatch(r"data\..*env_name", key) and settings.value(key) == "reward_model" for layer in settings.layers for key in layer
    ):
        taken, rest = _divide(settings, "env.reward_model.resources", rest)
        yield from node_groups("reward model", *taken, strategy="PACK")
    if only_trains:
        yield from node_groups("policy", *rest, strategy="PACK")
    elif settings.switch(f"{_GENERATION}.colocated.enabled", default=True):
        cpus = 1.0 if backend == "megatron" else 3.0 if re.search("distillation|ppo", module) else 2.0
        yield from _generation(settings, "policy + generation", backend, *rest, cpus)
    else:
        taken, rest = _divide(settings, f"{_GENERATION}.colocated.resources", rest)
        yield from node_groups("policy", *rest, strategy="PACK")
        yield from _generation(settings, "generation", backend, *taken)
    if settings.is_set("env.nemo_gym.num_gpu_nodes") and (more := settings.count("env.nemo_gym.num_gpu_nodes")):
        yield from node_groups("NeMo Gym", more, gpus, 1.0, "PACK")


def _divide(settings: Settings, key: str, nodes: Nodes) -> tuple[Nodes, Nodes]:
    """Divide nodes: those that a part of the job takes, and those that remain. Of a single node the GPUs are divided."""
    number, gpus = nodes
    own = settings.count(f"{key}.gpus_per_node")
    if number == 1:
        return (1, own), (1, None if gpus is None or own is None else gpus - own)
    taken = settings.count(f"{key}.num_nodes")
    return (taken, own), (None if number is None or taken is None else number - taken, gpus)


def _generation(settings: Settings, name: str, backend: str, nodes: int | None, gpus: int | None, cpus: float = 1.0) -> Iterator[Group]:
    """Engines that are larger than a node need one group for all nodes, and SGLang always has one."""
    sizes = (settings.count(f"{_GENERATION}.vllm_cfg.{kind}_parallel_size", 1) for kind in ("tensor", "pipeline"))
    if backend == "sglang" or (product(*sizes) or 1) > (gpus or 8):
        strategy: Strategy = "PACK" if backend == "sglang" or name == "generation" else "SPREAD"
        yield one_each(name, product(nodes, gpus), strategy, cpus)
    else:
        yield from node_groups(name, nodes, gpus, cpus, "PACK")
