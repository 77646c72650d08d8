"""Dead nodes are reported with reason, time and losses; silent agents are found while others report."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.findings import Limits
from cockpit.findings.nodes import dead_nodes, silent_agents
from cockpit.model import Fault, Host, RayProcess
from tests.findings.detection import FreshTracker, after_silence, detect, only
from tests.findings.raylets import cluster, place
from tests.world import NOW, actor, node, process, snapshot, with_figures

DEAD, AGENTS = (dead_nodes,), (silent_agents,)
HEARTBEATS = "Unexpected termination: health check failed due to missing too many heartbeats"


def dead(number: int = 2, **more):
    facts = {"state": "DEAD", "message": HEARTBEATS, "started": NOW - 9000, "ended": NOW - 302, "gpus": None, **more}
    return node(number, **facts)


def with_nodes(*nodes, **more):
    return snapshot(nodes=(node(1, started=NOW - 9000), *nodes), **more)


def test_a_dead_node_is_reported_with_reason_time_and_losses():
    lost = (actor(11).id, actor(12).id, actor(13).id)
    coming = actor(11, state="RESTARTING", node=dead().id)
    found = only(detect(with_nodes(dead(had=lost), actors=(coming,)), detectors=DEAD), "node-dead")
    assert found.text == (
        "node2 died 5m02s ago (health check failed due to missing too many heartbeats); "
        "lost with it: 8 GPUs and 3 actors; Ray restarts 1 of these actors"
    )
    assert (found.level, found.subject, found.since, found.about) == ("critical", "node2", NOW - 302, (dead().key,))
    assert found.evidence == (f"ray list nodes: 000000000000 node2 10.0.0.2 DEAD: {HEARTBEATS}",)
    assert found.remedy.text == (
        "check that the host is up, read the end of logs/raylet.out of its session, "
        "then start Ray there again: `ray start --address=10.0.0.1:6379`"
    )


def test_the_address_to_join_is_one_that_reaches_the_head():
    joined = Host("node1", ("10.0.0.1",), NOW, rays=(RayProcess("raylet", 5, node=node(1).id, gcs="10.9.9.9:6400"),), nodes=(node(1).id,))
    found = only(detect(with_nodes(dead(), hosts={"node1": joined}), detectors=DEAD), "node-dead")
    assert found.remedy.text.endswith("start Ray there again: `ray start --address=10.9.9.9:6400`")
    host = Host("node2", ("10.0.0.2",), NOW)
    found = only(detect(with_nodes(dead(ip="10.7.7.7"), hosts={"node2": host}), detectors=DEAD), "node-dead")
    assert found.remedy.text == (
        "its raylet told the head that it is at 10.7.7.7, which is no address of node2: start Ray there with an address that the head "
        "reaches: `ray start --address=10.0.0.1:6379 --node-ip-address=10.0.0.2`"
    )
    itself = only(detect(with_nodes(dead(ip="127.0.0.1"), hosts={"node2": host}), detectors=DEAD), "node-dead")
    assert "127.0.0.1, which leads each host to itself" in itself.remedy.text
    unknown = only(detect(with_nodes(dead(ip="10.7.7.7")), detectors=DEAD), "node-dead")
    assert "start Ray there again" in unknown.remedy.text, "its host's addresses are unknown"
    ended = dead(ip="10.7.7.7", message="Unexpected termination: the raylet was killed")
    assert "start Ray there again" in only(detect(with_nodes(ended, hosts={"node2": host}), detectors=DEAD), "node-dead").remedy.text


def test_unknown_details_of_a_death_are_left_out():
    found = only(detect(with_nodes(dead(message=None, ended=None, resources={})), detectors=DEAD), "node-dead")
    assert found.text == "node2 died (no reason given)"
    assert found.since == NOW - 120, "the first sample"


@pytest.mark.parametrize("ended", [float("nan"), -5.0, 0.0, NOW + 1e9])
def test_an_absurd_time_of_death_is_unknown(ended):
    assert only(detect(with_nodes(dead(ended=ended, resources={})), detectors=DEAD), "node-dead").text.startswith("node2 died (health")


def test_a_new_node_at_the_address_ends_it_but_an_older_raylet_beside_it_does_not():
    again = node(9, ip="10.0.0.2", host="node2", started=NOW - 100)
    assert detect(with_nodes(dead(), again), detectors=DEAD) == ()
    assert detect(with_nodes(dead(), replace(again, started=None)), detectors=DEAD) == ()
    beside = replace(again, started=NOW - 8000)
    assert only(detect(with_nodes(dead(), beside), detectors=DEAD), "node-dead").subject == f"node2 ({dead().id[:8]})"


def test_the_last_of_two_deaths_counts():
    first = dead(started=NOW - 9000, ended=NOW - 5000)
    second = dead(started=NOW - 4000, ended=NOW - 60, id="f" * 56)
    assert only(detect(with_nodes(first, second), detectors=DEAD), "node-dead").about == (second.key,)


def test_a_deliberate_end_with_work_is_a_warning_and_the_autoscalers_removal_is_nothing():
    stopped = "Expected termination: received SIGTERM"
    reported = detect(with_nodes(dead(message=stopped), dead(3), dead(4, message=stopped, had=(actor(11).id,))), detectors=DEAD)
    assert [(found.subject, found.level) for found in reported] == [("node3", "critical"), ("node4", "warning"), ("node2", "info")]
    assert detect(with_nodes(dead(message="Expected termination: Terminated due to idle (no Ray activity)")), detectors=DEAD) == ()
    many = [dead(number, message=stopped) for number in range(2, 30)]
    assert [only(detect(with_nodes(*nodes), detectors=DEAD), "nodes-dead").level for nodes in (many, [*many, dead(40)])] == [
        "info",
        "critical",
    ]


def test_many_or_old_deaths_are_one_finding():
    found = only(detect(with_nodes(dead(ended=NOW - 90000), dead(3, ended=NOW - 99000)), detectors=DEAD), "nodes-dead-for-long")
    assert (found.level, found.text) == ("info", "2 nodes died more than 1d00h ago and are not back: node2, node3")
    found = detect(with_nodes(*(dead(number) for number in range(2, 27))), detectors=DEAD)
    (one,) = found
    assert one.text == "25 nodes died (health check failed due to missing too many heartbeats: 25); lost with them: 200 GPUs"
    assert (one.code, one.level, len(one.evidence)) == ("nodes-dead", "critical", 21)


def marked(seconds: float = 120, **more):
    ray = RayProcess("raylet", 77, node=dead().id, **more)
    there = process(77, host="node2", kind="ray", node=dead().id)
    hosts = {"node2": Host("node2", ("10.0.0.2",), NOW, nodes=(dead().id,), rays=(ray,), processes=(there,))}
    return only(detect(with_nodes(dead(), hosts=hosts, processes=(there,)), seconds, detectors=DEAD), "node-dead"), there


def test_a_living_raylet_marked_dead_is_reported_unless_it_is_ending():
    found, there = marked()
    assert found.text == (
        "Ray marked node2 dead 5m02s ago (health check failed due to missing too many heartbeats), "
        "but its raylet (pid 77) still runs there; lost with it: 8 GPUs"
    )
    assert found.evidence[1] == "ps on node2: raylet (pid 77) runs, in state unknown"
    assert (found.remedy.action, found.about) == ("kill", (dead().key, there.key))
    assert "(pid 77, stopped by a signal)" in marked(state="T")[0].text
    assert marked(5)[0].text.startswith("node2 died")
    assert marked(state="Z")[0].text.startswith("node2 died")


def test_a_probed_host_reports_no_raylet_and_an_unprobed_one_the_reason():
    hosts = {"node2": Host("node2", ("10.0.0.2",), NOW, rays=())}
    faults = (Fault("probe", "ssh: no route to host", NOW - 100, "node3"),)
    reported = {found.subject: found for found in detect(with_nodes(dead(), dead(3), hosts=hosts, faults=faults), detectors=DEAD)}
    assert reported["node2"].evidence[1] == "ps on node2: no raylet of that node runs there"
    assert reported["node3"].evidence[1] == "node3: ssh: no route to host"


def test_old_facts_about_nodes_have_their_date():
    gone = Fault("ray.nodes", "no answer", NOW + 5)
    found = only(after_silence(with_nodes(dead(), as_of={"ray.nodes": NOW}), 95, detectors=DEAD, faults=(gone,)), "node-dead")
    assert found.text.endswith(", as of 1m35s ago")


def reporting(*ages: float | None, faults=(), **more):
    reported = snapshot(nodes=tuple(node(number) for number, _ in enumerate(ages, 1)), faults=faults, as_of={"ray.nodes": NOW - 2}, **more)
    seen = [None if age is None else NOW - age for age in ages]
    return replace(reported, nodes=tuple(with_figures(each, seen=at) for each, at in zip(reported.nodes, seen, strict=True)))


def test_a_silent_agent_is_reported_while_others_report():
    found = only(detect(reporting(3, 67, 4), detectors=AGENTS), "agent-silent")
    assert found.text == "Ray's agent on node2 has not reported for 1m05s; Ray's numbers for its GPUs and memory are that old"
    assert (found.level, found.subject, found.since) == ("warning", "node2", NOW - 67)
    assert "do not kill the agent" in found.remedy.text
    assert only(detect(reporting(67), detectors=AGENTS), "agent-silent").subject == "node1", "also for the only node"
    assert detect(reporting(3, 67), 5, detectors=AGENTS) == (), "in the first sample a clock that is behind is no silence"


def test_in_one_sample_a_silent_agent_may_be_a_late_clock():
    once = FreshTracker(Limits(), AGENTS, assumed=60.0)
    found = only(once(reporting(3, 67, 4)).findings, "agent-silent")
    assert found.level == "info"
    assert found.text.startswith(
        "Ray's agent on node2 has not reported for 1m05s, or the clock of that node is 1m05s behind; Ray's numbers"
    )
    agent = process(88, command="ray::DashboardAgent", state="T", kind="ray")
    assert only(once(reporting(67, 3, processes=(agent,))).findings, "agent-silent").level == "warning", "its process proves it"


def test_a_stopped_agent_on_a_probed_host_is_named():
    agent = process(88, command="ray::DashboardAgent", state="T", kind="ray")
    found = only(detect(reporting(67, 3, processes=(agent,)), detectors=AGENTS), "agent-silent")
    assert "has not reported for 1m05s: its process (pid 88) is stopped by a signal;" in found.text
    assert found.remedy.text.startswith("`kill -CONT 88` on node1")
    assert found.about == (node(1).key, agent.key)


def test_several_silent_agents_are_one_finding():
    found = only(detect(reporting(67, 80), detectors=AGENTS), "agents-silent")
    assert found.text.startswith("The agents of 2 of 2 nodes have not reported for 1m05s, but the dashboard answers;")


@pytest.mark.parametrize(
    "fine",
    [
        reporting(3, 20),
        reporting(None, None),
        reporting(3, 67, faults=(Fault("ray.nodes", "no answer", NOW - 90),)),
        reporting(3, 67, faults=(Fault("ray.gcs", "no answer", NOW - 90, cause="gcs"),)),
        reporting(float("nan"), float("-inf"), float("inf")),
        snapshot(nodes=(node(1, seen=NOW - 500, probed=False),), as_of={}),
        snapshot(nodes=(node(1), node(2))),
    ],
)
def test_reporting_and_unknown_agents_are_fine(fine):
    assert detect(fine, detectors=DEAD + AGENTS) == ()


def test_a_node_that_died_at_the_heads_request_says_so():
    head, host = place(1, addresses=("10.0.0.1", "172.17.0.1"))
    gone = dead(ip="172.17.0.1")
    found = only(detect(cluster((head, host), nodes=(head, gone)), detectors=DEAD), "node-dead")
    assert "`ip -brief address` on node1, the head: 172.17.0.1 is an address of that host too" in found.evidence
    assert found.remedy.text == (
        "172.17.0.1, under which it was registered, is an address of node1, the head, too: the head asked itself; start Ray there again"
        ": `ray start --address=10.0.0.1:6379` with --node-ip-address= and an address that only that host has"
    )
    beside = dead(ip="172.17.0.1", host="node1")
    others = (dead(), beside, dead(ip=""))
    assert not any("asked itself" in each.remedy.text for each in detect(cluster((head, host), nodes=(head, *others)), detectors=DEAD))
