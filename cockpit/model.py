"""What a cluster is: the words that every other module speaks.

`None` means *unknown* everywhere: it is drawn as `–`, and is never 0 and never an empty list. Sizes are bytes, times POSIX seconds,
utilization 0-100. Every value is immutable. Text from the cluster is kept exactly as it came (ids are sent back in calls); whatever
draws it makes it safe first (`cockpit.text.clean`). Commands and entrypoints have had their secrets taken out before they get here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

NodeState = Literal["ALIVE", "DEAD", "UNKNOWN"]
Kind = Literal["ray", "worker", "driver", "child", "stale", "orphan", "foreign", "unknown"]
PENDING_STATES = ("DEPENDENCIES_UNREADY", "PENDING_CREATION")
LEFT_OVER: tuple[Kind, ...] = ("orphan", "stale")


class Value(msgspec.Struct, frozen=True, gc=False):
    """An immutable fact; compared field by field."""


class Amount(Value, frozen=True):
    """How much of something is in use, in bytes."""

    used: int | None = None
    total: int | None = None


class HostMemory(Value, frozen=True):
    """A host's memory as Ray's memory monitor counts it: the cgroup's, where that limit is the lower one."""

    used: int | None = None
    total: int | None = None
    kill_at: int | None = None
    """Above this many bytes Ray ends workers; `None` when its monitor is off or its settings could not be read."""


class Disk(Value, frozen=True):
    """A file system that Ray writes to."""

    path: str
    used: int | None = None
    total: int | None = None


class Quantity(Value, frozen=True):
    """How much of a resource Ray has handed out, of how much it was told there is. Logical: not what is really in use."""

    used: float | None = None
    total: float | None = None


class Gpu(Value, frozen=True):
    """One GPU or one MIG device, as NVML sees it."""

    index: int
    """NVML's index; for a MIG device 1000 x (its GPU's index) + its own (Ray's convention, gpu_providers.py)."""
    uuid: str = ""
    name: str | None = None
    utilization: float | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    power: float | None = None
    """Watts."""
    power_limit: float | None = None
    temperature: float | None = None
    ecc: int | None = None
    """Uncorrected ECC errors since the driver was loaded."""
    fault: str | None = None
    """Why NVML can't say more of it: lost, fallen off the bus."""

    @property
    def label(self) -> str:
        """`3`, or `3.1` for MIG device 1 of GPU 3."""
        return f"{self.index // 1000}.{self.index % 1000}" if self.index >= 1000 else str(self.index)


class Node(Value, frozen=True):
    """A host, as Ray knows it (`id`), or as only a probe does (`id` is `None`)."""

    id: str | None
    host: str
    ip: str = ""
    name: str = ""
    """The name given to `ray start --node-name`, when it is not the address."""
    head: bool = False
    state: NodeState = "UNKNOWN"
    message: str | None = None
    """Why a dead node died, in Ray's words."""
    seen: float | None = None
    """When its physical facts last changed, by this host's clock. Old facts stay, and their age is shown."""
    cpu: float | None = None
    cpus: int | None = None
    memory: HostMemory = HostMemory()
    object_store: Amount = Amount()
    shm: Amount = Amount()
    disks: tuple[Disk, ...] = ()
    resources: Mapping[str, Quantity] = {}
    gpus: tuple[Gpu, ...] | None = None
    workers: int | None = None
    labels: Mapping[str, str] = {}
    probed: bool = False
    """A probe on the host itself is the source of its physical facts."""

    @property
    def key(self) -> str:
        """Its identity."""
        return f"node:{self.id or self.host}"

    @property
    def title(self) -> str:
        """What people call it."""
        return self.name or self.host or self.ip or (self.id or "")[:8]


class Worker(Value, frozen=True):
    """A worker or driver process that Ray itself vouches for."""

    node: str
    pid: int
    job: str | None = None
    actor: str | None = None
    driver: bool = False


class Holder(Value, frozen=True):
    """A process holding memory of a GPU, as Ray's agent on its node reports it."""

    node: str
    index: int
    pid: int
    memory: int | None = None


class Actor(Value, frozen=True):
    """An actor; `needs` are the resources it was declared with, placement-group names taken off."""

    id: str
    class_: str = msgspec.field(name="class")
    name: str = ""
    state: str = ""
    job: str | None = None
    node: str | None = None
    pid: int | None = None
    needs: Mapping[str, float] = {}
    placement_group: str | None = None
    restarts: int | None = None
    detached: bool | None = None
    since: float | None = None
    """Waiting: since when it has been seen waiting. Alive: when it was started, where known."""
    at_least: bool = False
    """It already waited when it was first seen, so that it may have waited longer than `since` says; Ray doesn't tell."""
    why: str | None = None
    """Why it waits or died, in a sentence."""
    namespace: str = ""
    internal: bool = False
    """Ray's own (a job's supervisor), not the user's."""

    @property
    def key(self) -> str:
        """Its identity."""
        return f"actor:{self.id}"

    @property
    def pending(self) -> bool:
        """Whether it waits for a place."""
        return self.state in PENDING_STATES


class Bundle(Value, frozen=True):
    """One bundle of a placement group; `node` is `None` while it has no place."""

    needs: Mapping[str, float]
    node: str | None = None


class PlacementGroup(Value, frozen=True):
    """A group of bundles that is placed whole or not at all."""

    id: str
    name: str = ""
    state: str = ""
    strategy: str | None = None
    """PACK, SPREAD, STRICT_PACK or STRICT_SPREAD; Ray tells it only while the group waits."""
    bundles: tuple[Bundle, ...] = ()
    job: str | None = None
    since: float | None = None
    why: str | None = None
    detached: bool | None = None

    @property
    def key(self) -> str:
        """Its identity."""
        return f"pg:{self.id}"

    @property
    def pending(self) -> bool:
        """Whether it waits for a place."""
        return self.state in ("PENDING", "RESCHEDULING", "PREPARED")


class Job(Value, frozen=True):
    """A submitted job, or a driver that connected by itself (then `submission` is `None`)."""

    id: str
    """What Ray's job API calls it: the submission id, else the job id."""
    job: str | None = None
    """The 8 hex digits that actors and workers carry; `None` until its driver has connected."""
    submission: str | None = None
    status: str = ""
    entrypoint: str | None = None
    started: float | None = None
    ended: float | None = None
    message: str | None = None
    error_type: str | None = None
    driver_node: str | None = None
    driver_pid: int | None = None
    exit_code: int | None = None

    @property
    def key(self) -> str:
        """Its identity."""
        return f"job:{self.id}"

    @property
    def running(self) -> bool:
        """Whether it is not over."""
        return self.status in ("PENDING", "RUNNING")


class Hold(Value, frozen=True):
    """What a process holds of one GPU; `memory` is `None` where NVML won't say."""

    index: int
    memory: int | None = None


class Process(Value, frozen=True):
    """A process that matters here: it holds GPU memory, or is Ray's, or comes from Ray.

    `(pid, ticks)` on a host is its identity; a pid alone may be reused.
    """

    host: str
    pid: int
    started: float | None = None
    ticks: int | None = None
    """Field 22 of /proc/PID/stat: the start in clock ticks since boot."""
    parent: int | None = None
    user: str | None = None
    command: str | None = None
    name: str | None = None
    state: str | None = None
    """As in ps: R, S, D, Z, T."""
    rss: int | None = None
    gpus: tuple[Hold, ...] = ()
    kind: Kind = "unknown"
    why: tuple[str, ...] = ()
    job: str | None = None
    actor: str | None = None
    session: str | None = None
    node: str | None = None
    """Ray's id of the node it runs on, where that is known."""
    ns_pid: int | None = None
    """Its pid as it knows it itself, inside its container; `None` when that is the same, or unknown."""
    undecided: str | None = None
    """`job`: its worker is dead and its raylet lives, so that Ray must say whether its job still runs."""

    @property
    def key(self) -> str:
        """Its identity."""
        return f"process:{self.host}:{self.pid}:{self.ticks}"

    @property
    def gpu_memory(self) -> int | None:
        """Over all GPUs; `None` when NVML won't say for any of them."""
        known = [hold.memory for hold in self.gpus if hold.memory is not None]
        return sum(known) if known else None

    @property
    def left_over(self) -> bool:
        """Whether its Ray is gone and it is still there."""
        return self.kind in LEFT_OVER


class MemoryUser(Value, frozen=True):
    """One of the processes that hold most of a host's memory."""

    pid: int
    rss: int
    user: str | None = None
    command: str | None = None


class Session(Value, frozen=True):
    """A Ray session's folder on a host."""

    host: str
    name: str
    path: str
    live: bool | None = None
    owner: str | None = None
    size: int | None = None
    keeps: tuple[str, ...] = ()
    """Files in it that may be dear: checkpoints, core dumps."""
    dashboard: str | None = None
    """`http://host:port`, when its dashboard runs on that host."""
    latest: bool = False
    """`session_latest` points at it."""
    started: float | None = None

    @property
    def key(self) -> str:
        """Its identity."""
        return f"session:{self.host}:{self.path}"


class Fault(Value, frozen=True):
    """A source that can't be believed: what is shown of it is as of before `since`."""

    source: str
    text: str
    since: float
    host: str | None = None

    @property
    def key(self) -> str:
        """Its identity."""
        return f"fault:{self.source}:{self.host}"


class Demand(Value, frozen=True):
    """So many waiting tasks or actors of one shape, as the autoscaler's monitor counts them."""

    needs: Mapping[str, float]
    count: int


class Cluster(Value, frozen=True):
    """Which Ray this is."""

    address: str | None = None
    ray_version: str | None = None
    session: str | None = None
    cluster_id: str | None = None
    auth: Literal["token", "disabled"] | None = None
    reachable: bool | None = None
    """The dashboard answers; `None` before it was asked."""


class Host(Value, frozen=True):
    """What one probe has said last of the host it runs on."""

    name: str
    addresses: tuple[str, ...] = ()
    taken: float | None = None
    """By this host's clock, when its last sample arrived."""
    cpu: float | None = None
    cpus: int | None = None
    memory: HostMemory = HostMemory()
    shm: Amount = Amount()
    disks: tuple[Disk, ...] = ()
    gpus: tuple[Gpu, ...] | None = None
    """`None` when NVML can't be asked; empty when there is no GPU."""
    processes: tuple[Process, ...] | None = None
    memory_users: tuple[MemoryUser, ...] = ()
    sessions: tuple[Session, ...] | None = None
    nodes: tuple[str, ...] = ()
    """Ray's node ids of the raylets that run on it."""
    faults: tuple[Fault, ...] = ()
    local: bool = False


class Snapshot(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Everything known at one moment. Never changed, compared by identity."""

    taken: float = 0.0
    cluster: Cluster = Cluster()
    nodes: tuple[Node, ...] | None = None
    actors: tuple[Actor, ...] | None = None
    actor_counts: Mapping[str, int] | None = None
    actors_complete: bool | None = None
    """Whether `actors` holds every actor that is not dead: Ray cuts its answers at 10,000."""
    placement_groups: tuple[PlacementGroup, ...] | None = None
    jobs: tuple[Job, ...] | None = None
    demand: tuple[Demand, ...] | None = None
    processes: tuple[Process, ...] | None = None
    sessions: tuple[Session, ...] | None = None
    hosts: Mapping[str, Host] = {}
    faults: tuple[Fault, ...] = ()
    as_of: Mapping[str, float] = {}
    """For each source, when its last good answer came."""

    @property
    def looked_at(self) -> int:
        """Hosts whose own process table has been read: only of these it can be said that nothing is left over."""
        return sum(host.processes is not None for host in self.hosts.values())
