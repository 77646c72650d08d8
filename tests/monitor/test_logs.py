"""Which logs a thing has, in which order, and how they are read without Ray."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.findings import FindingTracker, Limits
from cockpit.findings.actors import restart_loops
from cockpit.model import Cluster, Job, PlacementGroup, Remedy
from cockpit.monitor.logs import LogFinder
from cockpit.sources.source import SourceError
from tests.monitor.log_fakes import NODE1, NODE2, SESSION, Nodes, Probes, Selection
from tests.world import actor, finding, node, process, snapshot

NOW, BEFORE = "a1" * 28, "b2" * 28


def worker(pid=1001, suffix="out", which=NOW, job="02000000"):
    return f"worker-{which}-{job}-{pid}.{suffix}"


class World:
    def __init__(self, seen=None):
        self.ray, self.probes = Nodes(), Probes()
        self.seen = seen or snapshot(cluster=Cluster("http://h", "2.60.0", SESSION))
        self.finder = LogFinder(lambda: self.seen, lambda: self.ray, self.probes, Selection())

    def put(self, node, *names, lines=("line",)):
        self.ray.files[node].update({name: list(lines) for name in names})

    async def labels(self, thing):
        return [log.label for log in await self.finder.logs_of(thing)]


async def test_of_a_host_that_sends_without_end_only_the_last_lines_of_a_part_are_kept():
    world, sent = World(), 0

    def endless():
        nonlocal sent
        while True:
            sent += 1 << 20
            yield {"text": "\n" * (1 << 20)}

    world.put(NODE1, "raylet.out")
    world.probes.answers = endless()
    world.ray.error = SourceError("no Ray")
    assert await world.finder.folder(node(1)).read_end("raylet.out", 100) == [""] * 100
    assert sent < 64 << 20


@pytest.fixture
def world():
    return World()


async def lines_of(log, *, on=False):
    return [line async for batch in log.follow(100, on) for line in batch]


async def test_an_actor_has_its_own_logs_then_its_jobs_and_a_dead_one_its_stderr_first(world):
    world.put(NODE1, worker(), worker(suffix="err"), worker(1002), "raylet.out", lines=["hello"])
    logs = await world.finder.logs_of(actor(1))
    assert [(log.label, log.where) for log in logs] == [("out", "node1"), ("err", "node1"), ("job", "")]
    assert await lines_of(logs[0]) == ["hello"]
    assert await lines_of(logs[2]) == ["log of ppo-7b"]
    assert logs[0].title == "worker-a1a1a1a1-02000000-1001.out on node1"
    world.put(NODE1, worker(1009), worker(1009, "err"))
    assert await world.labels(actor(9, state="DEAD")) == ["err", "out", "job"]


async def test_a_restarted_actor_has_the_logs_of_its_previous_process(world):
    one = actor(1, restarts=3)
    world.put(NODE1, worker(), worker(suffix="err"))
    world.put(NODE2, worker(900, which=BEFORE), worker(900, "err", BEFORE), lines=["why it died"])
    failed = f"gcs_actor_manager.cc:1: Actor is failed on worker {{}} at node {NODE2}, actor_id={one.id}"
    world.put(NODE1, "gcs_server.out", lines=[failed.format("c3" * 28), failed.format(BEFORE)])
    logs = await world.finder.logs_of(one)
    assert [log.label for log in logs] == ["out", "err", "out-before", "err-before", "job"]
    assert (logs[3].where, await lines_of(logs[3])) == ("node2", ["why it died"])


async def test_while_an_actor_restarts_the_previous_logs_come_first(world):
    one = actor(1, state="RESTARTING", pid=None, node=None, restarts=1)
    world.put(NODE2, worker(900, which=BEFORE), worker(900, "err", BEFORE))
    world.put(NODE1, "gcs_server.out", lines=[f"Actor {one.id} is failed on worker {BEFORE} at node {NODE2}, need_reschedule = 1"])
    assert await world.labels(one) == ["err-before", "out-before", "job"]


async def test_the_log_with_the_error_comes_first_and_is_read_on_the_node_that_has_it(world):
    world.put(NODE1, worker(), worker(suffix="err"))
    world.put(NODE2, worker(900, "err", BEFORE), lines=["why it died"])
    logs = await world.finder.logs_of(actor(1))
    assert [log.label for log in world.finder.with_file(logs, worker(suffix="err"), NODE1)] == ["err", "out", "job"]
    first, *others = world.finder.with_file(logs, worker(900, "err", BEFORE), NODE2)
    assert (first.label, first.where, await lines_of(first)) == ("error", "node2", ["why it died"])
    assert tuple(others) == logs
    assert world.finder.with_file(logs, None, NODE2) == world.finder.with_file(logs, "gone.err", None) == logs


async def test_an_unreadable_log_has_its_reason_and_the_others_can_be_read(world):
    world.ray.error, world.probes.names = SourceError("Ray is down"), SourceError("ssh: refused")
    logs = await world.finder.logs_of(actor(1))
    assert [log.label for log in logs] == ["out", "job"]
    with pytest.raises(SourceError, match="Ray is down; ssh: refused"):
        await lines_of(logs[0])
    with pytest.raises(SourceError, match="Ray is down; ssh: refused"):
        await logs[0].read_end(400, 500)


async def test_the_probe_reads_them_if_ray_is_down(world):
    world.ray.error = SourceError("Ray is down")
    world.probes.names = (worker(), "../../etc/shadow", "raylet.out")
    world.probes.answers = ({"text": "one\ntw"}, {"text": "o\nrest"}, {"text": "", "end": True})
    own, *_ = await world.finder.logs_of(actor(1))
    assert own.label == "out"
    assert await lines_of(own) == ["one", "two", "rest"]
    assert world.probes.asked == [
        ("node1", "logs", SESSION, "worker-*-1001.*"),
        ("node1", "log", SESSION, worker(), "100"),
    ]


async def test_of_a_huge_file_that_a_probe_reads_only_the_last_whole_lines_are_kept(world):
    world.ray.error = SourceError("Ray is down")
    world.probes.names = (worker(),)
    own, *_ = await world.finder.logs_of(actor(1))
    world.probes.answers = (*({"text": f"{number} {'x' * 200}\n"} for number in range(1000)), {"text": "the last line\n"}, {"text": ""})
    assert await own.read_end(400, 500) == [f"998 {'x' * 200}", f"999 {'x' * 200}", "the last line"]
    world.probes.answers = ({"text": f"{'x' * 5000}the end\n"}, {"text": ""})
    assert await own.read_end(400, 500) == [f"{'x' * 493}the end"], "of one endless line its end"


async def test_a_probe_follows_until_the_process_is_gone_and_all_is_read(world):
    world.ray.error, world.probes.names = SourceError("Ray is down"), (worker(),)
    one = actor(1)
    own, *_ = await world.finder.logs_of(one)
    world.probes.answers = ({"text": "a\n"}, {"text": ""}, {"text": "b\n"}, {"text": ""}, {"text": ""}, {"text": "never\n"})
    batches = own.follow(100, True)
    assert await anext(batches) == ["a"]
    world.seen = snapshot(actors=())
    assert [batch async for batch in batches] == [["b"]]
    assert world.probes.asked[-1] == ("node1", "log", SESSION, worker(), "100", "--follow")


async def test_an_unreadable_answer_of_a_probe_is_raised(world):
    world.ray.error, world.probes.names = SourceError("Ray is down"), (worker(),)
    own, *_ = await world.finder.logs_of(actor(1))
    world.probes.answers = ({"strange": 1},)
    with pytest.raises(SourceError, match="Ray is down; the output of the probe of node1 can't be read"):
        await lines_of(own)


async def test_a_dead_nodes_logs_come_only_from_its_probe(world):
    world.seen = snapshot(nodes=(node(1, state="DEAD"),), cluster=Cluster("http://h", "2.60.0", SESSION))
    world.probes.names = ("raylet.out",)
    assert await world.labels(node(1, state="DEAD")) == ["raylet.out"]
    assert world.ray.asked == []
    world.seen = snapshot(nodes=(node(1, state="DEAD"),), cluster=Cluster("http://h", "2.60.0", SESSION))
    world.probes.names = SourceError("ssh: refused")
    with pytest.raises(SourceError, match=r"^ssh: refused$"):
        await world.finder.logs_of(node(1, state="DEAD"))


async def test_a_node_has_its_raylets_log_and_the_head_its_gcs(world):
    for where in (NODE1, NODE2):
        world.put(where, "raylet.out", "raylet.err", "gcs_server.out", "dashboard_agent.log", "monitor.log", "evil.sh")
    assert await world.labels(node(1)) == ["raylet.out", "gcs_server.out", "monitor.log", "raylet.err", "dashboard_agent.log"]
    assert await world.labels(node(2)) == ["raylet.out", "raylet.err", "dashboard_agent.log"]


async def test_with_several_raylets_on_a_host_the_nodes_own_log_is_opened(world):
    first = f"[x] (raylet) main.cc:711: Setting node ID node_id={NODE1}"
    second = f"[x] (raylet) main.cc:711: Setting node ID node_id={NODE2}"
    world.put(NODE2, "raylet.out", lines=[first, f"node added {NODE2}"])
    world.put(NODE2, "raylet.1.out", lines=[second])
    world.put(NODE2, "dashboard_agent.log", "dashboard_agent.1.log")
    assert await world.labels(node(2)) == ["raylet.1.out", "dashboard_agent.1.log"]


async def test_a_worker_its_children_and_its_leftovers_have_the_workers_log(world):
    world.put(NODE1, worker())
    own = process(1001, job="02000000")
    child = process(1100, parent=1001, kind="child", job="02000000")
    world.seen = snapshot(processes=(own, child), cluster=Cluster("http://h", "2.60.0", SESSION))
    assert await world.labels(own) == ["out", "job"]
    assert await world.labels(child) == ["out", "job"]
    world.put(NODE1, worker(1001))
    left = process(1100, parent=1, kind="orphan", job="02000000", worker=1001)
    assert await world.labels(left) == ["out", "job"]
    world.put(NODE1, worker(77))
    assert await world.labels(process(5001, ns_pid=77)) == ["out"]


async def test_a_part_of_ray_and_a_group_have_a_log(world):
    world.put(NODE1, "dashboard_agent.out", "dashboard_agent.log", "raylet.out", "dashboard_agent.err")
    agent = process(40, kind="ray", command="python -u /x/ray/dashboard/agent.py --node-ip=1")
    assert await world.labels(agent) == ["dashboard_agent.log", "dashboard_agent.out", "dashboard_agent.err"]
    assert await world.labels(PlacementGroup("7" * 36, job="02000000")) == ["job"]


async def test_the_log_of_another_rays_process_is_read_in_its_session_by_a_probe(world):
    world.probes.names = (worker(1300, job="05000000"),)
    left = process(1300, kind="stale", session="session_old", ours=False, other_job="05000000")
    assert await world.labels(left) == ["out"]
    assert world.probes.asked == [("node1", "logs", "session_old", "worker-*-1300.*")]
    assert world.ray.asked == []


def supervisor(job, **more):
    facts = {"class_": "JobSupervisor", "name": f"_ray_internal_job_actor_{job}", "state": "DEAD", "job": "01000000", "internal": True}
    return actor(9, **{**facts, **more})


async def test_a_dead_supervisor_has_the_log_of_the_job_that_it_started(world):
    (job,) = await world.finder.logs_of(supervisor("ppo-7b"))
    assert (job.label, job.file) == ("job", "job-driver-ppo-7b.log")
    world.put(NODE1, worker(1009, job="01000000"))
    assert await world.labels(supervisor("ppo-7b")) == ["job", "out"]


async def test_the_log_of_an_ended_job_has_its_end_time_and_that_of_a_running_job_none(world):
    (log,) = await world.finder.logs_of(Job("ppo-7b", "02000000", "ppo-7b", "SUCCEEDED", ended=1.0))
    assert log.ended_at() is None  # by Ray's newest answer
    world.seen = snapshot(jobs=(Job("ppo-7b", "02000000", "ppo-7b", "SUCCEEDED", ended=5.0),))
    assert log.ended_at() == 5.0


@pytest.mark.parametrize(
    ("thing", "why"),
    [
        (supervisor("old"), "no log of the supervisor of job old: its node keeps no file of its process, and Ray no longer lists its job"),
        (supervisor("old", pid=None), "Ray does not report its process, and Ray no longer lists its job"),
        (process(1400, kind="foreign"), "no log of process 1400: Ray writes none for it"),
        (process(7, kind="worker", ours=False, other_job="01000000"), "it belongs to job 01000000 of another Ray session"),
        (actor(4, pid=None, node=None, state="PENDING_CREATION", job=None), "no log of actor actor4: it has not had a process yet"),
        (node(2), "no log of node2"),
        ("a row of nothing", "put the cursor on a job, an actor, a process of Ray, a node or a finding"),
    ],
)
async def test_a_thing_without_a_log_says_why(world, thing, why):
    world.probes.names = ()
    with pytest.raises(SourceError, match=why):
        await world.finder.logs_of(thing)


async def test_a_finding_of_a_restart_loop_opens_the_log_that_it_names(world):
    one = actor(1, restarts=3)
    world.put(NODE1, worker(), worker(suffix="err"), worker(900, which=BEFORE), worker(900, "err", BEFORE))
    world.put(NODE1, "gcs_server.out", lines=[f"Actor is failed on worker {BEFORE} at node {NODE1}, actor_id={one.id}"])
    seen = snapshot(actors=(one,))
    seen = replace(seen, jobs=(Job("ppo", "02000000", "ppo", "RUNNING", started=seen.taken - 60),))
    (found,) = FindingTracker(Limits(), (restart_loops,))(seen).findings
    assert "worker-*.err of its process before the restart" in found.evidence[-1]
    assert [log.label for log in await world.finder.logs_about(found, [one])] == ["err-before", "err", "out-before", "out", "job"]


async def test_a_finding_opens_the_first_existing_log_of_its_things_or_says_that_there_is_none(world):
    world.put(NODE2, "raylet.out")
    (first, *_) = await world.finder.logs_about(finding(), [node(1), node(2)])
    assert (first.label, first.where) == ("raylet.out", "node2")
    with pytest.raises(SourceError, match="no log: what this finding is about has none"):
        await world.finder.logs_about(finding(), [])


async def test_a_finding_about_a_runtime_environment_opens_the_log_of_its_setup(world):
    world.put(NODE1, "runtime_env_setup-01000000.log", "runtime_env_setup-02000000.log")
    remedy = Remedy("read runtime_env_setup-*.log in the logs folder of the Ray session on the head")
    job = Job("ppo-7b", "02000000", "ppo-7b", "PENDING")
    logs = await world.finder.logs_about(finding(remedy=remedy), [job])
    assert [log.label for log in logs] == ["runtime_env_setup-02000000.log", "runtime_env_setup-01000000.log", "job"]


async def test_a_finding_about_ray_itself_opens_the_log_that_it_names_on_the_head(world):
    world.put(NODE1, "raylet.out", "gcs_server.out")
    remedy = Remedy("read logs/gcs_server.out on the head")
    assert [log.label for log in await world.finder.logs_about(finding(remedy=remedy), [])] == ["gcs_server.out", "raylet.out"]


async def test_a_job_whose_entrypoint_never_ran_has_the_log_of_its_environment_first(world):
    world.put(NODE1, "runtime_env_setup-02000000.log", lines=["ERROR: no such package"])
    failed = Job("ppo", submission="ppo", status="FAILED")
    assert await world.labels(failed) == ["runtime_env_setup-02000000.log", "job"]
    assert await world.labels(replace(failed, driver_node=NODE1)) == ["job"]
