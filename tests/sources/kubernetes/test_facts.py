"""The answers of an API server about a RayCluster, and the facts made from them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cockpit.config.kubernetes import KubernetesPlace
from cockpit.model import Container, ContainerEnd, RayCluster, RayJob
from cockpit.sources.kubernetes.api import KubernetesApi, KubernetesRefusedError
from cockpit.sources.kubernetes.facts import check_ray_cluster, delete_pod, parse_bytes, parse_time, read_ray_cluster
from cockpit.sources.source import SourceError

RECORDED = Path(__file__).parents[2] / "recorded" / "kubernetes"
CLUSTER = "rayjob-sample-qtfkz"
PODS = f"/api/v1/namespaces/default/pods?labelSelector=ray.io%2Fcluster%3D{CLUSTER}&resourceVersion=0"
RAYS = "/apis/ray.io/v1/namespaces/default"
RAYCLUSTER = f"{RAYS}/rayclusters/{CLUSTER}?resourceVersion=0"
Answers = dict[str, Any]


def recorded(name: str) -> Any:
    return json.loads((RECORDED / name).read_text())


@pytest.fixture
def answers() -> Answers:
    """The answers by path; an answer that is an error is raised."""
    return {
        PODS: recorded("pods.json"),
        RAYCLUSTER: recorded("raycluster.json"),
        f"{RAYS}/rayjobs/rayjob-sample?resourceVersion=0": recorded("rayjob.json"),
    }


@pytest.fixture
def api(answers: Answers) -> KubernetesApi:
    async def ask(method: str, path: str, body: bytes = b"") -> bytes:
        found = answers[path]
        if isinstance(found, Exception):
            raise found
        return found if isinstance(found, bytes) else json.dumps(found).encode()

    return KubernetesApi(KubernetesPlace("default", CLUSTER), ask)  # type: ignore[arg-type]  # cockpit's two ways have this form


def named(cluster: RayCluster, part: str):
    return next(pod for pod in cluster.pods or () if part in pod.name)


async def test_a_raycluster_is_read_with_its_pods_and_the_rayjob_that_made_it(api: KubernetesApi):
    found = await read_ray_cluster(api)
    assert (found.namespace, found.name, found.state, found.wanted) == ("default", CLUSTER, "ready", 6)
    assert found.trouble is not None
    assert "exceeded quota: gpus" in found.trouble
    assert found.jobs == (RayJob("rayjob-sample", "rayjob-sample-zdxm6", "RUNNING", "Running", "Job is currently running."),)
    assert [(pod.ip, pod.phase, pod.head, pod.group, pod.owned) for pod in found.pods or ()][:2] == [
        ("10.244.0.8", "Running", True, "headgroup", True),
        ("10.244.1.12", "Running", False, "gpu", True),
    ]
    assert not found.lacks


async def test_a_pod_has_the_reasons_why_it_waits_why_its_containers_ended_and_why_it_is_removed(api: KubernetesApi):
    found = await read_ray_cluster(api)
    killed = ContainerEnd("OOMKilled", 137, 1_795_487_465.0)
    assert named(found, "4v9tn").containers == (Container("ray-worker", 2, memory_limit=64 << 30, ended=killed),)
    assert named(found, "mh5wd").unscheduled.startswith("0/4 nodes are available: 4 Insufficient nvidia.com/gpu")
    (image,) = named(found, "zz81q").containers
    assert (image.waiting, (image.message or "")[:22]) == ("ImagePullBackOff", "Back-off pulling image")
    leaving = named(found, "b6c0r")
    assert (leaving.ends, leaving.why_ends) == (1_795_488_330.0, "Taint manager: deleting due to NoExecute taint")


async def test_the_rayjobs_of_a_raycluster_without_a_creator_are_found_among_all(api: KubernetesApi, answers: Answers):
    answers[RAYCLUSTER]["metadata"]["ownerReferences"] = []
    other = recorded("rayjob.json")
    other["status"]["rayClusterName"] = "another"
    answers[f"{RAYS}/rayjobs?resourceVersion=0"] = {"items": [recorded("rayjob.json"), other]}
    assert [job.name for job in (await read_ray_cluster(api)).jobs or ()] == ["rayjob-sample"]


async def test_a_part_without_the_right_to_read_it_is_unknown_with_the_reason(api: KubernetesApi, answers: Answers):
    answers[PODS] = KubernetesRefusedError("Forbidden", 'pods is forbidden: User "x" cannot list resource "pods"')
    found = await read_ray_cluster(api)
    assert found.pods is None
    reason = 'pods is forbidden: User "x" cannot list resource "pods"; packaging/kubernetes-role.yaml has the Role that allows it'
    assert found.lacks == {"pods": f"Kubernetes refuses it: {reason}"}
    assert found.wanted == 6


async def test_without_a_status_the_number_of_workers_is_unknown_and_a_pod_that_is_no_node_is_left_out(
    api: KubernetesApi, answers: Answers
):
    del answers[RAYCLUSTER]["status"]
    answers[PODS]["items"][0]["metadata"]["labels"]["ray.io/node-type"] = "redis-cleanup"
    found = await read_ray_cluster(api)
    assert (found.state, found.wanted, len(found.pods or ())) == (None, None, 4)


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        (KubernetesRefusedError("NotFound", f'rayclusters.ray.io "{CLUSTER}" not found'), f'rayclusters.ray.io "{CLUSTER}" not found'),
        (SourceError("kubectl: connection refused"), "connection refused"),
        (b"<html>", "Kubernetes answers in a way that cockpit can't read: data that is not JSON"),
        ({"status": {"desiredWorkerReplicas": "many"}}, "Kubernetes answers in a way that cockpit can't read: unexpected JSON"),
    ],
)
async def test_any_other_failure_is_an_error(api: KubernetesApi, answers: Answers, wrong: object, expected: str):
    answers[RAYCLUSTER] = wrong
    for ask in (read_ray_cluster, check_ray_cluster):
        with pytest.raises(SourceError, match=expected):
            await ask(api)


async def test_a_pod_is_deleted_by_its_uid():
    asked: list[tuple[str, str, Any]] = []

    async def ask(method: str, path: str, body: bytes = b"") -> bytes:
        asked.append((method, path, json.loads(body)))
        return b"{}"

    await delete_pod(KubernetesApi(KubernetesPlace("ray", "c"), ask), "w/1", "u-1")  # type: ignore[arg-type]  # cockpit's two ways have this form
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "u-1"}}
    assert asked == [("DELETE", "/api/v1/namespaces/ray/pods/w%2F1", options)]


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (parse_bytes, "64Gi", 64 << 30),
        (parse_bytes, "500M", 500_000_000),
        (parse_bytes, "1.5Gi", 3 << 29),
        (parse_bytes, "1e9", 1_000_000_000),
        (parse_bytes, "1024", 1024),
        (parse_bytes, 1024, 1024),
        (parse_bytes, "128974848000m", 128_974_848),
        (parse_bytes, "much", None),
        (parse_bytes, None, None),
        (parse_time, "2026-11-24T01:00:10Z", 1_795_482_010.0),
        (parse_time, "2026-11-24T01:00:10.250000Z", 1_795_482_010.25),
        (parse_time, "soon", None),
        (parse_time, None, None),
    ],
)
def test_amounts_and_times_are_read_in_the_formats_of_kubernetes(read: Callable[[Any], Any], text: Any, value: float | None):
    assert read(text) == value
