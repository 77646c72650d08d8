"""What the page of a node says of the pod that the node is."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from cockpit.model import Container, ContainerEnd, Node, Pod, RayCluster
from cockpit.ui.pages.nodes import NodePage
from cockpit.ui.view import Index, View
from tests.ui.screen import at, shown, until
from tests.world import GIB, NOW, node, snapshot

NAME = "rayjob-sample-qtfkz-gpu-worker-mh5wd"
WORKER = node(1, pod=NAME)
CONTAINER = Container("ray-worker", memory_limit=8 * GIB)


def pod(**more: Any) -> Pod:
    return Pod(NAME, "uid", **{"phase": "Running", "group": "gpu", "created": NOW - 7200, "containers": (CONTAINER,), **more})


def told(*pods: Pod, of: Node = WORKER) -> list[tuple[str, str]]:
    """The lines about its pod, by name."""
    known = replace(snapshot(nodes=(of,)), kubernetes=RayCluster("default", "ray", pods=pods), as_of={"kubernetes": NOW - 12})
    section = NodePage(of).sections(View(known, Index(known), now=NOW, width=400))[0]
    return [(row.name, row.value) for row in section.rows if row.name.startswith(("pod", "container"))]


def test_a_pod_that_runs_has_its_group_its_phase_and_its_containers():
    assert told(pod()) == [
        ("pod", f"{NAME}  worker of group gpu"),
        ("pod phase", "Running, created 2h00m ago; Kubernetes was polled 12s ago"),
        ("container", "ray-worker, 0 restarts, memory limit 8.0G"),
    ]


def test_a_container_that_has_ended_says_how_often_how_and_when():
    ended = replace(CONTAINER, restarts=2, ended=ContainerEnd("OOMKilled", 137, NOW - 90))
    assert told(pod(containers=(ended,)))[-1] == (
        "container",
        "ray-worker, 2 restarts, last ended 1m30s ago: OOMKilled (exit code 137), memory limit 8.0G",
    )


def test_why_a_container_waits_is_told_also_of_a_node_that_ray_calls_dead():
    waits = Container("ray-worker", 3, waiting="CrashLoopBackOff", message="back-off 40s\nrestarting failed container")
    dead = node(1, name=NAME, host=NAME, state="DEAD")
    assert told(pod(containers=(waits,)), of=dead)[-1] == (
        "container",
        "ray-worker, waits: CrashLoopBackOff: back-off 40s restarting failed container, 3 restarts",
    )


def test_why_a_pod_waits_or_ends_is_told():
    assert ("pod waits", "0/4 nodes are available") in told(pod(phase="Pending", unscheduled="0/4 nodes\nare available"))
    assert ("pod message", "Evicted: disk pressure") in told(pod(phase="Failed", reason="Evicted: disk pressure"))
    assert ("pod ends", "within 25s: Preempted") in told(pod(ends=NOW + 25, why_ends="Preempted"))
    assert ("pod ends", "within 25s: somebody has deleted it") in told(pod(ends=NOW + 25))


def test_the_head_is_called_head_and_unknown_facts_are_not_made_up():
    bare = told(pod(head=True, group="headgroup", phase="", created=None, containers=(Container("ray-head"),)))
    assert bare == [
        ("pod", f"{NAME}  head"),
        ("pod phase", "unknown, creation time unknown; Kubernetes was polled 12s ago"),
        ("container", "ray-head, 0 restarts"),
    ]


def test_where_kubernetes_no_longer_tells_of_the_pod_its_name_stays_and_a_node_that_is_none_has_no_line():
    assert told() == [("pod", NAME)]
    assert told(pod(), of=node(2)) == []


async def test_on_a_small_screen_the_nodes_of_a_group_are_told_apart(make):
    names = (NAME, "rayjob-sample-qtfkz-gpu-worker-9s7dd")
    app = make(snapshot(nodes=tuple(node(number, name=name, host=name) for number, name in enumerate(names, 1))))
    async with at(app, "2", size=(80, 24)) as (_, pilot):
        await until(pilot, lambda: "…-mh5wd" in shown(app) and "…-9s7dd" in shown(app))
