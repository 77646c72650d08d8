"""Who descends from whom, and the signs of what a process came from and whether that lives: each with how far it can be believed."""

from __future__ import annotations

import os
from typing import Dict, Iterable, List, Mapping, Set, Tuple

from ..trust import ROOT
from .kinds import ProcessFacts, SessionFolder, Sign
from .origin import WORKERS
from .processes import ProcessTable, ScannedProcess

ADOPTERS = ("systemd", "init", "tini", "dumb-init", "docker-init", "catatonit", "conmon", "containerd-shim")
"""Programs that take over children whose parent has died. Whatever else is a living parent has started its child itself."""
_WORKERS = frozenset(WORKERS)


class Lineage:
    """The family tree of one scan."""

    def __init__(self, table: ProcessTable) -> None:
        self.table = table
        self._owners: Dict[int, ScannedProcess | None] = {}
        self._sessions: Dict[int, str | None] = {}
        self.terminal_servers = self._terminal_servers()
        """Whatever something hangs from that leads a session on a terminal of its own: tmux, screen, sshd, a notebook with a terminal."""

    def ancestors(self, process: ScannedProcess, dead: bool = False) -> Iterable[ScannedProcess]:
        """The nearest first; zombies only when `dead`. /proc is not read in one moment, so a loop ends it."""
        passed = {process.pid}
        while process.parent not in passed and process.parent in self.table:
            process = self.table[process.parent]
            passed.add(process.pid)
            if dead or process.alive:
                yield process

    def owner(self, process: ScannedProcess) -> ScannedProcess | None:
        """The nearest living ancestor that is a raylet or a worker; looked for once, as there may be a line of thousands."""
        if process.pid not in self._owners:
            above = self.ancestors(process)
            self._owners[process.pid] = next((one for one in above if one.origin.role == "raylet" or one.origin.role in WORKERS), None)
        return self._owners[process.pid]

    def raylet(self, process: ScannedProcess) -> ScannedProcess | None:
        """The nearest living ancestor that is a raylet."""
        return next((other for other in self.ancestors(process) if other.origin.role == "raylet"), None)

    def session(self, process: ScannedProcess) -> str | None:
        """The folder of the session that it names, or else its nearest living ancestor that names one."""
        if process.pid not in self._sessions:
            above = (other.origin.session for other in self.ancestors(process) if other.origin.session)
            self._sessions[process.pid] = process.origin.session or next(above, None)
        return self._sessions[process.pid]

    def is_copy(self, process: ScannedProcess) -> bool:
        """A fork of a part of Ray that has not yet become what it was forked for."""
        parent = self.table.get(process.parent)
        return parent is not None and parent.origin.role == process.origin.role and parent.details.argv == process.details.argv

    def is_alone(self, process: ScannedProcess) -> bool:
        """Whether whoever started it is gone."""
        parent = self.table.get(process.parent)
        return parent is None or is_adopter(parent)

    def why_on_terminal(self, process: ScannedProcess) -> str | None:
        """Why somebody may sit before it."""
        if process.pid in self.terminal_servers:
            return "it serves a terminal that is in use"
        leader = self.table.get(process.leader)
        if leader is None or not leader.terminal or not leader.alive or leader.ticks > process.ticks:
            return None
        if leader.pid == process.pid:
            return "it leads a session on a terminal"
        if not leader.origin.readable or has_same_variables(process, leader):
            known = "has the same Ray variables" if leader.origin.readable else "can't be read"
            return f"it runs on a terminal in the session of {leader.name} {leader.pid}, which {known}"
        return None

    def _terminal_servers(self) -> Set[int]:
        found: Set[int] = set()
        for process in self.table.values():
            parent = self.table.get(process.parent)
            if process.alive and process.terminal and process.leader == process.pid and parent and parent.terminal != process.terminal:
                found.update(other.pid for other in self.ancestors(process))
        return found


class Evidence:
    """The signs of one scan."""

    def __init__(self, lineage: Lineage, facts: ProcessFacts) -> None:
        self._lineage, self._facts = lineage, facts
        self._table: ProcessTable = lineage.table
        living = [process for process in self._table.values() if process.alive and process.origin.role]
        raylets = [process for process in living if process.origin.role == "raylet" and not lineage.is_copy(process)]
        self._roots = [*raylets, *(process for process in living if process.origin.role == "gcs_server")]
        self._raylets = _by_pid(raylets)
        self._workers = _by_pid(process for process in living if process.origin.role in WORKERS)
        self._by_job: Dict[str, List[ScannedProcess]] = {}
        for process in self._table.values():
            for job in {process.origin.job, process.origin.submission} - {None} if process.alive else ():
                self._by_job.setdefault(job or "", []).append(process)
        self._hidden = 1 not in self._table
        self._unseen = [
            (folder, listener) for folder in facts.folders for listener in folder.listeners or () if listener.pid not in self._table
        ]
        """Raylets that listen here, and are in another PID namespace."""
        self.nodes = {process.origin.node for process in raylets if process.origin.node}
        """Ray's ids of the nodes whose raylets are seen to live."""

    def signs(self, process: ScannedProcess) -> Tuple[Sign, ...]:
        """All that it carries, and what was seen of it before."""
        raylet = self.raylet_sign(process) if process.origin.raylet is not None else None
        found = (raylet, self.session_sign(process), self._job_sign(process), *self._past_signs(process))
        return tuple(sign for sign in found if sign)

    def raylet_sign(self, process: ScannedProcess) -> Sign:
        """RAY_RAYLET_PID, of an agent RAY_NODE_ID too: a pid is this host's raylet only where one of its sessions says so."""
        pid = process.origin.raylet
        if self.raylet_of(process):
            return Sign(True, f"it comes from raylet {pid}, which still runs (RAY_RAYLET_PID)")
        named = f"its raylet {pid}" if pid else "its raylet"
        if apart := self._raylet_apart(process):
            return Sign(None, f"{named} may still run, in another PID namespace (pid {apart.pid} here)")
        if pid not in self._table and self._hidden:
            return Sign(None, f"unknown whether {named} is alive: other users' processes are hidden here")
        if any(worker.raylet[0] == pid for worker in self._facts.find_past_workers(process)):
            return Sign(False, f"{named} is dead{self._now_at(pid)} (RAY_RAYLET_PID)")
        homes = self._homes(process)
        if len(homes) > 1:
            told = ", ".join(sorted(folder.name for folder in homes))
            return Sign(
                None, f"{named} (RAY_RAYLET_PID) was in several sessions ({told}): unknown in which of them this process was started"
            )
        home = homes[0] if homes else None
        if home is None:
            return Sign(None, f"no session of its user on this host had {named} (RAY_RAYLET_PID): {_why_untold(process)}")
        if self.is_alive(home, process) is None or self._has_unseen_raylet(process):
            return Sign(None, f"unknown whether {named} of {home.name} is alive: a raylet of that user can't be seen from here")
        return Sign(False, f"{named} of {home.name} is dead{self._now_at(pid)} (RAY_RAYLET_PID)")

    def _now_at(self, pid: int | None) -> str:
        other = self._table.get(pid or 0)
        if other is None:
            return ""
        if not other.alive:
            return ", a zombie"
        return f", that pid is now {'a raylet that was started later' if other.origin.role == 'raylet' else other.name}"

    def raylet_of(self, process: ScannedProcess) -> ScannedProcess | None:
        """The living raylet whose pid it inherited. One that was started later, or by a stranger, is another one."""
        return next((raylet for raylet in self._elder_raylets(process) if _may_be_inside(process, raylet)), None)

    def _raylet_apart(self, process: ScannedProcess) -> ScannedProcess | None:
        """A living one with that pid, of a session that may be its own, in a PID namespace that it is not in: it may have left that one."""
        homes = self._homes(process)
        elders = ((raylet, self.folder(raylet)) for raylet in self._elder_raylets(process))
        return next((raylet for raylet, folder in elders if folder and any(folder.is_same(home) for home in homes)), None)

    def _elder_raylets(self, process: ScannedProcess) -> List[ScannedProcess]:
        """Those that know themselves by the pid that it inherited."""
        named = self._raylets.get(process.origin.raylet, ()) if process.origin.raylet else ()
        users = (process.details.uid, ROOT, None)
        return [raylet for raylet in named if raylet.ticks <= process.ticks and raylet.details.uid in users]

    def home(self, process: ScannedProcess) -> SessionFolder | None:
        """The session of its own user whose raylet, by what lies there, is the one that it names; `None` also where there are several."""
        homes = self._homes(process)
        return homes[0] if len(homes) == 1 else None

    def _homes(self, process: ScannedProcess) -> List[SessionFolder]:
        """A pid says little: it is given again, and each container counts its own. Of several the session that it writes to is the one.

        Its log's path alone says nothing: anybody may have renamed the folder, or moved the file.
        """
        uid, pid, node = process.details.uid, process.origin.raylet, process.origin.node
        written = self.folder(process)
        known = [
            *([written] if written else []),
            *(one for one in self._facts.folders if one.mount_namespace in (None, process.details.mount_namespace)),
        ]
        found = [
            folder
            for folder in known
            if folder.uid is not None and folder.uid == uid and not _is_other_node(folder, node)
            and (pid in folder.raylets or (pid is None and node in folder.nodes))
        ]  # fmt: skip
        if found and found[0] is written:
            return [written]
        return list({folder.place or folder.path: folder for folder in found}.values())

    def _has_unseen_raylet(self, process: ScannedProcess) -> bool:
        """Whether a raylet that its user may have started listens here, and is in another PID namespace."""
        return any(listener.uid in (process.details.uid, ROOT) for _, listener in self._unseen)

    def session_sign(self, process: ScannedProcess) -> Sign | None:
        """What its stdout is open on."""
        worker, folder = process.origin.worker, self.folder(process)
        if worker is None or folder is None or folder.uid not in (None, process.details.uid, ROOT):
            return None
        text = f"it writes to the log of worker {worker} of {folder.name}"
        alive = self.is_alive(folder, process)
        if alive is None:
            return Sign(None, f"{text}; whether that session is alive is unknown here")
        if not alive:
            return Sign(False, f"{text}, which is dead", proves=False)
        named = [other for other in self._workers.get(worker, ()) if other.ticks <= process.ticks and other.pid != process.pid]
        same = [other for other in named if _may_be_inside(process, other)]
        return Sign(True, text, same[0].pid if same else None)

    def _job_sign(self, process: ScannedProcess) -> Sign | None:
        job, folder = process.origin.submission, self.folder(process)
        if job is None or (folder is None and process.origin.raylet is not None):
            return None  # any raylet could be that job's, but the one that it names is it
        if folder is None or folder.uid not in (process.details.uid, ROOT):
            if self.elder_sessions(process):
                return Sign(True, f"it comes from job {job}", proves=False)
            return Sign(None, f"it comes from job {job}, and writes to no log of a session of its user here: {_why_untold(process)}")
        alive = self.is_alive(folder, process)
        if alive is None or (not alive and (folder.uid != process.details.uid or self._has_unseen_raylet(process))):
            return Sign(None, f"it comes from job {job} in {folder.name}; whether that is alive is unknown from here")
        proves = alive or bool(folder.raylets)  # else it may be any folder that somebody has given a session's name
        return Sign(alive, f"it comes from job {job} in {folder.name}{'' if alive else ', which is dead'}", proves=proves)

    def _past_signs(self, process: ScannedProcess) -> Iterable[Sign]:
        for worker in self._facts.find_past_workers(process):
            pid = worker.raylet[0]
            lives = any(raylet.identity == worker.raylet for same in self._raylets.values() for raylet in same)
            same = self._table.get(worker.pid)
            owner = worker.pid if same and same.alive and same.ticks == worker.ticks else None
            how = "is in the process group" if worker.pid in (process.group, process.leader) else "was seen as a child"
            yield Sign(lives, f"it {how} of worker {worker.pid}, whose raylet {pid} {'still runs' if lives else 'is dead'}", owner)

    def is_alive(self, folder: SessionFolder, process: ScannedProcess, *, gcs: bool = False) -> bool | None:
        """Whether a raylet (or GCS) of that session runs here; `None` where that can't be told.

        Only its owner, root and the user of the process are believed: anybody may call a process raylet, and listen in that folder.
        """
        users = {folder.uid, process.details.uid, ROOT} - {None}
        roots = [one for one in self._roots if gcs or one.origin.role == "raylet"]
        mine = [one for one in roots if one.details.uid is None or one.details.uid in users]
        if any(folder.is_same(found) for found in map(self.folder, mine) if found):
            return True
        if any(listener.uid in users for listener in folder.listeners or ()):
            return True
        if folder.listeners is None or (folder.place is None and not self._facts.sees_all):
            return None
        return None if self._hidden else False

    def elder_sessions(self, process: ScannedProcess) -> Tuple[str, ...]:
        """The sessions that live here and are older than the process: of a younger one it can't be."""
        users = (process.details.uid, ROOT, None)
        raylets = [one for same in self._raylets.values() for one in same if one.ticks <= process.ticks and one.details.uid in users]
        unseen = [folder.path for folder, listener in self._unseen if listener.uid in users]
        return tuple(dict.fromkeys([*(one.origin.session or "?" for one in raylets), *unseen]))

    def at_work(self, job: str, session: str | None, process: ScannedProcess) -> Iterable[Tuple[int, str | None]]:
        """Living parts of the job and their sessions: a worker, its driver, or below a living supervisor. Clusters number jobs alike."""
        own = {session_name(session)} if session else {session_name(one) for one in self.elder_sessions(process)}
        for pid, driver in self._facts.drivers.items():
            same = self._table.get(pid)
            at_work = driver.job == job and session_name(driver.session) in own and pid != process.pid
            if at_work and same and same.alive and same.ticks == driver.ticks:
                yield pid, driver.session
        for other in self._by_job.get(job, ()):
            if other.pid == process.pid:
                continue
            above = self._lineage.owner(other)
            at = self._lineage.session(above) if above and _WORKERS.intersection((other.origin.role, above.origin.role)) else None
            if above and session_name(at) in own:
                yield other.pid, at

    def folder(self, process: ScannedProcess) -> SessionFolder | None:
        """The session that it names or writes to."""
        session = process.origin.session
        return self._facts.folder_of.get(process.pid) or (SessionFolder(session) if session else None)

    def folder_at(self, path: str) -> SessionFolder:
        """What is known of the session there."""
        return next((folder for folder in self._facts.folders if folder.path == path), SessionFolder(path))


def _by_pid(processes: Iterable[ScannedProcess]) -> Mapping[int, list[ScannedProcess]]:
    """By the pid that each knows itself by: in a container that is the one in there."""
    found: Dict[int, list[ScannedProcess]] = {}
    for process in processes:
        found.setdefault(process.ns_pid or process.pid, []).append(process)
    return found


def _may_be_inside(process: ScannedProcess, other: ScannedProcess) -> bool:
    """Whether it can come from that one: a child is in the same PID namespace, or in one within it."""
    mine, its = process.details, other.details
    if len(mine.pids) == len(its.pids):
        return mine.inside == its.inside
    return len(mine.pids) > len(its.pids)


def _why_untold(process: ScannedProcess) -> str:
    """Why its session may be one of which nothing is known here."""
    if process.details.mount_namespace:
        return "it sees other files than cockpit (it is in a container, or in a job with its own /tmp): run cockpit there"
    return "its session may be on another host"


def _is_other_node(folder: SessionFolder, node: str | None) -> bool:
    """Whether that session tells of nodes here, and of none with that id."""
    return node is not None and bool(folder.nodes) and node not in folder.nodes


def session_name(session: str | None) -> str:
    """Of a session's folder, as a person reads it."""
    return os.path.basename(session) if session else "a session that can't be seen"


def is_adopter(parent: ScannedProcess) -> bool:
    """Whether it takes over children whose parent has died: the first process of a PID namespace, and who has asked the kernel for it."""
    first = parent.pid == 1 or parent.details.pids[-1:] == (1,)
    return first or parent.name.split(":")[0].strip() in ADOPTERS


def has_same_variables(process: ScannedProcess, other: ScannedProcess) -> bool:
    """What it inherited from that one speaks of that one's past."""
    mine, its = process.origin, other.origin
    return its.from_ray and (mine.raylet, mine.submission) == (its.raylet, its.submission) and mine.worker in (None, its.worker)
