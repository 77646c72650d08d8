"""Temp dirs of Ray to be cleaned."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from grounds import Ground

from cockpit.probe.act.look import Watcher
from cockpit.probe.sessions import Desk


@pytest.fixture
def ground(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Ground]:
    """A short path: the name of a Unix socket has at most 107 bytes. This machine's own temp dirs are not looked into."""
    temp = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))
    known = Desk._known_temps
    monkeypatch.setattr(
        Desk, "_known_temps", lambda *seen: tuple(one for one in known(*seen) if one.startswith((str(temp), str(tmp_path))))
    )
    yield Ground(temp)
    shutil.rmtree(temp)


@pytest.fixture
def mounts(tmp_path: Path) -> Iterator[list[Path]]:
    """Mount points to be given back after the test; needs root."""
    if os.getuid() != 0:
        pytest.skip("needs root, to mount")
    mounted: list[Path] = []
    yield mounted
    for path in reversed(mounted):
        subprocess.run(["umount", str(path)], check=True)


@pytest.fixture
def watcher() -> Watcher:
    return Watcher({})
