"""Explains what inference engines say when they can't serve a model: architectures, quantizations, dtypes, attention backends, downloads, warm-up and shutdown."""

from __future__ import annotations

from typing import Final

from cockpit.failures.known.error import KnownError, general_error

_CAPABILITY: Final = "`nvidia-smi --query-gpu=name,compute_cap --format=csv` shows this GPU's (7.5 Turing, 8.0 A100, 8.9 Ada, 9.0 Hopper, 10.0 and 12.0 Blackwell)"
_NAMED: Final = r"^(?:[\w.]{1,120}(?:Error|Exception)): "
_SOURCE: Final = "vLLM and SGLang (their texts)"


def _refused(name: str, marker: str, text: str, cause: str, remedy: str, *matches: str, differs: str = "") -> KnownError:
    """A row for what an engine refuses; `text` follows the name of the exception."""
    return general_error(name, marker, rf"{_NAMED}{text}", cause, remedy, _SOURCE, *matches, differs=differs or f"INFO {marker}", kind=True)


ENGINE_LIMITS: tuple[KnownError, ...] = (
    general_error(
        "engine-lacks-model",
        " has no ",
        r"(?P<model>[\w.\-\[\]', ]{1,160}) has no (?P<engine>SGLang|vLLM) implementation and the Transformers implementation is not compatible",
        "This {engine} has no code for the model class {model}, and that of transformers can't be used instead",
        "Install a version of {engine} that lists the model (`python -m pip show sglang vllm transformers`), or a transformers new enough for it; check `architectures` in its config.json; for a model of your own register its class",
        "sglang model_loader/utils.py; vLLM model_executor/models/registry.py",
        "ValueError: Qwen3VLMoe has no SGLang implementation and the Transformers implementation is not compatible with SGLang.",
        differs="INFO Qwen3 has no SGLang implementation, using Transformers implementation",
        general=False,
    ),
    general_error(
        "sglang-warm-up-refused",
        "<Response [",
        r"AssertionError: (?:res=)?<Response \[(?P<status>\d{3})\]>",
        "SGLang's own first request to its server was answered with status {status}",
        "502, 503, 403: a proxy answered instead of the server, `export no_proxy=localhost,127.0.0.1,$(hostname -i)` before the start, or unset http_proxy. 500: the server's traceback above is the reason. 404: another program has that port",
        "sglang entrypoints/http_server.py (warm-up)",
        "AssertionError: res=<Response [502]>, res.text=''",
        differs="INFO res=<Response [200]>",
        general=False,
    ),
    general_error(
        "sglang-warm-up-failed",
        "Initialization failed. warmup error",
        r"Initialization failed\. warmup error",
        "The first request to a new SGLang server failed, and the server ended",
        "The traceback below or the scheduler's above names the error. ConnectionError, 502 or 503: a proxy, `export no_proxy=localhost,127.0.0.1,$(hostname -i)` before the start; a timeout: kernels are still compiled, start again or raise --watchdog-timeout",
        "sglang entrypoints/http_server.py",
        "Initialization failed. warmup error: x",
        consequence=True,
    ),
    general_error(
        "engine-shut-down",
        "hut",
        r"(?:shutdown triggered|SIGTERM received\.[^\n]{0,80}|Draining requests and shutting down|Application shutdown complete)",
        "The engine was told to stop, and did so in order; this line does not say who stopped it",
        "Look for the first error above. If there is none: Slurm or Kubernetes (time limit, failed probe), a person, or the program that started it: `scontrol show job $SLURM_JOB_ID` or `kubectl get events`",
        "vLLM v1/engine/core.py; sglang managers/tokenizer_manager.py; uvicorn (their texts)",
        "INFO 11-01 10:00:00 [core.py:1] shutdown triggered",
        "[2025-01-01 10:00:00] SIGTERM received. signum=15 frame=None. Draining requests and shutting down...",
        "INFO:     Application shutdown complete.",
        consequence=True,
    ),
    _refused(
        "quantization-dtype",
        "for quantization method",
        r"(?P<dtype>[\w.]{1,40}) is not supported for quantization method (?P<method>\w{1,40})(?:\. Supported dtypes: (?P<dtypes>[^\n]{1,100}))?",
        "The quantization {method} can't be used with the dtype {dtype}",
        "Start with `--dtype float16` (awq and gptq mostly need it) or the dtype that the text names; or use awq_marlin or gptq_marlin, or another quantization of the model",
        "ValueError: torch.bfloat16 is not supported for quantization method awq. Supported dtypes: [torch.float16]",
    ),
    _refused(
        "kernel-dtype-expected",
        "xpected",
        r"(?P<what>[Ee]xpected (?:a )?(?:dtype|tensor of dtype|type) [^\n]{1,120}|[^\n]{0,80}[Ee]xpected dtype[^\n]{1,120})",
        "A kernel got a tensor of another dtype than it needs: {what}",
        "Load the model, adapter and caches in one dtype (`--dtype bfloat16`, torch_dtype, kv_cache_dtype auto); GPUs before 8.0 need float16",
        "RuntimeError: Expected dtype float16 but got bfloat16",
        "AssertionError: expected dtype torch.bfloat16, got torch.float16",
    ),
    _refused(
        "attention-backend-none",
        "ttention backend",
        r"(?P<what>[^\n]{0,60}\b[Nn]o (?:valid|suitable|available)[^\n]{0,20} attention backend[^\n]{0,160})",
        "No attention kernel of this engine fits the model and this GPU",
        f"The reasons stand in the text (head size, dtype, kv_cache_dtype, block size, capability): change that setting, or use a newer engine. {_CAPABILITY}",
        "ValueError: No valid attention backend found for cuda with AttentionSelectorConfig(head_size=80). Reasons: {x}",
    ),
    _refused(
        "attention-backend-unknown-name",
        "ttention backend",
        r"(?P<what>(?:Unsupported|Invalid|Unknown|Unrecognized) attention backend[^\n]{0,160})",
        "The engine does not know that attention backend, or not in this version: {what}",
        "`--help` of the server lists the names of this version; leave the option and VLLM_ATTENTION_BACKEND unset, so that it chooses one",
        "ValueError: Unsupported attention backend: foo",
    ),
    _refused(
        "head-size-unsupported",
        "ead",
        r"(?P<what>[^\n]{0,60}\b[Hh]ead[_ ](?:size|dim)[= ]{1,3}\d{1,4}[^\n]{0,40}not supported[^\n]{0,120}|Cannot use [^\n]{1,60} for head size[^\n]{0,60}|Unsupported head[_ ](?:size|dim)[^\n]{0,120})",
        "An attention kernel can't work with the model's head size: {what}",
        "Choose another attention backend (TRITON_ATTN or triton, FLEX_ATTENTION, XFORMERS, sdpa), which support more sizes",
        "ValueError: head_size 80 is not supported by FlashMLA. Supported head sizes are: [64, 128].",
        "ValueError: Unsupported head size 80",
    ),
    _refused(
        "gpu-capability-unsupported",
        ": ",
        r"(?P<what>[^\n]{0,120}(?:compute capability|[Cc]UDA arch|device capability|SM ?>= ?\d|\bsm_?\d{2,3}\b|on this (?:GPU|device)|this GPU does not support|for the current GPU)[^\n]{0,160})",
        "A kernel or feature of the engine does not support this kind of GPU: {what}",
        f"{_CAPABILITY}. Use another backend, quantization or dtype that fits it, a build for it, or another GPU",
        "RuntimeError: The NVIDIA GPU with compute capability 12.0 is not supported",
        "AssertionError: fp8 e4nv data type is not supported on CUDA arch < 89",
        "ValueError: CUTLASS_MLA is not supported on this device",
        "RuntimeError: FlashInfer requires GPUs with sm75 or higher",
        differs="INFO compute capability 9.0",
    ),
    _refused(
        "model-lacks-feature",
        "support",
        r"(?P<what>(?:This model|[A-Z]\w{2,60}) does not support (?:LoRA|the '|`--|pipeline|multimodal|embedding|quantization|speculative|reward)[^\n]{0,160}|(?:LoRA|Speculative decoding|Expert parallelism|Pipeline parallelism|Chunked prefill|Prefix caching|CUDA graphs?|FP8 KV cache|kv_cache_dtype)[^\n]{0,60} (?:is|are) not supported[^\n]{0,160})",
        "The engine does not offer this for that model or backend: {what}",
        "Leave that option out, or use a newer version of the engine, another backend, or the other engine (vLLM, SGLang): their pages of supported features list models and hardware",
        "ValueError: This model does not support `--runner generate`.",
        "ValueError: Foo does not support LoRA yet.",
        "RuntimeError: FP8 KV cache is not supported with x",
    ),
    _refused(
        "download-attempts-used-up",
        "after ",
        r"(?P<what>[^\n]{0,120}(?:[Dd]ownload|fetch|load)[^\n]{0,120} after (?P<times>\d{1,4}) (?:attempts|retries|tries)[^\n]{0,120})",
        "A download failed {times} times: {what}",
        "`curl -I https://huggingface.co` on that node: network, proxy (https_proxy), token, rate limit; also `df -h ~/.cache`. Download it once (`hf download MODEL`) to a disk that all nodes have, and pass its path with HF_HUB_OFFLINE=1",
        "RuntimeError: Failed to download model after 5 attempts",
    ),
    _refused(
        "hub-not-connected",
        "connect to 'https://",
        r"(?P<what>We couldn't connect to '(?P<url>https://[^'\n]{1,120})'[^\n]{0,200})",
        "transformers could not reach {url}, and the file is not in its cache on that node",
        "`curl -I {url}` on that node: proxy (`env | grep -i _proxy`) or no Internet. Download once elsewhere (`hf download MODEL`), and pass the directory; HF_HOME must be the same directory in the job; a mirror is set with HF_ENDPOINT",
        "OSError: We couldn't connect to 'https://huggingface.co' to load the files.",
    ),
    _refused(
        "model-code-not-trusted",
        "trust_remote_code",
        r"(?P<what>[^\n]{0,200}requires you to execute the[^\n]{0,60} in that repo[^\n]{0,300})",
        "The model brings Python code of its own, which is not run without your consent",
        "If you trust its source: `--trust-remote-code` (veRL `data.trust_remote_code=True` and `actor_rollout_ref.model.trust_remote_code=True`), for the engine, the trainer and the tokenizer",
        "ValueError: Loading x requires you to execute the configuration file in that repo on your local machine. Make sure you have read the code there, then set the option `trust_remote_code=True`",
    ),
    general_error(
        "engine-child-told-parent",
        "eceived a sigquit from a child",
        r"[Rr]eceived a sigquit from a child process",
        "A scheduler process of SGLang failed, and told its parent to stop",
        "The scheduler's traceback above (Scheduler hit an exception) is the reason; nothing there: it was killed, `dmesg -T | grep -i 'killed process'`",
        "sglang entrypoints/engine.py",
        "RuntimeError: Received a sigquit from a child process. It usually means the child failed.",
        consequence=True,
    ),
)
