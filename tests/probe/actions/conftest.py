"""Fixtures: temp dirs of Ray that can be cleaned."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.probe.actions.host_state import HostScanner
from cockpit.probe.sample.processes import ProcessScanner, ProcessTable
from cockpit.probe.sample.sessions import SessionScanner
from tests.probe.actions.cleaning import Cleaner


@pytest.fixture
def cleaner(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Cleaner]:
    """A short path: the name of a Unix socket has at most 107 bytes. This machine's own temp dirs and processes are left out."""
    temp = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))
    known = SessionScanner._find_temp_dirs
    monkeypatch.setattr(
        SessionScanner, "_find_temp_dirs", lambda *seen: tuple(one for one in known(*seen) if one.startswith((str(temp), str(tmp_path))))
    )
    scan = ProcessScanner.scan
    monkeypatch.setattr(ProcessScanner, "scan", lambda scanner: without_others(scan(scanner)))
    yield Cleaner(temp)
    shutil.rmtree(temp)


def without_others(table: ProcessTable) -> ProcessTable:
    """The table without Ray processes of others: a raylet with an unknown session would make each session possibly alive."""

    def hangs_from_us(pid: int) -> bool:
        while pid in table and pid != os.getpid():
            pid = table[pid].parent
        return pid == os.getpid()

    return {pid: process for pid, process in table.items() if process.origin.role is None or hangs_from_us(pid)}


@pytest.fixture
def mounts(tmp_path: Path) -> Iterator[list[Path]]:
    """Mount points that are unmounted after the test; needs root."""
    if os.getuid() != 0:
        pytest.skip("needs root, to mount")
    mounted: list[Path] = []
    yield mounted
    for path in reversed(mounted):
        subprocess.run(["umount", str(path)], check=True)


@pytest.fixture
def scanner() -> HostScanner:
    return HostScanner({})
