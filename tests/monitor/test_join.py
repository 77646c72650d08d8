from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.model import Amount, Cluster, Hold, Holder, Host, HostMemory, Job, OomKill, Pod, Quantity, RayCluster, RayProcess, Worker
from cockpit.monitor.join import Join
from cockpit.monitor.source_answers import Parts
from cockpit.sources.ray.client import JobFacts, NodeFacts, OomFacts, StatusFacts
from tests.world import GIB, NOW, gpu, node, process, with_figures

HEAD, OTHER = f"{1:056x}", f"{2:056x}"


def host(**more):
    facts = {
        "addresses": ("10.0.0.1",),
        "taken": NOW,
        "memory": HostMemory(5, 10),
        "gpus": (gpu(0),),
        "processes": (),
        "local": True,
        "nodes": (HEAD,),
        **more,
    }
    return Host("node1", **facts)


def joined(**parts):
    return Join()(Parts(**parts), NOW)


def machines(**parts):
    snapshot = joined(**parts)
    return [snapshot.index.machine(each) for each in snapshot.nodes]


def node_facts(*nodes, workers=(), holders=()):
    return NodeFacts(nodes=tuple(replace(each, probe=None) for each in nodes), workers=workers, holders=holders)


def test_physical_facts_come_from_the_probe_once_it_has_reported():
    snapshot = joined(nodes=node_facts(node(1), node(2)), hosts={"node1": host()})
    first, second = snapshot.nodes
    assert (first.probe, first.agent.memory) == ("node1", None), "the probe's facts are only in its host"
    assert snapshot.index.machine(first).memory == HostMemory(5, 10)
    assert second.probe is None
    assert snapshot.index.machine(second).memory == node(2).agent.memory
    assert joined(nodes=node_facts(node(1)), hosts={"node1": host(taken=None)}).nodes[0] == node(1, probed=False)
    snapshot = joined()
    assert snapshot.nodes is None
    assert snapshot.processes is None
    assert snapshot.sessions is None


def test_a_false_raylet_on_another_host_gives_a_node_none_of_its_facts():
    liar = replace(host(nodes=(HEAD, OTHER), addresses=("10.0.0.2",), memory=HostMemory(6, 10), local=False), name="node2")
    for hosts in ({"node1": host(), "node2": liar}, {"node2": liar, "node1": host()}):
        assert [each.memory.used for each in machines(nodes=node_facts(node(1), node(2)), hosts=hosts)] == [5, 6]


def test_a_living_node_has_the_name_of_the_pod_at_its_address_and_a_dead_one_has_none():
    pods = (Pod("ray-head", "u1", ip="10.0.0.1"), Pod("ray-worker", "u2", ip="10.0.0.2"), Pod("ray-waits", "u3"))
    known = node_facts(node(1), node(2, state="DEAD"), node(3), node(4, ip=""))
    snapshot = joined(nodes=known, kubernetes=RayCluster("default", "ray", pods=pods))
    assert [each.pod for each in snapshot.nodes] == ["ray-head", None, None, None]
    assert [each.pod for each in joined(nodes=known, kubernetes=RayCluster("default", "ray")).nodes] == [None] * 4


def test_gpus_of_another_raylet_on_the_same_host_stay_its_own():
    mine, others = node(1, gpus=(gpu(0, uuid="a"),)), node(2, ip="10.0.0.1", gpus=(gpu(0, uuid="b"),))
    first, second = machines(nodes=node_facts(mine, others), hosts={"node1": host(gpus=(gpu(0, 1, uuid="a"),))})
    assert first.gpus[0].memory_used == GIB
    assert second.gpus == others.agent.gpus


@pytest.mark.parametrize("state", ["ALIVE", "DEAD"])
def test_gpus_that_the_agent_cannot_see_come_from_the_probe(state):
    assert machines(nodes=node_facts(node(1, state=state, gpus=None)), hosts={"node1": host()})[0].gpus == (gpu(0),)


def test_a_living_node_replaces_the_dead_one_on_its_host():
    dead, alive = node(2, ip="10.0.0.1", state="DEAD"), node(1)
    first, second = joined(nodes=node_facts(dead, alive), hosts={"node1": host()}).nodes
    assert not first.probed
    assert second.probed


def test_a_host_without_ray_and_a_configured_host_without_facts_have_a_row():
    snapshot = joined(hosts={"node1": host()})
    (only,) = snapshot.nodes
    assert only.id is None
    assert snapshot.index.machine(only).gpus == (gpu(0),)
    snapshot = joined(nodes=node_facts(node(1)), expected=(("node1", "10.0.0.1"), ("w7", "w7"), ("other-name", "10.0.0.1")))
    assert [item.host for item in snapshot.nodes] == ["node1", "w7"]
    assert snapshot.index.machine(snapshot.nodes[1]).memory.used is None
    laptop = Host("laptop", ("192.168.1.7",), NOW, gpus=(), processes=(), sessions=(), local=True)
    assert [item.host for item in joined(nodes=node_facts(node(1)), hosts={"laptop": laptop}).nodes] == ["node1"]
    assert [item.host for item in joined(hosts={"laptop": laptop}).nodes] == ["laptop"]


def test_used_resources_come_from_the_monitor_and_are_unknown_without_it():
    bare = node(1, resources={"GPU": Quantity(None, 8.0)})
    assert joined(nodes=node_facts(bare)).nodes[0].resources["GPU"].used is None
    status = StatusFacts(usage={HEAD: {"GPU": Quantity(5.0, 8.0)}}, demand=(), strategies=())
    assert joined(nodes=node_facts(bare), status=status).nodes[0].resources["GPU"] == Quantity(5.0, 8.0)


def test_without_a_probe_the_holders_that_ray_reports_are_listed_with_their_owners():
    holders = (Holder(OTHER, 0, 77, GIB), Holder(OTHER, 1, 77, GIB), Holder(OTHER, 2, 88, GIB))
    workers = (Worker(OTHER, 77, "02000000", "actor"),)
    known, unknown = joined(nodes=node_facts(node(2), workers=workers, holders=holders)).processes
    assert (known.kind, known.job, known.actor, known.gpu_memory) == ("worker", "02000000", "actor", 2 * GIB)
    assert unknown.kind == "unknown"
    assert "its host is not probed" in unknown.why[0]


def test_on_a_probed_host_the_probes_processes_count_and_none_is_listed_twice():
    worker = process(77, node=None, gpus=(Hold(0, GIB),))
    facts = node_facts(node(1), workers=(Worker(HEAD, 77, "02000000", "actor"),), holders=(Holder(HEAD, 0, 77, GIB),))
    (only,) = joined(nodes=facts, hosts={"node1": host(processes=(worker,))}).processes
    assert (only.actor, only.job, only.node) == ("actor", "02000000", HEAD)


@pytest.mark.parametrize(("rays", "listed"), [((RayProcess("raylet", 301, node=HEAD),), [301]), ((), [301, 77])])
def test_an_ended_worker_that_ray_still_reports_is_not_listed_beside_its_successor(rays, listed):
    """Agents report every few seconds. If the raylet is not visible, its workers may be hidden from the probe too."""
    facts = node_facts(node(1, gpus=(gpu(0),)), workers=(Worker(HEAD, 77, "02000000", "actor"),), holders=(Holder(HEAD, 0, 77, GIB),))
    raylet = process(301, kind="ray", node=HEAD)
    assert [one.pid for one in joined(nodes=facts, hosts={"node1": host(processes=(raylet,), rays=rays)}).processes] == listed


def test_a_child_belongs_to_its_ancestors_actor_and_a_loop_of_parents_ends():
    forest = (process(77, node=None), process(78, node=None, parent=77, kind="child"), process(79, node=None, parent=78, kind="child"))
    facts = node_facts(node(1), workers=(Worker(HEAD, 77, "02000000", "actor"),))
    assert [item.actor for item in joined(nodes=facts, hosts={"node1": host(processes=forest)}).processes] == ["actor"] * 3
    forest = (process(77, parent=78), process(78, parent=77))
    assert len(joined(hosts={"node1": host(processes=forest)}).processes) == 2


def test_an_abandoned_child_is_an_orphan_depending_on_its_job():
    reasons = ("its worker 77 is gone", "it comes from raylet 5, which still runs", "only Ray knows whether job 02000000 still runs")
    left = process(90, kind="unknown", undecided="job", session="session_1", job="02000000", why=reasons)

    def settled(*jobs, session="session_1", asked=True):
        listed = JobFacts(jobs=jobs) if asked else None
        (only,) = joined(cluster=Cluster(session=session), jobs=listed, hosts={"node1": host(processes=(left,))}).processes
        return only

    failed = Job("a", "02000000", status="FAILED")
    assert (settled(failed).kind, settled(failed).why) == (
        "orphan",
        ("its worker 77 is gone and its job a FAILED; nothing alive owns it", "it comes from raylet 5, which still runs"),
    )
    assert settled(Job("a", "02000000", status="RUNNING")).kind == "child"
    assert settled(Job("b", "03000000", status="FAILED")).kind == "unknown"
    assert settled(failed, session="session_2").kind == "unknown"
    assert settled(asked=False).kind == "unknown"


def test_a_process_that_ray_knows_as_a_driver_is_one():
    plain = process(50, kind="foreign", node=None)
    jobs = JobFacts(jobs=(Job("a", "02000000", status="RUNNING", driver_pid=50, driver_node=HEAD),))
    (only,) = joined(nodes=node_facts(node(1)), jobs=jobs, hosts={"node1": host(processes=(plain,))}).processes
    assert only.kind == "driver"


def test_gpus_that_the_probe_does_not_see_are_held_as_ray_reports():
    others = node(2, ip="10.0.0.1", gpus=(gpu(0, uuid="b"),))
    facts = node_facts(node(1), others, workers=(Worker(OTHER, 77, "02000000", "actor"),), holders=(Holder(OTHER, 0, 77, GIB),))
    (only,) = joined(nodes=facts, hosts={"node1": host(processes=(process(77, node=OTHER),))}).processes
    assert (only.actor, only.gpu_memory) == ("actor", GIB)


def test_a_worker_in_a_container_is_known_by_its_pid_in_the_container():
    inside, stranger = process(88123, ns_pid=57, node=None), process(57, kind="foreign", node=None)
    facts = node_facts(node(1), workers=(Worker(HEAD, 57, "02000000", "actor"),))
    first, second = joined(nodes=facts, hosts={"node1": host(processes=(inside, stranger))}).processes
    assert first.actor == "actor"
    assert second.actor is None


def oom(by="ray", pid=77, ago=60.0, **more):
    return OomKill(by, NOW - ago, pid, **more)


def kills_of(*recorded, **of_host):
    """The kills from Ray's answer and a host's logs together."""
    return joined(nodes=node_facts(node(1)), oom=OomFacts(recorded) if recorded else None, hosts={"node1": host(**of_host)}).oom_kills


def test_kills_are_unknown_without_a_source_empty_without_a_kill_and_forgotten_with_ray():
    assert kills_of() is None
    assert joined(oom=OomFacts(())).oom_kills == ()
    assert kills_of(oom_kills=()) == ()
    assert Parts(oom=OomFacts((oom(node=HEAD),))).forget_ray().oom is None


def test_a_kill_in_rays_records_and_in_its_log_is_one_with_the_facts_of_both():
    (kill,) = kills_of(
        oom(node=HEAD, name="hog", text="Memory on the node"),
        oom_kills=(oom(ago=61.0, host="node1", held=3 * GIB, text="Killing 1 worker(s)"),),
    )
    assert kill == oom(node=HEAD, host="node1", name="hog", held=3 * GIB, text="Memory on the node", ours=True)


def test_kills_of_others_stay_apart_and_the_newest_is_first():
    kernel = oom("kernel", ago=10.0, host="node1")
    kills = kills_of(oom(node=HEAD), oom(node=OTHER, ago=30.0), oom_kills=(kernel, oom(pid=None, ago=5.0, host="node1")))
    assert [(kill.by, kill.pid, kill.host) for kill in kills] == [
        ("ray", None, "node1"),
        ("kernel", 77, "node1"),
        ("ray", 77, None),
        ("ray", 77, "node1"),
    ]


APART = (RayProcess("raylet", 301, node=HEAD, apart=True),)


@pytest.mark.parametrize(
    ("own", "others", "line"),
    [
        (HEAD, (), 9),
        (None, (), 9),
        (HEAD, (RayProcess("raylet", 400, kill_at=1),), 9),
        (HEAD, (RayProcess("raylet", 400, node="of another Ray", kill_at=1),), 9),
        (HEAD, (RayProcess("raylet", 400, node=HEAD, kill_at=1),), None),
    ],
)
def test_the_kill_line_is_that_of_the_nodes_own_raylet(own, others, line):
    rays = (RayProcess("raylet", 301, node=own, kill_at=9), *others)
    (seen,) = machines(nodes=node_facts(node(1)), hosts={"node1": host(rays=rays)})
    assert seen.memory.kill_at == line


def test_an_unprobed_container_has_rays_memory_limit_and_unknown_shm():
    limited = node(1, memory=HostMemory(3, 7), shm=Amount())
    (seen,) = machines(nodes=node_facts(limited), hosts={"node1": host(rays=APART, shm=Amount(1, 64))})
    assert (seen.memory, seen.shm) == (HostMemory(3, 7), Amount())
    (free,) = machines(nodes=node_facts(with_figures(limited, memory=HostMemory(3, 10))), hosts={"node1": host(rays=APART)})
    assert free.memory == HostMemory(5, 10)
    (near,) = machines(nodes=node_facts(limited), hosts={"node1": host(shm=Amount(1, 64))})
    assert (near.memory, near.shm) == (HostMemory(5, 10), Amount(1, 64))


def test_a_container_has_the_gpus_that_ray_sees_in_it():
    given = node(1, gpus=(gpu(0, uuid="c"),))
    all_of_them = tuple(gpu(index, uuid=uuid) for index, uuid in enumerate("abc"))
    (seen,) = machines(nodes=node_facts(given), hosts={"node1": host(rays=APART, gpus=all_of_them)})
    assert [(one.index, one.uuid) for one in seen.gpus] == [(2, "c")]
    (near,) = machines(nodes=node_facts(given), hosts={"node1": host(gpus=all_of_them)})
    assert near.gpus == all_of_them
