"""Holds the kinds that a process may have for Ray, and the facts from which `classify` decides the kind.

The kinds are a public contract: `ray`, `worker`, `driver`, `child`, `stale`, `orphan`, `foreign`, `unknown`.
"""

from __future__ import annotations

import os
from typing import FrozenSet, Mapping, NamedTuple, Tuple

from .processes import Identity, ScannedProcess
from .tree import FileId

OWNED_KINDS = ("ray", "worker", "driver", "child")
LEFT_OVER_KINDS = ("orphan", "stale")


class SocketListener(NamedTuple):
    """The process that listens on the socket of a raylet, as the kernel names it (SO_PEERCRED)."""

    pid: int
    """0: the process is outside of our PID namespace."""
    uid: int


class SessionFolder(NamedTuple):
    """The folder of one Ray session, with the facts that show its owner and whether it lives."""

    path: str
    place: FileId | None = None
    """`None`: there is no such folder, or it can't be seen."""
    uid: int | None = None
    """The owner of the folder; `None`: unknown, also if the file system can't be trusted with that."""
    listeners: Tuple[SocketListener, ...] | None = ()
    """The listeners on its raylets' sockets; `None`: the sockets can't be checked."""
    raylets: FrozenSet[int] = frozenset()
    """The pids that its raylets have had, in their own PID namespaces, by the logs in the folder that its owner wrote."""
    nodes: FrozenSet[str] = frozenset()
    """Ray's ids of its nodes on this host, by the same logs."""
    mount_namespace: str | None = None
    """The mount namespace through which the folder was read; `None`: ours. The user who made another mount namespace decides which files
    are in it, and who seems to own them. So a folder in it is evidence only for the processes in that namespace."""

    @property
    def name(self) -> str:
        """`session_<time>_<pid>`: two sessions hardly ever have the same name."""
        return os.path.basename(self.path)

    @property
    def answers(self) -> bool | None:
        """Whether a raylet of its owner or of root listens in it; `None`: unknown. Listeners of other users prove nothing."""
        if self.listeners is None:
            return None
        return any(listener.uid in (self.uid, 0) for listener in self.listeners)

    def is_same(self, other: SessionFolder) -> bool:
        """Whether both are the same session. In doubt they are: then a live process in one protects the other."""
        return (self.place is not None and self.place == other.place) or self.name == other.name


class Driver(NamedTuple):
    """A process that has connected to a session as a driver."""

    ticks: int
    session: str
    job: str


class SeenWorker(NamedTuple):
    """A worker that an earlier scan saw alive."""

    pid: int
    ticks: int
    raylet: Identity
    session: str | None
    job: str | None
    until: int = 0
    """The last scan that saw it alive, in clock ticks since boot."""
    uid: int | None = None


class ProcessFacts(NamedTuple):
    """The facts that are not in the process table."""

    folders: Tuple[SessionFolder, ...] = ()
    """Every known session on this host, dead or alive."""
    folder_of: Mapping[int, SessionFolder] = {}
    """By pid: the session that a process names or writes to."""
    drivers: Mapping[int, Driver] = {}
    """By pid: processes that have connected as a driver."""
    holders: FrozenSet[int] = frozenset()
    """Pids of processes that hold GPU memory, by NVML."""
    seen: Mapping[Identity, SeenWorker] = {}
    """Processes that an earlier scan saw below a worker."""
    workers: Mapping[int, SeenWorker] = {}
    """By pid: workers of earlier scans, alive or not."""
    sees_all: bool = False
    """No process of this machine is hidden: we are in its first PID namespace."""

    def find_past_workers(self, process: ScannedProcess) -> Tuple[SeenWorker, ...]:
        """The worker of the same user that the process was seen below, or that leads its process group or session: one at most."""
        seen = self.seen.get(process.identity)
        if seen is None and not self.workers:
            return ()
        led = (self.workers.get(pid) for pid in (process.group, process.leader) if pid != process.pid)
        found = (seen,) if seen else (worker for worker in led if worker and worker.ticks <= process.ticks <= worker.until)
        return tuple(worker for worker in found if worker.uid == process.details.uid)[:1]


class KindVerdict(NamedTuple):
    """The kind of a process, with the reasons."""

    kind: str
    why: Tuple[str, ...]
    job: str | None = None
    """Ray's job id, or a submission id."""
    session: str | None = None
    """The session's folder."""
    node: str | None = None
    undecided: str | None = None
    """`"job"`: it is a `child` if its job still runs, else an `orphan`."""
    asks: Tuple[str, ...] = ()
    """If undecided: the folders of the sessions that its job may belong to. All of them must be asked."""
    owner: int | None = None
    """The pid of the worker or driver that it belongs to."""
    from_ray: bool = True
    """It belongs to Ray or comes from Ray: it is listed even if it holds no GPU."""


class Sign(NamedTuple):
    """One piece of evidence of what started a process: a raylet, a session, a job or a worker."""

    lives: bool | None
    """Whether the raylet, session, job or worker still lives; `None`: unknown, or another user may have planted the evidence."""
    text: str
    owner: int | None = None
    """The pid of the live worker that started the process."""
    proves: bool = True
    """False: it only supports other evidence, and proves nothing alone."""


NO_SIGN = KindVerdict("foreign", ("nothing says that it comes from Ray",), from_ray=False)
