"""Decides what each process is to Ray, from a process table and a few other facts. Pure.

An action may end processes of the kinds `orphan` and `stale`. These kinds need evidence that no other user could have planted, and that
nothing shows that the process is still needed:

* Only the user of a process can set the variables that Ray gives its children (RAY_RAYLET_PID, the id of a submitted job). But the process
  may have inherited them on another host, or from somebody's shell. They count if a session of the same user on this host had that raylet,
  or if the process writes to a log in such a session.
* The path of a log proves nothing alone: Ray makes its folders writable for everybody, so anybody may rename a file into them.
* A process with Ray's name, or a socket in a session's folder, shows that the session lives only if it belongs to its owner or to root.
* If the parent lives and is not part of Ray, or if the process serves a terminal, somebody uses the process.

If this host alone can't decide, the kind is `unknown`, and no action ends a process of that kind. Ray can decide one of these cases: the
worker of a process is gone, and its raylet lives. Then the process is a `child` while its job runs, and an `orphan` when the job has ended.
The verdict is `unknown` with `undecided="job"`, the job, and the sessions to ask; the last reason says so. The caller asks Ray, and
replaces the kind.
"""

from __future__ import annotations

from typing import Dict, Iterable

from .containers import find_container, why_probed_inside
from .evidence import Evidence, has_same_variables, is_reaper, session_name
from .gpus import NOBODY
from .origin import SERVICES, WORKERS
from .process_kinds import LEFT_OVER_KINDS, NO_SIGN, OWNED_KINDS, KindVerdict, ProcessFacts, SessionFolder, Sign
from .processes import ProcessTable, ScannedProcess

NOT_OURS = "NVML names a pid outside of this container (PID namespace): its process can't be seen from here"
CONTRADICTION = "these reasons contradict each other"


def classify(table: ProcessTable, facts: ProcessFacts) -> Dict[int, KindVerdict]:
    """A verdict for each process that holds a GPU, belongs to Ray, or was started by Ray."""
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
        self.evidence = Evidence(table, facts)
        self.verdicts: Dict[int, KindVerdict] = {}

    def classify(self) -> Dict[int, KindVerdict]:
        for process in self.table.values():
            line = [process]
            if process.parent not in self.verdicts:
                line += self.evidence.ancestors(process, dead=True)
            for other in reversed(line):
                if other.pid not in self.verdicts:
                    self.verdicts[other.pid] = self._judge(other)
        # A probe in the container of an unknown process may know it.
        for pid, verdict in list(self.verdicts.items()):
            process = self.table[pid]
            if verdict.kind == "unknown" and not verdict.undecided and len(process.details.pids) > 1 and process.alive:
                advice = why_probed_inside(find_container(process, self.table))
                self.verdicts[pid] = verdict._replace(why=(*verdict.why, advice))
        return self.verdicts

    def _judge(self, process: ScannedProcess) -> KindVerdict:
        parent_verdict = self._parent_verdict(process)
        if not process.alive:
            why = f"a zombie: it has ended and holds nothing, but its parent {process.parent} has not collected it"
            if parent_verdict.kind in OWNED_KINDS:
                job, session, node = parent_verdict.job, parent_verdict.session, parent_verdict.node
                return KindVerdict("child", (why,), job, session, node, owner=parent_verdict.owner)
            return NO_SIGN._replace(kind="unknown", why=(why,))
        if process.origin.role in SERVICES and not self.evidence.is_copy(process):
            return self._judge_service(process)
        worker = self._judge_worker(process) if process.origin.role in WORKERS else None
        if worker:
            return worker
        driver = self.facts.drivers.get(process.pid)
        if driver and driver.ticks == process.ticks:
            folder = next((folder for folder in self.facts.folders if folder.path == driver.session), SessionFolder(driver.session))
            if self.evidence.is_alive(folder, process):
                return KindVerdict("driver", (f"driver of job {driver.job} in live {folder.name}",), driver.job, driver.session)
        return self._judge_by_parent(process) or self._judge_by_signs(process)

    # Parts of Ray

    def _judge_service(self, process: ScannedProcess) -> KindVerdict:
        """The verdict on a raylet, a gcs_server, an agent, a dashboard or another service of Ray."""
        origin, role = process.origin, str(process.origin.role)
        raylet = next((other for other in self.evidence.ancestors(process) if other.origin.role == "raylet"), None)
        session = origin.session or (raylet.origin.session if raylet else None) or self._parent_verdict(process).session
        node = origin.node or (raylet.origin.node if raylet else None)
        verdict = KindVerdict("ray", (f"{role} of {session_name(session)}",), session=session, node=node)
        if role in ("raylet", "gcs_server"):
            return verdict
        live_verdict = verdict._replace(why=(f"{role} of live {session_name(session)}",))
        if role == "agent":
            if raylet or node in self.evidence.nodes:
                return live_verdict
            sign = self.evidence.raylet_sign(process)
        elif session is None:
            sign = Sign(None, "unknown which session it belongs to")
        else:
            folder = self.evidence.session_folder(process) or SessionFolder(session)
            alive = self.evidence.is_alive(folder, process, gcs=True)
            if alive is None:
                sign = Sign(None, f"unknown whether {folder.name} is alive")
            elif not alive and folder.uid not in (None, process.details.uid):
                sign = Sign(None, f"the folder of {folder.name} belongs to another user")
            else:
                sign = Sign(alive, f"{folder.name} is {'alive' if alive else 'dead: no raylet and no gcs_server of it runs here'}")
        if sign.lives:
            return live_verdict
        why = (*verdict.why, sign.text)
        if sign.lives is None:
            return verdict._replace(kind="unknown", why=why)
        in_use = self._why_in_use(process)
        return verdict._replace(kind="unknown", why=(*why, in_use)) if in_use else verdict._replace(kind="stale", why=why)

    def _judge_worker(self, process: ScannedProcess) -> KindVerdict | None:
        """The verdict on a process with a worker's title; `None`: it is no worker, such as a fork of one, which keeps the title."""
        owner = self.evidence.owner(process)
        title = process.details.argv[0] if process.details.argv else process.name
        job, session = process.origin.job, self._session_of(process)
        if owner and owner.origin.role == "raylet":
            session = owner.origin.session or session
            why = f"worker {title} of live {session_name(session)}, raylet {owner.pid}"
            return KindVerdict("worker", (why,), job, session, owner.origin.node)
        if owner or (process.origin.worker and process.origin.worker not in process.details.pids):
            return None
        sign = self.evidence.raylet_sign(process) if process.origin.raylet else self.evidence.session_sign(process)
        if sign is None or sign.lives is None:
            return None
        if sign.lives:
            outside = (f"worker {title}, outside its raylet's process tree", sign.text)
            return KindVerdict("worker", outside, job, session) if process.origin.worker else None
        if not sign.proves or self._why_in_use(process):
            return None
        return KindVerdict("stale", (f"worker {title} left by a dead Ray", sign.text), job, session)

    # Processes that Ray started

    def _judge_by_parent(self, process: ScannedProcess) -> KindVerdict | None:
        """The verdict that follows from that on the parent; `None`: nothing follows from it."""
        parent, parent_verdict = self.table.get(process.parent), self._parent_verdict(process)
        if parent is None or parent_verdict.kind == "foreign" or not parent_verdict.from_ray:
            return None
        signs = () if has_same_variables(process, parent) else self.evidence.signs(process)
        if parent_verdict.kind == "unknown" and signs:
            # The process shares the verdict on its parent only if both wait for the end of the same job.
            own = self._unknown_verdict(process, signs)
            is_same_job = session_name(own.session) == session_name(parent_verdict.session) and own.job in (None, parent_verdict.job)
            if parent_verdict.undecided != "job" or not is_same_job or not all(sign.lives for sign in signs):
                return None
        kind = "child" if parent_verdict.kind in OWNED_KINDS else "orphan" if parent_verdict.kind in LEFT_OVER_KINDS else "unknown"
        why = f"child of {parent.name} {parent.pid}{'' if parent_verdict.undecided else f' ({parent_verdict.kind})'}"
        owner = parent.pid if parent_verdict.kind in ("worker", "driver") else parent_verdict.owner
        verdict = parent_verdict._replace(kind=kind, why=(why, *(sign.text for sign in signs if kind == "orphan")), owner=owner)
        if kind == "child" and self.evidence.owner(process):
            return verdict
        against = [sign.text for sign in signs if sign.proves and sign.lives is not None and sign.lives is (kind == "orphan")]
        if against:
            return verdict._replace(kind="unknown", why=(why, *against, CONTRADICTION), owner=None)
        in_use = self.evidence.why_on_terminal(process) if kind == "orphan" else None
        return verdict._replace(kind="unknown", why=(why, in_use)) if in_use else verdict

    def _judge_by_signs(self, process: ScannedProcess) -> KindVerdict:
        """The verdict by the process's own signs: its parent is gone, or is not part of Ray."""
        signs = self.evidence.signs(process)
        if not signs:
            return self._judge_without_signs(process)
        verdict = self._unknown_verdict(process, signs)
        if any(sign.lives is None for sign in signs):
            return verdict
        alive, dead = [sign for sign in signs if sign.lives], [sign for sign in signs if not sign.lives]
        if alive and dead:
            return verdict._replace(why=(*verdict.why, CONTRADICTION))
        return self._judge_left_over(process, verdict, dead) if dead else self._judge_without_parent(process, verdict, alive)

    def _unknown_verdict(self, process: ScannedProcess, signs: Iterable[Sign]) -> KindVerdict:
        """The kind `unknown`, with the job, session and node that the process comes from."""
        origin, pasts, raylet = process.origin, self.facts.find_past_workers(process), self.evidence.raylet_of(process)
        session = self._session_of(process)
        if session is None:
            sessions = self.evidence.possible_sessions(process)
            session = sessions[0].path if len(sessions) == 1 else None
        job = origin.submission or origin.job or next((worker.job for worker in pasts if worker.job), None)
        return KindVerdict("unknown", tuple(sign.text for sign in signs), job, session, raylet.origin.node if raylet else None)

    def _session_of(self, process: ScannedProcess) -> str | None:
        """The session of the raylet or worker that started the process; else the session of its log, which anybody may have moved."""
        raylet, pasts = self.evidence.raylet_of(process), self.facts.find_past_workers(process)
        known = (raylet.origin.session if raylet else None, *(worker.session for worker in pasts), process.origin.session)
        return next(filter(None, known), None)

    def _judge_left_over(self, process: ScannedProcess, verdict: KindVerdict, signs: Iterable[Sign]) -> KindVerdict:
        """The verdict if everything that the process comes from is dead."""
        if not any(sign.proves for sign in signs):
            return verdict._replace(why=(*verdict.why, "only the path of that log file shows this, which is no proof"))
        in_use = self._why_in_use(process)
        if in_use:
            return verdict._replace(why=(*verdict.why, in_use))
        sessions = self.evidence.older_sessions(process)
        if process.origin.raylet is None and process.origin.submission and sessions and not self.facts.find_past_workers(process):
            question = f"only Ray knows whether job {verdict.job} runs in {' or '.join(map(session_name, sessions))}"
            return verdict._replace(why=(*verdict.why, question), undecided="job", asks=sessions)
        return verdict._replace(kind="orphan")

    def _judge_without_parent(self, process: ScannedProcess, verdict: KindVerdict, signs: Iterable[Sign]) -> KindVerdict:
        """The verdict if the raylet lives and the parent is gone: a `child` while its worker lives or its job runs."""
        owner = next((sign.owner for sign in signs if sign.owner), None)
        if owner is not None:
            why = f"its parent is gone, but worker {owner}, which started it, is alive"
            return verdict._replace(kind="child", why=(*verdict.why, why), owner=owner)
        if verdict.job is None:
            return verdict._replace(why=(*verdict.why, "its worker is gone; the job of that worker is unknown"))
        parts = dict(self.evidence.live_parts_of_job(verdict.job, verdict.session, process))
        if parts:
            why = f"its parent is gone, but its job {verdict.job} runs here (pid {next(iter(parts))})"
            sessions = {*parts.values()}
            session = verdict.session or (sessions.pop() if len(sessions) == 1 else None)
            return verdict._replace(kind="child", why=(*verdict.why, why), session=session)
        in_use = self._why_in_use(process)
        if in_use or not any(sign.proves for sign in signs):
            return verdict._replace(why=(*verdict.why, in_use or "its Ray session is unknown: it writes to no session's log on this host"))
        pasts = self.facts.find_past_workers(process)
        asks = dict.fromkeys(filter(None, (verdict.session, process.origin.session)))
        if process.origin.raylet is None and not pasts:  # only the path of its log names its session
            asks.update(dict.fromkeys(self.evidence.older_sessions(process)))
        # The first reason is the one for which the process becomes an orphan when its job has ended.
        pid = pasts[0].pid if pasts else process.origin.worker
        gone = f"its worker {pid} is gone" if pid else "its worker is gone"
        question = f"only Ray knows whether job {verdict.job} still runs"
        return verdict._replace(why=(gone, *verdict.why, question), undecided="job", asks=tuple(asks))

    def _judge_without_signs(self, process: ScannedProcess) -> KindVerdict:
        origin = process.origin
        driver = self.facts.drivers.get(process.pid)
        if driver is not None and driver.ticks == process.ticks:
            return KindVerdict("foreign", (f"was a driver of {session_name(driver.session)}, which is dead; Ray did not start it",))
        if process.details.stuck:
            return NO_SIGN._replace(kind="unknown", why=("its command line can't be read: the process is stuck in the kernel",))
        if not origin.readable:
            has_title = origin.role in WORKERS or bool(origin.engine)
            title = f"it has the title {origin.engine or 'of a Ray worker'}, but " if has_title else ""
            why = f"{title}its environment can't be read: no permission"
            return NO_SIGN._replace(kind="unknown", why=(why,), from_ray=has_title)
        parent = self.table.get(process.parent)
        if origin.engine and (parent is None or is_reaper(parent)):
            why = f"title {origin.engine}, its parent is gone, and nothing says that Ray started it"
            return NO_SIGN._replace(kind="unknown", why=(why,))
        return NO_SIGN

    # Users

    def _why_in_use(self, process: ScannedProcess) -> str | None:
        """Why somebody may use the process although everything of Ray that it comes from is gone; `None`: nothing shows that."""
        on_terminal = self.evidence.why_on_terminal(process)
        if on_terminal:
            return on_terminal
        parent = self.table.get(process.parent)
        if parent is None:
            return None if process.parent == 1 else f"its parent {process.parent} can't be seen from here"
        if has_same_variables(process, parent):
            return f"its parent {parent.name} {parent.pid} has the same Ray variables: inherited from it, they prove nothing"
        if parent.alive and not is_reaper(parent) and self._parent_verdict(process).kind not in LEFT_OVER_KINDS:
            return f"its parent {parent.name} {parent.pid} lives, and is not Ray's"
        return None

    def _parent_verdict(self, process: ScannedProcess) -> KindVerdict:
        return self.verdicts.get(process.parent, NO_SIGN)
