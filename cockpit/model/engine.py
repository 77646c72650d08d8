"""Defines inference engines (vLLM, SGLang) as their metrics describe them."""

from __future__ import annotations

from typing import Final, Literal

from cockpit.model.value import Value

SOFTWARE_NAMES: Final = {"vllm": "vLLM", "sglang": "SGLang"}
ENGINE_FRESH_S: Final = 45.0
"""After so many seconds the numbers of an engine are old. Nodes are asked for them every 10 s, and servers every 30 s."""


class HostEngine(Value, frozen=True, kw_only=True):
    """The numbers with which the engine's own server has answered the probe of its host."""

    pid: int
    """The process that listens."""
    port: int
    error: str | None = None
    """Why the server has not answered. Then the other facts come from its last answer."""
    software: str = ""
    number: str = ""
    model: str | None = None
    running: float | None = None
    waiting: float | None = None
    kv_cache: float | None = None
    tokens: float | None = None
    throughput: float | None = None
    preemptions: float | None = None


class Engine(Value, frozen=True, kw_only=True):
    """One inference engine of a job. A data-parallel server has several."""

    software: str
    """`vllm` or `sglang`."""
    number: str = ""
    """Its number, if its server has several engines."""
    model: str | None = None
    node: str | None = None
    """Ray's id of its node."""
    pid: int | None = None
    """The pid, as Ray reports it on that node, of its Ray worker or of its server."""
    worker: str | None = None
    """Ray's id of its worker, if it reports through Ray."""
    job: str | None = None
    """As `Process.job`."""
    actor: str | None = None
    by: Literal["node", "server", "processes"]
    """Who reports it: the metrics endpoint of its node (`node`), its own `/metrics` (`server`), or only its processes."""
    port: int | None = None
    """The port of its own `/metrics`."""
    running: int | None = None
    waiting: int | None = None
    """Requests."""
    kv_cache: float | None = None
    """The share of its KV cache in use, 0 to 1."""
    tokens_per_second: float | None = None
    """The mean of generated tokens in the last minute."""
    preemptions_per_minute: float | None = None
    preemptions: int | None = None
    """All preemptions so far."""
    read: float | None = None
    """When these numbers were read."""
    unanswered: float | None = None
    """Since when its server or node has not answered although its process runs."""
    why: str | None = None
    """The reason of `unanswered`."""
    ended: float | None = None
    """Since when its processes are gone although the process of its actor still runs. `None`: they run, or are not seen."""

    @property
    def key(self) -> str:
        """Its identity."""
        return f"engine:{self.node}:{self.worker or self.pid}:{self.software}:{self.number}:{self.model or ''}"

    @property
    def title(self) -> str:
        """`vLLM 1 (pid 4711)`; the number only if there are several."""
        number = f" {self.number}" if self.number not in ("", "0") else ""
        return f"{SOFTWARE_NAMES.get(self.software, self.software)}{number} (pid {self.pid})"
