"""Hosts whose own name resolves to loopback."""

from __future__ import annotations

from cockpit.findings.host_names import loopback_names
from cockpit.model import SocketInterfaces
from tests.findings.detection import detect, only
from tests.findings.raylets import cluster, place
from tests.world import process

ALONE = (loopback_names,)
LINE = "127.0.1.1 node2"


def find(*places, **more):
    return detect(cluster(*places, **more), detectors=ALONE)


def test_the_line_of_etc_hosts_is_reported_once_with_the_number_of_hosts():
    found = only(find(place(1), place(2, loopback_line=LINE), place(3)), "host-name-loopback")
    assert found.text == (
        "The host's own name is a loopback address on node2 (1 of 3 hosts; /etc/hosts: `127.0.1.1 node2`): Gloo gives that address to "
        "ranks on other hosts, which then connect to themselves (`Connection refused, remote=[127.0.0.1]`)"
    )
    assert (found.level, found.about, found.evidence) == ("warning", (place(2)[0].key,), ("/etc/hosts of node2: 127.0.1.1 node2",))
    assert found.remedy
    assert "GLOO_SOCKET_IFNAME" in found.remedy.text
    found = only(find(place(1, loopback_line="127.0.1.1 node1"), place(2, loopback_line=LINE)), "host-name-loopback")
    assert "on node1, node2 (2 of 2 hosts; " in found.text
    assert len(found.evidence) == 2


def test_a_cluster_on_one_host_and_ranks_with_a_configured_interface_are_fine():
    assert find(place(1, loopback_line=LINE)) == ()
    assert find(place(1), place(2)) == ()
    assert find(place(1), place(2, loopback_line=LINE, gloo="eth0")) == ()
    rank = process(1001, host="node2", sockets=SocketInterfaces(None, "eth0", ("lo", "eth0")))
    assert find(place(1), place(2, loopback_line=LINE), processes=(rank,)) == ()
    other = process(1001, host="node2", sockets=SocketInterfaces("eth0", None, ("lo", "eth0")))
    assert find(place(1), place(2, loopback_line=LINE), processes=(other,)) != ()
