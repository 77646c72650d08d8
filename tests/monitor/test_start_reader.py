"""Why actors don't start is read from the logs of their nodes: once in 30 s while they wait, for all actors of a job together."""

from __future__ import annotations

import asyncio
import time

import pytest
from msgspec.structs import replace

from cockpit.model import (
    SUPERVISOR,
    Bundle,
    Cluster,
    Failure,
    Job,
    PlacementGroup,
    RayPorts,
    RayProcess,
    StartTrouble,
    StuckProcess,
    Worker,
)
from cockpit.monitor.join import Join
from cockpit.monitor.log_folder import LogFolder
from cockpit.monitor.source_answers import Parts
from cockpit.monitor.start_reader import AGAIN_AFTER_S, MAX_QUESTIONS, StartReader, describe_stack, find_questions
from cockpit.sources.probes.decode import StackFrame, StackThread
from cockpit.sources.ray.client import ActorFacts, NodeFacts
from cockpit.sources.source import SourceError
from tests.monitor.log_fakes import NODE1, NODE2, SESSION, Nodes
from tests.monitor.start_lines import FAILS, FAILS_HASH, HANGS, HANGS_HASH, NO_MATCH, WORKER, deleted, ended, run, started, unregistered
from tests.world import NOW, actor, node, process, snapshot

NO_PORT = (
    "[2026-11-28 11:10:23,709 E 590 590] core_worker_process.cc:247: Failed to register worker to Raylet: Invalid: Invalid: No available "
    "ports. Please specify a wider port range using --min-worker-port and --max-worker-port. worker_id=bd49"
)
STARTS = f"worker-{WORKER}-02000000-590.err"


def waits(number=9, seconds=40.0, **more):
    facts = {"state": "PENDING_CREATION", "wait": "starting", "why": None, "node": None, "pid": None, "since": NOW - seconds}
    return actor(number, **{**facts, **more})


def seen(*actors, nodes=(1,), **more):
    facts = {"nodes": tuple(node(number) for number in nodes), "placement_groups": (), "jobs": (), "cluster": Cluster(session=SESSION)}
    return snapshot(actors=actors, **{**facts, **more})


class Poller:
    def __init__(self, first):
        self.now, self.starts, self.snapshot = NOW, (), first
        self.parts = Parts(nodes=NodeFacts(nodes=first.nodes, workers=(), holders=(), growing=False))

    def clock(self):
        return self.now

    def set_starts(self, starts):
        self.starts = starts


class World:
    """A reader, and the logs of two nodes."""

    def __init__(self, first):
        self.poller, self.ray, self.stacks = Poller(first), Nodes(), ()
        self.reader = StartReader(self.poller, self, self.stack)

    def folder(self, node):
        async def files():
            return self.ray

        return LogFolder(node.title, None, None, node.id, files)

    async def stack(self, process):
        if isinstance(self.stacks, SourceError):
            raise self.stacks
        return self.stacks

    def put(self, name, *lines, on=NODE1):
        self.ray.files[on][name] = list(lines)

    async def look(self, now=None):
        """The troubles after one more snapshot."""
        self.poller.snapshot = now or self.poller.snapshot
        self.reader.on_snapshot(self.poller.snapshot)
        if self.reader._reading._task is not None:
            await self.reader._reading._task
        return self.poller.starts


def with_ports(first, workers, users):
    """A probe has seen the raylet of the first node, with these worker ports, and this number of workers."""
    raylet = RayProcess("raylet", 310, SESSION, NODE1, ports=RayPorts(workers))
    host = replace(first.hosts["node1"], rays=(raylet,), nodes=(NODE1,))
    return replace(first, hosts={"node1": host}, processes=tuple(process(2000 + number, node=NODE1) for number in range(users)))


async def test_workers_that_find_no_port_name_the_node_and_its_range():
    world = World(with_ports(seen(waits(1), waits(2)), ((20000, 20003),), 4))
    world.put("raylet.out", started(590))
    world.put(STARTS, NO_PORT)
    (trouble,) = await world.look()
    assert trouble.text == "node node1 has 4 worker ports (20000-20003) and all are taken"
    assert trouble.remedy == "start Ray on node1 again with a wider range (`--min-worker-port`, `--max-worker-port`)"
    assert trouble.fails
    assert trouble.about == (waits(1).key, waits(2).key)


async def test_without_a_probe_the_range_is_not_known_and_not_made_up():
    world = World(seen(waits()))
    world.put("raylet.out", started(590))
    world.put(STARTS, NO_PORT)
    (trouble,) = await world.look()
    assert trouble.text == "node node1 has no free port for another worker"


@pytest.mark.parametrize("wait", ["starting", "room"])
async def test_a_full_node_has_no_room_even_if_its_workers_wrote_nothing(wait):
    full = with_ports(seen(waits(wait=wait)), ((20000, 20003),), 4)
    (trouble,) = await World(full).look()
    assert trouble.text.endswith("has 4 worker ports (20000-20003) and all are taken")
    assert await World(with_ports(seen(waits(wait=wait)), ((20000, 20003),), 3)).look() == (), "one port is free"
    other = with_ports(seen(waits(wait=wait), nodes=(1, 2)), ((20000, 20003),), 4)
    assert await World(other).look() == (), "it may be started on the other node"


async def test_workers_that_die_before_they_register_are_counted_with_their_error():
    world = World(seen(waits()))
    world.put("raylet.out", started(590), started(612))
    world.put("raylet.err", unregistered(590), unregistered(612))
    for pid in (590, 612):
        world.put(f"worker-{WORKER}-02000000-{pid}.err", "Traceback (most recent call last):", '  File "a.py", line 3, in <module>',
                  "ModuleNotFoundError: No module named 'reward'")  # fmt: skip
    (trouble,) = await world.look()
    assert "2 workers for it have died on node1 before Ray could use them" in trouble.text
    assert "reward" in trouble.text
    assert trouble.fails


async def test_a_worker_of_another_job_that_dies_is_no_reason():
    world = World(seen(waits()))
    world.put("raylet.out", started(590))
    world.put(f"worker-{WORKER}-03000000-590.err", NO_PORT)
    assert await world.look() == ()


async def test_a_worker_that_runs_and_does_not_register_is_named():
    world = World(seen(waits()))
    world.put("raylet.out", started(590), unregistered(590, "still alive, probably it's hanging"))
    world.put(STARTS, "Loading …")
    (trouble,) = await world.look()
    assert trouble.text == "its worker process on node1 (pid 590) had not registered with Ray after a minute, and was running then"
    assert not trouble.fails


def job(name, pip):
    return Job(name, submission=name, status="PENDING", started=NOW - 60, runtime_env={"pip": pip})


def supervisor(number, name):
    return waits(number, name=f"{SUPERVISOR}{name}", internal=True, job="01000000", class_="JobSupervisor")


async def test_of_two_jobs_each_is_told_of_its_own_environment():
    jobs = (job("hangs", HANGS), job("fails", FAILS))
    world = World(seen(supervisor(8, "hangs"), supervisor(9, "fails"), jobs=jobs))
    setup = [run(9, HANGS_HASH), run(10, FAILS_HASH), *ended(10, *NO_MATCH), deleted(FAILS_HASH)]
    world.put("runtime_env_setup-01000000.log", *setup)
    world.put("raylet.out", started(590, at="11:10:39"))
    found = {trouble.about: trouble for trouble in await world.look()}
    hangs, fails = found[supervisor(8, "").key,], found[supervisor(9, "").key,]
    assert hangs.text == (
        "its runtime environment is being built on node1: pip install has written nothing since 11:08:39 by that host's clock"
    )
    assert hangs.silent_since == NOW - 120
    assert not hangs.fails
    assert fails.text == (
        "pip failed to build its runtime environment on node1 (1 time): ERROR: No matching distribution found for nosuchpackage-abc==1.0"
    )
    assert fails.fails


async def test_a_log_is_read_again_after_half_a_minute_while_the_wait_lasts_and_then_forgotten():
    world = World(seen(waits()))
    world.put("raylet.out", started(590))
    world.put(STARTS, NO_PORT)
    await world.look()
    asked = len(world.ray.asked)
    await world.look()
    assert len(world.ray.asked) == asked
    world.poller.now += AGAIN_AFTER_S
    await world.look()
    assert len(world.ray.asked) > asked
    assert await world.look(seen()) == ()


async def test_what_waits_for_less_than_half_a_minute_is_not_asked_for_but_in_a_single_sample():
    world = World(seen(waits(seconds=20)))
    world.put("raylet.out", started(590))
    world.put(STARTS, NO_PORT)
    assert await world.look() == ()
    await world.reader.read_once(5.0)
    assert len(world.poller.starts) == 1


async def test_when_another_session_is_watched_or_cockpit_ends_reading_ends_without_an_answer():
    other = seen(cluster=Cluster(session="session_other"))
    for end in (lambda reader: reader.on_snapshot(other), lambda reader: reader.close()):
        world = World(seen(waits()))
        world.put("raylet.out", started(590))
        world.put(STARTS, NO_PORT)
        world.reader.on_snapshot(world.poller.snapshot)
        reading = world.reader._reading._task
        await asyncio.sleep(0)
        end(world.reader)
        await asyncio.wait([reading], timeout=30)
        assert reading.cancelled()
        assert world.poller.starts == ()


async def test_logs_that_cannot_be_read_are_no_answer():
    world = World(seen(waits()))
    world.ray.error = SourceError("no way there")
    assert await world.look() == ()


async def test_after_an_error_that_nobody_expects_the_next_wait_is_answered(monkeypatch):
    world = World(seen(waits(1), waits(2, job="03000000")))
    asked = []

    async def answer(question):
        asked.append(question.job)
        if len(asked) == 1:
            raise ZeroDivisionError
        return StartTrouble((), "a reason", "a remedy")

    monkeypatch.setattr(world.reader, "_answer", answer)
    with pytest.raises(ZeroDivisionError):
        await world.look()
    (trouble,) = await world.look()
    assert trouble.text == "a reason"
    assert len(set(asked)) == len(asked) == 2


def test_three_hundred_actors_of_a_job_are_one_question_and_many_jobs_are_cut():
    many = [waits(number) for number in range(1, 301)]
    (question,) = find_questions(seen(*many), {}, 30.0)
    assert len(question.actors) == 300
    jobs = [waits(number, job=f"{number:08x}") for number in range(1, 50)]
    assert len(list(find_questions(seen(*jobs), {}, 30.0))) == MAX_QUESTIONS


def test_an_actor_of_a_placed_group_is_looked_for_where_its_bundle_is():
    group = PlacementGroup("7" * 36, state="CREATED", bundles=(Bundle({"GPU": 1.0}, NODE1), Bundle({"GPU": 1.0}, NODE2)))
    waiting = waits(placement_group=group.id, bundle=1)
    (question,) = find_questions(seen(waiting, nodes=(1, 2), placement_groups=(group,)), {}, 30.0)
    assert question.nodes == (NODE2,)


@pytest.mark.parametrize("wait", ["held", "never", "group", "removed"])
def test_what_has_no_place_is_no_question(wait):
    assert list(find_questions(seen(waits(wait=wait)), {}, 30.0)) == []


CONSTRUCTOR = waits(seconds=70, why="its constructor is running on node1, pid 1009")
STACK = StackThread((StackFrame("read", "posixpath.py", 12), StackFrame("<module>", "site-packages/torch/__init__.py", 40),
                     StackFrame("_find_and_load", "<frozen importlib._bootstrap>", 1), StackFrame("__init__", "train.py", 9),
                     StackFrame("main_loop", "ray/_private/worker.py", 900)))  # fmt: skip


def with_constructor(world):
    facts = NodeFacts(nodes=(node(1),), workers=(Worker(NODE1, 1009, "02000000", CONSTRUCTOR.id),), holders=(), growing=False)
    world.poller.parts = Parts(nodes=facts)
    return world


async def test_a_constructor_says_where_its_stack_stands():
    world = with_constructor(World(seen(CONSTRUCTOR, processes=(process(1009, node=NODE1),))))
    world.stacks = (STACK,)
    (trouble,) = await world.look()
    assert trouble.text == ("its constructor is running on node1, pid 1009, and imports a module at train.py:9, now at posixpath.py:12")
    world.stacks = SourceError("py-spy is not on this host")
    world.poller.now += AGAIN_AFTER_S
    assert await world.look() == (), "Ray's reason stays"


async def test_a_constructor_that_waits_for_a_file_system_names_it():
    first = seen(CONSTRUCTOR, processes=(process(1009, node=NODE1),))
    stuck = StuckProcess(pid=1009, ticks=10090, mount="/data", kind="nfs4", certain=True)
    host = replace(first.hosts["node1"], stuck=(stuck,))
    (trouble,) = await with_constructor(World(replace(first, hosts={"node1": host}))).look()
    assert trouble.text == "its constructor is running on node1, pid 1009, and waits in the kernel (D state) for /data (nfs4)"


async def test_a_worker_that_is_not_ready_says_which_import_it_stands_in():
    begun = process(790, node=NODE1, job="02000000", started=NOW - 25, command="python default_worker.py")
    world = World(seen(waits(), processes=(begun,)))
    frames = [("/tmp/hang/msgpack.py", 2), ("<frozen importlib>", 1), ("ray/__init__.py", 85), ("default_worker.py", 8)]
    world.stacks = (StackThread(tuple(StackFrame("_find_and_load" if "<" in file else "<module>", file, line) for file, line in frames)),)
    (trouble,) = await world.look()
    assert trouble.text == (
        "its worker process on node1, pid 790, is not ready for Ray yet, and imports a module at ray/__init__.py:85, "
        "now at hang/msgpack.py:2"
    )
    young = replace(begun, started=NOW - 5)
    world = World(seen(waits(), processes=(young,)))
    assert await world.look() == ()


async def test_no_stack_is_read_for_a_single_look_and_of_many_constructors_only_those_of_two():
    world = with_constructor(World(seen(CONSTRUCTOR, processes=(process(1009, node=NODE1),))))
    world.stacks = (STACK,)
    await world.reader.read_once(5.0)
    assert world.poller.starts == ()
    many = [waits(number, seconds=70) for number in range(1, 9)]
    places = {one.id: (NODE1, 2000 + number) for number, one in enumerate(many)}
    world = seen(*many, processes=tuple(process(2000 + number, node=NODE1) for number in range(8)))
    assert len(list(find_questions(world, places, 30.0))) == 2


async def test_a_worker_that_worked_and_failed_is_no_reason_why_another_does_not_start():
    world = World(seen(waits()))
    world.put("raylet.out", started(590))
    world.put(STARTS, "Traceback (most recent call last):", '  File "a.py", line 3, in fit', "RuntimeError: CUDA out of memory")
    assert await world.look() == ()


async def test_the_stack_of_another_rays_process_is_never_read():
    world = with_constructor(World(seen(CONSTRUCTOR, processes=(process(1009, node=NODE1, ours=False),))))
    world.stacks = (STACK,)
    assert await world.look() == ()


def test_a_thread_that_runs_no_constructor_says_nothing():
    assert describe_stack([StackThread((StackFrame("wait", "threading.py", 3),))]) is None
    assert describe_stack([StackThread((StackFrame("load", "/a/b/train.py", 9), StackFrame("main_loop", "worker.py", 1)))]) == (
        "now in load at b/train.py:9"
    )


async def test_an_actor_that_is_started_again_says_how_often_and_why_it_died():
    again = waits(state="RESTARTING", restarts=4, wait=None)
    failure = Failure(again.key, 4.0, text="RuntimeError: CUDA error\nmore", file="worker.err")
    (trouble,) = await World(seen(again, failures=(failure,))).look()
    assert trouble.text == "its process has died 4 times and is started again: RuntimeError: CUDA error"
    assert trouble.fails
    for empty, why in ((Failure(again.key, file="worker.err"), "its log shows no error"), (Failure(again.key), "no log of it was found")):
        (trouble,) = await World(seen(again, failures=(empty,))).look()
        assert trouble.text.endswith(f"is started again: {why}")


def test_the_reason_is_that_of_the_actor_while_it_waits_and_only_then():
    trouble = StartTrouble((waits().key,), "node w1 has 4 worker ports (20000-20003) and all are taken", fails=True)

    def why(one):
        facts = ActorFacts(actors=(one,), counts=None, complete=True)
        return Join()(Parts(actors=facts, starts=(trouble,)), NOW).actors[0].why

    assert why(waits()) == trouble.text
    assert why(waits(10)) is None
    assert why(waits(state="ALIVE")) is None


@pytest.mark.parametrize(("log", "shown"), [("agent", "its package"), ("raylet", "worker processes on node1 die")])
async def test_long_lines_of_rays_agent_and_raylet_never_hold_the_loop_for_long(log, shown):
    uri, hostile = "gcs://_ray_pkg_0a.zip", "a." * 2000
    world = World(seen(waits(), jobs=(Job("ppo", "02000000", "ppo", "RUNNING", runtime_env={"working_dir": uri}),)))
    if log == "agent":
        agent = "2026-11-28 11:10:30,005\tINFO runtime_env_agent.py:543 -- "
        begun, failed = f'{agent}Creating runtime env: "{uri}"', f'{agent}Failed to create runtime env "{uri}"'
        world.put("runtime_env_agent.log", begun, failed, *[hostile] * 250)
    rays = "[2026-11-28 11:10:23,709 E 590 590] core_worker.cc:247: no way"
    world.put("raylet.out", started(590))
    world.put("raylet.err", *[hostile] * 97, rays, unregistered(590))
    longest, reading = 0.0, asyncio.ensure_future(world.look())
    while not reading.done():
        began = time.thread_time()
        await asyncio.sleep(0)
        longest = max(longest, time.thread_time() - began)
    assert reading.result()[0].text.startswith(shown)
    assert longest < 0.05
