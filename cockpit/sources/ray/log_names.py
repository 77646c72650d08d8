"""Maps the names of files in a session's logs folder to workers and parts of Ray, as Ray 2.9 to 2.60 names them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

PART_GLOB: Final = "[dglmr]*"
"""The pattern of files that parts of Ray and runtime environments write, and no worker."""
MAX_NAMES: Final = 200
"""The number of names in one result; a folder may have tens of thousands."""
GCS_LOG: Final = "gcs_server.out"
GCS_LINES: Final = 20_000
"""The number of lines of the GCS's log that are searched for the processes of an actor before its restart: some 2 MB."""

_WORKER: Final = r"(?a)worker-([0-9a-f]{56})-([0-9a-f]{8}|)-(\d{1,10})\.(out|err)(\.\d{1,3})?\Z"
_PART: Final = (
    r"(?a)(raylet|gcs_server|dashboard_agent|runtime_env_agent|dashboard(?:_[A-Z]\w{1,30})?|monitor|log_monitor)(?:\.(\d{1,4}))?\.(out|err|log)\Z|"
    r"(runtime_env_setup)-[\w.-]{1,64}\.log\Z"
)
_FAILED_WORKER: Final = r"ctor (?:[0-9a-f]{32} )?is failed on worker ([0-9a-f]{56}) (?:at|on) node ([0-9a-f]{56})"
_OWN_NODE: Final = r"\(raylet\) .*ode ID(?: to:?)? ?(?:node_id=)?:? ?([0-9a-f]{56})$"
_NUMBERED = ("raylet", "dashboard_agent", "runtime_env_agent")
_DASHBOARD_MODULE: Final = r"ray-dashboard-([A-Z]\w{1,30})-\d"
"""The titles of the processes of the dashboard in Ray 2.49 and later."""
_NO_JOB = ("", "ffffffff")
"""The job id in the names of a worker that was started before it had a job."""
_PART_WORDS: Final = (
    ("raylet/raylet", "raylet"),
    ("gcs_server", "gcs_server"),
    ("dashboard/agent.py", "dashboard_agent"),
    ("ray::DashboardAgent", "dashboard_agent"),
    ("runtime_env/agent", "runtime_env_agent"),
    ("ray::RuntimeEnvAgent", "runtime_env_agent"),
    ("dashboard/dashboard.py", "dashboard"),
    ("log_monitor.py", "log_monitor"),
    ("monitor.py", "monitor"),
)
"""Texts in the command of a part of Ray. The first one that is found decides."""


class WorkerLog(msgspec.Struct, frozen=True):
    """The file of one worker's stdout or stderr."""

    name: str
    worker: str
    job: str
    pid: int
    stream: str
    """`out` or `err`."""


class LostWorker(msgspec.Struct, frozen=True):
    """The process of an actor before its restart."""

    worker: str
    node: str


def worker_logs(names: Iterable[str], *, pid: int | None = None, worker: str | None = None, job: str | None = None) -> list[WorkerLog]:
    """The logs of the matching workers, `out` before `err` for each; without rotated files.

    Pids are reused: `job` separates two workers with the same pid.
    """
    found = [
        WorkerLog(name, match[1], match[2], int(match[3]), match[4])
        for name in names
        if (match := re.match(_WORKER, name)) and match[5] is None and (pid is None or int(match[3]) == pid) and worker in (None, match[1])
    ]
    own = [log for log in found if job is None or log.job == job] or [log for log in found if log.job in _NO_JOB]
    return sorted(own, key=lambda log: (log.worker, log.stream != "out"))[:MAX_NAMES]


def worker_glob(pid: int) -> str:
    """The pattern of the names of a worker's logs."""
    return f"worker-*-{pid}.*"


def part_logs(names: Iterable[str], part: str, suffix: str | None = None) -> list[str]:
    """The logs of a part of Ray. The logs of several raylets on one host, and of their agents, have numbers."""
    matches = ((name, re.match(_PART, name)) for name in names)
    found = [name for name, match in matches if match and part in (match[1], match[4]) and suffix in (None, match[3])]
    return sorted(found, key=lambda name: (len(name), name))[:MAX_NAMES]


def without_others(names: Iterable[str], raylet_log: str) -> list[str]:
    """The names without the logs of other raylets of the host and of their agents. Logs of the GCS, dashboard and monitor stay."""
    matches = [(name, re.match(_PART, name)) for name in names]
    number = match[2] if (match := re.match(_PART, raylet_log)) else None
    return [name for name, match in matches if match is None or match[1] not in _NUMBERED or match[2] == number]


def setup_logs(names: Iterable[str], job: str | None) -> list[str]:
    """The logs of the setup of runtime environments, the job's first."""
    found = part_logs(names, "runtime_env_setup")
    return sorted(found, key=lambda name: f"-{job}." not in name)


def part_of(command: str) -> str | None:
    """The part of Ray that a command runs; `None`: it is none."""
    module = re.match(_DASHBOARD_MODULE, command)
    return f"dashboard_{module[1]}" if module else next((part for words, part in _PART_WORDS if words in command), None)


def lost_workers(gcs_lines: Iterable[str], actor: str) -> list[LostWorker]:
    """The processes that an actor has lost, the last one first, by lines of the GCS's log."""
    lines = (line for line in gcs_lines if actor in line)
    found = [LostWorker(match[1], match[2]) for line in lines if (match := re.search(_FAILED_WORKER, line))]
    return list(dict.fromkeys(reversed(found)))


def node_of(raylet_lines: Iterable[str]) -> str | None:
    """The node of a raylet, by the first lines of its log; later lines name other nodes too."""
    return next((match[1] for line in raylet_lines if (match := re.search(_OWN_NODE, line))), None)


def short_name(name: str) -> str:
    """The name for a title, with the id of a worker cut to its first eight digits."""
    match = re.match(_WORKER, name)
    return f"worker-{match[1][:8]}-{match[2]}-{match[3]}.{match[4]}" if match else name


def file_pattern(name: str) -> str:
    """The pattern by which findings name such files: `worker-*.err`."""
    match = re.match(_WORKER, name)
    if match:
        return f"worker-*.{match[4]}"
    part = re.match(_PART, name)
    if part is None:
        return name
    return "runtime_env_setup-*.log" if part[4] else f"{part[1]}.{part[3]}"
