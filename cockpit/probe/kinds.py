"""Whose is this process? Ray's, a child of Ray's, left over by Ray, or nothing of Ray's. Pure: a forest and a few facts in, kinds out.

The kinds and the evidence for them are those of the public contract: `ray`, `worker`, `driver`, `child`, `stale`, `orphan`, `foreign`,
`unknown`. What can't be told from this host alone is `unknown`, and nothing ends an `unknown`. One case somebody else can settle: a
process whose raylet lives but whose worker is gone is a `child` while its job runs, and an `orphan` once that has ended. Only Ray knows.
Its verdict is `unknown` with `undecided="job"` and the job, and the last reason says so; whoever knows that job replaces the kind.
"""

from __future__ import annotations

import os
from typing import Dict, FrozenSet, Iterable, Mapping, NamedTuple, Tuple

from .origin import SERVICES, WORKERS
from .proc import Forest, Identity, Process

OWNED = ("ray", "worker", "driver", "child")
LEFT = ("orphan", "stale")
REAPERS = (
    *("systemd", "init", "tini", "dumb-init", "docker-init", "catatonit", "conmon", "containerd-shim", "sshd", "slurmstepd"),
    *("sh", "bash", "zsh", "dash", "fish", "tmux", "screen"),
)
"""Programs that adopt children, or that somebody types into; none of them starts an engine's inner process."""
IDLERS = ("sleep", "tail", "cat", "pause", "s6-svscan", "supervisord")
"""What a container may have as its first process only so that it goes on; where that is a program of its own, its children are its own."""
CONTRADICTION = "these reasons contradict each other"


class Driver(NamedTuple):
    """A process that has connected to a session as a driver."""

    ticks: int
    session: str
    job: str


class Worker(NamedTuple):
    """A worker that was seen alive, and until when (in clock ticks since boot)."""

    pid: int
    ticks: int
    raylet: Identity
    session: str | None
    job: str | None
    until: int = 0


class Facts(NamedTuple):
    """What the forest alone doesn't show."""

    answering: FrozenSet[str] = frozenset()
    """Session folders whose raylet's socket answers."""
    drivers: Mapping[int, Driver] = {}
    holders: FrozenSet[int] = frozenset()
    """Pids that NVML counts GPU memory for."""
    seen: Mapping[Identity, Worker] = {}
    """Processes seen earlier below a worker."""
    workers: Mapping[int, Worker] = {}
    """Workers seen earlier, alive or not."""
    parents: Mapping[Identity, int] = {}
    """The parent that an engine's process had when it was first seen."""

    def pasts(self, process: Process) -> Tuple[Worker, ...]:
        """The workers that this probe has seen it below, or whose process group or session it is still in."""
        seen = self.seen.get(process.identity)
        if seen is not None:
            return (seen,)
        if not self.workers:
            return ()
        led = (self.workers.get(pid) for pid in (process.group, process.leader) if pid != process.pid)
        return tuple(worker for worker in led if worker and worker.ticks <= process.ticks <= worker.until)[:1]


class Verdict(NamedTuple):
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
    owner: int | None = None
    """The worker or driver it belongs to."""
    from_ray: bool = True
    """Listed even when it holds no GPU."""


class Sign(NamedTuple):
    """One piece of evidence: whether what it came from still lives (`None`: can't be seen), in words."""

    lives: bool | None
    text: str
    owner: int | None = None
    """A living worker that it came from."""


NO_SIGN = Verdict("foreign", ("nothing says that it comes from Ray",), from_ray=False)


def classify(forest: Forest, facts: Facts) -> Dict[int, Verdict]:
    """A verdict for each process that matters: whoever holds a GPU, is Ray's, or comes from Ray."""
    verdicts = _Court(forest, facts).judge()
    listed = {pid: verdict for pid, verdict in verdicts.items() if verdict.from_ray or pid in facts.holders}
    for pid in facts.holders.difference(forest):
        listed[pid] = Verdict("unknown", (f"pid {pid} can't be seen from here: it runs in another PID namespace, or has just ended",))
    return listed


class _Court:
    """Judges each process once, a parent before its children."""

    def __init__(self, forest: Forest, facts: Facts) -> None:
        self.forest = forest
        self.facts = facts
        self.verdicts: Dict[int, Verdict] = {}
        living = [process for process in forest.values() if process.alive and process.origin.role]
        raylets = [process for process in living if process.origin.role == "raylet" and not self._copied(process)]
        self.raylets = _by_pid(raylets)
        self.workers = _by_pid(process for process in living if process.origin.role in WORKERS)
        self.nodes = {process.origin.node for process in raylets if process.origin.node}
        self.raylet_sessions = {process.origin.session for process in raylets if process.origin.session} | facts.answering
        self.sessions = self.raylet_sessions | {
            process.origin.session for process in living if process.origin.role == "gcs_server" and process.origin.session
        }
        self.hidden = 1 not in forest

    def judge(self) -> Dict[int, Verdict]:
        for process in self.forest.values():
            line = [process]
            if process.parent not in self.verdicts:
                line += self._ancestors(process, dead=True)
            for other in reversed(line):
                if other.pid not in self.verdicts:
                    self.verdicts[other.pid] = self._judge(other)
        return self.verdicts

    def _judge(self, process: Process) -> Verdict:
        if not process.alive:
            return self._ended(process)
        if process.origin.role in SERVICES and not self._copied(process):
            return self._service(process)
        if process.origin.role in WORKERS:
            found = self._worker(process)
            if found:
                return found
        return self._driver(process) or self._descendant(process) or self._stranger(process)

    # Ray itself

    def _service(self, process: Process) -> Verdict:
        origin = process.origin
        above = self._raylet_above(process)
        session = origin.session or (above.origin.session if above else None) or self._inherited(process).session
        node = origin.node or (above.origin.node if above else None)
        what = str(origin.role)
        if what in ("raylet", "gcs_server"):
            return Verdict("ray", (f"{what} of {_name(session)}",), session=session, node=node)
        if session in self.sessions if what != "agent" else above or node in self.nodes:
            return Verdict("ray", (f"{what} of live {_name(session)}",), session=session, node=node)
        if what == "agent":
            return Verdict("stale", (f"agent of {_name(session)}, and its raylet is gone",), session=session, node=node)
        if session is None:
            return Verdict("unknown", (f"looks like Ray's {what}, but of which session can't be seen",))
        return Verdict(
            "stale", (f"{what} of {_name(session)}, which is dead: no raylet and no gcs_server of it runs here",), session=session
        )

    def _worker(self, process: Process) -> Verdict | None:
        """`None` when it only looks like one: a fork of a worker keeps its title."""
        above = self._owner_above(process)
        title = process.details.argv[0] if process.details.argv else process.name
        job, session, node = process.origin.job, process.origin.session, None
        if above and above.origin.role == "raylet":
            session, node = above.origin.session or session, above.origin.node
            return Verdict("worker", (f"worker {title} of live {_name(session)}, raylet {above.pid}",), job, session, node)
        if above or (process.origin.worker and process.origin.worker not in process.details.pids):
            return None
        sign = self._raylet_sign(process) or self._session_sign(process)
        if sign is None or sign.lives is None:
            return None
        if not sign.lives:
            return Verdict("stale", (f"worker {title} left by a dead Ray", sign.text), job, session, node)
        if not process.origin.worker:
            return None
        return Verdict("worker", (f"worker {title}, outside its raylet's process tree", sign.text), job, session, node)

    def _driver(self, process: Process) -> Verdict | None:
        driver = self.facts.drivers.get(process.pid)
        if driver is None or driver.ticks != process.ticks or driver.session not in self.raylet_sessions:
            return None
        return Verdict("driver", (f"driver of job {driver.job} in live {_name(driver.session)}",), driver.job, driver.session)

    # What comes from Ray

    def _descendant(self, process: Process) -> Verdict | None:
        """By its parent. `None` when that says nothing."""
        parent, above = self.forest.get(process.parent), self._inherited(process)
        if parent is None or above.kind == "foreign" or not above.from_ray:
            return None
        signs = self._signs(process)
        if above.kind == "unknown" and signs:
            return None
        said = f"child of {parent.name} {parent.pid} ({above.kind})"
        owner = parent.pid if above.kind in ("worker", "driver") else above.owner
        kind = {**dict.fromkeys(OWNED, "child"), **dict.fromkeys(LEFT, "orphan")}.get(above.kind, "unknown")
        found = above._replace(kind=kind, why=(said, *(sign.text for sign in signs if kind == "orphan")), owner=owner)
        if self._same_past(process, parent):
            return found
        against = [sign.text for sign in signs if sign.lives is (kind == "orphan")]
        if against:
            return found._replace(kind="unknown", why=(said, *against, CONTRADICTION), owner=None)
        return found

    def _stranger(self, process: Process) -> Verdict:
        """By its own signs alone: its parent is nothing of Ray's, or gone."""
        signs = self._signs(process)
        if not signs:
            return self._signless(process)
        origin, pasts = process.origin, self.facts.pasts(process)
        raylet = self._raylet_of(process)
        session = origin.session or next((worker.session for worker in pasts), None) or (raylet.origin.session if raylet else None)
        job = origin.submission or origin.job or next((worker.job for worker in pasts if worker.job), None)
        found = Verdict("unknown", tuple(sign.text for sign in signs), job, session, raylet.origin.node if raylet else None)
        if any(sign.lives is None for sign in signs):
            return found
        alive, dead = [sign for sign in signs if sign.lives], [sign for sign in signs if not sign.lives]
        if alive and dead:
            return found._replace(why=(*found.why, CONTRADICTION))
        if dead:
            return found._replace(kind="orphan")
        return self._parted(process, found, alive)

    def _parted(self, process: Process, found: Verdict, signs: Iterable[Sign]) -> Verdict:
        """Its raylet lives, its parent is gone: it is a child while its worker lives or its job runs."""
        owner = next((sign.owner for sign in signs if sign.owner), None)
        if owner is not None:
            why = (*found.why, f"its parent is gone, but worker {owner}, which it came from, lives")
            return found._replace(kind="child", why=why, owner=owner)
        if found.job is None:
            return found._replace(why=(*found.why, "its worker is gone, and for which job that worked is not known here"))
        witnesses = dict(self._at_work(found.job, found.session, process))
        if witnesses:
            said = f"its parent is gone, but its job {found.job} runs here (pid {next(iter(witnesses))})"
            session = found.session or (next(iter(witnesses.values())) if len({*witnesses.values()}) == 1 else None)
            return found._replace(kind="child", why=(*found.why, said), session=session)
        asked = f"whether job {found.job} still runs must be asked of Ray"
        return found._replace(why=(*found.why, "its worker is gone", asked), undecided="job")

    def _signless(self, process: Process) -> Verdict:
        origin = process.origin
        if origin.engine and self._left_alone(process):
            return Verdict("orphan", (f"title {origin.engine}, and its parent is gone",))
        driver = self.facts.drivers.get(process.pid)
        if driver is not None and driver.ticks == process.ticks:
            return Verdict("foreign", (f"was a driver of {_name(driver.session)}, which is dead; Ray did not start it",))
        if process.details.stuck:
            return NO_SIGN._replace(kind="unknown", why=("its command line can't be read: the process is stuck in the kernel",))
        if not origin.readable and origin.role in WORKERS:
            return Verdict("unknown", ("it has a Ray worker's title, but its environment can't be read: no permission",))
        if not origin.readable:
            return NO_SIGN._replace(kind="unknown", why=("its environment can't be read: no permission",))
        return NO_SIGN

    def _ended(self, process: Process) -> Verdict:
        above = self._inherited(process)
        why = f"a zombie: it has ended and holds nothing, but its parent {process.parent} has not collected it"
        if above.kind in OWNED:
            return Verdict("child", (why,), above.job, above.session, above.node, owner=above.owner)
        return NO_SIGN._replace(kind="unknown", why=(why,))

    # Evidence

    def _signs(self, process: Process) -> Tuple[Sign, ...]:
        found = (self._raylet_sign(process), self._session_sign(process), self._job_sign(process), *self._past_signs(process))
        return tuple(sign for sign in found if sign)

    def _raylet_sign(self, process: Process) -> Sign | None:
        pid = process.origin.raylet
        if pid is None:
            return None
        if self._raylet_of(process):
            return Sign(True, f"its raylet {pid} lives (RAY_RAYLET_PID)")
        other = self.forest.get(pid)
        if other is None and self.hidden:
            return Sign(None, f"whether its raylet {pid} lives can't be seen: other users' processes are hidden here")
        if other is None:
            return Sign(False, f"its raylet {pid} is dead (RAY_RAYLET_PID)")
        if not other.alive:
            return Sign(False, f"its raylet {pid} is dead, a zombie (RAY_RAYLET_PID)")
        now = "a raylet that was started later" if other.origin.role == "raylet" else other.name
        return Sign(False, f"its raylet {pid} is dead, that pid is now {now} (RAY_RAYLET_PID)")

    def _raylet_of(self, process: Process) -> Process | None:
        """The living raylet whose pid it inherited. One that was started later is another one, and so may be one in a container."""
        named = self.raylets.get(process.origin.raylet, ()) if process.origin.raylet else ()
        return next((raylet for raylet in named if raylet.ticks <= process.ticks), None)

    def _session_sign(self, process: Process) -> Sign | None:
        """What its stdout is open on."""
        worker, session = process.origin.worker, process.origin.session
        if worker is None or session is None:
            return None
        text = f"it writes to the log of worker {worker} of {_name(session)}"
        if session not in self.raylet_sessions:
            return Sign(False, f"{text}, which is dead")
        alive = [other for other in self.workers.get(worker, ()) if other.ticks <= process.ticks and other.pid != process.pid]
        return Sign(True, text, alive[0].pid if alive else None)

    def _job_sign(self, process: Process) -> Sign | None:
        job, session = process.origin.submission, process.origin.session
        if job is None or (session is None and process.origin.raylet is not None):
            return None  # any raylet could be that job's, but the one that it names is it
        if session is not None and session not in self.raylet_sessions:
            return Sign(False, f"it comes from job {job} in {_name(session)}, which is dead")
        if self.raylets or self.facts.answering:
            return Sign(True, f"it comes from job {job}")
        if self.hidden:
            return Sign(None, f"it comes from job {job}, whose raylet can't be seen: other users' processes are hidden here")
        return Sign(False, f"it comes from job {job}, and no raylet lives on this host")

    def _past_signs(self, process: Process) -> Iterable[Sign]:
        for worker in self.facts.pasts(process):
            pid = worker.raylet[0]
            lives = any(raylet.identity == worker.raylet for raylet in self.raylets.get(pid, ()))
            same = self.forest.get(worker.pid)
            owner = worker.pid if same and same.alive and same.ticks == worker.ticks else None
            how = "is in the process group" if worker.pid in (process.group, process.leader) else "was seen as a child"
            yield Sign(lives, f"it {how} of worker {worker.pid}, whose raylet {pid} {'lives' if lives else 'is dead'}", owner)

    def _at_work(self, job: str, session: str | None, process: Process) -> Iterable[Tuple[int, str | None]]:
        """Living parts of the job and their sessions: a worker, its driver, or below a living supervisor. Clusters number jobs alike."""
        own = {session} if session or job != process.origin.submission else {None, *self.sessions}
        for pid, driver in self.facts.drivers.items():
            same = self.forest.get(pid)
            if driver.job == job and driver.session in own and same and same.alive and same.ticks == driver.ticks and pid != process.pid:
                yield pid, driver.session
        for other in self.forest.values():
            if other.pid == process.pid or job not in (other.origin.job, other.origin.submission) or not other.alive:
                continue
            above = self._owner_above(other)
            if above and self._session_above(above) in own and (other.origin.role in WORKERS or above.origin.role in WORKERS):
                yield other.pid, self._session_above(above)

    # Family

    def _inherited(self, process: Process) -> Verdict:
        """What was found of its parent."""
        return self.verdicts.get(process.parent, NO_SIGN)

    def _session_above(self, process: Process) -> str | None:
        return process.origin.session or next((other.origin.session for other in self._ancestors(process) if other.origin.session), None)

    def _owner_above(self, process: Process) -> Process | None:
        """The nearest living ancestor that is a raylet or a worker."""
        return next((other for other in self._ancestors(process) if other.origin.role == "raylet" or other.origin.role in WORKERS), None)

    def _raylet_above(self, process: Process) -> Process | None:
        return next((other for other in self._ancestors(process) if other.origin.role == "raylet"), None)

    def _ancestors(self, process: Process, dead: bool = False) -> Iterable[Process]:
        """The nearest first; zombies only when `dead`. /proc is not read in one moment, so a loop ends it."""
        passed = {process.pid}
        while process.parent not in passed and process.parent in self.forest:
            process = self.forest[process.parent]
            passed.add(process.pid)
            if dead or process.alive:
                yield process

    def _copied(self, process: Process) -> bool:
        """A fork of a part of Ray that has not yet become what it was forked for."""
        parent = self.forest.get(process.parent)
        return parent is not None and parent.origin.role == process.origin.role and parent.details.argv == process.details.argv

    def _same_past(self, process: Process, parent: Process) -> bool:
        """What it inherited from a living parent speaks of that parent's past."""
        mine, its = process.origin, parent.origin
        return its.from_ray and (mine.raylet, mine.worker, mine.submission) == (its.raylet, its.worker, its.submission)

    def _left_alone(self, process: Process) -> bool:
        parent = self.forest.get(process.parent)
        adopted = self.facts.parents.get(process.identity, process.parent) != process.parent
        return parent is None or adopted or parent.name.split(":")[0].strip() in (*REAPERS, *(IDLERS if parent.pid == 1 else ()))


def _by_pid(processes: Iterable[Process]) -> Dict[int, list[Process]]:
    """By every pid they have: a process in a container knows its raylet by the pid in there."""
    found: Dict[int, list[Process]] = {}
    for process in processes:
        for pid in {process.pid, *process.details.pids}:
            found.setdefault(pid, []).append(process)
    return found


def _name(session: str | None) -> str:
    return os.path.basename(session) if session else "a session that can't be seen"
