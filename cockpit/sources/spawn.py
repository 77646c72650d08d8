"""Starts the programs that look at hosts, and ends them without waiting. Standard library only: the first starts before the rest loads."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_LAUNCH = (
    "import runpy, sys; sys.path = [*filter(None, sys.path), sys.argv.pop(1)]; runpy.run_module('cockpit.probe', None, '__main__', True)"
)
"""`python -m cockpit.probe`, but what lies in the folder where cockpit was started can't pass for one of its modules."""
_HOME = str(Path(__file__).resolve().parents[2])


def local_command(words: Sequence[str]) -> list[str]:
    """The probe of this host."""
    return [sys.executable, "-c", _LAUNCH, _HOME, *words]


def watching(interval: float) -> list[str]:
    """The probe's words for a sample every so many seconds."""
    return ["--interval", f"{interval:g}"]


def spawn_local(interval: float) -> subprocess.Popen[bytes]:
    """Call it first of all, and give the child to `Hosts(early=…)`: it gets ready while everything else is being imported."""
    return spawn(local_command(watching(interval)))


def spawn(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """A child behind three unbuffered pipes, in a session of its own: no terminal to ask for a password on, no ctrl+c meant for us."""
    pipe = subprocess.PIPE
    return subprocess.Popen(command, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)


def bury(*processes: subprocess.Popen[bytes]) -> None:
    """End children at once. One that can't die (state D) is waited for by a thread that holds nothing up."""
    for process in processes:
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        with suppress(PermissionError):  # it runs as another user, through sudo; it ends with its pipes
            process.kill()
    alive = [process for process in processes if process.poll() is None]
    if alive:
        threading.Thread(target=_wait, args=(alive,), name="bury", daemon=True).start()


def _wait(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.wait()
