"""A node's pod is deleted by its uid: which pod it is, what ends with it, and what stays."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from cockpit.actions.action import Impact
from cockpit.actions.choose import Choice, Selection, choose_action
from cockpit.actions.plan import ActionTarget, Plan, Receipt
from cockpit.actions.plan_text import plan_lines, summary
from cockpit.actions.table import actions_on, find_action
from cockpit.config.kubernetes import KubernetesPlace
from cockpit.model import Snapshot
from cockpit.sources.kubernetes.api import KubernetesApi, KubernetesRefusedError
from cockpit.sources.source import SourceError
from tests.world import NOW, actor, node, snapshot

DELETE = find_action("delete-pod")
WORKER = "ray-gpu-worker-2"


def listed(name: str, number: int, **more: Any) -> dict[str, Any]:
    kind = "head" if number == 1 else "worker"
    metadata = {
        "name": name,
        "uid": f"uid-{number}",
        "labels": {"ray.io/node-type": kind, "ray.io/group": "gpu"},
        "ownerReferences": [{"kind": "RayCluster", "name": "ray"}],
        **more,
    }
    return {"metadata": metadata, "status": {"phase": "Running", "podIP": f"10.0.0.{number}"}}


class Server:
    """Lists pods and remembers deletions."""

    def __init__(self, *pods: dict[str, Any], refuses: SourceError | None = None) -> None:
        self.pods, self.refuses, self.deleted = pods, refuses, []

    async def __call__(self, method: str, path: str, body: bytes = b"") -> bytes:
        if method == "GET":
            return json.dumps({"items": self.pods}).encode()
        if self.refuses is not None:
            raise self.refuses
        self.deleted.append((path, json.loads(body)["preconditions"]["uid"]))
        return b"{}"


def world_of(server: Server | None, known: Snapshot | None = None) -> Any:
    api = KubernetesApi(KubernetesPlace("default", "ray"), server) if server else None  # type: ignore[arg-type]  # cockpit's two ways have this form
    return SimpleNamespace(monitor=SimpleNamespace(kubernetes=api), snapshot=known or snapshot())


async def planned(server: Server | None, name: str, known: Snapshot | None = None) -> Plan:
    return await DELETE.plan(ActionTarget(id=name), world_of(server, known), lambda *_: None)


async def performed(server: Server) -> Receipt:
    return await DELETE.perform(await planned(server, WORKER), world_of(server), lambda *_: None)


def test_only_a_node_that_is_a_pod_can_be_the_target():
    choice = choose_action(actions_on("X"), Selection([node(2, pod=WORKER)]))
    assert isinstance(choice, Choice)
    assert (choice.action.id, choice.target.id) == ("delete-pod", WORKER)
    assert choose_action(actions_on("X"), Selection([node(2)])) == "node2 is not a pod of a RayCluster that cockpit knows"


@pytest.mark.parametrize("name", [WORKER, "node2", "10.0.0.2", f"{2:056x}"])
async def test_a_pod_is_found_by_its_name_or_by_a_name_of_its_node(name: str):
    plan = await planned(Server(listed("ray-head", 1), listed(WORKER, 2)), name)
    (target,) = plan.targets
    assert (target.id, target.name, target.part, target.node) == ("uid-2", WORKER, "gpu", f"{2:056x}")
    assert plan_lines(plan, NOW)[0] == "Delete pod: 1 pod"
    assert plan.notes == (
        f"{WORKER} is a worker of group gpu of RayCluster default/ray",
        "KubeRay creates another pod in its place, with an empty disk",
    )


async def test_an_unknown_pod_or_raycluster_is_an_error():
    with pytest.raises(SourceError, match="RayCluster default/ray has no pod w9; it has ray-gpu-worker-2"):
        await planned(Server(listed(WORKER, 2)), "w9")
    with pytest.raises(SourceError, match="has no pod ; it has none"):
        await planned(Server(), "")
    with pytest.raises(SourceError, match="name it with --kubernetes NAMESPACE/RAYCLUSTER"):
        await planned(None, WORKER)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"ownerReferences": []}, "KubeRay did not create it for this RayCluster and would not replace it"),
        ({"ownerReferences": [{"kind": "RayCluster", "name": "another"}]}, "KubeRay did not create it for this RayCluster"),
        ({"deletionTimestamp": "2026-11-24T02:45:30Z"}, "it is being deleted already"),
    ],
)
async def test_a_pod_that_would_not_be_replaced_or_is_being_deleted_is_refused(more: dict[str, Any], reason: str):
    plan = await planned(Server(listed(WORKER, 2, **more)), WORKER)
    assert plan.empty
    assert plan.refused[0].reason is not None
    assert plan.refused[0].reason.startswith(reason)


async def test_the_agreed_uid_is_sent_with_the_request():
    server = Server(listed(WORKER, 2))
    receipt = await performed(server)
    assert server.deleted == [(f"/api/v1/namespaces/default/pods/{WORKER}", "uid-2")]
    assert (receipt.well, summary(receipt)) == (True, "Delete pod: 1 pod, 0.0 s")


@pytest.mark.parametrize(
    ("error", "refused", "failed"),
    [
        (KubernetesRefusedError("Conflict", "Precondition failed"), "a new pod has taken its name", None),
        (KubernetesRefusedError("NotFound", "not found"), "it is gone already", None),
        (
            KubernetesRefusedError("Forbidden", "no"),
            None,
            "Kubernetes refuses it: no; packaging/kubernetes-role.yaml has the Role that allows it",
        ),
        (SourceError("no answer"), None, "no answer; whether it was deleted is unknown"),
    ],
)
async def test_a_refused_deletion_is_reported_as_refused_or_failed(error: SourceError, refused: str | None, failed: str | None):
    receipt = await performed(Server(listed(WORKER, 2), refuses=error))
    assert not receipt.well
    assert [one.reason for one in receipt.refused] == ([refused] if refused else [])
    assert [one.error for one in receipt.failed] == ([failed] if failed else [])


async def test_the_work_on_its_node_ends_and_its_name_must_be_typed():
    known = replace(snapshot(), actors=(actor(1, node=f"{2:056x}"), actor(2)), jobs=())
    impact = DELETE.impact(await planned(Server(listed(WORKER, 2)), WORKER, known), known, {})
    assert impact.word == WORKER
    assert len(impact.ends) == 1
    idle = replace(known, actors=(), placement_groups=())
    assert DELETE.impact(await planned(Server(listed(WORKER, 2)), WORKER, idle), idle, {}) == Impact()


async def test_the_heads_pod_ends_all_of_ray_even_if_nothing_runs():
    idle = replace(snapshot(), actors=(), placement_groups=(), jobs=())
    plan = await planned(Server(listed("ray-head", 1)), "ray-head", idle)
    assert plan.notes[0] == "ray-head is the head of RayCluster default/ray"
    impact = DELETE.impact(plan, idle, {})
    assert impact.ends == ("this is the head's pod: Ray ends on all nodes of this cluster",)
    assert impact.word == "ray-head"


@pytest.mark.parametrize(("action", "instead"), [("stop", "cockpit delete-pod"), ("start", "edit the RayCluster")])
def test_an_action_that_is_useless_in_pods_names_the_alternative(action: str, instead: str):
    assert instead in (find_action(action).why_not_in_pods or "")
