"""Starts the programs that look at hosts, and ends them without waiting."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from cockpit.probe.slurm import without_slurm

_LAUNCH_CODE = "import sys; sys.path.append(sys.argv.pop(1)); import runpy; runpy.run_module('cockpit.probe', None, '__main__', True)"
"""`python -m cockpit.probe` where nothing of the folder that cockpit was started in, or of PYTHON* variables, is imported."""
ISOLATED = (sys.executable, "-I")
"""A Python of ours that reads no module from the current folder."""
_TIE_CODE = """\
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
os.getppid() == int(sys.argv[1]) and os.execvp(sys.argv[2], sys.argv[2:])
"""
"""PR_SET_PDEATHSIG, which stays through exec (prctl(2))."""
ENGINES = ("podman", "docker", "nerdctl", "crictl")
_EXECUTORS = (*ENGINES, "kubectl")
_OF_SLURM = ("srun", "squeue", "sinfo")
HELD_CODE = """\
import os, sys, threading
given = getattr(sys.stdin, "buffer", sys.stdin)
text = given.read(int(given.readline()))
tie = threading.Thread(target=lambda: (os.read(0, 1), os._exit(0)))
tie.daemon = True
tie.start()
exec(compile(text, "<stdin>", "exec"))
"""
"""In place of `python -`: reads a program and its length before it, and ends with stdin."""
_READ_CODE = 'import sys;exec(getattr(sys.stdin,"buffer",sys.stdin).read())'
"""In place of `python -`, which reads its program from a pipe with a system call for each byte (3.8 to 3.13): 0.1 s for 200 kB."""
LOCAL_PYTHON = (*ISOLATED, "-c", _READ_CODE)
"""A Python of this host that runs the program it is sent."""
_SHELL_SIGNS = {*" \t\n'\"\\;&|$`()<>"}
_SSH_OPTIONS = "46AaCfGgKkMNnqsTtVvXxYyB:b:c:D:E:e:F:I:i:J:L:l:m:O:o:P:p:Q:R:S:W:w:"
_HOME = str(Path(__file__).resolve().parents[3])


def local_command(words: Sequence[str]) -> list[str]:
    """The probe of this host."""
    return [*ISOLATED, "-c", _LAUNCH_CODE, _HOME, *words]


def watch_words(interval: float) -> list[str]:
    """The probe's words for a sample every so many seconds."""
    return ["--interval", f"{interval:g}"]


def spawn(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """A child behind three unbuffered pipes, in a session of its own: no terminal to ask for a password on, no ctrl+c meant for us.

    No window to ask in either, which ssh would open and wait for where SSH_ASKPASS names one. It runs in `/`: whoever owns the folder that
    cockpit was started in has no say in what it does. `srun` alone goes on when nobody hears it any more, and its step with it, so the
    kernel ends it with this process. In a container or a pod a program isn't told either: what runs it goes on reading what it prints. But
    it closes its stdin, so that this one stays open as long as somebody is there.
    """
    pipe, (program, *words) = subprocess.PIPE, command
    program = os.path.abspath(program) if "/" in program else program
    if os.path.basename(program) == "srun" and shutil.which(program):
        program, *words = *ISOLATED, "-c", _TIE_CODE, str(os.getpid()), program, *words
    environ = without_slurm(os.environ) if os.path.basename(command[0]) in _OF_SLURM else os.environ
    env = {**{name: value for name, value in environ.items() if name != "SSH_ASKPASS"}, "SSH_ASKPASS_REQUIRE": "never"}
    return subprocess.Popen([program, *words], bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True, cwd="/", env=env)


def replace_dash(command: Sequence[str]) -> list[str]:
    """The same, but in place of `-` its Python has code that reads what it is sent at once.

    `-` stays where more than ssh and one shell may be in between. `srun` hands on each word as it is, but an ssh that it starts does not.
    """
    *words, last = command
    if last != "-":
        return [*command]
    if os.path.basename(command[0]) in (*_EXECUTORS, "sudo") and find_executor(command):
        return [*words, "-c", HELD_CODE]
    if os.path.basename(command[0]) == "srun" and "ssh" not in map(os.path.basename, words):
        return [*words, "-c", _READ_CODE]
    return [*words, "-c", shlex.quote(_READ_CODE)] if _is_plain_ssh(command) else [*command]


def _is_plain_ssh(command: Sequence[str]) -> bool:
    """`ssh OPTIONS HOST PYTHON -`."""
    from getopt import GetoptError, getopt

    if os.path.basename(command[0]) != "ssh":
        return False
    with suppress(GetoptError):
        _, words = getopt([*command[1:]], _SSH_OPTIONS)
        # Another program, or a word with blanks, which is a command, may hand on what it is told through one more shell.
        return len(words) == 3 and os.path.basename(words[1]).startswith("python") and not set(words[1]) & _SHELL_SIGNS
    return False


def find_executor(command: Sequence[str]) -> str | None:
    """What sends a program to a Python in a container or pod, as podman by `podman exec -i NAME python3 -`; `None`: it goes elsewhere."""
    before = command[: command.index("exec")] if command[-1:] == ["-"] and "exec" in command else ()
    return next((name for name in map(os.path.basename, before) if name in _EXECUTORS), None)


def kill_and_reap(*processes: subprocess.Popen[bytes]) -> None:
    """End children at once. One that can't die (state D) is waited for by a thread that holds nothing up."""
    for process in processes:
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        with suppress(PermissionError):  # it runs as another user, through sudo; it ends with its pipes
            process.kill()
    alive = [process for process in processes if process.poll() is None]
    if alive:
        threading.Thread(target=_wait, args=(alive,), name="kill_and_reap", daemon=True).start()


def _wait(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.wait()
