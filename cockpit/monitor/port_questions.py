"""Asks the probes of hosts who listens on the ports that failed jobs wanted, as long as there is a finding about them."""

from __future__ import annotations

from contextlib import suppress

from cockpit.findings.ports import WantedPort, find_wanted_port, last_failures
from cockpit.model import Listener, Port, Snapshot
from cockpit.monitor.poller import Poller
from cockpit.monitor.reading import Reading
from cockpit.sources.probes.decode import convert_answer, redact_listener
from cockpit.sources.probes.pool import ProbePool
from cockpit.sources.source import SourceError

ASK_EVERY_S = 60.0
"""Seconds between two requests for one port: each starts a program on its host."""
MAX_PORTS = 4


class PortQuestions:
    """Asks only hosts that are probed anyway, one after the other."""

    def __init__(self, poller: Poller, pool: ProbePool, failed_s: float) -> None:
        """`failed_s`: for how many seconds there is a finding about a failed job."""
        self._poller, self._pool, self._failed_s = poller, pool, failed_s
        self._answers: dict[WantedPort, Port] = {}
        self._due: dict[WantedPort, float] = {}
        self._asking = Reading()

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Forget ports that are no longer wanted, and ask for those that are due."""
        if snapshot.jobs is None:
            return
        found = (find_wanted_port(job, snapshot) for job in last_failures(snapshot.jobs, snapshot.taken, self._failed_s))
        wanted = tuple(dict.fromkeys(filter(None, found)))[:MAX_PORTS]
        self._answers = {port: answer for port, answer in self._answers.items() if port in wanted}
        self._due = {port: due for port, due in self._due.items() if port in wanted}
        self._poller.set_ports(tuple(self._answers.values()))
        due = [port for port in wanted if self._due.get(port, 0.0) <= self._poller.clock()]
        if due and not self._asking.is_running:
            self._asking.start(self._ask(due))

    async def ask_once(self, patience: float) -> None:
        """Ask for all ports of the newest snapshot, but at most `patience` seconds."""
        self.on_snapshot(self._poller.snapshot)
        await self._asking.finish(patience)

    async def _ask(self, due: list[WantedPort]) -> None:
        for port in due:
            self._due[port] = self._poller.clock() + ASK_EVERY_S
            answer = None
            with suppress(SourceError):  # without an answer the finding says how to find out
                raw = await self._pool.ask(port.host, ("port", str(port.port)))
                answer = convert_answer(raw, "listeners", tuple[Listener, ...], port.host)
            self._answers.pop(port, None)
            if answer is not None:
                self._answers[port] = Port(port.host, port.port, tuple(map(redact_listener, answer)))
        self._poller.set_ports(tuple(self._answers.values()))
