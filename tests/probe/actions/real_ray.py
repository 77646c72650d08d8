"""Runs a real Ray among simulated ones, with a job that never connects to it, and an actor whose children survive it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from cockpit.probe.sample.processes import Identity, lives, read_stat

ENV = {
    "RAY_USAGE_STATS_ENABLED": "0", "RAY_enable_worker_prestart": "0", "RAY_prestart_worker_first_driver": "0",
    "RAY_raylet_start_wait_time_s": "120", "PYTHONDONTWRITEBYTECODE": "1",
}  # fmt: skip
DASHBOARD = "http://127.0.0.1:8265"
START = ("start", "--head", "--num-cpus=4", "--num-gpus=0", "--object-store-memory=80000000", "--disable-usage-stats")
SUBMIT = ("job", "submit", f"--address={DASHBOARD}", "--no-wait", "--submission-id=plain", "--")
STARTED_WITHIN_S = 180.0
PLAIN = """
import os, subprocess, sys, time
child = subprocess.Popen(["sleep", "100000"], start_new_session=True)
alone = int(subprocess.check_output("sleep 100000 >/dev/null 2>&1 & echo $!", shell=True, start_new_session=True))
with open(sys.argv[1] + ".part", "w") as file:
    print(os.getpid(), child.pid, alone, file=file)
os.rename(sys.argv[1] + ".part", sys.argv[1])
time.sleep(100000)
"""
"""A job that never calls `ray.init`, with a child and a detached process."""
DRIVER = """
import os, subprocess, sys, ray
ray.init(address="auto", log_to_driver=False)
@ray.remote(num_cpus=0)
class Actor:
    def spawn(self, shell):
        return os.getpid(), int(subprocess.check_output(shell, shell=True, start_new_session=True))
actor = Actor.remote()
for line in sys.stdin:
    print(*ray.get(actor.spawn.remote(line.strip())), flush=True)
"""
PARTS = (b"raylet/raylet", b"gcs/gcs_server", b"dashboard/dashboard.py", b"log_monitor.py", b"_private/monitor.py", b"ray::")
"""Words in the commands of its processes; `ray stop` ends each of them."""
WATCHED = (b"plain.py", b"while kill -s 0")
"""Processes of a job's supervisor that end within a second of it: the job, and the process that watches the supervisor."""
LEFT_ALONE = "sleep 100000 >/dev/null 2>&1 & echo $!"


class RealRay:
    """One Ray at a time: it is stopped and started again, and its left-over processes must be found."""

    def __init__(self, ray: str) -> None:
        self._ray = ray
        self._python = str(Path(ray).with_name("python"))
        self._driver: subprocess.Popen[str] | None = None
        self.session = ""
        self.living: set[Identity] = set()
        """Processes that must get no signal while it is alive."""
        self.left: set[Identity] = set()
        """Processes that it leaves at its end, and that must be found."""
        self.hidden: set[Identity] = set()
        """Processes that it leaves too, but without a log or a variable that names their Ray."""

    def start(self, temp: str) -> None:
        """Starts it with this temp dir, which may be a link or a mount."""
        self._run(*START, f"--temp-dir={temp}")
        _wait(lambda: self._jobs() is not None, "its dashboard answers")
        self.session = os.path.basename(os.path.realpath(f"{temp}/session_latest"))
        Path("/tmp/plain.py").write_text(PLAIN)
        Path("/tmp/plain.pids").unlink(missing_ok=True)
        self._run(*SUBMIT, self._python, "/tmp/plain.py", "/tmp/plain.pids")
        _wait(Path("/tmp/plain.pids").exists, "the job runs")
        pipe = subprocess.PIPE
        words = [self._python, "-c", DRIVER]
        self._driver = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=self._env)
        job, child, alone = (_identity(int(pid)) for pid in Path("/tmp/plain.pids").read_text().split())
        self.left, self.hidden = {child}, {alone}
        self.living = {job, child, alone, *map(_identity, (*_parts(), self._driver.pid))}
        self.spawn()

    def spawn(self) -> None:
        """Makes its actor start one more detached process."""
        assert self._driver
        assert self._driver.stdin
        assert self._driver.stdout
        self._driver.stdin.write(LEFT_ALONE + "\n")
        self._driver.stdin.flush()
        actor, alone = map(int, self._driver.stdout.readline().split())
        self.living |= {_identity(actor), _identity(alone)}
        self.left.add(_identity(alone))

    def stop(self) -> None:
        """Stops it like an operator; its actor's children stay."""
        self._run("stop", "--force")
        if self._driver:
            self._driver.kill()
            self._driver.wait()
        _wait(lambda: not _parts(PARTS + WATCHED), "it has ended")
        self.living = set()

    def words(self) -> list[dict[str, Any]]:
        """The job states that its dashboard reports."""
        jobs = self._jobs() or []
        names = {name: job["status"] for job in jobs for name in (job["job_id"], job["submission_id"]) if name}
        running = sorted(name for name, status in names.items() if status in ("PENDING", "RUNNING"))
        return [{"session": self.session, "running": running, "ended": sorted(set(names) - set(running))}]

    def lost(self) -> set[Identity]:
        """The processes that must be alive but have ended."""
        return {identity for identity in self.living if not lives(*identity)}

    @property
    def _env(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return {**kept, **ENV, "PATH": f"{Path(self._ray).parent}:{os.environ.get('PATH', os.defpath)}", "HOME": "/tmp"}

    def _run(self, *words: str) -> None:
        done = subprocess.run([self._ray, *words], env=self._env, capture_output=True, text=True, timeout=STARTED_WITHIN_S, check=False)
        if done.returncode:
            sys.exit(f"ray {' '.join(words)} ended with {done.returncode}: {done.stdout}{done.stderr}")

    def _jobs(self) -> list[dict[str, Any]] | None:
        with suppress(OSError, ValueError):
            found: list[dict[str, Any]] = json.load(urllib.request.urlopen(f"{DASHBOARD}/api/jobs/", timeout=5))
            return found
        return None


def _parts(marks: Sequence[bytes] = PARTS) -> list[int]:
    """The pids of Ray's own parts."""
    return [pid for pid, argv in _commands() if any(mark in argv for mark in marks)]


def _commands() -> Iterator[tuple[int, bytes]]:
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            yield int(name), Path(f"/proc/{name}/cmdline").read_bytes()


def _identity(pid: int) -> Identity:
    found = read_stat(pid)
    return pid, found.ticks if found else -1


def _wait(fact: Any, what: str) -> None:
    until = time.monotonic() + STARTED_WITHIN_S
    while not fact():
        if time.monotonic() > until:
            sys.exit(f"it never came about that {what}")
        with suppress(ChildProcessError):  # we are init here, so we must collect its children, or they stay zombies
            os.waitpid(-1, os.WNOHANG)
        time.sleep(0.05)
