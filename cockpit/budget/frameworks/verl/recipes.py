"""Which programs of veRL ask Ray for GPUs, in which shape each makes its pools, and what its own configuration sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from cockpit.budget.frameworks.hydra import Value
from cockpit.budget.frameworks.verl.releases import NEWEST, release

Shape = Literal["one pool", "one step off", "fully async", "distillation", "generation", "servers", "sft", "split"]


class Recipe(msgspec.Struct, frozen=True):
    """One program."""

    shape: Shape
    config: str = "ppo_trainer"
    """Its configuration's name where the command names none."""
    first: int = 0
    last: int = NEWEST
    own: Mapping[str, Value] = {}
    """Where its configuration differs from the trainer's."""
    cpus: float | None = None
    """CPUs in each bundle, where it makes its pools itself."""
    reward_pool: bool = True
    queue: bool = False
    """It moves its data through a TransferQueue, whatever its configuration says."""
    own_keys: bool = False
    """Its configuration has keys that the trainer's got later: they tell no release."""
    more: bool = False
    """It starts CPU actors beside its pools, and how many is not known here."""


_ROLLOUT: Mapping[str, Value] = {"rollout.nnodes": 1, "rollout.n_gpus_per_node": 8}
_ASYNC: Mapping[str, Value] = {**_ROLLOUT, "async_training.use_dynamic_resource_scheduling": False}
_DISTILL: Mapping[str, Value] = {"trainer.n_gpus_per_node": 4, "trainer.nnodes": 1, "rollout.n_gpus_per_node": 4, "rollout.nnodes": 1}


def _one(config: str, since: str, cpus: float | None = None) -> Recipe:
    return Recipe("one pool", config, release(since), cpus=cpus, reward_pool=False)


def _apart(config: str, since: str, until: str, queue: bool = False, reward_pool: bool = True, own: Mapping[str, Value] = {}) -> Recipe:
    """A program beside the framework, written for some releases of it: it makes the trainer's pools as those did."""
    return Recipe("one pool", config, release(since), release(until), own, reward_pool=reward_pool, queue=queue, own_keys=True, more=True)


_RECIPES: Mapping[str, Recipe] = {
    "verl.trainer.main_ppo": Recipe("one pool"),
    "verl.trainer.main_ppo_sync": Recipe("one pool", first=release("0.8.0"), last=release("0.8.0"), queue=True),
    "verl.trainer.main_generation": Recipe("generation", "generation", last=release("0.7.0")),
    "verl.experimental.one_step_off_policy.main_ppo": Recipe("one step off", "one_step_off_ppo_trainer", release("0.7.1"), own=_ROLLOUT),
    "recipe.one_step_off_policy.main_ppo": Recipe(
        "one step off", "one_step_off_ppo_trainer", release("0.5.0"), release("0.7.0"), own=_ROLLOUT
    ),
    "verl.experimental.fully_async_policy.fully_async_main": Recipe("fully async", "fully_async_ppo_trainer", release("0.7.1"), own=_ASYNC),
    "recipe.fully_async_policy.fully_async_main": Recipe(
        "fully async", "fully_async_ppo_trainer", release("0.6.1"), release("0.7.0"), own=_ASYNC
    ),
    "verl.trainer.main_ppo_format": Recipe("one pool", last=release("0.2")),
    "verl.mix_src.main_mix_ppo": Recipe("one pool", "mix_ppo_trainer", last=release("0.2"), reward_pool=False, own_keys=True),
    "verl_tool.trainer.main_ppo": Recipe("one pool", first=release("0.4.0"), last=release("0.7.0")),
    "recipe.dapo.src.main_dapo": Recipe("one pool", "dapo_trainer", release("0.2"), release("0.3"), reward_pool=False, own_keys=True),
    "recipe.dapo.main_dapo": _one("dapo_trainer", "0.4.0"),
    "recipe.prime.main_prime": Recipe("one pool", "prime_trainer", release("0.3"), reward_pool=False, own_keys=True),
    "recipe.sppo.main_sppo": _one("sppo_trainer", "0.4.0"),
    "recipe.spin.main_spin": _one("spin_trainer", "0.4.0", cpus=1),
    "recipe.entropy.main_entropy": _one("entropy_trainer", "0.4.1"),
    "recipe.flowrl.main_flowrl": _one("flowrl_trainer", "0.6.1"),
    "recipe.r1_ascend.main_ppo": Recipe("one pool", first=release("0.7.0"), last=release("0.7.0")),
    "recipe.transfer_queue.main_ppo": Recipe("one pool", "ppo_trainer", release("0.6.1"), release("0.7.0"), cpus=1, more=True),
    "recipe.spo.spo_main_ppo": _apart("spo_trainer", "0.7.0", "0.7.0"),
    "recipe.gvpo.gvpo_main_ppo": _apart("gvpo_trainer", "0.7.0", "0.7.0"),
    "rep_exp.main_rep_exp": _apart("rep_exp_trainer", "0.7.0", "0.7.0"),
    "recipe.dance_grpo.dance_grpo_mindspeed_mm.main_dance": _apart("dance_ppo_trainer", "0.7.0", "0.7.0"),
    "recipe.dance_grpo.main_dance": _apart("dance_ppo_trainer", "0.7.0", "0.7.0"),
    "recipe.dapo.dapo_transfer_queue.main_dapo": _apart("dapo_transfer_queue_trainer", "0.7.0", "0.7.0", queue=True, reward_pool=False),
    "recipe.atropos.main_atropos": _apart("atropos_trainer", "0.7.0", "0.8.0", reward_pool=False, own={"algorithm.adv_estimator": "grpo"}),
    "recipe.partial_rollout.main_ppo": _apart("ppo_trainer", "0.8.0", "0.8.0"),
    "arithmetic_sequence.rl.main_trainer": _apart("ppo_trainer", "0.2", "0.4.0", reward_pool=False),
    "verl.trainer.main_generation_server": Recipe("servers", first=release("0.6.0"), more=True),
    "verl.trainer.sft_trainer_ray": Recipe(
        "sft", "sft_trainer_engine", release("0.7.0"), own={"trainer.nnodes": 1, "trainer.n_gpus_per_node": 1}, own_keys=True
    ),
    "main_gkd": Recipe("distillation", "on_policy_distill_trainer", release("0.7.0"), own=_DISTILL),
    "main_ppo_split": Recipe("split", "ppo_trainer_split", last=release("0.7.1")),
}


class Shipped(msgspec.Struct, frozen=True):
    """A file that a recipe brings for any program, on top of the trainer's."""

    own: Mapping[str, Value] = {}
    """What it sets of the keys that matter here."""
    brings: tuple[str, ...] = ()
    """Sections that it makes itself: their keys tell no release."""


CONFIGS: Mapping[str, Shipped] = {
    "recipe/dapo/config/dapo_trainer.yaml": Shipped(),
    "recipe/dapo/config/dapo_megatron_trainer.yaml": Shipped(),
    "recipe/deepeyes/configs/deepeyes_multiturn_grpo.yaml": Shipped({"data.train_batch_size": 256}),
    "recipe/fapo/config/rm_config.yaml": Shipped(
        dict.fromkeys(("reward_model.nnodes", "reward_model.n_gpus_per_node"), 0), ("reward_model.rollout", "reward_model.model")
    ),
    "recipe/qat/config/dapo_qat_trainer.yaml": Shipped(),
    "recipe/qat/config/dapo_qat_megatron_trainer.yaml": Shipped(),
    "recipe/transfer_queue/config/transfer_queue_ppo_trainer.yaml": Shipped(),
    "recipe/transfer_queue/config/transfer_queue_ppo_megatron_trainer.yaml": Shipped(),
}
"""By the end of its path."""


def recipe_of(module: str) -> Recipe | None:
    """The program of a module's name, or of a script's path; `None`: it isn't known here."""
    name = module.removesuffix(".py").strip("./").replace("/", ".")
    found = [recipe for known, recipe in _RECIPES.items() if name == known or name.endswith("." + known)]
    return found[0] if found else None
