"""What a host is by its own word: memory, disks, GPUs, processes, Ray's sessions on it."""

from __future__ import annotations

from typing import Literal

from cockpit.model.value import Value

Kind = Literal["ray", "worker", "driver", "child", "stale", "orphan", "foreign", "unknown"]
LEFT_OVER: tuple[Kind, ...] = ("orphan", "stale")
Past = tuple[tuple[int | str | None, ...] | None, int | None]
"""Evidence of a probe for another one, which alone understands it."""


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
    past: Past | None = None
    """What the probe has seen of it earlier and nobody can see now; an acting probe is given it."""

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
