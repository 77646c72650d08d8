"""Finds the evidence of what started each process and of whether that still lives, and decides how far the evidence can be trusted."""

from __future__ import annotations

import os
from typing import Dict, Iterable, List, Mapping, Set, Tuple

from ..trust import ROOT
from .origin import WORKERS
from .process_kinds import ProcessFacts, SessionFolder, Sign
from .processes import ProcessTable, ScannedProcess

REAPERS = ("systemd", "init", "tini", "dumb-init", "docker-init", "catatonit", "conmon", "containerd-shim")
"""Programs that adopt processes whose parent has died. Any other live parent is the one that started the process."""
_WORKERS = frozenset(WORKERS)


class Evidence:
    """The process tree of one scan, and the signs of what started each process."""

    def __init__(self, table: ProcessTable, facts: ProcessFacts) -> None:
        self._table, self._facts = table, facts
        self._owners: Dict[int, ScannedProcess | None] = {}
        self._sessions: Dict[int, str | None] = {}
        self._terminal_servers: Set[int] = set()
        """All ancestors of a process that leads a session on a terminal of its own: tmux, screen, sshd, a notebook with a terminal."""
        for process in table.values():
            parent = table.get(process.parent)
            if process.alive and process.terminal and process.leader == process.pid and parent and parent.terminal != process.terminal:
                self._terminal_servers.update(other.pid for other in self.ancestors(process))

        living = [process for process in table.values() if process.alive and process.origin.role]
        raylets = [process for process in living if process.origin.role == "raylet" and not self.is_copy(process)]
        self._roots = [*raylets, *(process for process in living if process.origin.role == "gcs_server")]
        """Live raylets and GCS servers: a session lives while one of them does."""
        self._raylets = _by_own_pid(raylets)
        self._workers = _by_own_pid(process for process in living if process.origin.role in WORKERS)
        self._by_job: Dict[str, List[ScannedProcess]] = {}
        for process in table.values():
            for job in {process.origin.job, process.origin.submission} - {None} if process.alive else ():
                self._by_job.setdefault(job or "", []).append(process)
        self._are_processes_hidden = 1 not in table
        """Other users' processes can't be seen (hidepid): not even the first process of this PID namespace."""
        self._unseen = [(folder, one) for folder in facts.folders for one in folder.listeners or () if one.pid not in table]
        """Raylets that listen on this host and are in another PID namespace."""
        self.nodes = {process.origin.node for process in raylets if process.origin.node}
        """Ray's node ids of the live raylets that can be seen."""

    def ancestors(self, process: ScannedProcess, dead: bool = False) -> Iterable[ScannedProcess]:
        """The nearest first; zombies only if `dead`. It ends at a loop, which is possible, since /proc is not read in one moment."""
        passed = {process.pid}
        while process.parent not in passed and process.parent in self._table:
            process = self._table[process.parent]
            passed.add(process.pid)
            if dead or process.alive:
                yield process

    def owner(self, process: ScannedProcess) -> ScannedProcess | None:
        """The nearest live ancestor that is a raylet or a worker. The answer is kept, since a process may have thousands of ancestors."""
        if process.pid not in self._owners:
            above = self.ancestors(process)
            self._owners[process.pid] = next((one for one in above if one.origin.role == "raylet" or one.origin.role in WORKERS), None)
        return self._owners[process.pid]

    def nearest_session(self, process: ScannedProcess) -> str | None:
        """The folder of the session that the process names, or that its nearest live ancestor names."""
        if process.pid not in self._sessions:
            above = (other.origin.session for other in self.ancestors(process) if other.origin.session)
            self._sessions[process.pid] = process.origin.session or next(above, None)
        return self._sessions[process.pid]

    def is_copy(self, process: ScannedProcess) -> bool:
        """Whether it is a fork of a part of Ray that has not yet called exec."""
        parent = self._table.get(process.parent)
        return parent is not None and parent.origin.role == process.origin.role and parent.details.argv == process.details.argv

    def why_on_terminal(self, process: ScannedProcess) -> str | None:
        """Why a person may use it on a terminal; `None`: nothing shows that."""
        if process.pid in self._terminal_servers:
            return "it serves a terminal that is in use"
        leader = self._table.get(process.leader)
        if leader is None or not leader.terminal or not leader.alive or leader.ticks > process.ticks:
            return None
        if leader.pid == process.pid:
            return "it leads a session on a terminal"
        if not leader.origin.readable or has_same_variables(process, leader):
            known = "has the same Ray variables" if leader.origin.readable else "can't be read"
            return f"it runs on a terminal in the session of {leader.name} {leader.pid}, which {known}"
        return None

    def signs(self, process: ScannedProcess) -> Tuple[Sign, ...]:
        """All signs that the process carries, and the signs of earlier scans."""
        raylet = self.raylet_sign(process) if process.origin.raylet is not None else None
        found = (raylet, self.session_sign(process), self._job_sign(process), *self._past_signs(process))
        return tuple(sign for sign in found if sign)

    def raylet_sign(self, process: ScannedProcess) -> Sign:
        """The sign in RAY_RAYLET_PID, for an agent in RAY_NODE_ID too. The pid counts only if a session here had a raylet with it."""
        pid = process.origin.raylet
        if self.raylet_of(process):
            return Sign(True, f"it comes from raylet {pid}, which still runs (RAY_RAYLET_PID)")
        named = f"its raylet {pid}" if pid else "its raylet"

        # A live raylet that knows itself by that pid, of a session that may be the process's own, in a PID namespace that the process is
        # not in. The process may have left that namespace.
        sessions = self.possible_sessions(process)
        for raylet in self._possible_raylets(process):
            folder = self.session_folder(raylet)
            if folder and any(folder.is_same(session) for session in sessions):
                return Sign(None, f"{named} may still run, in another PID namespace (pid {raylet.pid} here)")

        if pid not in self._table and self._are_processes_hidden:
            return Sign(None, f"unknown whether {named} is alive: other users' processes are hidden here")
        if any(worker.raylet[0] == pid for worker in self._facts.find_past_workers(process)):
            return Sign(False, f"{named} is dead{self._now_at(pid)} (RAY_RAYLET_PID)")
        if len(sessions) > 1:
            names = ", ".join(sorted(folder.name for folder in sessions))
            return Sign(
                None, f"{named} (RAY_RAYLET_PID) was in several sessions ({names}): unknown in which of them this process was started"
            )
        if not sessions:
            return Sign(None, f"no session of its user on this host had {named} (RAY_RAYLET_PID): {_why_no_session(process)}")
        session = sessions[0]
        if self.is_alive(session, process) is None or self._has_unseen_raylet(process):
            return Sign(None, f"unknown whether {named} of {session.name} is alive: a raylet of that user can't be seen from here")
        return Sign(False, f"{named} of {session.name} is dead{self._now_at(pid)} (RAY_RAYLET_PID)")

    def _now_at(self, pid: int | None) -> str:
        """The process that has the pid of a dead raylet now, as the end of a clause."""
        other = self._table.get(pid or 0)
        if other is None:
            return ""
        if not other.alive:
            return ", a zombie"
        return f", that pid is now {'a raylet that was started later' if other.origin.role == 'raylet' else other.name}"

    def raylet_of(self, process: ScannedProcess) -> ScannedProcess | None:
        """The live raylet whose pid the process inherited."""
        return next((raylet for raylet in self._possible_raylets(process) if _may_descend_from(process, raylet)), None)

    def _possible_raylets(self, process: ScannedProcess) -> List[ScannedProcess]:
        """Live raylets that know themselves by the pid that the process inherited, unless they are younger than it or another user's."""
        named = self._raylets.get(process.origin.raylet, ()) if process.origin.raylet else ()
        users = (process.details.uid, ROOT, None)
        return [raylet for raylet in named if raylet.ticks <= process.ticks and raylet.details.uid in users]

    def possible_sessions(self, process: ScannedProcess) -> List[SessionFolder]:
        """The sessions of the process's user that had, by their logs, the raylet that the process names.

        A pid alone can't decide between several: pids are reused, and each container counts its own. The session that the process writes
        to decides. The path of its log alone proves nothing: anybody may have renamed the folder, or moved the file.
        """
        uid, pid, node = process.details.uid, process.origin.raylet, process.origin.node
        written = self.session_folder(process)
        visible = [folder for folder in self._facts.folders if folder.mount_namespace in (None, process.details.mount_namespace)]
        found = []
        for folder in [written, *visible] if written else visible:
            has_raylet = pid in folder.raylets or (pid is None and node in folder.nodes)
            is_other_node = node is not None and bool(folder.nodes) and node not in folder.nodes
            if folder.uid is not None and folder.uid == uid and has_raylet and not is_other_node:
                found.append(folder)
        if found and found[0] is written:
            return [written]
        return list({folder.place or folder.path: folder for folder in found}.values())

    def _has_unseen_raylet(self, process: ScannedProcess) -> bool:
        """Whether a raylet that the process's user may have started listens here, and is in another PID namespace."""
        return any(listener.uid in (process.details.uid, ROOT) for _, listener in self._unseen)

    def session_sign(self, process: ScannedProcess) -> Sign | None:
        """The sign in the path of the worker's log that its stdout or stderr is open on."""
        worker, folder = process.origin.worker, self.session_folder(process)
        if worker is None or folder is None or folder.uid not in (None, process.details.uid, ROOT):
            return None
        text = f"it writes to the log of worker {worker} of {folder.name}"
        alive = self.is_alive(folder, process)
        if alive is None:
            return Sign(None, f"{text}; whether that session is alive is unknown here")
        if not alive:
            return Sign(False, f"{text}, which is dead", proves=False)
        older = [other for other in self._workers.get(worker, ()) if other.ticks <= process.ticks and other.pid != process.pid]
        owners = [other for other in older if _may_descend_from(process, other)]
        return Sign(True, text, owners[0].pid if owners else None)

    def _job_sign(self, process: ScannedProcess) -> Sign | None:
        """The sign in the id of a submitted job."""
        job, folder = process.origin.submission, self.session_folder(process)
        if job is None or (folder is None and process.origin.raylet is not None):
            return None  # no log names the job's session, so any raylet could be that job's: the raylet that the process names decides
        if folder is None or folder.uid not in (process.details.uid, ROOT):
            if self.older_sessions(process):
                return Sign(True, f"it comes from job {job}", proves=False)
            return Sign(None, f"it comes from job {job}, and writes to no log of a session of its user here: {_why_no_session(process)}")
        alive = self.is_alive(folder, process)
        if alive is None or (not alive and (folder.uid != process.details.uid or self._has_unseen_raylet(process))):
            return Sign(None, f"it comes from job {job} in {folder.name}; whether that is alive is unknown from here")
        proves = alive or bool(folder.raylets)  # without raylets in its logs it may be any folder that was named like a session
        return Sign(alive, f"it comes from job {job} in {folder.name}{'' if alive else ', which is dead'}", proves=proves)

    def _past_signs(self, process: ScannedProcess) -> Iterable[Sign]:
        """The signs of earlier scans: the worker that the process was seen below, or whose process group it is in."""
        for worker in self._facts.find_past_workers(process):
            pid = worker.raylet[0]
            lives = any(raylet.identity == worker.raylet for same in self._raylets.values() for raylet in same)
            same = self._table.get(worker.pid)
            owner = worker.pid if same and same.alive and same.ticks == worker.ticks else None
            how = "is in the process group" if worker.pid in (process.group, process.leader) else "was seen as a child"
            yield Sign(lives, f"it {how} of worker {worker.pid}, whose raylet {pid} {'still runs' if lives else 'is dead'}", owner)

    def is_alive(self, folder: SessionFolder, process: ScannedProcess, *, gcs: bool = False) -> bool | None:
        """Whether a raylet (or, with `gcs`, a GCS server) of that session runs here; `None`: unknown.

        Only processes of the session's owner, of root and of the user of `process` count: anybody may call a process raylet, and listen in
        that folder.
        """
        users = {folder.uid, process.details.uid, ROOT} - {None}
        for root in self._roots:
            if (gcs or root.origin.role == "raylet") and (root.details.uid is None or root.details.uid in users):
                other = self.session_folder(root)
                if other and folder.is_same(other):
                    return True
        if any(listener.uid in users for listener in folder.listeners or ()):
            return True
        if folder.listeners is None or (folder.place is None and not self._facts.sees_all):
            return None
        return None if self._are_processes_hidden else False

    def older_sessions(self, process: ScannedProcess) -> Tuple[str, ...]:
        """The live sessions here that the process may come from: those that are older than it."""
        users = (process.details.uid, ROOT, None)
        raylets = [one for same in self._raylets.values() for one in same if one.ticks <= process.ticks and one.details.uid in users]
        unseen = [folder.path for folder, listener in self._unseen if listener.uid in users]
        return tuple(dict.fromkeys([*(one.origin.session or "?" for one in raylets), *unseen]))

    def live_parts_of_job(self, job: str, session: str | None, process: ScannedProcess) -> Iterable[Tuple[int, str | None]]:
        """The pid and session of each live driver and worker of the job, and of each process below a worker of the job, but `process`.

        Different clusters give their jobs the same numbers, so only parts in `session` count, or if that is None in `older_sessions`.
        """
        names = {session_name(session)} if session else {session_name(one) for one in self.older_sessions(process)}
        for pid, driver in self._facts.drivers.items():
            same = self._table.get(pid)
            is_of_job = driver.job == job and session_name(driver.session) in names and pid != process.pid
            if is_of_job and same and same.alive and same.ticks == driver.ticks:
                yield pid, driver.session
        for other in self._by_job.get(job, ()):
            if other.pid == process.pid:
                continue
            above = self.owner(other)
            at = self.nearest_session(above) if above and _WORKERS.intersection((other.origin.role, above.origin.role)) else None
            if above and session_name(at) in names:
                yield other.pid, at

    def session_folder(self, process: ScannedProcess) -> SessionFolder | None:
        """The folder of the session that the process names or writes to."""
        session = process.origin.session
        return self._facts.folder_of.get(process.pid) or (SessionFolder(session) if session else None)


def _by_own_pid(processes: Iterable[ScannedProcess]) -> Mapping[int, list[ScannedProcess]]:
    """By the pid that each process has in its own PID namespace: in a container, its pid in there."""
    found: Dict[int, list[ScannedProcess]] = {}
    for process in processes:
        found.setdefault(process.ns_pid or process.pid, []).append(process)
    return found


def _may_descend_from(process: ScannedProcess, other: ScannedProcess) -> bool:
    """Whether its PID namespace allows that: a child is in the PID namespace of its parent, or in one within it."""
    mine, its = process.details, other.details
    if len(mine.pids) == len(its.pids):
        return mine.inside == its.inside
    return len(mine.pids) > len(its.pids)


def _why_no_session(process: ScannedProcess) -> str:
    """Why this host may know nothing of the process's session."""
    if process.details.mount_namespace:
        return "it sees other files than cockpit (it is in a container, or in a job with its own /tmp): run cockpit there"
    return "its session may be on another host"


def session_name(session: str | None) -> str:
    """The name of a session's folder, as a person reads it."""
    return os.path.basename(session) if session else "a session that can't be seen"


def is_reaper(parent: ScannedProcess) -> bool:
    """Whether it adopts orphans: it is the first process of a PID namespace, or a program that asks the kernel for them."""
    is_first = parent.pid == 1 or parent.details.pids[-1:] == (1,)
    return is_first or parent.name.split(":")[0].strip() in REAPERS


def has_same_variables(process: ScannedProcess, other: ScannedProcess) -> bool:
    """Whether it may have inherited Ray's variables from `other`: then they speak of the past of `other`."""
    mine, its = process.origin, other.origin
    return its.from_ray and (mine.raylet, mine.submission) == (its.raylet, its.submission) and mine.worker in (None, its.worker)
