"""Rows for errors of GPU memory: of PyTorch, vLLM, SGLang, torch_memory_saver, NCCL, cuBLAS and Triton."""

from __future__ import annotations

from cockpit.failures.known.error import KnownError

_SIZE = r"\d{1,9}(?:\.\d{1,3})? (?:[KMGT]iB|bytes)"
_FEWER = (
    "use smaller micro batches (veRL ppo_micro_batch_size_per_gpu, OpenRLHF micro_train_batch_size, slime max_tokens_per_gpu), "
    "offload the optimizer, or lower the rollout's gpu_memory_utilization"
)

_OTHER_HOLDS_MORE = "|".join(
    rf"[^\n]{{0,300}}? Process \d{{1,10}} has {larger} GiB memory in use\.[^\n]{{0,300}}? this process has {smaller} memory in use"
    rf"|[^\n]{{0,300}}? this process has {smaller} memory in use\.[^\n]{{0,300}}? Process \d{{1,10}} has {larger} GiB memory in use"
    for larger, smaller in (
        (r"[1-9]\d{0,2}\.\d\d", r"\d{1,4}\.\d\d MiB"),
        (r"[1-9]\d{1,2}\.\d\d", r"\d\.\d\d GiB"),
        (r"[1-9]\d\d\.\d\d", r"\d\d\.\d\d GiB"),
        *((rf"{digit}\d{{{places}}}\.\d\d", rf"[0-{digit - 1}]\d{{{places}}}\.\d\d GiB") for digit in range(1, 10) for places in (0, 1)),
    )
)
"""Another process clearly holds more than the process itself: the digits of both are compared. PyTorch names them in any order."""


def _pairs(total: int) -> list[str]:
    """Tens of GiB that a process holds, and that PyTorch has allocated, whose sum is more than so many tens and nines."""
    between = r"\d\.\d\d GiB memory in use\.[^\n]{0,300}? Of the allocated memory "
    return [
        rf"{held}{between}(?:{'|'.join(str(own) for own in range(total + 1 - held, held + 1))})\d"
        for held in range((total + 2) // 2, total + 1)
    ]


_OWN_PROCESS = "|".join(
    rf"{total or ''}\d\.\d\d GiB of which [^\n]{{3,20}} is free\.[^\n]{{0,300}}? Process \d{{1,10}} has (?:{'|'.join(_pairs(total))})\.\d\d GiB is allocated by"
    for total in range(1, 20)
)
"""What a process that is named holds, and what PyTorch has allocated here, are together more than the GPU has: so both are one process."""

GPU_MEMORY: tuple[KnownError, ...] = (
    # ------------------------------------------------------------------------------------------------ vLLM
    KnownError(
        name="vllm-start-memory-not-free",
        marker="is less than desired GPU memory utilization",
        pattern=r"Free memory on device(?: \w{1,8}:\d{1,3})? \((?P<free>[\d.]{1,12})/(?P<total>[\d.]{1,12}) GiB\) on startup is less than desired GPU memory "
        r"utilization \((?P<share>[\d.]{1,8}), (?P<asked>[\d.]{1,12}) GiB\)",
        cause="vLLM wants {asked} GiB of the GPU's {total} GiB (gpu_memory_utilization {share}), but only {free} GiB was free when it started",
        remedy="`nvidia-smi` on that node shows who holds the rest. Left over from an earlier run: kill it. The trainer or another engine of this job: set "
        "gpu_memory_utilization below {free}/{total} (veRL `actor_rollout_ref.rollout.gpu_memory_utilization`)",
        source="vllm vllm/v1/worker/utils.py request_memory (commit 0027b02); vllm-project/vllm issues 20305 and 50135",
        matches=(
            "ValueError: Free memory on device (61.05/119.7 GiB) on startup is less than desired GPU memory utilization (0.52, 62.24 GiB). "
            "Decrease GPU memory utilization or reduce GPU memory used by other processes.",
            "(EngineCore pid=253) ValueError: Free memory on device cuda:0 (12.18/23.56 GiB) on startup is less than desired GPU memory utilization (0.92, 21.67 GiB). "
            "Decrease GPU memory utilization or reduce GPU memory used by other processes.",
        ),
        differs=(
            "DEBUG 08-18 06:20:39 [gpu_worker.py:221] Initial free memory: 47.17 GiB, free memory: 31.26 GiB, requested GPU memory: 42.75 GiB",
            'the error "less than desired GPU memory utilization" means that the GPU is in use; it is less than desired GPU memory utilization then',
        ),
        action="kill-orphans",
        look_up="gpu-memory",
    ),
    KnownError(
        name="vllm-memory-profiling",
        marker="Error in memory profiling",
        pattern=r"Error in memory profiling\. {1,4}Initial (?:free|used) memory (?P<before>[\d.]{1,20}(?: GiB)?), {1,4}(?:current free|currently used) memory "
        r"(?P<after>[\d.]{1,20}(?: GiB)?)",
        cause="The GPU's memory in use did not grow while vLLM loaded and profiled the model ({before} before, {after} after), most often because another process "
        "freed memory on that GPU at that moment",
        remedy="Kill what is left over from an earlier run, wait until `nvidia-smi` shows steady numbers, start again; start engines that share a GPU one after "
        "another. If the log says `Loading model weights took 0.0`, the engine was created inside a ZeRO-3 context",
        source="vllm-project/vllm pull request 33358 and issue 56830; modelscope/ms-swift issue 3241; vllm vllm/worker/worker.py of the V0 engine",
        matches=(
            "AssertionError: Error in memory profiling. Initial free memory 30.3 GiB, current free memory 31.3 GiB. This happens when other processes sharing the same "
            "container release GPU memory while vLLM is profiling during initialization. To fix this, ensure consistent GPU memory allocation or isolate vLLM in its own container.",
            "AssertionError: Error in memory profiling. Initial used memory 25769803776, currently used memory 23622320128. This happens when the GPU memory was not properly "
            "cleaned up before initializing the vLLM instance.",
        ),
        differs=(
            "INFO 03-30 01:59:44 [worker.py:267] Memory profiling takes 48.14 seconds",
            "Both searches show an error related to memory profiling (%mprun). Error in memory profiling: not reliable in IPython",
        ),
        look_up="gpu-memory",
    ),
    KnownError(
        name="vllm-no-kv-cache",
        marker="No available memory for the cache blocks",
        pattern=r"(?:Error: |^)No available memory for the cache blocks",
        cause="vLLM has no memory left for its KV cache: the model's weights and activations take all of its share of the GPU (gpu_memory_utilization)",
        remedy="`nvidia-smi` shows whether others hold memory of that GPU: kill what is left over. Then raise gpu_memory_utilization (veRL "
        "`actor_rollout_ref.rollout.gpu_memory_utilization`), use more GPUs per engine (tensor_parallel_size), or lower max_num_batched_tokens",
        source="vllm vllm/worker/worker.py raise_if_cache_size_invalid and vllm/v1/core/kv_cache_utils.py",
        matches=(
            "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.",
            "(EngineCore_DP0 pid=418) ERROR 01-29 15:38:21 [core.py:946] ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.",
        ),
        differs=(
            "ValueError: No memory should be allocated for the cache blocks for an attention-free model, but 12blocks are allocated.",
            "INFO 10-08 20:33:48 [gpu_worker.py:298] Available KV cache memory: 12.35 GiB",
        ),
        look_up="gpu-memory",
    ),
    KnownError(
        name="vllm-kv-cache-below-max-model-len",
        marker="max seq len (",
        pattern=r"max seq len \((?P<length>\d{1,9})\), \(?(?P<asked>[\d.]{1,9} GiB) KV\s{1,4}cache\s{1,4}is\s{1,4}needed,\s{1,4}which\s{1,4}is\s{1,4}larger\s{1,4}than\s{1,4}the\s{1,4}available\s{1,4}"
        r"KV\s{1,4}cache\s{1,4}memory \((?P<free>-?[\d.]{1,9} GiB)\)\. Based on the available memory,\s{1,4}the\s{1,4}estimated\s{1,4}maximum\s{1,4}model\s{1,4}length\s{1,4}is (?P<fits>\d{1,9})",
        cause="A sequence of max_model_len {length} needs {asked} of KV cache, but vLLM has {free} for it",
        remedy="Set max_model_len to {fits} or less (`--max-model-len {fits}`; veRL `actor_rollout_ref.rollout.max_model_len={fits}`, or shorter prompts and responses); "
        "or raise gpu_memory_utilization, or use more GPUs per engine",
        source="vllm-project/tpu-inference pull request 223 (text of vllm/v1/core/kv_cache_utils.py); hzqjgthy/vllm, its notes on vLLM 0.11",
        matches=(
            "ValueError: To serve at least one request with the models's max seq len (40960), (5.62 GiB KV cache is needed, which is larger than the available KV cache memory "
            "(4.50 GiB). Based on the available memory, the estimated maximum model length is 32768. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.",
            "(EngineCore pid=110) ERROR 08-28 07:39:28 [core.py:1346] ValueError: To serve at least one request with the model's max seq len (131072), 2.15 GiB KV cache is needed, "
            "which is larger than the available KV cache memory (1.5 GiB). Based on the available memory, the estimated maximum model length is 87808.",
        ),
        differs=(
            "INFO 10-16 10:11:12 [kv_cache_utils.py:1087] Maximum concurrency for 131,072 tokens per request: 2.31x",
            "ValueError: User-specified max_model_len (65536) is greater than the derived max_model_len (max_position_embeddings=32768 or model_max_length=None in model's config.json).",
        ),
    ),
    KnownError(
        name="vllm-kv-cache-below-max-model-len-v0",
        marker="tokens that can be stored in KV cache (",
        pattern=r"max seq len \((?P<length>\d{1,9})\) is larger than the maximum number of tokens that can be stored in KV cache \((?P<fits>\d{1,9})\)",
        cause="A sequence of max_model_len {length} does not fit into vLLM's KV cache, which has room for {fits} tokens",
        remedy="Set max_model_len to {fits} or less (`--max-model-len {fits}`; veRL `actor_rollout_ref.rollout.max_model_len={fits}`, or shorter prompts and responses); "
        "or raise gpu_memory_utilization, or use more GPUs per engine",
        source="deepseek-ai/DeepSeek-V2 issue 83; vllm-project/vllm issue 10517; vllm vllm/worker/worker.py",
        matches=(
            "ValueError: The model's max seq len (163840) is larger than the maximum number of tokens that can be stored in KV cache (13360). "
            "Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.",
        ),
        differs=(
            "Add `--max_model_len` option to avoid ValueError that the max seq len is larger than the maximum number of tokens that can be stored in KV cache (on small GPUs)",
        ),
    ),
    KnownError(
        name="vllm-kv-cache-too-small",
        marker="which is larger than the available KV cache memory",
        pattern=r"(?P<asked>[\d.]{1,9} Gi?B) KV cache is needed, which is larger than the available KV cache memory \((?P<free>-?[\d.]{1,9} Gi?B)\)",
        cause="One sequence of full length (max_model_len) needs {asked} of KV cache, but vLLM has {free} for it",
        remedy="Lower max_model_len (veRL `actor_rollout_ref.rollout.max_model_len`, or shorter prompts and responses), raise gpu_memory_utilization, "
        "or use more GPUs per engine (tensor_parallel_size)",
        source="vllm vllm/v1/core/kv_cache_utils.py, in public logs",
        matches=(
            "ValueError: To serve at least one request with the models's max seq len (12288), 1.69 GiB KV cache is needed, which is larger than the available KV cache memory (0.87 GiB)",
            "ValueError: To serve at least one request with the models's max seq len (32768), \n16.00 GiB KV cache is needed, which is larger than the available KV cache memory (4.85 GiB).",
        ),
        differs=("vLLM reports when 16 GiB of KV cache is needed, which is larger than the available KV cache memory of the card",),
    ),
    KnownError(
        name="vllm-mamba-cache-blocks",
        marker="exceeds available Mamba cache blocks",
        pattern=r"max_num_seqs \((?P<seqs>\d{1,7})\) exceeds available Mamba cache blocks \((?P<blocks>\d{1,7})\)",
        cause="vLLM shall run {seqs} sequences at once (max_num_seqs), but its GPU memory holds the state of {blocks} only",
        remedy="Set max_num_seqs to {blocks} or less (`--max-num-seqs {blocks}`; veRL `actor_rollout_ref.rollout.max_num_seqs={blocks}`), or raise gpu_memory_utilization",
        source="vllm vllm/config/compilation.py",
        matches=(
            "ValueError: max_num_seqs (1024) exceeds available Mamba cache blocks (854). Each decode sequence requires one Mamba cache block, so CUDA graph capture cannot proceed.",
        ),
        differs=("Nothing warns in advance when max_num_seqs exceeds available Mamba cache blocks of a hybrid model",),
    ),
    KnownError(
        name="vllm-load-model-memory",
        marker="Failed to load model - not enough GPU memory",
        pattern=r"Failed to load model - not enough GPU memory",
        cause="The GPU's memory was full before vLLM had loaded the model's weights",
        remedy="`nvidia-smi` on that node shows who else holds memory: kill what is left over, or offload the trainer first. If the GPU was empty, the weights are too large: more GPUs per "
        "engine (tensor_parallel_size) or quantization",
        source="vllm vllm/v1/worker/gpu_model_runner.py load_model",
        matches=(
            "(EngineCore pid=36704) ERROR 04-07 15:58:28 [gpu_model_runner.py:4818] Failed to load model - not enough GPU memory. Try lowering --gpu-memory-utilization to free memory for weights, "
            "increasing --tensor-parallel-size, or using --quantization. See https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more tips. (original error: CUDA out of memory. "
            "Tried to allocate 112.00 MiB. GPU 0 has a total capacity of 31.36 GiB of which 53.06 MiB is free.)",
        ),
        differs=("INFO 03-10 20:56:36 [gpu_model_runner.py:1071] Model loading took 14.99 GiB memory and 4.21 seconds",),
        look_up="gpu-memory",
    ),
    KnownError(
        name="vllm-warm-up-memory",
        marker="CUDA out of memory occurred when warming up",
        pattern=r"CUDA out of memory occurred when warming up (?P<part>sampler|pooler) with (?P<requests>\d{1,6}) dummy requests",
        cause="The GPU's memory was full when vLLM tried its {part} with {requests} requests at once (max_num_seqs)",
        remedy="Lower max_num_seqs to half of {requests} (veRL `actor_rollout_ref.rollout.max_num_seqs`), or lower gpu_memory_utilization so that more stays free beside the KV cache; "
        "`nvidia-smi` shows whether others hold memory of that GPU",
        source="vllm vllm/v1/worker/gpu_model_runner.py _dummy_sampler_run",
        matches=(
            "RuntimeError: CUDA out of memory occurred when warming up sampler with 256 dummy requests. Please try lowering `max_num_seqs` or `gpu_memory_utilization` when initializing the engine.",
        ),
        differs=("INFO 07-12 10:10:10 [gpu_model_runner.py:3500] warming up sampler with 256 dummy requests",),
        look_up="gpu-memory",
    ),
    KnownError(
        name="vllm-sleep-mode-memory",
        marker="cumem_allocator.cpp:",
        pattern=r"CUDA Error: out of memory at [^\n]{0,120}cumem_allocator\.cpp:\d{1,4}",
        cause="vLLM's sleep mode could not take GPU memory for weights or KV cache (at its start or at wake_up): the trainer, another engine or another process holds it",
        remedy="Lower gpu_memory_utilization (veRL `actor_rollout_ref.rollout.gpu_memory_utilization=0.5`), and offload the trainer before the rollout (veRL param_offload and optimizer_offload in "
        "actor_rollout_ref.actor.fsdp_config; OpenRLHF deepspeed_enable_sleep)",
        source="verl-project/verl issue 302; TideDra/lmm-r1 issue 43; vllm-project/vllm issue 13941; vllm csrc/cumem_allocator.cpp CUDA_CHECK (commit 0035e22)",
        matches=(
            "RuntimeError: CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62",
            "(WorkerDict pid=1751030) CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:139",
        ),
        differs=(
            "RuntimeError: CUDA Error: invalid argument at /workspace/csrc/cumem_allocator.cpp:119",
            "INFO 02-18 10:00:00 cumem.py:190] CuMemAllocator: sleep freed 40.00 GiB memory in total, of which 14.00 GiB is backed up in CPU (cumem_allocator.cpp: see above)",
        ),
        look_up="gpu-memory",
    ),
    KnownError(
        name="vllm-sleep-memory-grew",
        marker="Memory usage increased after sleeping",
        pattern=r"AssertionError: Memory usage increased after sleeping",
        cause="Less GPU memory was free after vLLM had gone to sleep than before, so something else (another process, or another part of this one) took memory on that GPU meanwhile",
        remedy="Let nothing else on that GPU allocate until sleep has returned: load the trainer's model before or after, and kill what is left over from an earlier run (`nvidia-smi`)",
        source="vllm vllm/v1/worker/gpu_worker.py sleep",
        matches=("AssertionError: Memory usage increased after sleeping.",),
        differs=("INFO 02-18 10:00:00 worker.py:133] Sleep mode freed 40.10 GiB memory, 12.30 GiB memory is still in use.",),
        look_up="gpu-memory",
    ),
    KnownError(
        name="vllm-expandable-segments",
        marker="Expandable segments are not compatible with memory pool",
        pattern=r"Error: Expandable segments are not compatible with memory pool",
        cause="This vLLM's sleep mode does not work with expandable_segments:True, which PYTORCH_CUDA_ALLOC_CONF sets",
        remedy="`unset PYTORCH_CUDA_ALLOC_CONF` before `ray start`, and remove it from the job's runtime_env; or switch sleep mode off (veRL `actor_rollout_ref.rollout.free_cache_engine=False`, "
        "OpenRLHF vllm_enable_sleep), or use a newer vLLM, which copes with it",
        source="vllm vllm/device_allocator/cumem.py of 0.7 to 0.10 and commit 010c211, which has no such check",
        matches=(
            "AssertionError: Expandable segments are not compatible with memory pool. Please track https://github.com/pytorch/pytorch/issues/147851 for the latest updates.",
        ),
        differs=("# Expandable segments are not compatible with memory pool (see pytorch issue 147851), so it is disabled here",),
    ),
    # ------------------------------------------------------------------------------------------------ SGLang, torch_memory_saver
    KnownError(
        name="memory-saver-out-of-memory",
        marker="[torch_memory_saver.cpp]",
        pattern=r"\[torch_memory_saver\.cpp\] (?:CUresult|cudaError) error:? {0,2}(?:2 \(out of memory\)|result=2\b)",
        cause="torch_memory_saver (the offload of SGLang and of slime's trainer) could not take GPU memory back; most often another model on that GPU still holds it",
        remedy="Lower the engine's share (veRL `actor_rollout_ref.rollout.gpu_memory_utilization=0.5`, slime `--sglang-mem-fraction-static 0.6`), and offload the trainer before the rollout "
        "(veRL param_offload and optimizer_offload; slime without --no-offload-train)",
        source="sgl-project/sglang issue 14092; fzyzcjy/torch_memory_saver issues 4 and 99; THUDM/slime issue 537 and pull request 579",
        matches=(
            "[torch_memory_saver.cpp] CUresult error: 2 (out of memory)  file=csrc/utils.h func=cu_mem_create line=194",
            "[torch_memory_saver.cpp] CUresult error  result=2 file=csrc/torch_memory_saver.cpp func=cu_mem_create line=103",
            "[torch_memory_saver.cpp] cudaError error: 2 (out of memory)  file=csrc/core.cpp func=resume line=172",
        ),
        differs=(
            "[torch_memory_saver.cpp] cuMemCreate CUDA_ERROR_OUT_OF_MEMORY (may not be an issue e.g. torch allocator will free cache and retry)",
            "[torch_memory_saver.cpp] CUresult error  result=1 file=csrc/torch_memory_saver.cpp func=resume line=214",
        ),
        look_up="gpu-memory",
    ),
    KnownError(
        name="sglang-no-kv-cache",
        marker="Not enough memory. Please try to increase --mem-fraction-static",
        pattern=r"Error: Not enough memory\. Please try to increase --mem-fraction-static",
        cause="SGLang has no memory left for its KV cache: the model's weights take all of its share of the GPU (mem_fraction_static)",
        remedy="`nvidia-smi` shows whether others hold memory of that GPU: kill what is left over. Then raise the share (`--mem-fraction-static`; slime `--sglang-mem-fraction-static`; veRL "
        "`actor_rollout_ref.rollout.gpu_memory_utilization`), or use more GPUs per engine",
        source="sgl-project/sglang issues 322 and 4330; sglang mem_cache/pool_configurator MemoryPoolConfig",
        matches=(
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: mem_fraction_static=0.7",
        ),
        differs=(
            "KV cache pool is full. Retract requests. #retracted_reqs: 1, #new_token_ratio: 0.9998 -> 1.0000",
            "At the end it is suggested: Not enough memory. Please try to increase --mem-fraction-static",
        ),
        look_up="gpu-memory",
    ),
    KnownError(
        name="sglang-memory-unbalanced",
        marker="The memory capacity is unbalanced",
        pattern=r"(?:Runtime|Value)Error: The memory capacity is unbalanced",
        cause="The GPUs of one SGLang engine have unequal free memory (more than 10 % apart), most often because another process uses one of them",
        remedy="`nvidia-smi` on that node shows who: kill what is left over from an earlier run, or give the engine other GPUs. If it is meant so, set `SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK=0` "
        "(older: `SGL_DISABLE_TP_MEMORY_INBALANCE_CHECK=1`)",
        source="sglang model_runner.py init_torch_distributed",
        matches=(
            "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes.",
            "RuntimeError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. pre_model_load_memory=147.9, local_gpu_memory=176.2, local_gpu_memory * 0.9=158.6",
        ),
        differs=(
            "[2025-11-28 16:00:45 TP0] WARNING model_runner.py: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. min_per_gpu_memory=70.1, local_gpu_memory=78.2, local_gpu_memory * 0.9=70.4",
        ),
        action="kill-orphans",
        look_up="gpu-memory",
    ),
    KnownError(
        name="sglang-cuda-graph-memory",
        marker="Capture cuda graph failed:",
        pattern=r"Capture cuda graph failed: (?:CUDA out of memory|CUDA error: out of memory|Triton Error \[CUDA\]: out of memory)",
        cause="The GPU's memory was full when SGLang captured its CUDA graphs: its KV cache leaves too little beside it",
        remedy="Lower the static share (`--mem-fraction-static 0.7`; slime `--sglang-mem-fraction-static 0.7`; veRL `actor_rollout_ref.rollout.gpu_memory_utilization`) or the largest graph "
        "(`--cuda-graph-max-bs 16`); `nvidia-smi` shows whether others hold memory",
        source="sglang cuda_graph_runner.py CUDA_GRAPH_CAPTURE_FAILED_MSG",
        matches=(
            "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.12 GiB is free.\nPossible solutions:\n"
            "1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\n2. set --cuda-graph-max-bs to a smaller value (e.g., 16)",
        ),
        differs=(
            "Exception: Capture cuda graph failed: Ninja build failed.\nPossible solutions:\n1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)",
        ),
        look_up="gpu-memory",
    ),
    KnownError(
        name="sglang-cuda-graph",
        marker="Capture cuda graph failed:",
        pattern=r"Exception: Capture cuda graph failed: (?P<reason>[^\n]{3,200})",
        cause="SGLang could not capture its CUDA graphs: {reason}",
        remedy="Fix that reason first; SGLang's advice below it (less memory) helps only if memory was full. To start without CUDA graphs (slower): `--disable-cuda-graph` (slime `--sglang-disable-cuda-graph`)",
        source="sglang cuda_graph_runner.py",
        matches=(
            "Exception: Capture cuda graph failed: Ninja build failed.\nPossible solutions:\n1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)",
        ),
        differs=('if grep -q "Capture cuda graph failed: " serve.log; then echo server_failed; fi',),
        is_consequence=True,
        is_general=True,
    ),
    KnownError(
        name="sglang-kv-pool-full",
        marker="out of memory. Try to lower your batch size",
        pattern=r"(?P<phase>Prefill|Decode) out of memory\. Try to lower your batch size",
        cause="SGLang's KV cache pool has no room for the tokens of the next {phase} batch",
        remedy="Give the pool more memory (`--mem-fraction-static`; slime `--sglang-mem-fraction-static`), run fewer requests at once (`--max-running-requests`), or use smaller chunks (`--chunked-prefill-size 2048`)",
        source="sglang schedule_batch.py and mem_cache/common.py; sglang docs/advanced_features/hyperparameter_tuning.md",
        matches=(
            "RuntimeError: Prefill out of memory. Try to lower your batch size.\nTry to allocate 8192 tokens.\nAvailable full tokens: 899840 (full_available_size=11776 + full_evictable_size=888064)",
        ),
        differs=("KV cache pool is full. Retract requests. #retracted_reqs: 4, #new_token_ratio: 0.5120 -> 0.7034",),
    ),
    KnownError(
        name="flashinfer-workspace",
        marker="in AlignedAllocator",
        pattern=r"Failed to allocate memory for (?P<buffer>\w{3,60})\s{1,20}with size (?P<asked>\d{3,15}) and alignment \d{1,5} in AlignedAllocator",
        cause="FlashInfer's fixed workspace is too small: its buffer {buffer} needs {asked} bytes; the GPU's memory is not full",
        remedy="Enlarge it for the engine: SGLang `SGLANG_FLASHINFER_WORKSPACE_SIZE=1073741824`, vLLM `VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE=1073741824`; or another "
        "attention backend (SGLang `--attention-backend fa3`)",
        source="FlashInfer allocator.h",
        matches=(
            "RuntimeError: Failed to allocate memory for batch_prefill_tmp_v with size 448659456 and alignment 16 in AlignedAllocator",
            "RuntimeError: Error in function 'aligned_alloc' at /venv/lib/python3.12/site-packages/flashinfer/data/include/flashinfer/allocator.h:48: Failed to allocate memory for batch_prefill_tmp_v "
            "with size 155189248 and alignment 16 in AlignedAllocator",
        ),
        differs=("flashinfer warns when it cannot Failed to allocate memory for a tensor with size 12 in AlignedAllocator",),
    ),
    # ------------------------------------------------------------------------------------------------ PyTorch's allocator
    KnownError(
        name="cuda-out-of-memory-other-process",
        marker="CUDA out of memory. Tried to allocate",
        pattern=r"CUDA out of memory\. Tried to allocate (?P<asked>"
        + _SIZE
        + r")\. {1,4}GPU (?P<gpu>\d{1,3}) has a total capaci?ty of (?P<total>"
        + _SIZE
        + r") of which (?P<free>"
        + _SIZE
        + r") is free\."
        rf"(?={_OTHER_HOLDS_MORE})[^\n]{{0,300}}? Process (?P<pid>\d{{1,10}}) has (?P<other>[1-9]\d{{0,2}}\.\d\d GiB) memory in use",
        cause="CUDA ran out of memory on GPU {gpu}: it asked for {asked}, {free} of {total} was free; another process ({pid}) held {other} of it",
        remedy="`ps -o pid,user,lstart,args -p {pid}` on that host (not in its container) shows it. Left over from an earlier run: kill it. Another model of this job on that GPU: "
        "lower its share (gpu_memory_utilization, mem_fraction_static) or offload it",
        source="pytorch c10/cuda/CUDACachingAllocator.cpp, in public logs",
        matches=(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 31.36 GiB of which 1.05 GiB is free. Process 123 has 20.08 GiB memory in use. "
            "Including non-PyTorch memory, this process has 8.23 GiB memory in use. Of the allocated memory 4.00 GiB is allocated by PyTorch, and 3.10 GiB is reserved by PyTorch but unallocated.",
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.95 GiB. GPU 0 has a total capacity of 14.57 GiB of which 1.58 GiB is free. Process 2493055 has 12.02 GiB memory in use. Including non-PyTorch "
            "memory, this process has 966.00 MiB memory in use. Of the allocated memory 734.07 MiB is allocated by PyTorch, and 33.93 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large "
            "try setting PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)",
        ),
        differs=(
            "CUDA out of memory. Tried to allocate 14.12 GiB. GPU 0 has a total capacty of 23.69 GiB of which 11.33 GiB is free. Process 2006998 has 256.00 MiB memory in use. Including non-PyTorch memory, this process has "
            "12.09 GiB memory in use.",
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 112.00 MiB. GPU 7 has a total capacity of 39.39 GiB of which 14.00 MiB is free. Process 1117993 has 39.36 GiB memory in use. "
            "Of the allocated memory 38.34 GiB is allocated by PyTorch, and 385.64 MiB is reserved by PyTorch but unallocated.",
        ),
        action="kill-orphans",
        look_up="gpu-memory",
    ),
    KnownError(
        name="cuda-out-of-memory-own-process",
        marker="CUDA out of memory. Tried to allocate",
        pattern=rf"CUDA out of memory\. Tried to allocate (?P<asked>{_SIZE})\. {{1,4}}GPU (?P<gpu>\d{{1,3}}) has a total capaci?ty of (?={_OWN_PROCESS})(?P<total>{_SIZE}) of which (?P<free>{_SIZE}) is free\."
        r"[^\n]{0,300}? Process (?P<pid>\d{1,10}) has (?P<held>[1-9]\d{1,2}\.\d\d GiB) memory in use\.[^\n]{0,300}? Of the allocated memory (?P<own>[\d.]{4,7} GiB) is allocated by",
        cause="CUDA ran out of memory on GPU {gpu}: it asked for {asked}, {free} of {total} was free; this process itself held {held}, as the figures show (PyTorch alone {own})",
        remedy="It does not fit: smaller micro batches (veRL ppo_micro_batch_size_per_gpu, OpenRLHF micro_train_batch_size), gradient checkpointing, offload of the optimizer, "
        "sharding over more GPUs (ZeRO-3, FSDP), a lower gpu_memory_utilization; `nvidia-smi` on the host shows whether others have the rest",
        source="pytorch c10/cuda/CUDACachingAllocator.cpp (its process numbers); OpenRLHF/OpenRLHF issue 398; modelscope/ms-swift issue 3848",
        matches=(
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 112.00 MiB. GPU 7 has a total capacity of 39.39 GiB of which 14.00 MiB is free. Process 1117993 has 39.36 GiB memory in use. "
            "Of the allocated memory 38.34 GiB is allocated by PyTorch, and 385.64 MiB is reserved by PyTorch but unallocated.",
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.42 GiB. GPU 4 has a total capacity of 39.56 GiB of which 1.05 GiB is free. Process 3679748 has 38.51 GiB memory in use. "
            "Of the allocated memory 36.33 GiB is allocated by PyTorch, and 354.65 MiB is reserved by PyTorch but unallocated.",
        ),
        differs=(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.42 GiB. GPU 4 has a total capacity of 79.10 GiB of which 0.05 GiB is free. Process 3679748 has 38.51 GiB memory in use. "
            "Process 3679749 has 38.40 GiB memory in use. Of the allocated memory 36.33 GiB is allocated by PyTorch, and 354.65 MiB is reserved by PyTorch but unallocated.",
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.42 GiB. GPU 4 has a total capacity of 39.56 GiB of which 1.05 GiB is free. Process 3679748 has 38.51 GiB memory in use. "
            "Of the allocated memory 6.33 GiB is allocated by PyTorch, and 354.65 MiB is reserved by PyTorch but unallocated.",
        ),
    ),
    KnownError(
        name="cuda-out-of-memory-processes",
        marker="CUDA out of memory. Tried to allocate",
        pattern=rf"CUDA out of memory\. Tried to allocate (?P<asked>{_SIZE})\. {{1,4}}GPU (?P<gpu>\d{{1,3}}) has a total capaci?ty of (?P<total>{_SIZE}) of which (?P<free>{_SIZE}) is free\."
        r"(?![^\n]{0,600} this process has )[^\n]{0,300}? Process (?P<pid>\d{1,10}) has (?P<held>[1-9]\d{0,2}\.\d\d GiB) memory in use\.[^\n]{0,300}? Of the allocated memory (?P<own>[\d.]{1,9} \w{3}) is allocated by",
        cause="CUDA ran out of memory on GPU {gpu}: it asked for {asked}, {free} of {total} was free; process {pid} held {held}, and PyTorch in this process had allocated {own}",
        remedy="The process named may be this one (in a container it has another number). `nvidia-smi` on the host shows all: one that is left over may be killed; another model of this job: lower its share (gpu_memory_utilization, mem_fraction_static) or offload it; else smaller micro batches",
        source="pytorch c10/cuda/CUDACachingAllocator.cpp (its process numbers)",
        matches=(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.42 GiB. GPU 4 has a total capacity of 79.10 GiB of which 0.05 GiB is free. Process 3679748 has 38.51 GiB memory in use. "
            "Process 3679749 has 38.40 GiB memory in use. Of the allocated memory 36.33 GiB is allocated by PyTorch, and 354.65 MiB is reserved by PyTorch but unallocated.",
        ),
        differs=(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.00 GiB is free. Process 2006998 has 8.23 GiB memory in use. "
            "Including non-PyTorch memory, this process has 69.09 GiB memory in use. Of the allocated memory 36.33 GiB is allocated by PyTorch, and 354.65 MiB is reserved by PyTorch but unallocated.",
        ),
        look_up="gpu-memory",
        is_general=True,
    ),
    KnownError(
        name="cuda-out-of-memory-fragmented",
        marker="is reserved by PyTorch but unallocated",
        pattern=r"CUDA out of memory\. Tried to allocate (?P<asked>\d{1,4}\.\d\d MiB)\. GPU (?P<gpu>\d{1,3}) has a total capaci?ty of (?P<total>[\d.]{1,9} GiB) of which (?P<free>[\d.]{1,9} \w{3,5}) is free\."
        r"[^\n]{0,600}? (?P<unused>[1-9]\d{0,2}\.\d\d GiB) is reserved by PyTorch but unallocated",
        cause="CUDA ran out of memory on GPU {gpu}: it asked for {asked}, {free} of {total} was free, and the {unused} that PyTorch held in reserve was not in one usable piece",
        remedy="If the process runs neither vLLM's sleep mode nor torch_memory_saver: `export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` before `ray start` or in the job's runtime_env. "
        "Otherwise use smaller micro batches or fewer tokens per GPU",
        source="pytorch c10/cuda/CUDACachingAllocator.cpp, in public logs",
        matches=(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 112.00 MiB. GPU 0 has a total capacity of 79.10 GiB of which 53.06 MiB is free. Including non-PyTorch memory, this process has 79.04 GiB "
            "memory in use. Of the allocated memory 70.16 GiB is allocated by PyTorch, and 7.16 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting "
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.",
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 86.00 MiB. GPU 0 has a total capacty of 31.74 GiB of which 53.12 MiB is free. Including non-PyTorch memory, this process has 31.68 GiB "
            "memory in use. Of the allocated memory 30.16 GiB is allocated by PyTorch, and 1.16 GiB is reserved by PyTorch but unallocated.",
        ),
        differs=(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.95 GiB. GPU 0 has a total capacity of 14.57 GiB of which 1.58 GiB is free. Process 2493055 has 12.02 GiB memory in use. Including non-PyTorch "
            "memory, this process has 966.00 MiB memory in use. Of the allocated memory 734.07 MiB is allocated by PyTorch, and 33.93 MiB is reserved by PyTorch but unallocated.",
        ),
        look_up="gpu-memory",
    ),
    KnownError(
        name="cuda-out-of-memory-allowed",
        marker=" allowed; ",
        pattern=r"out of memory\. Tried to allocate (?P<asked>[\d.]{1,9} \w{3,5})\. GPU (?P<gpu>\d{1,3}) has a total capacity of (?P<total>[\d.]{1,9} \w{3,5}) of which (?P<free>[\d.]{1,9} \w{3,5}) is free\.[^\n]{0,300}? (?P<allowed>[\d.]{1,9} \w{3,5}) allowed; ",
        cause="PyTorch may use only {allowed} of GPU {gpu} in this process, and that is used up ({free} of {total} is free)",
        remedy="Something set that limit: `torch.cuda.set_per_process_memory_fraction` in the code, or per_process_memory_fraction in PYTORCH_CUDA_ALLOC_CONF: raise or remove it, or use smaller batches",
        source="ROCm/TheRock issue 2118; pytorch c10/cuda/CUDACachingAllocator.cpp",
        matches=(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total capacity of 255.98 GiB of which 244.65 GiB is free. 1.05 GiB allowed; Of the allocated memory 1017.01 MiB is allocated by PyTorch, with 17.00 MiB allocated in private pools (e.g., CUDA Graphs), and 54.99 MiB is reserved by PyTorch but unallocated.",
        ),
        differs=(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.00 GiB is free.",
        ),
    ),
    KnownError(
        name="cuda-allocator-segment-assert",
        marker="expandable_segment",
        pattern=r"expandable_segment\w{0,20}[^\n]{0,60} INTERNAL ASSERT FAILED at \"[^\n\"]{0,120}CUDACachingAllocator\.cpp\"",
        cause="A check of PyTorch's GPU memory allocator failed in its expandable segments",
        remedy="Take expandable_segments:True out of PYTORCH_CUDA_ALLOC_CONF (`unset PYTORCH_CUDA_ALLOC_CONF` before `ray start` and in the runtime_env), or leave out max_split_size_mb beside it; a newer torch",
        source="pytorch/pytorch issue 119452",
        matches=(
            'RuntimeError: !block->expandable_segment_ INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":2814, please report a bug to PyTorch.',
        ),
        differs=(
            'RuntimeError: captures_underway.empty() INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":2967; please report a bug to PyTorch.',
        ),
    ),
    KnownError(
        name="cuda-ipc-open-failed",
        marker="_new_shared_cuda(",
        pattern=r"_new_shared_cuda\([^\n]{0,80}\n[^\n]{0,80}CUDA error: (?P<why>[^\n]{3,80})",
        cause="A tensor that another process shares on the GPU could not be opened here: {why}",
        remedy="Sender and receiver must be on one host and see the same GPU (compare CUDA_VISIBLE_DEVICES), and the sender must keep the tensor until it is read; containers need `--ipc=host`; CUDA IPC does not work in WSL, on vGPUs and, in older torch, with expandable_segments:True",
        source="RL-Align/RL-Kernel pull request 60; torch multiprocessing/reductions.py",
        matches=(
            'Traceback (most recent call last):\n  File "/x/torch/multiprocessing/reductions.py", line 181, in rebuild_cuda_tensor\n    storage = storage_cls._new_shared_cuda(\ntorch.AcceleratorError: CUDA error: invalid resource handle',
        ),
        differs=("torch.AcceleratorError: CUDA error: invalid resource handle",),
    ),
    KnownError(
        name="cuda-ipc-share-failed",
        marker="_share_cuda_()",
        pattern=r"_share_cuda_\(\)[^\n]{0,80}\n[^\n]{0,80}CUDA error: (?P<why>[^\n]{3,80})",
        cause="A tensor on the GPU could not be shared with another process (CUDA IPC): {why}",
        remedy="Mostly its memory is of a kind that CUDA can't share: of torch_memory_saver, of vLLM's sleep mode, or of expandable segments in older torch: copy it first (`tensor.clone()` outside of that pool), leave expandable_segments:True out, or send the weights over NCCL; WSL and vGPUs can't share at all",
        source="THUDM/slime issue 2188; torch multiprocessing/reductions.py",
        matches=(
            'Traceback (most recent call last):\n  File "/x/torch/multiprocessing/reductions.py", line 360, in reduce_tensor\n    ) = storage._share_cuda_()\ntorch.AcceleratorError: CUDA error: invalid argument',
        ),
        differs=("torch.AcceleratorError: CUDA error: invalid argument",),
    ),
    KnownError(
        name="cudnn-out-of-memory",
        marker="CUDNN_STATUS_ALLOC_FAILED",
        pattern=r"cuDNN (?:Frontend )?error: [^\n]{0,40}CUDNN_STATUS_ALLOC_FAILED",
        cause="cuDNN got no memory for its work: the GPU's memory is full, or an earlier CUDA error had broken the process",
        remedy="Look above for an earlier CUDA error. None: leave more memory free beside PyTorch: smaller micro batches, lower gpu_memory_utilization or mem_fraction_static; `nvidia-smi` shows who holds it",
        source="NVIDIA cuDNN, cudnnStatus_t",
        matches=("RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED",),
        differs=("RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED",),
        look_up="gpu-memory",
    ),
    KnownError(
        name="cupy-out-of-memory",
        marker="cupy.cuda.memory.OutOfMemoryError",
        pattern=r"OutOfMemoryError: Out of memory allocating (?P<bytes>[\d,]{1,20}) bytes",
        cause="CuPy got no GPU memory for {bytes} bytes",
        remedy="`nvidia-smi` shows who holds the GPU's memory (PyTorch keeps what it had: torch.cuda.empty_cache()); smaller batches, or a limit for CuPy's own pool: `export CUPY_GPU_MEMORY_LIMIT='20%'`",
        source="cupy cuda/memory.pyx",
        matches=("cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 4,194,304 bytes (allocated so far: 12 bytes).",),
        differs=("cupy.cuda.memory.MemoryPool was made",),
        look_up="gpu-memory",
    ),
    KnownError(
        name="cuda-out-of-memory-shared",
        marker="CUDA out of memory. Tried to allocate",
        pattern=rf"CUDA out of memory\. Tried to allocate (?P<asked>{_SIZE})\.\s{{1,4}}GPU (?P<gpu>\d{{1,3}}) has a total capaci?ty of (?P<total>{_SIZE}) of which (?P<free>{_SIZE}) is free"
        rf"(?=[^\n]{{0,500}}? this process has (?P<own>{_SIZE}) memory in use)[^\n]{{0,300}}? Process (?P<pid>\d{{1,10}}) has (?P<other>[1-9]\d{{0,2}}\.\d\d GiB) memory in use",
        cause="CUDA ran out of memory on GPU {gpu}: it asked for {asked}, {free} of {total} was free; this process held {own}, and another one ({pid}) {other}",
        remedy="U" + _FEWER[1:] + ". `nvidia-smi` shows the other process: one that is left over may be killed",
        source="pytorch c10/cuda/CUDACachingAllocator.cpp (2.1 and later), in public logs",
        matches=(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.00 GiB is free. Process 2006998 has 8.23 GiB memory in use. "
            "Including non-PyTorch memory, this process has 69.09 GiB memory in use.",
        ),
        differs=(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.00 GiB is free. Including non-PyTorch memory, this process has 69.09 GiB memory in use.",
        ),
        look_up="gpu-memory",
        is_general=True,
    ),
    KnownError(
        name="cuda-out-of-memory",
        marker="CUDA out of memory. Tried to allocate",
        pattern=r"CUDA out of memory\. Tried to allocate (?P<asked>"
        + _SIZE
        + r")\.\s{1,4}GPU (?P<gpu>\d{1,3}) has a total capaci?ty of (?P<total>"
        + _SIZE
        + r") of which (?P<free>"
        + _SIZE
        + r") is free",
        cause="CUDA ran out of memory on GPU {gpu}: it asked for {asked}, {free} of {total} was free",
        remedy="U" + _FEWER[1:] + "; `nvidia-smi` shows who else holds memory there",
        source="pytorch c10/cuda/CUDACachingAllocator.cpp (2.1 and later), in public logs",
        matches=(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.00 GiB is free.",
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 14.12 GiB. GPU 0 has a total capacty of 23.69 GiB of which 11.33 GiB is free. Process 2006998 has 256.00 MiB memory in use.",
        ),
        differs=(
            "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 63.98 GiB of which 1.37 GiB is free.",
        ),
        look_up="gpu-memory",
        is_general=True,
    ),
    KnownError(
        name="cuda-out-of-memory-old",
        marker="CUDA out of memory. Tried to allocate",
        pattern=r"CUDA out of memory\. Tried to allocate (?P<asked>"
        + _SIZE
        + r") \(GPU (?P<gpu>\d{1,3}); (?P<total>"
        + _SIZE
        + r") total capacity; (?P<used>"
        + _SIZE
        + r") already allocated; (?P<free>"
        + _SIZE
        + r") free",
        cause="CUDA ran out of memory on GPU {gpu}: it asked for {asked}, {free} of {total} was free, this process used {used}",
        remedy="If {used} is far below {total}, another process has the rest (`nvidia-smi`). Otherwise " + _FEWER,
        source="pytorch c10/cuda/CUDACachingAllocator.cpp (before 2.1), in public logs",
        matches=(
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 984.00 MiB (GPU 0; 47.50 GiB total capacity; 22.15 GiB already allocated; 68.88 MiB free; 22.16 GiB reserved in total by PyTorch) If reserved "
            "memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF",
            "RuntimeError: CUDA out of memory. Tried to allocate 48.00 MiB (GPU 0; 6.00 GiB total capacity; 5.25 GiB already allocated; 0 bytes free; 5.34 GiB reserved in total by PyTorch)",
        ),
        differs=(
            "[GPU 0; 79.15 GiB total capacity; 70.00 GiB already allocated] CUDA out of memory. Tried to allocate in a loop, the batch was halved",
        ),
        look_up="gpu-memory",
    ),
    KnownError(
        name="cuda-out-of-memory-short",
        marker="CUDA out of memory",
        pattern=r"(?:OutOfMemoryError|RuntimeError|AcceleratorError): CUDA out of memory(?:\.| {0,9}$)|CUDA out of memory\. Tried to allocate \d",
        cause="CUDA ran out of memory on a GPU of this process",
        remedy="U" + _FEWER[1:] + "; `nvidia-smi` shows who else holds memory there",
        source="pytorch c10/cuda/CUDACachingAllocator.cpp, shortened as in vllm-project/vllm issues 7721 and 11560",
        matches=(
            "torch.OutOfMemoryError: CUDA out of memory.",
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB.",
        ),
        differs=(
            "WARNING: CUDA out of memory was caught; the batch is halved and tried again",
            "pytorch allocator cache flushes since last step. this happens when there is high memory pressure (CUDA out of memory is near) and is detrimental to performance",
        ),
        look_up="gpu-memory",
        is_general=True,
    ),
    KnownError(
        name="cuda-malloc-async-out-of-memory",
        marker="Allocation on device",
        pattern=r"(?:Allocation on device (?P<gpu>\d{1,3}) would exceed allowed memory\. \(out of memory\)|OutOfMemoryError: Allocation on device(?: \d{1,3})?\s{0,9}$)",
        cause="CUDA ran out of memory on a GPU of this process (PyTorch with the allocator cudaMallocAsync)",
        remedy="U" + _FEWER[1:] + "; `nvidia-smi` shows who else holds memory there",
        source="pytorch c10/cuda/CUDAMallocAsyncAllocator.cpp",
        matches=(
            "torch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of memory)\nCurrently allocated     : 9.43 GiB\nRequested               : 640.00 MiB\nDevice limit            : 11.59 GiB",
        ),
        differs=("The next batch would exceed allowed memory. (out of memory) Allocation on device 0 was skipped",),
        look_up="gpu-memory",
    ),
    KnownError(
        name="cuda-out-of-memory-nvml-assert",
        marker="NVML_SUCCESS == ",
        pattern=r"NVML_SUCCESS == (?:r|DriverAPI::get\(\)->\w{4,60}\([^\n]{0,80}\)) INTERNAL ASSERT FAILED at \"[^\n\"]{0,120}CUDACachingAllocator\.cpp\"",
        cause="CUDA ran out of memory, and PyTorch could not ask NVML for the details of its message",
        remedy="`nvidia-smi` on that node shows who holds the GPU's memory: kill what is left over, or use smaller micro batches and a lower gpu_memory_utilization. If `nvidia-smi` itself fails, repair the driver first",
        source="pytorch c10/cuda/CUDACachingAllocator.cpp, in public logs",
        matches=(
            'RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":1131, please report a bug to PyTorch.',
            'RuntimeError: NVML_SUCCESS == DriverAPI::get()->nvmlDeviceGetHandleByPciBusId_v2_( pci_id, &nvml_device) INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":1139, please report a bug to PyTorch.',
        ),
        differs=(
            'RuntimeError: captures_underway.empty() INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":2967; please report a bug to PyTorch.',
        ),
        look_up="gpu-memory",
    ),
    # ------------------------------------------------------------------------------------------------ beside PyTorch's allocator
    KnownError(
        name="nccl-out-of-gpu-memory",
        marker="'out of memory'",
        pattern=r"Cuda failure (?:\d{1,4} )?'out of memory'",
        cause="NCCL found no GPU memory for its buffers, which lie outside of PyTorch's share",
        remedy="Leave 2 to 4 GiB of each GPU free: lower gpu_memory_utilization or mem_fraction_static of the rollout engine, use smaller micro batches, offload the optimizer; `nvidia-smi` shows whether another "
        "process holds memory of that GPU",
        source="PKU-YuanGroup/Open-Sora-Plan issue 386; rwth-i6/returnn issue 1626",
        matches=(
            "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 2 'out of memory'",
            "w1:3018451:3018451 [0] enqueue.cc:1085 NCCL WARN Cuda failure 'out of memory'",
        ),
        differs=(
            "w1:417:1500 [0] transport/nvls.cc:598 NCCL WARN Cuda failure 1 'invalid argument'",
            "ibv_reg_mr_iova2 failed with error Cannot allocate memory; the log also says 'out of memory' of the host",
        ),
        look_up="gpu-memory",
    ),
    KnownError(
        name="cublas-no-handle",
        marker="when calling `cublasCreate",
        pattern=r"CUDA error: (?P<status>CUBLAS_STATUS_(?:ALLOC_FAILED|NOT_INITIALIZED)) when calling `cublasCreate",
        cause="cuBLAS could not start on the GPU ({status}): the GPU's memory is full, or an earlier CUDA error had broken the process",
        remedy="If an `Assertion ... failed` or `device-side assert` line stands above, that is the cause. Otherwise leave more memory free: smaller micro batches, lower gpu_memory_utilization; `nvidia-smi` shows "
        "whether another process holds memory of that GPU",
        source="pytorch's text of a cuBLAS status, in public logs",
        matches=(
            "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
            "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        ),
        differs=("RuntimeError: CUDA error: CUBLAS_STATUS_INVALID_VALUE when calling `cublasGemmEx( handle, opa, opb, m, n, k, ...)`",),
        look_up="gpu-memory",
    ),
    KnownError(
        name="cudnn-not-initialized",
        marker="CUDNN_STATUS_NOT_INITIALIZED",
        pattern=r"cuDNN error: CUDNN_STATUS_NOT_INITIALIZED",
        cause="cuDNN could not start: it is another version of cuDNN than this PyTorch was built for, or the GPU's memory is full",
        remedy="`pip list | grep -i cudnn` must show the version that torch requires (`pip check`); remove other cuDNN directories from LD_LIBRARY_PATH. If it fits, leave more memory free: smaller micro batches, lower "
        "gpu_memory_utilization",
        source="pytorch's text of a cuDNN status, in public logs",
        matches=("RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED",),
        differs=('    case CUDNN_STATUS_NOT_INITIALIZED: return "CUDNN_STATUS_NOT_INITIALIZED";',),
        look_up="gpu-memory",
    ),
    KnownError(
        name="triton-out-of-gpu-memory",
        marker="Triton Error [CUDA]: out of memory",
        pattern=r"Error: Triton Error \[CUDA\]: out of memory",
        cause="A Triton kernel could not be loaded or started because the GPU's memory was full",
        remedy="Leave more memory free beside PyTorch and the KV cache: lower gpu_memory_utilization or mem_fraction_static, smaller micro batches; `nvidia-smi` shows whether another process holds memory of that GPU",
        source="Triton's text of a CUDA error, in public logs of vLLM and SGLang",
        matches=("RuntimeError: Triton Error [CUDA]: out of memory",),
        differs=("RuntimeError: Triton Error [CUDA]: an illegal memory access was encountered",),
        look_up="gpu-memory",
    ),
    KnownError(
        name="triton-shared-memory",
        marker="out of resource: shared memory",
        pattern=r"OutOfResources: out of resource: shared memory, Required: (?P<asked>\d{1,9}), Hardware limit: (?P<limit>\d{1,9})",
        cause="A Triton kernel needs {asked} bytes of the fast memory inside a GPU core, this GPU has {limit}; neither GPU memory nor /dev/shm is full",
        remedy="The kernel was made for a larger GPU: use another attention backend (SGLang `--attention-backend flashinfer`; vLLM's option attention_backend), a newer version of the library, "
        "or a GPU of the data centre (A100, H100)",
        source="vllm-project/vllm issue 36802",
        matches=(
            "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 81920, Hardware limit: 65536. Reducing block sizes or `num_stages` may help.",
        ),
        differs=(
            "RuntimeError: DataLoader worker (pid 212) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.",
        ),
    ),
    KnownError(
        name="cuda-ipc-not-permitted",
        marker="pidfd_getfd",
        pattern=r"RuntimeError: pidfd_getfd(?:\([^\n]{0,60}\) failed with errno 1)?: Operation not permitted",
        cause="A process may not open GPU memory that another process shares with it (pidfd_getfd), since the container or the host forbids it; PyTorch needs this with expandable_segments:True",
        remedy="Remove expandable_segments:True from PYTORCH_CUDA_ALLOC_CONF of the sending process (the trainer), or allow it: container with `--cap-add=SYS_PTRACE` (Kubernetes: capability SYS_PTRACE); bare metal "
        "`sudo sysctl kernel.yama.ptrace_scope=0`",
        source="pytorch/pytorch issue 165685 (by SkyRL) and pull request 130890; flashinfer-ai/flashinfer pull request 4089",
        matches=(
            "RuntimeError: pidfd_getfd: Operation not permitted",
            "RuntimeError: pidfd_getfd(pidfd=41, fd=97) failed with errno 1: Operation not permitted.",
        ),
        differs=(
            "bind DNS gateway: Permission denied (os error 13); pidfd_getfd is not needed: Operation not permitted (os error 1) is expected",
        ),
    ),
    KnownError(
        name="cuda-error-out-of-memory",
        marker="error: out of memory",
        pattern=r"CUDA (?:driver )?error: out of memory",
        cause="A CUDA call outside of PyTorch's memory pool failed: the GPU's memory is full, or pinned host memory could not be had",
        remedy="If the traceback ends in pin_memory or offload code, the host is short: see `free -h` and `ulimit -l`, switch pin_memory off. Otherwise the GPU is full: `nvidia-smi` shows who "
        "holds it; kill what is left over, or use smaller micro batches",
        source="huggingface/transformers issue 24658 and deepspeedai/DeepSpeed issues 2977, 6651 (pin_memory); maybleMyers/H1111 issue 23",
        matches=(
            "RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1",
            "torch.AcceleratorError: CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information.",
        ),
        differs=(
            "RuntimeError: CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62",
            "slurmstepd: error: out of memory: Detected 1 oom_kill event in StepId=582913.batch.",
        ),
        look_up="gpu-memory",
        is_general=True,
    ),
    KnownError(
        name="npu-out-of-memory",
        marker="NPU out of memory",
        pattern=r"NPU out of memory\. Tried to allocate (?P<asked>[\d.]{1,12} \w{2,5})(?: \(NPU (?P<npu>\d{1,3}); (?P<total>[\d.]{1,12} \w{2,5}) total capacity;)?",
        cause="An Ascend NPU ran out of memory when {asked} was asked for",
        remedy="Smaller micro batches, offload, a lower gpu_memory_utilization of the rollout, or more NPUs; `npu-smi info` shows what others hold there; much reserved but not allocated memory: `export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True`",
        source="vllm-project/vllm-ascend issues 19 and 1127; sgl-project/sglang issue 29838",
        matches=(
            "torch.OutOfMemoryError: NPU out of memory. Tried to allocate 72.00 MiB (NPU 0; 61.27 GiB total capacity; 56.05 GiB already allocated; 56.05 GiB current active; 5.04 MiB free; 58.39 GiB reserved in total by PyTorch).",
            "RuntimeError: NPU out of memory. Tried to allocate 5.03 GiB (NPU 3; 60.96 GiB total capacity; 49.47 GiB already allocated",
        ),
        differs=("NPU out of memory. Tried to allocate more than 1EB memory",),
    ),
    KnownError(
        name="tpu-out-of-memory",
        marker="Ran out of memory in memory space hbm",
        pattern=r"Ran out of memory in memory space hbm\. Used (?P<used>[\d.]{1,12}\w) of (?P<total>[\d.]{1,12}\w) hbm",
        cause="A program compiled for the TPU needs {used} of memory, and the chip has {total}",
        remedy="Smaller micro batches or shorter sequences for that step, rematerialization (gradient checkpointing), more sharding, or more chips; the list below it names the largest allocations",
        source="XLA, in public logs of torch_xla and JAX",
        matches=(
            "RuntimeError: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 100.38G of 31.75G hbm. Exceeded hbm capacity by 68.63G.",
        ),
        differs=("XLA:TPU compile finished, used 10.38G of 31.75G hbm",),
    ),
    KnownError(
        name="xla-resource-exhausted",
        marker="RESOURCE_EXHAUSTED: ",
        pattern=r"RESOURCE_EXHAUSTED: (?:Out of memory|Attempting to (?:allocate|reserve)|Error (?:allocating|loading program)|Failed to allocate)[^\n]{0,200}",
        cause="XLA could not allocate memory on its device (TPU or GPU)",
        remedy="Smaller micro batches or shorter sequences, rematerialization, more sharding; on a GPU that others use too: `export XLA_PYTHON_CLIENT_PREALLOCATE=false`",
        source="XLA, in public logs of JAX",
        matches=("jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.",),
        differs=("grpc: RESOURCE_EXHAUSTED: Received message larger than max",),
        is_general=True,
    ),
    KnownError(
        name="hip-out-of-memory",
        marker="HIP out of memory",
        pattern=r"HIP out of memory\. Tried to allocate (?P<asked>[\d.]{1,12} \w{2,5})\. GPU (?P<gpu>\d{1,3}) has a total capacity of (?P<total>[\d.]{1,12} \w{2,5}) of which (?P<free>[\d.]{1,12} \w{2,5}) is free",
        cause="An AMD GPU, number {gpu}, ran out of memory: {asked} was asked for, {free} of {total} was free",
        remedy="Smaller micro batches, offload the optimizer, a lower gpu_memory_utilization of the rollout; `rocm-smi --showpids` shows who else holds memory there",
        source="pytorch/pytorch c10/cuda/CUDACachingAllocator.cpp for ROCm",
        matches=(
            "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 191.98 GiB of which 1.00 GiB is free. Of the allocated memory 10 GiB",
        ),
        differs=("HIP error: out of memory",),
    ),
    KnownError(
        name="memory-pool-expandable-segments",
        marker="MemPool doesn't currently support expandable_segments",
        pattern=r"MemPool doesn't currently support expandable_segments",
        cause="The engine's sleep mode or memory saver uses a memory pool of torch, which does not work with expandable_segments:True in PYTORCH_CUDA_ALLOC_CONF",
        remedy="`unset PYTORCH_CUDA_ALLOC_CONF` before `ray start`, and remove it from the job's runtime_env (or set expandable_segments:False for the rollout workers)",
        source="pytorch/pytorch c10/cuda/CUDACachingAllocator.cpp",
        matches=("RuntimeError: torch.cuda.MemPool doesn't currently support expandable_segments.",),
        differs=("# MemPool supports expandable_segments",),
    ),
)
