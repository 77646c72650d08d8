"""Logs of failed jobs are read in the background, one at a time, once per failure, and within bounds."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from msgspec.structs import replace

from cockpit.findings.actors import RESTARTING_CODE
from cockpit.model import Cluster, Failure, Hold, Job, Snapshot
from cockpit.monitor import failure_reader
from cockpit.monitor.failure_reader import (
    AGAIN_AFTER_S,
    FEW_LINES,
    MAX_KEPT_BYTES,
    MAX_WHY_CHARS,
    RETRY_AFTER_S,
    STILL_FOR_S,
    FailureReader,
    read_end,
)
from cockpit.monitor.logs import Log, LogFinder
from cockpit.sources.source import SourceError
from tests.monitor.log_fakes import Nodes, Probes, Selection
from tests.world import NOW, actor, finding, gpu, node, process, snapshot

NODE1, NODE2 = node(1).id or "", node(2).id or ""
SESSION = "session_2026-11-21_01-17-58_164160_11638"
TRACE = ["Traceback (most recent call last):", '  File "/a/train.py", line 7, in fit', "    raise OddError", "OddError: boom"]
DIED = [
    "Traceback (most recent call last):",
    '  File "/a/train.py", line 9, in main',
    "    ray.get(actors)",
    "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
    "\tclass_name: Critic",
    "\tactor_id: 0a",
    "\tpid: 900",
    "\tnamespace: x",
    "\tip: 10.0.0.2",
    "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits.",
]


def failed(name: str = "ppo", ago: float = 60.0, **more: Any) -> Job:
    facts = {
        "submission": name,
        "status": "FAILED",
        "ended": NOW - ago,
        "entrypoint": f"python {name}.py",
        "driver_node": NODE1,
        "exit_code": 1,
    }
    return Job(name, **{**facts, **more})


class Poller:
    """Stands where the poller does."""

    def __init__(self, seen: Snapshot) -> None:
        self.now, self.snapshot = NOW, seen
        self.failures: tuple[Failure, ...] = ()

    def clock(self) -> float:
        return self.now

    def set_failures(self, failures: tuple[Failure, ...]) -> None:
        self.failures = failures


class SlowNodes(Nodes):
    """Files of nodes; each read waits until it is let through, if `gate` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[str] = []
        self.at_once = self.most_at_once = 0
        self.gate: asyncio.Event | None = None

    async def read_end(self, node: str, name: str, lines: int, most_bytes: int) -> list[str]:
        self.read.append(name)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await (self.gate.wait() if self.gate else asyncio.sleep(0))
            if name not in self.files[node]:
                raise SourceError("no such file")
            return list(self.files[node][name][-lines:])
        finally:
            self.at_once -= 1


class World:
    def __init__(self, *jobs: Job, **more: Any) -> None:
        self.ray, self.probes = SlowNodes(), Probes()
        self.poller = Poller(seen(*jobs, **more))
        finder = LogFinder(lambda: self.poller.snapshot, lambda: self.ray, self.probes, Selection())  # type: ignore[arg-type,return-value]
        self.reader = FailureReader(self.poller, finder, 4 * 3600.0)  # type: ignore[arg-type]  # all that it uses of it
        for job in jobs:
            self.put(f"job-driver-{job.submission}.log", TRACE)

    def put(self, name: str, lines: list[str], node: str = NODE1) -> None:
        self.ray.files[node][name] = lines

    def show(self, snapshot: Snapshot) -> None:
        self.poller.snapshot = snapshot
        self.reader.on_snapshot(snapshot)

    async def read(self) -> None:
        """Until nothing is being read."""
        self.reader.on_snapshot(self.poller.snapshot)
        if self.reader._reading._task is not None:
            await asyncio.wait([self.reader._reading._task], timeout=30)

    @property
    def texts(self) -> dict[str, str | None]:
        return {each.about: each.text for each in self.poller.failures}


def seen(*jobs: Job, **more: Any) -> Snapshot:
    facts = {"cluster": Cluster("http://h", "2.60.0", SESSION), "jobs": jobs, "actors": (), "processes": (), "findings": ()}
    return snapshot(**{**facts, **more})


async def test_the_log_of_a_failed_job_is_read_once_and_the_error_is_where_and_when_it_was():
    world = World(failed())
    for _ in range(3):
        await world.read()
    (found,) = world.poller.failures
    assert (found.about, found.moment, found.text, found.raised_at) == ("job:ppo", NOW - 60, "OddError: boom", "train.py:7 in fit")
    assert found.file == "job-driver-ppo.log"
    assert world.ray.read == ["job-driver-ppo.log"]


async def test_the_command_of_the_entrypoint_in_the_log_is_no_error():
    world = World(failed(entrypoint="python x.py\nexit 137"))
    world.put("job-driver-ppo.log", [*TRACE, "Running entrypoint for job ppo: python x.py", "exit 137"])
    await world.read()
    assert world.texts == {"job:ppo": "OddError: boom"}


async def test_logs_are_read_one_at_a_time_the_newest_failure_first():
    jobs = [failed(f"job{number}", 100.0 - number) for number in range(5)]
    world = World(*jobs)
    await world.read()
    assert world.ray.read == [f"job-driver-job{number}.log" for number in (4, 3, 2, 1, 0)]
    assert world.ray.most_at_once == 1


async def test_of_300_failures_at_once_the_newest_100_are_read_and_one_that_comes_meanwhile_is_next():
    jobs = [failed(f"job{number}", 1000.0 - number) for number in range(300)]
    world = World(*jobs)
    world.ray.gate = asyncio.Event()
    world.reader.on_snapshot(world.poller.snapshot)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    newest = failed("newest", 1.0)
    world.put("job-driver-newest.log", TRACE)
    world.show(seen(*jobs, newest))
    world.ray.gate.set()
    await world.read()
    assert world.ray.read[0] == "job-driver-job299.log"
    assert world.ray.read[1] == "job-driver-newest.log"
    assert (len(set(world.ray.read)), world.ray.most_at_once) == (100, 1)


async def test_a_later_failure_of_the_same_entrypoint_is_read_and_the_first_is_forgotten():
    world = World(failed())
    await world.read()
    again = failed("ppo2", 5.0, entrypoint="python ppo.py", started=NOW - 10)
    world.put("job-driver-ppo2.log", ["OtherError: later"])
    world.show(seen(failed(started=NOW - 100), again))
    await world.read()
    assert world.texts == {"job:ppo2": "OtherError: later"}
    same_job = replace(again, ended=NOW - 1)
    world.show(seen(same_job))
    await world.read()
    assert world.ray.read.count("job-driver-ppo2.log") == 2
    world.show(seen())
    assert world.poller.failures == ()


async def test_a_log_that_is_gone_is_said_and_tried_again_soon():
    world = World(failed())
    del world.ray.files[NODE1]["job-driver-ppo.log"]
    world.probes.answers = ({"strange": 1},)
    await world.read()
    await world.read()
    (found,) = world.poller.failures
    assert found.text is None
    assert "no such file" in (found.unread or "")
    reads = len(world.ray.read)
    world.put("job-driver-ppo.log", TRACE)
    world.poller.now += RETRY_AFTER_S
    await world.read()
    assert len(world.ray.read) > reads
    assert world.texts == {"job:ppo": "OddError: boom"}


async def test_a_read_that_takes_too_long_is_given_up_and_the_next_log_is_read(monkeypatch):
    monkeypatch.setattr(failure_reader, "READ_TIMEOUT_S", 0.01)
    world = World(failed("slow", 1.0), failed("ppo"))
    world.ray.gate = asyncio.Event()
    await world.read()
    assert [each.unread for each in world.poller.failures] == ["not read within 0 s"] * 2


async def test_after_an_error_that_nobody_expects_the_log_is_read_again_later():
    world = World(failed())
    right, world.ray.read_end = world.ray.read_end, wrong_read  # type: ignore[method-assign]
    await world.read()
    assert isinstance(world.reader._reading._task.exception(), ZeroDivisionError)  # type: ignore[union-attr]
    world.ray.read_end = right  # type: ignore[method-assign]
    await world.read()
    assert world.texts == {}
    world.poller.now += RETRY_AFTER_S
    await world.read()
    assert world.texts == {"job:ppo": "OddError: boom"}


async def wrong_read(*_: object) -> list[str]:
    raise ZeroDivisionError


async def test_where_ray_can_t_be_asked_a_probe_reads_the_log():
    world = World(failed())
    world.ray.error = SourceError("Ray is down")
    world.probes.answers = ({"text": "\n".join(TRACE)}, {"text": "", "end": True})
    await world.read()
    assert world.texts == {"job:ppo": "OddError: boom"}
    assert world.probes.asked[0] == ("node1", "log", SESSION, "job-driver-ppo.log", "20000")


async def test_the_answer_of_a_session_that_was_replaced_meanwhile_is_dropped():
    world = World(failed())
    world.ray.gate = asyncio.Event()
    world.reader.on_snapshot(world.poller.snapshot)
    await asyncio.sleep(0)
    world.show(seen(cluster=Cluster("http://h", "2.60.0", "session_2026-11-22_01-17-58_164160_1")))
    world.ray.gate.set()
    await world.read()
    assert world.poller.failures == ()
    assert world.ray.at_once == 0


async def test_an_answer_that_comes_before_the_new_session_is_noticed_is_dropped_too():
    world = World(failed())
    world.ray.gate = asyncio.Event()
    world.reader.on_snapshot(world.poller.snapshot)
    await asyncio.sleep(0)
    world.poller.snapshot = seen(cluster=Cluster("http://h", "2.60.0", "session_2026-11-22_01-17-58_164160_1"))
    world.ray.gate.set()
    for _ in range(200):
        await asyncio.sleep(0.001)
        if not world.ray.at_once:
            break
    assert world.poller.failures == ()


async def test_when_the_cluster_is_left_or_the_screen_closed_nothing_is_read_any_more():
    for end in (lambda world: world.show(replace(world.poller.snapshot, jobs=None)), lambda world: world.reader.close()):
        world = World(failed())
        world.ray.gate = asyncio.Event()
        world.reader.on_snapshot(world.poller.snapshot)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert world.ray.at_once == 1
        end(world)
        for _ in range(5):
            await asyncio.sleep(0)
        assert (world.ray.at_once, world.poller.failures) == (0, ())


async def test_an_actor_s_death_leads_to_what_its_process_wrote():
    world = World(failed())
    world.put("job-driver-ppo.log", DIED)
    world.put(f"worker-{'b2' * 28}-02000000-900.err", ["Fatal: x", *TRACE], NODE2)
    await world.read()
    (found,) = world.poller.failures
    assert (found.text, found.file) == ("OddError: boom", f"worker-{'b2' * 28}-02000000-900.err")
    assert (found.ip, found.pid) == ("10.0.0.2", 900)


async def test_of_a_dead_and_a_living_node_with_the_same_address_the_living_one_has_the_log():
    dead = replace(node(3), ip="10.0.0.2", state="DEAD")
    world = World(failed(), nodes=(node(1), dead, node(2)))
    world.put("job-driver-ppo.log", DIED)
    world.put(f"worker-{'b2' * 28}-02000000-900.err", TRACE, NODE2)
    await world.read()
    assert world.texts == {"job:ppo": "OddError: boom"}


async def test_what_a_worker_of_another_job_with_the_same_pid_wrote_is_not_the_cause():
    world = World(failed(job="03000000"))
    world.put("job-driver-ppo.log", DIED)
    other = f"worker-{'b2' * 28}-02000000-900.err"
    world.put(other, TRACE, NODE2)
    await world.read()
    assert [each.file for each in world.poller.failures] == ["job-driver-ppo.log"]
    assert other not in world.ray.read


async def test_logs_that_can_not_be_read_leave_time_for_the_others(monkeypatch):
    """Two fifos in place of the newest logs: each takes longer than the pause before its next try."""
    world = World(*(failed(f"job{number}", 10.0 + number) for number in range(4)))
    world.probes.answers = ({"strange": 1},)
    read_end = world.ray.read_end

    async def slow(node: str, name: str, lines: int, most_bytes: int) -> list[str]:
        if name in ("job-driver-job0.log", "job-driver-job1.log"):
            world.poller.now += RETRY_AFTER_S + 1
            world.ray.read.append(name)
            if len(world.ray.read) > 40:
                world.reader.close()
            raise SourceError("it is a pipe")
        return await read_end(node, name, lines, most_bytes)

    monkeypatch.setattr(world.ray, "read_end", slow)
    await world.read()
    assert {"job:job2", "job:job3"} <= {about for about, text in world.texts.items() if text == "OddError: boom"}


async def test_a_reason_of_a_host_why_a_log_is_not_read_is_one_short_line():
    world = World(failed())
    world.ray.error = SourceError("\x1b[2J no\nlog HF_TOKEN=" + "hf_" + "a1B2c3D4e5" * 3 + "f6G7 " + "x" * 10_000)
    world.probes.names = world.ray.error
    world.probes.answers = ({"error": 7},)
    await world.read()
    (found,) = world.poller.failures
    assert found.unread
    assert found.unread.isprintable()
    assert "a1B2c3" not in found.unread
    assert len(found.unread) <= MAX_WHY_CHARS


async def test_without_the_log_of_the_dead_process_its_death_is_told():
    world = World(failed())
    world.put("job-driver-ppo.log", DIED)
    await world.read()
    (found,) = world.poller.failures
    assert (found.text or "").startswith("ray.exceptions.ActorDiedError: The actor died unexpectedly")
    assert found.is_consequence


REGISTER = (
    "[2026-11-28 10:00:30,000 E 12 12] core_worker.cc:496: Failed to register worker to Raylet: IOError: [RayletClient] Unable to register "
    "worker with raylet. Failed to read data from the socket: End of file"
)


HANGS = (
    "[2026-11-28 {clock},000 E 9 9] (raylet) worker_pool.cc:550: Some workers of the worker process(123) have not registered within the "
    "timeout. The process is still alive, probably it's hanging during start."
)


@pytest.mark.parametrize(("clock", "file"), [("10:00:20", "raylet.out"), ("08:00:20", "job-driver-ppo.log")])
async def test_where_a_worker_never_registered_a_known_error_of_the_raylet_at_that_time_counts(clock, file):
    world = World(failed())
    world.put("job-driver-ppo.log", [REGISTER])
    world.put("raylet.out", [HANGS.format(clock=clock)])
    await world.read()
    assert [each.file for each in world.poller.failures] == [file]


async def test_an_unknown_line_of_the_raylet_is_not_taken_for_the_cause():
    world = World(failed())
    world.put("job-driver-ppo.log", [REGISTER])
    world.put("raylet.out", ["10:00:20 OddError: of another job", "OddError: of another job"])
    await world.read()
    assert [each.file for each in world.poller.failures] == ["job-driver-ppo.log"]


async def test_the_gpu_of_the_process_that_failed_is_taken_from_the_last_list_that_had_it():
    worker = process(12, node=NODE2, gpus=(Hold(3, 1),))
    running = failed(status="RUNNING", ended=None)
    world = World(running, processes=(worker,))
    world.put("job-driver-ppo.log", ["(Critic pid=12, ip=10.0.0.2) [rank3]: OddError: boom"])
    await world.read()
    world.poller.now += 30
    world.show(seen(failed(), processes=()))
    await world.read()
    (found,) = world.poller.failures
    assert (found.rank, found.pid, found.ip, found.gpus) == (3, 12, "10.0.0.2", (3,))


async def test_the_log_before_a_restart_is_read_for_an_actor_in_a_restart_loop_again_every_minute():
    one = actor(1, restarts=3)
    loop = finding(code=RESTARTING_CODE, about=(one.key,))
    world = World(actors=(one,), findings=(loop,))
    world.put(f"worker-{'b2' * 28}-02000000-900.err", TRACE, NODE2)
    world.put("gcs_server.out", [f"gcs_actor_manager.cc:1: Actor is failed on worker {'b2' * 28} at node {NODE2}, actor_id={one.id}"])
    await world.read()
    assert world.texts == {one.key: "OddError: boom"}
    reads = len(world.ray.read)
    world.show(seen(actors=(replace(one, restarts=4),), findings=(loop,)))
    await world.read()
    assert (len(world.ray.read), world.texts) == (reads, {one.key: "OddError: boom"})
    world.poller.now += AGAIN_AFTER_S
    await world.read()
    assert len(world.ray.read) > reads


CHECK = 'INFO: 10:{minute:02}:{second:02} 127.0.0.1 - "GET /health HTTP/1.1" 200 OK'


async def test_the_log_of_a_running_job_without_work_on_its_gpus_is_read_after_two_minutes_and_what_it_repeats_is_told():
    job = Job("ppo", "02000000", "ppo", "RUNNING", driver_node=NODE1, started=NOW - 900)
    idle = node(1, gpus=(gpu(0, utilization=0.0),))
    there = seen(job, nodes=(idle,), hosts={}, processes=(process(7, node=NODE1, job="02000000", gpus=(Hold(0, 1),)),))
    world = World()
    checks = [CHECK.format(minute=second // 60, second=second % 60) for second in range(0, 1800, 5)]
    world.put("job-driver-ppo.log", [*TRACE, *checks])
    world.show(there)
    await world.read()
    assert world.ray.read == []
    world.poller.now += STILL_FOR_S + 60
    await world.read()
    (found,) = world.poller.failures
    assert (found.about, found.moment, found.text) == ("job:ppo", None, "OddError: boom")
    assert "GET /health" in (found.repeats or "")
    assert found.repeats_since == world.poller.now - 1795


async def test_a_job_whose_gpus_work_is_not_read():
    job = Job("ppo", "02000000", "ppo", "RUNNING", driver_node=NODE1, started=NOW - 900)
    busy = node(1, gpus=(gpu(0, utilization=60.0),))
    there = seen(job, nodes=(busy,), hosts={}, processes=(process(7, node=NODE1, job="02000000", gpus=(Hold(0, 1),)),))
    world = World()
    for _ in range(10):
        world.show(there)
        await world.read()
        world.poller.now += 60
    assert world.ray.read == []


async def test_a_single_look_waits_for_the_answer_but_not_for_ever():
    world = World(failed())
    await world.reader.read_once(30.0)
    assert world.texts == {"job:ppo": "OddError: boom"}
    slow = World(failed())
    slow.ray.gate = asyncio.Event()
    await slow.reader.read_once(0.01)
    assert slow.poller.failures == ()


async def test_if_the_last_lines_are_too_long_fewer_of_them_are_asked_for():
    asked: list[int] = []

    async def end(lines: int, most_bytes: int) -> list[str]:
        asked.append(lines)
        if lines > FEW_LINES:
            raise SourceError("sent more than 128 MB")
        return TRACE

    async def follow(lines: int, on: bool):
        raise AssertionError
        yield

    assert await read_end(Log("x", "x.log", "", follow, read_end=end)) == TRACE
    assert asked == [20_000, FEW_LINES]


@pytest.mark.parametrize("line", ["x" * 4000, "a." * 2000, "Error: " * 500, "\x1b[31m" * 800, "(Critic pid=1) " * 200, "1 " * 2000])
async def test_a_hostile_log_of_2_mb_never_holds_the_loop_for_long(line):
    world = World(failed())
    world.put("job-driver-ppo.log", [line] * (MAX_KEPT_BYTES // len(line)))
    longest = 0.0
    reading = asyncio.ensure_future(world.read())
    while not reading.done():
        began = time.thread_time()
        await asyncio.sleep(0)
        longest = max(longest, time.thread_time() - began)
    assert longest < 0.05
