"""Reads, in the background, Ray's list of the workers of a node without a probe, for what running jobs do there."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from cockpit.config.thresholds import STALE_AFTER_S
from cockpit.model import ListedWorkers, Process, Snapshot
from cockpit.monitor.poller import Poller
from cockpit.monitor.reading import Reading
from cockpit.phases.methods import shows_phases
from cockpit.phases.titles import read_title
from cockpit.phases.tracker import LISTED_STALE_S
from cockpit.sources.source import SourceError, wait_within

ASK_EVERY_S: Final = 15.0
"""Seconds between two requests, for all nodes together."""
NODE_EVERY_S: Final = 45.0
"""Seconds between two requests for one node: Ray's list changes every 15 s."""
MAX_NODES: Final = 3
"""At most so many nodes are read, in turn: for each job the node with most of its workers. Workers of a job mostly do the same."""
MAX_WORKERS: Final = 300
"""A node with more workers is not read: Ray sends a megabyte for each hundred of them."""
READ_TIMEOUT_S: Final = 10.0
ReadWorkers = Callable[[str], Awaitable[tuple[Process, ...]]]


class WorkerReader:
    """Asks Ray for one node at a time. A list stays until the next answer for its node, or until it is too old to show the phase."""

    def __init__(self, poller: Poller, read: ReadWorkers) -> None:
        self._poller, self._read = poller, read
        self._session: str | None = None
        self._lists: dict[str, ListedWorkers] = {}
        self._due: dict[str, float] = {}
        self._ask_at = 0.0
        self._reading = Reading()

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Forget nodes that are no longer needed, and ask for the node that has been due the longest."""
        session = snapshot.cluster.session
        if session is not None and self._session is not None and session != self._session:
            self.close()
            self._lists, self._ask_at = {}, 0.0
        self._session = session or self._session
        now = self._poller.clock()
        if now >= self._ask_at and not self._reading.is_running:
            self._ask_at = now + ASK_EVERY_S
            nodes = self._find_nodes(snapshot)  # only now, because a large cluster has thousands of workers
            self._lists = {node: listed for node, listed in self._lists.items() if node in nodes}
            self._due = {node: self._due.get(node, 0.0) for node in nodes}
            node = min(self._due, key=lambda each: self._due[each], default=None)
            if node is not None and self._due[node] <= now:
                self._due[node] = now + NODE_EVERY_S
                self._reading.start(self._ask(node))
        self._lists = {node: listed for node, listed in self._lists.items() if now - listed.read <= LISTED_STALE_S}
        self._poller.set_listed_workers(tuple(self._lists.values()))

    def close(self) -> None:
        """Stop reading."""
        self._reading.cancel()

    def _find_nodes(self, snapshot: Snapshot) -> tuple[str, ...]:
        """For each running job: the node without a probe that has most of the workers which may show its phase."""
        facts = self._poller.parts.nodes
        running = {job.job for job in snapshot.jobs or () if job.running and job.job}
        workers = [worker for worker in (facts.workers if facts else ()) if not worker.driver and worker.actor]
        sizes = Counter(worker.node for worker in workers)
        probed = {node for node in sizes if _has_probe(node, snapshot)}
        counts: dict[str, Counter[str]] = {}
        for worker in (each for each in workers if each.job in running):
            actor = snapshot.index.actors.get(worker.actor or "")
            is_telling = actor is not None and shows_phases(actor.class_)
            if worker.node not in probed and sizes[worker.node] <= MAX_WORKERS and not (actor is not None and actor.internal):
                counts.setdefault(worker.job or "", Counter())[worker.node] += 1000 if is_telling else 1
        largest = sorted(counts.values(), key=lambda count: -max(count.values()))
        return tuple(dict.fromkeys(max(sorted(count), key=lambda node: count[node]) for count in largest))[:MAX_NODES]

    async def _ask(self, node: str) -> None:
        session, found = self._session, None
        with suppress(SourceError, asyncio.TimeoutError):  # without an answer, the phase stays unknown
            found = await wait_within(READ_TIMEOUT_S, self._read(node))
        if found is None or session != self._session:
            return
        workers = [each for each in found if each.kind == "worker" and each.job and each.command and read_title(each.command)]
        self._lists[node] = ListedWorkers(node, self._poller.clock(), tuple(workers[:MAX_WORKERS]))
        self._poller.set_listed_workers(tuple(self._lists.values()))


def _has_probe(node_id: str, snapshot: Snapshot) -> bool:
    node = snapshot.index.nodes.get(node_id)
    host = snapshot.index.host_of(node) if node is not None else None
    is_fresh = host is not None and host.taken is not None and snapshot.taken - host.taken <= STALE_AFTER_S
    return host is not None and is_fresh and host.processes is not None
