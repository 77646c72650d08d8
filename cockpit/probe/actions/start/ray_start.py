"""Runs `ray start` so that its Ray outlives this program, and explains a failure in one sentence with the relevant output lines."""

from __future__ import annotations

import fcntl
import os
import re
import socket
import subprocess
import time
from contextlib import contextmanager, suppress
from typing import Any, Dict, Iterator, NamedTuple, Sequence, Tuple

from ... import programs, trust
from ...sample.network import split_address
from ..host_state import OnProgress
from ..ray import NoWayError
from . import slurm_step
from .installation import Installation
from .slurm_step import SlurmStep

START_TIMEOUT_S = 180.0
"""Seconds after which a `ray start` is killed; Ray itself waits no longer for a slow raylet."""
PROGRESS_INTERVAL_S = 2.0
LAST_LINES, EXCEPTION_LINES = 3, 6
"""Output lines in the text of a failure: the last relevant ones, or the lines of an exception."""
CONNECT_TIMEOUT_S = 5.0
"""Seconds in which the head's GCS must accept a connection; Ray itself would try for minutes."""
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_RELEVANT = re.compile(r"error|exception|fail|mismatch|denied|no such|usage:|taken|in use|invalid|unable|cannot|can't", re.IGNORECASE)
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception)(?:: |$)")
_FRAME = re.compile(r'File "|raise |\^+$|-+$|srun: (?:error: \S+: task 0: Exited with|cluster configuration lacks)')
CAUSES: Sequence[Tuple[str, str]] = (
    (r"[Aa]lready running at|is already running", "a Ray already runs at that address"),
    (r"(?i:address) already in use|bind.*fail|Failed to bind|port .* is (?:already )?in use|already occupied", "a port is taken"),
    (r"InvalidAuthToken|[Ii]nvalid authentication token|token is invalid|Unauthenticated|AuthenticationError|Unauthorized|\b401\b",
     "the cluster requires a token: none was given, or a wrong one"),
    (r"no authentication token|[Tt]oken authentication is enabled but", "the cluster requires a token, and there is none"),
    (r"[Vv]ersion mismatch", "Ray or Python here has another version than on the head"),
    (r"[Ss]ession[ _]name .*match", "the head's session name differs from the stored one (Redis)"),
    (r"Attempting to start raylet with .* GPU", "num_gpus is more than CUDA_VISIBLE_DEVICES names"),
    (r"[Tt]oo many open files|RLIMIT_NOFILE", "the open-file limit is too low"),
    (r"No space left on device|out of disk", "a disk is full"),
    (r"PermissionError|Permission denied", "a file of another user is in the way"),
    (r"[Nn]o such option|Error: Invalid value|Usage: ray start", "this Ray version does not know one of the flags"),
    (r"[Ff]ailed to start GCS", "the GCS did not start"),
    (r"timed out during startup", "a part of Ray has not come up in time"),
    (r"^srun: (?:error: (?:Unable to (?:create step|confirm)|.*[Ll]aunch fail)|Job \d+ step creation)", "Slurm has started no step for it"),
    (r"[Ff]ailed to (?:get|connect).*(?:GCS|gcs)|Unable to connect to (?:GCS|Redis)|Connection refused|(?i:deadline.exceeded)|timed out",
     "the head's GCS does not answer from here"),
)  # fmt: skip
"""Patterns in the output of Ray 2.9 to 2.60, and their meaning; the first match counts."""


class Outcome(NamedTuple):
    """The outcome of `ray start`."""

    code: int | None
    """`None`: it did not end in time."""
    text: str
    """Its output."""
    log: str
    """The file with its output."""

    @property
    def sentence(self) -> str:
        """The reason of its failure, with the relevant lines."""
        cause = next((words for pattern, words in CAUSES if re.search(pattern, self.text, re.MULTILINE)), None)
        how = (
            f"`ray start` has not ended within {START_TIMEOUT_S:.0f} s"
            if self.code is None
            else f"`ray start` ended with exit code {self.code}"
        )
        # The lines of its last exception, or else the last lines that report a failure.
        lines = [line for line in map(str.strip, self.text.splitlines()) if line and not _FRAME.match(line)]
        ends = [number for number, line in enumerate(lines) if _EXCEPTION.match(line)]
        if ends:
            lines = lines[ends[-1] : ends[-1] + EXCEPTION_LINES]
        else:
            lines = [line for line in lines if _RELEVANT.search(line)][-LAST_LINES:] or lines[-LAST_LINES:]
        shown = " / ".join(line[:300] for line in dict.fromkeys(lines)) or "no output"
        return f"{f'{cause}: ' if cause else ''}{how}: {shown} (full output: {self.log})"


@contextmanager
def turn(gcs: str, on_progress: OnProgress) -> Iterator[int]:
    """Takes the lock for starting a part of this cluster's Ray here, in a folder that nobody else can write to. Raises `NoWayError`.

    It waits for an earlier caller, and also for a `ray start` that goes on after its caller has ended: that has the same file open, or in a
    Slurm step the file beside it.
    """
    folder = trust.private_folder()
    if folder is None:
        raise NoWayError("no private folder for the lock file of `ray start`: none could be made in /run, /dev/shm or /tmp")
    held = os.open(f"{folder}/ray-start-{split_address(gcs)[1]}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        _await_lock(held, on_progress)
        with suppress(FileNotFoundError), trust.open_fd(_lock_of_step(held), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC) as beside:
            _await_lock(beside, on_progress)
        yield held
    finally:
        os.close(held)


def _lock_of_step(held: int) -> str:
    return os.readlink(f"/proc/self/fd/{held}") + ".step"


def _await_lock(held: int, on_progress: OnProgress) -> None:
    began = reported = time.monotonic()
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        now = time.monotonic()
        if now - began > START_TIMEOUT_S:
            raise NoWayError(f"another `ray start` of that cluster has been running here for {START_TIMEOUT_S:.0f} s")
        if now - reported > PROGRESS_INTERVAL_S:
            reported = now
            on_progress(f"another `ray start` of that cluster is running here: waiting for it, {now - began:.0f} s")
        time.sleep(0.1)


def run(
    installation: Installation, words: Sequence[str], name: str, held: int, on_progress: OnProgress, step: SlurmStep | None = None
) -> Outcome:
    """Runs `ray start` in a session of its own, so that its Ray survives the end of this program and of the connection.

    The child inherits the lock that is `held`. In a Slurm job, it runs in a `step`. Raises `OSError`, `TrustError`.
    """
    log, file = _open_log(name)
    on_progress(" ".join([installation.ray, *words]))
    settings: Dict[str, Any] = {"stdout": file, "stderr": subprocess.STDOUT, "pass_fds": (held,)}
    command = [installation.ray, *words]
    home = installation.environ.get("HOME", "/")
    home = home if os.path.isdir(home) else "/"  # a person who logs in starts it in the home
    try:
        if step is None:
            process = programs.start(command, installation.account, installation.environ, cwd=home, **settings)
        else:
            given = {"env": installation.given, "log": log, "home": home, "lock": _lock_of_step(held)}
            process = step.start(command, installation.account, installation.ours, given, **settings)
    finally:
        os.close(file)

    # In a Slurm step, a line in the log reports the success; the step then goes on without us.
    began = reported = time.monotonic()
    while process.poll() is None and time.monotonic() - began < START_TIMEOUT_S:
        time.sleep(0.05)
        if step is not None and slurm_step.STARTED in _text(log):
            slurm_step.release(process)
            return Outcome(0, _text(log), log)
        if time.monotonic() - reported > PROGRESS_INTERVAL_S:
            reported = time.monotonic()
            lines = [line.strip() for line in _text(log).splitlines() if line.strip()]
            on_progress(f"`ray start` has been running for {reported - began:.0f} s: {lines[-1][:200] if lines else 'no output yet'}")
    code = process.poll()
    if code is None:
        (programs.end if step is None else slurm_step.give_up)(process)
    return Outcome(code, _text(log), log)


def why_unreachable(gcs: str) -> str | None:
    """The reason why a worker here can't reach this GCS; `None` if something answers there."""
    host, port = split_address(gcs)
    try:
        socket.create_connection((host, port or 0), timeout=CONNECT_TIMEOUT_S).close()
    except OSError as error:
        why = "timed out" if isinstance(error, socket.timeout) else (error.strerror or str(error)).lower()
        return f"the head's GCS at {gcs} can't be reached from here: {why}"
    return None


def _open_log(name: str) -> Tuple[str, int]:
    """Path and descriptor of a log of our own for this host, because hosts may share a home. It overwrites the log of the last start."""
    file = f"ray-start-{name}-{socket.gethostname().replace('/', '_')}-{os.geteuid()}.log"
    state = os.path.join(os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state"), "cockpit")
    with suppress(OSError):
        os.makedirs(state, mode=0o700, exist_ok=True)
    folders = [state] if trust.why_changeable(os.path.realpath(state), os.geteuid()) is None else []
    for folder in [*folders, *filter(None, [trust.private_folder()])]:  # a home may be full or read-only
        path = os.path.join(folder, file)
        with suppress(OSError):
            return path, os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    return os.devnull, os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)


def _text(log: str) -> str:
    with suppress(OSError):
        return _COLOURS.sub("", trust.read_begin(log, 1 << 18, trust.own_uids()).decode("utf-8", "replace"))
    return ""
