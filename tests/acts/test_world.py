"""Which host is meant by a name, and what people call it."""

from __future__ import annotations

from types import SimpleNamespace

from cockpit.acts.world import ActContext
from cockpit.config.reach import HostEntry
from cockpit.model import Host
from tests.world import NOW, node, snapshot

HEAD = node(1, name="head", head=True, ip="127.0.0.9", host="vm", probed=True)
W1 = node(2, name="w1", ip="10.0.0.2", host="gpu2", probed=True)


def context() -> ActContext:
    """On `vm`, which has the head; the other node is reached as `worker-alias`."""
    hosts = {
        "vm": Host("vm", ("10.0.0.1",), NOW, nodes=(HEAD.id or "",), local=True),
        "worker-alias": Host("worker-alias", ("10.0.0.2",), NOW, nodes=(W1.id or "",)),
    }
    config = SimpleNamespace(names_of=lambda name: (name,))
    pool = SimpleNamespace(local="vm", control_sockets=None)
    poller = SimpleNamespace(snapshot=snapshot(nodes=(HEAD, W1), hosts=hosts))
    made = ActContext(SimpleNamespace(config=config, pool=pool, poller=poller))  # type: ignore[arg-type]  # all that is asked of it
    made._entries["worker-alias"] = HostEntry("worker-alias")
    return made


def test_a_host_is_meant_by_the_name_of_its_node_as_by_its_own():
    assert context().named_hosts(("head", "vm", "localhost", HEAD.id or "")) == ("vm",)
    assert context().named_hosts(("w1", "gpu2", "10.0.0.2", "worker-alias")) == ("worker-alias",)


def test_a_name_that_nobody_knows_is_reached_by_itself():
    assert context().named_hosts(("elsewhere",)) == ("elsewhere",)


def test_hosts_are_called_as_their_nodes():
    made = context()
    made._entries["by-address"] = HostEntry("by-address", address="10.0.0.2")
    assert made.titles_of(["vm", "worker-alias", "by-address", "elsewhere"]) == {
        "vm": "head",
        "worker-alias": "w1",
        "by-address": "w1",
        "elsewhere": "elsewhere",
    }
