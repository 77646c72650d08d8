"""The pod of a node of Ray's is deleted, as the API server of Kubernetes does it; KubeRay makes another in its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from msgspec.structs import replace

from cockpit.acts import losses
from cockpit.acts.act import Act, Impact, Nouns, plan_one
from cockpit.acts.plan import KUBERNETES, Aim, Plan, Receipt, Target
from cockpit.model import Node, Pod, Snapshot
from cockpit.sources.source import SourceError
from cockpit.text import clean

if TYPE_CHECKING:
    from cockpit.acts.world import ActContext, Hear
    from cockpit.sources.kubernetes.api import KubernetesApi

MAX_NAMED = 8
GONE_REASONS: Mapping[str, str] = {
    "NotFound": "it is gone already",
    "Conflict": "a new pod has taken its name",
}
"""By the reason of a refusal: what was meant is no more."""


class DeletePod(Act):
    """Its uid is its identity: the API server compares it at the moment at which it deletes."""

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

    def aim_at(self, rows: Sequence[Node]) -> Aim | str:
        aim = super().aim_at(rows)
        return aim if isinstance(aim, str) else Aim(rows=tuple(rows), id=rows[0].pod)

    async def plan(self, aim: Aim, context: ActContext, hear: Hear) -> Plan:
        from cockpit.sources.kubernetes.facts import list_pods  # deferred, here and below: most clusters have no pods

        api = _api_of(context)
        pods = await list_pods(api)
        pod = _find(aim.id or "", pods, context.snapshot)
        if pod is None:
            names = ", ".join([one.name for one in pods][:MAX_NAMED])
            raise SourceError(f"RayCluster {api.place.title} has no pod {aim.id}; {f'it has {names}' if names else 'it has none'}")
        why_not = _why_not(pod)
        notes = () if why_not else ("KubeRay creates another pod in its place, with an empty disk",)
        return plan_one(self, _target(pod, context.snapshot, why_not), (_place_words(pod, api.place.title), *notes))

    async def perform(self, plan: Plan, context: ActContext, hear: Hear) -> Receipt:
        """That pod alone: one that was made anew under its name stays."""
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
        """What runs on the node; with the head the whole Ray ends, whose word is asked for always."""
        (target,) = plan.targets
        ends = losses.lost_with_session(snapshot, {target.node} if target.node else set())
        if target.part == "head":
            ends = ("this is the head's pod: Ray ends on all nodes of this cluster", *ends)
        return Impact(ends, target.name if ends else None)


def _api_of(context: ActContext) -> KubernetesApi:
    if context.monitor.kubernetes is None:
        raise SourceError("the RayCluster is unknown: name it with --kubernetes NAMESPACE/RAYCLUSTER")
    return context.monitor.kubernetes


def _find(name: str, pods: Sequence[Pod], snapshot: Snapshot) -> Pod | None:
    """By its name, or by what its node is called."""
    nodes = [node for node in snapshot.nodes or () if name in (node.id, node.title, node.host, node.ip) and node.state != "DEAD"]
    addresses = {node.ip for node in nodes if node.ip}
    return next((pod for pod in pods if pod.name == name), None) or next((pod for pod in pods if pod.ip and pod.ip in addresses), None)


def _place_words(pod: Pod, cluster: str) -> str:
    role = "the head" if pod.head else f"a worker of group {clean(pod.group)}" if pod.group else "a pod"
    return f"{clean(pod.name)} is {role} of RayCluster {cluster}"


def _why_not(pod: Pod) -> str | None:
    if pod.ends is not None:
        return "it is being deleted already"
    return None if pod.owned else "KubeRay did not create it for this RayCluster and would not replace it"


def _target(pod: Pod, snapshot: Snapshot, why_not: str | None) -> Target:
    alive = [node for node in snapshot.nodes or () if pod.ip and node.ip == pod.ip and node.state == "ALIVE"]
    part = "head" if pod.head else pod.group or None
    return Target(
        "pod", KUBERNETES, id=pod.uid, name=pod.name, state=pod.phase, part=part, node=alive[0].id if alive else None, reason=why_not
    )
