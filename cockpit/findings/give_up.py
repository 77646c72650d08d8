"""How long the program that asked for a placement group waits for it before its job fails, where its code says so."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from cockpit.model import Job, PlacementGroup
from cockpit.text import age

ENGINE_WAITS_S: Final = 1800.0
"""vLLM's PG_WAIT_TIMEOUT (vllm/executor/ray_utils.py, later vllm/v1/executor/); lmdeploy and xDiT took it over with its executor."""
ENGINE_NODE: Final = "node:"
ENGINE_NODE_SHARE: Final = 0.001
"""How vLLM's executor binds its first bundle to the node where it runs; a group that a trainer hands to it has none."""
SKYRL_WAITS_S: Final = 180.0
"""SkyRL's default (skyrl/env_vars.py); its first release had 60 s."""
_SKYRL: Final = re.compile(r"\bskyrl", re.IGNORECASE)
_SKYRL_LIMIT: Final = re.compile(r"\bSKYRL_RAY_PG_TIMEOUT_IN_S=['\"]?(\d{1,7})\b")


class GiveUp(NamedTuple):
    """Who gives up, how many seconds after it has asked, and whence that is known."""

    who: str
    after: float
    source: str


class Deadline(NamedTuple):
    """When a group is given up."""

    by: GiveUp
    asked: float

    def left(self, now: float) -> float:
        """Seconds; 0 where that time has come."""
        return max(0.0, self.asked + self.by.after - now)


def find_give_up(group: PlacementGroup, job: Job | None) -> GiveUp | None:
    """`None`: it is waited for without a limit, as by OpenRLHF and veRL, or no limit is known."""
    if group.bundles and _is_bound(group.bundles[0].needs):
        return GiveUp("the engine", ENGINE_WAITS_S, f"vLLM's executor waits {ENGINE_WAITS_S:.0f} s (PG_WAIT_TIMEOUT)")
    command = (job.entrypoint if job else None) or ""
    if _SKYRL.search(command):
        told = _SKYRL_LIMIT.search(command)
        limit = float(told[1]) if told else SKYRL_WAITS_S
        source = "its command" if told else "its default; an env file may say otherwise"
        return GiveUp("SkyRL", limit, f"SkyRL waits {limit:.0f} s (SKYRL_RAY_PG_TIMEOUT_IN_S: {source})")
    return None


def _is_bound(needs: Mapping[str, float]) -> bool:
    return any(name.startswith(ENGINE_NODE) and number == ENGINE_NODE_SHARE for name, number in needs.items())


def find_deadline(groups: Iterable[PlacementGroup], job: Job | None) -> Deadline | None:
    """Of the one of a job's waiting groups that is given up first."""
    asked = ((group.since, find_give_up(group, job)) for group in groups)
    known = [Deadline(give_up, since) for since, give_up in asked if give_up is not None and since is not None]
    return min(known, key=lambda one: one.asked + one.by.after, default=None)


def deadline_words(deadline: Deadline, now: float) -> str:
    """`the engine gives up in 12m30s`."""
    left = deadline.left(now)
    return f"{deadline.by.who} gives up {f'in {age(left)}' if left else 'about now'}"
