"""The surroundings of a raylet's workers: of this test's own process, and of real ones in namespaces of their own."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cockpit.probe.sample import network, surroundings
from cockpit.probe.sample.network import read_addresses
from cockpit.probe.sample.proc import namespace_id
from cockpit.probe.sample.surroundings import find_loopback_line, rdma_devices, read_surroundings
from tests.probe.process_tables import process

HERE = os.getpid()
LOCAL = "127.0.0.1 localhost\n::1 localhost ip6-localhost\n"
ROUTES = """\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 10.0.0.6
        /31 link UNICAST
        /32 host LOCAL
     |-- 10.0.0.8
        /32 link BROADCAST
     |-- 127.0.0.1
        /32 host LOCAL
Local:
     |-- 10.0.0.6
        /32 host LOCAL
     |-- 192.168.7.2
        /32 host LOCAL
"""
IF_INET6 = "fd000000000000000000000000000002 02 40 00 80 eth0\nfe800000000000000000000000000002 02 40 20 80 eth0\n"


def net(proc: Path, routes: str = ROUTES, own: str = IF_INET6) -> str:
    folder = proc / "7" / "net"
    folder.mkdir(parents=True)
    (folder / "fib_trie").write_text(routes)
    (folder / "if_inet6").write_text(own)
    return str(proc)


def test_too_many_routes_or_addresses_are_unknown(tmp_path, monkeypatch):
    monkeypatch.setattr(network, "MAX_ADDRESSES", 2)
    assert read_addresses(7, net(tmp_path)) is None
    monkeypatch.setattr(network, "MAX_ADDRESSES", 99)
    monkeypatch.setattr(network, "MAX_ROUTES_BYTES", 40)
    assert read_addresses(7, str(tmp_path)) is None


def test_a_very_long_table_of_ipv6_addresses_is_read_only_in_part(tmp_path, monkeypatch):
    monkeypatch.setattr(network, "MAX_IPV6_BYTES", 200)
    read, asked = network.read, []
    monkeypatch.setattr(network, "read", lambda path, most: asked.append(path) or read(path, most))
    assert read_addresses(7, net(tmp_path, own=IF_INET6.splitlines()[1] + "\n")) == ("10.0.0.6", "192.168.7.2")
    (tmp_path / "7" / "net" / "if_inet6").write_text(IF_INET6 * 100)
    assert read_addresses(7, str(tmp_path)) is None, "some addresses would be missing"
    assert f"{tmp_path}/7/net/if_inet6" in asked


def test_all_addresses_are_read_also_the_second_one_of_an_interface_and_without_ipv6(tmp_path):
    assert read_addresses(7, net(tmp_path)) == ("10.0.0.6", "192.168.7.2", "fd00::2")
    (tmp_path / "7" / "net" / "if_inet6").unlink()
    assert read_addresses(7, str(tmp_path)) == ("10.0.0.6", "192.168.7.2")


def test_unreadable_addresses_are_unknown(tmp_path):
    assert read_addresses(7, str(tmp_path)) is None
    assert read_addresses(4_000_000) is None
    assert namespace_id(4_000_000, "net") is None
    gone = read_surroundings(process(4_000_000), None)
    assert gone["addresses"] is gone["network"] is gone["locked_memory"] is None


def test_this_host_s_own_addresses_are_among_them():
    assert set(network.addresses()) <= set(read_addresses(HERE) or ())
    boot, _, namespace = (namespace_id(HERE, "net") or "").partition(" ")
    assert (boot, namespace) == (Path("/proc/sys/kernel/random/boot_id").read_text().strip(), os.readlink("/proc/self/ns/net"))


def test_the_limit_of_locked_memory_counts_only_without_the_capability(monkeypatch):
    monkeypatch.setattr(surroundings, "has_capability", lambda pid, wanted: (pid, wanted) == (HERE, 1 << 14))
    assert read_surroundings(process(HERE), 65536)["locked_memory"] is None
    monkeypatch.setattr(surroundings, "has_capability", lambda *_: False)
    assert read_surroundings(process(HERE), 65536)["locked_memory"] == 65536


def devices(root: Path, *, files: bool = True) -> str:
    for name in ("mlx5_1", "mlx5_0"):
        (root / "sys" / "class" / "infiniband" / name).mkdir(parents=True)
    (root / "dev" / "infiniband").mkdir(parents=True)
    (root / "dev" / "infiniband" / "rdma_cm").touch()
    if files:
        (root / "dev" / "infiniband" / "uverbs0").touch()
    return str(root)


def test_devices_are_reported_that_can_be_opened_and_unknown_if_unreadable(tmp_path):
    assert rdma_devices(devices(tmp_path / "host")) == ("mlx5_0", "mlx5_1")
    assert rdma_devices(devices(tmp_path / "container", files=False)) == ()
    assert rdma_devices(str(tmp_path / "none")) == ()
    (tmp_path / "dev").write_text("no folder")
    assert rdma_devices(str(tmp_path)) is None


@pytest.mark.parametrize("folder", ["dev/infiniband", "sys/class/infiniband", "sys"])
def test_a_link_leads_to_files_of_the_container_not_of_this_host(tmp_path, folder):
    root, ours = tmp_path / "root", tmp_path / "ours"
    devices(root)
    (root / folder).rename(ours)
    (root / folder).symlink_to(ours)
    assert rdma_devices(str(root)) == (), "there is no such folder below its root"
    (root / str(ours)[1:]).parent.mkdir(parents=True)
    ours.rename(root / str(ours)[1:])
    assert rdma_devices(str(root)) == ("mlx5_0", "mlx5_1")


def test_the_number_of_devices_read_is_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(surroundings, "MAX_ENTRIES", 1)
    found = rdma_devices(devices(tmp_path))
    assert found is not None
    assert len(found) < 2


def test_the_hosts_name_is_looked_up_in_the_raylets_own_files(tmp_path, monkeypatch):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "hosts").write_text(f"127.0.1.1 {socket.gethostname()}\n10.0.0.1 in-there\n")
    (tmp_path / "etc" / "hostname").write_text("in-there\n")
    monkeypatch.setattr(surroundings, "root_of", lambda _: str(tmp_path))
    assert read_surroundings(process(HERE), None)["loopback_line"] == f"127.0.1.1 {socket.gethostname()}"
    monkeypatch.setattr(surroundings, "is_in_our_namespace", lambda *_: False)
    assert read_surroundings(process(HERE), None)["loopback_line"] is None, "in a container its name is another one"
    (tmp_path / "etc" / "hosts").write_text("127.0.0.1 in-there\n")
    assert read_surroundings(process(HERE), None)["loopback_line"] == "127.0.0.1 in-there"


@contextmanager
def living(*command: str) -> Iterator[int]:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout
        assert child.stdout.readline() == b"up\n"
        try:
            yield child.pid
        finally:
            child.kill()


@pytest.mark.process
@pytest.mark.skipif(os.geteuid() != 0, reason="makes namespaces and gives up a capability")
def test_a_process_in_its_own_namespaces_has_its_own_addresses_and_limits():
    inside = "ip link set lo up; ip link add x0 type bridge; ip link set x0 up; ip addr add 10.77.0.1/24 dev x0; echo up; exec sleep 600"
    given = ["setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock", "unshare", "--net", "sh", "-c", inside]
    with living(*given) as pid:
        resource.prlimit(pid, resource.RLIMIT_MEMLOCK, (65536, 65536))
        found = read_surroundings(process(pid), 65536)
    assert found["addresses"] == ("10.77.0.1",)
    assert found["network"] != namespace_id(HERE, "net")
    assert found["locked_memory"] == 65536
    assert read_surroundings(process(HERE), 65536)["locked_memory"] is None, "root may pin any amount"


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ("127.0.1.1\tw1.example.com  w1\n", "127.0.1.1 w1.example.com w1"),
        ("127.0.1.1 W1 # by the installer\n", "127.0.1.1 W1"),
        ("10.0.0.1 w1\n127.0.1.1 w1\n", "127.0.1.1 w1"),
        ("::1 w1\n", "::1 w1"),
        ("10.0.0.1 w1\n", None),
        ("127.0.1.1 w10 xw1\n", None),
        ("# 127.0.1.1 w1\n", None),
        ("127.0.1.1\n\n \n", None),
        ("w1 127.0.1.1\n", None),
        ("", None),
        ("127.0.1.1 w1 " + "x" * 5000, "127.0.1.1 w1 " + "x" * 187),
    ],
)
def test_the_first_line_that_makes_the_name_loopback_is_found(lines, found):
    assert find_loopback_line(LOCAL + lines, "w1") == found


def test_a_host_that_is_called_localhost_is_loopback():
    assert find_loopback_line(LOCAL, "localhost") == "127.0.0.1 localhost"
