"""Kubernetes' official client reads the same facts from the stand-in as cockpit: both sides speak the real protocol."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException
from kubernetes.config import new_client_from_config
from kubernetes.config.incluster_config import InClusterConfigLoader
from kubernetes.stream import stream
from kubernetes.utils import parse_quantity

from cockpit.model import Container, ContainerEnd, Pod, RayJob
from cockpit.sources.kubernetes.api import KubernetesApi, KubernetesRefusedError, ServiceAccount
from cockpit.sources.kubernetes.facts import delete_pod, list_pods, read_ray_cluster
from tests.fakes import kubernetes
from tests.sources.kubernetes.recorded import PLACE, UID, WORKER

pytestmark = pytest.mark.process

T = TypeVar("T")
NAMESPACE, CLUSTER = PLACE.namespace, PLACE.cluster
RAY = ("ray.io", "v1", NAMESPACE)
ANOTHER = "0e1c7f5a-0000-0000-0000-000000000000"


@pytest.fixture(params=["kubeconfig", "service account"])
async def official(
    request: pytest.FixtureRequest, kubeconfig: Path, env_of_pod: dict[str, str], account: Path
) -> AsyncIterator[client.ApiClient]:
    """The official client, with cockpit's login."""
    if request.param == "kubeconfig":
        made = new_client_from_config(str(kubeconfig))
    else:
        found = client.Configuration()
        InClusterConfigLoader(str(account / "token"), str(account / "ca.crt"), environ=env_of_pod).load_and_set(found)
        made = client.ApiClient(found)
    with made:
        yield made
    made.rest_client.pool_manager.clear()


@pytest.fixture
def cockpits(env_of_pod: dict[str, str], account: Path) -> KubernetesApi:
    return KubernetesApi(PLACE, ServiceAccount(env_of_pod, account))


async def call(question: Callable[..., T], *words: Any, **more: Any) -> T:
    """Calls the blocking client in a thread: the stand-in runs in this loop."""
    return await asyncio.to_thread(question, *words, **more)


async def refusal(question: Callable[..., object], *words: Any, **more: Any) -> dict[str, Any]:
    """The `Status` of the refusal."""
    with pytest.raises(ApiException) as refused:
        await call(question, *words, **more)
    status: dict[str, Any] = json.loads(refused.value.body)
    assert status["code"] == refused.value.status
    return status


def as_pod(pod: client.V1Pod) -> Pod:
    """A pod of the official client, converted to cockpit's."""
    metadata, status = pod.metadata, pod.status
    conditions = {one.type: one for one in status.conditions}
    scheduled, disrupted = conditions.get("PodScheduled"), conditions.get("DisruptionTarget")
    (owner,) = metadata.owner_references
    return Pod(
        metadata.name,
        metadata.uid,
        ip=status.pod_ip or "",
        phase=status.phase,
        head=metadata.labels["ray.io/node-type"] == "head",
        group=metadata.labels["ray.io/group"],
        owned=(owner.kind, owner.name, owner.controller) == ("RayCluster", CLUSTER, True),
        created=metadata.creation_timestamp.timestamp(),
        ends=metadata.deletion_timestamp.timestamp() if metadata.deletion_timestamp else None,
        why_ends=disrupted.message if disrupted else None,
        unscheduled=scheduled.message if scheduled.status == "False" else None,
        reason=status.reason,
        containers=tuple(as_container(pod, one) for one in status.container_statuses or ()),
    )


def as_container(pod: client.V1Pod, one: client.V1ContainerStatus) -> Container:
    (spec,) = (each for each in pod.spec.containers if each.name == one.name)
    waiting, ended = one.state.waiting, one.state.terminated or one.last_state.terminated
    return Container(
        one.name,
        one.restart_count,
        waiting=waiting.reason if waiting else None,
        message=waiting.message if waiting else None,
        memory_limit=int(parse_quantity(spec.resources.limits["memory"])),
        ended=ContainerEnd(ended.reason, ended.exit_code, ended.finished_at.timestamp()) if ended else None,
    )


async def test_both_clients_read_the_same_pods_of_a_raycluster(official: client.ApiClient, cockpits: KubernetesApi):
    found = await call(client.CoreV1Api(official).list_namespaced_pod, NAMESPACE, label_selector=f"ray.io/cluster={CLUSTER}")
    assert tuple(map(as_pod, found.items)) == await list_pods(cockpits)
    assert {pod.status.phase for pod in found.items} == {"Running", "Pending"}
    assert [one.restart_count for pod in found.items if pod.metadata.name == WORKER for one in pod.status.container_statuses] == [2]


async def test_pods_are_chosen_by_labels_and_namespace(official: client.ApiClient):
    api = client.CoreV1Api(official)
    heads = await call(api.list_namespaced_pod, NAMESPACE, label_selector=f"ray.io/cluster={CLUSTER},ray.io/node-type==head")
    assert [pod.metadata.labels["ray.io/group"] for pod in heads.items] == ["headgroup"]
    assert (await call(api.list_namespaced_pod, NAMESPACE, label_selector="ray.io/cluster=another")).items == []
    assert (await call(api.list_namespaced_pod, "another")).items == []
    assert (await refusal(api.list_namespaced_pod, NAMESPACE, label_selector="ray.io/group in (gpu)"))["reason"] == "BadRequest"


async def test_both_clients_read_the_same_raycluster_and_rayjobs(official: client.ApiClient, cockpits: KubernetesApi):
    api, known = client.CustomObjectsApi(official), await read_ray_cluster(cockpits)
    cluster = await call(api.get_namespaced_custom_object, *RAY, "rayclusters", CLUSTER)
    assert (cluster["apiVersion"], cluster["kind"], cluster["metadata"]["name"]) == ("ray.io/v1", "RayCluster", known.name)
    assert (cluster["status"]["state"], cluster["status"]["desiredWorkerReplicas"]) == (known.state, known.wanted)
    assert known.trouble in [one["message"] for one in cluster["status"]["conditions"]]
    jobs = (await call(api.list_namespaced_custom_object, *RAY, "rayjobs"))["items"]
    statuses = [(one["metadata"]["name"], one["status"]) for one in jobs]
    fields = ("jobId", "jobStatus", "jobDeploymentStatus", "message")
    assert known.jobs == tuple(RayJob(name, *(status[field] for field in fields)) for name, status in statuses)


async def test_a_new_pod_of_the_same_name_stays_and_the_meant_one_is_deleted_once(
    official: client.ApiClient, cockpits: KubernetesApi, folder: Path
):
    delete, began = client.CoreV1Api(official).delete_namespaced_pod, time.time()
    other = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid=ANOTHER))
    refused = await refusal(delete, WORKER, NAMESPACE, body=other)
    with pytest.raises(KubernetesRefusedError) as error:
        await delete_pod(cockpits, WORKER, ANOTHER)
    assert refused["reason"] == error.value.reason == "Conflict"
    assert refused["message"] in str(error.value)
    meant = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid=UID))
    gone = await call(delete, WORKER, NAMESPACE, body=meant)
    assert gone.metadata.uid == UID
    assert int(began) <= gone.metadata.deletion_timestamp.timestamp() - gone.metadata.deletion_grace_period_seconds <= time.time()
    assert UID not in {pod["metadata"]["uid"] for pod in kubernetes.read(folder, "pods")}
    assert (await refusal(delete, WORKER, NAMESPACE, body=meant))["details"] == {"name": WORKER, "kind": "pods"}


async def test_what_the_role_lacks_is_forbidden_in_the_words_that_cockpit_shows(
    official: client.ApiClient, cockpits: KubernetesApi, folder: Path
):
    api = client.CoreV1Api(official)
    assert (await refusal(api.list_namespaced_event, NAMESPACE))["reason"] == "Forbidden"
    (folder / "rights").write_text("")
    refused = await refusal(api.list_namespaced_pod, NAMESPACE)
    assert refused["message"] in (await read_ray_cluster(cockpits)).lacks["pods"]
    refused = await refusal(client.CustomObjectsApi(official).get_namespaced_custom_object, *RAY, "rayclusters", CLUSTER)
    assert refused["message"] in (await read_ray_cluster(cockpits)).lacks["raycluster"]
    assert refused["details"] == {"name": CLUSTER, "group": "ray.io", "kind": "rayclusters"}


async def test_another_token_is_refused(official: client.ApiClient, folder: Path):
    (folder / "token").write_text("another")
    refused = await refusal(client.CoreV1Api(official).list_namespaced_pod, NAMESPACE)
    assert (refused["code"], refused["reason"]) == (401, "Unauthorized")


async def test_a_command_runs_in_a_pod_and_its_exit_code_comes_back(official: client.ApiClient):
    command = ["sh", "-c", "echo of the pod; echo beside >&2; exit 3"]
    exec_in = client.CoreV1Api(official).connect_get_namespaced_pod_exec
    shell = await call(stream, exec_in, WORKER, NAMESPACE, command=command, stdout=True, stderr=True, _preload_content=False)
    assert shell.sock.getheaders()["sec-websocket-protocol"] in kubernetes.EXEC_PROTOCOLS
    await call(shell.run_forever)
    assert (shell.read_stdout(), shell.read_stderr(), shell.returncode) == ("of the pod\n", "beside\n", 3)
