"""Configured hosts that are in no cluster, or in another one."""

from __future__ import annotations

import pytest

from cockpit.findings.nodes import missing_hosts
from cockpit.model import Cluster, Fault, Host, Node, RayProcess
from tests.findings.detection import detect
from tests.world import NOW, actor, node, snapshot

ALONE = (missing_hosts,)
HERE = Cluster("http://10.0.0.1:8265", "2.60.0", "session_1", reachable=True)
W2, W3 = Node(None, "w2", ip="10.0.0.2"), Node(None, "w3", ip="10.0.0.3")


def seen(*lone: Node, seconds: float = 120, **more):
    facts = {"cluster": HERE, "nodes": (node(1), *lone), "hosts": {}, "faults": (), "actors": (), "placement_groups": (), **more}
    return detect(snapshot(**facts), seconds, detectors=ALONE)


def test_a_configured_host_without_a_node_is_an_info_and_a_warning_while_work_does_not_fit():
    (found,) = seen(W2)
    assert (found.code, found.level, found.text, found.about) == ("node-missing", "info", "w2 is not in this cluster", (W2.key,))
    assert found.evidence == ("w2: no probe data", "`ray list nodes` lists 1 live node, but not this host")
    never = actor(1, state="PENDING_CREATION", wait="never")
    (urgent,) = seen(W2, W3, actors=(never,))
    assert (urgent.level, urgent.text) == (
        "warning", "w2 and w3 are not in this cluster; actors or placement groups that are too large for its nodes wait",
    )  # fmt: skip


def test_the_probes_facts_of_it_are_reported():
    idle = Host("w2", ("10.0.0.2",), NOW, rays=())
    assert seen(W2, hosts={"w2": idle})[0].evidence[0] == "w2: no raylet runs there"
    other = Host("w2", ("10.0.0.2",), NOW, rays=(RayProcess("raylet", 5, "session_2"),))
    (found,) = seen(W2, hosts={"w2": other})
    assert found.text == "w2 is not in this cluster: its raylet belongs to another cluster (session_2)"


@pytest.mark.parametrize(
    "more",
    [
        {"seconds": 50},
        {"faults": (Fault("ray.nodes", "silent", NOW - 500),)},
        {"cluster": Cluster("http://x", reachable=False)},
        {"hosts": {"w2": Host("w2", taken=NOW, local=True)}},
        {"nodes": (W2,)},
        {"nodes": None},
    ],
)
def test_a_host_that_may_still_join_a_silent_ray_and_a_laptop_are_not_reported(more):
    assert seen(W2, **more) == ()
