"""Probes are asked for ports only while a finding is about them, at their own pace; without an answer nothing is known."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec.structs import replace

from cockpit.model import Job, Port, Snapshot
from cockpit.monitor.port_questions import ASK_EVERY_S, PortQuestions
from cockpit.sources.source import SourceError
from tests.world import NOW, node, snapshot

FAILED = Job(
    "raysubmit_1",
    status="FAILED",
    ended=NOW,
    message="DistNetworkError: bind to [::]:29500 (errno: 98 - Address already in use).",
    driver_node=node(1).id,
)
ANSWER: dict[str, Any] = {"listeners": [{"pid": 7, "ticks": 5, "user": "alice", "command": "serve --api-key sk-1234567890abcdef1234"}]}


class Poller:
    def __init__(self) -> None:
        self.now, self.ports, self.snapshot = NOW, (), world(FAILED)

    def clock(self) -> float:
        return self.now

    def set_ports(self, ports: tuple[Port, ...]) -> None:
        self.ports: tuple[Port, ...] = ports


class Pool:
    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.answer: dict[str, Any] | None = ANSWER

    async def ask(self, host: str, words: tuple[str, ...]) -> dict[str, Any]:
        self.asked.append((host, *words))
        if self.answer is None:
            raise SourceError("no way there")
        return self.answer


def world(*jobs: Job) -> Snapshot:
    first = snapshot()
    return replace(first, nodes=(node(1),), hosts={"node1": replace(first.hosts["node1"], nodes=(node(1).id,))}, jobs=jobs)


def made() -> tuple[Poller, Pool, PortQuestions]:
    poller, pool = Poller(), Pool()
    return poller, pool, PortQuestions(poller, pool, 3600.0)  # type: ignore[arg-type]  # all that it uses of them


async def publish(questions: PortQuestions, snapshot: Snapshot) -> None:
    questions.on_snapshot(snapshot)
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def test_the_probe_is_asked_for_a_port_once_a_minute_while_a_job_wants_it_and_secrets_are_redacted():
    poller, pool, questions = made()
    for _ in range(3):
        await publish(questions, world(FAILED))
    assert pool.asked == [("node1", "port", "29500")]
    (port,) = poller.ports
    assert (port.host, port.port, port.listeners[0].pid, port.listeners[0].user) == ("node1", 29500, 7, "alice")
    assert "sk-1234" not in str(port)
    poller.now += ASK_EVERY_S
    await publish(questions, world(FAILED))
    assert len(pool.asked) == 2
    await publish(questions, world())
    assert poller.ports == ()


async def test_no_host_is_asked_if_no_job_wanted_a_port():
    poller, pool, questions = made()
    for there in (world(), world(replace(FAILED, status="RUNNING")), world(replace(FAILED, message="CUDA out of memory"))):
        await publish(questions, there)
    await publish(questions, replace(world(), jobs=None))
    await publish(questions, replace(world(FAILED), hosts={}))
    assert (pool.asked, poller.ports) == ([], ())


async def test_a_probe_that_fails_or_sends_nonsense_gives_no_answer():
    for answer in (None, {"listeners": [{"pid": "x"}]}, {}):
        poller, pool, questions = made()
        pool.answer = answer
        await publish(questions, world(FAILED))
        assert (len(pool.asked), poller.ports) == (1, ())


async def test_a_single_status_waits_for_the_answer():
    poller, _, questions = made()
    await questions.ask_once(60.0)
    assert [port.port for port in poller.ports] == [29500]
