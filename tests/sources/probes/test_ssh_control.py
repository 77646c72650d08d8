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
    """A runtime folder with a short path, since a socket's path may have only 107 bytes."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder)


def test_the_folder_of_the_sockets_is_closed_to_other_users(runtime):
    control = Path(SshControlSockets().control)
    assert control == runtime / "cockpit" / f"{os.getpid()}-%C"
    assert stat.S_IMODE(control.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("trap", ["open", "link", "file"])
def test_a_folder_that_another_user_prepared_is_not_used(runtime, monkeypatch, tmp_path, trap):
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


def test_without_a_folder_for_sockets_each_call_opens_its_own_connection(runtime, monkeypatch):
    monkeypatch.setattr("cockpit.sources.probes.ssh_control._MAX_PREFIX_BYTES", 5)
    control_sockets = SshControlSockets()
    assert control_sockets.control == "none"
    control_sockets.close()


def test_a_connection_that_hangs_does_not_delay_close(runtime):
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
        with pytest.raises(BlockingIOError):  # nobody has connected
            server.accept()
