"""Asks every source again and again, each at its own pace, and publishes one Snapshot of the answers."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from cockpit.bug import bug
from cockpit.clock import CLOCK
from cockpit.config.thresholds import THREAD_MIN_NODES
from cockpit.findings import DETECTORS, FindingTracker, Limits
from cockpit.model import Allocation, Cause, Cluster, Fault, Host, OtherRay, Port, RayCluster, Snapshot
from cockpit.monitor.join import Join
from cockpit.monitor.parts import Parts
from cockpit.sources.ray.client import ActorFacts, GroupFacts, JobFacts, NodeFacts, OomFacts, StatusFacts
from cockpit.sources.ray.http import run_in_thread_if
from cockpit.sources.source import Source, SourceError, wait_for_event, wait_within
from cockpit.usage import Usage

PUBLISH_AT_LEAST_EVERY_S = 2.0
"""Seconds after which a snapshot is published though nothing was heard: ages must grow on a screen whose sources all hang."""
PUBLISH_PAUSE_S = 2.0
"""Seconds between two snapshots at the least, as `watch` and k9s have them: hosts are sampled as often, and what comes together is drawn
together."""
PUBLISH_PAUSE_PER_COST, MAX_PUBLISH_PAUSE_S = 40.0, 4.0
"""For a large cluster, whose snapshot takes a tenth of a second to make and as long to draw: the pause is so many times that, but shorter
than Ray's own between two samples, of which histories have a step each."""
STARTUP_PUBLISH_PAUSE_S = 0.05
"""The same while the first answers come in, or those that somebody has asked for: whoever waits wants to see them at once."""
AWAITED_S = 5.0
"""Seconds for which answers are published as they come after somebody has asked for them: that about a large cluster takes as long."""
FIRST_ANSWERS_S = 4.0
"""Seconds for which nothing is judged before all have answered once: what the first few say would be all that is judged for as long."""
LONGEST_BACKOFF_S = 30.0
SLEPT_AFTER_S, SETTLE_AFTER_SLEEP_S = 15.0, 10.0
"""Seconds without a snapshot after which this program itself was stopped, or its host slept; and for which nothing new is found then: what
is known is as old as that, and what nobody has watched has not lasted."""
_PARTS: Mapping[type, str] = {
    NodeFacts: "nodes", StatusFacts: "status", ActorFacts: "actors", GroupFacts: "groups", JobFacts: "jobs", OomFacts: "oom",
    Allocation: "allocation", RayCluster: "kubernetes",
}  # fmt: skip


def choose_pause(cost: float) -> float:
    """Seconds between two snapshots of a large cluster; `cost`: seconds that the last took."""
    return min(max(PUBLISH_PAUSE_S, PUBLISH_PAUSE_PER_COST * cost), MAX_PUBLISH_PAUSE_S)


class Poller:
    """Holds the last good answer of every source; one that fails keeps its last facts, and a fault says since when."""

    def __init__(
        self,
        publish: Callable[[Snapshot], None],
        *,
        expected: tuple[tuple[str, str], ...] = (),
        slurm_ids: frozenset[str] = frozenset(),
        tracker: FindingTracker | None = None,
        clock: Callable[[], float] = CLOCK,
    ) -> None:
        self.clock = clock
        self._subscribers = [publish]
        self._preparers: list[Callable[[Snapshot], None]] = []
        self.tracker = tracker or FindingTracker(Limits(), DETECTORS)
        self.usage = Usage()
        """What jobs and users have used of the GPUs since this runs."""
        self.parts = Parts(expected=expected, slurm_ids=slurm_ids)
        self.join = Join()
        self.snapshot = Snapshot()
        self.answered: set[str] = set()
        """Sources that have answered or failed at least once."""
        self._tripped: Fault | None = None
        """What no snapshot could be made for."""
        self._made_at: float | None = None
        self._settled_at, self._watched_at = 0.0, clock()
        self._making = threading.Lock()
        """Who joins and judges remembers the last time, and can't be at it twice."""
        self._changed = asyncio.Event()
        self._heard = asyncio.Event()
        self._awaited = asyncio.Event()
        self._awaited_at = -AWAITED_S
        self._wakes: dict[str, asyncio.Event] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Publish for ever: at once when something has changed, but not twice within a pause."""
        while True:
            await wait_for_event(self._changed, PUBLISH_AT_LEAST_EVERY_S)
            self._changed.clear()
            is_large, before, began = self._is_large, self.snapshot, time.monotonic()
            made = await run_in_thread_if(is_large, self._make_snapshot, self.parts)
            cost = time.monotonic() - began
            if self.snapshot is before:  # else one was made meanwhile, of what is newer
                self.snapshot = made
            for publish in self._subscribers:
                publish(self.snapshot)
            self._awaited.clear()
            await wait_for_event(self._awaited, self._choose_pause(cost, is_large=is_large))

    @property
    def _is_large(self) -> bool:
        """Whether a snapshot is made in a thread: it takes a tenth of a second, and a key that is pressed meanwhile is drawn."""
        return self.parts.nodes is not None and len(self.parts.nodes.nodes) > THREAD_MIN_NODES

    def _choose_pause(self, cost: float, *, is_large: bool) -> float:
        if not self._has_heard_all or time.monotonic() - self._awaited_at < AWAITED_S:
            return STARTUP_PUBLISH_PAUSE_S
        return choose_pause(cost) if is_large else PUBLISH_PAUSE_S

    def subscribe(self, publish: Callable[[Snapshot], None]) -> None:
        """Have this called with every snapshot too."""
        self._subscribers.append(publish)

    def prepare_with(self, look_up: Callable[[Snapshot], None]) -> None:
        """Have this called with every snapshot before it is published; of a large cluster in the thread in which it is made."""
        self._preparers.append(look_up)

    def rejoin(self) -> None:
        """A snapshot of all that is known now."""
        self.snapshot = self._make_snapshot(self.parts, at_once=True)

    def join_early(self) -> Snapshot:
        """What is known now, before the pause is over; of a large cluster what was published last."""
        if not self._is_large:
            self.snapshot = self._make_snapshot(self.parts)
        return self.snapshot

    def _make_snapshot(self, parts: Parts, *, at_once: bool = False) -> Snapshot:
        with self._making:
            try:
                now = self._notice_sleep()
                joined = self.join(parts, now)
                if at_once or (self._is_judgeable(now) and self.tracker.due(joined)):
                    self.tracker.run_detectors(joined)
                told = self.tracker.with_findings(joined)
                self.usage.add(told)
                for look_up in self._preparers:
                    look_up(told)
            except Exception as error:  # noqa: BLE001 whatever a cluster says: a screen that grows old says more than none
                return self._repeat_last(error)
            self._tripped = None
            return told

    def _is_judgeable(self, now: float) -> bool:
        """Neither just after a sleep nor, for a while, before the first answers."""
        return now >= self._settled_at and (self._has_heard_all or not 0 <= now - self._watched_at < FIRST_ANSWERS_S)

    def _notice_sleep(self) -> float:
        """The time now. After a gap, as when the host slept, findings skip the gap and wait `SETTLE_AFTER_SLEEP_S`."""
        before, self._made_at = self._made_at, self.clock()
        gap = self._made_at - (before or self._made_at)
        if gap > SLEPT_AFTER_S:
            self.tracker.skip_gap(gap)
            self._settled_at = self._made_at + SETTLE_AFTER_SLEEP_S
        return self._made_at

    def _repeat_last(self, error: Exception) -> Snapshot:
        """What was known last, as it grows old, and that it does."""
        now, before = self.clock(), tuple(fault for fault in self.snapshot.faults if fault is not self._tripped)
        since = self._tripped.since if self._tripped else now
        self._tripped = Fault("cockpit", f"{bug(error)}; nothing new is shown while this lasts", since)
        return replace(self.snapshot, taken=now, faults=(*before, self._tripped))

    @property
    def _has_heard_all(self) -> bool:
        """Whether everybody who is asked has been heard, and a host."""
        return bool(self.parts.hosts) and all(name in self.answered for name in self._wakes if _is_rays(name))

    async def change(self, patience: float) -> None:
        """Wait until something has been heard, but not longer than that."""
        heard = self._heard = asyncio.Event()
        await wait_for_event(heard, max(0.0, patience))

    async def wait_for_answer(self, source: str, patience: float) -> None:
        """Until it has answered or failed, but not longer than so many seconds; a fault says that it has not."""
        deadline = time.monotonic() + patience
        while source not in self.answered and time.monotonic() < deadline:
            await self.change(deadline - time.monotonic())
        if source not in self.answered:
            self.report_fault(source, f"{source.capitalize()} has not answered within {patience:.0f} s")

    def watch(self, sources: Iterable[Source[Any]], address: str | None = None) -> None:
        """Begin to ask the sources of a dashboard."""
        self._watched_at = self.clock()
        self.tracker.expire_findings()
        self._set(replace(self.parts, cluster=Cluster(address)))
        self.ask(sources)

    def ask(self, sources: Iterable[Source[Any]]) -> None:
        """Begin to ask, each source in its own task, so that a slow one delays no other."""
        for source in sources:
            self._wakes[source.name] = asyncio.Event()
            self._start(source)

    def _start(self, source: Source[Any]) -> None:
        task = asyncio.create_task(self._poll(source), name=source.name)
        task.add_done_callback(partial(self._handle_bug, source, self._wakes[source.name]))
        self._tasks.append(task)

    def _handle_bug(self, source: Source[Any], wake: asyncio.Event, task: asyncio.Task[None]) -> None:
        """What no `SourceError` foresaw is a bug of ours. It must be seen, and must not freeze what is shown without a word."""
        if task in self._tasks:
            self._tasks.remove(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and self._wakes.get(source.name) is wake:
            self.report_fault(source.name, bug(error))
            self.answered.add(source.name)
            asyncio.get_running_loop().call_later(LONGEST_BACKOFF_S, self._restart, source, wake)

    def _restart(self, source: Source[Any], wake: asyncio.Event) -> None:
        if self._wakes.get(source.name) is wake:
            self._start(source)

    def leave(self) -> None:
        """Stop asking Ray, and forget what it said."""
        self._cancel(_is_rays)
        self.answered = {name for name in self.answered if not _is_rays(name)}
        kept = {key: fault for key, fault in self.parts.faults.items() if not _is_rays(key[0])}
        as_of = {name: moment for name, moment in self.parts.as_of.items() if not _is_rays(name)}
        self._set(replace(self.parts.forget_ray(), cluster=Cluster(), faults=kept, as_of=as_of))
        self.tracker.forget_findings()
        self.rejoin()  # what was found of hosts holds on, while the next Ray is asked

    def stop(self) -> None:
        """Stop asking; what is known stays."""
        self._cancel(lambda _: True)

    def _cancel(self, is_meant: Callable[[str], bool]) -> None:
        for task in self._tasks:
            if is_meant(task.get_name()):
                task.cancel()
        self._tasks = [task for task in self._tasks if not is_meant(task.get_name())]
        self._wakes = {name: wake for name, wake in self._wakes.items() if not is_meant(name)}

    def tell_others(self, others: tuple[OtherRay, ...]) -> None:
        """Which other Rays there are, while nothing answers at the address."""
        if others != self.parts.cluster.others:
            self._set(replace(self.parts, cluster=replace(self.parts.cluster, others=others)))

    def refresh(self, *, is_awaited: bool = False) -> None:
        """Ask everything again now. `is_awaited`: a person waits for it, and the answers are published as they come."""
        if is_awaited:
            self._awaited_at = time.monotonic()
            self._awaited.set()
        for wake in self._wakes.values():
            wake.set()

    def update_host(self, host: Host) -> None:
        """A probe has spoken."""
        self.answered.add(f"probe:{host.name}")
        self._set(
            replace(self.parts, hosts={**self.parts.hosts, host.name: host}, as_of={**self.parts.as_of, f"probe:{host.name}": self.clock()})
        )

    def forget_host(self, host: str) -> None:
        """A host is not looked at any more: its probe's facts would only grow old."""
        self.answered.discard(f"probe:{host}")
        if host in self.parts.hosts:
            hosts = {name: value for name, value in self.parts.hosts.items() if name != host}
            as_of = {name: moment for name, moment in self.parts.as_of.items() if name != f"probe:{host}"}
            self._set(replace(self.parts, hosts=hosts, as_of=as_of))

    def tell_ports(self, ports: tuple[Port, ...]) -> None:
        """Who listens on the ports that failed jobs wanted."""
        if ports != self.parts.ports:
            self._set(replace(self.parts, ports=ports))

    def report_fault(self, source: str, text: str, host: str | None = None, cause: Cause | None = None) -> None:
        """A source has failed; its last facts stay."""
        before = self.parts.faults.get((source, host))
        fault = Fault(source, text, before.since if before else self.clock(), host, cause)
        if fault != before:
            self._set(replace(self.parts, faults={**self.parts.faults, (source, host): fault}))

    def clear_fault(self, source: str, host: str | None = None) -> None:
        """A source has answered well again."""
        if (source, host) in self.parts.faults:
            self._set(replace(self.parts, faults={key: fault for key, fault in self.parts.faults.items() if key != (source, host)}))

    def _set(self, parts: Parts, *, news: bool = True) -> None:
        """What is no news is kept, but not drawn for its own sake."""
        self.parts = parts
        self._heard.set()
        if news:
            self._changed.set()

    async def _poll(self, source: Source[Any]) -> None:
        failures = 0
        wake = self._wakes[source.name]
        while self._wakes.get(source.name) is wake:
            wake.clear()
            failures = 0 if await self._ask(source) else failures + 1
            steps = 0 if source.name == "ray.identity" else min(failures, 6)  # it is cheap, and all others wait for it
            pause = min(source.pause() * 2**steps, max(LONGEST_BACKOFF_S, source.pause())) * random.uniform(1.0, 1.1)  # noqa: S311
            await wait_for_event(wake, pause)

    async def _ask(self, source: Source[Any]) -> bool:
        wake, facts = self._wakes[source.name], None
        failure: SourceError | None = None
        try:
            facts = await wait_within(source.timeout, source.read())
        except SourceError as error:
            failure = error
        except asyncio.TimeoutError:
            failure = SourceError(f"no answer within {source.timeout:.0f} s", "silent")
        if self._wakes.get(source.name) is not wake:  # left meanwhile: it may speak of another cluster
            return False
        self.answered.add(source.name)
        if failure is not None:
            self._fail(source.name, failure)
        else:
            self._learn(source.name, facts)
            if _is_rays(source.name) and self.parts.cluster.reachable is False:
                self._wakes["ray.identity"].set()  # the dashboard answers: else it would be called lost for ten seconds more
            self.clear_fault(source.name)
        return failure is None

    def _fail(self, name: str, failure: SourceError) -> None:
        self.report_fault(name, str(failure), cause=failure.cause)
        if name == "ray.identity":
            self._set(replace(self.parts, cluster=replace(self.parts.cluster, reachable=False)))

    def _learn(self, name: str, facts: object) -> None:
        as_of = {**self.parts.as_of, name: self.clock()}
        if isinstance(facts, Cluster):
            if self.parts.cluster.reachable is False:
                self.refresh()
            known = self.parts.forget_ray() if facts.is_other_than(self.parts.cluster) else self.parts
            self._set(replace(known, cluster=facts, as_of=as_of), news=facts != self.parts.cluster)
        elif (part := _PARTS.get(type(facts))) is not None:
            is_news = facts != getattr(self.parts, part)  # else what was known stays, and with it all that was made of it
            self._set(replace(self.parts, as_of=as_of, **({part: facts} if is_news else {})), news=is_news)
        else:
            self._set(replace(self.parts, as_of=as_of), news=False)


def _is_rays(source: str) -> bool:
    return source.startswith("ray.")
