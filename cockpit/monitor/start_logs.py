"""Reads from the logs of one node why workers for a job don't start there: no port, they die, or their runtime environment is not ready."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from cockpit.failures import find_root_error
from cockpit.failures.describe import describe, safe_line
from cockpit.findings.failures import reason_of
from cockpit.sources.ray.log_names import worker_logs

MAX_SHOWN: Final = 200
"""Characters of a line from a log that are shown."""
MAX_PACKAGES, MAX_TRACES = 20, 5
"""Packages of an environment that are looked for, and failures of one whose words are looked for, the last one first."""
RECENT_S: Final = 180.0
"""Seconds after which a failure at the start is over, unless there is another."""
MAX_BUILD_S: Final = 3600.0
"""A command that has run longer was cancelled, unless the environment is known to be the job's: Ray itself gives up after 10 minutes."""
NO_PORT: Final = "No available ports"
"""A worker that the raylet refuses writes this (src/ray/raylet/node_manager.cc, core_worker_process.cc)."""
TOOLS: Final = ("pip", "uv", "conda")
_STAMP: Final = re.compile(r"\[?(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)")
_STARTED: Final = re.compile(r"Started worker process with pid (\d{1,10})\b")
_NOT_REGISTERED: Final = re.compile(
    r"worker process\((\d{1,10})\) have not registered within the timeout\. The process is (dead|still alive)"
)
"""src/ray/raylet/worker_pool.cc: a worker has 60 s to register."""
_COMMAND: Final = re.compile(r"Run cmd\[(\d{1,9})\] (\[?.{0,4000})")
_OUTPUT: Final = re.compile(r"(?:Output of|No output for) cmd\[(\d{1,9})\](?:: (.{0,2000}))?")
"""ray/_private/runtime_env/utils.py: the output of a command is written when it has ended."""
_FOLDER: Final = re.compile(r"/runtime_resources/(pip|uv|conda)/([0-9a-f]{40})\b")
_CONDA: Final = re.compile(r"Creating conda environment (\S{1,400})|(Finished creating conda environment)")
_NO_INDEX: Final = re.compile(r"Failed to establish a new connection: \[Errno -?\d{1,4}\] ([^'\")]{1,100})")
_RAYS_WORDS: Final = re.compile(r"\[\d{4}-\S{1,20} \S{1,20} [EFW] \d{1,10} \d{1,10}\] (?:\(\w{1,20}\) )?[\w.]{1,60}:\d{1,6}: ?")
"""The mark of a line of Ray's C++ parts."""


class WorkerStart(msgspec.Struct, frozen=True):
    """A worker process that a raylet has started and that has not registered."""

    pid: int
    is_dead: bool | None = None
    """The raylet has found it not registered after a minute, dead or alive; `None`: it has not."""
    judged: float | None = None
    """When that was, by the clock of the node."""


class NodeStarts(msgspec.Struct, frozen=True):
    """What a raylet has written about the workers that it has started, the newest last."""

    workers: tuple[WorkerStart, ...] = ()
    last_stamp: float | None = None
    """The last time in its log, by the clock of its node."""

    def is_recent(self, stamp: float | None) -> bool:
        """Whether this was lately: what fails at its start is tried again each minute."""
        return stamp is not None and (self.last_stamp is None or self.last_stamp - stamp <= RECENT_S)


class EnvironmentBuild(msgspec.Struct):
    """A runtime environment that pip, uv or conda builds, as its log shows it."""

    tool: str
    hash: str
    command: str | None = None
    """The command that runs; `None`: none does."""
    since: float | None = None
    """When that command was started, or when the last line was written, by the clock of the node."""
    clock: str = ""
    """The same, `11:08:39`."""
    last_line: str | None = None
    """The last line that conda has written; pip and uv write when they have ended."""
    error: str | None = None
    """Why it has failed; it may be built again."""
    failures: int = 0
    failed: float | None = None
    """When the last try has failed; `None`: a later one runs or has succeeded."""


class PackageWait(msgspec.Struct):
    """A package that a runtime environment needs and that is not on the node yet."""

    uri: str
    clock: str
    """Since when, by the clock of the node: `11:08:39`."""
    error: str | None = None
    """Why the last try has failed; Ray tries again."""
    failures: int = 0


def read_starts(out: Iterable[str], err: Iterable[str]) -> NodeStarts:
    """The workers in `raylet.out`, with what `raylet.err` adds; a rotated log may lack some of them."""
    known: dict[int, WorkerStart] = {}
    verdicts: dict[int, tuple[bool, float | None]] = {}
    last = None
    for line in (*err, *out):
        last = _stamp(line)[0] or last
        if (found := _STARTED.search(line)) is not None:
            known.pop(int(found[1]), None)
            known[int(found[1])] = WorkerStart(int(found[1]))
        elif (found := _NOT_REGISTERED.search(line)) is not None:
            known.setdefault(int(found[1]), WorkerStart(int(found[1])))
            verdicts[int(found[1])] = (found[2] == "dead", _stamp(line)[0])
    return NodeStarts(tuple(WorkerStart(pid, *verdicts.get(pid, (None, None))) for pid in known), last)


def workers_of(starts: NodeStarts, names: Iterable[str], job: str, registered: Iterable[int]) -> list[tuple[WorkerStart, list[str]]]:
    """The workers of a job that have not registered, the newest first, each with its logs, stderr first."""
    by_pid: dict[int, list[str]] = {}
    for log in sorted(worker_logs(names, job=job), key=lambda log: log.stream != "err"):
        if log.job == job:
            by_pid.setdefault(log.pid, []).append(log.name)
    have = set(registered)
    return [(one, by_pid[one.pid]) for one in reversed(starts.workers) if one.pid in by_pid and one.pid not in have]


def has_no_port(lines: Iterable[str], starts: NodeStarts) -> bool:
    """Whether a worker has lately found no free port, by its log."""
    return any(NO_PORT in line and starts.is_recent(_stamp(line)[0]) for line in lines)


def find_early_death(starts: NodeStarts, err: Sequence[str], claimed: Iterable[int]) -> tuple[str, int] | None:
    """Why the newest workers died before they had a log of their own: then their stderr is `raylet.err`. With the number of such deaths.

    `claimed`: pids of workers that have a log.
    """
    have = set(claimed)
    recent = [one for one in starts.workers if one.is_dead and starts.is_recent(one.judged)]
    dead = [one for one in recent if one.pid not in have]
    if not dead or dead[-1] is not recent[-1]:
        return None
    words = find_words([line for line in err if not _NOT_REGISTERED.search(line)])
    return (words, len(dead)) if words else None


def find_words(lines: Sequence[str]) -> str | None:
    """Why a process has ended, by its log: its root error, else the last line of an error of Ray's; `None`: it shows none."""
    error = find_root_error(lines)
    if error is not None:
        return reason_of(describe(error))
    for line in reversed(lines):
        if (mark := _RAYS_WORDS.match(line)) is not None and line[mark.end() :].strip():
            return shown(line[mark.end() :])
    return None


def read_builds(lines: Iterable[str]) -> list[EnvironmentBuild]:
    """The environments in `runtime_env_setup-JOB.log` that are being built now, or whose last try has failed."""
    builds: dict[tuple[str, str], EnvironmentBuild] = {}
    running: dict[int, EnvironmentBuild] = {}
    output: list[str] = []
    last_output: dict[str, list[str]] = {}
    conda: EnvironmentBuild | None = None
    highest = 0
    for line in lines:
        stamp, clock = _stamp(line)
        if stamp is not None and (ran := _COMMAND.search(line)) is not None:
            number, folder = int(ran[1]), _FOLDER.search(ran[2])
            if number <= highest:  # the agent was started again, and counts from 1
                for old in running.values():
                    old.command = None
                running.clear()
            highest = number
            if folder is not None:
                build = builds.setdefault((folder[1], folder[2]), EnvironmentBuild(folder[1], folder[2]))
                build.command, build.since, build.clock, running[number] = ran[2], stamp, clock, build
                build.failed = None
        elif stamp is not None and (ended := _OUTPUT.search(line)) is not None:
            output = [ended[2]] if ended[2] else []
            if (done := running.pop(int(ended[1]), None)) is not None:
                done.command = None
                last_output[done.hash] = output
        elif stamp is not None and "Delete incomplete virtualenv" in line and (folder := _FOLDER.search(line)) is not None:
            build = builds.setdefault((folder[1], folder[2]), EnvironmentBuild(folder[1], folder[2]))
            build.error = _error_in(last_output.get(build.hash, ()))
            build.failures, build.failed = build.failures + 1, stamp
        elif stamp is not None and (made := _CONDA.search(line)) is not None:
            conda = None
            if made[1]:
                folder = _FOLDER.search(made[1])
                conda = EnvironmentBuild("conda", folder[2] if folder else "", "conda env create", stamp, clock)
        elif conda is not None and line.strip():
            conda.last_line = shown(line.rpartition(" -- ")[2])
            conda.since, conda.clock = (stamp, clock) if stamp is not None else (conda.since, conda.clock)
        elif stamp is None:
            output.append(line)
    return [build for build in (*builds.values(), *([conda] if conda else ())) if build.command or build.failed or build.tool == "conda"]


def build_of(builds: Sequence[EnvironmentBuild], environment: Mapping[str, Any] | None) -> EnvironmentBuild | None:
    """The build of this environment of a job; `None`: there is none, or it may be another job's."""
    for tool in TOOLS:
        given = (environment or {}).get(tool)
        mine = [build for build in builds if build.tool == tool]
        if not given or not mine:
            continue
        digest = environment_hash(tool, given)
        return next((build for build in mine if build.hash == digest), mine[0] if len(mine) == 1 else None)
    return None


def environment_hash(tool: str, given: object) -> str | None:
    """The name of the environment's folder (ray/_private/runtime_env/pip.py, uv.py, conda.py); of a file's contents unknown."""
    if tool != "conda" and isinstance(given, list):
        given = {"packages": given}
    if not isinstance(given, Mapping):
        return None
    spec = dict(given) if tool == "conda" else {f"{tool}_check": False, **given}
    try:
        text = json.dumps(spec, sort_keys=True)
    except RecursionError:  # of a job that wants to be in the way
        return None
    return hashlib.sha1(text.encode("utf-8", "replace")).hexdigest()  # noqa: S324 it is Ray's name of it


def find_package(agent_lines: Iterable[str], environment: Mapping[str, Any] | None) -> PackageWait | None:
    """The package of an environment that `runtime_env_agent.log` shows as not created yet; `None`: there is none."""
    wanted = [json.dumps(uri) for uri in _packages(environment or {}) if "://" in uri][:MAX_PACKAGES]
    waits: dict[str, PackageWait] = {}
    traces: dict[str, list[list[str]]] = {}
    """The lines after each failure of a package."""
    failed: str | None = None
    for line in agent_lines:
        stamp, clock = _stamp(line)
        if stamp is None:
            if failed is not None:
                traces[failed][-1].append(line)
            continue
        if failed is not None and "creation failed" in line:  # it was the last try
            waits.pop(failed, None)
        failed = None
        uri = next((uri for uri in wanted if uri in line), None)
        if uri is None:
            continue
        if "Creating runtime env: " in line:
            waits[uri], traces[uri] = PackageWait(json.loads(uri), clock), []
        elif "Failed to create runtime env " in line and uri in waits:
            failed = uri
            waits[uri].failures += 1
            traces[uri].append([])
        elif "Successfully created runtime env: " in line:
            waits.pop(uri, None)
    uri = next(iter(waits), None)
    if uri is None:
        return None
    words = (find_words(trace) for trace in reversed(traces[uri][-MAX_TRACES:]))
    waits[uri].error = next(filter(None, words), None)
    return waits[uri]


def _packages(environment: Mapping[str, Any]) -> list[str]:
    modules = environment.get("py_modules")
    given = [environment.get("working_dir"), *(modules if isinstance(modules, (list, tuple)) else ())]
    return [each for each in given if isinstance(each, str)]


def build_age(build: EnvironmentBuild, starts: NodeStarts) -> float:
    """Seconds since it has written something, at least; by the clock of its node."""
    return 0.0 if build.since is None or starts.last_stamp is None else max(0.0, starts.last_stamp - build.since)


def words_of(build: EnvironmentBuild) -> str:
    """What builds it: pip install."""
    command = build.command or ""
    if "'-c'" in command and "import ray" in command:
        return "a check of its Ray"
    if "_clonevirtualenv" in command or "'virtualenv'" in command:
        return "a copy of the Python environment"
    if build.tool == "uv":
        return "pip install uv" if command.rstrip("]' ").endswith("uv") else "uv pip install"
    return "conda env create" if build.tool == "conda" else "pip install"


def shown(line: str) -> str:
    """A line of a log, safe to show."""
    return safe_line(line, MAX_SHOWN)


def _error_in(output: Sequence[str]) -> str:
    """The last line of a command's output that names an error, else its last line."""
    lines = [line.strip() for line in output if line.strip()]
    errors = [line for line in lines if re.match(r"(?:ERROR|error|Error)\b|×", line)]
    refused = next((found[1] for line in reversed(lines) if (found := _NO_INDEX.search(line))), None)
    no_index = f" (the package index can't be reached: {shown(refused)})" if refused else ""
    return shown((errors or lines or ["it has written nothing"])[-1]) + no_index


def _stamp(line: str) -> tuple[float | None, str]:
    """The time at the begin of a line, by the clock of its node, as seconds and as it is written."""
    found = _STAMP.match(line)
    if found is None:
        return None, ""
    try:
        return datetime.fromisoformat(f"{found[1]}T{found[2]}+00:00").timestamp(), found[2]
    except ValueError:
        return None, ""
