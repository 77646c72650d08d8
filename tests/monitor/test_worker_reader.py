"""Ray's own list of workers is read for nodes without a probe, seldom and of few nodes."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec.structs import replace

from cockpit.model import Cluster, Host, Job, ListedWorkers, Process, Snapshot, Worker
from cockpit.monitor.source_answers import Parts
from cockpit.monitor.worker_reader import ASK_EVERY_S, MAX_NODES, MAX_WORKERS, NODE_EVERY_S, WorkerReader
from cockpit.phases.tracker import LISTED_STALE_S
from cockpit.sources.ray.client import NodeFacts
from cockpit.sources.source import SourceError
from tests.world import NOW, actor, node, process, snapshot


def job(number: int = 2, **more: Any) -> Job:
    return Job(f"job{number}", f"{number:02}000000", f"job{number}", more.pop("status", "RUNNING"), **more)


def workers(node_number: int, count: int = 4, of: int = 2) -> list[Worker]:
    place = node(node_number).id or ""
    return [Worker(place, 100 * node_number + each, f"{of:02}000000", f"{node_number:02}{each:030}") for each in range(count)]


class Poller:
    """Stands where the poller does."""

    def __init__(self) -> None:
        self.now, self.snapshot, self.parts = NOW, Snapshot(), Parts()
        self.listed: tuple[ListedWorkers, ...] = ()

    def clock(self) -> float:
        return self.now

    def set_listed_workers(self, listed: tuple[ListedWorkers, ...]) -> None:
        self.listed = listed


class World:
    """A cluster whose nodes have no probes, but for those in `probed`."""

    def __init__(self, *placed: Worker, jobs: tuple[Job, ...] = (job(),), probed: tuple[int, ...] = ()) -> None:
        self.poller, self.asked = Poller(), []
        self.placed, self.jobs, self.probed = placed, jobs, probed
        self.session, self.error = "session_a", None
        self.classes: dict[str, str] = {}
        """Of the actors on a node, by its number."""
        self.reader = WorkerReader(self.poller, self._read)  # type: ignore[arg-type]  # all that it uses of it

    async def _read(self, node_id: str) -> tuple[Process, ...]:
        self.asked.append((self.poller.now - NOW, node_id.lstrip("0")))
        if self.error is not None:
            raise self.error
        found = [process(one.pid, job=one.job, command="ray::WorkerDict.actor_rollout_generate_sequences") for one in self.placed]
        return (
            *(replace(one, kind="worker", node=node_id) for one in found),
            process(9, job="02000000", command="python train.py", kind="driver"),
            process(8, job=None, command="ray::DashboardAgent", kind="ray"),
        )

    async def pass_time(self, seconds: float = 0.0) -> None:
        self.poller.now += seconds
        names = [f"node{number}" for number in self.probed]
        hosts = {name: Host(name, (), self.poller.now, processes=(), nodes=(node(int(name[4:])).id or "",)) for name in names}
        nodes = tuple(node(number, probed=number in self.probed) for number in range(1, 9))
        self.poller.parts = Parts(nodes=NodeFacts(nodes, tuple(self.placed), ()))
        classes = ((worker, self.classes.get((worker.actor or "")[:2], "Actor")) for worker in self.placed)
        facts: dict[str, Any] = {
            "taken": self.poller.now,
            "cluster": Cluster("http://h", "2.60.0", self.session),
            "actors": tuple(actor(0, id=worker.actor, class_=name) for worker, name in classes),
        }
        self.poller.snapshot = snapshot(**facts, jobs=self.jobs, nodes=nodes, hosts=hosts, processes=())
        self.reader.on_snapshot(self.poller.snapshot)
        if self.reader._reading._task is not None:
            await asyncio.wait([self.reader._reading._task], timeout=10)


async def test_of_a_running_job_the_node_with_most_of_its_workers_is_read():
    world = World(*workers(2, 2), *workers(3, 6))
    await world.pass_time()
    assert world.asked == [(0.0, "3")]
    (listed,) = world.poller.listed
    assert (listed.node, listed.read, {worker.kind for worker in listed.workers}) == (node(3).id, NOW, {"worker"})


async def test_a_job_whose_workers_are_all_seen_by_probes_needs_no_list():
    world = World(*workers(1), *workers(2), probed=(1, 2))
    world.classes = {"01": "WorkerDict", "02": "WorkerDict"}
    await world.pass_time()
    assert world.asked == []


async def test_of_a_job_that_probes_see_in_part_a_node_without_a_probe_is_read():
    world = World(*workers(1), *workers(2), probed=(1,))
    world.classes = {"01": "WorkerDict", "02": "WorkerDict"}
    await world.pass_time()
    assert world.asked == [(0.0, "2")]


async def test_a_trainer_on_a_probed_head_does_not_show_what_the_job_does():
    world = World(*workers(1, 1), *workers(2, 9), *workers(3, 4), probed=(1,))
    world.classes = {"01": "TaskRunner", "02": "Reward", "03": "WorkerDict"}
    await world.pass_time()
    assert world.asked == [(0.0, "3")], "more workers are on node 2, but those of node 3 show the phase"


async def test_nodes_without_workers_of_running_jobs_are_not_read():
    for jobs in ((), (job(status="SUCCEEDED"),), (job(3),)):
        world = World(*workers(2), jobs=jobs)
        await world.pass_time()
        assert world.asked == []


async def test_each_node_is_read_every_45_seconds_and_ray_is_asked_four_times_a_minute():
    world = World(*workers(2))
    for _ in range(120):
        await world.pass_time(1.0)
    assert [moment for moment, _ in world.asked] == [1.0 + NODE_EVERY_S * number for number in range(3)]
    world = World(*(worker for number in range(2, 8) for worker in workers(number, of=number)), jobs=tuple(map(job, range(2, 8))))
    for _ in range(120):
        await world.pass_time(1.0)
    assert [moment for moment, _ in world.asked] == [1.0 + ASK_EVERY_S * number for number in range(8)]
    assert len({place for _, place in world.asked}) == MAX_NODES
    assert len(world.poller.listed) == MAX_NODES


async def test_a_node_with_too_many_workers_is_not_read():
    world = World(*workers(2, MAX_WORKERS + 1))
    await world.pass_time()
    assert world.asked == []


async def test_a_list_that_fails_leaves_the_one_before_for_a_minute():
    world = World(*workers(2))
    await world.pass_time()
    world.error = SourceError("no")
    await world.pass_time(NODE_EVERY_S)
    assert [listed.read for listed in world.poller.listed] == [NOW]
    assert len(world.asked) == 2
    await world.pass_time(LISTED_STALE_S - NODE_EVERY_S + 1)
    assert world.poller.listed == (), "its titles would be drawn as those of now"


async def test_what_no_longer_matters_is_forgotten():
    world = World(*workers(2))
    await world.pass_time()
    world.jobs = ()
    await world.pass_time(ASK_EVERY_S)
    assert world.poller.listed == ()


async def test_another_session_forgets_the_lists():
    world = World(*workers(2))
    await world.pass_time()
    world.session, world.error = "session_b", SourceError("no")
    await world.pass_time(1.0)
    assert world.poller.listed == ()
