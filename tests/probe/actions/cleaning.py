"""Creates temp dirs of Ray with dead and live sessions."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cockpit.probe.actions import clean
from cockpit.probe.actions.host_state import HostScanner

NAME, OTHER = (f"session_2026-11-{day}_08-02-10_714202_{os.getpid()}" for day in (20, 19))
"""No other test creates processes with these names."""
LONG_AGO = 3600.0
Answer = dict[str, Any]


def age(path: Path, seconds: float = LONG_AGO) -> Path:
    """Makes a file look as old as this."""
    then = time.time() - seconds
    os.utime(path, (then, then), follow_symlinks=False)
    return path


def write(path: Path, size: int = 5000) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    return path


def session(temp: Path, name: str = NAME) -> Path:
    """A dead session: its socket exists, but nobody listens."""
    path = temp / name
    write(path / "logs" / "raylet.out", 20_000)
    write(path / "runtime_resources" / "working_dir_files" / "pkg" / "train.py")
    (path / "sockets").mkdir()
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path / "sockets" / "raylet"))
    return age(path)


@contextmanager
def listening(path: Path) -> Iterator[None]:
    """A session in which a raylet's socket answers."""
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))
        sock.listen()
        yield


@contextmanager
def program(*argv: str, code: str = "import sys; print(flush=True); sys.stdin.read()", **more: Any) -> Iterator[int]:
    """A real process with this command line, after its start."""
    command = [argv[0] if argv else sys.executable, "-c", code, *argv[1:]]
    executable = more.pop("executable", sys.executable)
    with subprocess.Popen(command, executable=executable, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **more) as child:
        assert child.stdout
        child.stdout.readline()
        yield child.pid
        child.kill()


class Cleaner:
    """One temp dir, and actions that read only this one."""

    def __init__(self, temp: Path) -> None:
        self.temp = temp
        self.progress: list[str] = []

    def tell(self, text: str, done: int | None = None, of: int | None = None) -> None:
        self.progress.append(text)

    def request(self, **more: Any) -> dict[str, Any]:
        return {"act": "clean", "sessions": None, "older_than": None, "protected": [], "targets": [], **more}

    def scanner(self) -> HostScanner:
        scanner = HostScanner({})
        scanner.add_temp_dir(str(self.temp))
        return scanner

    def plan(self, **more: Any) -> Answer:
        """The plan for this temp dir only, without others on this machine."""
        answer = clean.plan(self.request(stage="plan", **more), self.scanner(), self.tell)
        mine = {key: [one for one in answer[key] if one.get("path", "").startswith(f"{self.temp}/")] for key in ("targets", "refused")}
        return {**answer, **mine}

    def do(self, targets: list[Answer], **more: Any) -> Answer:
        return clean.do(self.request(stage="do", targets=targets, **more), self.scanner(), self.tell)

    def clean(self, **more: Any) -> Answer:
        return self.do(self.plan(**more)["targets"], **more)


def names_of(answers: list[Answer]) -> list[str]:
    return [os.path.basename(one["path"]) for one in answers]


def files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())
