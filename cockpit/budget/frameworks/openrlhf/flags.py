"""Which flags every published OpenRLHF has: from which release to which, of what kind, and the defaults that matter here."""

from __future__ import annotations

_RELEASES = """
0.3.0 0.3.1 0.3.2 0.3.3 0.3.4 0.3.5 0.3.6 0.3.7 0.3.8 0.4.0 0.4.1 0.4.2 0.4.3 0.4.4 0.4.5 0.4.6 0.5.0 0.5.1 0.5.2 0.5.2.post1
0.5.3 0.5.4 0.5.5 0.5.5.post1 0.5.5.post2 0.5.6 0.5.7 0.5.8 0.5.9 0.5.9.post1 0.6.0 0.6.0.post1 0.6.0.post2 0.6.0.post3 0.6.1
0.6.1.post1 0.6.2 0.6.3 0.6.3.post2 0.6.4 0.7.0 0.7.0.post1 0.7.1 0.7.1.post1 0.7.1.post2 0.7.2 0.7.2.post1 0.7.3 0.7.4
0.7.4.post1 0.7.4.post2 0.7.5 0.8.0 0.8.0.post1 0.8.1 0.8.1.post1 0.8.2 0.8.3 0.8.4 0.8.5 0.8.6 0.8.7 0.8.8 0.8.9 0.8.9.post1
0.8.10 0.8.11 0.9.0 0.9.1 0.9.1.post1 0.9.2 0.9.3 0.9.4 0.9.5 0.9.6 0.9.7 0.9.8 0.9.9 0.9.10 0.10.0 0.10.1 0.10.1.post1
0.10.1.post2 0.10.2 0.10.3 0.10.4 0.11.0 0.11.1 0.11.2
"""
RELEASES = tuple(_RELEASES.split())
"""All from 0.3.0 on, but those that a post release repeats without a change."""

TABLE = """
0.3.0 0.3.5 float=0.02 init_kl_coef
0.3.0 0.3.5 int=512 rollout_batch_size
0.3.0 0.5.4 flag disable_trace_cache
0.3.0 0.7.0.post1 str pretrain_data pretrain_data_probs
0.3.0 0.8.9.post1 flag flash_attn
0.3.0 0.9.1.post1 flag bf16
0.3.0 0.9.7 int generate_max_len prompt_max_len
0.3.0 0.9.10 int=4 micro_train_batch_size
0.3.0 0.9.10 int=8 micro_rollout_batch_size
0.3.0 0.10.1.post2 flag actor_init_on_gpu adam_offload colocate_actor_ref colocate_critic_reward disable_fast_tokenizer enable_ema
  gradient_checkpointing gradient_checkpointing_use_reentrant load_checkpoint load_in_4bit normalize_reward perf ref_reward_offload
0.3.0 0.10.1.post2 float actor_learning_rate aux_loss_coef critic_learning_rate eps_clip gamma kl_target l2 lambd lora_dropout max_norm
  ptx_coef top_p value_clip
0.3.0 0.10.1.post2 int eval_steps logging_steps lora_alpha lora_rank max_epochs max_len max_samples num_episodes save_steps seed
  vllm_num_engines zpg
0.3.0 0.10.1.post2 int=1 actor_num_nodes critic_num_nodes ref_num_nodes reward_num_nodes vllm_tensor_parallel_size
0.3.0 0.10.1.post2 int=128 train_batch_size
0.3.0 0.10.1.post2 int=2 zero_stage
0.3.0 0.10.1.post2 int=8 actor_num_gpus_per_node critic_num_gpus_per_node ref_num_gpus_per_node reward_num_gpus_per_node
0.3.0 0.10.1.post2 str grad_accum_dtype input_key input_template pretrain prompt_data prompt_data_probs reward_pretrain save_path
  use_wandb wandb_group wandb_org wandb_project wandb_run_name
0.3.0 0.10.1.post2 str** target_modules
0.3.0 - int local_rank
0.3.1 0.3.5 str head_prefix
0.3.1 0.5.2 str=nccl vllm_sync_backend
0.3.1 0.10.1.post2 flag apply_chat_template
0.3.2 0.10.1.post2 flag enable_prefix_caching save_value_network
0.3.2 0.10.1.post2 int freezing_actor_steps
0.3.2 0.10.1.post2 int=1 n_samples_per_prompt
0.3.2 0.10.1.post2 str critic_pretrain
0.3.6 0.6.4 str prompt_split
0.3.6 0.7.0.post1 str pretrain_split
0.3.6 0.10.1.post2 float*2 adam_betas
0.3.6 0.10.1.post2 float=0.01 init_kl_coef
0.3.6 0.10.1.post2 int=1024 rollout_batch_size
0.3.6 0.10.1.post2 str value_head_prefix
0.4.0 0.9.8 int max_ckpt_mem
0.4.0 0.10.1.post2 int max_ckpt_num
0.4.0 0.10.1.post2 str ckpt_path remote_rm_url
0.4.4 0.10.1.post2 flag enforce_eager packing_samples
0.4.4 0.10.1.post2 str use_tensorboard
0.4.6 0.6.0 flag use_kl_estimator_k3
0.4.6 0.10.1.post2 float temperature
0.4.6 0.10.1.post2 float*2 reward_clip_range
0.5.1 0.5.2.post1 str{gae|reinforce}=gae advantage_estimator
0.5.2.post1 0.5.4 str=gloo vllm_sync_backend
0.5.3 0.5.9.post1 str{gae|reinforce|rloo}=gae advantage_estimator
0.5.3 0.10.1.post2 float lr_warmup_ratio
0.5.5 0.10.1.post2 flag overlap_comm
0.5.5 0.10.1.post2 str=nccl vllm_sync_backend
0.5.7 0.10.1.post2 flag disable_ds_ckpt save_hf_ckpt vllm_sync_with_ray
0.5.8 0.6.3.post2 float=0.9 vllm_gpu_memory_utilization
0.5.8 0.10.1.post2 flag colocate_all_models vllm_enable_sleep
0.5.9.post1 - flag use_ms
0.6.0 0.6.3 str{gae|reinforce|rloo|reinforce_baseline|group_norm}=gae advantage_estimator
0.6.0 0.10.1.post2 flag use_kl_loss
0.6.0 0.10.1.post2 int ring_head_stride
0.6.0 0.10.1.post2 int=1 ring_attn_size
0.6.0 0.10.1.post2 str label_key
0.6.0.post1 0.10.1.post2 flag deepspeed_enable_sleep
0.6.0.post1 0.10.1.post2 str{k1|k2|k3} kl_estimator
0.6.2 0.7.0.post1 flag torch_compile
0.6.2 0.10.1.post2 flag full_determinism use_liger_kernel
0.6.3 0.6.3.post2 flag universal_ckpt
0.6.3.post2 0.10.1.post2 str{gae|reinforce|rloo|reinforce_baseline|group_norm|dr_grpo}=gae advantage_estimator
0.6.4 0.10.1.post2 flag no_advantage_std_norm use_ds_universal_ckpt
0.6.4 0.10.1.post2 float=0.95 vllm_gpu_memory_utilization
0.7.0 0.10.1.post2 float eval_temperature
0.7.0 0.10.1.post2 int eval_n_samples_per_prompt
0.7.0 0.10.1.post2 str eval_dataset
0.7.1 0.10.1.post2 flag deepcompile
0.7.1 0.10.1.post2 float ema_beta
0.7.1 0.10.1.post2 int kl_horizon
0.7.2 0.10.1.post2 float entropy_loss_coef
0.7.4 0.10.1.post2 int=1 ds_tensor_parallel_size
0.7.4 0.10.1.post2 str eval_split prompt_split
0.8.0 0.10.1.post2 flag async_train
0.8.0 0.10.1.post2 str agent_func_path
0.8.1 0.8.1 str*2=0,1 dynamic_filtering_reward_range
0.8.1 0.10.1.post2 flag dynamic_filtering
0.8.1 0.10.1.post2 int vllm_generate_batch_size
0.8.1.post1 0.10.1.post2 float*2=0,1 dynamic_filtering_reward_range
0.8.2 0.10.1.post2 float*2 eps_clip_low_high
0.8.5 0.10.1.post2 str lr_scheduler
0.8.6 0.10.1.post2 flag use_dynamic_batch
0.8.6 0.10.1.post2 float dual_clip
0.8.6 0.10.1.post2 int rollout_max_tokens_per_gpu train_max_tokens_per_gpu
0.8.7 0.10.1.post2 float overlong_buffer_len overlong_penalty_factor
0.8.8 0.10.1.post2 str{ppo|gspo} policy_loss_type
0.8.9 0.9.0 float vllm_is_truncated_threshold
0.8.9 0.10.1.post2 flag enable_vllm_is_correction
0.8.10 0.10.1.post2 str attn_implementation
0.9.1 0.9.2 flag use_icepop
0.9.1 0.10.1.post2 float*2 vllm_is_truncated_threshold
0.9.1 0.10.1.post2 int async_queue_size
0.9.2 0.10.1.post2 float stop_properly_penalty_coef
0.9.2 0.10.1.post2 str{bf16|fp16}=bf16 param_dtype
0.9.3 0.9.3 str{tis|icepop|mis} vllm_is_correction_type
0.9.4 0.10.1.post2 str{tis|icepop|seq-mask-tis} vllm_is_correction_type
0.9.7 0.10.1.post2 flag partial_rollout
0.9.8 0.10.1.post2 int max_new_tokens
0.9.9 0.10.1.post2 float max_ckpt_mem
0.9.9 0.10.1.post2 str best_metric_key
0.9.10 0.10.1.post2 int dataloader_num_workers
0.10.0 0.10.1.post2 flag freeze_visual_encoder
0.10.0 0.10.1.post2 int=0 max_images_per_prompt
0.10.0 0.10.1.post2 int=1 micro_rollout_batch_size micro_train_batch_size
0.10.0 0.10.1.post2 str image_key
0.10.2 0.11.1 flag algo.advantage.is_correction_enable
0.10.2 0.11.1 float*2 algo.advantage.is_correction_threshold
0.10.2 0.11.1 str{gae|reinforce|rloo|reinforce_baseline|group_norm|dr_grpo}=gae algo.advantage.estimator
0.10.2 0.11.1 str{tis|icepop|seq-mask-tis} algo.advantage.is_correction_type
0.10.2 - flag actor.freeze_visual_encoder actor.gradient_checkpointing_enable actor.gradient_checkpointing_reentrant
  algo.advantage.no_std_norm algo.dynamic_filtering_enable algo.kl.use_loss ckpt.disable_ds ckpt.load_enable ckpt.save_hf
  critic.save_value_network data.apply_chat_template data.disable_fast_tokenizer ds.adam_offload ds.deepcompile ds.enable_sleep
  ds.load_in_4bit ds.overlap_comm ds.packing_samples ds.use_liger_kernel ds.use_universal_ckpt ref.offload reward.normalize_enable
  reward.offload train.async_enable train.colocate_actor_ref train.colocate_all train.colocate_critic_reward train.dynamic_batch_enable
  train.enable_ema train.full_determinism_enable train.partial_rollout_enable vllm.enable_prefix_caching vllm.enable_sleep
  vllm.enforce_eager vllm.sync_with_ray
0.10.2 - flag=1 actor.muon.nesterov critic.muon.nesterov
0.10.2 - float actor.adam.eps actor.adam.lr actor.adam.weight_decay actor.aux_loss_coef actor.dual_clip actor.entropy_coef actor.eps_clip
  actor.lr_warmup_ratio actor.max_norm actor.min_lr_ratio actor.muon.lr actor.muon.momentum algo.advantage.gamma algo.advantage.lambd
  algo.kl.target ckpt.max_mem critic.adam.eps critic.adam.lr critic.adam.weight_decay critic.lr_warmup_ratio critic.max_norm
  critic.min_lr_ratio critic.muon.lr critic.muon.momentum critic.value_clip ds.lora.dropout eval.temperature reward.overlong_buffer_len
  reward.overlong_penalty_factor reward.stop_properly_penalty_coef rollout.temperature rollout.top_p train.ema_beta
0.10.2 - float*2 actor.adam.betas actor.eps_clip_low_high critic.adam.betas reward.clip_range
0.10.2 - float*2=0,1 algo.dynamic_filtering_range
0.10.2 - float=0.01 algo.kl.init_coef
0.10.2 - float=0.95 vllm.gpu_memory_utilization
0.10.2 - int actor.muon.ns_steps algo.kl.horizon ckpt.max_num ckpt.save_steps critic.freezing_steps critic.muon.ns_steps
  data.dataloader_num_workers data.max_len data.max_samples ds.lora.alpha ds.lora.rank ds.ring_attn_head_stride ds.zpg
  eval.n_samples_per_prompt eval.steps logger.logging_steps rollout.max_new_tokens rollout.max_tokens_per_gpu
  rollout.vllm_generate_batch_size train.async_queue_size train.max_epochs train.max_tokens_per_gpu train.num_episodes train.seed
  vllm.num_engines
0.10.2 - int=0 data.max_images_per_prompt
0.10.2 - int=1 actor.num_nodes critic.num_nodes ds.ring_attn_size ds.tensor_parallel_size ref.num_nodes reward.num_nodes
  rollout.micro_batch_size rollout.n_samples_per_prompt train.micro_batch_size vllm.tensor_parallel_size
0.10.2 - int=1024 rollout.batch_size
0.10.2 - int=128 train.batch_size
0.10.2 - int=2 ds.zero_stage
0.10.2 - int=8 actor.num_gpus_per_node critic.num_gpus_per_node ref.num_gpus_per_node reward.num_gpus_per_node
0.10.2 - off:actor.muon.nesterov actor.muon.no_nesterov
0.10.2 - off:critic.muon.nesterov critic.muon.no_nesterov
0.10.2 - str actor.lr_scheduler actor.model_name_or_path ckpt.best_metric_key ckpt.output_dir ckpt.path critic.lr_scheduler
  critic.model_name_or_path data.image_key data.input_key data.input_template data.label_key data.prompt_dataset data.prompt_probs
  data.prompt_split ds.attn_implementation ds.grad_accum_dtype ds.value_head_prefix eval.dataset eval.split logger.tensorboard_dir
  logger.wandb.group logger.wandb.key logger.wandb.org logger.wandb.project logger.wandb.run_name reward.model_name_or_path
  reward.remote_url train.agent_func_path
0.10.2 - str** ds.lora.target_modules
0.10.2 - str=nccl vllm.sync_backend
0.10.2 - str{adam|muon} actor.optim critic.optim
0.10.2 - str{bf16|fp16}=bf16 ds.param_dtype
0.10.2 - str{eager|batched_mm|grouped_mm|deepgemm} ds.experts_implementation
0.10.2 - str{k1|k2|k3} algo.kl.estimator
0.10.2 - str{ppo|gspo} actor.policy_loss_type
0.11.1 - flag algo.kl.unbiased_gradient
0.11.2 - float*+ algo.advantage.is_correction_threshold
0.11.2 - str{gae|reinforce|rloo|reinforce_baseline|group_norm|dr_grpo|flash_reinforce}=gae algo.advantage.estimator
0.11.2 - str{mask|clip} algo.advantage.is_correction_mode
0.11.2 - str{off|token|seq} algo.advantage.is_correction_level
0.11.2 - str{ratio|binary_kl|tv} algo.advantage.is_correction_gating
0.11.2 - str{token-mean|seq-mean-token-mean} actor.loss_agg_mode
"""
"""First and last release (`-`: still there), type with its number of values (`*`), choices and default; then the flags."""

NAMES = {
    "actor.num_nodes": "actor_num_nodes",
    "actor.num_gpus_per_node": "actor_num_gpus_per_node",
    "ref.num_nodes": "ref_num_nodes",
    "ref.num_gpus_per_node": "ref_num_gpus_per_node",
    "critic.num_nodes": "critic_num_nodes",
    "critic.num_gpus_per_node": "critic_num_gpus_per_node",
    "reward.num_nodes": "reward_num_nodes",
    "reward.num_gpus_per_node": "reward_num_gpus_per_node",
    "train.colocate_actor_ref": "colocate_actor_ref",
    "train.colocate_critic_reward": "colocate_critic_reward",
    "train.colocate_all": "colocate_all_models",
    "vllm.num_engines": "vllm_num_engines",
    "vllm.tensor_parallel_size": "vllm_tensor_parallel_size",
    "vllm.sync_backend": "vllm_sync_backend",
    "vllm.enable_sleep": "vllm_enable_sleep",
    "vllm.gpu_memory_utilization": "vllm_gpu_memory_utilization",
    "train.async_enable": "async_train",
    "ds.enable_sleep": "deepspeed_enable_sleep",
    "ds.zero_stage": "zero_stage",
    "ds.adam_offload": "adam_offload",
    "ds.tensor_parallel_size": "ds_tensor_parallel_size",
    "ds.ring_attn_size": "ring_attn_size",
    "ds.packing_samples": "packing_samples",
    "algo.kl.init_coef": "init_kl_coef",
    "algo.advantage.estimator": "advantage_estimator",
    "reward.remote_url": "remote_rm_url",
    "train.agent_func_path": "agent_func_path",
    "actor.model_name_or_path": "pretrain",
    "reward.model_name_or_path": "reward_pretrain",
    "critic.model_name_or_path": "critic_pretrain",
    "train.batch_size": "train_batch_size",
    "train.micro_batch_size": "micro_train_batch_size",
    "rollout.batch_size": "rollout_batch_size",
    "rollout.micro_batch_size": "micro_rollout_batch_size",
    "rollout.n_samples_per_prompt": "n_samples_per_prompt",
    "train.dynamic_batch_enable": "use_dynamic_batch",
}
"""Since 0.10.2 flags have dots: what those that matter here were called before, and are called here."""
