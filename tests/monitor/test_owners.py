"""The owners of processes if two Rays on one host have jobs with the same ids."""

from __future__ import annotations

from msgspec.structs import replace

from cockpit.model import Cluster, Hold, Host, Job, OomKill, RayProcess, Session, Worker
from cockpit.monitor.join import Join
from cockpit.monitor.source_answers import Parts
from cockpit.sources.ray.client import JobFacts, NodeFacts, OomFacts
from tests.world import GIB, NOW, node, process

MINE, THEIRS = "session_2026-11-22_08-06-31_428681_12", "session_2026-11-22_08-06-42_896130_410"
HERE, THERE = f"{1:056x}", f"{2:056x}"
FOLLOWED = Cluster(session=MINE, reachable=True)
PPO = Job("ppo", "02000000", "ppo", "FAILED")
RAYS = (RayProcess("raylet", 301, MINE, HERE), RayProcess("raylet", 707, THEIRS, THERE))


def folder(name: str, *, live: bool = True) -> Session:
    return Session(host="node1", name=name, path=f"/tmp/ray/{name}", live=live)


def by_probe(pid: int, session: str | None, **more):
    """A process as a probe reports it."""
    return process(pid, **{"session": session, "node": None, "job": "02000000", "why": ("as its host says",), **more})


def joined(*processes, cluster=FOLLOWED, workers=(), jobs=(PPO,), **of_host):
    facts = {"sessions": (folder(MINE), folder(THEIRS)), "nodes": (HERE, THERE), "rays": RAYS, **of_host}
    hosts = {"node1": Host("node1", ("10.0.0.1",), NOW, processes=processes, local=True, **facts)}
    nodes = NodeFacts(nodes=(node(1, probed=False),), workers=workers, holders=())
    return Join()(Parts(cluster=cluster, nodes=nodes, jobs=JobFacts(jobs=jobs), hosts=hosts), NOW)


def only(*args, **more):
    (found,) = joined(*args, **more).processes
    return found


def test_of_two_processes_with_the_same_job_id_only_our_sessions_is_our_jobs():
    mine, theirs = joined(by_probe(1, MINE), by_probe(2, THEIRS)).processes
    assert (mine.job, mine.ours, mine.other_job, mine.other_owner) == ("02000000", True, None, None)
    assert (theirs.job, theirs.actor, theirs.ours, theirs.other_job) == (None, None, False, "02000000")
    assert theirs.other_owner == f"job 02000000 of another Ray session ({THEIRS})"
    assert theirs.why == (f"job 02000000 of another Ray session ({THEIRS})", "as its host says")


def test_another_rays_process_is_recognized_and_is_on_none_of_our_nodes():
    raylet = only(by_probe(707, THEIRS, kind="ray", job=None, node=THERE))
    assert (raylet.ours, raylet.other_owner, raylet.node) == (False, f"another Ray session ({THEIRS})", THERE)
    assert only(by_probe(2, THEIRS), nodes=(HERE,)).node is None
    assert only(by_probe(2, THEIRS, gpus=(Hold(0, GIB),))).gpu_memory == GIB


def test_without_a_session_the_node_or_rays_report_of_the_pid_decides_the_owner():
    assert only(by_probe(1, None, node=HERE)).job == "02000000"
    assert only(by_probe(1, None, node=THERE)).job is None
    workers = (Worker(HERE, 1, "02000000", "actor"),)
    assert only(by_probe(1, None, job=None), workers=workers).actor == "actor"
    theirs = only(by_probe(1, THEIRS), workers=workers)
    assert (theirs.actor, theirs.job) == (None, None)


def test_a_child_of_another_rays_worker_is_not_our_actor_with_that_pid_in_a_container():
    workers = (Worker(HERE, 57, "02000000", "actor"),)
    parent = by_probe(1, THEIRS, ns_pid=57)
    assert [each.actor for each in joined(parent, by_probe(2, THEIRS, parent=1, kind="child"), workers=workers).processes] == [None, None]


def test_an_id_alone_is_ours_only_if_no_other_ray_lives_or_has_lived():
    stray = by_probe(1, None, job="ppo", kind="child")
    alone = {"sessions": (folder(MINE),), "rays": RAYS[:1], "nodes": (HERE,)}
    assert only(stray, **alone).job == "ppo"
    lived = only(stray, **{**alone, "sessions": (folder(MINE), folder(THEIRS, live=False))})
    assert (lived.job, lived.ours, lived.other_owner) == (None, None, "job ppo of an unknown Ray session")
    unread = only(stray, **{**alone, "sessions": None})
    assert (unread.job, unread.other_job) == (None, "ppo")
    beside = joined(stray, by_probe(2, THEIRS), **alone).processes
    assert [each.job for each in beside] == [None, None]


def test_reasons_name_our_job_and_give_the_id_of_another_rays_job():
    reasons = {"why": ("driver of job 02000000 in live session_x",)}
    assert only(by_probe(1, MINE, kind="driver", **reasons)).why == (f"driver of job {PPO.id} in live session_x",)
    assert only(by_probe(1, THEIRS, kind="driver", **reasons)).why[1] == "driver of job 02000000 in live session_x"


def test_a_job_that_is_over_makes_no_orphan_of_another_rays_process():
    undecided = {"kind": "unknown", "undecided": "job"}
    assert only(by_probe(1, MINE, **undecided)).kind == "orphan"
    assert only(by_probe(1, THEIRS, **undecided)).kind == "unknown"
    assert only(by_probe(1, None, **undecided)).kind == "unknown"
    alone = {"sessions": (folder(MINE),), "rays": RAYS[:1], "nodes": (HERE,)}
    assert only(by_probe(1, None, **undecided), **alone).kind == "unknown", "no other Ray is seen: that proves nothing"


def test_a_process_without_a_session_is_decided_by_its_job_only_if_no_other_ray_is_possible():
    undecided = {"kind": "unknown", "undecided": "job", "job": "ppo"}
    jobs = (Job("ppo", "ppo", "ppo", "FAILED"),)
    assert only(by_probe(1, None, asks=(MINE,), **undecided), jobs=jobs).kind == "orphan"
    theirs = only(by_probe(1, None, asks=(THEIRS,), **undecided), jobs=jobs)
    assert (theirs.kind, theirs.ours, theirs.other_owner) == ("unknown", False, "job ppo of another Ray session")
    assert only(by_probe(1, None, asks=(MINE, THEIRS), **undecided), jobs=jobs).kind == "unknown"


def test_a_dead_rays_process_is_not_of_the_next_rays_job():
    left = only(by_probe(1, THEIRS, kind="orphan"), sessions=(folder(MINE), folder(THEIRS, live=False)), rays=RAYS[:1])
    assert (left.kind, left.job, left.other_owner) == ("orphan", None, f"job 02000000 of another Ray session ({THEIRS})")


def test_while_the_followed_session_is_unknown_two_rays_with_the_same_job_id_stay_two():
    unknown = Cluster("http://10.0.0.1:8265")
    first, second = joined(by_probe(1, MINE), by_probe(2, THEIRS), cluster=unknown, rays=None, nodes=()).processes
    assert [each.job for each in (first, second)] == [None, None]
    assert [each.other_owner for each in (first, second)] == [f"job 02000000 of {MINE}", f"job 02000000 of {THEIRS}"]
    lone = only(by_probe(1, MINE), cluster=unknown, rays=None, nodes=(), sessions=(folder(MINE),))
    assert (lone.job, lone.other_owner) == ("02000000", None)


def test_a_ray_that_does_not_report_its_session_is_known_by_the_raylets_of_its_nodes():
    old = Cluster("http://10.0.0.1:8265", "2.9.3", reachable=True)
    snapshot = joined(by_probe(1, MINE), by_probe(2, THEIRS), cluster=old)
    assert snapshot.cluster.session == MINE
    assert [each.ours for each in snapshot.processes] == [True, False]


def test_a_host_with_only_another_rays_raylet_is_not_taken_for_the_node():
    lone = {"rays": RAYS[1:], "nodes": (THERE,)}
    assert not joined(**lone).nodes[0].probed
    unsaid = {"rays": (RayProcess("raylet", 301, None, None),), "nodes": (THERE,)}
    assert joined(**unsaid).nodes[0].probed


def kill(session: str | None, **more) -> OomKill:
    return OomKill("ray", NOW - 60, 77, "hog", "a" * 32, "02000000", host="node1", session=session, **more)


def kills_of(*read: OomKill, api: tuple[OomKill, ...] = ()):
    hosts = {"node1": Host("node1", ("10.0.0.1",), NOW, nodes=(HERE,), oom_kills=read)}
    parts = Parts(cluster=Cluster(session=MINE), nodes=NodeFacts((node(1),), (), ()), oom=OomFacts(api), hosts=hosts)
    return Join()(parts, NOW).oom_kills


def test_a_kill_by_another_ray_is_not_ours_and_one_from_rays_api_is():
    (mine,) = kills_of(kill(MINE))
    assert (mine.ours, mine.job, mine.actor) == (True, "02000000", "a" * 32)
    (theirs,) = kills_of(kill(THEIRS))
    assert (theirs.ours, theirs.job, theirs.actor, theirs.name) == (False, None, None, "hog")
    (unknown,) = kills_of(kill(None))
    assert (unknown.ours, unknown.job) == (None, None)
    (by_node,) = kills_of(kill(None, node=HERE))
    assert (by_node.ours, by_node.job) == (True, "02000000")
    (one,) = kills_of(api=(OomKill("ray", NOW - 60, 77, node=HERE, job="02000000"),))
    assert (one.ours, one.job) == (True, "02000000")


def test_a_job_that_runs_outweighs_every_sign_of_death():
    runs = Job("ppo", "02000000", "ppo", "RUNNING")
    found = only(by_probe(1, MINE, kind="orphan"), jobs=(runs,))
    assert (found.kind, found.why[0]) == ("child", "its job ppo still runs")
    assert only(by_probe(1, THEIRS, kind="orphan"), jobs=(runs,)).kind == "orphan"
    assert only(by_probe(1, MINE, kind="orphan")).kind == "orphan"


INSIDE = "pid:[4026532178]"
IN_CONTAINER = {"rays": (RayProcess("raylet", 9301, MINE, HERE),), "nodes": (HERE,)}


def in_container(pid: int, within: int, **more):
    return by_probe(pid, MINE, ns_pid=within, inside=INSIDE, **more)


def test_pids_of_a_ray_in_a_container_belong_only_to_its_own_processes():
    workers = (Worker(HERE, 57, "02000000", "actor"),)
    raylet, its = in_container(9301, 17, kind="ray", job=None), in_container(9057, 57)
    near = by_probe(57, None, kind="unknown", job=None)
    beside = by_probe(8057, None, kind="unknown", job=None, ns_pid=57, inside="pid:[4026532999]")
    found = joined(raylet, its, near, beside, workers=workers, **IN_CONTAINER).processes
    assert [(one.pid, one.actor) for one in found if one.actor] == [(9057, "actor")]


def test_another_process_with_the_pid_of_a_containers_driver_is_no_driver():
    job = replace(PPO, status="RUNNING", driver_pid=57, driver_node=HERE)
    raylet, stranger = in_container(9301, 17, kind="ray", job=None), by_probe(57, None, kind="foreign", job=None)
    assert [one.kind for one in joined(raylet, stranger, jobs=(job,), **IN_CONTAINER).processes] == ["ray", "foreign"]
    its = in_container(9057, 57, kind="foreign", job=None)
    assert [one.kind for one in joined(raylet, its, jobs=(job,), **IN_CONTAINER).processes] == ["ray", "driver"]


def test_a_dead_rays_process_in_a_container_is_not_given_to_a_job_with_the_same_id():
    left = by_probe(9057, None, kind="unknown", ns_pid=57, inside=INSIDE)
    found = only(left, sessions=(folder(MINE),), rays=RAYS[:1], nodes=(HERE,))
    assert (found.job, found.other_job) == (None, "02000000")


def test_a_process_that_a_probe_sees_inside_a_container_is_not_listed_again_from_outside():
    outer = by_probe(9057, MINE, ns_pid=57, inside=INSIDE)
    hosts = {
        "node1": Host("node1", (), NOW, processes=(outer, by_probe(3, MINE)), machine="boot pid:[4026531836]"),
        "train": Host("train", (), NOW, processes=(by_probe(57, MINE, host="train"),), machine=f"boot {INSIDE}"),
    }
    found = Join()(Parts(cluster=FOLLOWED, hosts=hosts), NOW).processes
    assert [(one.host, one.pid) for one in found] == [("node1", 3), ("train", 57)]
    elsewhere = {**hosts, "train": replace(hosts["train"], machine=f"other {INSIDE}")}
    assert len(Join()(Parts(cluster=FOLLOWED, hosts=elsewhere), NOW).processes) == 3
