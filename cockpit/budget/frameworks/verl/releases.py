"""Which releases of veRL a command can be for, told by the keys it sets, and what each release sets by itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from packaging.version import Version

from cockpit.budget.frameworks.hydra import Gap, Value

RELEASES = ("0.1", "0.2", "0.3", "0.4.0", "0.4.1", "0.5.0", "0.6.0", "0.6.1", "0.7.0", "0.7.1", "0.8.0", "0.9.0")
"""Those between which something changed that matters here; the last one stands for all that came after it."""
NEWEST = len(RELEASES) - 1

_ACTOR, _ROLLOUT, _MODEL = "actor_rollout_ref.actor", "actor_rollout_ref.rollout", "actor_rollout_ref.model"
_SINCE: Mapping[str, str] = {
    f"{_ACTOR}.kl_loss_coef {_ACTOR}.use_kl_loss {_ACTOR}.use_dynamic_bsz {_ACTOR}.ppo_micro_batch_size_per_gpu {_ACTOR}.kl_loss_type "
    f"{_ACTOR}.ulysses_sequence_parallel_size {_ACTOR}.ppo_max_token_len_per_gpu {_ACTOR}.fsdp_config.fsdp_size {_ROLLOUT}.n "
    f"{_ROLLOUT}.enable_chunked_prefill {_ROLLOUT}.log_prob_micro_batch_size_per_gpu {_MODEL}.use_remove_padding trainer.resume_mode "
    "critic.ppo_micro_batch_size_per_gpu reward_model.reward_manager trainer.total_training_steps": "0.2",
    f"{_ACTOR}.checkpoint {_ACTOR}.use_torch_compile {_ACTOR}.optim.lr_warmup_steps {_ROLLOUT}.val_kwargs {_ROLLOUT}.max_model_len "
    "custom_reward_function data.truncation data.filter_overlong_prompts data.image_key trainer.balance_batch "
    "trainer.max_actor_ckpt_to_keep": "0.3",
    f"{_ACTOR}.clip_ratio_high {_ACTOR}.clip_ratio_low {_ACTOR}.clip_ratio_c {_ACTOR}.loss_agg_mode {_ACTOR}.optim.weight_decay "
    f"{_ACTOR}.megatron.param_offload {_ACTOR}.megatron.context_parallel_size {_ACTOR}.megatron.expert_model_parallel_size "
    f"{_MODEL}.lora_rank {_MODEL}.use_fused_kernels {_MODEL}.trust_remote_code {_ROLLOUT}.mode {_ROLLOUT}.multi_turn trainer.device "
    "algorithm.use_kl_in_reward trainer.val_before_train trainer.log_val_generations data.custom_cls data.trust_remote_code": "0.4.0",
    f"{_ACTOR}.policy_loss {_ACTOR}.checkpoint.save_contents {_ACTOR}.entropy_checkpointing {_ROLLOUT}.calculate_log_probs "
    f"{_ROLLOUT}.multi_turn.max_assistant_turns {_ROLLOUT}.multi_turn.max_user_turns {_ACTOR}.optim.lr_decay_style": "0.4.1",
    f"{_ROLLOUT}.agent {_ROLLOUT}.trace {_ACTOR}.megatron.use_mbridge {_MODEL}.exclude_modules data.return_multi_modal_inputs "
    "data.dataloader_num_workers trainer.use_legacy_worker_impl": "0.5.0",
    f"global_profiler ray_kwargs {_ROLLOUT}.data_parallel_size {_ROLLOUT}.expert_parallel_size {_ROLLOUT}.enable_prefix_caching "
    f"{_ACTOR}.fsdp_config.model_dtype {_ACTOR}.fsdp_config.strategy {_ACTOR}.fsdp_config.ulysses_sequence_parallel_size "
    f"{_ACTOR}.optim.lr_scheduler_type {_ACTOR}.profiler.enable critic.enable reward_model.enable_resource_pool reward_model.nnodes "
    "reward_model.n_gpus_per_node": "0.6.0",
    f"algorithm.rollout_correction transfer_queue data.train_max_samples data.val_max_samples {_ROLLOUT}.prometheus data.seed "
    f"{_ACTOR}.fsdp_config.dtype {_ACTOR}.megatron.dtype {_ACTOR}.optim.optimizer_impl {_MODEL}.lora_adapter_path": "0.6.1",
    f"{_ACTOR}.megatron.vanilla_mbridge {_ACTOR}.megatron.use_remove_padding {_ACTOR}.router_replay {_ACTOR}.calculate_entropy "
    f"{_ACTOR}.loss_scale_factor {_MODEL}.lora {_MODEL}.tiled_mlp {_ROLLOUT}.quantization {_ROLLOUT}.enable_rollout_routing_replay "
    f"{_ROLLOUT}.logprobs_mode reward_model.num_workers reward_model.rollout reward_model.use_reward_loop reward_manager": "0.7.0",
    f"reward {_ROLLOUT}.checkpoint_engine {_ROLLOUT}.nnodes {_ROLLOUT}.n_gpus_per_node {_MODEL}.mtp {_ACTOR}.use_prefix_grouper "
    f"{_ACTOR}.qat {_ROLLOUT}.scheduling_policy model_engine": "0.7.1",
    f"distillation critic.fsdp {_ROLLOUT}.disaggregation data.audio_key {_ACTOR}.megatron.use_megatron_fsdp": "0.8.0",
    "trainer.use_v1 trainer.v1 skip": "0.9.0",
}
_UNTIL: Mapping[str, str] = {
    f"{_ACTOR}.fsdp_config.grad_offload critic.model.fsdp_config.grad_offload trainer.remove_previous_ckpt_in_save": "0.2",
    "trainer.val_generations_to_log_to_wandb actor_rollout_ref.ref.param_offload": "0.3",
    f"{_ACTOR}.checkpoint.contents {_ROLLOUT}.chat_scheduler {_ROLLOUT}.multi_turn.max_turns": "0.4.0",
    f"critic.kl_ctrl {_ROLLOUT}.use_fire_sampling": "0.4.1",
    f"ray_init {_ACTOR}.profile trainer.npu_profile trainer.profile_steps trainer.controller_nsight_options "
    f"{_ROLLOUT}.multi_turn.completion_callback {_ROLLOUT}.engine_kwargs.vllm.disable_mm_preprocessor_cache": "0.5.0",
    "algorithm.rollout_is": "0.6.0",
    "reward_model.strategy reward_model.micro_batch_size reward_model.micro_batch_size_per_gpu reward_model.model.fsdp_config "
    "reward_model.use_dynamic_bsz reward_model.model.use_remove_padding reward_model.model.input_tokenizer reward_model.max_length "
    "reward_model.launch_reward_fn_async reward_model.forward_max_token_len_per_gpu reward_model.use_reward_loop reward_manager": "0.7.0",
    "critic.model.fsdp_config trainer.use_legacy_worker_impl": "0.7.1",
    # The keys are there still, and nothing reads them any more.
    "reward_model.enable reward_model.enable_resource_pool": "0.8.0",
}


@lru_cache(256)
def release(name: str) -> int:
    """A release's place in `RELEASES`: of one between two, that of the earlier; of one in the making, that of what it will be."""
    number = Version(Version(name).base_version)
    return max((place for place, each in enumerate(RELEASES) if Version(each) <= number), default=0)


def _ends(table: Mapping[str, str]) -> dict[str, int]:
    return {key: release(name) for keys, name in table.items() for key in keys.split()}


_FIRST, _LAST = _ends(_SINCE), _ends(_UNTIL)


def releases_with_keys(keys: Iterable[str], first: int, last: int) -> tuple[int, int, tuple[str, str] | None]:
    """The first and the last release that has all keys, and of two keys that no release has together, both.

    A key that no release from `first` to `last` has tells nothing.
    """
    since = max(((max(_along(key, _FIRST), default=0), key) for key in sorted(keys)), default=(0, ""))
    until = min(((min(_along(key, _LAST), default=NEWEST), key) for key in sorted(keys)), default=(NEWEST, ""))
    if since[0] > until[0]:
        return first, last, (since[1], until[1])
    if since[0] > last or until[0] < first:
        return first, last, None
    return max(first, since[0]), min(last, until[0]), None


def _along(key: str, table: Mapping[str, int]) -> list[int]:
    """What a table says of a key and of the keys that it lies in."""
    parts = key.split(".")
    names = (".".join(parts[:number]) for number in range(1, len(parts) + 1))
    return [table[name] for name in names if name in table]


def span_in_words(first: int, last: int) -> str | None:
    """`0.7.0 and later`; `None`: any release."""
    if (first, last) == (0, NEWEST):
        return None
    if last == NEWEST:
        return f"{RELEASES[first]} and later"
    return f"up to {RELEASES[last]}" if first == 0 else RELEASES[first] if first == last else f"{RELEASES[first]} to {RELEASES[last]}"


_DEFAULTS: Mapping[str, tuple[tuple[str, Value], ...]] = {
    "trainer.nnodes": (("0.1", 1),),
    "trainer.n_gpus_per_node": (("0.1", 8),),
    "trainer.device": (("0.1", "cuda"),),
    "trainer.use_v1": (("0.9.0", True),),
    "trainer.v1.trainer_mode": (("0.9.0", "sync"),),
    "transfer_queue.backend.storage_backend": (("0.8.0", "SimpleStorage"),),
    "transfer_queue.backend.SimpleStorage.num_data_storage_units": (("0.8.0", 8),),
    "data.train_batch_size": (("0.1", 1024),),
    "algorithm.adv_estimator": (("0.1", "gae"),),
    "algorithm.use_kl_in_reward": (("0.4.0", False),),
    "critic.enable": (("0.6.0", None),),
    "reward_model.enable": (("0.1", False), ("0.7.1", None)),
    "reward_model.enable_resource_pool": (("0.6.0", False), ("0.7.1", None)),
    "reward_model.micro_batch_size": (("0.2", None),),
    "reward_model.micro_batch_size_per_gpu": (("0.2", None),),
    "reward_model.use_dynamic_bsz": (("0.2", "${critic.use_dynamic_bsz}"),),
    "critic.use_dynamic_bsz": (("0.2", f"${{{_ACTOR}.use_dynamic_bsz}}"),),
    "reward_model.nnodes": (("0.6.0", 0), ("0.7.1", None)),
    "reward_model.n_gpus_per_node": (("0.6.0", 0), ("0.7.0", 8), ("0.7.1", None)),
    "reward.reward_model.enable": (("0.7.1", False),),
    "reward.reward_model.enable_resource_pool": (("0.7.1", False),),
    "reward.reward_model.nnodes": (("0.7.1", 0),),
    "reward.reward_model.n_gpus_per_node": (("0.7.1", 8),),
    "reward.reward_model.rollout.tensor_model_parallel_size": (("0.7.1", 2),),
    "reward.reward_model.rollout.data_parallel_size": (("0.7.1", 1),),
    "reward.reward_model.rollout.pipeline_model_parallel_size": (("0.7.1", 1),),
    "distillation.enabled": (("0.8.0", False),),
    "distillation.nnodes": (("0.8.0", 0),),
    "distillation.n_gpus_per_node": (("0.8.0", 8),),
    f"{_ROLLOUT}.mode": (("0.4.0", "sync"), ("0.7.0", "async")),
    f"{_ROLLOUT}.n": (("0.2", 1),),
    f"{_ROLLOUT}.tensor_model_parallel_size": (("0.1", 2),),
    f"{_ROLLOUT}.data_parallel_size": (("0.6.0", 1),),
    f"{_ROLLOUT}.pipeline_model_parallel_size": (("0.6.0", 1),),
    f"{_ROLLOUT}.nnodes": (("0.7.1", 0),),
    f"{_ROLLOUT}.gpu_memory_utilization": (("0.1", 0.5),),
    f"{_ROLLOUT}.free_cache_engine": (("0.1", True),),
    f"{_ROLLOUT}.n_gpus_per_node": (("0.7.1", "${trainer.n_gpus_per_node}"),),
    f"{_ROLLOUT}.log_prob_micro_batch_size": (("0.1", 128), ("0.2", None)),
    f"{_ROLLOUT}.log_prob_micro_batch_size_per_gpu": (("0.2", None),),
    f"{_ACTOR}.strategy": (("0.1", "fsdp"),),
    f"{_ACTOR}.use_dynamic_bsz": (("0.2", False),),
    f"{_ACTOR}.use_kl_loss": (("0.2", False),),
    f"{_ACTOR}.ppo_mini_batch_size": (("0.1", 256),),
    f"{_ACTOR}.ppo_micro_batch_size": (("0.1", 64), ("0.2", None)),
    f"{_ACTOR}.ppo_micro_batch_size_per_gpu": (("0.2", None),),
    f"{_ACTOR}.ulysses_sequence_parallel_size": (("0.2", 1),),
}
"""What the shipped trainer configuration says, since when."""
_MEGATRON: Mapping[str, tuple[tuple[str, Value], ...]] = {
    f"{_ACTOR}.strategy": (("0.1", "megatron"),),
    f"{_ROLLOUT}.tensor_model_parallel_size": (("0.1", 2), ("0.4.0", 1), ("0.6.0", 2)),
    f"{_ACTOR}.megatron.tensor_model_parallel_size": (("0.1", 4), ("0.4.0", 1)),
    f"{_ACTOR}.megatron.pipeline_model_parallel_size": (("0.1", 1),),
    f"{_ACTOR}.megatron.context_parallel_size": (("0.4.0", 1),),
}
"""Where the one for Megatron says something else."""


def default(key: str, place: int, megatron: bool = False) -> Value | Gap:
    """What a release's own configuration says of a key; `Gap.ABSENT`: it has no such key, or it isn't known here."""
    known = _MEGATRON.get(key, _DEFAULTS.get(key, ())) if megatron else _DEFAULTS.get(key, ())
    values = [value for since, value in known if release(since) <= place]
    return values[-1] if values else Gap.ABSENT
