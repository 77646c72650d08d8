"""What a host is by its own word: memory, disks, processes, Ray's sessions on it; its GPUs are in `gpu`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

from cockpit.model.disk import Disk, FilledDisk
from cockpit.model.gpu import Gpu
from cockpit.model.limits import CpuLimit, TaskLimit
from cockpit.model.oom import OomKill
from cockpit.model.proxy import HttpProxy
from cockpit.model.value import Value

Kind = Literal["ray", "worker", "driver", "child", "stale", "orphan", "foreign", "unknown"]
LEFT_OVER: tuple[Kind, ...] = ("orphan", "stale")
Cause = Literal["silent", "gcs", "monitor", "no token", "wrong token", "not ray", "other session"]
"""Why a source can't be believed, if that is known.

`silent`: nothing answers. `gcs`: the GCS does not answer. `monitor`: the autoscaler monitor no longer writes. `no token`: Ray asks for a
token, and none was found. `wrong token`: Ray refuses the token. `not ray`: another program answers. `other session`: another Ray session
answers, not the one that a person has chosen."""
Past = tuple[int | str | None, ...]
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
    """Above this many bytes the node's raylet ends workers; `None` when its monitor is off, or that is not known, as of a host alone."""
    host_total: int | None = None
    """Of the machine itself, where a cgroup gives less of it than that; else `None`."""
    shared: int | None = None
    """Of what is used: shared memory and tmpfs, counted once; Ray's object store in /dev/shm is part of it."""


class Hold(Value, frozen=True):
    """What a process holds of one GPU; `memory` is `None` where NVML won't say."""

    index: int
    memory: int | None = None


class SocketInterfaces(Value, frozen=True):
    """Which network interfaces a process was told to use, and which it has."""

    nccl: str | None = None
    """Its NCCL_SOCKET_IFNAME."""
    gloo: str | None = None
    """Its GLOO_SOCKET_IFNAME."""
    there: tuple[str, ...] = ()
    default: str | None = None
    """Over which its default route goes; `None`: it has none for IPv4, or that is not known."""


class ShmUser(Value, frozen=True):
    """How much the files of one user in /dev/shm take, in bytes; what is deleted there and still mapped is in nobody's."""

    user: str | None
    size: int


class Listener(Value, frozen=True, kw_only=True):
    """Who listens on a port."""

    pid: int | None
    """`None`: the probe may not see which process of that user it is."""
    ticks: int | None = None
    """As of a `Process`."""
    user: str | None = None
    command: str | None = None


class Port(Value, frozen=True):
    """A port that somebody wanted in vain, and who listens on it now, as its host's own network has it."""

    host: str
    port: int
    listeners: tuple[Listener, ...] = ()


class StuckProcess(Value, frozen=True, kw_only=True):
    """A process that a probe has seen in D state at two looks, ten seconds apart, and what it waits for, as far as that can be told."""

    pid: int
    ticks: int | None = None
    """As of a `Process`."""
    waits_in: str | None = None
    """A function of the kernel (/proc/PID/wchan)."""
    mount: str | None = None
    """Where the file system is mounted on which it waits."""
    kind: str | None = None
    """Of that file system: nfs4, lustre, fuse.sshfs, …"""
    source: str | None = None
    certain: bool | None = None
    """Its system call works on a file there; false: of the file systems that it uses only this one needs a server."""


class RdmaPort(Value, frozen=True, kw_only=True):
    """A port of an InfiniBand or RoCE device; a file that its driver does not have is `None`, or not among `errors`."""

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
    """Whether packets have ever gone through it since its driver was loaded."""
    errors: Mapping[str, int] = {}
    """Counters of its link by their names in sysfs, since they were reset."""


class HostContainer(Value, frozen=True):
    """A container that a process runs in, as seen from outside of it."""

    engine: str
    """The command that starts a program in it: podman, docker, crictl."""
    name: str
    """Its name, or the beginning of its id."""
    user: str | None = None
    """Whose engine it is: another user's doesn't know it."""


class Process(Value, frozen=True, kw_only=True):
    """A process that matters here: it holds GPU memory, or is Ray's, or comes from Ray.

    `(pid, ticks)` on a host is its identity; a pid alone may be reused.
    """

    host: str = ""
    """Said by whoever asks the host, never by its probe; empty only until then."""
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
    """Of its `rss`: files and shared memory, which other processes may have mapped too."""
    gpus: tuple[Hold, ...] = ()
    kind: Kind = "unknown"
    why: tuple[str, ...] = ()
    job: str | None = None
    """Ray's job id or a submission id, of the followed cluster; in a probe's own words it may be another Ray's, until they are joined."""
    actor: str | None = None
    """Of the followed cluster."""
    session: str | None = None
    """The name of the Ray session that it is of, whichever that is."""
    ours: bool | None = None
    """Whether it is of the followed cluster; `None`: it is nothing of Ray's, or of which Ray can't be told."""
    other_job: str | None = None
    """The job that it names, where that is not known to be one of the followed cluster: each Ray counts its jobs anew."""
    node: str | None = None
    """Ray's id of the node it runs on, where that is known."""
    ns_pid: int | None = None
    """Its pid as it knows it itself, inside its container; `None` when that is the same, or unknown."""
    inside: str | None = None
    """The PID namespace of its container; `None` when it is the probe's own, or unknown."""
    container: HostContainer | None = None
    """`None`: it runs in none, or in which can't be told."""
    worker: int | None = None
    """The pid, as its container counts, of the Ray worker whose log its stdout is: itself, or one that it comes from, alive or not."""
    undecided: str | None = None
    """`job`: whether it is left over hangs on whether its job still runs, which only Ray can say."""
    sockets: SocketInterfaces | None = None
    """`None`: its environment names no interface, or it is not known which there are."""
    asks: tuple[str, ...] = ()
    """Undecided: the names of the sessions any of which its job may belong to; all of them must be asked."""
    past: Past | None = None
    """What the probe has seen of it earlier and nobody can see now; an acting probe is given it."""

    def is_seen_by(self, machines: Collection[str | None], own: str | None) -> bool:
        """Whether it runs in a container that one of these probes (`Host.machine`) is in, and `own`, which tells of it, is not."""
        return self.inside is not None and own is not None and f"{own.partition(' ')[0]} {self.inside}" in machines

    @property
    def key(self) -> str:
        """Its identity."""
        return f"process:{self.host}:{self.pid}:{self.ticks}"

    @property
    def private(self) -> int | None:
        """Host memory that is its alone; all that is resident, where it is not known what of it is shared."""
        return None if self.rss is None else self.rss - (self.shared or 0)

    @property
    def gpu_memory(self) -> int | None:
        """Over all GPUs; `None` when NVML won't say for any of them."""
        known = [hold.memory for hold in self.gpus if hold.memory is not None]
        return sum(known) if known else None

    @property
    def left_over(self) -> bool:
        """Whether its Ray is gone and it is still there."""
        return self.kind in LEFT_OVER

    @property
    def other_owner(self) -> str | None:
        """Whose it is, in words, where that is another Ray, or can't be told; `None`: the followed cluster's, or nobody's."""
        if self.ours is False or self.other_job:
            return describe_owner(self.other_job, self.session, another=self.ours is False)
        return None


def describe_owner(job: str | None, session: str | None, *, another: bool) -> str:
    """`job 02000000 of another Ray session (session_…)`; without `another` it is not known to be another one than the followed."""
    named = f" ({session})" if session else ""
    ray = f"another Ray session{named}" if another else session or "an unknown Ray session"
    return f"job {job} of {ray}" if job else ray


class MemoryUser(Value, frozen=True):
    """One of the processes that hold most of a host's memory."""

    pid: int
    rss: int
    user: str | None = None
    command: str | None = None
    shared: int | None = None
    """As of a `Process`."""

    @property
    def private(self) -> int:
        """As of a `Process`."""
        return self.rss - (self.shared or 0)


class RayPorts(Value, frozen=True):
    """TCP ports of a raylet or GCS, as its command says; ranges have their first and last port."""

    workers: tuple[tuple[int, int], ...] = ()
    """A raylet's: those that it gives to its workers and drivers, one to each; none: any port."""
    fixed: Mapping[str, int] = {}
    """By part: GCS, node manager, object manager; of those that Ray chooses itself none is known."""
    local: tuple[int, int] | None = None
    """net.ipv4.ip_local_port_range where it runs; `None`: unknown."""
    reserved: tuple[tuple[int, int], ...] = ()
    """net.ipv4.ip_local_reserved_ports there."""


class RayProcess(Value, frozen=True):
    """A raylet or GCS that lives on a host, as its process table and its environment show it."""

    role: Literal["raylet", "gcs_server"]
    pid: int
    session: str | None = None
    """The name of its session."""
    node: str | None = None
    """Ray's id of the node that a raylet is."""
    state: str | None = None
    """As in ps; T is stopped by a signal."""
    ray: str | None = None
    """Its version of Ray."""
    python: str | None = None
    """The version of the Python that its workers use."""
    visible: str | None = None
    """Its CUDA_VISIBLE_DEVICES; `None` when there is none, or it can't be read."""
    files: int | None = None
    files_limit: int | None = None
    """Open files, and how many it may have (the soft limit)."""
    frameworks: Mapping[str, str] | None = None
    """A raylet's: releases of `openrlhf` and `verl` that lie beside its Ray; `None` where that can't be seen."""
    tasks: tuple[TaskLimit, ...] | None = None
    """A raylet's; a limit that doesn't count for it, or that is not known, is not among them."""
    apart: bool = False
    """It is in a container that the probe is not in: it counts another memory, and may have another /dev/shm."""
    slurm: str | None = None
    """The Slurm job in which it was started: by its cgroup, else by its environment."""
    slurm_memory: Amount | None = None
    """A raylet's: the memory limit of that job's cgroup, which Ray does not know of, and what is in use below it."""
    gcs: str | None = None
    """`host:port` of its GCS, or its own, as its command says; `None` of another user's."""
    start: Mapping[str, str] | None = None
    """The flags of `ray start` that its command line shows, and a raylet's `python`; `None` of another user's."""
    kill_at: int | None = None
    """A raylet's: above so many bytes in use on its host it ends workers; `None` when its monitor is off, or that is not known."""
    cpu_limit: CpuLimit | None = None
    """A raylet's."""
    locked_memory: int | None = None
    """A raylet's: bytes that a worker may pin (`ulimit -l`, the soft limit); `None`: unlimited, or it doesn't count, or it is not known."""
    rdma: tuple[str, ...] | None = None
    """A raylet's: InfiniBand and RDMA devices that it may open."""
    addresses: tuple[str, ...] | None = None
    """A raylet's: all addresses of its network but those of loopback."""
    network: str | None = None
    """A raylet's: what no other network namespace says of itself, on this or another host."""
    loopback_line: str | None = None
    """A raylet's: the line of its /etc/hosts by which its host's own name leads to loopback; `None`: there is none, or it is not known."""
    gloo: str | None = None
    """Its GLOO_SOCKET_IFNAME."""
    proxy: HttpProxy | None = None
    """The HTTP proxy of its environment, which workers and drivers inherit; `None`: it has none, or that is not known."""
    ports: RayPorts | None = None
    """`None`: its command can't be read."""


class Pointer(Value, frozen=True):
    """Where Ray's tools look first: `session_latest`, or the address in `ray_current_cluster`."""

    path: str
    target: str
    """The session's folder, or the address; empty where something else lies there than Ray makes."""
    alive: bool | None = None
    """Whether that Ray lives; `None` also where it may be another host's, or just be starting."""


class TempDir(Value, frozen=True):
    """A temp dir of Ray's on a host."""

    path: str
    owner: str | None = None
    writable: bool | None = None
    """Whether the user whom the probe runs as could start a Ray in it."""


class Session(Value, frozen=True, kw_only=True):
    """A Ray session's folder on a host."""

    host: str = ""
    """As of a `Process`."""
    name: str
    path: str
    live: bool | None = None
    owner: str | None = None
    size: int | None = None
    keeps: tuple[str, ...] = ()
    """Files in it that may be worth keeping: checkpoints, core dumps."""
    dashboard: str | None = None
    """`http://host:port`, when its dashboard runs on that host."""
    latest: bool = False
    """`session_latest` points at it."""
    started: float | None = None
    stopped: bool | None = None
    """Dead: its raylet was told to end, as `ray stop` does it; known of the latest only."""
    nodes: tuple[str, ...] = ()
    """Ray's ids of nodes whose raylets have written into it; where hosts share the folder also of another host's."""
    log_files: int | None = None
    """Files in its folder of logs, rounded down to thousands; those in folders below it don't count."""
    trusted: bool = False
    """Its owner is root, or whoever cockpit looks at that host as: nobody else's is followed without being asked for."""

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
    cause: Cause | None = None
    sources: tuple[str, ...] = ()
    """All that its cause takes down, itself first, where several sources tell of one cause."""

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
    rays: tuple[RayProcess, ...] | None = None
    pointers: tuple[Pointer, ...] | None = None
    temps: tuple[TempDir, ...] | None = None
    driver: str | None = None
    """The version of the NVIDIA driver."""
    proxy: HttpProxy | None = None
    """The HTTP proxy of the environment that its probe was started with: on this host that of cockpit's own shell."""
    oom_kills: tuple[OomKill, ...] | None = None
    """Those of the last hour, as the logs of its live sessions and its kernel tell."""
    wrote: Mapping[str, Mapping[str, float]] = {}
    """By the name of a session and by submission id, when the log of a job's driver that lies here was written to last."""
    shm_users: tuple[ShmUser, ...] | None = None
    unanswered: tuple[str, ...] = ()
    """Sources of the probe, called as in its faults, which have not answered once."""
    stuck: tuple[StuckProcess, ...] | None = None
    rdma_ports: tuple[RdmaPort, ...] | None = None
    """`None`: unknown; empty: there are no InfiniBand or RoCE devices."""
    pid_digits: int | None = None
    """Of the newest process: a process that is started next has a pid of so many digits, or of one more."""
    pid_max: int | None = None
    """kernel.pid_max: all pids are below it."""
    machine: str | None = None
    """What no other host, and no other container on it, says of itself: the boot id of its kernel, and its probe's PID namespace."""
    faults: tuple[Fault, ...] = ()
    local: bool = False
    filled: tuple[FilledDisk, ...] = ()
    """What fills disks and /dev/shm that are nearly full, as soon as that was looked for."""
    observed: Mapping[str, float] = {}
    """By source of the probe, called as in its faults: when its facts were true, by our clock. One that is not listed: at `taken`."""

    paces: Mapping[str, float] = {}
    """By source that is read seldom because it costs much CPU: seconds from one answer to the next."""

    @property
    def key(self) -> str:
        """Its identity."""
        return f"host:{self.name}"

    def observed_at(self, source: str) -> float | None:
        """When the facts of that source of its probe were true; `None` when it has not answered yet."""
        if self.taken is None or source in self.unanswered:
            return None
        return min(self.taken, self.observed.get(source, self.taken))
