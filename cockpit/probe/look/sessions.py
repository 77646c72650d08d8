"""Ray sessions on this host: their folders, whether they live, their dashboards, their drivers."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from heapq import nlargest
from itertools import islice
from typing import Callable, Container, Dict, FrozenSet, Iterable, List, Mapping, NamedTuple, Tuple

from .. import trust
from .kinds import Driver, Listener, SessionFolder
from .network import listening_sockets
from .origin import flag, to_number
from .proc import legible, open_files, user_name
from .processes import Forest, Identity, ScannedProcess
from .session_folder import FolderPlace, Records, Way, find_place, inspect, raylet_logs, read_records
from .tree import Place, mount_number, vouched_mounts

DEFAULT_TEMP = "/tmp/ray"  # noqa: S108 Ray's own default
_NAME = re.compile(r"session_(\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d)_\d+_\d+$")
_DRIVER_LOG = re.compile(r"python-core-driver-([0-9a-f]{8})[0-9a-f]*_([0-9]{1,10})\.log$")
_JOB_LOG = re.compile(r"job-driver-(.+)\.log$")
_TOLD_TO_END = re.compile(rb'reason_message: "received SIGTERM"|received SIGTERM\. Existing local drain request')
MOST_JOBS = 200
MOST_TEMPS, MOST_SESSIONS, MOST_LOGS = 256, 1000, 200_000
"""Of temp dirs, of sessions in all of them, of files in a folder: whoever names a temp dir may have filled it."""
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

    @property
    def answers(self) -> bool | None:
        """Whether a raylet of its owner's listens there; `None` when that can't be told."""
        return self.facts.answers


class Logs(NamedTuple):
    """Logs in a session's folder that are of use here."""

    changed: int = 0
    """When the folder changed last, as its file system says."""
    drivers: Mapping[int, Tuple[str, str]] = {}
    """By pid of a driver: Ray's id of its job, and the name of the log that it keeps open."""
    jobs: Mapping[str, str] = {}
    """By submission id: where its entrypoint's output goes."""
    raylets: Tuple[str, ...] = ()
    """Names of the raylets' logs."""
    records: Records = Records()
    path: str = ""
    """The folder of these logs."""


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
        self._vouched: FrozenSet[int] = frozenset()
        self._confirmed: Dict[Tuple[Identity, str], bool] = {}
        self._dashboards: Dict[Identity, str] = {}

    def hear(self, temp: str) -> None:
        """A person has named this temp dir."""
        self._given.setdefault(temp)

    def read(self, forest: Forest) -> Sessions:
        """The processes tell which temp dirs there are, and which sessions need not be asked."""
        self._vouched = vouched_mounts()
        temps = self._known_temps(forest)
        paths = _named_ways(forest)
        listed = _session_paths(map(self._go, temps), self._vouched)
        reached = dict.fromkeys([*map(Way, listed), *paths.values()])
        places = {way: find_place(way._replace(path=self._go(way.path)), self._vouched) for way in reached}
        carried = _find_raylets(forest, paths, places)
        self._logs = {way.path: self._read_logs(self._go(way.path), places[way].uid) for way in reached}
        facts = {
            way: inspect(way._replace(path=self._go(way.path)), self._vouched, self._logs[way.path].records, carried.get(found.place, ()))
            for way, found in places.items()
        }
        live = [path for path in listed if facts[Way(path)].answers]
        drivers = {pid: driver for path in live for pid, driver in self._drivers_of(path, forest).items()}
        return Sessions(
            folders=tuple(_folder(path, facts[Way(path)], self._name) for path in listed),
            all=tuple(facts.values()),
            of={pid: facts[way] for pid, way in paths.items()},
            drivers=drivers,
            dashboards=self._dashboards_of(
                forest, {pid: places[way] for pid, way in paths.items()}, {facts[Way(path)].place: path for path in listed}
            ),
            temps=temps,
            logs=tuple(self._logs[path] for path in live),
        )

    def _go(self, path: str) -> str:
        self.at = path
        return path

    def _is_there(self, path: str) -> bool:
        """Whether it is a folder of ours: not one in a mount namespace that somebody has made."""
        try:
            with trust.opened(self._go(path), trust.FOLDER_PLACE) as folder:
                return mount_number(folder) in self._vouched
        except OSError:
            return False

    def _known_temps(self, forest: Forest) -> Tuple[str, ...]:
        """Those of living raylets first, then what other processes name, then the usual ones; of all, what root's and our own name.

        Of very many only the first are looked into: no other user's crowd them out.
        """
        named = sorted(forest.values(), key=lambda process: (process.details.uid not in trust.own_uids(), process.origin.role != "raylet"))
        places = ((os.path.dirname(process.origin.session or ""), process.origin.temp) for process in named)
        heard = [place for both in places for place in both if place]
        self._heard = tuple(islice(filter(self._is_there, dict.fromkeys([*heard, *self._heard])), MOST_TEMPS))
        return tuple(dict.fromkeys([*self._heard, *filter(self._is_there, self._given)]))

    def _drivers_of(self, session: str, forest: Forest) -> Dict[int, Driver]:
        """A driver keeps a log with its job and pid in its name open (2.9 to 2.60)."""
        found: Dict[int, Driver] = {}
        for pid, (job, log) in self._logs[session].drivers.items():
            process = forest.get(pid)
            if process is None or not process.alive:
                continue
            key = process.identity, log
            if key not in self._confirmed:
                self._confirmed[key] = _holds(process, session, log)
            if self._confirmed[key]:
                found[pid] = Driver(process.ticks, session, job)
        here = {process.identity for process in forest.values()}
        self._dashboards = {identity: address for identity, address in self._dashboards.items() if identity in here}
        self._confirmed = {key: yes for key, yes in self._confirmed.items() if key[0][0] in forest}
        return found

    def _dashboards_of(self, forest: Forest, named: Mapping[int, FolderPlace], listed: Mapping[Place | None, str]) -> Dict[str, str]:
        """Only those that run as the session's owner, or as root: anybody can call a process a dashboard."""
        found: Dict[str, str] = {}
        for process in forest.values():
            port = to_number(flag(process.details.argv, "--port"))
            if process.origin.role != "dashboard" or not process.alive or process.pid not in named or port is None:
                continue
            where, owner = named[process.pid]
            path = listed.get(where) if where else None
            address = self._address(process, port) if path and process.details.uid in (owner, trust.ROOT) else None
            if path and address:
                found[path] = address
        return found

    def _address(self, process: ScannedProcess, port: int) -> str | None:
        known = self._dashboards.get(process.identity) or _dashboard_address(process, port)
        if known:
            self._dashboards[process.identity] = known
        return known

    def _read_logs(self, session: str, uid: int | None) -> Logs:
        """Read only when the folder has changed: it may hold tens of thousands of files. `uid`: its owner."""
        before, logs = self._logs.get(session, Logs()), f"{session}/logs"
        try:
            changed = os.stat(logs).st_mtime_ns
            names = _names(logs) if changed != before.changed else None
        except OSError:
            return Logs()
        raylets = before.raylets if names is None else raylet_logs(names)
        records = before.records
        if uid is not None and raylets and (names is not None or not records.raylets):
            records = read_records(logs, raylets, uid)
        if names is None:
            return before._replace(records=records)
        drivers = [(match, name) for name in names for match in [_DRIVER_LOG.match(name)] if match]
        return Logs(
            changed,
            {int(match[2]): (match[1], name) for match, name in drivers},
            {match[1]: f"{logs}/{name}" for name in names for match in [_JOB_LOG.match(name)] if match},
            raylets,
            records,
            logs,
        )


def _names(folder: str) -> Tuple[str, ...]:
    with os.scandir(folder) as entries:
        return tuple(entry.name for entry in islice(entries, MOST_LOGS))


def _named_ways(forest: Forest) -> Dict[int, Way]:
    """By pid, the way to the session that a process names: into another mount namespace through the first process of its user in there."""
    ways: Dict[Tuple[str | None, int | None, str], Way] = {}
    found: Dict[int, Way] = {}
    for process in forest.values():
        session, (uid, mounts) = process.origin.session, (process.details.uid, process.details.mounts)
        if session:
            way = Way(session) if mounts is None else Way(f"/proc/{process.pid}/root{session}", mounts, uid)
            found[process.pid] = ways.setdefault((mounts, uid if mounts else None, session), way)
    return found


def _find_raylets(forest: Forest, ways: Mapping[int, Way], places: Mapping[Way, FolderPlace]) -> Dict[Place | None, Tuple[Listener, ...]]:
    """By folder: its raylets that are seen to run as its owner or root. Nobody need connect to these, time and again."""
    found: Dict[Place | None, Tuple[Listener, ...]] = {}
    for process in forest.values():
        if process.alive and process.origin.role == "raylet" and process.pid in ways:
            (where, owner), uid = places[ways[process.pid]], process.details.uid
            if where is not None and uid is not None and uid in (owner, trust.ROOT):
                found[where] = (*found.get(where, ()), Listener(process.pid, uid))
    return found


def _session_paths(temps: Iterable[str], vouched: Container[int]) -> Tuple[str, ...]:
    """The sessions in these temp dirs, each once: two may be one, by a link or a mount. Of very many root's and ours, then the latest."""
    paths = islice((f"{temp}/{name}" for temp in temps for name in _names_in(temp)), MOST_LOGS)
    found: Dict[Place, Tuple[bool, str, str]] = {}
    for path in paths:
        where, uid = find_place(Way(path), vouched)
        if where is not None:
            found.setdefault(where, (uid in trust.own_uids(), os.path.basename(path), path))
    chosen = {path for _, _, path in nlargest(MOST_SESSIONS, found.values())}
    return tuple(path for _, _, path in found.values() if path in chosen)


def _names_in(temp: str) -> Iterable[str]:
    with suppress(OSError):
        return sorted(filter(_NAME.match, _names(temp)))
    return ()


def _folder(path: str, facts: SessionFolder, name_of: Callable[[int], str | None]) -> Folder:
    temp, name = os.path.split(path)
    latest = os.path.basename(os.path.realpath(f"{temp}/session_latest")) == name
    stopped = was_told_to_end(f"{path}/logs/raylet.out") if latest and facts.answers is False else None
    return Folder(path, facts, name_of(facts.uid) if facts.uid is not None else None, _parse_start(name), latest, stopped)


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
    return {legible(job): round(moment, 1) for moment, job in nlargest(MOST_JOBS, found)}


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
        return any(link.endswith(end) for link in open_files(process.pid))
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
    """Where a dashboard really listens: with --port-retries it may have moved on. Its flags where that can't be seen."""
    argv = process.details.argv
    try:
        links = {*open_files(process.pid)}
    except PermissionError:
        return _url(flag(argv, "--host") or "127.0.0.1", port)
    except OSError:
        return None
    ports = range(port, port + (to_number(flag(argv, "--port-retries")) or 0) + 1)
    near = sorted((one.host, one.port) for one in listening_sockets(process.pid) if one.port in ports and one.link in links)
    return _url(*near[0]) if near else None


def _url(host: str, port: int) -> str:
    here = {"0.0.0.0": "127.0.0.1", "::": "127.0.0.1", "localhost": "127.0.0.1"}.get(host, host)  # noqa: S104 to recognize it
    return f"http://[{here}]:{port}" if ":" in here else f"http://{here}:{port}"
