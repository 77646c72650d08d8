"""Network interfaces that NCCL or Gloo is told to use."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.findings.interfaces import missing_interfaces
from cockpit.model import Hold, SocketInterfaces
from tests.findings.detection import looked, only
from tests.world import GIB, NOW, process, snapshot

ALONE = (missing_interfaces,)
THERE = ("lo", "eth0", "ens5f0")


def rank(pid=1001, nccl=None, gloo=None, there=THERE, **more):
    facts = {"gpus": (Hold(0, GIB),), "job": "02000000", "started": NOW - 100, **more}
    return process(pid, sockets=SocketInterfaces(nccl, gloo, there), **facts)


def seen(*processes):
    return snapshot(processes=processes)


def test_an_interface_that_is_not_there_is_told_with_those_that_are():
    found = only(looked(seen(rank(gloo="ib0"), rank(1002, gloo="ib0")), detectors=ALONE), "interface-missing")
    assert found.text == (
        "GLOO_SOCKET_IFNAME is ib0 for 2 processes of job ppo-7b on node1, which has no such network interface (it has eth0, ens5f0): "
        "the processes of the job can't find each other"
    )
    assert (found.level, found.about) == ("warning", (rank().key, rank(1002).key))
    assert found.evidence[0] == "/proc/1001/environ on node1: GLOO_SOCKET_IFNAME=ib0"


@pytest.mark.parametrize("value", ["ib", "=eth", "bond0,ib0", "=ens5f"])
def test_what_nccl_would_not_find_is_told(value):
    assert only(looked(seen(rank(nccl=value)), detectors=ALONE), "interface-missing").subject.startswith("node1 NCCL_SOCKET_IFNAME ")


@pytest.mark.parametrize("value", ["eth", "eth0", "=eth0", "ib0,ens", "^docker,lo", "^eth", "eth0:7", "", "="])
def test_what_nccl_finds_by_a_beginning_or_leaves_out_is_not(value):
    assert looked(seen(rank(nccl=value)), detectors=ALONE) == ()


@pytest.mark.parametrize("value", ["eth0", "eth0,ens5f0", ""])
def test_what_gloo_finds_is_not(value):
    assert looked(seen(rank(gloo=value)), detectors=ALONE) == ()


def test_gloo_wants_whole_names_and_all_of_them():
    assert only(looked(seen(rank(gloo="eth0,ib0")), detectors=ALONE), "interface-missing")
    assert only(looked(seen(rank(gloo="eth")), detectors=ALONE), "interface-missing")


@pytest.mark.parametrize(
    "fine",
    [
        rank(gloo="ib0", gpus=()),
        rank(gloo="ib0", there=()),
        rank(gloo="ib0", started=NOW - 7200),
        rank(gloo="ib0", started=None),
        rank(gloo="ib0", ours=False),
        replace(rank(), sockets=None),
        rank(),
    ],
)
def test_what_runs_already_joins_no_group_or_is_unknown_is_not_told(fine):
    assert looked(seen(fine), detectors=ALONE) == ()
