"""Defines a RayCluster of KubeRay with its pods and RayJobs, as the API server of Kubernetes reports them."""

from __future__ import annotations

from collections.abc import Mapping

from cockpit.model.value import Value


class ContainerEnd(Value, frozen=True):
    """The last end of a container."""

    reason: str
    """In the kubelet's words: `OOMKilled`, `Error`, `Completed`."""
    exit_code: int | None = None
    at: float | None = None


class Container(Value, frozen=True):
    """A container of a pod."""

    name: str
    restarts: int = 0
    waiting: str | None = None
    """Why it does not run, in the kubelet's words: `ImagePullBackOff`, `CrashLoopBackOff`; `None`: it doesn't wait."""
    message: str | None = None
    """Details of `waiting`."""
    memory_limit: int | None = None
    ended: ContainerEnd | None = None


class Pod(Value, frozen=True):
    """A pod that is or will be a node of Ray."""

    name: str
    uid: str
    """Its identity: a later pod with the same name has another uid."""
    ip: str = ""
    phase: str = ""
    """`Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`."""
    head: bool = False
    group: str = ""
    """The worker group's name in the RayCluster."""
    owned: bool = False
    """KubeRay has created it for this RayCluster, and replaces it if it is gone."""
    created: float | None = None
    ends: float | None = None
    """It is being deleted, and ends at this time at the latest; `None`: it stays."""
    why_ends: str | None = None
    """Why Kubernetes removes it: preemption, eviction, a failing node."""
    unscheduled: str | None = None
    """Why the scheduler has found no place for it, in the scheduler's words."""
    reason: str | None = None
    """Of the whole pod, such as `Evicted`, with the message."""
    containers: tuple[Container, ...] = ()


class RayJob(Value, frozen=True):
    """A RayJob of KubeRay on the RayCluster."""

    name: str
    submission: str
    """The id of its job in Ray; empty until it has one."""
    status: str
    """The job's last status from Ray: `PENDING`, `RUNNING`, `SUCCEEDED`, `FAILED`, `STOPPED`; empty if unknown."""
    deployment: str
    """KubeRay's status: `Initializing`, `Running`, `Complete`, `Failed`."""
    message: str | None = None


class RayCluster(Value, frozen=True):
    """One RayCluster as Kubernetes reports it."""

    namespace: str
    name: str
    state: str | None = None
    """`ready`, `suspended`, `failed`."""
    trouble: str | None = None
    """Why KubeRay can't create its pods, in KubeRay's words."""
    wanted: int | None = None
    """The desired number of workers."""
    pods: tuple[Pod, ...] | None = None
    jobs: tuple[RayJob, ...] | None = None
    lacks: Mapping[str, str] = {}
    """Which parts can't be read (`raycluster`, `pods`, `rayjobs`), and why, in a sentence."""

    @property
    def title(self) -> str:
        """The argument for `--kubernetes`."""
        return f"{self.namespace}/{self.name}"
