"""Finds the time at which vLLM's executor gives up waiting for a placement group; OpenRLHF and veRL wait without a limit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from cockpit.model import PlacementGroup
from cockpit.text import age

ENGINE_WAITS_S: Final = 1800.0
"""vLLM's PG_WAIT_TIMEOUT (vllm/executor/ray_utils.py, later vllm/v1/executor/); lmdeploy and xDiT have the same executor."""
ENGINE_NODE: Final = "node:"
ENGINE_NODE_SHARE: Final = 0.001
"""vLLM's executor asks for this share of `node:IP` in its first bundle, to bind it to its own node; a trainer's group does not."""
LIMIT_WORDS: Final = f"vLLM's executor waits {ENGINE_WAITS_S:.0f} s (PG_WAIT_TIMEOUT); then its job fails"


def find_deadline(groups: Iterable[PlacementGroup]) -> float | None:
    """When the engine of the first of these waiting groups gives up; `None`: none does, or it is unknown."""
    deadlines: list[float] = []
    for group in groups:
        first = group.bundles[0].needs if group.bundles else {}
        is_engine = any(name.startswith(ENGINE_NODE) and number == ENGINE_NODE_SHARE for name, number in first.items())
        if is_engine and group.since is not None:
            deadlines.append(group.since + ENGINE_WAITS_S)
    return min(deadlines, default=None)


def deadline_words(moment: float, now: float) -> str:
    """`the engine gives up in 12m30s`."""
    return f"the engine gives up {f'in {age(moment - now)}' if moment > now else 'about now'}"
