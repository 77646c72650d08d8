"""Defines the action that deletes the pod of a Ray node through the Kubernetes API; KubeRay creates another in its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from msgspec.structs import replace

from cockpit.actions import losses
from cockpit.actions.action import Action, Impact, Nouns, plan_one
from cockpit.actions.plan import KUBERNETES, ActionTarget, Plan, Receipt, Target
from cockpit.model import Node, Snapshot
from cockpit.sources.source import SourceError
from cockpit.text import clean

if TYPE_CHECKING:
    from cockpit.actions.action_context import ActionContext, OnProgress
    from cockpit.sources.kubernetes.api import KubernetesApi

MAX_NAMED = 8
GONE_REASONS: Mapping[str, str] = {
    "NotFound": "it is gone already",
    "Conflict": "a new pod has taken its name",
}
"""Reasons of a refusal, in Kubernetes' word, that mean the planned pod no longer exists."""


class DeletePod(Action):
    """Deletes a pod by its uid, which the API server compares at the moment of the deletion."""

    id = "delete-pod"
    keys = "X"
    title = "Delete pod"
    help = "Delete a node's pod; KubeRay creates a new one"
    takes = Node
    noun = "a node that is a pod"
    operand = "id"
    nouns: ClassVar[Nouns] = {"pod": ("pod", "pods")}

    def why_not(self, row: Node) -> str | None:
        return None if row.pod is not None else f"{row.title} is not a pod of a RayCluster that cockpit knows"

    def combine_into_target(self, rows: Sequence[Node]) -> ActionTarget | str:
        target = super().combine_into_target(rows)
        return target if isinstance(target, str) else ActionTarget(rows=tuple(rows), id=rows[0].pod)

    async def plan(self, requested: ActionTarget, context: ActionContext, on_progress: OnProgress) -> Plan:
        from cockpit.sources.kubernetes.facts import list_pods  # deferred, here and below: most clusters have no pods

        api, name = _api_of(context), requested.id or ""
        pods = await list_pods(api)
        nodes = context.snapshot.nodes or ()

        # The pod has this name, or the address of a node with this name.
        called = {node.ip for node in nodes if name in (node.id, node.title, node.host, node.ip) and node.state != "DEAD"}
        by_address = (pod for pod in pods if pod.ip and pod.ip in called)
        pod = next((pod for pod in pods if pod.name == name), None) or next(by_address, None)
        if pod is None:
            names = ", ".join([one.name for one in pods][:MAX_NAMED])
            raise SourceError(f"RayCluster {api.place.title} has no pod {requested.id}; {f'it has {names}' if names else 'it has none'}")

        why_not = None if pod.owned else "KubeRay did not create it for this RayCluster and would not replace it"
        if pod.ends is not None:
            why_not = "it is being deleted already"
        role = "the head" if pod.head else f"a worker of group {clean(pod.group)}" if pod.group else "a pod"
        notes = [f"{clean(pod.name)} is {role} of RayCluster {api.place.title}"]
        if not why_not:
            notes.append("KubeRay creates another pod in its place, with an empty disk")
        node_id = next((node.id for node in nodes if pod.ip and node.ip == pod.ip and node.state == "ALIVE"), None)
        part = "head" if pod.head else pod.group or None
        target = Target("pod", KUBERNETES, id=pod.uid, name=pod.name, state=pod.phase, part=part, node=node_id, reason=why_not)
        return plan_one(self, target, tuple(notes))

    async def perform(self, plan: Plan, context: ActionContext, on_progress: OnProgress) -> Receipt:
        """Delete the planned pod. A newer pod with the same name stays."""
        from cockpit.sources.kubernetes.api import KubernetesRefusedError
        from cockpit.sources.kubernetes.facts import delete_pod

        (target,) = plan.targets
        try:
            await delete_pod(_api_of(context), target.name or "", target.id or "")
        except KubernetesRefusedError as error:
            if gone := GONE_REASONS.get(error.reason):
                return plan.receipt(refused=(replace(target, reason=gone),))
            return plan.receipt(failed=(replace(target, error=str(error)),))
        except SourceError as error:
            return plan.receipt(failed=(replace(target, error=f"{error}; whether it was deleted is unknown"),))
        return plan.receipt(done=(replace(target, outcome="deleted; it ends within its grace period"),))

    def impact(self, plan: Plan, snapshot: Snapshot, addresses: Mapping[str, str]) -> Impact:
        """Return what runs on the node. The head always needs a word, because all of Ray ends with it."""
        (target,) = plan.targets
        ends = losses.lost_with_session(snapshot, {target.node} if target.node else set())
        if target.part == "head":
            ends = ("this is the head's pod: Ray ends on all nodes of this cluster", *ends)
        return Impact(ends, target.name if ends else None)


def _api_of(context: ActionContext) -> KubernetesApi:
    if context.monitor.kubernetes is None:
        raise SourceError("the RayCluster is unknown: name it with --kubernetes NAMESPACE/RAYCLUSTER")
    return context.monitor.kubernetes
