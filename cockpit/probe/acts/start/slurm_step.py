"""Runs `ray start` in a step of Slurm's of its own, which lives on when whoever has asked for it ends, and ends with its Ray.

Slurm ends with a step whatever that has started: nothing that a step of cockpit's starts can outlive it, not even an `srun`.
A step needs its `srun` only to be started and to have its output carried. But each `srun` has a child that waits for its end to end the
step too; where a step's end kills both, it is chance which of them goes first. So here both are held, then killed at once, as soon as Ray
runs: from then on the step has no `srun`, and ends with Ray, by `scancel JOB.STEP`, or with the job.

`ray start --block` would not do in it: it stays when the parts of its Ray have ended as they were asked to (2.60), and so would the step.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Any, List, Mapping, NamedTuple, Sequence

from ... import programs
from ...slurm import without_slurm
from ...trust import Account

JOB = "SLURM_JOB_ID"
NODE = "SLURMD_NODENAME"
STARTED = "`ray start` ended with exit code 0: this step stays until all its processes have ended"
"""What stands in the log once Ray runs."""
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
"""In the step. What it is to run comes by its stdin, as secrets are in it; it writes to the log itself: nothing carries its output later.

While `ray start` runs it adopts what that leaves behind (PR_SET_CHILD_SUBREAPER), which is Ray's parts, and waits for their end; later
orphans are not its own. As long as `ray start` runs it holds a lock that whoever comes next waits for: who has asked may be gone by then.
Then it outlives SIGTERM: where Slurm tells by their parents what belongs to a step (proctrack/linuxproc), Ray would outlive the job.
"""


class SlurmStep(NamedTuple):
    """Where a step would be started."""

    srun: str
    job: str
    node: str
    """By Slurm's name."""

    @property
    def why(self) -> str:
        """For whoever agrees to it."""
        return f"in its own step of Slurm job {self.job}: the step ends with Ray, by scancel, or with the job"

    def start(
        self, words: Sequence[str], account: Account, environ: Mapping[str, str], given: Mapping[str, Any], **more: Any
    ) -> subprocess.Popen[bytes]:
        """The `srun` of a step in which these words are run, in `environ`, over that what Slurm says, and over that `given["env"]`.

        `given` also says the `log`, the `lock` and the `home`. Raises `OSError`, `TrustError`.
        """
        asked = {"host": os.uname().nodename, "words": list(words), **given}
        with os.fdopen(os.memfd_create("request"), "w+b") as text:
            text.write(json.dumps(asked).encode())
            text.seek(0)
            return programs.start(self._command(), account, without_slurm(environ), stdin=text, **more)

    def _command(self) -> List[str]:
        where = [f"--jobid={self.job}", "--overlap", "--nodes=1", "--ntasks=1", f"--nodelist={self.node}", "--cpu-bind=none"]
        return [self.srun, *where, "--job-name=ray", "--quiet", sys.executable, "-I", "-c", _CODE]


def find_step(request: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> SlurmStep | None:
    """`None`: we are in no Slurm job, or there is no `srun` here."""
    srun, job = shutil.which("srun", path=environ.get("PATH")), environ.get(JOB, "")
    if srun is None or not job:
        return None
    return SlurmStep(srun, str(request.get("slurm") or job), environ.get(NODE) or os.uname().nodename)


def release(srun: subprocess.Popen[bytes]) -> None:
    """End an `srun`, not its step. Its child can't act once it is stopped, and doesn't wake before it dies."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        with suppress(OSError):
            os.killpg(srun.pid, number)
    programs.end(srun)


def give_up(srun: subprocess.Popen[bytes]) -> None:
    """End an `srun` and its step: its child sees to that."""
    srun.kill()
    with suppress(subprocess.TimeoutExpired):
        srun.wait(2)
