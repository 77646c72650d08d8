"""What OpenRLHF stops at, or quietly changes, where it counts GPUs; DeepSpeed's assertion on batch sizes; what finds no bundle.

What it asserts while it reads its flags, and what has nothing to do with resources, it says itself in its first seconds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from cockpit.budget.demand import Line
from cockpit.budget.frameworks.openrlhf.args import ParsedArgs, UnreadError
from cockpit.budget.frameworks.openrlhf.groups import engine_gpus, has_critic, has_engines, has_ref, has_reward, world

_MANY = {"rloo": "0.5.3", "reinforce_baseline": "0.6.0", "group_norm": "0.6.0", "dr_grpo": "0.11.0"}
"""Estimators that compare samples of one prompt, and since when that is asserted."""


def contradictions(asked: ParsedArgs) -> Iterator[Line]:
    """One line for each; where a value can't be known, none."""
    for rule in _RULES:
        with contextlib.suppress(UnreadError):
            yield from rule(asked)


def _never(text: str, change: str | None) -> Line:
    return Line("never", text, change)


def _sizes(ask: ParsedArgs) -> Iterator[Line]:
    models = (("actor", True), ("ref", has_ref(ask)), ("critic", has_critic(ask)), ("reward", has_reward(ask)))
    for role in [role for role, there in models if there]:
        for name in (f"{role}_num_nodes", f"{role}_num_gpus_per_node"):
            if ask(name) < 1:
                yield _never(f"{ask.flag(name)} of {role} is {ask(name)}: nothing to place", f"set {ask.flag(name)} to 1 or more")


def _actor_and_ref(ask: ParsedArgs) -> Iterator[Line]:
    together = ask("colocate_actor_ref") or ask("colocate_all_models")
    if together and (not ask.since("0.6.1") or ask("init_kl_coef") > 0) and _dims(ask, "actor") != _dims(ask, "ref"):
        yield _unequal(ask, "actor", "ref", "colocate_all_models" if ask("colocate_all_models") else "colocate_actor_ref")


def _critic_and_reward(ask: ParsedArgs) -> Iterator[Line]:
    if ask("colocate_critic_reward") and has_critic(ask) and _dims(ask, "critic") != _dims(ask, "reward"):
        yield _unequal(ask, "critic", "reward", "colocate_critic_reward")


def _dims(ask: ParsedArgs, role: str) -> tuple[int, int]:
    return ask(f"{role}_num_nodes"), ask(f"{role}_num_gpus_per_node")


def _unequal(ask: ParsedArgs, one: str, other: str, why: str) -> Line:
    (nodes, gpus), (others, other_gpus) = _dims(ask, one), _dims(ask, other)
    return _never(
        f"With {ask.flag(why)} {one} and {other} must have the same nodes and GPUs per node: {nodes} × {gpus} and {others} × {other_gpus}",
        f"set {ask.flag(f'{other}_num_nodes')} to {nodes} and {ask.flag(f'{other}_num_gpus_per_node')} to {gpus}",
    )


def _engines_and_actor(ask: ParsedArgs) -> Iterator[Line]:
    if not ask("colocate_all_models") or ask("async_train") or not has_engines(ask):
        return
    gpus, tensor, engines = world(ask, "actor"), ask("vllm_tensor_parallel_size"), ask("vllm_num_engines")
    if gpus != engines * tensor:
        fitting = f"set {ask.flag('vllm_num_engines')} to {gpus // tensor}" if tensor > 0 and gpus % tensor == 0 else None
        yield _never(
            f"With {ask.flag('colocate_all_models')} vLLM needs exactly as many GPUs as the actor: "
            f"{engines} engines × {tensor} = {engines * tensor}, but the actor has {gpus}",
            fitting or f"set {ask.flag('vllm_tensor_parallel_size')} to a divisor of {gpus}",
        )


def _guests(ask: ParsedArgs) -> Iterator[Line]:
    """A model that is larger than the group that it is put into finds no bundle."""
    if not ask("colocate_all_models") or (has_critic(ask) and ask("colocate_critic_reward")):
        return
    gpus = world(ask, "actor")
    for role, there in (("critic", has_critic(ask)), ("reward", has_reward(ask))):
        if there and world(ask, role) > gpus:
            yield _never(
                f"With {ask.flag('colocate_all_models')} {role} shares the actor's {gpus} GPUs, but asks for {world(ask, role)}",
                f"set {ask.flag(f'{role}_num_nodes')} and {ask.flag(f'{role}_num_gpus_per_node')} to the actor's",
            )


def _asynchronous(ask: ParsedArgs) -> Iterator[Line]:
    if ask("async_train") and ask("colocate_all_models"):
        yield Line("doubt", f"With {ask.flag('async_train')} vLLM gets its own GPUs, with or without {ask.flag('colocate_all_models')}")


def _models(ask: ParsedArgs) -> Iterator[Line]:
    if not has_reward(ask) or ask.has_value("reward_pretrain"):
        return
    wanted = f"add {ask.flag('reward_pretrain')} or {ask.flag('remote_rm_url')}"
    if not ask.since("0.7.1") or (has_critic(ask) and not ask.has_value("critic_pretrain")):
        yield _never(f"Neither {ask.flag('reward_pretrain')} nor {ask.flag('remote_rm_url')} is given: there is no reward", wanted)
    else:
        yield Line("doubt", f"No reward model is named, but {world(ask, 'reward')} GPUs are reserved for one", wanted)


def _samples(ask: ParsedArgs) -> Iterator[Line]:
    estimator, number = ask("advantage_estimator"), ask("n_samples_per_prompt")
    if number <= 1 and estimator in _MANY and ask.since(_MANY[estimator]):
        yield _never(
            f"{estimator} needs several samples per prompt, but {ask.flag('n_samples_per_prompt')} is {number}",
            f"set {ask.flag('n_samples_per_prompt')} to 2 or more",
        )


def _without_engines(ask: ParsedArgs) -> Iterator[Line]:
    if has_engines(ask):
        return
    packed = (
        ask("packing_samples") or (ask("use_dynamic_batch") and ask.since("0.8.6")) or (ask("ring_attn_size") > 1 and ask.since("0.8.4"))
    )
    missing = ask("vllm_num_engines") is None and ask.since("0.3.2") and not ask.since("0.7.1")
    missing = missing or (ask.since("0.9.8") and not ask.since("0.11.0"))
    if packed or missing or (ask("zero_stage") == 3 and not ask.since("0.7.1")):
        who = ask.flag("packing_samples") if packed else "This release" if missing else f"{ask.flag('zero_stage')} 3"
        yield _never(f"{who} needs vLLM engines", f"set {ask.flag('vllm_num_engines')} to 1 or more")


def _batches(ask: ParsedArgs) -> Iterator[Line]:
    """DeepSpeed: the batch is the micro batch × processes × a whole number of steps."""
    if ask("use_dynamic_batch") or ask.has_value("pretrain_data"):
        return
    batch, micro = ask("train_batch_size"), ask("micro_train_batch_size")
    split = ask("ring_attn_size") * ask("ds_tensor_parallel_size")
    for role, there in (("actor", True), ("critic", has_critic(ask))):
        size = world(ask, role)
        if there and size > 0 and micro > 0 and split > 0 and batch * split % (micro * size):
            step = max(1, micro * size // split)
            by = f"{ask.flag('micro_train_batch_size')} {micro} × {size // split} data-parallel processes of {role}"
            lower, upper, flag = batch // step * step, (batch // step + 1) * step, ask.flag("train_batch_size")
            yield _never(f"{flag} {batch} is not divisible by {by}", f"set {flag} to {f'{lower} or ' if lower else ''}{upper}")
            return


def _sync(ask: ParsedArgs) -> Iterator[Line]:
    backend = ask("vllm_sync_backend")
    if backend in {None, "nccl"} or not has_engines(ask):
        return
    if ask("actor_num_nodes") > 1 or engine_gpus(ask) > 8:
        where = "on other nodes"
    elif ask("colocate_all_models"):
        where = "on the same GPUs"
    else:
        return
    yield Line(
        "doubt", f"{backend} is slower than nccl for sending weights to vLLM {where}", f"set {ask.flag('vllm_sync_backend')} to nccl"
    )


_RULES: tuple[Callable[[ParsedArgs], Iterator[Line]], ...] = (
    _sizes, _actor_and_ref, _critic_and_reward, _engines_and_actor, _guests, _asynchronous, _models, _samples, _without_engines, _batches,
    _sync,
)  # fmt: skip
