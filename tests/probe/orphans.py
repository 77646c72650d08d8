"""Starts real left-over processes of a dead Ray: init has adopted them, and a session on disk names their raylet."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cockpit.probe.sample.processes import read_stat

SESSION = "session_2026-11-21_08-02-10_714202_8139"
STARTER = '"$@" <&0 & echo $! >&"$REPORT"'


class Orphan:
    """A process whose parent has ended, with pipes like those of a child."""

    def __init__(self, *command: str, environ: Mapping[str, str] = {}, user: int | None = None) -> None:
        mine, its = os.pipe()
        more: dict[str, Any] = {} if user is None else {"user": user}
        starter = subprocess.Popen(
            ["bash", "-c", STARTER, "bash", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(its,),
            env={**os.environ, **environ, "REPORT": str(its)}, start_new_session=True, **more,
        )  # fmt: skip
        os.close(its)
        with os.fdopen(mine) as report:
            self.pid = int(report.readline())
        starter.wait()
        self._wait_for_command()
        self.stdin, self.stdout = starter.stdin, starter.stdout
        found = read_stat(self.pid)
        self._ticks = found.ticks if found else -1

    def _wait_for_command(self) -> None:
        """Until then it is a shell, and is classified as one."""
        limit = time.monotonic() + 60
        while (found := read_stat(self.pid)) and found.state not in "ZX" and STARTER in _arguments(self.pid):
            assert time.monotonic() < limit, f"{self.pid} is still the shell that started it"
            time.sleep(0.001)

    def poll(self) -> int | None:
        """`None` while it is alive."""
        found = read_stat(self.pid)
        return None if found and found.ticks == self._ticks and found.state not in "ZX" else 0

    def wait(self, timeout: float = 60) -> int:
        limit = time.monotonic() + timeout
        while self.poll() is None:
            assert time.monotonic() < limit, f"{self.pid} lives on"
            time.sleep(0.01)
        return 0

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        self.kill()
        for pipe in (self.stdin, self.stdout):
            if pipe:
                pipe.close()


def _arguments(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
    except OSError:
        return []


def ended_pid() -> int:
    """A pid of an ended process, another one each time. A pid that was just freed may be reused on a busy machine; these never are."""
    return int(Path("/proc/sys/kernel/pid_max").read_text()) + secrets.randbelow(1 << 20)


def dead_session(temp: Path, raylet: int, name: str = SESSION, user: int | None = None) -> Path:
    """A session in this temp dir that has only the log of its raylet left."""
    path = temp / name
    for part in ("logs", "sockets"):
        (path / part).mkdir(parents=True)
    (path / "logs" / "raylet.out").write_text(f"[2026-11-21 08:02:11,521 I {raylet} {raylet}] (raylet) main.cc:283: Setting cluster ID\n")
    if user is not None:
        for one in (path, *path.rglob("*")):
            os.chown(one, user, user)
    return path


def left_variables(temp: Path, raylet: int, job: str = "02000000") -> dict[str, str]:
    """The variables that a worker of this raylet gave its children; `temp` is the folder of Ray's temp dir `ray`."""
    return {"RAY_RAYLET_PID": str(raylet), "RAY_JOB_ID": job, "RAY_TMPDIR": str(temp)}
