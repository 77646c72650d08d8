"""Finds the Ray sessions of this host: their folders, whether they live, their dashboards and their drivers."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from heapq import nlargest
from itertools import islice
from typing import Counter, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Tuple

from .. import trust
from .network import listening_sockets
from .origin import flag, to_number
from .proc import is_in_our_namespace, make_legible, open_files, read_link
from .process_kinds import Driver, SessionFolder, SocketListener
from .processes import Identity, ProcessTable, ScannedProcess
from .session_folder import MAX_LOGS, Logs, MountKinds, Route, find_folder, inspect
from .tree import FileId, mount_kinds, mount_number, vouched_mounts

DEFAULT_TEMP = "/tmp/ray"  # noqa: S108 Ray's own default
_NAME = re.compile(r"session_(\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d)_\d+_\d+$")
_SIGTERM_LINE = re.compile(rb'reason_message: "received SIGTERM"|received SIGTERM\. Existing local drain request')
MAX_JOBS = 200
MAX_OPEN, MAX_DASHBOARDS = 4000, 4
"""Open files of a process that are searched, and processes that are tried as the dashboard of one session."""
MAX_NAMES = 2_000_000
"""Entries read in all temp dirs together: every user may write into them."""
MAX_TEMPS, MAX_SESSIONS, MAX_OF_ONE = 256, 1000, 200
"""Temp dirs, sessions in all of them, and sessions of one other user: a user may have filled a temp dir."""
LOG_TAIL_BYTES = 1 << 14


class Folder(NamedTuple):
    """A session's folder in one of Ray's temp dirs."""

    facts: SessionFolder
    started: float | None
    latest: bool
    stopped: bool | None = None
    """Whether its raylet's log ends with a SIGTERM, which `ray stop` sends; read only if this session is the latest one, and dead."""
    nodes: Tuple[str, ...] = ()
    """Ray's ids of the nodes whose raylets wrote logs here, from logs of its owner: other hosts may share the folder."""
    log_files: int = 0

    @property
    def path(self) -> str:
        """The path of the folder."""
        return self.facts.path

    @property
    def answers(self) -> bool | None:
        """Whether a raylet of its owner listens there; `None` if unknown."""
        return self.facts.answers


class Sessions(NamedTuple):
    """The sessions of this host."""

    folders: Tuple[Folder, ...] = ()
    """The sessions in Ray's temp dirs."""
    all: Tuple[SessionFolder, ...] = ()
    """These, and the sessions that processes name in other places or containers."""
    of: Mapping[int, SessionFolder] = {}
    """By pid: the session that the process names or writes to."""
    drivers: Mapping[int, Driver] = {}
    dashboards: Mapping[str, str] = {}
    """By session folder: the address of its dashboard."""
    temps: Tuple[str, ...] = ()
    """Ray's temp dirs, those in use first."""
    logs: Tuple[Logs, ...] = ()
    """The logs of live sessions."""


class SessionScanner:
    """Reads the sessions again and again, and remembers each temp dir that it once found."""

    def __init__(self, temps: Iterable[str] = ()) -> None:
        self.at = ""
        """The folder that is being read: its file system may hang."""
        self._given: Dict[str, None] = dict.fromkeys(temps)
        self._found_temps: Tuple[str, ...] = ()
        self._logs: Dict[str, Logs] = {}
        self._vouched: MountKinds = {}
        self._foreign: Dict[str, MountKinds] = {}
        self._confirmed: Dict[Tuple[Identity, str], bool] = {}
        self._dashboards: Dict[Identity, str] = {}

    def add_temp_dir(self, temp: str) -> None:
        """Adds a temp dir that a person named."""
        self._given.setdefault(temp)

    def read(self, table: ProcessTable) -> Sessions:
        """Finds the temp dirs through the processes. A session whose raylet is in the table is alive, and its sockets are not asked."""
        self._vouched, self._foreign = vouched_mounts(), {}
        here = {process.identity for process in table.values()}
        self._dashboards = {identity: address for identity, address in self._dashboards.items() if identity in here}
        self._confirmed = {key: is_open for key, is_open in self._confirmed.items() if key[0][0] in table}

        temps = self._find_temp_dirs(table)
        # By pid: the route to the session that the process names. A session in another mount namespace is reached through the first process
        # there of the same user.
        routes: Dict[int, Route] = {}
        first: Dict[Tuple[str | None, int | None, str], Route] = {}
        for process in table.values():
            session, uid, namespace = process.origin.session, process.details.uid, process.details.mount_namespace
            if session:
                route = Route(session) if namespace is None else Route(f"/proc/{process.pid}/root{session}", namespace, process.pid, uid)
                routes[process.pid] = first.setdefault((namespace, uid if namespace else None, session), route)
        listed = self._find_session_paths(temps)
        known_raylets = self._find_raylets(table, routes)
        facts: Dict[Route, SessionFolder] = {}
        logs: Dict[str, Logs] = {}
        for route in dict.fromkeys([*map(Route, listed), *routes.values()]):
            self.at = route.path
            facts[route], logs[route.path] = inspect(route, self._mount_kinds(route), self._logs.get(route.path, Logs()), known_raylets)
        self._logs = logs

        live = [path for path in listed if facts[Route(path)].answers]
        named = {pid: facts[route] for pid, route in routes.items()}
        return Sessions(
            folders=tuple(_folder(facts[Route(path)], logs[path]) for path in listed),
            all=tuple(facts.values()),
            of=named,
            drivers={pid: driver for path in live for pid, driver in self._find_drivers(path, table).items()},
            dashboards=self._find_dashboards(table, named, {facts[Route(path)].place: path for path in listed}),
            temps=temps,
            logs=tuple(logs[path] for path in live),
        )

    def _mount_kinds(self, route: Route) -> MountKinds:
        if route.mount_namespace is None:
            return self._vouched
        if route.mount_namespace not in self._foreign:
            self._foreign[route.mount_namespace] = mount_kinds(route.pid or 0)
        return self._foreign[route.mount_namespace]

    def _is_there(self, path: str) -> bool:
        """Whether the folder exists in our mounts, and not only in a mount namespace that a user created."""
        self.at = path
        try:
            with trust.open_fd(path, trust.FOLDER_PLACE) as folder:
                return mount_number(folder) in self._vouched
        except OSError:
            return False

    def _find_temp_dirs(self, table: ProcessTable) -> Tuple[str, ...]:
        """First the temp dirs of live raylets, then those that other processes name, then the usual ones.

        The number is limited. Processes of root and of our user come first, so that no other user can push their temp dirs out.
        """
        ordered = sorted(table.values(), key=lambda process: (process.details.uid not in trust.own_uids(), process.origin.role != "raylet"))
        places = ((os.path.dirname(process.origin.session or ""), process.origin.temp) for process in ordered)
        named = [place for both in places for place in both if place]
        self._found_temps = tuple(islice(filter(self._is_there, dict.fromkeys([*named, *self._found_temps])), MAX_TEMPS))
        return tuple(dict.fromkeys([*self._found_temps, *filter(self._is_there, self._given)]))

    def _find_drivers(self, session: str, table: ProcessTable) -> Dict[int, Driver]:
        """A driver keeps a log open whose name has its job and its pid (Ray 2.9 to 2.60)."""
        found: Dict[int, Driver] = {}
        for pid, (job, log) in self._logs[session].drivers.items():
            process = table.get(pid)
            if process is None or not process.alive:
                continue
            key = process.identity, log
            if key not in self._confirmed:
                self._confirmed[key] = _has_log_open(process, session, log)
            if self._confirmed[key]:
                found[pid] = Driver(process.ticks, session, job)
        return found

    def _find_dashboards(
        self, table: ProcessTable, named: Mapping[int, SessionFolder], listed: Mapping[FileId | None, str]
    ) -> Dict[str, str]:
        """Only dashboards that run as the session's owner or as root count: any user can name a process like a dashboard."""
        found: Dict[str, str] = {}
        tried: Counter[str | None] = Counter()
        for process in table.values():
            port = to_number(flag(process.details.argv, "--port"))
            if process.origin.role != "dashboard" or not process.alive or process.pid not in named or port is None:
                continue
            folder = named[process.pid]
            path = listed.get(folder.place) if folder.place else None
            tried[path] += 1
            if tried[path] > MAX_DASHBOARDS or path is None or process.details.uid not in (folder.uid, trust.ROOT):
                continue
            address = self._dashboards.get(process.identity) or _dashboard_address(process, port)
            if address:
                self._dashboards[process.identity] = found[path] = address
        return found

    def _find_raylets(self, table: ProcessTable, routes: Mapping[int, Route]) -> Dict[FileId, Tuple[SocketListener, ...]]:
        """By session folder: its raylets in the table that run as its owner or as root. Their sockets need no connection then."""
        found: Dict[FileId, Tuple[SocketListener, ...]] = {}
        for process in table.values():
            if process.alive and process.origin.role == "raylet" and process.pid in routes:
                route, uid = routes[process.pid], process.details.uid
                self.at = route.path
                where, owner = find_folder(route, self._mount_kinds(route))
                if where is not None and uid is not None and uid in (owner, trust.ROOT):
                    found[where] = (*found.get(where, ()), SocketListener(process.pid, uid))
        return found

    def _find_session_paths(self, temps: Iterable[str]) -> Tuple[str, ...]:
        """Each session once, even if links or mounts give it several paths.

        The number is limited: root's sessions and ours come first, then the latest ones of other users.
        """
        found: Dict[FileId, Tuple[bool, str, str]] = {}
        by_owner: Dict[int | None, List[Tuple[bool, str, str]]] = {}
        for path in islice(self._list_paths(temps), MAX_LOGS):
            where, owner = find_folder(Route(path), self._vouched)
            if where is not None and where not in found:
                found[where] = owner in trust.own_uids(), os.path.basename(path), path
                by_owner.setdefault(owner, []).append(found[where])
        latest: List[Tuple[bool, str, str]] = []
        for owner, sessions in by_owner.items():
            latest += nlargest(MAX_SESSIONS if owner in trust.own_uids() else MAX_OF_ONE, sessions)
        chosen = {path for _, _, path in nlargest(MAX_SESSIONS, latest)}
        return tuple(path for _, _, path in found.values() if path in chosen)

    def _list_paths(self, temps: Iterable[str]) -> Iterator[str]:
        """The paths of all sessions in these temp dirs."""
        left = MAX_NAMES
        for temp in temps:
            self.at = temp
            with suppress(OSError), os.scandir(temp) as entries:
                names = []
                for entry in islice(entries, left):
                    left -= 1
                    if _NAME.match(entry.name):
                        names.append(entry.name)
                yield from (f"{temp}/{name}" for name in sorted(names))


def _folder(facts: SessionFolder, logs: Logs) -> Folder:
    temp, name = os.path.split(facts.path)
    started = None
    with suppress(ValueError, OverflowError):
        # Its name has this host's local time.
        if match := _NAME.match(name):
            started = time.mktime(time.strptime(match[1], "%Y-%m-%d_%H-%M-%S"))
    latest = os.path.basename(read_link(f"{temp}/session_latest") or "") == name
    stopped: bool | None = None
    if latest and facts.answers is False:
        with suppress(OSError):
            stopped = bool(_SIGTERM_LINE.search(trust.read_end(f"{facts.path}/logs/raylet.out", LOG_TAIL_BYTES)))
    return Folder(facts, started, latest, stopped, tuple(sorted(logs.nodes)), logs.files)


def date_writes(logs: Iterable[Logs]) -> Dict[str, float]:
    """By submission id: when the log of the job was last written (POSIX time). Only the latest jobs are listed."""
    found: List[Tuple[float, str]] = []
    for one in logs:
        for job, path in one.jobs.items():
            with suppress(OSError):  # it has been removed
                found.append((os.stat(path).st_mtime, job))
    return {make_legible(job): round(moment, 1) for moment, job in nlargest(MAX_JOBS, found)}


def is_session(name: str) -> bool:
    """Whether Ray gives such a name to the folder of a session."""
    return bool(_NAME.match(name))


def _has_log_open(process: ScannedProcess, session: str, log: str) -> bool:
    """If we may not see its open files: whether the log was written since the process started."""
    end = f"/{os.path.basename(session)}/logs/{log}"
    try:
        return any(link.endswith(end) for link in islice(open_files(process.pid), MAX_OPEN))
    except PermissionError:
        return _age(f"/proc/{process.pid}") >= _age(f"{session}/logs/{log}")
    except OSError:
        return False


def _age(path: str) -> float:
    try:
        return time.time() - os.stat(path).st_mtime
    except OSError:
        return 0.0


def _dashboard_address(process: ScannedProcess, port: int) -> str | None:
    """The address on which a dashboard really listens: with --port-retries it may use a later port than its flag says.

    If its sockets can't be seen, the flags count. `None` in another network namespace: at that address here, another program may listen.
    """
    argv = process.details.argv
    if is_in_our_namespace(process.pid, "net") is False:
        return None
    try:
        links = {*islice(open_files(process.pid), MAX_OPEN)}
    except PermissionError:
        return _url(flag(argv, "--host") or "127.0.0.1", port)
    except OSError:
        return None
    ports = range(port, port + (to_number(flag(argv, "--port-retries")) or 0) + 1)
    near = sorted((one.host, one.port) for one in listening_sockets(process.pid) if one.port in ports and one.link in links)
    return _url(*near[0]) if near else None


def _url(host: str, port: int) -> str:
    here = {"0.0.0.0": "127.0.0.1", "::": "::1", "localhost": "127.0.0.1"}.get(host, host)  # noqa: S104 to recognize it
    return f"http://[{here}]:{port}" if ":" in here else f"http://{here}:{port}"
