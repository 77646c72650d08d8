"""Reads the metrics of inference engines (vLLM, SGLang) in Prometheus' text; cockpit reads those of Ray's nodes with it too.

Only the lines of a dozen names are parsed. Nothing that others write can raise an error here or take more than linear time.
"""

from __future__ import annotations

import math
import re
from typing import Dict, List, NamedTuple, Tuple

MAX_BYTES = 4 << 20
"""The longest answer that is read. A busy node of Ray writes some 300 kB, an engine 100 kB."""
MAX_ENGINES = 256
"""Engines of one answer; there is hardly more than one for each GPU."""
MAX_LABELS, MAX_LABEL = 4000, 200
"""Characters of all labels of a line, and of one label that is kept."""
MAX_NUMBER = 1e15
"""A larger number is no count of tokens or requests."""
_FIELDS = {
    "num_requests_running": "running", "num_running_reqs": "running",
    "num_requests_waiting": "waiting", "num_queue_reqs": "waiting",
    "kv_cache_usage_perc": "kv_cache", "gpu_cache_usage_perc": "kv_cache", "token_usage": "kv_cache",
    "generation_tokens_total": "tokens", "gen_throughput": "throughput", "num_preemptions_total": "preemptions",
}  # fmt: skip
"""By the end of a metric's name. Older vLLM calls its cache `gpu_cache`. SGLang counts no preemptions."""
_LINE = re.compile(
    rf"^(ray_)?(vllm|sglang)[:_]({'|'.join(_FIELDS)})(?:\{{([^\n]{{0,{MAX_LABELS}}})\}})?[ \t]+([^\s]{{1,32}})", re.MULTILINE
)
"""vLLM writes `vllm:`, through Ray it becomes `ray_vllm_`, with older ones `ray_vllm:`."""
_LABEL = re.compile(r'([a-zA-Z_]\w{0,40})="((?:[^"\\\n]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")


class EngineReading(NamedTuple):
    """What one answer says of one engine. `None`: it does not say it."""

    software: str
    """`vllm` or `sglang`."""
    number: str = ""
    """The engine's number beside others of the same server (data parallel)."""
    model: str | None = None
    worker: str | None = None
    """Ray's id of the worker that reports it; only at a node of Ray."""
    running: float | None = None
    waiting: float | None = None
    kv_cache: float | None = None
    """The share of its KV cache in use, 0 to 1."""
    tokens: float | None = None
    """All that it has generated."""
    throughput: float | None = None
    """Tokens a second by its own count; only SGLang writes it."""
    preemptions: float | None = None
    """All so far."""


def read_engines(text: bytes) -> List[EngineReading]:
    """The engines in an answer, in its order. Ranks of one engine say the same, and the greatest number counts."""
    found: Dict[Tuple[str, str, str, str], Dict[str, float]] = {}
    through_ray = set()
    for line in _LINE.finditer(text.decode("utf-8", "replace")):
        ray, software, name, labels_text, written = line.groups()
        field, value = _FIELDS[name], _to_number(written)
        if value is None or (field == "kv_cache" and value > 1):
            continue
        labels = {label: _ESCAPE.sub(r"\1", text)[:MAX_LABEL] for label, text in _LABEL.findall(labels_text or "")}
        place = labels.get("engine") or labels.get("dp_rank") or ""
        key = (software, place, labels.get("model_name", ""), labels.get("WorkerId", ""))
        if key not in found and len(found) >= MAX_ENGINES:
            continue
        values = found.setdefault(key, {})
        values[field] = max(value, values.get(field, value))
        if ray:
            through_ray.add(key)
    for key in through_ray:
        if key[0] == "vllm":
            found[key].setdefault("preemptions", 0.0)  # vLLM passes a counter on to Ray only once it is above 0
    # With data parallelism, SGLang counts tokens for all its schedulers together: that is no engine of its own.
    return [
        EngineReading(software, place, model or None, worker or None, **values)
        for (software, place, model, worker), values in found.items()
        if software == "vllm" or not values.keys().isdisjoint(("running", "waiting", "kv_cache"))
    ]


def _to_number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 <= value < MAX_NUMBER else None
