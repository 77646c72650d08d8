"""InfiniBand and RoCE ports that are down, links that go down, errors that grow."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.findings import FindingTracker, Limits
from cockpit.findings.infiniband import growing_rdma_errors, rdma_ports_down
from cockpit.model import Host, RdmaPort
from tests.findings.detection import codes, detect, later, only
from tests.world import NOW, snapshot

DOWN, GROWTH = (rdma_ports_down,), (growing_rdma_errors,)
NONE = {"link_downed": 0, "symbol_error": 0, "port_rcv_errors": 0}


def port(number=0, state="ACTIVE", phys="LinkUp", used=True, layer="InfiniBand", **errors):
    return RdmaPort(
        device=f"mlx5_{number}", port=1, layer=layer, state=state, phys_state=phys, rate="400 Gb/sec (4X NDR)", used=used,
        errors={**NONE, **errors},
    )  # fmt: skip


def host(*ports, name="w1", **more):
    return Host(name, taken=NOW, rdma_ports=ports, **more)


def world(*hosts):
    return snapshot(hosts={each.name: each for each in hosts})


def test_a_port_that_is_down_beside_active_ones_has_its_link_failures():
    found = only(detect(world(host(port(0), port(1), port(2, "DOWN", "Polling", link_downed=3))), detectors=DOWN), "rdma-port-down")
    assert (found.level, found.subject) == ("warning", "w1 mlx5_2 port 1")
    assert found.text == (
        "InfiniBand port 1 of mlx5_2 (400 Gb/sec (4X NDR)) on w1 is DOWN (Polling), while 2 other ports there are active: "
        "its link is down; its link went down 3 times since its counters were reset"
    )
    assert found.evidence[0] == ("cat /sys/class/infiniband/mlx5_2/ports/1/state /sys/class/infiniband/mlx5_2/ports/1/phys_state on w1")


def test_a_port_that_waits_for_its_subnet_manager_or_is_unused_elsewhere_is_described():
    found = only(detect(world(host(port(0), port(1, "INIT"))), detectors=DOWN), "rdma-port-down")
    assert "is INIT (LinkUp), while 1 other port there is active: its link is up, but no subnet manager has made it active" in found.text
    assert "`sminfo`" in found.remedy.text
    unused = port(1, "DOWN", "Polling", used=False)
    hosts = [host(port(0), unused), host(port(0), port(1), name="w2"), host(port(0), port(1), name="w3")]
    found = only(detect(world(*hosts), detectors=DOWN), "rdma-port-down")
    assert "and the same port is active on 2 other hosts" in found.text


@pytest.mark.parametrize(
    "fine",
    [
        host(port(0), port(1)),
        host(port(0), port(1, "DOWN", "Disabled", used=False)),
        host(port(0, "DOWN", "Polling"), port(1, "DOWN", "Polling")),
        host(port(0), port(1, None, None)),
        replace(host(), rdma_ports=None),
        host(),
        replace(host(port(0), port(1, "DOWN", "Polling")), taken=NOW - 300),
    ],
)
def test_active_uncabled_unknown_and_old_ports_are_not_reported(fine):
    assert detect(world(fine), 0 if fine.taken != NOW else 300, detectors=DOWN) == ()


def test_it_must_have_lasted():
    tracker, made = FindingTracker(Limits(rdma_down_age=60), DOWN), world(host(port(0), port(1, "DOWN", "Polling")))
    assert codes(tracker(later(made, -59)).findings) == set()
    assert codes(tracker(later(made, 0)).findings) == set()
    assert codes(tracker(later(made, 1)).findings) == {"rdma-port-down"}


def watch(*steps):
    """The findings after these counters of one port, a minute apart."""
    tracker = FindingTracker(Limits(), GROWTH)
    return [tracker(later(world(host(port(**errors))), 60.0 * number)).findings for number, errors in enumerate(steps)]


def test_a_link_failure_is_reported_with_both_counts():
    before, after = watch({"link_downed": 4}, {"link_downed": 5})
    assert before == ()
    assert only(after, "rdma-link-flaps").text == (
        "The link of InfiniBand port 1 of mlx5_0 (400 Gb/sec (4X NDR)) on w1 went down 1 time in 1 minute (5 in all): "
        "each time NCCL's connections over it fail or stall"
    )


def test_new_errors_are_reported_from_their_mark():
    _, below, at = watch({"symbol_error": 100}, {"symbol_error": 109}, {"symbol_error": 110, "port_rcv_errors": 2})
    assert below == ()
    found = only(at, "rdma-link-errors")
    assert "has new errors in 2 minutes: port_rcv_errors 2 (2 in all), symbol_error 10 (110 in all)" in found.text
    assert found.evidence[1] == "cat /sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error on w1: 110"
    assert watch({"symbol_error": 5000, "link_downed": 7}, {"symbol_error": 5000, "link_downed": 7}, {}) == [(), (), ()]
    tracker = FindingTracker(Limits(), GROWTH)
    bare = replace(port(), errors={"symbol_error": 0})
    tracker(later(world(host(bare)), 0))
    assert tracker(later(world(host(port(link_downed=9))), 60)).findings == ()
