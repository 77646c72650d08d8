"""Runs `ray start` in a Slurm step of its own, which survives the end of cockpit, and ends with its Ray.

When a step ends, Slurm kills everything that it has started. So nothing that cockpit's own step starts can survive it, not even an `srun`.
A step needs its `srun` only for its start and for its output. But each `srun` has a child that waits for the end of the `srun`, and then
ends the step. If the end of cockpit's step killed both, the order would be random. So here both are stopped, and then killed together, as
soon as Ray runs: from then on the step has no `srun`, and ends with Ray, by `scancel JOB.STEP`, or with the job.

`ray start --block` can't be used in the step: it keeps running after its Ray was stopped on request (2.60), and so would the step.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Any, Mapping, NamedTuple, Sequence

from ... import programs
from ...slurm import without_slurm
from ...trust import Account

JOB = "SLURM_JOB_ID"
NODE = "SLURMD_NODENAME"
STARTED = "`ray start` ended with exit code 0: this step stays until all its processes have ended"
"""The line in the log that reports that Ray runs."""
_CODE = f"""\
import ctypes, fcntl, json, os, signal, subprocess, sys
asked = json.load(sys.stdin)
if os.uname().nodename != asked["host"]:
    sys.exit("srun has started this on " + os.uname().nodename + " instead of " + asked["host"])
held = os.open(asked["lock"], os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
try:
    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    sys.exit("another Slurm step is starting that cluster here now")
log = os.open(asked["log"], os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
os.dup2(log, 1), os.dup2(log, 2)
adopts = ctypes.CDLL(None).prctl
adopts(36, 1)
environ = {{**os.environ, **asked["env"]}}
code = subprocess.call(asked["words"], env=environ, cwd=asked["home"], stdin=subprocess.DEVNULL)
adopts(36, 0)
signal.signal(signal.SIGTERM, lambda *_: None)
os.close(held)
if code:
    sys.exit(code)
os.write(1, {STARTED!r}.encode() + b"\\n")
try:
    while True:
        os.wait()
except ChildProcessError:
    pass
"""
"""The program of the step. It reads the command from stdin, because it has secrets, and writes to the log itself, because no `srun` carries
its output later.

While `ray start` runs, the program adopts the processes that it leaves behind (PR_SET_CHILD_SUBREAPER), which are Ray's parts, and waits
for their end; it does not adopt later orphans. It holds a lock while `ray start` runs, so that the next start waits even if the caller has
ended. Afterwards it ignores SIGTERM: where Slurm finds the processes of a step by their parents (proctrack/linuxproc), Ray would otherwise
survive the job.
"""


class SlurmStep(NamedTuple):
    """The job and node in which a step can be started."""

    srun: str
    job: str
    node: str
    """Slurm's name of the node."""

    @property
    def why(self) -> str:
        """A sentence for the plan."""
        return f"in its own step of Slurm job {self.job}: the step ends with Ray, by scancel, or with the job"

    def start(
        self, words: Sequence[str], account: Account, environ: Mapping[str, str], given: Mapping[str, Any], **more: Any
    ) -> subprocess.Popen[bytes]:
        """Starts the `srun` of a step that runs these words.

        The environment of the words is `environ`, then Slurm's variables, then `given["env"]`; a later one overrides an earlier one.
        `given` also has the `log`, the `lock` and the `home`. Raises `OSError`, `TrustError`.
        """
        request = {"host": os.uname().nodename, "words": list(words), **given}
        options = [f"--jobid={self.job}", "--overlap", "--nodes=1", "--ntasks=1", f"--nodelist={self.node}", "--cpu-bind=none"]
        command = [self.srun, *options, "--job-name=ray", "--quiet", sys.executable, "-I", "-c", _CODE]
        with os.fdopen(os.memfd_create("request"), "w+b") as text:
            text.write(json.dumps(request).encode())
            text.seek(0)
            return programs.start(command, account, without_slurm(environ), stdin=text, **more)


def find_step(request: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> SlurmStep | None:
    """`None` if we are in no Slurm job, or if there is no `srun` here."""
    srun, job = shutil.which("srun", path=environ.get("PATH")), environ.get(JOB, "")
    if srun is None or not job:
        return None
    return SlurmStep(srun, str(request.get("slurm") or job), environ.get(NODE) or os.uname().nodename)


def release(srun: subprocess.Popen[bytes]) -> None:
    """Ends an `srun`, but not its step: its child is stopped first, and dies before it can react."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        with suppress(OSError):
            os.killpg(srun.pid, number)
    programs.end(srun)


def give_up(srun: subprocess.Popen[bytes]) -> None:
    """Ends an `srun` and its step, which the child of the `srun` ends."""
    srun.kill()
    with suppress(subprocess.TimeoutExpired):
        srun.wait(2)
