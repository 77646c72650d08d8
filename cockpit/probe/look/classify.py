"""Decides what each process is to Ray. Pure: a process table and a few facts in, kinds with their reasons out.

What is ended by its kind, `orphan` and `stale`, needs evidence that no other user could have planted, and nothing that speaks for its life:

* A variable that Ray gives its children (RAY_RAYLET_PID, a submitted job's id) can only be set by the process's own user, but it may have
  been inherited on another host, or by somebody's shell. It counts when a session of the same user on this host tells of that raylet, or
  when the process writes to a log in such a session.
* The path of a log proves nothing alone: Ray makes its folders writable for everybody, so that anybody may rename a file into them.
* A process with Ray's name, and a socket in a session's folder, speak for the life of that session only if they are its owner's or root's.
* A living parent that is nothing of Ray's, or a terminal that it serves, means that somebody uses it.

What can't be told from this host alone is `unknown`, and nothing ends an `unknown`. One case somebody else can settle: a process whose
worker is gone while its raylet lives is a `child` while its job runs, and an `orphan` once that has ended. Only Ray knows. Its verdict is
`unknown` with `undecided="job"`, the job and the sessions to ask, and the last reason says so; whoever knows that job replaces the kind.
"""

from __future__ import annotations

from typing import Dict, Iterable

from .containers import find_container, judged_inside
from .evidence import Evidence, Lineage, has_same_variables, is_adopter, session_name
from .gpus import NOBODY
from .kinds import LEFT_OVER_KINDS, NO_SIGN, OWNED_KINDS, KindVerdict, ProcessFacts, SessionFolder, Sign
from .origin import SERVICES, WORKERS
from .processes import ProcessTable, ScannedProcess

NOT_OURS = "NVML names a pid outside of this container (PID namespace): its process can't be seen from here"
CONTRADICTION = "these reasons contradict each other"


def classify(table: ProcessTable, facts: ProcessFacts) -> Dict[int, KindVerdict]:
    """A verdict for each process that matters: whoever holds a GPU, is Ray's, or comes from Ray."""
    verdicts = _Classifier(table, facts).classify()
    listed = {pid: verdict for pid, verdict in verdicts.items() if verdict.from_ray or pid in facts.holders}
    for pid in facts.holders.difference(table):
        hidden = f"pid {pid} can't be seen from here: it runs in another PID namespace, or has just ended"
        listed[pid] = KindVerdict("unknown", (NOT_OURS if pid == NOBODY else hidden,))
    return listed


class _Classifier:
    """Judges each process once, a parent before its children."""

    def __init__(self, table: ProcessTable, facts: ProcessFacts) -> None:
        self.table, self.facts = table, facts
        self.lineage = Lineage(table)
        self.evidence = Evidence(self.lineage, facts)
        self.verdicts: Dict[int, KindVerdict] = {}

    def classify(self) -> Dict[int, KindVerdict]:
        for process in self.table.values():
            line = [process]
            if process.parent not in self.verdicts:
                line += self.lineage.ancestors(process, dead=True)
            for other in reversed(line):
                if other.pid not in self.verdicts:
                    self.verdicts[other.pid] = self._judge(other)
        return {pid: self._tell_container(self.table[pid], verdict) for pid, verdict in self.verdicts.items()}

    def _tell_container(self, process: ScannedProcess, verdict: KindVerdict) -> KindVerdict:
        """What can't be told from here may be told in there."""
        if verdict.kind != "unknown" or verdict.undecided or len(process.details.pids) < 2 or not process.alive:
            return verdict
        return verdict._replace(why=(*verdict.why, judged_inside(find_container(process, self.table))))

    def _judge(self, process: ScannedProcess) -> KindVerdict:
        if not process.alive:
            return self._judge_zombie(process)
        if process.origin.role in SERVICES and not self.lineage.is_copy(process):
            return self._service(process)
        if process.origin.role in WORKERS:
            found = self._worker(process)
            if found:
                return found
        return self._driver(process) or self._descendant(process) or self._stranger(process)

    # Ray itself

    def _service(self, process: ScannedProcess) -> KindVerdict:
        above = self.lineage.raylet(process)
        origin, what = process.origin, str(process.origin.role)
        session = origin.session or (above.origin.session if above else None) or self._above(process).session
        node = origin.node or (above.origin.node if above else None)
        found = KindVerdict("ray", (f"{what} of {session_name(session)}",), session=session, node=node)
        if what in ("raylet", "gcs_server"):
            return found
        if what == "agent" and (above or node in self.evidence.nodes):
            return found._replace(why=(f"agent of live {session_name(session)}",))
        sign = self.evidence.raylet_sign(process) if what == "agent" else self._service_sign(process, session)
        if sign.lives:
            return found._replace(why=(f"{what} of live {session_name(session)}",))
        why = (f"{what} of {session_name(session)}", sign.text)
        in_use = self._why_in_use(process) if sign.lives is False else None
        if sign.lives is None or in_use:
            return found._replace(kind="unknown", why=(*why, *([in_use] if in_use else [])))
        return found._replace(kind="stale", why=why)

    def _service_sign(self, process: ScannedProcess, session: str | None) -> Sign:
        """Of what names its session itself: a dashboard, a log monitor."""
        if session is None:
            return Sign(None, "unknown which session it belongs to")
        folder = self.evidence.folder(process) or SessionFolder(session)
        alive = self.evidence.is_alive(folder, process, gcs=True)
        if alive is None:
            return Sign(None, f"unknown whether {folder.name} is alive")
        if not alive and folder.uid not in (None, process.details.uid):
            return Sign(None, f"the folder of {folder.name} belongs to another user")
        return Sign(alive, f"{folder.name} is {'alive' if alive else 'dead: no raylet and no gcs_server of it runs here'}")

    def _worker(self, process: ScannedProcess) -> KindVerdict | None:
        """`None` when it only looks like one: a fork of a worker keeps its title."""
        above = self.lineage.owner(process)
        title = process.details.argv[0] if process.details.argv else process.name
        job, session, node = process.origin.job, self._session_of(process), None
        if above and above.origin.role == "raylet":
            session, node = above.origin.session or session, above.origin.node
            return KindVerdict("worker", (f"worker {title} of live {session_name(session)}, raylet {above.pid}",), job, session, node)
        if above or (process.origin.worker and process.origin.worker not in process.details.pids):
            return None
        sign = self.evidence.raylet_sign(process) if process.origin.raylet else self.evidence.session_sign(process)
        if sign is None or sign.lives is None:
            return None
        if sign.lives:
            outside = (f"worker {title}, outside its raylet's process tree", sign.text)
            return KindVerdict("worker", outside, job, session, node) if process.origin.worker else None
        if not sign.proves or self._why_in_use(process):
            return None
        return KindVerdict("stale", (f"worker {title} left by a dead Ray", sign.text), job, session, node)

    def _driver(self, process: ScannedProcess) -> KindVerdict | None:
        driver = self.facts.drivers.get(process.pid)
        if driver is None or driver.ticks != process.ticks or not self.evidence.is_alive(self.evidence.folder_at(driver.session), process):
            return None
        return KindVerdict("driver", (f"driver of job {driver.job} in live {session_name(driver.session)}",), driver.job, driver.session)

    # What comes from Ray

    def _descendant(self, process: ScannedProcess) -> KindVerdict | None:
        """By its parent. `None` when that says nothing."""
        parent, above = self.table.get(process.parent), self._above(process)
        if parent is None or above.kind == "foreign" or not above.from_ray:
            return None
        inherits = has_same_variables(process, parent)
        signs = () if inherits else self.evidence.signs(process)
        if above.kind == "unknown" and signs and not self._shares_fate(process, above, signs):
            return None
        kind = {**dict.fromkeys(OWNED_KINDS, "child"), **dict.fromkeys(LEFT_OVER_KINDS, "orphan")}.get(above.kind, "unknown")
        said = f"child of {parent.name} {parent.pid}{'' if above.undecided else f' ({above.kind})'}"
        owner = parent.pid if above.kind in ("worker", "driver") else above.owner
        found = above._replace(kind=kind, why=(said, *(sign.text for sign in signs if kind == "orphan")), owner=owner)
        if kind == "child" and self.lineage.owner(process):
            return found
        against = [sign.text for sign in signs if sign.proves and sign.lives is not None and sign.lives is (kind == "orphan")]
        if against:
            return found._replace(kind="unknown", why=(said, *against, CONTRADICTION), owner=None)
        in_use = self.lineage.why_on_terminal(process) if kind == "orphan" else None
        return found._replace(kind="unknown", why=(said, in_use)) if in_use else found

    def _shares_fate(self, process: ScannedProcess, above: KindVerdict, signs: Iterable[Sign]) -> bool:
        """Whether what its parent waits to be told of is what it waits for itself."""
        own = self._leave_unknown(process, signs)
        same = session_name(own.session) == session_name(above.session) and own.job in (None, above.job)
        return above.undecided == "job" and same and all(sign.lives for sign in signs)

    def _stranger(self, process: ScannedProcess) -> KindVerdict:
        """By its own signs alone: its parent is nothing of Ray's, or gone."""
        signs = self.evidence.signs(process)
        if not signs:
            return self._signless(process)
        found = self._leave_unknown(process, signs)
        if any(sign.lives is None for sign in signs):
            return found
        alive, dead = [sign for sign in signs if sign.lives], [sign for sign in signs if not sign.lives]
        if alive and dead:
            return found._replace(why=(*found.why, CONTRADICTION))
        return self._judge_left_over(process, found, dead) if dead else self._judge_parted(process, found, alive)

    def _leave_unknown(self, process: ScannedProcess, signs: Iterable[Sign]) -> KindVerdict:
        origin, pasts, raylet = process.origin, self.facts.find_past_workers(process), self.evidence.raylet_of(process)
        session = self._session_of(process)
        home = self.evidence.home(process) if session is None else None
        job = origin.submission or origin.job or next((worker.job for worker in pasts if worker.job), None)
        node = raylet.origin.node if raylet else None
        return KindVerdict("unknown", tuple(sign.text for sign in signs), job, session or (home.path if home else None), node)

    def _session_of(self, process: ScannedProcess) -> str | None:
        """That of the raylet or the worker that it came from; else that in whose folder its log lies, where anybody may have moved it."""
        raylet, pasts = self.evidence.raylet_of(process), self.facts.find_past_workers(process)
        known = (raylet.origin.session if raylet else None, *(worker.session for worker in pasts), process.origin.session)
        return next(filter(None, known), None)

    def _judge_left_over(self, process: ScannedProcess, found: KindVerdict, signs: Iterable[Sign]) -> KindVerdict:
        """All that it came from is dead."""
        if not any(sign.proves for sign in signs):
            return found._replace(why=(*found.why, "only the path of that log file shows this, which is no proof"))
        in_use = self._why_in_use(process)
        if in_use:
            return found._replace(why=(*found.why, in_use))
        elders = self.evidence.elder_sessions(process)
        if process.origin.raylet is None and process.origin.submission and elders and not self.facts.find_past_workers(process):
            asked = f"only Ray knows whether job {found.job} runs in {' or '.join(map(session_name, elders))}"
            return found._replace(why=(*found.why, asked), undecided="job", asks=elders)
        return found._replace(kind="orphan")

    def _judge_parted(self, process: ScannedProcess, found: KindVerdict, signs: Iterable[Sign]) -> KindVerdict:
        """Its raylet lives, its parent is gone: it is a child while its worker lives or its job runs."""
        owner = next((sign.owner for sign in signs if sign.owner), None)
        if owner is not None:
            why = (*found.why, f"its parent is gone, but worker {owner}, which started it, is alive")
            return found._replace(kind="child", why=why, owner=owner)
        if found.job is None:
            return found._replace(why=(*found.why, "its worker is gone; the job of that worker is unknown"))
        witnesses = dict(self.evidence.at_work(found.job, found.session, process))
        if witnesses:
            said = f"its parent is gone, but its job {found.job} runs here (pid {next(iter(witnesses))})"
            session = found.session or (next(iter(witnesses.values())) if len({*witnesses.values()}) == 1 else None)
            return found._replace(kind="child", why=(*found.why, said), session=session)
        in_use = self._why_in_use(process)
        if in_use or not any(sign.proves for sign in signs):
            return found._replace(why=(*found.why, in_use or "its Ray session is unknown: it writes to no session's log on this host"))
        asked = f"only Ray knows whether job {found.job} still runs"
        asks = dict.fromkeys(filter(None, (found.session, process.origin.session)))
        if process.origin.raylet is None and not self.facts.find_past_workers(process):  # of which session its log is, only its path says
            asks.update(dict.fromkeys(self.evidence.elder_sessions(process)))
        return found._replace(why=(self._worker_gone(process), *found.why, asked), undecided="job", asks=tuple(asks))

    def _worker_gone(self, process: ScannedProcess) -> str:
        """First of the reasons: it is what makes the process an orphan once its job is over."""
        pid = next((worker.pid for worker in self.facts.find_past_workers(process)), process.origin.worker)
        return f"its worker {pid} is gone" if pid else "its worker is gone"

    def _signless(self, process: ScannedProcess) -> KindVerdict:
        origin = process.origin
        driver = self.facts.drivers.get(process.pid)
        if driver is not None and driver.ticks == process.ticks:
            return KindVerdict("foreign", (f"was a driver of {session_name(driver.session)}, which is dead; Ray did not start it",))
        if process.details.stuck:
            return NO_SIGN._replace(kind="unknown", why=("its command line can't be read: the process is stuck in the kernel",))
        if not origin.readable:
            title = f"it has the title {origin.engine or 'of a Ray worker'}, but " if origin.engine or origin.role in WORKERS else ""
            return NO_SIGN._replace(
                kind="unknown",
                why=(f"{title}its environment can't be read: no permission",),
                from_ray=origin.role in WORKERS or bool(origin.engine),
            )
        if origin.engine and self.lineage.is_alone(process):
            why = f"title {origin.engine}, its parent is gone, and nothing says that Ray started it"
            return NO_SIGN._replace(kind="unknown", why=(why,))
        return NO_SIGN

    def _judge_zombie(self, process: ScannedProcess) -> KindVerdict:
        above = self._above(process)
        why = f"a zombie: it has ended and holds nothing, but its parent {process.parent} has not collected it"
        if above.kind in OWNED_KINDS:
            return KindVerdict("child", (why,), above.job, above.session, above.node, owner=above.owner)
        return NO_SIGN._replace(kind="unknown", why=(why,))

    # Who uses it

    def _why_in_use(self, process: ScannedProcess) -> str | None:
        """Why somebody may use it, although all of Ray that it came from is gone; `None`: nobody is seen to."""
        on_terminal = self.lineage.why_on_terminal(process)
        if on_terminal:
            return on_terminal
        parent = self.table.get(process.parent)
        if parent is None:
            return None if process.parent == 1 else f"its parent {process.parent} can't be seen from here"
        if has_same_variables(process, parent):
            return f"its parent {parent.name} {parent.pid} has the same Ray variables: inherited from it, they prove nothing"
        if parent.alive and not is_adopter(parent) and self._above(process).kind not in LEFT_OVER_KINDS:
            return f"its parent {parent.name} {parent.pid} lives, and is not Ray's"
        return None

    def _above(self, process: ScannedProcess) -> KindVerdict:
        """What was found of its parent."""
        return self.verdicts.get(process.parent, NO_SIGN)
