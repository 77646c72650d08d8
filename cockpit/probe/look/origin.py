"""What a process's command line, environment and log file say about where it comes from. Pure.

Seen on Ray 2.9.3, 2.44.1 and 2.60.0: whatever a worker starts inherits `RAY_RAYLET_PID` and `RAY_JOB_ID` (`ffffffff` when the worker
was started before it had a job), and writes to `logs/worker-<id>-<job>-<pid of the worker>.out`. Whatever a submitted job's entrypoint
starts inherits `RAY_JOB_CONFIG_JSON_ENV_VAR` and writes to `logs/job-driver-<submission>.log`; up to 2.9 also the RAY_JOB_ID of its
supervisor, which is another job's. `ray::` titles leave the environment readable, because Ray sets SPT_NOENV.
"""

from __future__ import annotations

import json
import os
import re
from typing import Mapping, NamedTuple, Sequence

SERVICES = ("raylet", "gcs_server", "dashboard", "agent", "log_monitor", "autoscaler", "client_server")
WORKERS = ("worker", "supervisor")
MONITOR_SETTINGS = (
    "RAY_memory_usage_threshold",
    "RAY_min_memory_free_bytes",
    "RAY_memory_monitor_refresh_ms",
    "RAY_count_swap_in_memory_monitor",
)
SOCKET_INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
WANTED = frozenset(
    (*SOCKET_INTERFACES, "RAY_RAYLET_PID", "RAY_JOB_ID", "RAY_NODE_ID", "RAY_JOB_CONFIG_JSON_ENV_VAR", "RAY_TMPDIR", *MONITOR_SETTINGS),
)
"""The variables that are kept of an environment; the rest is read and forgotten."""

NO_JOB = "ffffffff"
_NUMBER = re.compile(r"[0-9]{1,18}")
_SESSION = re.compile(r"/session_\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d_\d{1,20}_\d{1,20}(?=/|$)")
_WORKER_LOG = re.compile(r"/logs/worker-[0-9a-f]+-([0-9a-f]{8})-([0-9]{1,10})\.(?:out|err)(?:\.\d+)?(?: \(deleted\))?$")
_JOB_LOG = re.compile(r"/logs/job-driver-(.+?)\.log(?: \(deleted\))?$")
_JOB_LINE = re.compile(rb"^:job_id:([0-9a-f]{8})$", re.MULTILINE)
_SCRIPTS = (
    ("ray/dashboard/dashboard.py", "dashboard"),
    ("ray/dashboard/agent.py", "agent"),
    ("ray/_private/runtime_env/agent/main.py", "agent"),
    ("ray/_private/log_monitor.py", "log_monitor"),
    ("ray/autoscaler/_private/monitor.py", "autoscaler"),
    ("ray.util.client.server", "client_server"),
    ("ray/_private/workers/default_worker.py", "worker"),
    ("ray/_private/workers/setup_worker.py", "worker"),
)
_TITLES = (
    ("ray::DashboardAgent", "agent"),
    ("ray::RuntimeEnvAgent", "agent"),
    ("ray-dashboard-", "dashboard"),
    ("ray::JobSupervisor", "supervisor"),
    ("ray::", "worker"),
)
_ENGINES = ("VLLM::", "vllm::", "sglang::", "sgl_diffusion::")
_SPAWNED = ("multiprocessing.spawn", "multiprocessing.forkserver", "--multiprocessing-fork")


class ProcessOrigin(NamedTuple):
    """The signs that a process carries. `None`: it carries no such sign."""

    role: str | None = None
    """What part of Ray it is: one of SERVICES or WORKERS."""
    session: str | None = None
    """The folder of the Ray session that it names or writes to."""
    raylet: int | None = None
    """RAY_RAYLET_PID: the raylet that started it or the worker it came from."""
    node: str | None = None
    job: str | None = None
    submission: str | None = None
    worker: int | None = None
    """The pid of the worker whose log it writes to, as that worker's PID namespace counts."""
    engine: str | None = None
    """An engine's process title: such a process is always started by another one, never by a shell."""
    temp: str | None = None
    """Ray's temp dir by RAY_TMPDIR."""
    readable: bool = True
    """Whether its environment could be read."""

    @property
    def from_ray(self) -> bool:
        """It was started by something of Ray."""
        return bool(self.raylet or self.worker or self.submission)


def trace(argv: Sequence[str], name: str, environ: Mapping[str, str] | None, logs: Sequence[str] = (), head: bytes = b"") -> ProcessOrigin:
    """`name` is the comm of /proc/PID/stat, `logs` what its stdout and stderr are open on, `head` how that log begins.

    An environment of `None` is unreadable.
    """
    role = _role(argv, name)
    known = environ or {}
    written = [match for match in map(_WORKER_LOG.search, logs) if match]
    submitted = [match[1] for match in map(_JOB_LOG.search, logs) if match]
    submission = _submission(known.get("RAY_JOB_CONFIG_JSON_ENV_VAR")) or (submitted[0] if submitted else None)
    job = known.get("RAY_JOB_ID") or (written[0][1] if written else None)
    return ProcessOrigin(
        role=role,
        session=_session(argv if role in SERVICES else (), logs),
        raylet=to_number(known.get("RAY_RAYLET_PID")),
        node=flag(argv, "--node_id", "--node-id") or known.get("RAY_NODE_ID"),
        job=None if submission or role == "supervisor" else _job(job, head),
        submission=submission,
        worker=int(written[0][2]) if written else None,
        engine=_engine(argv, name),
        temp=os.path.join(known["RAY_TMPDIR"], "ray") if known.get("RAY_TMPDIR") else None,
        readable=environ is not None,
    )


def _role(argv: Sequence[str], name: str) -> str | None:
    title = argv[0] if argv else name
    program = os.path.basename(title)
    if program == "raylet":
        return "raylet" if not argv or flag(argv, "--raylet_socket_name", "--raylet-socket-name") else None
    if program == "gcs_server":
        return "gcs_server" if not argv or flag(argv, "--log_dir", "--log-dir", "--gcs_server_port") else None
    for start, role in _TITLES:
        if title.startswith(start):
            return role
    return _script(argv) if program.startswith("python") else None


def _script(argv: Sequence[str]) -> str | None:
    """The part of Ray that Python was told to run; a file name among its arguments means nothing."""
    script = next((word for word in argv[1:] if not word.startswith("-")), "")
    return next((role for end, role in _SCRIPTS if script == end or script.endswith("/" + end)), None)


def flag(argv: Sequence[str], *names: str) -> str | None:
    """The value of the first `--name=value` there is; `None` when there is none, or it is empty."""
    for word in argv:
        flag, equals, value = word.partition("=")
        if equals and value and flag in names:
            return value
    return None


def _session(argv: Sequence[str], logs: Sequence[str]) -> str | None:
    """A service names its session in its flags, 2.9's gcs_server only in that of its log folder; others write to its logs."""
    said = flag(argv, "--session_dir", "--session-dir")
    if said:
        return said.rstrip("/")
    return next(filter(None, map(_session_in, [*argv[1:], *logs])), None)


def _session_in(word: str) -> str | None:
    """The path to a session's folder in it, from where that begins; in time that grows with its length alone, whoever has written it."""
    for found in _SESSION.finditer(word):
        begin = word.find("/", max(word.rfind(mark, 0, found.start()) for mark in "=:") + 1)
        if begin < found.start():
            return word[begin : found.end()]
    return None


def _submission(config: str | None) -> str | None:
    try:
        found = json.loads(config or "{}").get("metadata", {}).get("job_submission_id")
    except (ValueError, AttributeError, RecursionError):
        return None
    return found if isinstance(found, str) else None


def _job(said: str | None, head: bytes) -> str | None:
    """A worker writes the job it gets into the first lines of its log (2.9 to 2.60)."""
    if said != NO_JOB:
        return said
    found = _JOB_LINE.search(head)
    return found[1].decode() if found else None


def to_number(text: str | None) -> int | None:
    """`None` where it is none. Whoever runs a process writes its words and environment: `int` takes other digits too, and fails at many."""
    return int(text) if text and _NUMBER.fullmatch(text) else None


def _engine(argv: Sequence[str], name: str) -> str | None:
    """PyTorch names the main thread of *every* program `pt_main_thread`; only one that multiprocessing started has an engine as parent."""
    for title in (argv[0] if argv else "", name):
        if title.startswith(_ENGINES):
            return title
    spawned = name == "pt_main_thread" and any(mark in word for word in argv[1:] for mark in _SPAWNED)
    return name if spawned else None
