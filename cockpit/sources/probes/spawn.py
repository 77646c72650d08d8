"""Starts the programs that sample hosts, and ends them without waiting."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from cockpit.probe.slurm import without_slurm

_LAUNCH_CODE = "import sys; sys.path.append(sys.argv.pop(1)); import runpy; runpy.run_module('cockpit.probe', None, '__main__', True)"
"""Like `python -m cockpit.probe`, but imports nothing from the current folder or from the folders that PYTHON* variables name."""
ISOLATED = (sys.executable, "-I")
"""This Python, without modules from the current folder."""
_DIE_WITH_PARENT_CODE = """\
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
os.getppid() == int(sys.argv[1]) and os.execvp(sys.argv[2], sys.argv[2:])
"""
"""Runs a program that the kernel kills when this process ends: PR_SET_PDEATHSIG stays through exec (prctl(2))."""
ENGINES = ("podman", "docker", "nerdctl", "crictl")
_EXECUTORS = (*ENGINES, "kubectl")
_SLURM_PROGRAMS = ("srun", "squeue", "sinfo")
HELD_CODE = """\
import os, sys, threading
stdin = getattr(sys.stdin, "buffer", sys.stdin)
text = stdin.read(int(stdin.readline()))
reader = threading.Thread(target=lambda: (os.read(0, 1), os._exit(0)))
reader.daemon = True
reader.start()
exec(compile(text, "<stdin>", "exec"))
"""
"""Replaces `python -`: reads the length of a program, then the program, runs it, and exits when stdin is closed."""
LOCAL_PYTHON = (*ISOLATED, "-")
"""A Python of this host that runs the program that is written to its stdin."""
_HOME = str(Path(__file__).resolve().parents[3])


def local_command(words: Sequence[str]) -> list[str]:
    """The command that runs the probe on this host."""
    return [*ISOLATED, "-c", _LAUNCH_CODE, _HOME, *words]


def watch_words(interval: float) -> list[str]:
    """The arguments of a probe that sends a sample every `interval` seconds."""
    return ["--interval", f"{interval:g}"]


def spawn(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a child behind three unbuffered pipes, in a session of its own and in the folder `/`.

    In its own session it has no terminal to ask for a password on, and ctrl+c does not reach it. ssh can't open a window for a password
    either: SSH_ASKPASS is removed. In `/` it does not depend on the folder that cockpit was started in, which others may own.
    """
    pipe, (program, *words) = subprocess.PIPE, command
    program = os.path.abspath(program) if "/" in program else program
    # srun does not end when its pipes close, and its step goes on with it: so the kernel kills it together with this process.
    if os.path.basename(program) == "srun" and shutil.which(program):
        program, *words = *ISOLATED, "-c", _DIE_WITH_PARENT_CODE, str(os.getpid()), program, *words
    environ = without_slurm(os.environ) if os.path.basename(command[0]) in _SLURM_PROGRAMS else os.environ
    env = {**{name: value for name, value in environ.items() if name != "SSH_ASKPASS"}, "SSH_ASKPASS_REQUIRE": "never"}
    return subprocess.Popen([program, *words], bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True, cwd="/", env=env)


def hold_stdin(command: Sequence[str]) -> list[str]:
    """The command, which ends with `-`; a Python in a container or pod runs `HELD_CODE` instead.

    When its client is killed, a container engine or kubectl goes on reading the program's output, but closes the program's stdin.
    """
    is_held = os.path.basename(command[0]) in (*_EXECUTORS, "sudo") and find_executor(command)
    return [*command[:-1], "-c", HELD_CODE] if is_held else [*command]


def find_executor(command: Sequence[str]) -> str | None:
    """The name of the program that runs a Python in a container or pod, `podman` for `podman exec -i NAME python3 -`; else `None`."""
    before = command[: command.index("exec")] if command[-1:] == ["-"] and "exec" in command else ()
    return next((name for name in map(os.path.basename, before) if name in _EXECUTORS), None)


def kill_and_reap(process: subprocess.Popen[bytes]) -> None:
    """Kill a child at once. A daemon thread waits for it if it can't die yet (state D)."""
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    with suppress(PermissionError):  # it runs as another user, through sudo, and ends when its pipes close
        process.kill()
    if process.poll() is None:
        threading.Thread(target=process.wait, name="kill_and_reap", daemon=True).start()
