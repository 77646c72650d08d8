"""What a cluster is by Ray's word: nodes, actors, placement groups, jobs."""

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
"""How Ray calls the actor that runs a job's entrypoint, before the job's id."""
GROUP_WAIT_PREFIX = "its placement group waits: "
"""How the reason of an actor begins that is bound to a group without a place; the group's own follows."""
DEADLOCK = "deadlock, none continues until one releases its resources: "
"""How the reason of what waits in a deadlock begins; what it needs, and who holds that, follows."""


Wait = Literal["never", "held", "fragmented", "short", "label", "deadlock", "itself", "group", "removed", "starting", "room"]
"""Why something waits.

`never`: no node is large enough. `held`: others hold its resources. `fragmented`: enough is free, but not on one node. `short`: CPUs are
missing. `label`: only nodes without its label have room. `deadlock`: jobs wait for each other. `itself`: its own job holds the resources.
`group`: its placement group waits. `removed`: that group was removed. `starting`: its worker is being started. `room`: a node has room."""


class Quantity(Value, frozen=True):
    """How much of a resource Ray has handed out, of how much it was told there is. Logical: not what is really in use."""

    used: float | None = None
    total: float | None = None


class AgentReport(Value, frozen=True):
    """What Ray's agent on a node says of its machine. Of a probed node only what its probe can't see: the rest is `None`, or empty."""

    seen: float | None = None
    """When its figures last changed, by this host's clock. Old figures stay, and their age is shown."""
    cpu: float | None = None
    cpus: int | None = None
    memory: HostMemory | None = None
    shared: int | None = None
    """Shared memory in use, which the agent may leave out of `memory`."""
    shm: Amount | None = None
    disks: tuple[Disk, ...] | None = None
    gpus: tuple[Gpu, ...] | None = None
    given: tuple[str, ...] = ()
    """Uuids of the GPUs that the node's container was given, of all that its probe sees; empty: all of them."""


class Node(Value, frozen=True):
    """A host, as Ray knows it (`id`), or as only a probe does (`id` is `None`)."""

    id: str | None
    host: str
    """How the machine calls itself."""
    ip: str = ""
    name: str = ""
    """The name given to `ray start --node-name`, when it is not the address."""
    head: bool = False
    state: NodeState = "UNKNOWN"
    message: str | None = None
    """Why a dead node died, in Ray's words."""
    agent: AgentReport = AgentReport()
    probe: str | None = None
    """The name of the `Host` whose probe is believed about its machine; `None`: Ray's agent is. See `ClusterIndex.machine`."""
    object_store: Amount = Amount()
    resources: Mapping[str, Quantity] = {}
    workers: int | None = None
    labels: Mapping[str, str] = {}
    started: float | None = None
    ended: float | None = None
    """When Ray took it in, and when it declared it dead, by the clock of the head."""
    pod: str | None = None
    """The pod that it is, by the word of Kubernetes."""
    had: tuple[str, ...] = ()
    """Dead: ids of the actors whose workers Ray last listed on it."""

    @property
    def probed(self) -> bool:
        """Whether a probe on the host itself is the source of what is known of its machine."""
        return self.probe is not None

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
    labels: Mapping[str, str] = {}
    """What it asks of the labels of its node: `a`, `!a`, `in(a, b)` or `!in(a, b)`."""
    placement_group: str | None = None
    bundle: int | None = None
    """The bundle of its group that it is bound to; `None`: any."""
    restarts: int | None = None
    detached: bool | None = None
    since: float | None = None
    """Waiting: since when it has been seen waiting. Alive: when it was started, where known."""
    at_least: bool = False
    """It already waited when it was first seen, so that it may have waited longer than `since` says; Ray doesn't tell."""
    why: str | None = None
    """Why it waits or died, in a sentence."""
    wait: Wait | None = None
    """The same in one word, where that is known."""
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

    def is_run_by(self, process: Process) -> bool:
        """Whether that is its process. Agents name a new worker's actor seconds after Ray's list does; until then its pid must do."""
        if process.actor is not None or self.pid is None or self.job is None:
            return process.actor == self.id
        return (process.ns_pid or process.pid, process.node, process.job) == (self.pid, self.node, self.job)


class Bundle(Value, frozen=True):
    """One bundle of a placement group; `node` is `null` while it has no place."""

    needs: Mapping[str, float]
    node: str | None = None
    labels: Mapping[str, str] = {}
    """What it asks of the labels of its node."""


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
    wait: Wait | None = None
    """The same in one word, where that is known."""
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
    preset: str | None = None
    """What it was launched from, by name."""
    runtime_env: Mapping[str, Any] | None = None
    """As Ray tells it, the secrets inside taken out."""
    metadata: Mapping[str, str] | None = None

    @property
    def key(self) -> str:
        """Its identity."""
        return f"job:{self.id}"

    @property
    def running(self) -> bool:
        """Whether it is not over."""
        return self.status in ("PENDING", "RUNNING")


class Demand(Value, frozen=True):
    """So many waiting tasks or actors of one shape, as the autoscaler monitor counts them."""

    needs: Mapping[str, float]
    count: int
    why: str | None = None
    """Why these are tasks that no node is large enough for. `None`: one is, or an actor may be what asks for so much."""
    wait: Wait | None = None

    @property
    def key(self) -> str:
        """Its identity."""
        return f"tasks:{sorted(self.needs.items())}"


class OtherRay(Value, frozen=True):
    """One that lives on this host and is not followed."""

    url: str
    session: str
    owner: str | None = None
    """Whose it is, where it is neither root's nor ours."""
    answers: bool | None = None
    """Whether it has answered there, as that session; `None`: not asked. One in a container is seen too, and may be out of reach."""


class Cluster(Value, frozen=True):
    """Which Ray this is."""

    address: str | None = None
    ray_version: str | None = None
    session: str | None = None
    cluster_id: str | None = None
    auth: Literal["token", "disabled"] | None = None
    reachable: bool | None = None
    """The dashboard answers; `None` before it was asked."""
    others: tuple[OtherRay, ...] | None = None
    """Asked while nothing has ever answered at this address; `None`: they have not been."""
    before: str | None = None
    """The session that was followed until this one took its place. `None`: this is the first, or a person has chosen it."""
    replaced: float | None = None
    """When this session was first heard in the place of `before`."""

    def is_other_than(self, before: Cluster) -> bool:
        """Whether another Ray answers than before, as far as both have said which they are."""
        told = ((before.session, self.session), (before.cluster_id, self.cluster_id))
        return any(old is not None and new is not None and old != new for old, new in told)
