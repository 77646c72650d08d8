"""Too few ports for workers, and ports that the kernel gives to connections."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.findings import FindingTracker, Limits
from cockpit.findings.port_ranges import common_ports, few_worker_ports, ports_of_connections, take_out, write_ranges
from cockpit.model import Cluster, Host, Quantity, RayPorts, RayProcess
from tests.findings.detection import codes, detect, later, only
from tests.world import NOW, actor, node, process, snapshot

FEW, CONNECTIONS = (few_worker_ports,), (ports_of_connections,)
SESSION = "session_2026-11-21_00-00-00_000000_8"
CLUSTER = Cluster("http://10.0.0.1:8265", "2.60.0", SESSION, reachable=True)
FOUR = RayPorts(((10010, 10013),))


def host(ports, role="raylet", number=1, **more):
    ray = RayProcess(role, 20, SESSION, node(number).id if role == "raylet" else None, ports=ports)
    return Host(f"node{number}", (), NOW, nodes=(node(number).id,), rays=(ray,), **more)


def engine(number, wait="starting"):
    return actor(number, state="PENDING_CREATION", node=None, pid=None, wait=wait)


def worker(pid, kind="worker", **more):
    return process(pid, kind=kind, session=SESSION, gpus=(), **more)


def world(*hosts, workers=3, drivers=1, waiting=4, cpus=2, **more):
    processes = [worker(100 + pid) for pid in range(workers)] + [worker(200 + pid, "driver") for pid in range(drivers)]
    one = node(1, resources={"CPU": Quantity(0, cpus)})
    facts = {"processes": tuple(processes), "actors": tuple(map(engine, range(waiting))), **more}
    return snapshot(cluster=CLUSTER, nodes=(one, node(2)), hosts={each.name: each for each in hosts}, **facts)


def test_a_raylet_without_a_free_port_is_reported_while_actors_wait_to_start():
    found = only(detect(world(host(FOUR)), detectors=FEW), "worker-ports-full")
    assert (found.level, found.subject) == ("critical", "node1")
    assert found.text == (
        "The raylet on node1 has 4 ports for workers (10010-10013), and 4 workers and drivers run there: "
        "no other worker can start there, and 4 actors wait"
    )
    assert found.evidence == ("ps -o args= -p 20 on node1: worker ports 10010-10013",)
    assert "--min-worker-port and --max-worker-port" in found.remedy.text
    assert found.about == (node(1).key, *(engine(number).key for number in range(4)))
    tracker, made = FindingTracker(Limits(worker_ports_age=30), FEW), world(host(FOUR))
    assert codes(tracker(later(made, -29)).findings) == set()
    assert codes(tracker(later(made, 0)).findings) == set()
    assert codes(tracker(later(made, 1)).findings) == {"worker-ports-full"}


@pytest.mark.parametrize(
    "fine",
    [
        world(host(FOUR), workers=2),
        world(host(FOUR), waiting=0),
        world(host(FOUR), actors=tuple(engine(number, "held") for number in range(4))),
        world(host(FOUR), actors=None),
        world(host(FOUR), processes=None),
        world(host(FOUR), processes=tuple(worker(pid, state="Z") for pid in range(9))),
        world(host(FOUR), processes=tuple(worker(pid, node=node(2).id) for pid in range(9))),
        world(host(RayPorts())),
        world(host(None)),
        world(replace(host(FOUR), rays=None)),
        world(replace(host(FOUR), rays=(RayProcess("raylet", 20, "another", "a", ports=FOUR),))),
    ],
)  # fmt: skip
def test_free_ports_no_waiting_work_or_unknown_ports_are_fine(fine):
    assert detect(fine, detectors=FEW) == ()
    assert detect(world(replace(host(FOUR), taken=NOW - 300)), 0, detectors=FEW) == (), "nothing follows from old facts"


def test_fewer_ports_than_cpus_are_an_info():
    found = only(detect(world(host(FOUR), workers=0, cpus=16), detectors=FEW), "worker-ports-few")
    assert (found.level, found.text) == (
        "info",
        (
            "The raylet on node1 has 4 ports for workers (10010-10013), but 16 CPUs: each worker needs a port, "
            "so that no more than 4 workers and drivers can run there"
        ),
    )
    assert detect(world(host(FOUR), workers=0, cpus=4), detectors=FEW) == ()


LOCAL = (32768, 60999)


def test_rays_ports_in_the_range_of_connections_are_reported_with_both_ranges():
    made = world(host(RayPorts(((30000, 40000),), {}, LOCAL)), host(RayPorts(((30000, 40000),), {}, LOCAL), number=2))
    found = only(detect(made, detectors=CONNECTIONS), "ports-ephemeral")
    assert (found.level, found.text) == (
        "info",
        (
            "Ray's worker ports on node1, node2 are 32768-40000, within 32768-60999, from which the kernel gives a port to each "
            "connection: one of them may have taken a port before Ray does"
        ),
    )
    assert "`sysctl -w net.ipv4.ip_local_reserved_ports=32768-40000`" in found.remedy.text
    found = only(detect(world(host(RayPorts((), {"GCS": 6379}, (1024, 65535)), "gcs_server")), detectors=CONNECTIONS), "ports-ephemeral")
    assert found.text.startswith("Ray's port of the GCS on node1 is 6379, within 1024-65535, from which")


@pytest.mark.parametrize(
    "ports",
    [
        RayPorts(((10002, 19999),), {"GCS": 6379}, LOCAL),
        RayPorts(((30000, 40000),), {}, LOCAL, ((32000, 41000),)),
        RayPorts(((30000, 40000),)),
        RayPorts((), {}, LOCAL),
        None,
    ],
)
def test_default_reserved_and_unknown_ports_are_not_reported(ports):
    assert detect(world(host(ports)), detectors=CONNECTIONS) == ()


def test_ranges_are_compared_port_by_port():
    assert common_ports(((1, 10), (20, 30)), (5, 25)) == ((5, 10), (20, 25))
    assert take_out(((5, 10), (20, 25)), ((7, 8), (22, 40))) == ((5, 6), (9, 10), (20, 21))
    assert write_ranges(((1, 2), (4, 4), (6, 7), (9, 9), (11, 11))) == "1-2, 4, 6-7 and 2 more ranges"
