"""Probes through a real OpenSSH server of the test's own, on the loopback interface, with its own keys."""

from __future__ import annotations

import asyncio
import getpass
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.config.reach import DEFAULT_REACH, HostEntry
from tests.sources.probes.recording_listener import watch_host
from tests.sources.probes.ssh_masters import master_pids, read_text

pytestmark = pytest.mark.process

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/bin:/sbin")


@pytest.fixture(scope="module")
def reach(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The default reach with an ssh config for the test's server."""
    if SSHD is None or os.getuid() != 0:
        pytest.skip("NO SSHD OR NOT ROOT: nothing was tried through a real ssh")
    folder = tmp_path_factory.mktemp("ssh")
    Path("/run/sshd").mkdir(exist_ok=True)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = (
        "PidFile=none",
        f"AuthorizedKeysFile={folder}/user.pub",
        "StrictModes=no",
        "PermitRootLogin=yes",
        "UsePAM=no",
        "ListenAddress=127.0.0.1",
    )
    words = [word for option in options for word in ("-o", option)]
    config = folder / "config"
    config.write_text(
        f"Port {port}\nIdentityFile {folder}/user\nIdentitiesOnly yes\n"
        "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n"
    )
    with subprocess.Popen([SSHD, "-D", "-e", "-p", str(port), "-h", str(folder / "host"), *words], stderr=subprocess.PIPE) as server:
        assert server.stderr is not None
        assert b"listening" in server.stderr.readline()
        yield DEFAULT_REACH.replace("ssh ", f"ssh -F {config} ", 1)
        server.kill()


async def test_a_host_is_watched_through_ssh_and_its_probe_ends_at_once(reach):
    hosts, task, listener = await watch_host(reach, HostEntry("w1", "127.0.0.1", getpass.getuser(), sys.executable))
    assert listener.faults == {}
    assert listener.hosts["w1"].memory.total is not None
    assert carried()
    hosts.close()
    await task
    limit = time.monotonic() + 60
    while carried():
        assert time.monotonic() < limit, "the probe outlives the ssh that carried it"
        await asyncio.sleep(0.05)


async def test_one_connection_is_kept_open_and_ends_with_cockpit(reach):
    entry = HostEntry("w1", "127.0.0.1", getpass.getuser(), sys.executable)
    hosts, task, _ = await watch_host(reach, entry)
    answers = await asyncio.gather(*(hosts.ask("w1", ("environ", str(os.getpid()), "0")) for _ in range(3)), return_exceptions=True)
    assert all("has ended" in str(answer) for answer in answers)  # no process has that start time
    assert len(master_pids()) == 1
    hosts.close()
    await task
    limit = time.monotonic() + 60
    while master_pids():
        assert time.monotonic() < limit, "a connection outlives us"
        await asyncio.sleep(0.02)


async def test_a_killed_cockpit_leaves_no_connection_for_long(reach):
    """`ControlPersist` is two seconds here, not sixty."""
    with_two = reach.replace("ControlPersist=60", "ControlPersist=2")
    program = (
        "import asyncio, getpass, os, sys\n"
        "from cockpit.config.reach import HostEntry\n"
        "from tests.sources.probes.recording_listener import watch_host\n"
        "from tests.sources.probes.ssh_masters import master_pids\n"
        "async def main():\n"
        "    hosts, task, listener = await watch_host(sys.argv[1], HostEntry('w1', '127.0.0.1', getpass.getuser(), sys.executable))\n"
        "    print(listener.faults or 'looking', os.getpid(), master_pids()[0], flush=True)\n"
        "    await task\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, with_two], stdout=subprocess.PIPE, text=True, env=dict(os.environ, PYTHONPATH=".")
    ) as cockpit:
        assert cockpit.stdout is not None
        first, _, master = cockpit.stdout.readline().split()
        assert first == "looking"
        cockpit.kill()
    limit = time.monotonic() + 60
    while "[mux]" in read_text(Path(f"/proc/{master}/cmdline")) or carried():
        assert time.monotonic() < limit
        await asyncio.sleep(0.05)


def carried() -> list[str]:
    """The programs that were sent through the test's server and still run."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            is_sent = (process / "cmdline").read_bytes() == f"{sys.executable}\0-\0".encode()
            if is_sent and b"SSH_CONNECTION=127.0.0.1" in (process / "environ").read_bytes():
                found.append(process.name)
        except OSError:  # it has ended meanwhile
            continue
    return found


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (HostEntry("w1", "127.0.0.1", "nobody"), "Permission denied (publickey"),
        (HostEntry("w1", "127.0.0.9"), "w1: ssh: connect to host 127.0.0.9 port "),
        (HostEntry("w1", "127.0.0.1", python="python9"), "w1: no Python to run there: "),
        (HostEntry("w1", "no-such-host.invalid"), "w1: ssh: Could not resolve hostname no-such-host.invalid"),
    ],
)
async def test_an_error_of_ssh_is_reported(reach, entry, text):
    hosts, task, listener = await watch_host(reach, entry)
    assert text in listener.faults["w1"]
    hosts.close()
    await task
