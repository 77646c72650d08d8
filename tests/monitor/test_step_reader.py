"""The last lines of running jobs' logs are read seldom, one log at a time, by a probe where there is one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cockpit.model import Activity, Cluster, Host, Job, LogSteps, Snapshot
from cockpit.monitor import step_reader
from cockpit.monitor.logs import LogFinder
from cockpit.monitor.step_reader import EVERY_S, KEPT_S, MAX_STEP_BYTES, MAX_STEP_JOBS, MAX_STEP_LINES, RAY_EVERY_S, SELDOM_S, StepReader
from cockpit.sources.source import SourceError
from tests.monitor.log_fakes import Nodes, Probes, Selection
from tests.world import NOW, node, snapshot

NODE1, NODE2 = node(1).id or "", node(2).id or ""
SESSION = "session_2026-11-21_01-17-58_164160_11638"
STEP = "step:{} - perf/time_per_step:{:.3f}"


def job(name: str = "ppo", **more: Any) -> Job:
    facts = {"job": "02000000", "submission": name, "status": "RUNNING", "started": NOW - 100, "driver_node": NODE1, "entrypoint": "x"}
    return Job(name, **{**facts, **more})


class Poller:
    """Stands where the poller does."""

    def __init__(self) -> None:
        self.now, self.snapshot = NOW, Snapshot()
        self.steps: tuple[LogSteps, ...] = ()

    def clock(self) -> float:
        return self.now

    def set_log_steps(self, steps: tuple[LogSteps, ...]) -> None:
        self.steps = steps


class CountedNodes(Nodes):
    """Files of nodes, and what was read of them."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[tuple[str, int, int]] = []
        self.at_once = self.most_at_once = 0
        self.gate: asyncio.Event | None = None

    async def read_end(self, node: str, name: str, lines: int, most_bytes: int) -> list[str]:
        self.read.append((name, lines, most_bytes))
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
    """Jobs with logs; `probed`: whether the host of their drivers has a probe."""

    def __init__(self, *jobs: Job, probed: bool = False) -> None:
        self.ray, self.probes, self.poller = CountedNodes(), Probes(), Poller()
        finder = LogFinder(lambda: self.poller.snapshot, lambda: self.ray, self.probes, Selection())  # type: ignore[arg-type,return-value]
        self.reader = StepReader(self.poller, finder)  # type: ignore[arg-type]  # all that it uses of it
        self.probed, self.wrote = probed, {each.submission or "": NOW - 1 for each in jobs}
        self.more: dict[str, Any] = {}
        self.show(*jobs)

    def show(self, *jobs: Job) -> None:
        self.jobs = jobs
        host = Host("node1", ("10.0.0.1",), self.poller.now, nodes=(NODE1,), wrote={SESSION: dict(self.wrote)})
        facts = {"cluster": Cluster("http://h", "2.60.0", SESSION), "jobs": jobs, "actors": (), "processes": (), "findings": ()}
        hosts = {"node1": host} if self.probed else {}
        self.poller.snapshot = snapshot(**{**facts, "hosts": hosts, "taken": self.poller.now, **self.more})

    def put(self, name: str, *lines: str) -> None:
        self.ray.files[NODE1][f"job-driver-{name}.log"] = [*lines]
        self.probes.answers = ({"text": "".join(f"{line}\n" for line in lines)}, {"text": "", "end": True})

    async def pass_time(self, seconds: float = 0.0) -> None:
        """So much later; all that is due is read."""
        self.poller.now += seconds
        self.show(*self.jobs)
        self.reader.on_snapshot(self.poller.snapshot)
        if self.reader._reading._task is not None:
            await asyncio.wait([self.reader._reading._task], timeout=30)
        self.reader.on_snapshot(self.poller.snapshot)

    @property
    def numbers(self) -> dict[str, int]:
        return {one.job: one.running for one in self.poller.steps}


async def test_the_step_of_a_running_job_is_read_from_the_end_of_its_log():
    world = World(job())
    world.put("ppo", STEP.format(11, 30), STEP.format(12, 40))
    await world.pass_time()
    (steps,) = world.poller.steps
    assert (steps.job, steps.read, steps.running) == ("job:ppo", NOW, 13)
    assert [(step.number, step.ended - NOW) for step in steps.ended] == [(11, -40.0), (12, 0.0)]
    assert world.ray.read == [("job-driver-ppo.log", MAX_STEP_LINES, MAX_STEP_BYTES)]


async def test_a_probe_reads_it_without_a_request_to_ray():
    world = World(job(), probed=True)
    world.put("ppo", STEP.format(12, 40))
    await world.pass_time()
    assert world.numbers == {"job:ppo": 13}
    assert world.ray.read == []
    assert world.probes.asked == [("node1", "log", SESSION, "job-driver-ppo.log", str(MAX_STEP_LINES))]
    assert world.poller.steps[0].ended[0].ended == NOW - 1, "the log was written last then"


async def test_a_probe_that_fails_is_not_replaced_by_a_request_to_ray():
    world = World(job(), probed=True)
    world.put("ppo", STEP.format(12, 40))
    world.probes.answers = ({"error": "the logs can't be read"},)
    await world.pass_time()
    assert (world.numbers, world.ray.read) == ({}, [])
    await world.pass_time(SELDOM_S - 1)
    assert len(world.probes.asked) == 1


async def test_no_probe_is_started_for_a_log_that_ray_refuses():
    world = World(job())
    world.ray.error = SourceError("no")
    await world.pass_time()
    assert world.probes.asked == []


async def test_a_log_that_has_not_grown_is_not_read_again():
    world = World(job(), probed=True)
    world.put("ppo", STEP.format(12, 40))
    for _ in range(10):
        await world.pass_time(EVERY_S)
    assert len(world.probes.asked) == 1
    assert world.poller.steps[0].read >= world.poller.now - EVERY_S, "it is known that nothing new was written"
    world.put("ppo", STEP.format(13, 40))
    world.wrote["ppo"] = world.poller.now
    await world.pass_time(EVERY_S)
    assert (len(world.probes.asked), world.numbers) == (2, {"job:ppo": 14})


async def test_a_log_is_read_every_minute_at_most_and_less_often_if_steps_are_long():
    for seconds, pause in ((20.0, EVERY_S), (360.0, 90.0), (4000.0, SELDOM_S)):
        world = World(job(), probed=True)
        world.put("ppo", STEP.format(12, seconds))
        await world.pass_time()
        world.wrote["ppo"] = NOW + 1
        await world.pass_time(pause - 1)
        assert len(world.probes.asked) == 1
        await world.pass_time(1)
        assert len(world.probes.asked) == 2


async def test_of_many_jobs_each_is_read_less_often():
    world = World(*(job(f"job{number}") for number in range(8)), probed=True)
    world.put("any", STEP.format(12, 20))
    for second in range(240):
        world.wrote = {f"job{number}": NOW + second for number in range(8)}
        await world.pass_time(1.0)
    assert len(world.probes.asked) == 8 * 2


async def test_a_log_without_steps_is_read_less_often():
    world = World(job(), probed=True)
    world.put("ppo", "Epoch 5")
    for second in range(0, 600, 5):
        world.wrote["ppo"] = NOW + second
        await world.pass_time(5)
    assert 5 <= len(world.probes.asked) <= 8
    assert world.poller.steps == ()


async def test_through_ray_one_log_is_read_in_half_a_minute():
    jobs = [job(f"job{number}") for number in range(4)]
    world = World(*jobs)
    for each in jobs:
        world.put(each.id, STEP.format(12, 40))
    for _ in range(int(RAY_EVERY_S * 8)):
        await world.pass_time(1.0)
    assert 8 <= len(world.ray.read) <= 9
    assert {name for name, _, _ in world.ray.read} == {f"job-driver-job{number}.log" for number in range(4)}, "each has its turn"
    assert world.ray.most_at_once == 1


async def test_at_most_eight_jobs_are_read_the_newest_first():
    jobs = [job(f"job{number}", started=NOW - number) for number in range(20)]
    world = World(*jobs, probed=True)
    world.put("any", STEP.format(12, 40))
    await world.pass_time()
    assert sorted(world.numbers) == sorted(f"job:job{number}" for number in range(MAX_STEP_JOBS))


@pytest.mark.parametrize("other", [job(status="SUCCEEDED"), job(submission=None), job(driver_node=None), job(driver_node="unknown")])
async def test_jobs_that_have_ended_or_have_no_log_are_not_read(other):
    world = World(other)
    world.put("ppo", STEP.format(12, 40))
    await world.pass_time()
    assert (world.poller.steps, world.ray.read) == ((), [])


async def test_a_job_that_ends_has_no_steps_any_more():
    world = World(job())
    world.put("ppo", STEP.format(12, 40))
    await world.pass_time()
    world.jobs = (job(status="SUCCEEDED"),)
    await world.pass_time(1.0)
    assert world.poller.steps == ()


async def test_what_can_no_longer_be_read_is_forgotten():
    world = World(job())
    world.put("ppo", STEP.format(12, 40))
    await world.pass_time()
    world.ray.error = SourceError("no")
    await world.pass_time(KEPT_S)
    assert world.numbers == {"job:ppo": 13}
    await world.pass_time(1)
    assert world.poller.steps == ()


async def test_what_was_forgotten_is_read_again_though_the_log_has_not_grown():
    world = World(job(), probed=True)
    world.put("ppo", STEP.format(12, 40))
    await world.pass_time()
    world.probed, world.ray.error = False, SourceError("no")
    await world.pass_time(KEPT_S + 1)
    assert world.poller.steps == ()
    world.probed = True
    await world.pass_time(SELDOM_S)
    assert world.numbers == {"job:ppo": 13}


async def test_another_session_forgets_all_and_what_is_being_read():
    world = World(job())
    world.put("ppo", STEP.format(12, 40))
    world.ray.gate = asyncio.Event()
    world.reader.on_snapshot(world.poller.snapshot)
    await asyncio.sleep(0)
    world.more = {"cluster": Cluster("http://h", "2.60.0", "session_2026-11-22_01-17-58_164160_11638"), "jobs": ()}
    world.show()
    world.reader.on_snapshot(world.poller.snapshot)
    world.ray.gate.set()
    await asyncio.sleep(0)
    assert world.poller.steps == ()


async def test_a_read_that_hangs_is_given_up(monkeypatch):
    monkeypatch.setattr(step_reader, "READ_TIMEOUT_S", 0.05)
    world = World(job())
    world.put("ppo", STEP.format(12, 40))
    world.ray.gate = asyncio.Event()
    await world.pass_time()
    assert (world.poller.steps, world.ray.at_once) == ((), 0)


async def test_after_an_error_that_nobody_expects_the_log_is_not_read_again_at_once(monkeypatch):
    world = World(job())
    world.put("ppo", STEP.format(12, 40))
    with monkeypatch.context() as patch:
        patch.setattr(step_reader, "find_steps", lambda *_: 1 // 0)
        await world.pass_time()
    assert isinstance(world.reader._reading._task.exception(), ZeroDivisionError)  # type: ignore[union-attr]
    await world.pass_time(SELDOM_S - 1)
    assert len(world.ray.read) == 1
    await world.pass_time(1)
    assert world.numbers == {"job:ppo": 13}


async def test_the_framework_of_the_titles_decides_which_lines_count():
    world = World(job())
    world.more = {"activities": (Activity("job:ppo", framework="AReaL"),)}
    world.put("ppo", STEP.format(12, 40))
    await world.pass_time()
    assert world.poller.steps == ()


async def test_a_line_about_a_phase_keeps_the_time_at_which_it_was_seen_first():
    world = World(job(), probed=True)
    world.put("ppo", "perf 4: {'perf/train_time': 3.0}", "[2026-11-28 10:00:00] Timer log_probs start")
    await world.pass_time()
    world.wrote["ppo"] = NOW + 5
    await world.pass_time(EVERY_S)
    assert [(one.phase, one.phase_seen, one.read) for one in world.poller.steps] == [("scoring", NOW, NOW + EVERY_S)]


async def test_a_single_sample_reads_once():
    world = World(job())
    world.put("ppo", STEP.format(12, 40))
    await world.reader.read_once(5.0)
    assert world.numbers == {"job:ppo": 13}
