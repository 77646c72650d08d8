"""Asks the probes of hosts who listens on a port that a job wanted in vain, for as long as a finding is about it."""

from __future__ import annotations

import asyncio

from cockpit.findings.ports import WantedPort, find_wanted_port, last_failures
from cockpit.model import Listener, Port, Snapshot
from cockpit.monitor.poller import Poller
from cockpit.sources.probes.decode import convert_answer, redact_listener
from cockpit.sources.probes.pool import ProbePool
from cockpit.sources.source import SourceError

ASK_EVERY_S = 60.0
"""Seconds between two questions for one port: each is a program that is started on its host."""
MAX_PORTS = 4
"""Of which one is asked at a time."""


class PortQuestions:
    """Only hosts are asked that are looked at anyway."""

    def __init__(self, poller: Poller, pool: ProbePool, told_s: float) -> None:
        """`told_s`: the seconds for which a failed job is told."""
        self._poller, self._pool, self._told_s = poller, pool, told_s
        self._answers: dict[WantedPort, Port] = {}
        self._due: dict[WantedPort, float] = {}
        self._asking: asyncio.Task[None] | None = None

    def hear(self, snapshot: Snapshot) -> None:
        """A snapshot: whatever is wanted and due is asked, one after the other."""
        if snapshot.jobs is None:
            return
        wanted = self._find_wanted(snapshot)
        self._forget_others(wanted)
        due = [one for one in wanted if self._due.get(one, 0.0) <= self._poller.clock()]
        if due and (self._asking is None or self._asking.done()):
            self._asking = asyncio.ensure_future(self._ask_all(due))

    async def ask_once(self, patience: float) -> None:
        """All that the newest snapshot wants, but not longer than so many seconds."""
        self.hear(self._poller.snapshot)
        if self._asking is not None:
            await asyncio.wait([self._asking], timeout=patience)
            self._asking.cancel()

    def _find_wanted(self, snapshot: Snapshot) -> tuple[WantedPort, ...]:
        failed = last_failures(snapshot.jobs or (), snapshot.taken, self._told_s)
        found = (find_wanted_port(job, snapshot) for job in failed)
        return tuple(dict.fromkeys(filter(None, found)))[:MAX_PORTS]

    def _forget_others(self, wanted: tuple[WantedPort, ...]) -> None:
        self._answers = {one: answer for one, answer in self._answers.items() if one in wanted}
        self._due = {one: due for one, due in self._due.items() if one in wanted}
        self._poller.set_ports(tuple(self._answers.values()))

    async def _ask_all(self, due: list[WantedPort]) -> None:
        for one in due:
            self._due[one] = self._poller.clock() + ASK_EVERY_S
            answer = await self._ask(one)
            self._answers.pop(one, None)
            if answer is not None:
                self._answers[one] = answer
        self._poller.set_ports(tuple(self._answers.values()))

    async def _ask(self, wanted: WantedPort) -> Port | None:
        """`None`: it can't be asked; the finding then says how to find out."""
        try:
            raw = await self._pool.ask(wanted.host, ("port", str(wanted.port)))
            listeners = convert_answer(raw, "listeners", tuple[Listener, ...], wanted.host)
        except SourceError:
            return None
        return Port(wanted.host, wanted.port, tuple(map(redact_listener, listeners)))
