"""Where a configuration contradicts itself: what one release of veRL checks before or while it starts, and which key to change."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.budget.demand import Line
from cockpit.budget.frameworks.hydra import Gap
from cockpit.budget.frameworks.verl.config import ReleaseConfig
from cockpit.budget.frameworks.verl.groups import replica, rollout_world
from cockpit.budget.frameworks.verl.recipes import Recipe

_ACTOR, _ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
_TRAIN, _MINI, _N = "data.train_batch_size", f"{_ACTOR}.ppo_mini_batch_size", f"{_ROLLOUT}.n"
_MICRO, _EACH_MICRO = f"{_ACTOR}.ppo_micro_batch_size", f"{_ACTOR}.ppo_micro_batch_size_per_gpu"


def contradictions(recipe: Recipe, config: ReleaseConfig) -> Iterator[Line]:
    """All that the release would refuse. Nothing is said where a number can't be known."""
    if recipe.shape in {"generation", "servers", "sft", "distillation", "split"}:
        return
    nodes, each = config.number("trainer.nnodes"), config.number("trainer.n_gpus_per_node")
    yield from _positive(config, "trainer")
    yield from _pools(recipe, config)
    if recipe.own_keys and recipe.more:
        return
    if nodes and each and min(nodes, each) > 0:
        yield from _rollout(recipe, config, nodes, each)
        yield from _batches(recipe, config, nodes * each)
    yield from _micro_batches(config)
    if recipe.shape == "one pool" and config.since("0.9.0") and config.value("trainer.v1.trainer_mode") == "separate_async":
        yield from _positive(config, _ROLLOUT)


def _never(text: str, change: str) -> Line:
    return Line("never", text, change)


def _positive(config: ReleaseConfig, base: str) -> Iterator[Line]:
    for key in (f"{base}.nnodes", f"{base}.n_gpus_per_node"):
        number = config.number(key)
        if number is not None and number <= 0:
            yield _never(f"{key} is {number}, and must be greater than 0", f"set {key} to 1 or more")


def _pools(recipe: Recipe, config: ReleaseConfig) -> Iterator[Line]:
    """Pools of their own: what is switched on needs nodes."""
    base = "reward.reward_model" if config.since("0.7.1") else "reward_model"
    if recipe.reward_pool and config.value(f"{base}.enable_resource_pool") is True:
        yield from _positive(config, base)
        if config.value(f"{base}.enable") is False:
            text = f"{base}.enable_resource_pool is on and {base}.enable is off: the pool takes GPUs that nothing uses"
            yield Line("doubt", text, f"set {base}.enable to True, or {base}.enable_resource_pool to False")
    if config.since("0.8.0") and config.value("distillation.enabled") is True:
        yield from _positive(config, "distillation")
    if recipe.shape == "one step off" and config.value("rollout.nnodes") is not Gap.ABSENT:
        yield from _positive(config, "rollout")


def _rollout(recipe: Recipe, config: ReleaseConfig, nodes: int, each: int) -> Iterator[Line]:
    """One engine must fill whole GPUs of whole nodes."""
    base, where = ("trainer", "GPUs") if recipe.shape == "one pool" else ("rollout", "GPUs for rollout")
    if base == "rollout":
        nodes, each = config.number("rollout.nnodes") or 0, config.number("rollout.n_gpus_per_node") or 0
    world, size = rollout_world(config), f"{_ROLLOUT}.tensor_model_parallel_size"
    if world is None or min(nodes, each) <= 0 or not config.since("0.2"):
        return
    if nodes * each % world and (base == "trainer" or nodes * each < world):
        text = f"An engine needs {world} GPUs ({size} and related keys), but {base} has {nodes} × {each} = {nodes * each} {where}"
        yield _never(text + ": not divisible", f"set {size} to a divisor of {nodes * each}")
    elif replica(world, each)[0] * replica(world, each)[1] != world:
        yield _never(
            f"An engine takes {world} GPUs, which is not a multiple of {each} per node", f"set {size} to a divisor or multiple of {each}"
        )


def _batches(recipe: Recipe, config: ReleaseConfig, gpus: int) -> Iterator[Line]:
    dynamic = config.value(f"{_ACTOR}.use_dynamic_bsz")
    train, n, mini = config.number(_TRAIN), config.number(_N), config.number(_MINI)
    if recipe.shape == "fully async" or train is None or not config.since("0.2"):
        return
    megatron = config.value(f"{_ACTOR}.strategy") != "fsdp" and config.value(f"{_ACTOR}.strategy") != "fsdp2"
    if n is not None and not megatron and (dynamic is False or (dynamic is True and not config.since("0.6.0"))) and train * n % gpus:
        text = f"{_TRAIN} {train} × {_N} {n} = {train * n} is not divisible by {gpus} GPUs"
        yield _never(text, f"set {_TRAIN} to a multiple of {gpus}")
    if mini is None or dynamic is not False:
        return
    if train < mini and config.since("0.3"):
        yield _never(f"{_TRAIN} {train} is smaller than {_MINI} {mini}", f"set {_MINI} to {train} or less")
    yield from _mini_batch(config, mini, gpus) if not megatron else ()


def _mini_batch(config: ReleaseConfig, mini: int, gpus: int) -> Iterator[Line]:
    """What the workers make of the mini batch: with all answers, divided over the GPUs."""
    micro, each_micro = config.number(_MICRO), config.number(_EACH_MICRO)
    parallel, n = config.number(f"{_ACTOR}.ulysses_sequence_parallel_size"), config.number(_N)
    if micro and mini % micro:
        yield _never(f"{_MINI} {mini} is not divisible by {_MICRO} {micro}", f"set {_MICRO} to a divisor of {mini}")
    if parallel and micro and 0 < micro * parallel < gpus:
        yield _never(
            f"{_MICRO} {micro} × {_ACTOR}.ulysses_sequence_parallel_size {parallel} is less than {gpus} GPUs", f"set {_MICRO} to {gpus}"
        )
    if not parallel or not n or parallel < 0 or gpus % parallel or config.since("0.8.0"):
        return
    share = mini * n // (gpus // parallel)
    if share <= 0 and config.since("0.4.0"):
        yield _never(
            f"{_MINI} {mini} × {n} is less than one sample for each of {gpus // parallel} ranks",
            f"set {_MINI} to {gpus // parallel} or more",
        )
    elif each_micro and each_micro > 0 and share % each_micro:
        text = f"{_MINI} {mini} × {_N} {n} / {gpus // parallel} ranks = {share} is not divisible by {_EACH_MICRO} {each_micro}"
        yield _never(text, f"set {_EACH_MICRO} to a divisor of {share}")


def _micro_batches(config: ReleaseConfig) -> Iterator[Line]:
    """Without a dynamic batch size one of a micro batch's two names must be set."""
    if not config.since("0.2"):
        return
    yield from _micro_batch(config, _MICRO, f"{_ACTOR}.use_dynamic_bsz")
    yield from _micro_batch(config, f"{_ROLLOUT}.log_prob_micro_batch_size", f"{_ACTOR}.use_dynamic_bsz")
    if config.value("reward_model.enable") is True and not config.megatron and not config.since("0.7.0"):
        yield from _micro_batch(config, "reward_model.micro_batch_size", "reward_model.use_dynamic_bsz")


def _micro_batch(config: ReleaseConfig, key: str, dynamic: str) -> Iterator[Line]:
    if config.value(dynamic) is False and config.value(key) is None and config.value(f"{key}_per_gpu") is None:
        yield _never(f"Neither {key}_per_gpu nor {dynamic} is set", f"set {key}_per_gpu to 1 or more")
