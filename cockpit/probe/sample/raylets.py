"""Reads the live raylets and GCSs of this host: their Ray, Python and training frameworks, their settings, and how near their limits are.

Versions are read from installed files; nothing is executed. The kernel counts processes and threads alike, as tasks.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from contextlib import suppress
from typing import Any, Dict, List, Mapping, NamedTuple, Tuple

from .. import trust
from .cgroups import folders_above, parse_slurm_job
from .host import lowest_limit
from .kill_line import isolation_folder
from .origin import flag
from .port_ranges import read_ray_ports
from .proc import has_capability, in_first_namespace, is_in_our_namespace, make_legible, read, read_or_nothing
from .processes import Identity, ProcessTable, ScannedProcess, read_environ
from .proxies import find_http_proxy
from .roots import list_folder, resolve_links, root_of
from .start_flags import head_flags, raylet_flags
from .surroundings import read_surroundings

ROLES = ("raylet", "gcs_server")
MAX_SERVICES = 500
"""Raylets and GCSs that are read and listed, root's and our user's first: any user can name a program like them."""
MAX_BYTES = 1 << 16
_RAY = re.compile(r'^version = "([^"\n]{1,40})"', re.MULTILINE)
_HEADER = re.compile(r'^#define\s+PY_VERSION\s+"([^"\n]{1,40})"', re.MULTILINE)
_VENV = re.compile(r"^version(?:_info)?\s*=\s*(\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?)", re.MULTILINE)
_INCLUDE = re.compile(r"python3\.\d+t?$")
_FRAMEWORK = re.compile(r"(openrlhf|verl)-(\d[\w.!+]{0,40}?)(?:-py3[\w.]*)?\.(?:dist|egg)-info$")
OF_HOST = (("threads", "/proc/sys/kernel/threads-max"), ("pids", "/proc/sys/kernel/pid_max"))
EXEMPT = 1 << 21 | 1 << 24
"""CAP_SYS_ADMIN and CAP_SYS_RESOURCE: `ulimit -u` does not apply to a process with one of them, nor to root (kernel/fork.c)."""
MAX_CHARS = 1024
"""Characters kept of a text: any user can name a program raylet, and choose its texts."""
MAX_PACKAGES = 10_000
"""Entries read of a folder of packages: any user can name a program raylet, and choose this folder."""

Fact = Dict[str, Any]
"""Facts of one raylet or GCS, by the names in `RayProcess` of cockpit.model, which explains them. A missing one is unknown."""


class TaskLimit(NamedTuple):
    """One limit of tasks, and its use."""

    what: str
    """`user`, `cgroup`, `threads` (of the host) or `pids` (of the host)."""
    used: int
    limit: int
    path: str | None = None
    """The file of the cgroup that sets the limit."""


class ServiceReader:
    """Reads the services again and again, and their unchanging facts only once."""

    def __init__(self) -> None:
        self._known: Dict[Identity, Fact] = {}

    def read(self, table: ProcessTable) -> Dict[Identity, Fact]:
        """The unchanging facts of a very young process are read again."""
        there = [process for process in table.values() if process.alive and process.origin.role in ROLES]
        there = sorted(there, key=lambda process: process.details.uid not in trust.own_uids())[:MAX_SERVICES]
        found = {process.identity: self._known.get(process.identity) or _read_started(process) for process in there}
        self._known = {process.identity: found[process.identity] for process in there if process.details.settled}
        return {process.identity: _read_service(process, found[process.identity], table) for process in there}


def _read_started(process: ScannedProcess) -> Fact:
    """The facts that do not change while it lives.

    Reads nothing of a process that is stuck in the kernel, because reading its environment would hang. Any user can start a process that
    looks like the raylet of our session. So the address of the head, and the Slurm job in the environment, are believed only from processes
    of root and of our user.
    """
    if process.details.stuck:
        return {}
    environ = read_environ(process.pid) or {}
    is_own = process.details.uid in trust.own_uids()
    texts = (environ.get("CUDA_VISIBLE_DEVICES"), gcs_address(process) if is_own else None, environ.get("GLOO_SOCKET_IFNAME"))
    visible, gcs, gloo = (None if text is None else make_legible(text[:MAX_CHARS]) for text in texts)
    proxy = find_http_proxy(environ)
    return {
        "ray": ray_version(process),
        "python": python_version(process),
        "visible": visible,
        "slurm": read_slurm_job(process.pid, environ if is_own else {}),
        "gcs": gcs,
        "gloo": gloo,
        "proxy": proxy and proxy._asdict(),
    }


def _read_service(process: ScannedProcess, started: Fact, table: ProcessTable) -> Fact:
    pid, role, argv, own = process.pid, process.origin.role, process.details.argv, trust.own_uids()
    lines = ((line[:25].rstrip(), line[25:].split()) for line in read_or_nothing(f"/proc/{pid}/limits").splitlines())
    limits = {name: int(words[0]) for name, words in lines if words and words[0].isdigit()}  # soft limits, without `unlimited` ones
    found: Fact = {**started, "files_limit": limits.get("Max open files")}
    with suppress(OSError):  # Linux 6.2 and later report the number as the size of the folder, older ones 0
        found["files"] = os.stat(f"/proc/{pid}/fd").st_size or len(os.listdir(f"/proc/{pid}/fd"))
    if argv:
        ports = read_ray_ports(role or "", argv, in_our_network=is_in_our_namespace(pid, "net") is True)
        found["ports"] = {**ports._asdict(), "fixed": dict(ports.fixed)}

    # The flags of `ray start` that its command line shows; not of other users, who can fake such a process.
    if process.details.uid in own and role == "raylet":
        found["start"] = raylet_flags(argv)
    elif process.details.uid in own:
        # The address of the dashboard is only in the dashboard's own command line.
        session = process.origin.session
        dashboards = (one.details.argv for one in table.values() if one.alive and one.origin.role == "dashboard" and one.details.uid in own)
        found["start"] = head_flags(argv, next((words for words in dashboards if session and f"--session-dir={session}" in words), ()))

    if role == "raylet":
        found["frameworks"] = None if process.details.stuck else frameworks(process)
        found["tasks"] = [limit._asdict() for limit in task_limits(process, table, limits.get("Max processes"))]
        # The lowest memory limit of its Slurm job or step (cgroup.conf: ConstrainRAMSpace). Ray does not know it.
        memory = lowest_limit(folders_above(pid, "memory")) if started.get("slurm") else None
        found["slurm_memory"] = memory and {"used": memory.used, "total": memory.total}
        found["isolation"] = isolation_folder(process, started.get("ray"))
        found.update(read_surroundings(process, limits.get("Max locked memory")))
    return found


def read_slurm_job(pid: int, environ: Mapping[str, str]) -> str | None:
    """The Slurm job of a process, from its cgroup; from its environment if Slurm makes no cgroups (proctrack/linuxproc)."""
    own = re.fullmatch(r"\d{1,12}", environ.get("SLURM_JOB_ID", ""), re.ASCII)
    return parse_slurm_job(read_or_nothing(f"/proc/{pid}/cgroup")) or (own[0] if own else None)


def gcs_address(process: ScannedProcess) -> str | None:
    """The address of a raylet's GCS, or of the GCS itself, from its command line; `None` if it is not there."""
    argv = process.details.argv
    if process.origin.role == "raylet":
        return flag(argv, "--gcs-address", "--gcs_address")
    if process.origin.role != "gcs_server":
        return None
    port = flag(argv, "--gcs_server_port", "--gcs-server-port")
    if not port or port == "0":  # the GCS has chosen a free port itself
        return None
    return f"{flag(argv, '--node-ip-address', '--node_ip_address') or '127.0.0.1'}:{port}"


# Installed versions


def ray_version(process: ScannedProcess) -> str | None:
    """The version of the Ray package that contains its program: `.../ray/core/src/ray/raylet/raylet`."""
    package = _package(process)
    return _find_in_file(_RAY, root_of(process), f"{package}/_version.py") if package else None


def _package(process: ScannedProcess) -> str | None:
    package, found, _ = (process.details.argv[0] if process.details.argv else "").rpartition("/core/src/ray/")
    return package if found and package.startswith("/") else None


def frameworks(process: ScannedProcess) -> Mapping[str, str] | None:
    """Read again each time, because another release may be installed while Ray lives. `None` if the folder can't be read."""
    package = _package(process)
    if package is None:
        return None
    root = root_of(process)
    try:
        names = list_folder(root, os.path.dirname(package), MAX_PACKAGES)
    except OSError:
        return None
    found = [(match[1], match[2]) for match in map(_FRAMEWORK.match, names) if match]
    counts = Counter(name for name, _ in found)  # of two releases of one framework, one was half removed: neither is believed
    return {name: release for name, release in found if counts[name] == 1}


def python_version(process: ScannedProcess) -> str | None:
    """The full version of the Python of a raylet's workers, last number included; `None` if it can't be read."""
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
    # Its C headers have the version, if there are headers of only one Python.
    with suppress(OSError):
        names = [name for name in list_folder(root, f"{real}/include", MAX_PACKAGES) if _INCLUDE.match(name)]
        version = _find_in_file(_HEADER, root, f"{real}/include/{names[0]}/patchlevel.h") if len(names) == 1 else None
        if version is not None:
            return version
    return _find_in_file(_VENV, root, f"{prefix}/pyvenv.cfg")


def _find_in_file(pattern: re.Pattern[str], root: str, path: str) -> str | None:
    """The first match in the first MAX_BYTES of the file; `None` also if there is no such file."""
    with suppress(OSError):
        found = pattern.search(trust.read_begin(root + resolve_links(root, path), MAX_BYTES).decode("utf-8", "replace"))
        return found[1] if found else None
    return None


# Limits of tasks


def task_limits(process: ScannedProcess, table: ProcessTable, nproc: int | None) -> Tuple[TaskLimit, ...]:
    """The limits that a process and its descendants share. `nproc` is its RLIMIT_NPROC. Threads count as tasks."""
    pid, uid = process.pid, process.details.uid
    found: List[TaskLimit] = []

    # The limit of its user. In another user namespace, the kernel does not count the tasks that we see here.
    if uid and nproc and not has_capability(pid, EXEMPT) and is_in_our_namespace(pid, "user"):
        found.append(TaskLimit("user", sum(one.threads for one in table.values() if one.details.uid == uid), nproc))

    # The limits of its cgroup and of all cgroups above it: only the one that is nearest to its limit is reported.
    cgroups: List[TaskLimit] = []
    for folder in folders_above(pid, "pids"):
        limit, used = (read_or_nothing(f"{folder}/{name}").strip() for name in ("pids.max", "pids.current"))
        if limit.isdigit() and used.isdigit() and int(limit) > 0:
            cgroups.append(TaskLimit("cgroup", int(used), int(limit), make_legible(f"{folder}/pids.max")))
    if cgroups:
        found.append(max(cgroups, key=lambda one: one.used / one.limit))

    # The limits of the host; each thread takes a pid. In a container, the count and the limits may belong to different namespaces.
    if in_first_namespace():
        with suppress(OSError, ValueError, IndexError):
            number = int(read("/proc/loadavg", 256).split()[3].partition(b"/")[2])
            limits = [(what, int(read(path, 64))) for what, path in OF_HOST]
            found += [TaskLimit(what, number, limit) for what, limit in limits if limit > 0]
    return tuple(found)
