from __future__ import annotations

import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.sources.probes.ssh_control import SshControlSockets


@pytest.fixture
def runtime(monkeypatch) -> Iterator[Path]:
    """Short, as a user's runtime folder is: a socket's path has 107 bytes."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder)


def test_sockets_lie_where_nobody_else_can_reach_them(runtime):
    control = Path(SshControlSockets().control)
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
    assert str(made) + "/" not in SshControlSockets().control


def test_without_a_place_for_a_socket_each_call_connects_anew(runtime, monkeypatch):
    monkeypatch.setattr("cockpit.sources.probes.ssh_control._MAX_PREFIX_BYTES", 5)
    control_sockets = SshControlSockets()
    assert control_sockets.control == "none"
    control_sockets.close()


def test_one_that_hangs_holds_nobody_up(runtime):
    control_sockets = SshControlSockets()
    with socket.socket(socket.AF_UNIX) as hung:
        hung.bind(control_sockets.control.replace("%C", "a"))
        hung.listen()
        control_sockets.close()


def test_another_cockpits_connections_stay(runtime):
    control_sockets = SshControlSockets()
    other = Path(control_sockets.control).with_name(f"{os.getpid()}0-aa")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(other))
        server.listen()
        server.setblocking(False)
        control_sockets.close()
        with pytest.raises(BlockingIOError):  # whoever had connected would be waiting here
            server.accept()
