"""File systems for which processes in D state wait. A real one is the parent of a vfork, which waits until its child ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cockpit.probe.sample import stuck_io
from cockpit.probe.sample.processes import ProcessScanner, ScannedProcess, read_stat
from cockpit.probe.sample.stuck_io import StuckProcesses, find_wait_place
from cockpit.probe.sample.tree import Mount

pytestmark = pytest.mark.process
VFORK = """
import ctypes, os, signal, sys
file = open(sys.argv[1])
number = {"x86_64": 56, "aarch64": 220}[os.uname().machine]  # clone
if ctypes.CDLL(None).syscall(number, 0x4000 | signal.SIGCHLD, 0, 0, 0, 0) == 0:  # CLONE_VFORK
    signal.pause()
"""


@contextmanager
def vfork_parent(path: Path) -> Iterator[ScannedProcess]:
    """A process in D state with this file open; it ends with its child."""
    with subprocess.Popen([sys.executable, "-c", VFORK, str(path)], start_new_session=True) as parent:
        try:
            until = time.monotonic() + 60
            while (found := read_stat(parent.pid)) is None or found.state != "D":
                assert time.monotonic() < until
                assert parent.poll() is None
                time.sleep(0.01)
            yield found
        finally:
            os.killpg(parent.pid, signal.SIGKILL)


def test_a_process_that_stays_in_d_state_is_reported_with_the_kernels_function(tmp_path):
    (tmp_path / "data").touch()
    scanner, looks = ProcessScanner(), StuckProcesses()
    with vfork_parent(tmp_path / "data") as parent:
        first = looks.read(scanner.scan())
        told = looks.read(scanner.scan())
    assert parent.pid not in [one["pid"] for one in first], "seen once only"
    (one,) = [one for one in told if one["pid"] == parent.pid]
    assert one["ticks"] == parent.ticks
    assert one["waits_in"] is None or "vfork" in one["waits_in"] or "clone" in one["waits_in"]


def test_the_only_file_system_that_needs_a_server_is_the_one_it_may_wait_for(tmp_path, monkeypatch):
    (tmp_path / "data").touch()
    with vfork_parent(tmp_path / "data") as parent:
        lines = Path(f"/proc/{parent.pid}/fdinfo/3").read_text().splitlines()
        number = next(int(line.split()[1]) for line in lines if line.startswith("mnt_id:"))
        nfs = Mount(number, str(tmp_path), "nfs4", (), "filer:/export")
        monkeypatch.setattr(stuck_io, "read_mounts", lambda _: (nfs, Mount(1, "/", "ext4")))
        assert find_wait_place(parent.pid) == (nfs, False)
        monkeypatch.setattr(stuck_io, "_file_of_call", lambda _: "3")
        assert find_wait_place(parent.pid) == (nfs, True)


def test_local_disks_are_not_guessed(tmp_path):
    (tmp_path / "data").touch()
    with vfork_parent(tmp_path / "data") as parent:
        place = find_wait_place(parent.pid)
    assert place is None or place.mount.kind not in ("ext4", "overlay", "tmpfs", "xfs")


def test_the_file_of_a_system_call_is_read_as_the_kernel_numbers_it():
    reading, writing = os.pipe()
    program = f"import os; os.read({reading}, 1)"
    with subprocess.Popen([sys.executable, "-c", program], pass_fds=[reading]) as reader:
        until = time.monotonic() + 60
        while stuck_io._file_of_call(reader.pid) != str(reading):
            assert time.monotonic() < until, Path(f"/proc/{reader.pid}/syscall").read_text()
            time.sleep(0.01)
        os.close(writing)
    os.close(reading)


def test_a_process_that_has_ended_is_nothing():
    assert find_wait_place(2**22 - 1) is None
