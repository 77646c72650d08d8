from __future__ import annotations

import os
import socket
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.sources.masters import _PATIENCE, Masters


@pytest.fixture
def runtime(monkeypatch) -> Iterator[Path]:
    """Short, as a user's runtime folder is: a socket's path has 107 bytes."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder)


def test_sockets_lie_where_nobody_else_can_reach_them(runtime):
    control = Path(Masters().control)
    assert control == runtime / "cockpit" / f"{os.getpid()}-%C"
    assert stat.S_IMODE(control.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("trap", ["open", "link", "file"])
def test_a_folder_that_somebody_else_prepared_is_not_used(runtime, monkeypatch, tmp_path, trap):
    made = runtime / "cockpit"
    if trap == "open":
        made.mkdir()
        made.chmod(0o777)
    elif trap == "link":
        made.symlink_to(tmp_path)
    else:
        made.touch()
    monkeypatch.setattr("tempfile.tempdir", str(runtime))
    assert str(made) + "/" not in Masters().control


def test_without_a_place_for_a_socket_each_call_connects_anew(runtime, monkeypatch):
    monkeypatch.setattr("cockpit.sources.masters._LONGEST", 5)
    masters = Masters()
    assert masters.control == "none"
    masters.close()


def test_one_that_hangs_holds_nobody_up(runtime):
    masters = Masters()
    with socket.socket(socket.AF_UNIX) as hung:
        hung.bind(masters.control.replace("%C", "a"))
        hung.listen()
        began = time.monotonic()
        masters.close()
        assert time.monotonic() - began < 10 * _PATIENCE


def test_another_cockpits_connections_stay(runtime):
    masters = Masters()
    other = Path(masters.control).with_name(f"{os.getpid()}0-aa")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(other))
        server.listen()
        server.setblocking(False)
        masters.close()
        with pytest.raises(BlockingIOError):  # whoever had connected would be waiting here
            server.accept()
