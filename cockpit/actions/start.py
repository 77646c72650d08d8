"""Defines the action that starts Ray on a cluster's hosts, each with its own flags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from cockpit.actions.action import Impact, Nouns
from cockpit.actions.on_hosts import HostAction, without_none
from cockpit.actions.plan import ActionTarget, Plan
from cockpit.model import Snapshot


class Start(HostAction):
    """A step of the runbook, without a key or command of its own."""

    id = "start"
    keys = ""
    title = "Start Ray"
    help = "Start Ray on a cluster's hosts, each with its own flags"
    command = False
    nouns: ClassVar[Nouns] = {"host": ("host", "hosts")}
    asks_for_jobs = False
    why_not_in_pods = "KubeRay starts Ray in its pods: edit the RayCluster, or delete a node's pod, and KubeRay creates a new one"

    def request(self, requested: ActionTarget, host: str) -> dict[str, Any]:
        return without_none(**{"act": "start", **requested.requests[host]})

    def impact(self, plan: Plan, snapshot: Snapshot, addresses: Mapping[str, str]) -> Impact:
        return Impact()
