"""Raylets and GCSs that live on this host: which Ray, Python and training frameworks they have, and how near they are to their limits.

What is installed is read off the files that lie there: nothing of it is executed. The kernel counts processes and threads alike, as tasks.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from contextlib import suppress
from typing import Dict, Iterator, Mapping, NamedTuple, Tuple

from .. import trust
from .cgroups import CGROUPS, cgroup_folders
from .host import MemoryUse, lowest_limit
from .origin import flag
from .port_ranges import RayPorts, read_ray_ports
from .proc import has_capability, in_first_namespace, is_in_our_namespace, make_legible, read_at_once, read_or_nothing
from .processes import Identity, ProcessTable, ScannedProcess, read_environ
from .proxies import HttpProxy, find_http_proxy
from .roots import list_folder, resolve_links, root_of
from .start_flags import head_flags, raylet_flags
from .surroundings import RaySurroundings, read_surroundings

ROLES = ("raylet", "gcs_server")
MOST_SERVICES = 500
"""Raylets and GCSs that are looked at and told of, root's and ours first: anybody may call a program so."""
MOST_BYTES = 1 << 16
_RAY = re.compile(r'^version = "([^"\n]{1,40})"', re.MULTILINE)
_HEADER = re.compile(r'^#define\s+PY_VERSION\s+"([^"\n]{1,40})"', re.MULTILINE)
_VENV = re.compile(r"^version(?:_info)?\s*=\s*(\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?)", re.MULTILINE)
_INCLUDE = re.compile(r"python3\.\d+t?$")
_FRAMEWORK = re.compile(r"(openrlhf|verl)-(\d[\w.!+]{0,40}?)(?:-py3[\w.]*)?\.(?:dist|egg)-info$")
_SLURM_JOB = re.compile(
    r"^\d{1,9}:[^:\n]{0,200}:/(?:slurm(?:_[\w.-]{1,200})?|system\.slice/(?:[\w.-]{1,200}_)?slurmstepd\.scope)[^\n]{0,500}?/job_(\d{1,12})(?:/|$)",
    re.MULTILINE,
)
OF_HOST = (("threads", "/proc/sys/kernel/threads-max"), ("pids", "/proc/sys/kernel/pid_max"))
EXEMPT = 1 << 21 | 1 << 24
"""CAP_SYS_ADMIN and CAP_SYS_RESOURCE: for whoever has one of them `ulimit -u` doesn't count (kernel/fork.c), and for root neither."""
MOST_CHARS = 1024
"""Of a text that whoever calls a program raylet has chosen."""
MOST_PACKAGES = 10_000
"""Entries of a folder of packages: whoever calls a program raylet chooses the folder."""


class TaskLimit(NamedTuple):
    """One limit, and how near it is."""

    what: str
    """`user`, `cgroup`, `threads` (of the host) or `pids` (of the host)."""
    used: int
    limit: int
    path: str | None = None
    """A cgroup's file that says the limit."""


class Started(NamedTuple):
    """What stays the same while it lives."""

    ray: str | None = None
    python: str | None = None
    visible: str | None = None
    """Its CUDA_VISIBLE_DEVICES."""
    slurm: str | None = None
    """The Slurm job in which it was started."""
    gcs: str | None = None
    """Host and port of its GCS, or its own, as its command says."""
    gloo: str | None = None
    """Its GLOO_SOCKET_IFNAME."""
    proxy: HttpProxy | None = None
    """The HTTP proxy of its environment, which its workers and drivers inherit."""


class RayService(NamedTuple):
    """What is known of one of them beside what its row in the process table says."""

    started: Started = Started()
    files: int | None = None
    files_limit: int | None = None
    """The soft one, which `prlimit` changes while it lives."""
    frameworks: Mapping[str, str] | None = None
    """Of a raylet, which starts workers: releases of training frameworks that lie in the same folder as Ray."""
    tasks: Tuple[TaskLimit, ...] | None = None
    """A raylet's."""
    slurm_memory: MemoryUse | None = None
    """Of a raylet in a Slurm job: the limit that is above it, which Ray does not know of."""
    start: Mapping[str, str] | None = None
    """The flags of `ray start` that its command line shows; `None` of another user's: anybody can call a process so."""
    surroundings: RaySurroundings = RaySurroundings()
    """A raylet's."""
    ports: RayPorts | None = None


class Rays:
    """Looks again and again, and reads what stays only once."""

    def __init__(self) -> None:
        self._known: Dict[Identity, Started] = {}

    def read(self, table: ProcessTable) -> Dict[Identity, RayService]:
        """Of one that was too young when it was read everything is read again."""
        there = [process for process in table.values() if process.alive and process.origin.role in ROLES]
        there = sorted(there, key=lambda process: process.details.uid not in trust.own_uids())[:MOST_SERVICES]
        found = {process.identity: self._known.get(process.identity) or _read_started(process) for process in there}
        self._known = {process.identity: found[process.identity] for process in there if process.details.settled}
        return {process.identity: _service(process, found[process.identity], table) for process in there}


def _service(process: ScannedProcess, started: Started, table: ProcessTable) -> RayService:
    lines = ((line[:25].rstrip(), line[25:].split()) for line in read_or_nothing(f"/proc/{process.pid}/limits").splitlines())
    limits = {name: int(words[0]) for name, words in lines if words and words[0].isdigit()}  # the soft ones, not where `unlimited`
    files = _count_open_files(process.pid), limits.get("Max open files")
    start = _start_flags(process, table) if process.details.uid in trust.own_uids() else None
    role, in_our_network = process.origin.role, is_in_our_namespace(process.pid, "net") is True
    ports = read_ray_ports(role or "", process.details.argv, in_our_network=in_our_network) if process.details.argv else None
    if role != "raylet":
        return RayService(started, *files, start=start, ports=ports)
    installed = None if process.details.stuck else frameworks(process)
    memory = slurm_memory(process.pid) if started.slurm else None
    tasks = task_limits(process, table, limits.get("Max processes"))
    surroundings = read_surroundings(process, limits.get("Max locked memory"))
    return RayService(started, *files, installed, tasks, memory, start, surroundings, ports)


def _start_flags(process: ScannedProcess, table: ProcessTable) -> Mapping[str, str]:
    """Where the dashboard listens only its own command line says."""
    argv = process.details.argv
    if process.origin.role == "raylet":
        return raylet_flags(argv)
    session, own = process.origin.session, trust.own_uids()
    dashboards = (one.details.argv for one in table.values() if one.alive and one.origin.role == "dashboard" and one.details.uid in own)
    return head_flags(argv, next((argv for argv in dashboards if session and f"--session-dir={session}" in argv), ()))


def _read_started(process: ScannedProcess) -> Started:
    """Nothing of one that is stuck in the kernel: asking for its environment would hang.

    Anybody can call a process the raylet of a session of ours: where its head is, and by its environment in which Slurm job it runs, only
    root's and our own processes say.
    """
    if process.details.stuck:
        return Started()
    environ = read_environ(process.pid) or {}
    is_own = process.details.uid in trust.own_uids()
    texts = (environ.get("CUDA_VISIBLE_DEVICES"), gcs_address(process) if is_own else None, environ.get("GLOO_SOCKET_IFNAME"))
    shown, gcs, gloo = (None if text is None else make_legible(text[:MOST_CHARS]) for text in texts)
    slurm = read_slurm_job(process.pid, environ if is_own else {})
    return Started(ray_version(process), python_version(process), shown, slurm, gcs, gloo, find_http_proxy(environ))


def read_slurm_job(pid: int, environ: Mapping[str, str]) -> str | None:
    """The Slurm job in which a process was started: by its cgroup, and where Slurm makes none (proctrack/linuxproc) by its environment."""
    own = re.fullmatch(r"\d{1,12}", environ.get("SLURM_JOB_ID", ""), re.ASCII)
    return parse_slurm_job(read_or_nothing(f"/proc/{pid}/cgroup")) or (own[0] if own else None)


def parse_slurm_job(cgroups: str) -> str | None:
    """By /proc/PID/cgroup, which everybody may read and only root writes: `…/slurmstepd.scope/job_42/step_0/…`, `/slurm/uid_7/job_42/…`."""
    found = set(_SLURM_JOB.findall(cgroups))
    return found.pop() if len(found) == 1 else None


def slurm_memory(pid: int) -> MemoryUse | None:
    """Of a job, a step or whatever else is above it (cgroup.conf: ConstrainRAMSpace); `None`: no limit, or it can't be read."""
    return lowest_limit(cgroup_folders(read_or_nothing(f"/proc/{pid}/cgroup"), "memory", CGROUPS))


def _count_open_files(pid: int) -> int | None:
    """From Linux 6.2 on the folder's size is their number; before that they are counted."""
    try:
        return os.stat(f"/proc/{pid}/fd").st_size or len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return None


def gcs_address(process: ScannedProcess) -> str | None:
    """Of the GCS that a raylet has, or that it is itself, as its command says; `None` where that does not tell."""
    argv = process.details.argv
    if process.origin.role == "raylet":
        return flag(argv, "--gcs-address", "--gcs_address")
    if process.origin.role != "gcs_server":
        return None
    port = flag(argv, "--gcs_server_port", "--gcs-server-port")
    if not port or port == "0":  # it has chosen one itself
        return None
    return f"{flag(argv, '--node-ip-address', '--node_ip_address') or '127.0.0.1'}:{port}"


# What is installed


def ray_version(process: ScannedProcess) -> str | None:
    """Of the package that its program lies in: `.../ray/core/src/ray/raylet/raylet`."""
    package = _package(process)
    return _find_in_file(_RAY, root_of(process), f"{package}/_version.py") if package else None


def _package(process: ScannedProcess) -> str | None:
    package, found, _ = (process.details.argv[0] if process.details.argv else "").rpartition("/core/src/ray/")
    return package if found and package.startswith("/") else None


def frameworks(process: ScannedProcess) -> Mapping[str, str] | None:
    """Looked for anew each time: somebody may install another release while Ray lives. `None` where that folder can't be seen."""
    package = _package(process)
    if package is None:
        return None
    root = root_of(process)
    try:
        names = list_folder(root, os.path.dirname(package), MOST_PACKAGES)
    except OSError:
        return None
    found = [(match[1], match[2]) for match in map(_FRAMEWORK.match, names) if match]
    counts = Counter(name for name, _ in found)  # where a half removed one lies beside another, neither is believed
    return {name: release for name, release in found if counts[name] == 1}


def python_version(process: ScannedProcess) -> str | None:
    """Of the interpreter of a raylet's workers: the last number of it counts too, so that half of it is not told."""
    command = flag(process.details.argv, "--python_worker_command", "--python-worker-command") or ""
    interpreter = command.split(" ", 1)[0]
    if not interpreter.startswith("/"):
        return None
    root = root_of(process)
    try:
        found = resolve_links(root, interpreter)
    except OSError:
        return None
    real, prefix = (os.path.dirname(os.path.dirname(path)) for path in (found, interpreter))
    return _read_header(root, real) or _find_in_file(_VENV, root, f"{prefix}/pyvenv.cfg")


def _read_header(root: str, prefix: str) -> str | None:
    """By its C headers, where there are those of one Python only."""
    try:
        names = [name for name in list_folder(root, f"{prefix}/include", MOST_PACKAGES) if _INCLUDE.match(name)]
    except OSError:
        return None
    return _find_in_file(_HEADER, root, f"{prefix}/include/{names[0]}/patchlevel.h") if len(names) == 1 else None


def _find_in_file(pattern: re.Pattern[str], root: str, path: str) -> str | None:
    """In how that file begins; `None` also where there is none."""
    with suppress(OSError):
        found = pattern.search(trust.read_begin(root + resolve_links(root, path), MOST_BYTES).decode("utf-8", "replace"))
        return found[1] if found else None
    return None


# How many tasks there may be


def task_limits(process: ScannedProcess, table: ProcessTable, nproc: int | None) -> Tuple[TaskLimit, ...]:
    """Those that it and all that it starts must keep. `nproc` is its RLIMIT_NPROC."""
    return (*_of_user(process, table, nproc), *_of_cgroups(process.pid), *_of_host())


def _of_user(process: ScannedProcess, table: ProcessTable, nproc: int | None) -> Iterator[TaskLimit]:
    """In another user namespace they are counted apart from those that are seen here."""
    uid, pid = process.details.uid, process.pid
    if uid and nproc and not _is_exempt(pid) and is_in_our_namespace(pid, "user"):
        yield TaskLimit("user", sum(one.threads for one in table.values() if one.details.uid == uid), nproc)


def _is_exempt(pid: int) -> bool:
    return has_capability(pid, EXEMPT)


def _of_cgroups(pid: int) -> Iterator[TaskLimit]:
    """All above it count too: the one that is nearest to its limit."""
    found = [
        limit
        for folder in cgroup_folders(read_or_nothing(f"/proc/{pid}/cgroup"), "pids", CGROUPS)
        for limit in [_of_folder(folder)]
        if limit
    ]
    if found:
        yield max(found, key=lambda one: one.used / one.limit)


def _of_folder(folder: str) -> TaskLimit | None:
    """`None`: there is no limit, or it can't be read."""
    limit, used = (read_or_nothing(f"{folder}/{name}").strip() for name in ("pids.max", "pids.current"))
    known = limit.isdigit() and used.isdigit() and int(limit) > 0
    return TaskLimit("cgroup", int(used), int(limit), make_legible(f"{folder}/pids.max")) if known else None


def _of_host() -> Iterator[TaskLimit]:
    """Each thread takes a pid. In a container the two may speak of different things."""
    if not in_first_namespace():
        return
    try:
        used = int(read_at_once("/proc/loadavg", 256).split()[3].partition(b"/")[2])
        limits = [(what, int(read_at_once(path, 64))) for what, path in OF_HOST]
    except (OSError, ValueError, IndexError):
        return
    yield from (TaskLimit(what, used, limit) for what, limit in limits if limit > 0)
