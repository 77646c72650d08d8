"""Finds the inference engines of running jobs at the metrics endpoints of nodes, in samples of probes, and among processes."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from cockpit.model import Engine, Host, HostEngine, Node, Process, Snapshot, Worker
from cockpit.monitor.poller import ENGINES_SOURCE, Poller
from cockpit.monitor.reading import Reading
from cockpit.probe.engine_metrics import EngineReading
from cockpit.secrets import redact
from cockpit.sources.ray.client import NodeFacts
from cockpit.sources.ray.node_metrics import does_reading_disturb
from cockpit.sources.source import SourceError
from cockpit.text import clean, join_first

ENGINES_EVERY_S: Final = 10.0
"""Seconds between two requests to a node with engines. Ray's workers report as often (metrics_report_interval_ms)."""
LOOK_EVERY_S: Final = 60.0
"""Seconds between two requests to a node without engines, if it has workers of a running job."""
RETRY_EVERY_S: Final = 300.0
"""Seconds between two requests to a node that has never answered. Often a firewall allows only Ray's own ports."""
MAX_LOOKS: Final = 4
MAX_READINGS: Final = 64
"""At most so many nodes without engines (`MAX_LOOKS`) and with engines (`MAX_READINGS`) are asked in one round; the others wait.
Rounds are at least two seconds apart."""
AT_ONCE: Final = 8
MAX_ENGINES: Final = 4096
"""So many engines are kept; others are left out. A job may report any number of them."""
MAX_OF_PROCESS: Final = 128
"""So many engines of one process are kept. Otherwise a process with new names in each answer would leave no room for others."""
SAME_S: Final = 1.0
"""The time of one answer may differ by so many seconds between two samples of a probe, because each sample compares two clocks again."""
WINDOW_S: Final = 60.0
"""Rates of tokens and preemptions are computed over so many seconds."""
MIN_WINDOW_S: Final = 5.0
KEPT_S: Final = 18.0
"""Ray (2.57 and later) drops a gauge 20 s after its worker has last set it. vLLM sets no gauge while it has nothing to compute. So the
last number is still true after it was dropped, if it was read at most `KEPT_S` ago."""
CORE_TITLES: Final = (("VLLM::EngineCore", "vllm"), ("sglang::scheduler", "sglang"))
"""Beginnings of the titles of processes in which engines compute, and the software."""
CORE_BEGINNINGS: Final = tuple(title for title, _ in CORE_TITLES)
Read = Callable[[str, int], Awaitable[Sequence[EngineReading]]]
NUMBERS = ("running", "waiting", "kv_cache")


class _Endpoint(msgspec.Struct):
    """The metrics endpoint of a node."""

    asked: float = -LOOK_EVERY_S
    answered: float | None = None
    failing: float | None = None
    why: str = ""
    has_engines: bool = False

    def is_due(self, now: float) -> bool:
        """Whether it is time to ask again."""
        is_unknown = self.answered is None and self.failing is not None
        pause = ENGINES_EVERY_S if self.has_engines else RETRY_EVERY_S if is_unknown else LOOK_EVERY_S
        return now - self.asked >= pause


class _Owner(msgspec.Struct, frozen=True):
    """The process to which an engine belongs: the worker of its actor, or its server."""

    node: str | None
    pid: int
    """The pid that Ray reports: in a container, the pid inside."""
    job: str | None
    actor: str | None

    @property
    def id(self) -> tuple[str | None, int]:
        """The node and the pid, which identify it while it runs."""
        return self.node, self.pid


class _Cores(msgspec.Struct):
    """The processes in which the engines of one owner compute. `gone`: since when there are none."""

    owner: _Owner
    software: str
    gone: float | None = None


class _Listing(msgspec.Struct, frozen=True):
    """The workers and engine processes of running jobs, from Ray and probes. It is made again only after a new answer."""

    facts: NodeFacts | None
    processes: Sequence[Process] | None
    running: frozenset[str]
    nodes: frozenset[str]
    """The nodes with workers of running jobs."""
    living: frozenset[tuple[str | None, int]]
    """The node and the pid of each worker, and of each other process on hosts with a probe."""
    seen: frozenset[tuple[str | None, int]]
    """Those of them that probes see. For the others it is unknown whether the processes of their engine run."""
    cores: Sequence[tuple[_Owner, str]]
    """For each process in which an engine computes: its owner and its software."""


class EngineReader:
    """Asks a limited number of nodes in the background, and forgets engines whose process has ended.

    An answer counts only for workers that Ray lists on that node: another host may have its address.
    """

    def __init__(self, poller: Poller, read: Read) -> None:
        self._poller, self._read = poller, read
        self._session: str | None = None
        self._endpoints: dict[str, _Endpoint] = {}
        self._engines: dict[str, Engine] = {}
        """By key: the engines that nodes and servers have reported."""
        self._numbers: Counter[tuple[str | None, int | None]] = Counter()
        """By node and pid: how many of these engines belong to the process."""
        self._counts: dict[str, deque[tuple[float, float | None, float | None]]] = {}
        """By key, for the last minute: when counters were read, and the numbers of tokens and preemptions."""
        self._cores: dict[tuple[str | None, int], _Cores] = {}
        self._listing: _Listing | None = None
        self._last_answer: float | None = None
        self._samples: dict[str, float] = {}
        """By host: the time of the last sample that was used."""
        self._reading = Reading()

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Take over the samples of probes, forget ended engines, and ask the nodes that are due."""
        session = snapshot.cluster.session
        is_another = session is not None and self._session is not None and session != self._session
        if snapshot.jobs is None or snapshot.nodes is None or is_another:
            self._forget()
        self._session = session or self._session
        if snapshot.jobs is None or snapshot.nodes is None:
            return
        running = frozenset(job.job for job in snapshot.jobs if job.running and job.job)
        facts = self._poller.parts.nodes
        if (
            self._listing is None
            or facts is not self._listing.facts
            or snapshot.processes is not self._listing.processes
            or running != self._listing.running
        ):
            self._listing = _make_listing(facts, snapshot.processes, running)
        listing = self._listing
        self._take_samples(snapshot, running)
        self._watch_cores(listing)
        for key in [key for key, engine in self._engines.items() if (engine.node, engine.pid) not in listing.living]:
            gone = self._engines.pop(key)
            self._numbers.pop((gone.node, gone.pid), None)
            self._counts.pop(key, None)
        self._endpoints = {node: endpoint for node, endpoint in self._endpoints.items() if node in listing.nodes}
        self._report_failures()
        self._publish(snapshot, is_any_running=bool(running))
        due = self._due(snapshot, listing.nodes)
        if due and not self._reading.is_running:
            self._reading.start(self._read_nodes(due))

    async def read_once(self, patience: float) -> None:
        """Ask the nodes of the newest snapshot; give up after `patience` seconds."""
        self.on_snapshot(self._poller.snapshot)
        await self._reading.finish(patience)

    def close(self) -> None:
        """Stop reading."""
        self._reading.cancel()

    def _forget(self) -> None:
        """Forget all engines: another cluster is watched, or none."""
        self.close()
        self._session, self._last_answer, self._listing = None, None, None
        for kept in (self._endpoints, self._engines, self._numbers, self._counts, self._cores, self._samples):
            kept.clear()
        self._poller.set_engines(None, None)
        self._poller.clear_fault(ENGINES_SOURCE)

    def _due(self, snapshot: Snapshot, with_work: Collection[str]) -> list[tuple[Node, int]]:
        """The nodes to ask now, with their ports. Nodes with engines come first, then those that have waited longest."""
        facts = self._poller.parts.nodes
        if facts is None or does_reading_disturb(snapshot.cluster.ray_version):
            return []
        now = self._poller.clock()
        nodes = {node.id: node for node in snapshot.nodes or () if node.state == "ALIVE" and node.ip and node.id in facts.metrics_ports}
        asked = [(node, self._endpoints.setdefault(node, _Endpoint())) for node in with_work if node in nodes]
        due = sorted((each for each in asked if each[1].is_due(now)), key=lambda each: each[1].asked)
        with_engines = [node for node, endpoint in due if endpoint.has_engines][:MAX_READINGS]
        others = [node for node, endpoint in due if not endpoint.has_engines][:MAX_LOOKS]
        return [(nodes[node], facts.metrics_ports[node]) for node in (*with_engines, *others)]

    async def _read_nodes(self, due: Sequence[tuple[Node, int]]) -> None:
        free = asyncio.Semaphore(AT_ONCE)

        async def read(node: Node, port: int) -> None:
            async with free:
                await self._read_node(node, port)

        session = self._session
        await asyncio.gather(*(read(node, port) for node, port in due))
        if session == self._session:
            self._last_answer = self._poller.clock()
            self._report_failures()
            self._publish(self._poller.snapshot, is_any_running=True)

    async def _read_node(self, node: Node, port: int) -> None:
        """Ask one node. If it does not answer, its engines keep their last numbers."""
        if node.id is None or (endpoint := self._endpoints.get(node.id)) is None:
            return
        endpoint.asked, session = self._poller.clock(), self._session
        try:
            readings = await self._read(node.ip, port)
        except SourceError as error:
            if session == self._session:
                endpoint.failing, endpoint.why = endpoint.failing or self._poller.clock(), str(error)
                for key, engine in self._engines.items():
                    if engine.node == node.id and engine.by == "node":
                        self._engines[key] = replace(engine, unanswered=endpoint.failing, why=endpoint.why)
            return
        if session != self._session:
            return
        now = self._poller.clock()
        endpoint.answered, endpoint.failing = now, None
        # Ray lists a new worker only after up to half a minute.
        endpoint.has_engines = any(reading.worker for reading in readings)
        facts = self._poller.parts.nodes
        workers: Mapping[str | None, Worker] = {
            worker.id: worker for worker in (facts.workers if facts else ()) if worker.node == node.id and worker.id
        }
        for reading in readings:
            worker = workers.get(reading.worker)
            if worker is None or worker.job is None:
                continue
            engine = Engine(
                software=reading.software,
                number=reading.number,
                model=_redact_model(reading.model),
                node=node.id,
                pid=worker.pid,
                worker=worker.id,
                job=worker.job,
                actor=worker.actor,
                by="node",
            )
            self._take(engine, reading, now)

    def _report_failures(self) -> None:
        """Report nodes that have stopped answering. A node that has never answered is no fault: many clusters close these ports."""
        nodes = {engine.node for engine in self._engines.values() if engine.by == "node"}
        failing = {node: endpoint for node, endpoint in self._endpoints.items() if node in nodes and endpoint.failing is not None}
        if failing:
            titles = self._poller.snapshot.index.titles
            texts = [f"{titles.of_host(node)}: {endpoint.why}" for node, endpoint in failing.items()]
            self._poller.report_fault(ENGINES_SOURCE, join_first(texts, 2))
        else:
            self._poller.clear_fault(ENGINES_SOURCE)

    def _take_samples(self, snapshot: Snapshot, running: frozenset[str]) -> None:
        """Take over what the servers of engines have answered to the probes of their hosts."""
        for host in snapshot.hosts.values():
            at = host.observed_at("engines")
            if host.engines is None or at is None or at - self._samples.get(host.name, 0.0) < SAME_S:
                continue
            self._samples[host.name] = at
            self._last_answer = max(self._last_answer or at, at)
            processes = {process.pid: process for process in snapshot.index.processes_by_host.get(host.name, ())}
            for found in host.engines:
                process = processes.get(found.pid)
                if process is not None and process.job in running:
                    self._take_server(found, process, host, at)

    def _take_server(self, found: HostEngine, process: Process, host: Host, at: float) -> None:
        engine = Engine(
            software=found.software,
            number=found.number,
            model=_redact_model(found.model),
            node=process.node,
            pid=process.ns_pid or process.pid,
            job=process.job,
            actor=process.actor,
            by="server",
            port=found.port,
        )
        if found.error is None:
            self._take(engine, found, at)
        elif (known := self._engines.get(engine.key)) is not None:
            why = f"{host.name}: {clean(found.error)}"
            self._engines[engine.key] = replace(known, unanswered=known.unanswered or at, why=why)

    def _take(self, engine: Engine, reading: EngineReading | HostEngine, now: float) -> None:
        """Store the numbers that an engine has reported, with its rates of the last minute."""
        before = self._engines.get(engine.key)
        if before is None:
            process = (engine.node, engine.pid)
            if len(self._engines) >= MAX_ENGINES or self._numbers[process] >= MAX_OF_PROCESS:
                return
            self._numbers[process] += 1
        counts = self._counts.setdefault(engine.key, deque())
        if counts and any(_is_less(new, old) for new, old in zip((reading.tokens, reading.preemptions), counts[-1][1:], strict=True)):
            counts.clear()  # the engine has started again
        counts.append((now, reading.tokens, reading.preemptions))
        while now - counts[0][0] > WINDOW_S and len(counts) > 1:
            counts.popleft()
        numbers = {name: getattr(reading, name) for name in NUMBERS}
        # Ray drops a number that vLLM has not set again.
        is_dropped = engine.by == "node" and not any(value is not None for value in numbers.values())
        if is_dropped and before is not None and before.read is not None and now - before.read <= KEPT_S:
            numbers = {name: getattr(before, name) for name in NUMBERS}
        tokens = _rate(counts, 1)
        preemptions = _rate(counts, 2)
        self._engines[engine.key] = replace(
            engine,
            running=_round(numbers["running"]),
            waiting=_round(numbers["waiting"]),
            kv_cache=numbers["kv_cache"],
            tokens_per_second=reading.throughput if tokens is None else tokens,
            preemptions_per_minute=None if preemptions is None else 60 * preemptions,
            preemptions=_round(reading.preemptions),
            read=now,
        )

    def _watch_cores(self, listing: _Listing) -> None:
        """Note when the processes of an engine were found gone although a probe still sees its owner."""
        seen = {owner.id: _Cores(owner, software) for owner, software in listing.cores}
        now = self._poller.clock()
        for key, cores in self._cores.items():
            if key not in seen and key in listing.seen:
                seen[key] = _Cores(cores.owner, cores.software, cores.gone or now)
        self._cores = seen

    def _publish(self, snapshot: Snapshot, *, is_any_running: bool) -> None:
        """Publish the engines. If a server and a node report the same engine, the server counts.

        An engine that neither of them reports is known from its processes.
        """
        served = {(engine.node, engine.actor) for engine in self._engines.values() if engine.by == "server" and engine.actor}
        # If an actor has several servers, those with running processes count.
        living_last = sorted(self._cores.values(), key=lambda cores: cores.gone is None)
        by_actor: dict[str | None, _Cores] = {cores.owner.actor: cores for cores in living_last if cores.owner.actor}
        found: list[Engine] = []
        for engine in self._engines.values():
            if engine.by == "server" or (engine.node, engine.actor) not in served:
                cores = self._cores.get((engine.node, engine.pid or 0)) or by_actor.get(engine.actor)
                found.append(engine if cores is None else replace(engine, ended=cores.gone))
        reported = {(engine.node, engine.pid) for engine in found} | {(engine.node, engine.actor) for engine in found if engine.actor}
        for cores in self._cores.values():
            owner = cores.owner
            if owner.id not in reported and (owner.node, owner.actor) not in reported:
                found.append(
                    Engine(
                        software=cores.software,
                        node=owner.node,
                        pid=owner.pid,
                        job=owner.job,
                        actor=owner.actor,
                        by="processes",
                        ended=cores.gone,
                    )
                )
        is_known = bool(found) or self._last_answer is not None or not is_any_running
        # Without reported numbers, everything about engines comes from the snapshot itself.
        last_answer = self._last_answer if self._engines else snapshot.taken if is_known else None
        self._poller.set_engines(tuple(sorted(found, key=lambda engine: engine.key)) if is_known else None, last_answer)


def _make_listing(facts: NodeFacts | None, processes: Sequence[Process] | None, running: frozenset[str]) -> _Listing:
    workers = [worker for worker in (facts.workers if facts else ()) if worker.job in running and not worker.driver]
    alive = [process for process in processes or () if process.job in running and process.state not in ("Z", "X")]
    cores: list[tuple[_Owner, str]] = []
    if computing := [process for process in alive if (process.command or "").startswith(CORE_BEGINNINGS)]:
        by_pid = {(process.host, process.pid): process for process in alive}
        by_actor: dict[tuple[str, str | None], Process] = {
            (process.host, process.actor): process for process in alive if process.actor and process.kind == "worker"
        }
        for process in computing:
            owner = by_actor.get((process.host, process.actor)) or by_pid.get((process.host, process.parent or 0))
            if owner is not None:
                software = next(software for title, software in CORE_TITLES if (process.command or "").startswith(title))
                cores.append((_owner(owner), software))
    seen = {(process.node, process.ns_pid or process.pid) for process in alive if process.ticks is not None}
    living = {(worker.node, worker.pid) for worker in workers} | {(process.node, process.ns_pid or process.pid) for process in alive}
    return _Listing(facts, processes, running, frozenset(worker.node for worker in workers), frozenset(living), frozenset(seen), cores)


def _owner(process: Process) -> _Owner:
    return _Owner(process.node, process.ns_pid or process.pid, process.job, process.actor)


def _is_less(new: float | None, old: float | None) -> bool:
    return new is not None and old is not None and new < old


def _rate(counts: Sequence[tuple[float, float | None, float | None]], which: int) -> float | None:
    """The growth of a counter per second, from its first to its last reading; `None`: too few readings."""
    known = [(count[0], value) for count in counts if (value := count[which]) is not None]
    if not known or known[-1][0] != counts[-1][0] or known[-1][0] - known[0][0] < MIN_WINDOW_S:
        return None
    return (known[-1][1] - known[0][1]) / (known[-1][0] - known[0][0])


def _round(value: float | None) -> int | None:
    return None if value is None else round(value)


def _redact_model(name: str | None) -> str | None:
    return redact(name) if name else None
