"""Lists the phase of each method of the frameworks' actors, with its source."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Literal

import msgspec

from cockpit.model import Phase

Kind = Literal["work", "overlapping", "helper", "whole", "brief"]
"""How far a title with the method can be trusted.

`work`: the title shows the method as long as it runs. `overlapping`: the actor is asynchronous or threaded, so its title becomes idle as
soon as any of its calls ends. `helper`: the method also runs during other phases, and counts only if nothing else runs. `whole`: it runs
for the whole job or hides what it does, so it has no phase. `brief`: it takes a moment between two phases, and has no phase."""


class Method(msgspec.Struct, frozen=True):
    """Methods of a class that belong to the same phase."""

    framework: str
    classes: str
    """The names of the classes, separated by spaces; `*` stands for any text."""
    methods: str
    """The names of the methods, written as in `classes`."""
    phase: Phase | None
    source: str
    """File and line in the code of the framework."""
    kind: Kind = "work"
    mark: int = 0
    """Above 0: the end of the method ends a step. If a job has several such methods, the highest number counts. 0: it ends no step."""
    needs_gpu: bool = False
    """The method also waits for its data, so it does not count while no GPU of the job works."""
    hides: bool = False
    """The method has parts that belong to other phases. Only the log shows when they run."""


VERL_KEYS: Final = ("actor_rollout_ref_", "actor_rollout_", "critic_", "rollout_", "teacher_", "actor_", "ref_", "rm_")
"""One class of veRL has methods of several roles, each with its role before the name (single_controller/ray/base.py). Longest first."""
_VERL = "WorkerDict DetachActorWorker"
_OPENRLHF_TRAIN = "PolicyModelActor CriticModelActor CriticModelRayActor"
_OPENRLHF_ENGINE = "LLMRayActor LLMRayActorAsync RolloutRayActor"
_MEGATRON = "MegatronTrainRayActor FSDPTrainRayActor"
_SKYRL = "*PolicyRayActorBase *CriticRayActorBase *RefRayActorBase *PolicyWorkerBase *CriticWorkerBase *RefWorkerBase"
_SKYRL_ENGINE = "VLLMInferenceEngine AsyncVLLMInferenceEngine SGLangInferenceEngine"
_NEMO = "DTensorPolicyWorker* MegatronPolicyWorker* FSDP1PolicyWorker* DTensorValueWorker* MegatronValueWorker*"
_NEMO_ENGINE = "VllmGenerationWorker* VllmAsyncGenerationWorker* SGLangGenerationWorker*"
_ROLL = "ActorWorker CriticWorker InferWorker"

METHODS: Final[tuple[Method, ...]] = (
    # veRL, also EasyR1 and rLLM, which use its classes
    Method("veRL", _VERL, "init_model", "loading", "verl v0.2 workers/fsdp_workers.py:333"),
    Method("veRL", _VERL, "generate_sequences", "rollout", "verl v0.2 workers/fsdp_workers.py:454; also synchronises weights there"),
    Method("veRL", _VERL, "compute_log_prob compute_log_probs", "scoring", "verl v0.2 workers/fsdp_workers.py:494; EasyR1 fsdp_workers.py"),
    Method("veRL", _VERL, "compute_ref_log_prob compute_ref_log_probs", "scoring", "verl v0.2 workers/fsdp_workers.py:531"),
    Method("veRL", _VERL, "compute_values compute_rm_score infer_batch", "scoring", "verl v0.2 workers/fsdp_workers.py:775,1100; v0.9 engine_workers.py:392"),
    Method("veRL", _VERL, "update_actor", "training", "verl v0.2 workers/fsdp_workers.py:409; v0.9 engine_workers.py:705", mark=1),
    Method("veRL", _VERL, "update_critic train_mini_batch train_batch", "training", "verl v0.2 workers/fsdp_workers.py:800; v0.9 engine_workers.py:242,337"),
    Method("veRL", _VERL, "update_weights execute_checkpoint_engine", "weight sync", "verl v0.9 workers/engine_workers.py:720,808", mark=2),
    Method("veRL", _VERL, "wake_up prepare_rollout_engine", "weight sync", "verl v0.4-0.7.0; EasyR1 fsdp_workers.py:409-720"),
    Method("veRL", _VERL, "sleep release_rollout_engine", None, "verl v0.4-0.7.0; EasyR1 fsdp_workers.py", "brief"),
    Method("veRL", _VERL, "generate chat_completion execute_method", "rollout", "verl v0.4 vllm_async_server.py", "overlapping"),
    Method("veRL", _VERL, "save_checkpoint load_checkpoint", "checkpoint", "verl v0.2 workers/fsdp_workers.py:558"),
    Method("veRL", _VERL, "to set_loss_fn reset start_profile stop_profile dump_memory_snapshot", None, "verl v0.9 engine_workers.py", "brief"),
    Method("veRL", _VERL, "execute_with_func_generator execute_func_rank_zero __ray_call__", None, "verl base/worker.py:321,336", "whole"),
    Method("veRL", "FusedWorker_*", "_fuw_execute", None, "verl v0.9 single_controller/ray/base.py:1041; it hides the method", "whole"),
    Method("veRL", "TaskRunner TaskRunnerV1 OneStepTaskRunner FullyAsyncTaskRunner VerlTaskRunner PipelineTaskRunner Runner", "run", None,
           "verl v0.9 trainer/main_ppo.py:103; EasyR1 trainer/main.py:30", "whole"),
    Method("veRL", "FullyAsyncRollouter FullyAsyncTrainer", "fit", None, "verl v0.9 experimental/fully_async_policy", "whole"),
    Method("veRL", "", "main_task", None, "verl v0.2 trainer/main_ppo.py:36", "whole"),
    Method("veRL", "AgentLoopWorker AgentLoopWorkerBase AgentLoopWorkerTQ AsyncAgentLoopWorker", "generate_sequences", "rollout",
           "verl v0.9 experimental/agent_loop/agent_loop.py:581", "overlapping"),
    Method("veRL", "vLLMHttpServer SGLangHttpServer TRTLLMHttpServer AsyncvLLMServer AsyncSGLangServer", "launch_server init_engine", "loading",
           "verl v0.9 vllm_async_server.py:240"),
    Method("veRL", "vLLMHttpServer SGLangHttpServer TRTLLMHttpServer AsyncvLLMServer AsyncSGLangServer", "generate chat_completion", "rollout",
           "verl v0.9 vllm_async_server.py:511", "overlapping"),
    Method("veRL", "vLLMHttpServer SGLangHttpServer TRTLLMHttpServer AsyncvLLMServer AsyncSGLangServer",
           "wake_up sleep release_kv_cache resume_kv_cache wait_for_requests_to_drain abort_all_requests resume_generation clear_kv_cache", None,
           "verl v0.9 vllm_async_server.py:770-893", "brief"),
    Method("veRL", "CheckpointEngineWorker", "update_weights execute_checkpoint_engine", "weight sync", "verl v0.9 checkpoint_engine/base.py:335,344", mark=2),
    Method("veRL", "RewardLoopWorker RewardLoopManager RewardManagerWorker", "compute_score*", "scoring", "verl v0.9 reward_loop.py:93-145", "helper"),
    Method("EasyR1", "AutoRewardManager BatchFunctionRewardManager SequentialFunctionRewardManager", "compute_reward", "scoring", "EasyR1 trainer/main.py", "helper"),
    # OpenRLHF
    Method("OpenRLHF", "*ModelActor *ModelRayActor", "init_model_from_pretrained", "loading", "OpenRLHF v0.11.0 trainer/ray/launcher.py"),
    Method("OpenRLHF", "ReferenceModel* RewardModel*", "execute_batch forward", "scoring", "OpenRLHF v0.11.0 trainer/ray/launcher.py:67"),
    Method("OpenRLHF", "PolicyModelActor CriticModelActor ActorModelRayActor CriticModelRayActor", "execute_batch forward", "scoring",
           "OpenRLHF v0.11.0 trainer/ray/launcher.py:67; handing over data has the same title for a moment"),
    Method("OpenRLHF", _OPENRLHF_TRAIN, "fit", "training", "OpenRLHF v0.11.0 trainer/ppo_trainer.py:270-295", mark=1),
    Method("OpenRLHF", "ActorModelRayActor", "fit", None, "OpenRLHF v0.6.4 trainer/ray/ppo_actor.py:795; it runs for the whole job", "whole"),
    Method("OpenRLHF", "PolicyModelActor ActorModelRayActor", "broadcast_to_vllm", "weight sync", "OpenRLHF v0.11.0 trainer/ray/ppo_actor.py", mark=2),
    Method("OpenRLHF", _OPENRLHF_ENGINE, "update_weight update_weight_cuda_ipc init_process_group", "weight sync",
           "OpenRLHF v0.11.0 trainer/ray/vllm_engine.py", mark=2),
    Method("OpenRLHF", "*ModelActor *ModelRayActor " + _OPENRLHF_ENGINE,
           "reload_states offload_states sleep wake_up empty_cache reset_prefix_cache pause_generation resume_generation append", None,
           "OpenRLHF v0.11.0 trainer/ray/vllm_engine.py", "brief"),
    Method("OpenRLHF", _OPENRLHF_ENGINE, "add_requests generate", "rollout", "OpenRLHF v0.8.11 trainer/ray/vllm_engine.py"),
    Method("OpenRLHF", _OPENRLHF_ENGINE, "generate_responses get_responses", "rollout", "OpenRLHF v0.11.0 trainer/ray/vllm_engine.py:34", "overlapping"),
    Method("OpenRLHF", "*ModelActor *ModelRayActor", "save_checkpoint save_model", "checkpoint", "OpenRLHF v0.11.0 trainer/ray/ppo_actor.py"),
    Method("OpenRLHF", "PPOTrainer PPOTrainerAsync GenerateSamplesActor TrainingActor", "fit", None, "OpenRLHF v0.11.0 trainer/ppo_trainer.py:445", "whole"),
    # slime and miles
    Method("slime", "RolloutManager RolloutController", "generate", "rollout", "slime ray/rollout.py:492; v0.1.0 ray/buffer.py:20"),
    Method("slime", "RolloutManager RolloutController", "eval", "evaluation", "slime ray/rollout.py:513"),
    Method("slime", "RolloutManager RolloutController", "save load", "checkpoint", "slime ray/rollout.py"),
    Method("slime", "RolloutManager RolloutController " + _MEGATRON,
           "offload onload onload_weights onload_kv sleep wake_up get_heartbeat_status connect_rollout_engines set_rollout_manager "
           "check_weights get_rollout_engines_and_lock get_num_rollout_per_epoch health_monitoring_pause health_monitoring_resume", None,
           "slime ray/rollout.py:536-549", "brief"),
    Method("slime", _MEGATRON, "init", "loading", "slime backends/megatron_utils/actor.py"),
    Method("slime", _MEGATRON, "train", "training", "slime backends/megatron_utils/actor.py:374-560; it scores too", mark=1, hides=True),
    Method("slime", _MEGATRON, "update_weights", "weight sync", "slime backends/megatron_utils/actor.py:596", mark=2),
    Method("slime", _MEGATRON, "save_model", "checkpoint", "slime backends/megatron_utils/actor.py:571"),
    Method("slime", "SGLangEngine", "init", "loading", "slime backends/sglang_utils/sglang_engine.py"),
    Method("slime", "SGLangEngine", "update_weights_from_* pull_weights", "weight sync", "slime backends/sglang_utils/sglang_engine.py", mark=2),
    Method("slime", "SGLangEngine", "pause_generation continue_generation flush_cache release_memory_occupation resume_memory_occupation", None,
           "slime backends/sglang_utils/sglang_engine.py", "brief"),
    # SkyRL
    Method("SkyRL", "", "skyrl_entrypoint", None, "SkyRL train/entrypoints/main_base.py:338", "whole"),
    Method("SkyRL", _SKYRL, "init_model init_weight_sync_state", "loading", "SkyRL workers/fsdp_worker.py"),
    Method("SkyRL", _SKYRL, "forward", "scoring", "SkyRL workers/worker.py"),
    Method("SkyRL", _SKYRL, "forward_backward optim_step ppo_train forward_backward_from_staged", "training", "SkyRL workers/worker.py", mark=1),
    Method("SkyRL", _SKYRL, "broadcast_to_inference_engines", "weight sync", "SkyRL workers/fsdp_worker.py", mark=2),
    Method("SkyRL", _SKYRL, "offload_to_cpu backload_to_gpu empty_cache barrier", None, "SkyRL workers/worker.py", "brief"),
    Method("SkyRL", _SKYRL, "save_checkpoint save_hf_model load_checkpoint", "checkpoint", "SkyRL workers/worker.py"),
    Method("SkyRL", _SKYRL_ENGINE, "generate chat_completion completion sample", "rollout", "SkyRL skyrl_train v0.4.0 inference_engines", "overlapping"),
    Method("SkyRL", _SKYRL_ENGINE, "update_named_weights update_named_weight init_weight_update_communicator", "weight sync", "SkyRL inference_engines", mark=2),
    Method("SkyRL", _SKYRL_ENGINE, "wake_up sleep reset_prefix_cache", None, "SkyRL inference_engines", "brief"),
    Method("SkyRL", "VLLMServerActor", "start", "loading", "SkyRL inference_servers/vllm_server_actor.py"),
    # NeMo-RL
    Method("NeMo-RL", "IsolatedWorkerInitializer", "create_worker", "loading", "NeMo-RL v0.7.0 distributed/worker_groups.py"),
    Method("NeMo-RL", f"{_NEMO} {_NEMO_ENGINE}", "post_init init_collective", "loading", "NeMo-RL v0.7.0 models/policy/lm_policy.py"),
    Method("NeMo-RL", _NEMO_ENGINE, "generate generate_text", "rollout", "NeMo-RL v0.7.0 models/generation/vllm/vllm_worker.py:633,826"),
    Method("NeMo-RL", _NEMO_ENGINE, "generate_async generate_text_async", "rollout", "NeMo-RL v0.7.0 vllm_worker_async.py", "overlapping"),
    Method("NeMo-RL", _NEMO, "prepare_for_lp_inference get_logprobs get_reference_policy_logprobs get_topk_logits score get_values", "scoring",
           "NeMo-RL v0.7.0 models/policy/lm_policy.py:332-1127"),
    Method("NeMo-RL", _NEMO, "prepare_for_training train", "training", "NeMo-RL v0.7.0 models/policy/lm_policy.py", mark=1),
    Method("NeMo-RL", _NEMO, "offload_before_refit stream_weights_via_ipc_zmq broadcast_weights_for_collective prepare_refit_info offload_after_refit",
           "weight sync", "NeMo-RL v0.7.0 algorithms/grpo.py; the next step begins with it"),
    Method("NeMo-RL", _NEMO_ENGINE, "update_weights_via_ipc_zmq update_weights_from_collective prepare_for_generation*", "weight sync",
           "NeMo-RL v0.7.0 models/generation/vllm"),
    Method("NeMo-RL", _NEMO_ENGINE, "sleep wake_up reset_prefix_cache finish_generation", None, "NeMo-RL v0.7.0 models/generation/vllm", "brief"),
    Method("NeMo-RL", _NEMO, "save_checkpoint", "checkpoint", "NeMo-RL v0.7.0 models/policy/lm_policy.py"),
    Method("NeMo-RL", "MathEnvironment HFVerifyWorker *Environment", "step verify", "scoring", "NeMo-RL v0.7.0 environments", "helper"),
    Method("NeMo-RL", "AsyncTrajectoryCollector ReplayBuffer", "*", None, "NeMo-RL v0.7.0 algorithms/async_utils.py", "whole"),
    # ROLL
    Method("ROLL", f"{_ROLL} *RewardWorker EnvironmentWorker", "initialize", "loading", "ROLL v0.3.0 distributed/executor"),
    Method("ROLL", "DynamicSamplingScheduler RolloutScheduler GenerateScheduler", "get_batch", "rollout", "ROLL v0.3.0 pipeline/rlvr/rlvr_pipeline.py:546", "overlapping"),
    Method("ROLL", "RouterManager RequestScheduler", "generate_request", "rollout", "ROLL v0.3.0 distributed/scheduler", "overlapping"),
    Method("ROLL", "ActorWorker InferWorker", "generate_request add_request start_server", "rollout", "ROLL v0.3.0 pipeline/base_worker.py", "overlapping"),
    Method("ROLL", "EnvironmentWorker", "run_rollout_loop", None, "ROLL v0.3.0 pipeline/agentic; it runs for very long", "whole"),
    Method("ROLL", _ROLL, "compute_log_probs compute_values", "scoring", "ROLL v0.3.0 pipeline/base_worker.py"),
    Method("ROLL", "*RewardWorker", "compute_rewards", "scoring", "ROLL v0.3.0 pipeline/rlvr/rewards", "helper"),
    Method("ROLL", "ActorWorker CriticWorker", "train_step", "training", "ROLL v0.3.0 pipeline/base_worker.py", mark=1),
    Method("ROLL", _ROLL, "setup_model_update start_model_update broadcast_parameter update_parameter_in_bucket", "weight sync",
           "ROLL v0.3.0 pipeline/rlvr/rlvr_pipeline.py:516; the next step begins with it"),
    Method("ROLL", _ROLL, "load_states offload_states stop_server", None, "ROLL v0.3.0 pipeline/base_worker.py", "brief"),
    Method("ROLL", _ROLL, "do_checkpoint", "checkpoint", "ROLL v0.3.0 pipeline/base_worker.py"),
    # AReaL
    Method("AReaL", "RayRPCServer", "*", None, "AReaL v1.0.4 infra/rpc/ray_rpc_server.py:72-210; every call has the same title", "whole"),
    Method("AReaL", "", "run_func", None, "AReaL v1.0.4 launcher/ray.py:125-144", "whole"),
    # open-instruct
    Method("open-instruct", "PolicyTrainerRayProcess", "from_pretrained", "loading", "open-instruct grpo_fast.py:284"),
    Method("open-instruct", "PolicyTrainerRayProcess", "step", "training", "open-instruct grpo_fast.py:586; it waits for its data too", mark=1, needs_gpu=True),
    Method("open-instruct", "PolicyTrainerRayProcess", "broadcast_to_vllm", "weight sync", "open-instruct grpo_fast.py:553"),
    Method("open-instruct", "PolicyTrainerRayProcess", "update_ref_policy", None, "open-instruct grpo_fast.py", "brief"),
    Method("open-instruct", "PolicyTrainerRayProcess", "save_model save_checkpoint_state", "checkpoint", "open-instruct grpo_fast.py"),
    Method("open-instruct", "PolicyTrainerOLMoCoreProcess", "fit", None, "open-instruct grpo_olmo_core_actor.py:325", "whole"),
    Method("open-instruct", "DataPreparationActor", "get_data", "rollout", "open-instruct; the trainer waits for rollouts in it", "helper"),
    # vLLM's own actors, which it starts for each rank of an engine
    Method("vLLM", "RayWorkerWrapper RayWorkerProc*", "execute_method", None, "vLLM v1/executor; weight update, sleep, wake up", "brief"),
    Method("vLLM", "RayWorkerWrapper RayWorkerProc*", "__ray_call__", None, "ray dag/compiled_dag_node.py:1874; it stands there whether it works or not", "whole"),
)  # fmt: skip
ENGINE_CLASSES: Final = (
    "vLLMHttpServer", "SGLangHttpServer", "TRTLLMHttpServer", "AsyncvLLMServer", "AsyncSGLangServer", "SGLangEngine", "VLLMServerActor",
    "VLLMInferenceEngine", "AsyncVLLMInferenceEngine", "SGLangInferenceEngine", "LLMRayActor", "LLMRayActorAsync", "RolloutRayActor",
    "RayWorkerWrapper", "VllmAsyncGenerationWorker", "VllmGenerationWorker", "InferWorker",
)  # fmt: skip
"""Actors that generate. Their title is idle most of that time."""
ENGINE_TITLES: Final = ("VLLM::", "sglang::")
"""Beginnings of the titles of processes that an engine starts (vLLM v1/engine/core.py, SGLang managers/scheduler.py)."""
MAY_TRAIN_IDLE: Final = tuple(_MEGATRON.split())
"""Trainers whose title may be idle while they train: with fault tolerance miles calls a heartbeat beside `train`, and its end resets the title
(miles ray/train/actor_factory.py:77). slime has the same names."""
RESUMES: Final = "load_checkpoint"
"""Trainers run a method whose name ends so only if the job continues an earlier one."""


@lru_cache(maxsize=1024)
def find_method(class_: str, method: str) -> Method | None:
    """The row of a method; `None`: the method is not known. The class of a task is empty."""
    names = {method, *(method.removeprefix(key) for key in VERL_KEYS if method.startswith(key))}
    for row in METHODS:
        if _is_one_of(class_, row.classes) and any(_is_one_of(name, row.methods) for name in names):
            return row
    return None


@lru_cache(maxsize=1024)
def framework_of(class_: str) -> str | None:
    """The framework that has a class; `None`: no known one. Rows of helpers don't count, because any program may use their names."""
    rows = (row for row in METHODS if row.kind != "helper")
    return next((row.framework for row in rows if class_ and _is_one_of(class_, row.classes)), None)


@lru_cache(maxsize=1024)
def ends_steps(class_: str) -> bool:
    """Whether a class has trainers whose methods end a step."""
    rows = (row for row in METHODS if row.mark and class_ not in ENGINE_CLASSES)
    return bool(class_) and any(_is_one_of(class_, row.classes) for row in rows)


@lru_cache(maxsize=1024)
def is_known_sync(class_: str) -> bool:
    """Whether a class is known to run one call at a time. Then an idle title means that the actor is idle."""
    rows = [row for row in METHODS if class_ and _is_one_of(class_, row.classes)]
    # miles' RolloutManager is async, slime's is not (miles ray/rollout/rollout_manager.py:54).
    is_sync = class_ not in (*ENGINE_CLASSES, *MAY_TRAIN_IDLE, "RolloutManager", "RolloutController")
    return bool(rows) and is_sync and not any(row.kind in ("overlapping", "whole") for row in rows)


@lru_cache(maxsize=1024)
def shows_phases(class_: str) -> bool:
    """Whether the titles of a class show the phase of a job. Those of helpers, and of actors with one method for the whole job, do not."""
    rows = (row for row in METHODS if row.kind == "work" and row.phase is not None)
    return bool(class_) and any(_is_one_of(class_, row.classes) for row in rows)


def _is_one_of(name: str, patterns: str) -> bool:
    """Whether a name matches one of these patterns; `*` stands for any text. Empty patterns match the empty name."""
    for pattern in patterns.split() or [""]:
        begin, star, end = pattern.partition("*")
        if name == pattern or (star and len(name) >= len(begin) + len(end) and name.startswith(begin) and name.endswith(end)):
            return True
    return False
