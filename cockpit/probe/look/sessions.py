"""Ray sessions on this host: their folders, whether they live, their dashboards, their drivers."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from heapq import nlargest
from itertools import islice
from typing import Callable, Counter, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Set, Tuple

from .. import trust
from .kinds import Driver, SessionFolder, SocketListener
from .network import listening_sockets
from .origin import flag, to_number
from .proc import is_in_our_namespace, make_legible, open_files, read_link, user_name
from .processes import Identity, ProcessTable, ScannedProcess
from .session_folder import MOST_LOGS, Logs, MountKinds, Way, find_folder, inspect
from .tree import FileId, file_id, mount_kinds, mount_number, vouched_mounts

DEFAULT_TEMP = "/tmp/ray"  # noqa: S108 Ray's own default
_NAME = re.compile(r"session_(\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d)_\d+_\d+$")
_TOLD_TO_END = re.compile(rb'reason_message: "received SIGTERM"|received SIGTERM\. Existing local drain request')
MOST_JOBS = 200
MOST_OPEN, MOST_DASHBOARDS = 4000, 4
"""Open files of a process that are looked through, and what calls itself the dashboard of one session."""
MOST_NAMES = 2_000_000
"""Of anything in temp dirs, in which everybody may write."""
MOST_TEMPS, MOST_SESSIONS, MOST_OF_ONE = 256, 1000, 200
"""Of temp dirs, of sessions in all of them, and of those of another user: whoever names a temp dir may have filled it."""
LAST_WORDS_BYTES = 1 << 14


class Folder(NamedTuple):
    """A session's folder in one of Ray's temp dirs."""

    path: str
    facts: SessionFolder
    owner: str | None
    started: float | None
    latest: bool
    stopped: bool | None = None
    """Dead, and the latest: whether its raylet was told to end, as `ray stop` does, by the last words of its log."""
    nodes: Tuple[str, ...] = ()
    """Ray's ids of nodes whose raylets have written into it, by logs of its owner: also of other hosts, where these share the folder."""
    log_files: int = 0

    @property
    def answers(self) -> bool | None:
        """Whether a raylet of its owner's listens there; `None` when that can't be told."""
        return self.facts.answers


class Sessions(NamedTuple):
    """What is known of the sessions on this host."""

    folders: Tuple[Folder, ...] = ()
    """Those in Ray's temp dirs."""
    all: Tuple[SessionFolder, ...] = ()
    """These, and those that processes name in other places or containers."""
    of: Mapping[int, SessionFolder] = {}
    """By pid: the session that a process names or writes to."""
    drivers: Mapping[int, Driver] = {}
    dashboards: Mapping[str, str] = {}
    """By session folder, where its dashboard listens."""
    temps: Tuple[str, ...] = ()
    """Ray's temp dirs: those in use first."""
    logs: Tuple[Logs, ...] = ()
    """Of those that live."""


class SessionScanner:
    """Looks at sessions again and again, and remembers every temp dir it has heard of."""

    def __init__(self, temps: Iterable[str] = (), name: Callable[[int], str | None] = user_name) -> None:
        self.at = ""
        """The folder that is being read; its file system may hang."""
        self._name = name
        self._given: Dict[str, None] = dict.fromkeys(temps)
        self._heard: Tuple[str, ...] = ()
        self._logs: Dict[str, Logs] = {}
        self._vouched: MountKinds = {}
        self._foreign: Dict[str, MountKinds] = {}
        self._confirmed: Dict[Tuple[Identity, str], bool] = {}
        self._dashboards: Dict[Identity, str] = {}

    def hear(self, temp: str) -> None:
        """A person has named this temp dir."""
        self._given.setdefault(temp)

    def read(self, table: ProcessTable) -> Sessions:
        """The processes tell which temp dirs there are, and which sessions need not be asked."""
        self._vouched, self._foreign = vouched_mounts(), {}
        temps = self._known_temps(table)
        ways = _named_ways(table)
        listed = self._session_paths(temps)
        reached = tuple(dict.fromkeys([*map(Way, listed), *ways.values()]))
        carried = self._find_raylets(table, ways)
        seen = {way: inspect(self._go(way), self._find_kinds(way), self._logs.get(way.path, Logs()), carried) for way in reached}
        self._logs = {way.path: logs for way, (_, logs) in seen.items()}
        facts = {way: folder for way, (folder, _) in seen.items()}
        live = [path for path in listed if facts[Way(path)].answers]
        drivers = {pid: driver for path in live for pid, driver in self._drivers_of(path, table).items()}
        named = {pid: facts[way] for pid, way in ways.items()}
        return Sessions(
            folders=tuple(_folder(path, facts[Way(path)], self._name, self._logs[path]) for path in listed),
            all=tuple(facts.values()),
            of=named,
            drivers=drivers,
            dashboards=self._dashboards_of(table, named, {facts[Way(path)].place: path for path in listed}),
            temps=temps,
            logs=tuple(self._logs[path] for path in live),
        )

    def _go(self, way: Way) -> Way:
        self.at = way.path
        return way

    def _find_kinds(self, way: Way) -> MountKinds:
        if way.mount_namespace is None:
            return self._vouched
        if way.mount_namespace not in self._foreign:
            self._foreign[way.mount_namespace] = mount_kinds(way.pid or 0)
        return self._foreign[way.mount_namespace]

    def _is_there(self, path: str) -> bool:
        """Whether it is a folder of ours: not one in a mount namespace that somebody has made."""
        try:
            with trust.open_fd(self._go(Way(path)).path, trust.FOLDER_PLACE) as folder:
                return mount_number(folder) in self._vouched
        except OSError:
            return False

    def _known_temps(self, table: ProcessTable) -> Tuple[str, ...]:
        """Those of living raylets first, then what other processes name, then the usual ones; of all, what root's and our own name.

        Of very many only the first are looked into: no other user's crowd them out.
        """
        named = sorted(table.values(), key=lambda process: (process.details.uid not in trust.own_uids(), process.origin.role != "raylet"))
        places = ((os.path.dirname(process.origin.session or ""), process.origin.temp) for process in named)
        heard = [place for both in places for place in both if place]
        self._heard = tuple(islice(filter(self._is_there, dict.fromkeys([*heard, *self._heard])), MOST_TEMPS))
        return tuple(dict.fromkeys([*self._heard, *filter(self._is_there, self._given)]))

    def _drivers_of(self, session: str, table: ProcessTable) -> Dict[int, Driver]:
        """A driver keeps a log with its job and pid in its name open (2.9 to 2.60)."""
        found: Dict[int, Driver] = {}
        for pid, (job, log) in self._logs[session].drivers.items():
            process = table.get(pid)
            if process is None or not process.alive:
                continue
            key = process.identity, log
            if key not in self._confirmed:
                self._confirmed[key] = _holds(process, session, log)
            if self._confirmed[key]:
                found[pid] = Driver(process.ticks, session, job)
        here = {process.identity for process in table.values()}
        self._dashboards = {identity: address for identity, address in self._dashboards.items() if identity in here}
        self._confirmed = {key: yes for key, yes in self._confirmed.items() if key[0][0] in table}
        return found

    def _dashboards_of(
        self, table: ProcessTable, named: Mapping[int, SessionFolder], listed: Mapping[FileId | None, str]
    ) -> Dict[str, str]:
        """Only those that run as the session's owner, or as root: anybody can call a process a dashboard."""
        found: Dict[str, str] = {}
        tried: Counter[str | None] = Counter()
        for process in table.values():
            port = to_number(flag(process.details.argv, "--port"))
            if process.origin.role != "dashboard" or not process.alive or process.pid not in named or port is None:
                continue
            folder = named[process.pid]
            path = listed.get(folder.place) if folder.place else None
            tried[path] += 1
            if tried[path] > MOST_DASHBOARDS:
                continue
            address = self._address(process, port) if path and process.details.uid in (folder.uid, trust.ROOT) else None
            if path and address:
                found[path] = address
        return found

    def _address(self, process: ScannedProcess, port: int) -> str | None:
        known = self._dashboards.get(process.identity) or _dashboard_address(process, port)
        if known:
            self._dashboards[process.identity] = known
        return known

    def _find_raylets(self, table: ProcessTable, ways: Mapping[int, Way]) -> Dict[FileId, Tuple[SocketListener, ...]]:
        """By folder: its raylets that are seen to run as its owner or root. Nobody need connect to these, time and again."""
        found: Dict[FileId, Tuple[SocketListener, ...]] = {}
        for process in table.values():
            if process.alive and process.origin.role == "raylet" and process.pid in ways:
                way, uid = self._go(ways[process.pid]), process.details.uid
                where, owner = find_folder(way, self._find_kinds(way))
                if where is not None and uid is not None and uid in (owner, trust.ROOT):
                    found[where] = (*found.get(where, ()), SocketListener(process.pid, uid))
        return found

    def _session_paths(self, temps: Iterable[str]) -> Tuple[str, ...]:
        """Those in these temp dirs, each once: two may be one, by a link or a mount. Of very many root's and ours, then others' latest."""
        found: Dict[FileId, Tuple[bool, str, str]] = {}
        of: Dict[int | None, List[Tuple[str, FileId]]] = {}
        for path in islice(self._names(temps), MOST_LOGS):
            where, owner = find_folder(Way(path), self._vouched)
            if where is not None and where not in found:
                found[where] = owner in trust.own_uids(), os.path.basename(path), path
                of.setdefault(owner, []).append((os.path.basename(path), where))
        latest = []
        for owner, mine in of.items():
            most = MOST_SESSIONS if owner in trust.own_uids() else MOST_OF_ONE
            latest += [found[where] for _, where in nlargest(most, mine)]
        chosen = {path for _, _, path in nlargest(MOST_SESSIONS, latest)}
        return tuple(path for _, _, path in found.values() if path in chosen)

    def _names(self, temps: Iterable[str]) -> Iterator[str]:
        """Of all sessions in them; a temp dir with several names is read once."""
        read: Set[FileId] = set()
        left = MOST_NAMES
        for temp in temps:
            with suppress(OSError), os.scandir(self._go(Way(temp)).path) as entries:
                where = file_id(os.stat(temp))
                if where in read:
                    continue
                read.add(where)
                names = []
                for entry in islice(entries, left):
                    left -= 1
                    if _NAME.match(entry.name):
                        names.append(entry.name)
                yield from (f"{temp}/{name}" for name in sorted(names))


def _named_ways(table: ProcessTable) -> Dict[int, Way]:
    """By pid, the way to the session that a process names: into another mount namespace through the first process of its user in there."""
    ways: Dict[Tuple[str | None, int | None, str], Way] = {}
    found: Dict[int, Way] = {}
    for process in table.values():
        session, uid, namespace = process.origin.session, process.details.uid, process.details.mount_namespace
        if session:
            way = Way(session) if namespace is None else Way(f"/proc/{process.pid}/root{session}", namespace, process.pid, uid)
            found[process.pid] = ways.setdefault((namespace, uid if namespace else None, session), way)
    return found


def _folder(path: str, facts: SessionFolder, name_of: Callable[[int], str | None], logs: Logs) -> Folder:
    temp, name = os.path.split(path)
    latest = os.path.basename(read_link(f"{temp}/session_latest") or "") == name
    stopped = was_told_to_end(f"{path}/logs/raylet.out") if latest and facts.answers is False else None
    owner = name_of(facts.uid) if facts.uid is not None else None
    return Folder(path, facts, owner, _parse_start(name), latest, stopped, tuple(sorted(logs.records.nodes)), logs.files)


def was_told_to_end(log: str) -> bool | None:
    """Whether a raylet's last words tell of a SIGTERM."""
    try:
        return bool(_TOLD_TO_END.search(trust.read_end(log, LAST_WORDS_BYTES)))
    except OSError:
        return None


def date_writes(logs: Iterable[Logs]) -> Dict[str, float]:
    """By submission id, when its log was written to last; of the latest ones only."""
    found: List[Tuple[float, str]] = []
    for one in logs:
        for job, path in one.jobs.items():
            with suppress(OSError):  # it is gone
                found.append((os.stat(path).st_mtime, job))
    return {make_legible(job): round(moment, 1) for moment, job in nlargest(MOST_JOBS, found)}


def is_session(name: str) -> bool:
    """Whether Ray calls a session's folder so."""
    return bool(_NAME.match(name))


def _parse_start(name: str) -> float | None:
    """Its name holds this host's local time."""
    found = _NAME.match(name)
    try:
        return time.mktime(time.strptime(found[1], "%Y-%m-%d_%H-%M-%S")) if found else None
    except (ValueError, OverflowError):
        return None


def _holds(process: ScannedProcess, session: str, log: str) -> bool:
    """Whether it has that log open. Where its files can't be seen: whether the log was written since it was started."""
    end = f"/{os.path.basename(session)}/logs/{log}"
    try:
        return any(link.endswith(end) for link in islice(open_files(process.pid), MOST_OPEN))
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
    """Where a dashboard really listens: with --port-retries it may have moved on. Its flags where that can't be seen.

    In another network namespace its address is another place, where somebody else may listen here.
    """
    argv = process.details.argv
    if is_in_our_namespace(process.pid, "net") is False:
        return None
    try:
        links = {*islice(open_files(process.pid), MOST_OPEN)}
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
