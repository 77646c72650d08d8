"""Network interfaces that NCCL or Gloo are configured to use."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.findings.interfaces import missing_interfaces
from cockpit.model import Hold, SocketInterfaces
from tests.findings.detection import detect, only
from tests.world import GIB, NOW, process, snapshot

ALONE = (missing_interfaces,)
THERE = ("lo", "eth0", "ens5f0")


def rank(pid=1001, nccl=None, gloo=None, there=THERE, default=None, **more):
    facts = {"gpus": (Hold(0, GIB),), "job": "02000000", "started": NOW - 100, **more}
    return process(pid, sockets=SocketInterfaces(nccl, gloo, there, default), **facts)


def seen(*processes):
    return snapshot(processes=processes)


def test_a_missing_interface_is_reported_with_the_existing_ones():
    found = only(detect(seen(rank(gloo="ib0"), rank(1002, gloo="ib0")), detectors=ALONE), "interface-missing")
    assert found.text == (
        "GLOO_SOCKET_IFNAME is ib0 for 2 processes of job ppo-7b on node1, which has no such network interface (it has eth0, ens5f0): "
        "the processes of the job can't find each other"
    )
    assert (found.level, found.about) == ("warning", (rank().key, rank(1002).key))
    assert found.evidence[0] == "/proc/1001/environ on node1: GLOO_SOCKET_IFNAME=ib0"


@pytest.mark.parametrize(
    ("library", "value"),
    [
        *(("nccl", value) for value in ("eth", "eth0", "=eth0", "ib0,ens", "^docker,lo", "^eth", "eth0:7", "", "=")),
        *(("gloo", value) for value in ("eth0", "eth0,ens5f0", "")),
    ],
)
def test_prefixes_of_nccl_exclusions_and_complete_names_of_gloo_are_found(library, value):
    assert detect(seen(rank(**{library: value})), detectors=ALONE) == ()


@pytest.mark.parametrize(
    ("library", "value"), [*(("nccl", value) for value in ("ib", "=eth", "bond0,ib0", "=ens5f")), ("gloo", "eth0,ib0"), ("gloo", "eth")]
)
def test_names_that_nccl_or_gloo_cannot_find_are_reported(library, value):
    found = only(detect(seen(rank(**{library: value})), detectors=ALONE), "interface-missing")
    assert found.subject.startswith(f"node1 {library.upper()}_SOCKET_IFNAME ")


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
def test_running_single_and_unknown_processes_are_not_reported(fine):
    assert detect(seen(fine), detectors=ALONE) == ()


def apart(*processes):
    """The findings on two probed hosts."""
    first = snapshot()
    here = first.hosts["node1"]
    return replace(first, processes=processes, hosts={name: replace(here, name=name, taken=NOW, nodes=()) for name in ("node1", "node2")})


def routes(*processes):
    reported = detect(apart(*processes), 0, detectors=ALONE)
    return [line for found in reported for line in found.evidence if line.startswith("`ip route")]


def test_different_default_routes_are_evidence_and_no_finding_alone():
    lost, fine = rank(gloo="ib0", default="ens5f0"), rank(2001, gloo="ib0", there=(*THERE, "ib0"), default="eth0", host="node2")
    assert routes(lost, fine) == ["`ip route show default` on node1: ens5f0", "`ip route show default` on node2: eth0"]
    assert routes(lost, replace(fine, sockets=replace(fine.sockets, default="ens5f0"))) == ["`ip route show default` on node1: ens5f0"]
    assert routes(lost, replace(fine, job="03000000")) == ["`ip route show default` on node1: ens5f0"]
    assert routes(rank(gloo="ib0"), replace(fine, sockets=replace(fine.sockets, default=None))) == []
    assert detect(apart(rank(gloo="eth0", default="eth0"), rank(2001, nccl="en", default="ens5f0", host="node2")), 0, detectors=ALONE) == ()
    assert "\x1b" not in routes(rank(gloo="ib0", default="e\x1b[2J"))[0]
