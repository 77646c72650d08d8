"""Programs of others are run with limits of time and output."""

from __future__ import annotations

import os
import resource
import signal

import pytest

from cockpit.probe import programs
from cockpit.probe.sample.processes import read_stat

pytestmark = pytest.mark.process
ENVIRON = {"PATH": os.defpath}


def run(script: str, limit_s: float = 20, text: bytes = b"") -> programs.Finished:
    return programs.run(["/bin/sh", "-c", script], programs.our_account(), ENVIRON, limit_s=limit_s, text=text)


def test_input_reaches_the_program_and_both_outputs_come_back():
    assert run("cat; echo no >&2; exit 3", text=b"x" * 200_000) == (3, b"x" * 200_000, b"no\n")


def test_what_follows_a_profile_that_truncates_the_output_is_whole():
    """`>` opens the output anew and empties it."""
    assert run("echo banner; echo 12345678 >/dev/stdout; echo answer") == (0, b"12345678\nanswer\n", b"")
    assert run("echo banner >&2; echo 12345678 >/dev/stderr; echo reason >&2") == (0, b"", b"12345678\nreason\n")


def test_a_program_that_takes_too_long_is_killed_with_its_children_and_its_output_is_kept():
    ended = run("sleep 600 & echo $!; wait", limit_s=0.5)
    assert ended.code is None
    while (child := read_stat(int(ended.out))) and child.alive:
        pass  # the kernel may need a moment to end it


def test_a_program_can_write_no_more_than_the_limit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(programs, "MAX_BYTES", 5000)
    assert run("cat /dev/zero; exit 0") == (None, bytes(5000), run("cat /dev/zero").err)


def test_a_child_that_goes_on_does_not_delay_the_answer():
    ended = run("sleep 600 >/dev/null & echo $!")
    os.kill(int(ended.out), signal.SIGKILL)
    assert ended.code == 0


def test_a_login_shells_children_keep_none_of_our_limits(monkeypatch: pytest.MonkeyPatch):
    """A tmux started by a profile could otherwise write no large file in any of its windows."""
    monkeypatch.setattr(programs, "MAX_BYTES", 5000)
    script = "sleep 600 >/dev/null & echo $!"
    ended = programs.run(["/bin/sh", "-c", script], programs.our_account(), ENVIRON, limit_s=20, limited=False)
    started = int(ended.out)
    assert resource.prlimit(started, resource.RLIMIT_FSIZE) == resource.getrlimit(resource.RLIMIT_FSIZE)
    os.kill(started, signal.SIGKILL)
    flood = programs.run(["/bin/sh", "-c", "head -c 9000 /dev/zero"], programs.our_account(), ENVIRON, limit_s=20, limited=False)
    assert (flood.code, len(flood.out)) == (None, 5000)
