"""What a RayCluster is, read of the API server: its state, its pods with what their containers went through, the RayJobs on it."""

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
"""Of the label ray.io/node-type: a pod that cleans Redis up has another."""
_CACHED: Final = {"resourceVersion": "0"}
"""From the API server's memory, not from etcd; it may be some seconds old."""
_ENDS = "DisruptionTarget"
"""The condition that says why a pod is taken away (Kubernetes 1.26 and later)."""
_FAILURE = "ReplicaFailure"
"""The condition of a RayCluster whose pods KubeRay can't make or remove."""
_QUANTITY: Final = r"(\d{1,18}(?:\.\d{1,9})?(?:[eE]\d{1,2})?)([numkMGTPE]|[KMGTPE]i)?"
_UNITS: Final[Mapping[str, float]] = {
    "": 1, "n": 1e-9, "u": 1e-6, "m": 1e-3,
    **{unit: 1000.0**power for power, unit in enumerate("kMGTPE", 1)},
    **{f"{unit}i": 1024.0**power for power, unit in enumerate("KMGTPE", 1)},
}  # fmt: skip


# The JSON of Kubernetes and KubeRay (ray.io/v1), as far as it is read


class _Object(msgspec.Struct, rename="camel", frozen=True):
    """All of it is written in camelCase, and leaves out what is empty."""


class _Owner(_Object, frozen=True):
    kind: str = ""
    name: str = ""


class _Metadata(_Object, frozen=True):
    name: str = ""
    uid: str = ""
    labels: Mapping[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    """When its grace period ends."""
    owner_references: tuple[_Owner, ...] | None = None


class _Condition(_Object, frozen=True):
    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None


class _Stage(_Object, frozen=True):
    reason: str | None = None
    message: str | None = None
    exit_code: int | None = None
    finished_at: str | None = None


class _ContainerState(_Object, frozen=True):
    """`state`, `lastState`: one of them, or none."""

    waiting: _Stage | None = None
    terminated: _Stage | None = None


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
    """`status`. KubeRay's operator leaves a number out where it is 0."""

    state: str | None = None
    reason: str | None = None
    desired_worker_replicas: int = 0
    conditions: tuple[_Condition, ...] | None = None


class _RayCluster(_Object, frozen=True):
    """Of `/apis/ray.io/v1`. Without a status the operator hasn't seen it yet."""

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


# As facts


async def read_ray_cluster(api: KubernetesApi) -> RayCluster:
    """What may not be read is `None`, and `lacks` says why. Raises `SourceError` where anything else goes wrong."""
    lacks: dict[str, str] = {}
    known, pods = await asyncio.gather(_allowed(lacks, "raycluster", _read_resource(api)), _allowed(lacks, "pods", list_pods(api)))
    jobs = await _allowed(lacks, "rayjobs", _list_jobs(api, known.metadata if known else _Metadata()))
    status = (known.status if known else None) or _RayClusterStatus()
    return RayCluster(
        api.place.namespace,
        api.place.cluster,
        state=status.state or None,
        trouble=_trouble(status),
        wanted=status.desired_worker_replicas if known and known.status else None,
        pods=pods,
        jobs=jobs,
        lacks=lacks,
    )


async def check_ray_cluster(api: KubernetesApi) -> None:
    """Raises `SourceError` where there is none of that name, or it may not be read."""
    await _read_resource(api)


async def list_pods(api: KubernetesApi) -> tuple[Pod, ...]:
    """The nodes of Ray's, there and to come. Raises `KubernetesRefusedError`, `SourceError`."""
    query = urlencode({"labelSelector": f"ray.io/cluster={api.place.cluster}", **_CACHED})
    found = await api.get(f"{_pods(api)}?{query}", _List[_Pod])
    return tuple(_pod(each, api.place.cluster) for each in found.items if _label(each, "node-type") in _NODE_TYPES)


async def delete_pod(api: KubernetesApi, pod: str, uid: str) -> None:
    """One pod alone. Raises `KubernetesRefusedError`: `NotFound` where it is gone, `Conflict` where another has its name; `SourceError`."""
    await api.delete(f"{_pods(api)}/{quote(pod, safe='')}", uid)


def _pods(api: KubernetesApi) -> str:
    return f"/api/v1/namespaces/{api.place.namespace}/pods"


def _rays(api: KubernetesApi, kind: str) -> str:
    return f"/apis/ray.io/v1/namespaces/{api.place.namespace}/{kind}"


async def _allowed(lacks: dict[str, str], part: str, question: Awaitable[T]) -> T | None:
    try:
        return await question
    except KubernetesRefusedError as error:
        if error.reason != FORBIDDEN:
            raise
        lacks[part] = str(error)
        return None


async def _read_resource(api: KubernetesApi) -> _RayCluster:
    return await api.get(f"{_rays(api, 'rayclusters')}/{api.place.cluster}?{urlencode(_CACHED)}", _RayCluster)


async def _list_jobs(api: KubernetesApi, cluster: _Metadata) -> tuple[RayJob, ...]:
    """Where a RayJob has made the RayCluster, that one is asked for; else all have to be: what they run on is no label of theirs."""
    owner = next((owner.name for owner in cluster.owner_references or () if owner.kind == "RayJob"), None)
    path = _rays(api, "rayjobs")
    if owner is not None:
        found: Iterable[_RayJob] = (await api.get(f"{path}/{quote(owner, safe='')}?{urlencode(_CACHED)}", _RayJob),)
    else:
        found = (await api.get(f"{path}?{urlencode(_CACHED)}", _List[_RayJob])).items
    return tuple(_job(each) for each in found if each.status.ray_cluster_name == api.place.cluster)


def _job(job: _RayJob) -> RayJob:
    status = job.status
    return RayJob(job.metadata.name, status.job_id, status.job_status, status.job_deployment_status, status.message)


def _trouble(status: _RayClusterStatus) -> str | None:
    failures = [one.message or one.reason for one in status.conditions or () if one.type == _FAILURE and one.status == "True"]
    return next(filter(None, failures), None) or status.reason or None


def _label(pod: _Pod, name: str) -> str:
    return (pod.metadata.labels or {}).get(f"ray.io/{name}", "")


def _pod(pod: _Pod, cluster: str) -> Pod:
    metadata, status = pod.metadata, pod.status
    conditions = {one.type: one for one in status.conditions or ()}
    scheduled, ends = conditions.get("PodScheduled"), conditions.get(_ENDS)
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
        why_ends=_words(ends) if ends and ends.status == "True" else None,
        unscheduled=_words(scheduled) if scheduled and scheduled.status == "False" else None,
        reason=": ".join(filter(None, (status.reason, status.message))) or None,
        containers=tuple(_containers(pod)),
    )


def _words(condition: _Condition) -> str:
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
    """Seconds since the epoch, of `2025-09-08T08:41:43Z`; `None`: it is no moment."""
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() if text else None
    except (ValueError, OverflowError):
        return None


def parse_bytes(quantity: str | float | None) -> int | None:
    """Of `64Gi`, `500M`, `1e9` (k8s.io/apimachinery/pkg/api/resource/quantity.go); `None`: it is no amount."""
    match = re.fullmatch(_QUANTITY, str(quantity))
    return int(float(match[1]) * _UNITS[match[2] or ""]) if match else None
