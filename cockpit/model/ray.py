"""Defines the values that Ray reports: nodes, actors, placement groups, jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from cockpit.model.disk import Disk
from cockpit.model.gpu import Gpu
from cockpit.model.host import Amount, HostMemory, Process
from cockpit.model.value import Value

NodeState = Literal["ALIVE", "DEAD", "UNKNOWN"]
PENDING_STATES = ("DEPENDENCIES_UNREADY", "PENDING_CREATION")
SUPERVISOR = "_ray_internal_job_actor_"
"""The prefix of the name of the actor that runs a job's entrypoint; the job's id follows."""
GROUP_WAIT_PREFIX = "its placement group waits: "
"""The prefix of the reason of an actor whose placement group waits; the group's reason follows."""
DEADLOCK = "deadlock, none continues until one releases its resources: "
"""The prefix of the reason of a deadlock; the needed resources and their holders follow."""
Wait = Literal["never", "held", "fragmented", "short", "label", "deadlock", "itself", "group", "removed", "starting", "room"]
"""Why something waits.

`never`: no node is large enough. `held`: others hold its resources. `fragmented`: enough is free, but not on one node. `short`: CPUs are
missing. `label`: only nodes without its label have room. `deadlock`: jobs wait for each other. `itself`: its own job holds the resources.
`group`: its placement group waits. `removed`: that group was removed. `starting`: its worker is being started. `room`: a node has room."""


class Quantity(Value, frozen=True):
    """The amount of a resource that Ray has allocated, and the total that it was given. Logical: real usage is independent."""

    used: float | None = None
    total: float | None = None


class AgentReport(Value, frozen=True):
    """The facts about a node's machine from Ray's agent. For a probed node it has only facts that the probe can't see."""

    seen: float | None = None
    """When its figures last changed, by this host's clock."""
    cpu: float | None = None
    cpus: int | None = None
    memory: HostMemory | None = None
    shared: int | None = None
    """Shared memory in use, which the agent may not count in `memory`."""
    shm: Amount | None = None
    disks: tuple[Disk, ...] | None = None
    gpus: tuple[Gpu, ...] | None = None
    given: tuple[str, ...] = ()
    """Uuids of the GPUs in the node's container, if its probe sees more; empty: all."""


class Node(Value, frozen=True):
    """A node of Ray, or a host that only a probe knows (`id` is `None`)."""

    id: str | None
    host: str
    """The machine's own name."""
    ip: str = ""
    name: str = ""
    """The name from `ray start --node-name`, if it is not the address."""
    head: bool = False
    state: NodeState = "UNKNOWN"
    message: str | None = None
    """Why it died, in Ray's words."""
    agent: AgentReport = AgentReport()
    probe: str | None = None
    """The name of the `Host` whose probe has the facts about its machine; `None`: Ray's agent has them. See `ClusterIndex.machine`."""
    object_store: Amount = Amount()
    resources: Mapping[str, Quantity] = {}
    workers: int | None = None
    labels: Mapping[str, str] = {}
    started: float | None = None
    ended: float | None = None
    """When it joined Ray, and when Ray declared it dead, by the head's clock."""
    pod: str | None = None
    had: tuple[str, ...] = ()
    """For a dead node: ids of the actors whose workers Ray last listed on it."""

    @property
    def probed(self) -> bool:
        """Whether the facts about its machine come from a probe."""
        return self.probe is not None

    @property
    def key(self) -> str:
        """Its identity."""
        return f"node:{self.id or self.host}"

    @property
    def title(self) -> str:
        """The name that people use."""
        return self.name or self.host or self.ip or (self.id or "")[:8]


class Worker(Value, frozen=True):
    """A worker or driver process that Ray lists."""

    node: str
    pid: int
    job: str | None = None
    actor: str | None = None
    driver: bool = False
    id: str | None = None
    """Ray's id of it."""


class Holder(Value, frozen=True):
    """A process that holds GPU memory, reported by Ray's agent on its node."""

    node: str
    index: int
    pid: int
    memory: int | None = None


class Actor(Value, frozen=True):
    """An actor. `needs` are its declared resources, without the names of placement groups."""

    id: str
    class_: str = msgspec.field(name="class")
    name: str = ""
    state: str = ""
    job: str | None = None
    node: str | None = None
    pid: int | None = None
    needs: Mapping[str, float] = {}
    labels: Mapping[str, str] = {}
    """The required labels of its node: `a`, `!a`, `in(a, b)` or `!in(a, b)`."""
    placement_group: str | None = None
    bundle: int | None = None
    """The index of its bundle in the group; `None`: any."""
    restarts: int | None = None
    detached: bool | None = None
    since: float | None = None
    """If it waits: since when cockpit has seen it waiting. If it is alive: when it was started, if known."""
    at_least: bool = False
    """It has waited at least since `since`: it already waited when cockpit first saw it, and Ray does not report the start."""
    why: str | None = None
    """Why it waits or died, in a sentence."""
    wait: Wait | None = None
    namespace: str = ""
    internal: bool = False
    """It is Ray's own (a job's supervisor), not the user's."""

    @property
    def key(self) -> str:
        """Its identity."""
        return f"actor:{self.id}"

    @property
    def pending(self) -> bool:
        """Whether it waits for a place."""
        return self.state in PENDING_STATES

    def is_run_by(self, process: Process) -> bool:
        """Return whether this is its process. Agents report a new worker's actor some seconds late; until then the pid decides."""
        if process.actor is not None or self.pid is None or self.job is None:
            return process.actor == self.id
        return (process.ns_pid or process.pid, process.node, process.job) == (self.pid, self.node, self.job)


class Bundle(Value, frozen=True):
    """One bundle of a placement group; `node` is `None` while it has no place."""

    needs: Mapping[str, float]
    node: str | None = None
    labels: Mapping[str, str] = {}


class PlacementGroup(Value, frozen=True):
    """A group of bundles; Ray places all of them or none."""

    id: str
    name: str = ""
    state: str = ""
    strategy: str | None = None
    """PACK, SPREAD, STRICT_PACK or STRICT_SPREAD; Ray reports it only while the group waits."""
    bundles: tuple[Bundle, ...] = ()
    job: str | None = None
    since: float | None = None
    why: str | None = None
    wait: Wait | None = None
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
    """A submitted job, or a driver that connected by itself (`submission` is `None`)."""

    id: str
    """Its id in Ray's job API: the submission id, else the job id."""
    job: str | None = None
    """The 8 hex digits in the facts of its actors and workers; `None` until its driver has connected."""
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
    preset: str | None = None
    runtime_env: Mapping[str, Any] | None = None
    """Without secrets."""
    metadata: Mapping[str, str] | None = None

    @property
    def key(self) -> str:
        """Its identity."""
        return f"job:{self.id}"

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.status in ("PENDING", "RUNNING")


class Demand(Value, frozen=True):
    """A number of waiting tasks or actors with the same needs, from the autoscaler monitor."""

    needs: Mapping[str, float]
    count: int
    why: str | None = None
    """Why no node is large enough for these tasks; `None`: one is, or they may be actors."""
    wait: Wait | None = None

    @property
    def key(self) -> str:
        """Its identity."""
        return f"tasks:{sorted(self.needs.items())}"


class OtherRay(Value, frozen=True):
    """A live Ray on this host that is not followed."""

    url: str
    session: str
    owner: str | None = None
    """Its user, if it is neither root nor us."""
    answers: bool | None = None
    """Whether it has answered as that session; `None`: not asked. A Ray in a container may be unreachable."""


class Cluster(Value, frozen=True):
    """The identity of the followed Ray."""

    address: str | None = None
    ray_version: str | None = None
    session: str | None = None
    cluster_id: str | None = None
    auth: Literal["token", "disabled"] | None = None
    reachable: bool | None = None
    """Whether the dashboard answers; `None`: it was not asked yet."""
    others: tuple[OtherRay, ...] | None = None
    """Other Rays on this host; found only while the address has never answered."""
    before: str | None = None
    """The session that this one has replaced; `None`: it is the first, or the user has chosen it."""
    replaced: float | None = None
    """When this session replaced `before`."""

    def is_other_than(self, before: Cluster) -> bool:
        """Return whether another Ray answers now, by the ids that both have given."""
        ids = ((before.session, self.session), (before.cluster_id, self.cluster_id))
        return any(old is not None and new is not None and old != new for old, new in ids)
