"""Memory near Ray's kill line, kills for lack of memory, and limits of cgroups are found, and nothing else."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from cockpit.findings import Limits
from cockpit.findings.memory import cgroup_limit, near_kill, near_own_kill, oom_kills
from cockpit.model import Amount, Cluster, Host, HostMemory, OomKill, RayProcess
from tests.findings.detection import FreshTracker, after_silence, codes, detect, only
from tests.world import GIB, NOW, actor, node, process, snapshot, with_figures

NEAR, KILLED, CGROUP = (near_kill, near_own_kill), (oom_kills,), (cgroup_limit,)
HOG = f"{1:032x}"


def of(used, kill_at=950, total=1000, **more):
    """A cluster of one node with this use in GiB."""
    memory = HostMemory(int(used * GIB), total * GIB, None if kill_at is None else kill_at * GIB)
    return snapshot(nodes=(node(1, memory=memory, shm=None, seen=NOW),), **more)


class Growing:
    """Samples one node every 5 s; an actor fills its memory."""

    def __init__(self, **limits):
        self.judge, self.now, self.found = FreshTracker(Limits(**limits), NEAR), NOW - 300, ()

    def use(self, *gibs, **more):
        for gib in gibs:
            self.now += 5.0
            hog = process(1001, actor=HOG, job="02000000", rss=int((gib - 100) * GIB), started=NOW - 400)
            other = process(1002, job="02000000", kind="driver", rss=90 * GIB)
            base = of(gib, processes=(hog, other), **more)
            host = replace(base.hosts["node1"], taken=self.now, processes=(hog, other), memory_users=())
            nodes = tuple(with_figures(known, seen=self.now) for known in base.nodes)
            reported = self.judge(replace(base, taken=self.now, nodes=nodes, hosts={"node1": host}))
            assert not reported.faults[1:], "a detector tripped"
            self.found = reported.findings
        return self.found


def test_growth_towards_the_line_is_reported_with_the_remaining_minutes_and_the_victims():
    growing = Growing()
    found = only(growing.use(*(600 + 10 * step for step in range(21))), "host-memory-near-kill")
    assert found.text == (
        "800G of host memory is in use on node1, 150G below the 950G at which Ray kills workers; at +120G/min Ray starts killing in ~1 min"
    )
    assert found.level == "critical"
    assert found.remedy.action == "stop-job"
    assert found.about == (node(1).key, "job:ppo-7b")
    policy = (
        "Ray kills idle workers that hold much memory, then retriable work, the newest first, even if it holds little; never a driver; "
        "cockpit does not know which workers are retriable; "
        "the newest worker process is pid 1001, actor actor1 of job ppo-7b, 700G, started 3m25s ago"
    )
    assert found.evidence == (
        "node1 has 800G of 1.0T in use (`free -b`: total - available)",
        "the raylet's environment on node1 (RAY_memory_usage_threshold, RAY_min_memory_free_bytes) sets the line to 950G",
        "holds most: actor actor1 of job ppo-7b 700G, +120G/min (pid 1001)",
        "holds most: job ppo-7b 90G (pid 1002)",
        policy,
    )
    assert growing.use(*[660] * 5) == (), "it ends soon after the use falls"
    slower = only(Growing().use(*(600 + 4 * step for step in range(33))), "host-memory-near-kill")
    assert (slower.level, slower.remedy.action) == ("warning", None)
    assert "Ray starts killing in ~" in slower.text


FOLDER = f"/sys/fs/cgroup/ray-node_{node(1).id}"


def isolated(used, charged, high=950, swap=0):
    """A cluster of one node with 2,000 GiB, 1,200 in use, whose raylet isolates its workers. In GiB."""
    base = of(1200, kill_at=None, total=2000)
    sizes = {name: gib * GIB for name, gib in (("kill_at", high + swap), ("kill_used", used), ("charged", charged))}
    raylet = RayProcess("raylet", 21, node=node(1).id, isolation=FOLDER, kill_total=(2000 + swap) * GIB if swap else None, **sizes)
    return replace(base, hosts={"node1": replace(base.hosts["node1"], rays=(raylet,))})


def test_with_resource_isolation_the_memory_of_the_workers_is_compared_with_their_limit():
    assert detect(isolated(600, 700), detectors=NEAR) == (), "the host has more in use, but Ray does not look at that"
    found = only(detect(isolated(900, 920), detectors=NEAR), "host-memory-near-kill")
    assert found.text == "900G of memory is in use by Ray's workers on node1, 50G below the 950G at which Ray kills workers"
    assert found.evidence[:4] == (
        "node1 has 1.2T of 2.0T in use (`free -b`: total - available)",
        f"Ray counts anon and shmem in {FOLDER}/user/memory.stat and shmem in {FOLDER}/system/memory.stat: 900G",
        f"{FOLDER}/user/memory.high sets the line to 950G: what `ray start --system-reserved-memory` leaves to workers",
        f"Ray also kills when {FOLDER}/user/memory.current, which has the file cache too, reaches memory.high: it is 920G",
    )


def test_with_resource_isolation_file_cache_at_the_limit_is_reported_too():
    found = only(detect(isolated(400, 940), detectors=NEAR), "host-memory-near-kill")
    assert found.level == "warning"
    assert (
        found.text
        == "940G of memory is in use by Ray's workers and their file cache on node1, 10G below the 950G at which Ray kills workers"
    )
    with_swap = only(detect(isolated(400, 940, swap=100), detectors=NEAR), "host-memory-near-kill")
    assert with_swap.text == found.text, "the kernel's limit has no swap in it"
    assert detect(isolated(400, 700), detectors=NEAR) == ()


def test_with_swap_counted_memory_and_swap_are_compared_with_the_line():
    base = of(500, kill_at=None)
    raylet = RayProcess("raylet", 21, node=node(1).id, kill_at=1900 * GIB, kill_used=1800 * GIB, kill_total=2000 * GIB)
    found = only(
        detect(replace(base, hosts={"node1": replace(base.hosts["node1"], rays=(raylet,))}), detectors=NEAR), "host-memory-near-kill"
    )
    assert found.text == "1.8T of host memory and swap is in use on node1, 100G below the 1.9T at which Ray kills workers"
    assert found.evidence[:3] == (
        "node1 has 500G of 1.0T in use (`free -b`: total - available)",
        "RAY_count_swap_in_memory_monitor is set: Ray counts swap too, 1.8T of 2.0T",
        "the raylet's environment on node1 (RAY_memory_usage_threshold, RAY_min_memory_free_bytes) sets the line to 1.9T",
    )


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("2.55.1", "Ray kills a worker of the owner with the most workers"),
        ("2.60.0", "Ray kills idle workers"),
        (None, "Ray kills idle workers"),
    ],
)
def test_the_victims_depend_on_rays_version(version, words):
    found = only(detect(of(930, cluster=Cluster(ray_version=version)), detectors=NEAR), "host-memory-near-kill")
    assert found.evidence[-1].startswith(words)
    assert ("(with Ray 2.56 or later)" in found.evidence[-1]) == (version is None)
    assert "does not know which workers are retriable" in found.evidence[-1]


def test_high_stable_use_is_a_warning_and_very_high_use_critical_until_it_clearly_falls():
    assert only(detect(of(870), detectors=NEAR), "host-memory-near-kill").level == "warning"
    assert only(detect(of(925), detectors=NEAR), "host-memory-near-kill").level == "critical"
    above = only(detect(of(960), detectors=NEAR), "host-memory-near-kill")
    assert above.text == "960G of host memory is in use on node1, 10G above the 950G at which Ray kills workers"
    near = Growing()
    levels = [only(near.use(*[use] * 20), "host-memory-near-kill").level for use in (915, 923, 915, 895, 880)]
    assert levels == ["warning", "critical", "critical", "critical", "warning"]
    growing = Growing()
    assert codes(growing.use(*[860] * 10)) == {"host-memory-near-kill"}
    assert codes(growing.use(*[830] * 40)) == {"host-memory-near-kill"}
    assert growing.use(*[820] * 10) == ()


def test_an_unknown_line_or_holder_is_called_unknown():
    found = only(detect(of(900, kill_at=None), detectors=NEAR), "host-memory-near-kill")
    assert found.text == "900G of host memory is in use on node1, 50G below the 950G at which Ray kills workers (by its default setting)"
    assert found.evidence[1].startswith("the kill line is assumed: the default of RAY_memory_usage_threshold is 95% of all memory")
    found = only(detect(of(900, hosts={}), detectors=NEAR), "host-memory-near-kill")
    assert found.evidence[2] == "who holds it is unknown: no probe runs on node1 now; use `ps aux --sort=-rss | head` there"
    assert found.remedy.action is None
    found = only(detect(of(900, as_of={}), detectors=NEAR), "host-memory-near-kill")
    assert found.seen is None
    assert only(after_silence(of(900, as_of={}), 60, detectors=NEAR), "host-memory-near-kill").seen == NOW


@pytest.mark.parametrize(("version", "probed", "reported"), [("2.44.1", False, True), ("2.60.0", False, False), ("2.44.1", True, False)])
def test_shared_memory_that_an_old_agent_omits_is_an_uncertainty(version, probed, reported):
    memory = HostMemory(700 * GIB, 1000 * GIB)
    nodes = (node(1, memory=memory, shared=200 * GIB, probed=probed, seen=NOW),)
    found = detect(snapshot(nodes=nodes, hosts={}, cluster=Cluster("http://x", version)), detectors=NEAR)
    assert bool(found) == reported
    if reported:
        assert found[0].level == "warning"
        assert found[0].text == (
            "700G of host memory is in use on node1 (900G with the 200G of shared memory that Ray's agent may leave out), "
            "50G below the 950G at which Ray kills workers (by its default setting)"
        )


@pytest.mark.parametrize(
    "use",
    [
        pytest.param([300 + 10 * step for step in range(30)], id="far from the line"),
        pytest.param([700 + step for step in range(30)], id="it would take long"),
        pytest.param([*[600] * 24, 870, *[600] * 5], id="a moment of much"),
    ],
)
def test_growth_that_stays_far_from_the_line_is_not_reported(use):
    assert Growing().use(*use) == ()


FULL = HostMemory(990 * GIB, 1000 * GIB)


@pytest.mark.parametrize(
    "nodes",
    [
        None,
        (),
        (node(1, memory=HostMemory(), seen=NOW),),
        (node(1, memory=HostMemory(5 * GIB), seen=NOW),),
        (node(1, state="DEAD", memory=FULL), node(2, id=None, state="UNKNOWN", memory=FULL)),
    ],
)
def test_dead_nodes_hosts_without_ray_and_unknown_memory_are_not_reported(nodes):
    assert detect(snapshot(nodes=nodes), detectors=NEAR) == ()


def test_growth_in_steps_does_not_flicker():
    growing = Growing()
    growing.use(*(650 + 40 * (step // 8) for step in range(24)))
    seen = [codes(growing.use(650 + 40 * (step // 8))) for step in range(24, 48)]
    assert all(seen), seen


def test_growth_in_a_large_cluster_sampled_every_15_s_is_predicted_too():
    judge, found = FreshTracker(Limits(), NEAR), []
    for step in range(60):
        sampled = step // 3 * 3
        used = HostMemory(int((600 + 4 * sampled) * GIB), 1000 * GIB, 950 * GIB)
        looked_at = replace(of(0), taken=NOW + 5 * step, nodes=(node(1, memory=used, seen=NOW + 5 * sampled - 8),), hosts={})
        found.append([each.text for each in judge(looked_at).findings])
    reported = [bool(texts) for texts in found]
    assert reported[36:] == [True] * 24, reported
    assert all("Ray starts killing in" in texts[0] for texts in found[36:])


def test_several_raylets_of_one_host_are_one_finding():
    memory = HostMemory(940 * GIB, 1000 * GIB, 950 * GIB)
    nodes = (node(1, memory=memory, seen=NOW), node(2, host="node1", memory=memory, seen=NOW))
    hosts = {"node1": Host("node1", taken=NOW, nodes=(nodes[0].id, nodes[1].id))}
    only(detect(snapshot(nodes=nodes, hosts=hosts), detectors=NEAR), "host-memory-near-kill")


def kill(pid=1001, ago=120.0, **more):
    facts = {"name": "hog:Hog.__init__", "node": f"{1:056x}", "job": "02000000", "held": 3 * GIB, "text": "Memory on the node", **more}
    return OomKill(facts.pop("by", "ray"), NOW - ago, pid, **facts)


def killed(*kills, **more):
    return detect(snapshot(oom_kills=kills, **more), detectors=KILLED)


def test_rays_kills_are_reported_by_node_with_time_and_size():
    found = only(killed(kill(actor=HOG), kill(1002, 500, name="rollout", held=None)), "workers-killed-oom")
    assert found.text == ("Ray killed 2 workers on node1, the last 2m00s ago (out of memory): actor actor1 of job ppo-7b, which held 3.0G")
    assert (found.level, found.since, found.about) == ("critical", NOW - 500, (node(1).key,))
    assert "Ray killed pid 1001, actor actor1 of job ppo-7b, which held 3.0G: Memory on the node" in found.evidence[0]
    assert "Ray killed pid 1002, task rollout of job ppo-7b" in found.evidence[1]
    assert "NODE_OUT_OF_MEMORY" in found.evidence[2]
    gone = only(killed(kill(actor="f" * 32)), "workers-killed-oom")
    assert gone.text == "Ray killed 1 worker on node1 2m00s ago (out of memory): actor hog:Hog of job ppo-7b, which held 3.0G"
    nameless = only(killed(kill(actor=HOG), actors=(actor(1, name=""),)), "workers-killed-oom")
    assert "actor PolicyModelActor" in nameless.text
    elsewhere = killed(kill(), kill(node=f"{2:056x}"), kill(node="ab" * 28))
    assert {each.subject for each in elsewhere} == {"node1", "node2", "abababab"}


def test_the_kernels_kills_are_reported_with_their_limit():
    one = kill(4242, by="kernel", node=None, host="node1", name="VLLM::EngineCore", job=None)
    found = only(killed(one), "workers-killed-oom")
    assert found.text == "The kernel killed 1 process on node1 2m00s ago (out of memory): VLLM::EngineCore, which held 3.0G"
    both = only(killed(one, kill(ago=300)), "workers-killed-oom")
    assert both.text.startswith("Ray killed 1 worker and the kernel 1 process on node1, the last 2m00s ago (out of memory): VLLM")
    one = kill(4242, by="kernel", node=None, host="node1", name="ray::train", job=None, limit=3 * GIB)
    found = only(killed(one), "workers-killed-oom")
    assert found.text.endswith("2m00s ago (out of memory): ray::train, which held 3.0G, at the limit of 3.0G of its cgroup")
    of_job = only(killed(replace(one, slurm="42")), "workers-killed-oom")
    assert of_job.text.endswith("ray::train, which held 3.0G, at the limit of 3.0G of Slurm job 42")


@pytest.mark.parametrize(
    ("name", "rays", "level"),
    [
        ("stress", False, "info"),
        ("stress", None, "warning"),
        ("python", True, "critical"),
        ("ray::Actor.step", False, "critical"),
        ("VLLM::EngineCor", None, "critical"),
    ],
)
def test_the_kernels_kills_of_other_processes_on_a_ray_host_are_no_alarm(name, rays, level):
    one = kill(4242, by="kernel", node=None, host="node1", name=name, job=None, rays=rays)
    found = only(killed(one), "workers-killed-oom")
    assert found.level == level
    assert found.text.endswith("stress, which held 3.0G, not known to belong to Ray") == (name == "stress")
    both = only(killed(one, kill(ago=700)), "workers-killed-oom")
    assert both.level == ("critical" if level == "critical" else "warning"), "Ray's own process was killed too, but long ago"


def test_a_kill_by_the_kernel_before_this_ray_started_is_no_alarm():
    """It may be a container's on this host or the previous Ray's: its workers have the same names."""
    one = kill(4242, by="kernel", node=None, host="node1", name="ray::Trainer", job=None)
    found = only(killed(one, nodes=(node(1, started=NOW - 30),)), "workers-killed-oom")
    assert found.level == "info"
    assert found.text.endswith("ray::Trainer, which held 3.0G, before this Ray session started")
    assert found.remedy is None, "nothing of this Ray's is to be changed"
    assert only(killed(one, nodes=(node(1, started=NOW - 3600),)), "workers-killed-oom").level == "critical"


def test_a_kill_by_another_ray_is_not_ours_and_no_alarm():
    theirs = kill(4242, ours=False, session="session_b", job=None, name="rollout")
    found = only(killed(theirs), "workers-killed-oom")
    assert found.level == "info"
    assert found.text == (
        "Another Ray session (session_b) killed 1 worker on node1 2m00s ago (out of memory): "
        "task rollout of another Ray session, which held 3.0G"
    )
    both = only(killed(theirs, kill(ago=300, ours=True)), "workers-killed-oom")
    assert both.level == "critical"
    assert both.text.startswith("Another Ray session (session_b) killed 1 worker and Ray 1 worker on node1")
    assert "another Ray session (session_b) killed pid 4242, task rollout of another Ray session" in both.evidence[0]


def test_a_killed_supervisor_ends_its_job():
    one = kill(actor="f" * 32, job="01000000", name="_ray_internal_job_actor_ppo-7b:JobSupervisor.__init__", held=64 << 20)
    found = only(killed(one), "workers-killed-oom")
    assert found.text.endswith("2m00s ago (out of memory): the supervisor of job ppo-7b (the job ends with it), which held 64M")


COUNTED = OomKill(
    "kernel", NOW - 60, host="node1", text="oom_kill in /c/memory.events has grown from 0 to 1", within=10.0, limit=3 * GIB, used=GIB
)


def test_a_kill_known_only_from_a_counter_has_the_limit_of_its_container_or_slurm_job():
    found = only(killed(COUNTED), "workers-killed-oom")
    assert found.text == (
        "The kernel killed 1 process on node1 1m00s ago (out of memory): which process it was is unknown; "
        "its container may use 3.0G of memory there, 1.0G in use after the kill"
    )
    assert " (or up to 10 s earlier) the kernel killed 1 process: oom_kill in /c/memory.events has grown from 0 to 1" in found.evidence[0]
    assert "but not which process was killed; the kernel's log names it" in found.evidence[2]
    assert not any("slurmstepd" in line for line in found.evidence)
    found = only(killed(replace(COUNTED, slurm="42", count=3, used=None)), "workers-killed-oom")
    assert found.text == (
        "The kernel killed 3 processes on node1, the last 1m00s ago (out of memory): which processes they were is unknown; "
        "Slurm job 42 may use 3.0G of memory there"
    )
    assert found.evidence[-1].startswith("if a step had an out-of-memory kill, its output says so at its end: `slurmstepd: error: Detected")
    found = only(killed(replace(COUNTED, limit=None, within=None)), "workers-killed-oom")
    assert found.text.endswith("1m00s ago (out of memory): which process it was is unknown")
    endless = only(killed(replace(COUNTED, limit=2**63 - 4096)), "workers-killed-oom")
    assert endless.text == found.text


def test_a_kill_is_critical_for_minutes_and_ends_after_an_hour():
    assert only(killed(kill(ago=599)), "workers-killed-oom").level == "critical"
    assert only(killed(kill(ago=601)), "workers-killed-oom").level == "warning"
    assert killed(kill(ago=3601)) == ()


def test_no_kills_unknown_kills_and_kills_on_a_host_without_ray_are_not_reported():
    assert killed() == ()
    assert detect(snapshot(oom_kills=None), detectors=KILLED) == ()
    other = replace(snapshot().hosts["node1"], name="laptop", sessions=(), nodes=())
    assert killed(kill(by="kernel", node=None, host="laptop"), hosts={"laptop": other}) == ()


@pytest.mark.parametrize("more", [{"moment": math.nan}, {"moment": None}, {"moment": NOW + 10**9}, {"held": -1, "name": None, "job": None}])
def test_absurd_kills_make_no_nonsense(more):
    for found in killed(replace(kill(), **more)):
        assert "nan" not in found.text.lower()
        assert "-1" not in found.text


def test_a_cgroup_limit_below_the_hosts_memory_is_an_info():
    found = only(
        detect(snapshot(nodes=(node(1, memory=HostMemory(GIB, 64 * GIB, None, 1000 * GIB)),)), detectors=CGROUP), "memory-limit-cgroup"
    )
    assert found.text == "Ray may use 64G of memory on node1, not the host's 1.0T: a cgroup limits it"
    assert found.level == "info"


@pytest.mark.parametrize("whole", [None, 64 * GIB, 32 * GIB, 0, -1, 2**70, math.nan])
def test_a_host_without_a_lower_limit_is_not_reported(whole):
    assert detect(snapshot(nodes=(node(1, memory=HostMemory(GIB, 64 * GIB, None, whole)),)), detectors=CGROUP) == ()


def in_slurm(limit, kill_at=950, used=2):
    """A node of 1,000 GiB in a Slurm job with this limit."""
    one = node(1, memory=HostMemory(300 * GIB, 1000 * GIB, kill_at and kill_at * GIB))
    raylet = RayProcess("raylet", 21, node=one.id, slurm="42", slurm_memory=Amount(used and used * GIB, limit * GIB))
    seen = snapshot(nodes=(one,))
    return detect(replace(seen, hosts={"node1": replace(seen.hosts["node1"], rays=(raylet,))}), detectors=CGROUP)


def test_a_slurm_limit_that_ray_does_not_know_is_reported_with_use_and_setting():
    found = only(in_slurm(400), "memory-limit-cgroup")
    assert found.level == "warning"
    assert found.text == (
        "Slurm job 42 may use 400G of memory on node1 (2.0G in use now): above that its processes are killed, but Ray assumes 1.0T"
    )
    assert "`--mem=0`" in found.remedy.text
    assert "RAY_memory_usage_threshold=0.38 in the environment of its `ray start`" in found.remedy.text
    assert "in use now" not in only(in_slurm(400, used=None), "memory-limit-cgroup").text
    assert only(in_slurm(400, kill_at=380), "memory-limit-cgroup").level == "info"
    assert only(in_slurm(400, kill_at=None), "memory-limit-cgroup").level == "warning"


@pytest.mark.parametrize("limit", [1000, 2000, 0, -1])
def test_a_slurm_limit_that_does_not_bind_is_not_reported(limit):
    assert in_slurm(limit) == ()
