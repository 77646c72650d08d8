"""What a process may be to Ray, and the facts by which that is decided; `classify` decides it.

The kinds are those of the public contract: `ray`, `worker`, `driver`, `child`, `stale`, `orphan`, `foreign`, `unknown`.
"""

from __future__ import annotations

import os
from typing import FrozenSet, Mapping, NamedTuple, Tuple

from .processes import Identity, ScannedProcess
from .tree import FileId

OWNED_KINDS = ("ray", "worker", "driver", "child")
LEFT_OVER_KINDS = ("orphan", "stale")


class SocketListener(NamedTuple):
    """Who listens on the socket of a raylet, by the kernel's word (SO_PEERCRED)."""

    pid: int
    """0: it can't be seen from our PID namespace."""
    uid: int


class SessionFolder(NamedTuple):
    """The folder of one Ray session, and what lies in it that tells whose it is and whether it lives."""

    path: str
    place: FileId | None = None
    """`None`: there is no such folder, or it can't be seen."""
    uid: int | None = None
    """Who owns the folder; `None` also where the file system's word for that can't be believed."""
    listeners: Tuple[SocketListener, ...] | None = ()
    """Of its raylets' sockets; `None` where these can't be asked."""
    raylets: FrozenSet[int] = frozenset()
    """The pids that its raylets have had, by logs in it that its owner wrote; in the PID namespace of that raylet."""
    nodes: FrozenSet[str] = frozenset()
    """Ray's ids of its nodes on this host, by the same logs."""
    mount_namespace: str | None = None
    """The mount namespace by which it was reached, `None`: ours. Whoever made another one says what lies in it, and whose: a folder in it
    tells of the processes in it alone."""

    @property
    def name(self) -> str:
        """`session_<time>_<pid>`: hardly two are called so."""
        return os.path.basename(self.path)

    @property
    def answers(self) -> bool | None:
        """Whether a raylet of its owner's, or of root's, listens there; `None`: that can't be told. Anybody else may listen in it too."""
        if self.listeners is None:
            return None
        return any(listener.uid in (self.uid, 0) for listener in self.listeners)

    def is_same(self, other: SessionFolder) -> bool:
        """Whether both are one session. Where in doubt they are: what lives in one then protects the other."""
        return (self.place is not None and self.place == other.place) or self.name == other.name


class Driver(NamedTuple):
    """A process that has connected to a session as a driver."""

    ticks: int
    session: str
    job: str


class SeenWorker(NamedTuple):
    """A worker that was seen alive, and until when (in clock ticks since boot)."""

    pid: int
    ticks: int
    raylet: Identity
    session: str | None
    job: str | None
    until: int = 0
    uid: int | None = None


class ProcessFacts(NamedTuple):
    """What the process table alone doesn't show."""

    folders: Tuple[SessionFolder, ...] = ()
    """Every session that is known on this host, dead or alive."""
    folder_of: Mapping[int, SessionFolder] = {}
    """By pid: the session that a process names or writes to."""
    drivers: Mapping[int, Driver] = {}
    holders: FrozenSet[int] = frozenset()
    """Pids that NVML counts GPU memory for."""
    seen: Mapping[Identity, SeenWorker] = {}
    """Processes seen earlier below a worker."""
    workers: Mapping[int, SeenWorker] = {}
    """Workers seen earlier, alive or not."""
    sees_all: bool = False
    """Nothing on this machine is hidden from us: we are in its first PID namespace."""

    def find_past_workers(self, process: ScannedProcess) -> Tuple[SeenWorker, ...]:
        """The worker of its own user that this probe has seen it below, or whose process group or session it is still in."""
        seen = self.seen.get(process.identity)
        if seen is None and not self.workers:
            return ()
        led = (self.workers.get(pid) for pid in (process.group, process.leader) if pid != process.pid)
        found = (seen,) if seen else (worker for worker in led if worker and worker.ticks <= process.ticks <= worker.until)
        return tuple(worker for worker in found if worker.uid == process.details.uid)[:1]


class KindVerdict(NamedTuple):
    """A kind and the reasons for it."""

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
    """Undecided: the folders of the sessions any of which its job may belong to; all of them must be asked."""
    owner: int | None = None
    """The worker or driver it belongs to."""
    from_ray: bool = True
    """Listed even when it holds no GPU."""


class Sign(NamedTuple):
    """One piece of evidence of what a process came from."""

    lives: bool | None
    """Whether that still lives; `None`: it can't be told, or the evidence could be somebody else's."""
    text: str
    owner: int | None = None
    """A living worker that it came from."""
    proves: bool = True
    """False: it supports other evidence, and proves nothing alone."""


NO_SIGN = KindVerdict("foreign", ("nothing says that it comes from Ray",), from_ray=False)
