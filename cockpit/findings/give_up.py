"""How long vLLM's executor waits for a placement group before its job fails; OpenRLHF and veRL wait for theirs without a limit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from cockpit.model import PlacementGroup
from cockpit.text import age

ENGINE_WAITS_S: Final = 1800.0
"""vLLM's PG_WAIT_TIMEOUT (vllm/executor/ray_utils.py, later vllm/v1/executor/); lmdeploy and xDiT took it over with its executor."""
ENGINE_NODE: Final = "node:"
ENGINE_NODE_SHARE: Final = 0.001
"""How vLLM's executor binds its first bundle to the node where it runs; a group that a trainer hands to it has none."""
LIMIT_WORDS: Final = f"vLLM's executor waits {ENGINE_WAITS_S:.0f} s (PG_WAIT_TIMEOUT); then its job fails"


def find_deadline(groups: Iterable[PlacementGroup]) -> float | None:
    """When the first of these waiting groups is given up; `None`: none is, or that is not known."""
    asked = (group.since for group in groups if group.bundles and _is_bound(group.bundles[0].needs))
    return min((since + ENGINE_WAITS_S for since in asked if since is not None), default=None)


def _is_bound(needs: Mapping[str, float]) -> bool:
    return any(name.startswith(ENGINE_NODE) and number == ENGINE_NODE_SHARE for name, number in needs.items())


def deadline_words(moment: float, now: float) -> str:
    """`the engine gives up in 12m30s`."""
    return f"the engine gives up {f'in {age(moment - now)}' if moment > now else 'about now'}"
