"""Ray sessions on this host: their folders, whether they live, their dashboards, their drivers."""

from __future__ import annotations

import errno
import os
import re
import socket
import stat
import time
from typing import Callable, Dict, Iterable, Mapping, NamedTuple, Tuple

from .kinds import Driver
from .origin import flag
from .proc import Forest, Identity, Process, legible, read, user_name
from .tree import FOLDER

DEFAULT_TEMP = "/tmp/ray"  # noqa: S108 Ray's own default
_NAME = re.compile(r"session_(\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d)_\d+_\d+$")
_DRIVER_LOG = re.compile(r"python-core-driver-([0-9a-f]{8})[0-9a-f]*_(\d+)\.log$")
_JOB_LOG = re.compile(r"job-driver-(.+)\.log$")
_RAYLET_LOG = re.compile(r"raylet(\.\d+)?\.out(\.\d+)?$")
_TOLD_TO_END = re.compile(rb'reason_message: "received SIGTERM"|received SIGTERM\. Existing local drain request')
_LISTEN = b"0A"
MOST_JOBS = 200
LAST_WORDS = 1 << 14


class Folder(NamedTuple):
    """A session's folder."""

    path: str
    owner: str | None
    started: float | None
    latest: bool
    answers: bool | None
    """Whether somebody listens on its raylet's socket; `None` when that can't be told."""
    stopped: bool | None = None
    """Dead, and the latest: whether its raylet was told to end, as `ray stop` does, by the last words of its log."""


class Logs(NamedTuple):
    """Logs in a session's folder that are of use here."""

    changed: int = 0
    """When the folder changed last, as its file system says."""
    drivers: Mapping[int, Tuple[str, str]] = {}
    """By pid of a driver: Ray's id of its job, and the name of the log that it keeps open."""
    jobs: Mapping[str, str] = {}
    """By submission id: where its entrypoint's output goes."""
    raylets: Tuple[str, ...] = ()


class Sessions(NamedTuple):
    """What is known of the sessions on this host."""

    folders: Tuple[Folder, ...] = ()
    drivers: Mapping[int, Driver] = {}
    dashboards: Mapping[str, str] = {}
    """By session folder, where its dashboard listens."""
    temps: Tuple[str, ...] = ()
    """Ray's temp dirs: those in use first."""
    logs: Tuple[Logs, ...] = ()
    """Of those that live."""


class Desk:
    """Looks at sessions again and again, and remembers every temp dir it has heard of."""

    def __init__(self, temps: Iterable[str] = (), name: Callable[[int], str | None] = user_name) -> None:
        self._name = name
        self._temps: Dict[str, None] = dict.fromkeys(temps)
        self._logs: Dict[str, Logs] = {}
        self._confirmed: Dict[Tuple[Identity, str], bool] = {}
        self._dashboards: Dict[Identity, str] = {}

    def hear(self, temp: str) -> None:
        """A person has named this temp dir."""
        self._temps.setdefault(temp)

    def read(self, forest: Forest) -> Sessions:
        """The processes tell which temp dirs there are, and which sessions need not be asked."""
        temps = self._known_temps(forest)
        carried = {process.origin.session for process in forest.values() if process.alive and process.origin.role == "raylet"}
        folders = tuple(folder for temp in temps for folder in _folders(temp, carried, self._name))
        live = [folder.path for folder in folders if folder.answers]
        self._logs = {path: _logs(path, self._logs.get(path, Logs())) for path in live}
        drivers = {pid: driver for path in live for pid, driver in self._drivers_of(path, forest).items()}
        return Sessions(_once(folders), drivers, self._dashboards_of(forest), temps, tuple(self._logs.values()))

    def _known_temps(self, forest: Forest) -> Tuple[str, ...]:
        """Those of living raylets first, then what other processes name, then the usual ones."""
        named = sorted(forest.values(), key=lambda process: process.origin.role != "raylet")
        heard = [os.path.dirname(process.origin.session) for process in named if process.origin.session]
        heard += [process.origin.temp for process in named if process.origin.temp]
        self._temps = dict.fromkeys([*heard, *self._temps])
        return tuple(temp for temp in self._temps if os.path.isdir(temp))

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
        self._confirmed = {key: yes for key, yes in self._confirmed.items() if key[0][0] in forest}
        return found

    def _dashboards_of(self, forest: Forest) -> Dict[str, str]:
        found: Dict[str, str] = {}
        for process in forest.values():
            session, port = process.origin.session, flag(process.details.argv, "--port")
            if process.origin.role != "dashboard" or not process.alive or not session or not port:
                continue
            if process.identity not in self._dashboards:
                address = _listening(process, int(port))
                if address is None:
                    continue
                self._dashboards[process.identity] = address
            found[session] = self._dashboards[process.identity]
        return found


def _logs(session: str, before: Logs) -> Logs:
    """Read only when the folder has changed: it may hold tens of thousands of files."""
    folder = f"{session}/logs"
    try:
        changed = os.stat(folder).st_mtime_ns
        names = os.listdir(folder) if changed != before.changed else None
    except OSError:
        return Logs()
    if names is None:
        return before
    names = [name for name in names if name.startswith(("python-core-driver-", "job-driver-", "raylet"))]
    drivers = [(match, name) for name in names for match in [_DRIVER_LOG.match(name)] if match]
    return Logs(
        changed,
        {int(match[2]): (match[1], name) for match, name in drivers},
        {match[1]: f"{folder}/{name}" for name in names for match in [_JOB_LOG.match(name)] if match},
        tuple(f"{folder}/{name}" for name in sorted(names) if _RAYLET_LOG.match(name)),
    )


def written(logs: Iterable[Logs]) -> Dict[str, float]:
    """By submission id, when its log was written to last; of the latest ones only."""
    found = {job: _changed(path) for one in logs for job, path in one.jobs.items()}
    latest = sorted(((moment, job) for job, moment in found.items() if moment is not None), reverse=True)[:MOST_JOBS]
    return {legible(job): round(moment, 1) for moment, job in latest}


def _changed(path: str) -> float | None:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return None


def _once(folders: Iterable[Folder]) -> Tuple[Folder, ...]:
    """Two temp dirs may be one, by a link."""
    return tuple({os.path.realpath(folder.path): folder for folder in reversed(tuple(folders))}.values())[::-1]


def _folders(temp: str, carried: Iterable[str | None], name_of: Callable[[int], str | None]) -> Iterable[Folder]:
    latest = os.path.basename(os.path.realpath(f"{temp}/session_latest"))
    try:
        names = sorted(name for name in os.listdir(temp) if _NAME.match(name))
    except OSError:
        return
    for name in names:
        path = f"{temp}/{name}"
        try:
            status = os.lstat(path)
        except OSError:
            continue  # removed since
        if stat.S_ISDIR(status.st_mode):
            answers = True if path in carried else _path_answers(path)
            stopped = told_to_end(f"{path}/logs/raylet.out") if name == latest and answers is False else None
            yield Folder(path, name_of(status.st_uid), _started(name), name == latest, answers, stopped)


def told_to_end(log: str) -> bool | None:
    """Whether a raylet's last words tell of a SIGTERM."""
    try:
        file = os.open(log, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return bool(_TOLD_TO_END.search(os.pread(file, LAST_WORDS, max(0, os.fstat(file).st_size - LAST_WORDS))))
    except OSError:
        return None
    finally:
        os.close(file)


def is_session(name: str) -> bool:
    """Whether Ray calls a session's folder so."""
    return bool(_NAME.match(name))


def _started(name: str) -> float | None:
    """Its name holds this host's local time."""
    found = _NAME.match(name)
    try:
        return time.mktime(time.strptime(found[1], "%Y-%m-%d_%H-%M-%S")) if found else None
    except (ValueError, OverflowError):
        return None


def _path_answers(path: str) -> bool | None:
    try:
        session = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        return answers(session)
    finally:
        os.close(session)


def answers(session: int) -> bool | None:
    """Whether a raylet listens in that open session folder. Several raylets of one session on a host have numbered sockets."""
    try:
        folder = os.open("sockets", FOLDER, dir_fd=session)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        found = [_connects(f"/proc/self/fd/{folder}/{name}") for name in os.listdir(folder) if name.startswith("raylet")]
        return True if True in found else None if None in found else False
    except OSError:
        return None
    finally:
        os.close(folder)


def _connects(path: str) -> bool | None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.setblocking(False)
        try:
            sock.connect(path)
        except BlockingIOError:
            return True  # its queue is full: it is stopped or busy, but it is there
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError as error:
            return False if error.errno == errno.ENOTSOCK else None
    return True


def _holds(process: Process, session: str, log: str) -> bool:
    """Whether it has that log open. Where its files can't be seen: whether the log was written since it was started."""
    end = f"/{os.path.basename(session)}/logs/{log}"
    folder = f"/proc/{process.pid}/fd"
    try:
        return any(_target(f"{folder}/{name}").endswith(end) for name in os.listdir(folder))
    except PermissionError:
        return _age(f"/proc/{process.pid}") >= _age(f"{session}/logs/{log}")
    except OSError:
        return False


def _age(path: str) -> float:
    try:
        return time.time() - os.stat(path).st_mtime
    except OSError:
        return 0.0


def _target(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _listening(process: Process, port: int) -> str | None:
    """Where a dashboard really listens: with --port-retries it may have moved on. Its flags where that can't be seen."""
    argv = process.details.argv
    host = flag(argv, "--host") or "127.0.0.1"
    try:
        places = _listeners(process.pid)
    except PermissionError:
        return _url(host, port)
    except OSError:
        return None
    ports = range(port, port + int(flag(argv, "--port-retries") or 0) + 1)
    near = sorted(place for place in places if place[1] in ports)
    return _url(*near[0]) if near else None


def _listeners(pid: int) -> list[Tuple[str, int]]:
    """The addresses that one process listens on, in its own network namespace."""
    folder = f"/proc/{pid}/fd"
    sockets = {_target(f"{folder}/{name}") for name in os.listdir(folder)}
    found = []
    for family, table in ((socket.AF_INET, "tcp"), (socket.AF_INET6, "tcp6")):
        for line in read(f"/proc/{pid}/net/{table}").splitlines()[1:]:
            words = line.split()
            if words[3] == _LISTEN and f"socket:[{words[9].decode()}]" in sockets:
                found.append(_place(family, words[1].decode()))
    return found


def _place(family: socket.AddressFamily, text: str) -> Tuple[str, int]:
    """`0100007F:1F41` is 127.0.0.1:8001: words of four bytes, each in the order of this machine's processor (little-endian ones)."""
    address, _, port = text.partition(":")
    raw = bytes.fromhex(address)
    turned = b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
    return socket.inet_ntop(family, turned), int(port, 16)


def _url(host: str, port: int) -> str:
    here = {"0.0.0.0": "127.0.0.1", "::": "127.0.0.1", "localhost": "127.0.0.1"}.get(host, host)  # noqa: S104 to recognize it
    return f"http://[{here}]:{port}" if ":" in here else f"http://{here}:{port}"
