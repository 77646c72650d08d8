"""Tests the interfaces of a process, and the one of its default route."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cockpit.probe.sample import network
from cockpit.probe.sample.network import Interfaces, read_interfaces

DEV = "Inter-|   Receive\n face |bytes\n    lo: 1 2\n  eth0: 3 4\n"
HEAD = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"


def row(name: str, to: str = "00000000", flags: str = "0003", metric: int = 0, mask: str = "00000000") -> str:
    return f"{name}\t{to}\t0100000A\t{flags}\t0\t0\t{metric}\t{mask}\t0\t0\t0\n"


def read(proc: Path, *rows: str) -> Interfaces | None:
    net = proc / "7" / "net"
    net.mkdir(parents=True, exist_ok=True)
    (net / "dev").write_text(DEV)
    (net / "route").write_text(HEAD + "".join(rows))
    return read_interfaces(7, str(proc))


@pytest.mark.parametrize(
    ("rows", "default"),
    [
        ([row("eth0", "0000000A", mask="000000FF"), row("ens5")], "ens5"),
        ([row("slow", metric=600), row("fast", metric=100)], "fast"),
        ([row("down", flags="0002"), row("up", metric=9)], "up"),
        ([row("lo", flags="0201")], None),
        ([row("eth0", "0000000A", mask="000000FF")], None),
        ([row("half", mask="00000080")], None),
        ([], None),
        (["broken\n"], None),
    ],
)
def test_the_default_route_is_the_one_that_the_kernel_prefers(tmp_path, rows, default):
    assert read(tmp_path, *rows) == Interfaces(("lo", "eth0"), default)


def test_unreadable_addresses_are_unknown(tmp_path):
    assert read_interfaces(7, str(tmp_path)) is None
    read(tmp_path)
    (tmp_path / "7" / "net" / "route").unlink()
    assert read_interfaces(7, str(tmp_path)) == Interfaces(("lo", "eth0"))


def test_a_very_long_table_is_not_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(network, "MAX_ROUTES_BYTES", 256)
    routes = [row("eth0"), *(row("eth0", f"{number:08X}", mask="FFFFFFFF", metric=-1) for number in range(100))]
    assert read(tmp_path, *routes) == Interfaces(("lo", "eth0"), "eth0")
    (tmp_path / "7" / "net" / "dev").write_text(DEV * 100)
    assert read_interfaces(7, str(tmp_path)) is None, "some interfaces would be missing"


def test_this_process_has_a_loopback():
    assert "lo" in read_interfaces(os.getpid()).names
