"""Reads a RayCluster from the Kubernetes API server: its state, its pods and their containers, and its RayJobs. Deletes a pod."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final, Generic, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from cockpit.config.kubernetes import FORBIDDEN
from cockpit.model import Container, ContainerEnd, Pod, RayCluster, RayJob
from cockpit.sources.kubernetes.api import KubernetesApi, KubernetesRefusedError

T = TypeVar("T")
_NODE_TYPES: Final = ("head", "worker")
"""The values of the label ray.io/node-type that are nodes of Ray; a pod that cleans up Redis has another value."""
_CACHED: Final = {"resourceVersion": "0"}
"""Reads from the API server's cache instead of etcd; the answer may be some seconds old."""
_DISRUPTION = "DisruptionTarget"
"""The condition of a pod that is being removed, with the reason (Kubernetes 1.26 and later)."""
_FAILURE = "ReplicaFailure"
"""The condition of a RayCluster whose pods KubeRay can't create or delete."""
_QUANTITY: Final = r"(\d{1,18}(?:\.\d{1,9})?(?:[eE]\d{1,2})?)([numkMGTPE]|[KMGTPE]i)?"
_UNITS: Final[Mapping[str, float]] = {
    "": 1, "n": 1e-9, "u": 1e-6, "m": 1e-3,
    **{unit: 1000.0**power for power, unit in enumerate("kMGTPE", 1)},
    **{f"{unit}i": 1024.0**power for power, unit in enumerate("KMGTPE", 1)},
}  # fmt: skip


# The JSON of Kubernetes and KubeRay (ray.io/v1): only the fields that are read


class _Object(msgspec.Struct, rename="camel", frozen=True):
    """Names are in camelCase, and empty fields are left out."""


class _Owner(_Object, frozen=True):
    kind: str = ""
    name: str = ""


class _Metadata(_Object, frozen=True):
    name: str = ""
    uid: str = ""
    labels: Mapping[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    """The end of its grace period."""
    owner_references: tuple[_Owner, ...] | None = None


class _Condition(_Object, frozen=True):
    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None


class _StateDetails(_Object, frozen=True):
    reason: str | None = None
    message: str | None = None
    exit_code: int | None = None
    finished_at: str | None = None


class _ContainerState(_Object, frozen=True):
    """`state` or `lastState`. At most one field is set."""

    waiting: _StateDetails | None = None
    terminated: _StateDetails | None = None


class _ContainerStatus(_Object, frozen=True):
    name: str = ""
    restart_count: int = 0
    state: _ContainerState = _ContainerState()
    last_state: _ContainerState = _ContainerState()


class _Resources(_Object, frozen=True):
    limits: Mapping[str, str | int | float] | None = None


class _ContainerSpec(_Object, frozen=True):
    name: str = ""
    resources: _Resources = _Resources()


class _PodSpec(_Object, frozen=True):
    containers: tuple[_ContainerSpec, ...] = ()
    init_containers: tuple[_ContainerSpec, ...] | None = None


class _PodStatus(_Object, frozen=True):
    phase: str = ""
    reason: str | None = None
    message: str | None = None
    pod_ip: str = msgspec.field(name="podIP", default="")
    conditions: tuple[_Condition, ...] | None = None
    container_statuses: tuple[_ContainerStatus, ...] | None = None
    init_container_statuses: tuple[_ContainerStatus, ...] | None = None


class _Pod(_Object, frozen=True):
    metadata: _Metadata = _Metadata()
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


class _RayClusterStatus(_Object, frozen=True):
    """The `status`. KubeRay's operator leaves out a number that is 0."""

    state: str | None = None
    reason: str | None = None
    desired_worker_replicas: int = 0
    conditions: tuple[_Condition, ...] | None = None


class _RayCluster(_Object, frozen=True):
    """A RayCluster of `/apis/ray.io/v1`. It has no status until the operator has seen it."""

    metadata: _Metadata = _Metadata()
    status: _RayClusterStatus | None = None


class _RayJobStatus(_Object, frozen=True):
    job_id: str = ""
    job_status: str = ""
    job_deployment_status: str = ""
    ray_cluster_name: str = ""
    message: str | None = None


class _RayJob(_Object, frozen=True):
    metadata: _Metadata = _Metadata()
    status: _RayJobStatus = _RayJobStatus()


class _List(_Object, Generic[T], frozen=True):
    items: tuple[T, ...] = ()


# The facts made from it


async def read_ray_cluster(api: KubernetesApi) -> RayCluster:
    """The RayCluster. A part that we have no right to read is `None`, with the reason in `lacks`. Raises `SourceError` for other errors."""
    lacks: dict[str, str] = {}
    known, pods = await asyncio.gather(
        _read_if_allowed(lacks, "raycluster", _read_resource(api)), _read_if_allowed(lacks, "pods", list_pods(api))
    )
    jobs = await _read_if_allowed(lacks, "rayjobs", _list_jobs(api, known.metadata if known else _Metadata()))
    status = (known.status if known else None) or _RayClusterStatus()
    failures = [one.message or one.reason for one in status.conditions or () if one.type == _FAILURE and one.status == "True"]
    return RayCluster(
        api.place.namespace,
        api.place.cluster,
        state=status.state or None,
        trouble=next(filter(None, failures), None) or status.reason or None,
        wanted=status.desired_worker_replicas if known and known.status else None,
        pods=pods,
        jobs=jobs,
        lacks=lacks,
    )


async def check_ray_cluster(api: KubernetesApi) -> None:
    """Raise `SourceError` if there is no RayCluster of that name, or if we have no right to read it."""
    await _read_resource(api)


async def list_pods(api: KubernetesApi) -> tuple[Pod, ...]:
    """The pods that are nodes of Ray, including those that don't run yet. Raises `KubernetesRefusedError`, `SourceError`."""
    query = urlencode({"labelSelector": f"ray.io/cluster={api.place.cluster}", **_CACHED})
    found = await api.get(f"{_pods_path(api)}?{query}", _List[_Pod])
    return tuple(_pod(each, api.place.cluster) for each in found.items if _label(each, "node-type") in _NODE_TYPES)


async def delete_pod(api: KubernetesApi, pod: str, uid: str) -> None:
    """Delete one pod. Raises `KubernetesRefusedError` and `SourceError`.

    The reason of a `KubernetesRefusedError` is `NotFound` if the pod is gone, and `Conflict` if another pod has its name (another uid).
    """
    await api.delete(f"{_pods_path(api)}/{quote(pod, safe='')}", uid)


def _pods_path(api: KubernetesApi) -> str:
    return f"/api/v1/namespaces/{api.place.namespace}/pods"


def _ray_path(api: KubernetesApi, kind: str) -> str:
    return f"/apis/ray.io/v1/namespaces/{api.place.namespace}/{kind}"


async def _read_if_allowed(lacks: dict[str, str], part: str, answer: Awaitable[T]) -> T | None:
    """The answer; `None` if we have no right to it, with the reason in `lacks`."""
    try:
        return await answer
    except KubernetesRefusedError as error:
        if error.reason != FORBIDDEN:
            raise
        lacks[part] = str(error)
        return None


async def _read_resource(api: KubernetesApi) -> _RayCluster:
    return await api.get(f"{_ray_path(api, 'rayclusters')}/{api.place.cluster}?{urlencode(_CACHED)}", _RayCluster)


async def _list_jobs(api: KubernetesApi, cluster: _Metadata) -> tuple[RayJob, ...]:
    """The RayJobs of this RayCluster. A RayJob that created the RayCluster is read alone.

    Otherwise all RayJobs are read, since they have no label with the name of their RayCluster.
    """
    owner = next((owner.name for owner in cluster.owner_references or () if owner.kind == "RayJob"), None)
    path = _ray_path(api, "rayjobs")
    if owner is not None:
        found: Iterable[_RayJob] = (await api.get(f"{path}/{quote(owner, safe='')}?{urlencode(_CACHED)}", _RayJob),)
    else:
        found = (await api.get(f"{path}?{urlencode(_CACHED)}", _List[_RayJob])).items
    return tuple(
        RayJob(job.metadata.name, job.status.job_id, job.status.job_status, job.status.job_deployment_status, job.status.message)
        for job in found
        if job.status.ray_cluster_name == api.place.cluster
    )


def _label(pod: _Pod, name: str) -> str:
    return (pod.metadata.labels or {}).get(f"ray.io/{name}", "")


def _pod(pod: _Pod, cluster: str) -> Pod:
    metadata, status = pod.metadata, pod.status
    conditions = {one.type: one for one in status.conditions or ()}
    scheduled, ends = conditions.get("PodScheduled"), conditions.get(_DISRUPTION)
    return Pod(
        metadata.name,
        metadata.uid,
        ip=status.pod_ip,
        phase=status.phase,
        head=_label(pod, "node-type") == "head",
        group=_label(pod, "group"),
        owned=any((owner.kind, owner.name) == ("RayCluster", cluster) for owner in metadata.owner_references or ()),
        created=parse_time(metadata.creation_timestamp),
        ends=parse_time(metadata.deletion_timestamp),
        why_ends=_reason(ends) if ends and ends.status == "True" else None,
        unscheduled=_reason(scheduled) if scheduled and scheduled.status == "False" else None,
        reason=": ".join(filter(None, (status.reason, status.message))) or None,
        containers=tuple(_containers(pod)),
    )


def _reason(condition: _Condition) -> str:
    return condition.message or condition.reason or "no reason given"


def _containers(pod: _Pod) -> Iterator[Container]:
    limits = {spec.name: spec.resources.limits or {} for spec in (*pod.spec.containers, *(pod.spec.init_containers or ()))}
    for one in (*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())):
        waiting, ended = one.state.waiting, one.state.terminated or one.last_state.terminated
        yield Container(
            one.name,
            one.restart_count,
            waiting=waiting.reason if waiting else None,
            message=waiting.message if waiting else None,
            memory_limit=parse_bytes(limits.get(one.name, {}).get("memory")),
            ended=ContainerEnd(ended.reason or "", ended.exit_code, parse_time(ended.finished_at)) if ended else None,
        )


def parse_time(text: str | None) -> float | None:
    """The seconds since the epoch of `2025-09-08T08:41:43Z`; `None` if it is not a time."""
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() if text else None
    except (ValueError, OverflowError):
        return None


def parse_bytes(quantity: str | float | None) -> int | None:
    """The bytes in `64Gi`, `500M` or `1e9` (k8s.io/apimachinery/pkg/api/resource/quantity.go); `None` if it is not an amount."""
    match = re.fullmatch(_QUANTITY, str(quantity))
    return int(float(match[1]) * _UNITS[match[2] or ""]) if match else None
