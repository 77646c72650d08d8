"""A RayCluster of KubeRay's, with its pods and the RayJobs that run on it, as the API server of Kubernetes tells of them."""

from __future__ import annotations

from collections.abc import Mapping

from cockpit.model.value import Value


class ContainerEnd(Value, frozen=True):
    """How a container has ended, the last time that it did."""

    reason: str
    """As the kubelet writes it: `OOMKilled`, `Error`, `Completed`."""
    exit_code: int | None = None
    at: float | None = None


class Container(Value, frozen=True):
    """A container of a pod."""

    name: str
    restarts: int = 0
    waiting: str | None = None
    """Why it does not run, as the kubelet writes it: `ImagePullBackOff`, `CrashLoopBackOff`; `None`: it doesn't wait."""
    message: str | None = None
    """More about that."""
    memory_limit: int | None = None
    """Bytes; `None`: it has no limit."""
    ended: ContainerEnd | None = None


class Pod(Value, frozen=True):
    """A pod that is, or is to be, a node of Ray's."""

    name: str
    uid: str
    """Of this pod alone: one of the same name that is made later has another."""
    ip: str = ""
    """Empty as long as it has none."""
    phase: str = ""
    """`Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`."""
    head: bool = False
    group: str = ""
    """Of workers, as the RayCluster calls it."""
    owned: bool = False
    """KubeRay has made it for this RayCluster, and makes another when it is gone."""
    created: float | None = None
    ends: float | None = None
    """It is being deleted, and is ended at this moment at the latest; `None`: it stays."""
    why_ends: str | None = None
    """Why Kubernetes takes it away: preemption, eviction, a node that fails."""
    unscheduled: str | None = None
    """Why the scheduler has found no place for it, in its words."""
    reason: str | None = None
    """Of the whole pod, such as `Evicted`, with its message."""
    containers: tuple[Container, ...] = ()


class RayJob(Value, frozen=True):
    """A RayJob of KubeRay's that runs on the RayCluster."""

    name: str
    submission: str
    """The id of its job in Ray; empty as long as it has none."""
    status: str
    """Of the job, as KubeRay last heard it from Ray: `PENDING`, `RUNNING`, `SUCCEEDED`, `FAILED`, `STOPPED`; empty before that."""
    deployment: str
    """How far KubeRay is with it: `Initializing`, `Running`, `Complete`, `Failed`."""
    message: str | None = None


class RayCluster(Value, frozen=True):
    """What Kubernetes says of one RayCluster."""

    namespace: str
    name: str
    state: str | None = None
    """`ready`, `suspended`, `failed`; `None`: KubeRay hasn't said."""
    trouble: str | None = None
    """Why KubeRay can't make its pods, in its words."""
    wanted: int | None = None
    """Workers that it is to have."""
    pods: tuple[Pod, ...] | None = None
    jobs: tuple[RayJob, ...] | None = None
    lacks: Mapping[str, str] = {}
    """What of it may not be read, `raycluster`, `pods` or `rayjobs`, and why, in a sentence."""

    @property
    def title(self) -> str:
        """As `--kubernetes` takes it."""
        return f"{self.namespace}/{self.name}"
