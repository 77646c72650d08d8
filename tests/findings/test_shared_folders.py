"""Session folders that several hosts share."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.findings.shared_folders import shared_sessions
from cockpit.model import Host, Session
from tests.findings.detection import detect, only
from tests.world import NOW, node, snapshot

ALONE = (shared_sessions,)
NAME = "session_2026-11-21_00-00-00_000000_8"


def host(number, *writers, temp="/net/ray", live=True, **more):
    session = Session(host=f"node{number}", name=NAME, path=f"{temp}/{NAME}", live=live, nodes=tuple(node(writer).id for writer in writers))
    return Host(f"node{number}", taken=NOW, nodes=(node(number).id,), sessions=(session,), **more)


def world(*hosts):
    return snapshot(nodes=(node(1), node(2), node(3)), hosts={each.name: each for each in hosts})


def test_a_folder_with_another_hosts_raylet_is_reported_with_both_hosts():
    found = only(detect(world(host(1, 1, 2), host(2, 1, 2)), detectors=ALONE), "session-folder-shared")
    assert (found.level, found.subject) == ("warning", "cluster")
    assert found.text == (
        f"2 hosts, node1, node2, share the session folder /net/ray/{NAME}: sockets and logs of their nodes get mixed up, "
        "and what removes the folder on one host takes it from the other too"
    )
    assert found.evidence[0] == f"grep -l {node(2).id} /net/ray/{NAME}/logs/raylet*.out on node1: the node of node2"
    assert found.about == (node(1).key, node(2).key)


def test_one_hosts_report_is_enough():
    found = only(detect(world(host(1, 1), host(2, 1), host(3, 3, temp="/tmp/ray")), detectors=ALONE), "session-folder-shared")
    assert found.text.startswith("2 hosts, node1, node2, share")


@pytest.mark.parametrize(
    "fine",
    [
        (host(1, 1, temp="/tmp/ray"), host(2, 2, temp="/tmp/ray")),
        (host(1, 1), host(2)),
        (host(1, 1, 9), host(2, 2)),
        (host(1, 1, 2, live=False), host(2, 2, live=False)),
        (replace(host(1, 1, 2), sessions=None), host(2, 2)),
        (replace(host(1, 1, 2), taken=NOW - 300), host(2, 2)),
    ],
)
def test_separate_dead_and_old_folders_are_not_reported(fine):
    assert detect(world(*fine), 0, detectors=ALONE) == ()


def test_two_nodes_on_one_host_may_share_it():
    both = replace(host(1, 1, 2), nodes=(node(1).id, node(2).id))
    assert detect(world(both), detectors=ALONE) == ()


def test_a_false_raylet_makes_no_host_a_writer():
    real, liar = host(1, 1, addresses=(node(1).ip,)), host(2, 2, temp="/tmp/ray", addresses=(node(2).ip,))
    liar = replace(liar, nodes=(node(1).id, node(2).id))
    assert detect(world(real, liar), detectors=ALONE) == ()


def test_a_path_that_a_shell_would_change_is_quoted_or_not_printed():
    hosts = (host(1, 1, 2, temp="/net/$(reboot)"), host(2, 2, temp="/net/$(reboot)"))
    quoted = only(detect(world(*hosts), detectors=ALONE), "session-folder-shared")
    assert quoted.evidence[0].startswith(f"grep -l {node(2).id} '/net/$(reboot)/{NAME}'/logs/raylet*.out on node1")
    assert quoted.evidence[1].startswith(f"ls '/net/$(reboot)/{NAME}'/sockets")
    hosts = (host(1, 1, 2, temp="/net/\x1b[2J"), host(2, 2, temp="/net/\x1b[2J"))
    (line,) = only(detect(world(*hosts), detectors=ALONE), "session-folder-shared").evidence
    assert line == "the folder, as node1 sees it, has a log of the raylet of node2"
