"""The JSON of Kubernetes and KubeRay (ray.io/v1), as far as it is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")


class _Object(msgspec.Struct, rename="camel", frozen=True):
    """All of it is written in camelCase, and leaves out what is empty."""


class Owner(_Object, frozen=True):
    """`metadata.ownerReferences[]`."""

    kind: str = ""
    name: str = ""


class Metadata(_Object, frozen=True):
    """`metadata`."""

    name: str = ""
    uid: str = ""
    labels: Mapping[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    """When its grace period ends."""
    owner_references: tuple[Owner, ...] | None = None


class Condition(_Object, frozen=True):
    """`status.conditions[]`."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None


class Waiting(_Object, frozen=True):
    """`state.waiting`."""

    reason: str | None = None
    message: str | None = None


class Terminated(_Object, frozen=True):
    """`state.terminated`."""

    reason: str | None = None
    exit_code: int | None = None
    finished_at: str | None = None


class ContainerState(_Object, frozen=True):
    """`state`, `lastState`: one of them, or none."""

    waiting: Waiting | None = None
    terminated: Terminated | None = None


class ContainerStatus(_Object, frozen=True):
    """`status.containerStatuses[]`."""

    name: str = ""
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class Resources(_Object, frozen=True):
    """`resources`."""

    limits: Mapping[str, str | int | float] | None = None


class ContainerSpec(_Object, frozen=True):
    """`spec.containers[]`."""

    name: str = ""
    resources: Resources = Resources()


class PodSpec(_Object, frozen=True):
    """`spec`."""

    containers: tuple[ContainerSpec, ...] = ()
    init_containers: tuple[ContainerSpec, ...] | None = None


class PodStatus(_Object, frozen=True):
    """`status`."""

    phase: str = ""
    reason: str | None = None
    message: str | None = None
    pod_ip: str = msgspec.field(name="podIP", default="")
    conditions: tuple[Condition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None


class Pod(_Object, frozen=True):
    """Of `/api/v1`."""

    metadata: Metadata = Metadata()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class RayClusterStatus(_Object, frozen=True):
    """`status`. KubeRay's operator leaves a number out where it is 0."""

    state: str | None = None
    reason: str | None = None
    desired_worker_replicas: int = 0
    conditions: tuple[Condition, ...] | None = None


class RayCluster(_Object, frozen=True):
    """Of `/apis/ray.io/v1`. Without a status the operator hasn't seen it yet."""

    metadata: Metadata = Metadata()
    status: RayClusterStatus | None = None


class RayJobStatus(_Object, frozen=True):
    """`status`."""

    job_id: str = ""
    job_status: str = ""
    job_deployment_status: str = ""
    ray_cluster_name: str = ""
    message: str | None = None


class RayJob(_Object, frozen=True):
    """Of `/apis/ray.io/v1`."""

    metadata: Metadata = Metadata()
    status: RayJobStatus = RayJobStatus()


class List(_Object, Generic[T], frozen=True):
    """`PodList`, `RayJobList`."""

    items: tuple[T, ...] = ()
