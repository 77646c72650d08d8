"""Defines a host as its probe reports it: memory, disks, processes, and Ray's sessions on it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Literal

from msgspec.structs import replace

from cockpit.model.disk import Disk, FilledDisk
from cockpit.model.engine import HostEngine
from cockpit.model.gpu import Gpu
from cockpit.model.limits import CpuLimit, TaskLimit
from cockpit.model.oom import OomKill
from cockpit.model.proxy import HttpProxy
from cockpit.model.value import Value

Kind = Literal["ray", "worker", "driver", "child", "stale", "orphan", "foreign", "unknown"]
LEFT_OVER: tuple[Kind, ...] = ("orphan", "stale")
Cause = Literal["silent", "gcs", "monitor", "no token", "wrong token", "not ray", "other session"]
"""Why a source fails, if known.

`silent`: nothing answers. `gcs`: the GCS does not answer. `monitor`: the autoscaler monitor no longer writes. `no token`: Ray requires a
token, and none was found. `wrong token`: Ray refuses the token. `not ray`: another program answers. `other session`: another Ray session
answers than the one that the user has chosen."""
Past = tuple[int | str | None, ...]
"""Evidence that one probe has collected for another; only probes read it."""
MAX_TITLES: Final = 128
"""The last titles of a process that are kept between two snapshots."""


class Amount(Value, frozen=True):
    """An amount in use, in bytes."""

    used: int | None = None
    total: int | None = None


class HostMemory(Value, frozen=True):
    """A host's memory as Ray's memory monitor counts it: the memory of the cgroup, if its limit is lower.

    In a `Host` it is counted as by a Ray with default settings; `Machine` has it as the node's own raylet counts.
    """

    used: int | None = None
    total: int | None = None
    kill_at: int | None = None
    """Above this the node's raylet kills workers; `None`: its monitor is off, or the threshold is unknown, as for a host without a node."""
    host_total: int | None = None
    """The machine's total, if a cgroup limits `total`."""
    shared: int | None = None
    """The part of the host's used memory in shared memory and tmpfs; Ray's object store in /dev/shm is part of it."""
    whole: Amount | None = None
    """The host's memory, if Ray counts something else: with resource isolation `used` is the memory of the workers; with swap counted
    `used` and `total` include swap."""
    isolation: str | None = None
    """With resource isolation: the folder of the raylet's cgroups; its workers are below `user` in it."""
    charged: int | None = None
    """With resource isolation: all that the kernel counts for the workers, file cache included. At memory.high, which is `kill_at` without
    swap, the kernel takes memory back from them, and Ray kills a worker."""


class Hold(Value, frozen=True):
    """The memory that a process holds on one GPU."""

    index: int
    memory: int | None = None


class SocketInterfaces(Value, frozen=True):
    """The network interfaces that a process has (`there`), and its NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME."""

    nccl: str | None = None
    gloo: str | None = None
    there: tuple[str, ...] = ()
    default: str | None = None
    """The interface of its default route; `None`: it has none for IPv4, or it is unknown."""


class ShmUser(Value, frozen=True):
    """The bytes of one user's files in /dev/shm, without files that are deleted and still mapped."""

    user: str | None
    size: int


class Listener(Value, frozen=True, kw_only=True):
    """A process that listens on a port."""

    pid: int | None
    """`None`: the probe has no right to see which process of the user it is."""
    ticks: int | None = None
    user: str | None = None
    command: str | None = None


class Port(Value, frozen=True):
    """A port that a job could not bind, and the processes that listen on it now."""

    host: str
    port: int
    listeners: tuple[Listener, ...] = ()


class StuckProcess(Value, frozen=True, kw_only=True):
    """A process that a probe has seen in D state twice, ten seconds apart, and the file system that it waits for, if known."""

    pid: int
    ticks: int | None = None
    waits_in: str | None = None
    """The kernel function (/proc/PID/wchan)."""
    mount: str | None = None
    kind: str | None = None
    """The type of the file system: nfs4, lustre, fuse.sshfs, …"""
    source: str | None = None
    certain: bool | None = None
    """True: its system call works on a file there. False: it is the only file system in use by the process that needs a server."""


class RdmaPort(Value, frozen=True, kw_only=True):
    """A port of an InfiniBand or RoCE device. If the driver lacks a file, the fact is `None`, or is not in `errors`."""

    device: str
    port: int
    layer: str | None = None
    """InfiniBand, or Ethernet (RoCE)."""
    state: str | None = None
    """DOWN, INIT, ARMED, ACTIVE."""
    phys_state: str | None = None
    """LinkUp, Polling, Disabled, …"""
    rate: str | None = None
    used: bool | None = None
    """Whether it has ever sent or received a packet since its driver was loaded."""
    errors: Mapping[str, int] = {}
    """The counters of its link since they were reset, by their names in sysfs."""


class HostContainer(Value, frozen=True):
    """A container that a process runs in, seen from outside."""

    engine: str
    """The command that starts a program in it: podman, docker, crictl."""
    name: str
    user: str | None = None
    """The user whose engine it is; the engines of other users don't know it."""


class Process(Value, frozen=True, kw_only=True):
    """A process that holds GPU memory, belongs to Ray, or was started by Ray.

    Its identity on a host is `(pid, ticks)`; a pid alone may be reused.
    """

    host: str = ""
    """Filled in by the caller of the probe."""
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
    shared: int | None = None
    """The part of `rss` in files and shared memory, which other processes may have mapped too."""
    gpus: tuple[Hold, ...] = ()
    kind: Kind = "unknown"
    why: tuple[str, ...] = ()
    """The evidence for `kind`."""
    job: str | None = None
    """Ray's job id or a submission id in the followed cluster. A probe may report another Ray's job; the join moves it to `other_job`."""
    actor: str | None = None
    """In the followed cluster."""
    session: str | None = None
    """The name of its Ray session, also of another Ray."""
    ours: bool | None = None
    """Whether it belongs to the followed cluster; `None`: it is not Ray's, or its Ray is unknown."""
    other_job: str | None = None
    """Its job, if that is not known to be of the followed cluster: each Ray counts its jobs from 1."""
    node: str | None = None
    ns_pid: int | None = None
    """Its pid in its container; `None` if it is the same, or unknown."""
    inside: str | None = None
    """The PID namespace of its container; `None` if it is the probe's own, or unknown."""
    container: HostContainer | None = None
    """`None`: it runs in no container, or in an unknown one."""
    worker: int | None = None
    """The pid, in its container, of the Ray worker that owns its stdout: itself or an ancestor, alive or not."""
    undecided: str | None = None
    """`job`: it is left over only if its job has ended, and only Ray knows that."""
    sockets: SocketInterfaces | None = None
    """`None`: its environment names no interface, or the existing ones are unknown."""
    asks: tuple[str, ...] = ()
    """If undecided: the sessions that its job may belong to. All of them must be asked."""
    past: Past | None = None
    """What its probe saw earlier and nobody can see now; it is passed to the acting probe."""
    titles: tuple[tuple[float, str], ...] = ()
    """The titles that a Ray worker got since the sample before, oldest first, and when (POSIX time by our clock); the last one is its
    `command`. A title of less than half a second may be missing. Empty: none, or it is not followed. Not recorded."""

    def is_seen_by(self, machines: Collection[str | None], own: str | None) -> bool:
        """Return whether its container has one of these probes (`Host.machine`), and `own`, the probe that reports it, is outside."""
        return self.inside is not None and own is not None and f"{own.partition(' ')[0]} {self.inside}" in machines

    @property
    def key(self) -> str:
        """Its identity."""
        return f"process:{self.host}:{self.pid}:{self.ticks}"

    @property
    def private(self) -> int | None:
        """Host memory that it does not share; all of `rss` if the shared part is unknown."""
        return None if self.rss is None else self.rss - (self.shared or 0)

    @property
    def gpu_memory(self) -> int | None:
        """The sum over all GPUs; `None` if NVML reports none of them."""
        known = [hold.memory for hold in self.gpus if hold.memory is not None]
        return sum(known) if known else None

    @property
    def left_over(self) -> bool:
        """Whether it has outlived its Ray."""
        return self.kind in LEFT_OVER

    @property
    def other_owner(self) -> str | None:
        """Its owner, in words, if that is another or an unknown Ray."""
        if self.ours is False or self.other_job:
            return describe_owner(self.other_job, self.session, another=self.ours is False)
        return None


def describe_owner(job: str | None, session: str | None, *, another: bool) -> str:
    """Return `job 02000000 of another Ray session (session_…)`. Without `another` it may be the followed session."""
    named = f" ({session})" if session else ""
    ray = f"another Ray session{named}" if another else session or "an unknown Ray session"
    return f"job {job} of {ray}" if job else ray


class MemoryUser(Value, frozen=True):
    """One of the processes with the most memory on a host."""

    pid: int
    rss: int
    user: str | None = None
    command: str | None = None
    shared: int | None = None

    @property
    def private(self) -> int:
        """As in `Process`."""
        return self.rss - (self.shared or 0)


class RayPorts(Value, frozen=True):
    """The TCP ports in the command of a raylet or GCS. Ranges have their first and last port."""

    workers: tuple[tuple[int, int], ...] = ()
    """The ports that a raylet gives to its workers and drivers, one to each; empty: any port."""
    fixed: Mapping[str, int] = {}
    """The port of each part (GCS, node manager, object manager), unless Ray chooses it itself."""
    local: tuple[int, int] | None = None
    """net.ipv4.ip_local_port_range in its network namespace."""
    reserved: tuple[tuple[int, int], ...] = ()
    """net.ipv4.ip_local_reserved_ports there."""


class RayProcess(Value, frozen=True):
    """A live raylet or GCS on a host, as its process table and its environment show it; limits are known only for a raylet."""

    role: Literal["raylet", "gcs_server"]
    pid: int
    session: str | None = None
    node: str | None = None
    state: str | None = None
    """As in ps; T is stopped by a signal."""
    ray: str | None = None
    """The version of Ray."""
    python: str | None = None
    """The version of the Python of its workers."""
    visible: str | None = None
    """Its CUDA_VISIBLE_DEVICES; `None`: it has none, or it is unknown."""
    files: int | None = None
    files_limit: int | None = None
    frameworks: Mapping[str, str] | None = None
    """A raylet's: the versions of `openrlhf` and `verl` that are installed beside its Ray."""
    tasks: tuple[TaskLimit, ...] | None = None
    """Without limits that are unknown or don't apply."""
    apart: bool = False
    """It is in another container than the probe: it has another memory limit, and perhaps another /dev/shm."""
    slurm: str | None = None
    """The Slurm job that it was started in: by its cgroup, else by its environment."""
    slurm_memory: Amount | None = None
    """A raylet's: the memory of that job's cgroup, whose limit Ray does not know."""
    gcs: str | None = None
    """`host:port` of its GCS, or its own, from its command; `None` for another user's process."""
    start: Mapping[str, str] | None = None
    """The flags of `ray start` in its command line, and a raylet's `python`; `None` for another user's process."""
    kill_at: int | None = None
    """As in `HostMemory`."""
    kill_used: int | None = None
    """The bytes in use that it compares with `kill_at`; `None`: those of the host."""
    kill_total: int | None = None
    """The most that can be in use by that count; `None`: the memory of the host."""
    charged: int | None = None
    """As in `HostMemory`."""
    isolation: str | None = None
    """A raylet's: the folder of the cgroups that it has made for itself and its workers, if it runs with resource isolation."""
    cpu_limit: CpuLimit | None = None
    locked_memory: int | None = None
    """The bytes that a worker may pin (`ulimit -l`, the soft limit); `None`: unlimited, without effect, or unknown."""
    rdma: tuple[str, ...] | None = None
    """A raylet's: the InfiniBand and RDMA devices that it may open."""
    addresses: tuple[str, ...] | None = None
    """A raylet's: all addresses of its network except loopback."""
    network: str | None = None
    """A raylet's: a text that is different for every network namespace of every host."""
    loopback_line: str | None = None
    """A raylet's: the line of its /etc/hosts that maps its host's name to loopback; `None`: there is none, or it is unknown."""
    gloo: str | None = None
    """Its GLOO_SOCKET_IFNAME."""
    proxy: HttpProxy | None = None
    """The HTTP proxy in its environment, which workers and drivers inherit; `None`: it has none, or it is unknown."""
    ports: RayPorts | None = None
    """`None`: its command can't be read."""


class Pointer(Value, frozen=True):
    """`session_latest` or `ray_current_cluster`, where Ray's tools look first."""

    path: str
    target: str
    """The session's folder, or the address; empty if Ray did not make it."""
    alive: bool | None = None
    """Whether that Ray is alive; `None`: unknown, as for another host's or a starting Ray."""


class TempDir(Value, frozen=True):
    """One of Ray's temp dirs on a host."""

    path: str
    owner: str | None = None
    writable: bool | None = None
    """Whether the probe's user could start a Ray in it."""


class Session(Value, frozen=True, kw_only=True):
    """The folder of a Ray session on a host."""

    host: str = ""
    name: str
    path: str
    live: bool | None = None
    owner: str | None = None
    size: int | None = None
    keeps: tuple[str, ...] = ()
    """Files in it that may be worth keeping: checkpoints, core dumps."""
    dashboard: str | None = None
    """`http://host:port`, if its dashboard runs on that host."""
    latest: bool = False
    """`session_latest` points to it."""
    started: float | None = None
    stopped: bool | None = None
    """Its raylet was stopped in order, as by `ray stop`; known only for the latest session, if it is dead."""
    nodes: tuple[str, ...] = ()
    """Ray's ids of the nodes that have written into it, also on other hosts that share the folder."""
    log_files: int | None = None
    """The number of files in its folder of logs, without subfolders, rounded down to thousands."""
    trusted: bool = False
    """Its owner is root or the user of the probe. A session of anybody else is followed only on request."""

    @property
    def key(self) -> str:
        """Its identity."""
        return f"session:{self.host}:{self.path}"


class Fault(Value, frozen=True):
    """A source that fails. Its facts are older than `since`."""

    source: str
    text: str
    since: float
    host: str | None = None
    cause: Cause | None = None
    sources: tuple[str, ...] = ()
    """All sources that fail by the same cause, itself first."""

    @property
    def key(self) -> str:
        """Its identity."""
        return f"fault:{self.source}:{self.host}"


class Host(Value, frozen=True):
    """The last report of the probe on a host."""

    name: str
    addresses: tuple[str, ...] = ()
    taken: float | None = None
    """When its last sample arrived, by our clock."""
    cpu: float | None = None
    cpus: int | None = None
    memory: HostMemory = HostMemory()
    shm: Amount = Amount()
    disks: tuple[Disk, ...] = ()
    gpus: tuple[Gpu, ...] | None = None
    """`None`: NVML can't be asked; empty: there is no GPU."""
    processes: tuple[Process, ...] | None = None
    memory_users: tuple[MemoryUser, ...] = ()
    sessions: tuple[Session, ...] | None = None
    nodes: tuple[str, ...] = ()
    """Ray's node ids in the command lines of its raylets: a claim, which `ClusterIndex.believed_hosts` checks."""
    rays: tuple[RayProcess, ...] | None = None
    pointers: tuple[Pointer, ...] | None = None
    temps: tuple[TempDir, ...] | None = None
    driver: str | None = None
    """The version of the NVIDIA driver."""
    proxy: HttpProxy | None = None
    """The HTTP proxy in its probe's environment; on the local host that is the user's shell."""
    oom_kills: tuple[OomKill, ...] | None = None
    """Kills of the last hour, from the logs of its live sessions and its kernel."""
    wrote: Mapping[str, Mapping[str, float]] = {}
    """By session name and submission id: the last write to the log of a job's driver on this host."""
    shm_users: tuple[ShmUser, ...] | None = None
    unanswered: tuple[str, ...] = ()
    """Sources of the probe, named as in its faults, that have never answered."""
    stuck: tuple[StuckProcess, ...] | None = None
    rdma_ports: tuple[RdmaPort, ...] | None = None
    """`None`: unknown; empty: there are no InfiniBand or RoCE devices."""
    pid_digits: int | None = None
    """The digits of the newest pid; the next one has as many, or one more."""
    pid_max: int | None = None
    machine: str | None = None
    """The boot id of its kernel and its probe's PID namespace: different for every host and container."""
    faults: tuple[Fault, ...] = ()
    local: bool = False
    engines: tuple[HostEngine, ...] | None = None
    """What the servers of inference engines on it have answered to its probe. Not recorded: `Snapshot.engines` has it."""
    filled: tuple[FilledDisk, ...] = ()
    """What fills disks and /dev/shm that are nearly full, once the probe has looked."""
    observed: Mapping[str, float] = {}
    """By source of the probe: when its facts were true, by our clock. For a missing source it is `taken`."""
    paces: Mapping[str, float] = {}
    """By source that is read seldom, because it costs much CPU: seconds between two answers."""
    ended: tuple[Process, ...] = ()
    """Ray workers that have ended since the sample before, with nothing but their last `titles`. Not recorded."""

    @property
    def key(self) -> str:
        """Its identity."""
        return f"host:{self.name}"

    def with_titles_of(self, earlier: Host) -> Host:
        """Return the sample with the titles of an earlier one, which was in no snapshot."""
        missed = {process.key: process for process in earlier.processes or () if process.titles}
        if self.processes is None or not (missed or earlier.ended):
            return self
        processes: list[Process] = []
        for process in self.processes:
            before = missed.pop(process.key, None)
            processes.append(process if before is None else replace(process, titles=(*before.titles, *process.titles)[-MAX_TITLES:]))
        return replace(self, processes=tuple(processes), ended=(*earlier.ended, *missed.values(), *self.ended))

    def observed_at(self, source: str) -> float | None:
        """Return when the facts of a source of its probe were true, or `None` if it has not answered yet."""
        if self.taken is None or source in self.unanswered:
            return None
        return min(self.taken, self.observed.get(source, self.taken))
