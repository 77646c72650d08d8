"""Engines are read where Ray says that workers of running jobs are, as seldom as told, and never mistaken for others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from cockpit.model import Cluster, Engine, Fault, HostEngine, Job, Snapshot, Worker
from cockpit.monitor.engine_reader import ENGINES_EVERY_S, LOOK_EVERY_S, MAX_ENGINES, MAX_LOOKS, MAX_OF_PROCESS, RETRY_EVERY_S, EngineReader
from cockpit.monitor.source_answers import Parts
from cockpit.probe.engine_metrics import EngineReading
from cockpit.sources.ray.client import NodeFacts
from cockpit.sources.source import SourceError
from tests.world import NOW, node, process, snapshot

JOB = "02000000"
RUNNING = Job("raysubmit_1", job=JOB, status="RUNNING")
WORKER = Worker(node=f"{2:056x}", pid=4711, job=JOB, actor="a" * 32, id="c4" * 28)
BUSY = EngineReading("vllm", "0", "tiny", WORKER.id, running=4, waiting=8, kv_cache=0.5, tokens=1000, preemptions=0)


class Poller:
    def __init__(self, workers: Sequence[Worker] = (WORKER,), ports: dict[str, int] | None = None) -> None:
        self.now = NOW
        self.engines: tuple[Engine, ...] | None = None
        self.as_of: float | None = None
        self.fault: str | None = None
        nodes = tuple(node(number, probed=False) for number in (1, 2))
        self.parts = Parts(nodes=NodeFacts(nodes, tuple(workers), (), {f"{2:056x}": 8080} if ports is None else ports))
        self.snapshot = replace(
            snapshot(), cluster=Cluster(session="session_1", ray_version="2.60.0"), nodes=nodes, jobs=(RUNNING,), processes=(), hosts={}
        )

    def clock(self) -> float:
        return self.now

    def set_engines(self, engines: tuple[Engine, ...] | None, as_of: float | None) -> None:
        self.engines, self.as_of = engines, as_of

    def report_fault(self, source: str, text: str) -> None:
        self.fault = Fault(source, text, self.now).text

    def clear_fault(self, source: str) -> None:
        self.fault = None


class Endpoints:
    def __init__(self, *readings: EngineReading) -> None:
        self.asked: list[str] = []
        self.readings: Sequence[EngineReading] | SourceError = readings

    async def read(self, address: str, port: int) -> Sequence[EngineReading]:
        self.asked.append(f"{address}:{port}")
        if isinstance(self.readings, SourceError):
            raise self.readings
        return self.readings


def made(*readings: EngineReading, poller: Poller | None = None) -> tuple[Poller, Endpoints, EngineReader]:
    poller, endpoints = poller or Poller(), Endpoints(*readings)
    return poller, endpoints, EngineReader(poller, endpoints.read)  # type: ignore[arg-type]  # all that it uses of it


async def look(reader: EngineReader, poller: Poller, seconds: float = 0.0, **changes: object) -> None:
    poller.now += seconds
    poller.snapshot = replace(poller.snapshot, taken=poller.now, **changes)
    reader.on_snapshot(poller.snapshot)
    for _ in range(8):
        await asyncio.sleep(0)


def only(poller: Poller) -> Engine:
    assert poller.engines is not None
    (engine,) = poller.engines
    return engine


async def test_an_engine_has_its_node_job_actor_and_pid():
    poller, endpoints, reader = made(BUSY)
    await look(reader, poller)
    assert endpoints.asked == ["10.0.0.2:8080"]
    engine = only(poller)
    assert (engine.node, engine.job, engine.actor, engine.pid) == (WORKER.node, JOB, WORKER.actor, 4711)
    assert (engine.running, engine.waiting, engine.kv_cache, engine.preemptions) == (4, 8, 0.5, 0)
    assert engine.tokens_per_second is None, "one reading has no rate"
    assert poller.as_of == NOW


async def test_rates_are_those_of_the_last_minute():
    poller, endpoints, reader = made(BUSY)
    await look(reader, poller)
    for step in range(1, 13):
        endpoints.readings = (BUSY._replace(tokens=1000 + 500 * step, preemptions=float(step)),)
        await look(reader, poller, ENGINES_EVERY_S)
    engine = only(poller)
    assert engine.tokens_per_second == 50
    assert engine.preemptions_per_minute == 6
    assert len(endpoints.asked) == 13


async def test_a_process_with_new_names_in_each_answer_leaves_room_for_others():
    other = replace(WORKER, pid=4712, id="c5" * 28)
    poller, endpoints, reader = made(poller=Poller((WORKER, other)))
    for step in range(20):
        endpoints.readings = [BUSY._replace(model=f"forged {step} {number}") for number in range(256)]
        await look(reader, poller, ENGINES_EVERY_S if step else 0.0)
    endpoints.readings = (BUSY._replace(worker=other.id),)
    await look(reader, poller, ENGINES_EVERY_S)
    assert poller.engines is not None
    assert len(poller.engines) == MAX_OF_PROCESS + 1
    assert 4712 in {engine.pid for engine in poller.engines}


async def test_a_counter_that_begins_anew_has_no_rate():
    poller, endpoints, reader = made(BUSY)
    await look(reader, poller)
    endpoints.readings = (BUSY._replace(tokens=10),)
    await look(reader, poller, ENGINES_EVERY_S)
    assert only(poller).tokens_per_second is None


async def test_a_node_without_engines_is_looked_at_once_a_minute():
    poller, endpoints, reader = made()
    for _ in range(12):
        await look(reader, poller, 10.0)
    assert len(endpoints.asked) == 12 * 10 / LOOK_EVERY_S
    assert poller.engines == ()


async def test_a_node_without_workers_of_a_running_job_is_never_asked():
    poller, endpoints, reader = made(BUSY)
    await look(reader, poller, jobs=(replace(RUNNING, status="SUCCEEDED"),))
    assert endpoints.asked == []
    assert poller.engines == ()


async def test_nodes_that_never_answer_are_seldom_asked_and_no_fault():
    poller, endpoints, reader = made()
    endpoints.readings = SourceError("connection refused")
    for _ in range(int(RETRY_EVERY_S // 10)):
        await look(reader, poller, 10.0)
    assert len(endpoints.asked) == 1
    assert poller.fault is None


async def test_an_endpoint_that_falls_silent_is_a_fault_and_the_last_numbers_stay():
    poller, endpoints, reader = made(BUSY)
    await look(reader, poller)
    answered, endpoints.readings = endpoints.readings, SourceError("no whole answer within 5 s")
    await look(reader, poller, ENGINES_EVERY_S)
    await look(reader, poller, ENGINES_EVERY_S)
    engine = only(poller)
    assert (engine.running, engine.read, engine.unanswered) == (4, NOW, NOW + ENGINES_EVERY_S)
    assert poller.fault == "node2: no whole answer within 5 s"
    endpoints.readings = answered
    await look(reader, poller, ENGINES_EVERY_S)
    assert only(poller).unanswered is None
    assert poller.fault is None


async def test_a_fault_ends_with_the_job_and_what_is_known_is_of_now():
    poller, endpoints, reader = made(BUSY)
    await look(reader, poller)
    endpoints.readings = SourceError("connection refused")
    await look(reader, poller, ENGINES_EVERY_S)
    assert poller.fault is not None
    await look(reader, poller, ENGINES_EVERY_S, jobs=(replace(RUNNING, status="SUCCEEDED"),))
    assert (poller.fault, poller.engines, poller.as_of) == (None, (), poller.now)


async def test_an_engine_goes_with_its_worker_though_ray_still_has_its_numbers():
    poller, _, reader = made(BUSY)
    await look(reader, poller)
    poller.parts = replace(poller.parts, nodes=replace(poller.parts.nodes, workers=(replace(WORKER, id="d5" * 28, pid=4712),)))
    await look(reader, poller, ENGINES_EVERY_S)
    assert poller.engines == ()


async def test_a_worker_that_ray_lists_late_is_asked_for_again_soon():
    poller, endpoints, reader = made(BUSY)
    listed, poller.parts = poller.parts, replace(poller.parts, nodes=replace(poller.parts.nodes, workers=(replace(WORKER, id="d5" * 28),)))
    await look(reader, poller)
    assert poller.engines == ()
    poller.parts = listed
    await look(reader, poller, ENGINES_EVERY_S)
    assert only(poller).running == 4
    assert len(endpoints.asked) == 2


async def test_a_stranger_at_the_nodes_address_is_not_believed():
    poller, _, reader = made(BUSY._replace(worker="ff" * 28), BUSY._replace(worker=None))
    await look(reader, poller)
    assert poller.engines == ()


async def test_numbers_that_vllm_has_not_set_again_stay_while_they_must_be_true():
    poller, endpoints, reader = made(BUSY)
    await look(reader, poller)
    endpoints.readings = (BUSY._replace(running=None, waiting=None, kv_cache=None),)
    for _ in range(5):
        await look(reader, poller, 12.0)
    assert only(poller).running == 4
    await look(reader, poller, 25.0)
    assert only(poller).running is None, "it may have set a number meanwhile that nobody has read"


async def test_reading_that_would_disturb_is_left_out():
    poller, endpoints, reader = made(BUSY)
    await look(reader, poller, cluster=replace(poller.snapshot.cluster, ray_version="2.53.0"))
    assert endpoints.asked == []
    assert poller.engines is None


async def test_few_nodes_are_looked_at_in_one_round():
    nodes = tuple(node(number, probed=False) for number in range(1, 60))
    poller = Poller([replace(WORKER, node=each.id or "", id=each.id) for each in nodes], {each.id or "": 8080 for each in nodes})
    poller.snapshot = replace(poller.snapshot, nodes=nodes)
    poller, endpoints, reader = made(poller=poller)
    await look(reader, poller)
    assert len(endpoints.asked) == MAX_LOOKS
    await look(reader, poller, 2.0)
    assert len(set(endpoints.asked)) == 2 * MAX_LOOKS


async def test_another_session_forgets_everything():
    poller, endpoints, reader = made(BUSY)
    await look(reader, poller)
    endpoints.readings = ()
    await look(reader, poller, 1.0, cluster=Cluster(session="session_2", ray_version="2.60.0"))
    assert poller.engines == ()


def on_host(poller: Poller, at: float, *processes: object, engines: tuple[HostEngine, ...] | None = None) -> Snapshot:
    host = replace(snapshot().hosts["node1"], taken=at, observed={"engines": at}, engines=engines)
    return replace(poller.snapshot, hosts={"node1": host}, processes=processes)


SERVER = process(900, command="ray::vLLMHttpServer", job=JOB, actor="b" * 32)
CORE = process(901, command="VLLM::EngineCore", kind="child", parent=900, job=JOB, actor="b" * 32)


async def test_what_the_server_itself_says_counts_more_than_its_node():
    poller, _, reader = made(BUSY, poller=Poller((replace(WORKER, node=f"{1:056x}", pid=900, actor="b" * 32),), {f"{1:056x}": 8080}))
    poller.snapshot = on_host(poller, NOW, SERVER, engines=(HostEngine(pid=900, port=8000, software="vllm", number="0", running=7),))
    await look(reader, poller)
    engine = only(poller)
    assert (engine.by, engine.port, engine.running) == ("server", 8000, 7)


async def test_a_server_that_falls_silent_keeps_its_numbers():
    poller, _, reader = made()
    answer = HostEngine(pid=900, port=8000, software="vllm", number="0", running=7)
    poller.snapshot = on_host(poller, NOW, SERVER, engines=(answer,))
    await look(reader, poller)
    poller.snapshot = on_host(poller, NOW + 10, SERVER, engines=(replace(answer, running=None, error="connection refused"),))
    await look(reader, poller, 10.0)
    engine = only(poller)
    assert (engine.running, engine.unanswered, engine.why) == (7, NOW + 10, "node1: connection refused")


async def test_a_server_that_its_actor_has_started_is_the_actors_engine():
    poller, _, reader = made()
    server = process(910, command="python -m vllm.entrypoints.openai.api_server", kind="child", parent=900, job=JOB, actor="b" * 32)
    core = replace(CORE, parent=910)
    answer = HostEngine(pid=910, port=8000, software="vllm", number="0", running=7)
    poller.snapshot = on_host(poller, NOW, SERVER, server, core, engines=(answer,))
    await look(reader, poller)
    assert (only(poller).by, only(poller).pid, only(poller).ended) == ("server", 910, None)
    poller.snapshot = on_host(poller, NOW, SERVER, server, engines=(answer,))
    await look(reader, poller, 5.0)
    assert (only(poller).by, only(poller).ended) == ("server", NOW + 5)


async def test_an_engine_whose_processes_end_while_its_actor_lives_has_ended():
    poller, _, reader = made()
    poller.snapshot = on_host(poller, NOW, SERVER, CORE)
    await look(reader, poller)
    engine = only(poller)
    assert (engine.by, engine.pid, engine.ended) == ("processes", 900, None)
    poller.snapshot = on_host(poller, NOW, SERVER, replace(CORE, state="Z"))
    await look(reader, poller, 5.0)
    await look(reader, poller, 5.0)
    assert only(poller).ended == NOW + 5
    poller.snapshot = on_host(poller, NOW, SERVER, replace(CORE, pid=950))
    await look(reader, poller, 5.0)
    assert only(poller).ended is None, "it was started again"
    poller.snapshot = on_host(poller, NOW)
    await look(reader, poller, 5.0)
    assert poller.engines == (), "its actor has ended too"


async def test_an_engine_has_not_ended_because_its_host_has_no_probe_any_more():
    worker = replace(WORKER, node=f"{1:056x}", pid=900, actor="b" * 32)
    poller, _, reader = made(poller=Poller((worker,), {}))
    poller.snapshot = on_host(poller, NOW, SERVER, CORE)
    await look(reader, poller)
    assert only(poller).ended is None
    on_a_gpu = replace(SERVER, ticks=None)  # as Ray's agent reports it
    for processes in ((), (on_a_gpu,)):
        await look(reader, poller, 5.0, hosts={}, processes=processes)
        assert poller.engines in (None, ()), "Ray lists its worker, but nobody sees its processes"


async def test_very_many_engines_are_cut():
    poller, _, reader = made(
        *(BUSY._replace(number=f"{number}", worker=f"{number % 64:056x}") for number in range(2 * MAX_ENGINES)),
        poller=Poller([replace(WORKER, pid=4711 + number, id=f"{number:056x}") for number in range(64)]),
    )
    await look(reader, poller)
    assert len(poller.engines or ()) == MAX_ENGINES
