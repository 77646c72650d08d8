"""What OpenRLHF stops at, or quietly changes: its own assertions, DeepSpeed's on batch sizes, and what finds no bundle."""

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
    roles = [
        "actor",
        *(["ref"] if has_ref(ask) else []),
        *(["critic"] if has_critic(ask) else []),
        *(["reward"] if has_reward(ask) else []),
    ]
    for role in roles:
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


def _sleep(ask: ParsedArgs) -> Iterator[Line]:
    if ask("vllm_enable_sleep") and not ask("colocate_all_models"):
        yield Line(
            "doubt",
            f"{ask.flag('vllm_enable_sleep')} has no effect without {ask.flag('colocate_all_models')}",
            f"remove {ask.flag('vllm_enable_sleep')}, or add {ask.flag('colocate_all_models')}",
        )
    elif ask("vllm_enable_sleep") and ask("async_train"):
        yield _never(
            f"{ask.flag('async_train')} and {ask.flag('vllm_enable_sleep')} exclude each other", f"remove {ask.flag('vllm_enable_sleep')}"
        )


def _asynchronous(ask: ParsedArgs) -> Iterator[Line]:
    if ask("partial_rollout") and not ask("async_train"):
        yield _never(f"{ask.flag('partial_rollout')} works only with {ask.flag('async_train')}", f"add {ask.flag('async_train')}")
    if ask("async_train") and ask("colocate_all_models"):
        yield Line("doubt", f"With {ask.flag('async_train')} vLLM gets its own GPUs, with or without {ask.flag('colocate_all_models')}")
    more, batch = ask("vllm_generate_batch_size"), ask("rollout_batch_size")
    if ask.since("0.10.0") and more and more > batch and not ask("async_train"):
        name, whole = ask.flag("vllm_generate_batch_size"), ask.flag("rollout_batch_size")
        yield _never(
            f"{name} {more} is more than {whole} {batch}: only allowed with {ask.flag('async_train')}",
            f"set {name} to {batch}, or add {ask.flag('async_train')}",
        )


def _models(ask: ParsedArgs) -> Iterator[Line]:
    if not has_reward(ask) or ask.has_value("reward_pretrain"):
        return
    wanted = f"add {ask.flag('reward_pretrain')} or {ask.flag('remote_rm_url')}"
    if not ask.since("0.7.1") or (has_critic(ask) and not ask.has_value("critic_pretrain")):
        yield _never(f"Neither {ask.flag('reward_pretrain')} nor {ask.flag('remote_rm_url')} is given: there is no reward", wanted)
    else:
        yield Line("doubt", f"No reward model is named, but {world(ask, 'reward')} GPUs are reserved for one", wanted)


def _one_reward(ask: ParsedArgs) -> Iterator[Line]:
    if ask.since("0.6.3") and not ask.since("0.7.1") and has_reward(ask) and "," in (ask("reward_pretrain") or ""):
        yield _never(
            f"OpenRLHF 0.6.3 and later take one reward model, but {ask.flag('reward_pretrain')} names several",
            f"set {ask.flag('reward_pretrain')} to one model",
        )


def _samples(ask: ParsedArgs) -> Iterator[Line]:
    estimator, number = ask("advantage_estimator"), ask("n_samples_per_prompt")
    needs = estimator in _MANY and ask.since(_MANY[estimator])
    if number <= 1 and (needs or ask("dynamic_filtering")):
        who = estimator if needs else ask.flag("dynamic_filtering")
        yield _never(
            f"{who} needs several samples per prompt, but {ask.flag('n_samples_per_prompt')} is {number}",
            f"set {ask.flag('n_samples_per_prompt')} to 2 or more",
        )


def _dynamic_filtering(ask: ParsedArgs) -> Iterator[Line]:
    if not ask("dynamic_filtering"):
        return
    if has_reward(ask):
        yield _never(
            f"{ask.flag('dynamic_filtering')} needs a remote reward", f"add {ask.flag('remote_rm_url')} or {ask.flag('agent_func_path')}"
        )
    low, high = ask("dynamic_filtering_reward_range")
    if low >= high:
        name = ask.flag("dynamic_filtering_reward_range")
        yield _never(f"{name} {low} {high} is an empty range", f"give the lower number of {name} first")


def _evaluation(ask: ParsedArgs) -> Iterator[Line]:
    if ask.has_value("eval_dataset") and has_reward(ask):
        yield _never(f"{ask.flag('eval_dataset')} needs a remote reward", f"add {ask.flag('remote_rm_url')}")


def _pictures(ask: ParsedArgs) -> Iterator[Line]:
    if ask("max_images_per_prompt") > 0 and has_critic(ask):
        yield _never("Training with images has no critic", f"set {ask.flag('advantage_estimator')} to reinforce_baseline or group_norm")
    if ask("max_images_per_prompt") > 0 and ask("packing_samples"):
        yield _never("Training with images does not pack samples", f"remove {ask.flag('packing_samples')}")


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


def _old_worlds(ask: ParsedArgs) -> Iterator[Line]:
    """Until 0.7.0 the sizes had to divide each other."""
    if ask.since("0.7.1"):
        return
    actor = world(ask, "actor") // (ask("ring_attn_size") if ask.since("0.7.0.post1") else 1)
    critic = world(ask, "critic") if has_critic(ask) else 1
    if not ask.since("0.5.5.post1"):
        yield from (_no_power(ask, role) for role, size in (("actor", actor), ("critic", critic)) if size & (size - 1))
    elif actor > 0 and ask("rollout_batch_size") % actor:
        yield _refuse_remainder(ask, "rollout_batch_size", ask("rollout_batch_size"), f"the actor's {actor} processes", actor)
    if critic > 0 and world(ask, "actor") % critic:
        change = f"set {ask.flag('critic_num_gpus_per_node')} to the actor's"
        yield _never(f"The critic's {critic} GPUs must divide the actor's {world(ask, 'actor')}", change)
    engines = ask("vllm_num_engines") or 0
    divides = engines < 1 or actor < 1 or actor % engines == 0 or (ask.since("0.6.0") and engines % actor == 0)
    if ask.since("0.5.5.post1") and not divides:
        yield _never(
            f"{engines} vLLM engines must divide the actor's {actor} processes",
            f"set {ask.flag('vllm_num_engines')} to a divisor of {actor}",
        )
    elif ask.since("0.4.6") and not ask.since("0.5.1") and engines > actor:
        yield _never(
            f"More vLLM engines ({engines}) than actor processes ({actor})", f"set {ask.flag('vllm_num_engines')} to {actor} or fewer"
        )


def _no_power(ask: ParsedArgs, role: str) -> Line:
    return _never(
        f"OpenRLHF up to 0.5.5 needs a power of 2 as the number of GPUs of {role}, which is {world(ask, role)}",
        f"set {ask.flag(f'{role}_num_gpus_per_node')} to a power of 2",
    )


def _refuse_remainder(ask: ParsedArgs, name: str, value: int, by: str, size: int) -> Line:
    lower, upper = value // size * size, (value // size + 1) * size
    return _never(f"{ask.flag(name)} {value} can't be divided by {by}", f"set {ask.flag(name)} to {f'{lower} or ' if lower else ''}{upper}")


def _shards(ask: ParsedArgs) -> Iterator[Line]:
    ring, tensor = ask("ring_attn_size"), ask("ds_tensor_parallel_size")
    if tensor > 1 and not (ask("param_dtype") == "bf16" if ask.since("0.9.2") else ask("bf16")):
        change = f"set {ask.flag('param_dtype')} to bf16" if ask.since("0.9.2") else "add --bf16"
        yield _never(f"{ask.flag('ds_tensor_parallel_size')} {tensor} needs bf16", change)
    if ring < 1 or tensor < 1 or ring * tensor == 1:
        return
    for role, there in (("actor", True), ("critic", has_critic(ask)), ("ref", has_ref(ask)), ("reward", has_reward(ask))):
        if there and world(ask, role) % (ring * tensor):
            sizes = f"{ask.flag('ring_attn_size')} {ring} × {ask.flag('ds_tensor_parallel_size')} {tensor}"
            yield _never(
                f"{sizes} must divide the {world(ask, role)} GPUs of {role}",
                f"set {ask.flag(f'{role}_num_gpus_per_node')} to a multiple of {ring * tensor}",
            )


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
            yield _refuse_remainder(ask, "train_batch_size", batch, by, step)
            return


def _rollouts(ask: ParsedArgs) -> Iterator[Line]:
    if not ask.since("0.7.2") or ask("micro_rollout_batch_size") < 1 or ask("ring_attn_size") < 1 or ask("ds_tensor_parallel_size") < 1:
        return
    split = ask("ring_attn_size") * (ask("ds_tensor_parallel_size") if ask.since("0.8.1") else 1)
    samples, micro = ask("n_samples_per_prompt") * ask("rollout_batch_size"), ask("micro_rollout_batch_size")
    processes = world(ask, "actor") // split
    if samples // micro < processes:
        yield _never(
            f"{samples} samples in micro batches of {micro} are {samples // micro} batches, fewer than the actor's {processes} processes",
            f"set {ask.flag('rollout_batch_size')} to {-(-processes * micro // ask('n_samples_per_prompt'))} or more"
            if ask("n_samples_per_prompt") > 0
            else None,
        )


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
    _sizes, _actor_and_ref, _critic_and_reward, _engines_and_actor, _guests, _sleep, _asynchronous, _models, _one_reward, _samples,
    _dynamic_filtering, _evaluation, _pictures, _without_engines, _old_worlds, _shards, _batches, _rollouts, _sync,
)  # fmt: skip
