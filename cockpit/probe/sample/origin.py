"""Reads from a process's command line, environment and log file where the process comes from (pure functions).

Seen on Ray 2.9.3, 2.44.1 and 2.60.0: the children of a worker inherit `RAY_RAYLET_PID` and `RAY_JOB_ID` (`ffffffff` if the worker was
started before it had a job), and write to `logs/worker-<id>-<job>-<pid of the worker>.out`. The children of a submitted job's entrypoint
inherit `RAY_JOB_CONFIG_JSON_ENV_VAR` and write to `logs/job-driver-<submission>.log`; up to 2.9 they also inherit the RAY_JOB_ID of the
supervisor, which belongs to another job. `ray::` titles leave the environment readable, because Ray sets SPT_NOENV.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
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
"""The variables of an environment that are kept; the others are read and forgotten."""

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
    """The signs of its origin that a process carries. `None`: it has no such sign."""

    role: str | None = None
    """Its part in Ray: one of SERVICES or WORKERS."""
    session: str | None = None
    """The folder of the Ray session that it names or writes to."""
    raylet: int | None = None
    """RAY_RAYLET_PID: the raylet that started it, or that started its worker."""
    node: str | None = None
    job: str | None = None
    submission: str | None = None
    worker: int | None = None
    """The pid of the worker whose log it writes to, in that worker's PID namespace."""
    engine: str | None = None
    """The process title of an inference engine: another process always starts it, never a shell."""
    temp: str | None = None
    """Ray's temp dir in RAY_TMPDIR."""
    readable: bool = True
    """Whether its environment could be read."""

    @property
    def from_ray(self) -> bool:
        """Whether a worker or a submitted job of Ray started it."""
        return bool(self.raylet or self.worker or self.submission)


def trace(argv: Sequence[str], name: str, environ: Mapping[str, str] | None, logs: Sequence[str] = (), head: bytes = b"") -> ProcessOrigin:
    """`name`: the comm in /proc/PID/stat. `environ`: `None` if it can't be read.

    `logs`: the files that are its stdout and stderr. `head`: the first bytes of that log.
    """
    role = _role(argv, name)
    variables = environ or {}
    worker_log = next((match for match in map(_WORKER_LOG.search, logs) if match), None)
    job_log = next((match for match in map(_JOB_LOG.search, logs) if match), None)
    submission: str | None = None
    with suppress(ValueError, AttributeError, RecursionError):  # any user may have written it
        found = json.loads(variables.get("RAY_JOB_CONFIG_JSON_ENV_VAR") or "{}").get("metadata", {}).get("job_submission_id")
        submission = found if isinstance(found, str) else None
    submission = submission or (job_log[1] if job_log else None)

    job = variables.get("RAY_JOB_ID") or (worker_log[1] if worker_log else None)
    if job == NO_JOB:
        # Once the worker gets a job, it writes that into the first lines of its log (Ray 2.9 to 2.60).
        line = _JOB_LINE.search(head)
        job = line[1].decode() if line else None

    # PyTorch names the main thread of *every* program `pt_main_thread`; only a child of multiprocessing is part of an engine.
    engine = next((title for title in (argv[0] if argv else "", name) if title.startswith(_ENGINES)), None)
    if name == "pt_main_thread" and any(mark in word for word in argv[1:] for mark in _SPAWNED):
        engine = engine or name
    return ProcessOrigin(
        role=role,
        session=_session(argv if role in SERVICES else (), logs),
        raylet=to_number(variables.get("RAY_RAYLET_PID")),
        node=flag(argv, "--node_id", "--node-id") or variables.get("RAY_NODE_ID"),
        job=None if submission or role == "supervisor" else job,
        submission=submission,
        worker=int(worker_log[2]) if worker_log else None,
        engine=engine,
        temp=os.path.join(variables["RAY_TMPDIR"], "ray") if variables.get("RAY_TMPDIR") else None,
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
    if not program.startswith("python"):
        return None
    # Only the script that Python runs counts, not a file name in its arguments.
    script = next((word for word in argv[1:] if not word.startswith("-")), "")
    return next((role for end, role in _SCRIPTS if script == end or script.endswith("/" + end)), None)


def flag(argv: Sequence[str], *names: str) -> str | None:
    """The value of the first `--name=value` with one of these names; `None` if there is none, or if it is empty."""
    for word in argv:
        flag, equals, value = word.partition("=")
        if equals and value and flag in names:
            return value
    return None


def _session(argv: Sequence[str], logs: Sequence[str]) -> str | None:
    """A service has its session in its flags (the gcs_server of Ray 2.9 only in its log folder); other processes write to its logs."""
    folder = flag(argv, "--session_dir", "--session-dir")
    if folder:
        return folder.rstrip("/")
    for word in (*argv[1:], *logs):
        # Finds the path in linear time, because any user may have written the word.
        for found in _SESSION.finditer(word):
            begin = word.find("/", max(word.rfind(mark, 0, found.start()) for mark in "=:") + 1)
            if begin < found.start():
                return word[begin : found.end()]
    return None


def to_number(text: str | None) -> int | None:
    """`None` if it is not a number. Users write these texts, and `int` accepts other digits than 0 to 9, and fails at very many of them."""
    return int(text) if text and _NUMBER.fullmatch(text) else None
