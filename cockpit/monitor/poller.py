"""Polls every source at its own pace, and publishes one Snapshot of all answers."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from cockpit.config.thresholds import THREAD_MIN_NODES
from cockpit.findings import DETECTORS, FindingTracker, Limits
from cockpit.model import (
    Allocation,
    Cause,
    Cluster,
    Engine,
    Failure,
    Fault,
    Host,
    ListedWorkers,
    LogSteps,
    NcclReport,
    OtherRay,
    Port,
    RayCluster,
    Snapshot,
    StartTrouble,
)
from cockpit.monitor.join import Join
from cockpit.monitor.source_answers import Parts
from cockpit.phases import ActivityTracker
from cockpit.sources.ray.client import ActorFacts, GroupFacts, JobFacts, NodeFacts, OomFacts, StatusFacts
from cockpit.sources.ray.http import run_in_thread_if
from cockpit.sources.source import Source, SourceError, wait_for_event, wait_within
from cockpit.text.bug import bug
from cockpit.times.clock import CLOCK
from cockpit.usage import Usage

PUBLISH_AT_LEAST_EVERY_S = 2.0
"""Longest time without a new snapshot, in seconds: ages must grow on the screen even if all sources hang."""
PUBLISH_PAUSE_S = 2.0
"""Shortest time between two snapshots, in seconds, as in `watch` and k9s. Hosts are sampled as often, and answers that arrive together
are drawn together."""
PUBLISH_PAUSE_PER_COST, MAX_PUBLISH_PAUSE_S = 40.0, 4.0
"""A snapshot of a large cluster takes a tenth of a second to make and as long to draw, so the pause is this multiple of the time to make
it. The maximum is shorter than Ray's own sampling interval, which is also the step of histories."""
STARTUP_PUBLISH_PAUSE_S = 0.05
"""The pause while the first answers arrive, and after a person has asked for new ones: they want to see them at once."""
AWAITED_S = 5.0
"""How long answers are published as they arrive after a person has asked for them: a large cluster takes that long to answer."""
FIRST_ANSWERS_S = 4.0
"""Findings wait this long for all sources to answer once; else they would rest on the first few answers alone."""
LONGEST_BACKOFF_S = 30.0
SLEPT_AFTER_S, SETTLE_AFTER_SLEEP_S = 15.0, 10.0
"""After this many seconds without a snapshot, cockpit was stopped or its host slept. For the second number of seconds after that no new
finding is made: all facts are as old as the gap, and nobody watched whether a condition lasted."""
ENGINES_SOURCE = "ray.engines"
_PARTS: Mapping[type, str] = {
    NodeFacts: "nodes", StatusFacts: "status", ActorFacts: "actors", GroupFacts: "groups", JobFacts: "jobs", OomFacts: "oom",
    Allocation: "allocation", RayCluster: "kubernetes",
}  # fmt: skip


def choose_pause(cost: float) -> float:
    """Seconds between two snapshots of a large cluster; `cost`: seconds that it took to make the last."""
    return min(max(PUBLISH_PAUSE_S, PUBLISH_PAUSE_PER_COST * cost), MAX_PUBLISH_PAUSE_S)


class Poller:
    """Keeps the last good answer of every source. A source that fails keeps its last facts, and a fault states since when it fails."""

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
        """GPU usage of jobs and users since cockpit's start."""
        self.parts = Parts(expected=expected, slurm_ids=slurm_ids)
        self.join = Join()
        self._joined_hosts: Mapping[str, Host] = {}
        """The samples in the last snapshot."""
        self.activities = ActivityTracker()
        self.snapshot = Snapshot()
        self.answered: set[str] = set()
        """Sources that have answered or failed at least once."""
        self._bug: Fault | None = None
        """Why the last snapshot could not be made."""
        self._made_at: float | None = None
        self._settled_at, self._watched_at = 0.0, clock()
        self._was_whole = False
        """Whether the last snapshot had all answers. The first such snapshot is drawn without findings, because these take longer."""
        self._making = threading.Lock()
        """Join and tracker keep state, so that only one thread may use them at a time."""
        self._changed, self._progress, self._publish_now = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._awaited_at = -AWAITED_S
        self._wakes: dict[str, asyncio.Event] = {}
        """By source name: ends the pause before the next poll. A source that is no longer polled has none."""
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Publish for ever: at once when something has changed, but with a pause after each snapshot."""
        while True:
            await wait_for_event(self._changed, PUBLISH_AT_LEAST_EVERY_S)
            self._changed.clear()
            is_large, before, began = self._is_large, self.snapshot, time.monotonic()
            made = await run_in_thread_if(is_large, self._make_snapshot, self.parts)
            cost = time.monotonic() - began
            if self.snapshot is before:  # else `rejoin` has made a newer one meanwhile
                self.snapshot = made
            for publish in self._subscribers:
                publish(self.snapshot)
            is_first_whole, self._was_whole = self._have_all_answered and not self._was_whole, self._have_all_answered
            if is_first_whole:
                self._changed.set()  # its findings come with the next snapshot
            if not self._have_all_answered or is_first_whole or time.monotonic() - self._awaited_at < AWAITED_S:
                pause = STARTUP_PUBLISH_PAUSE_S
            else:
                pause = choose_pause(cost) if is_large else PUBLISH_PAUSE_S
            self._publish_now.clear()
            await wait_for_event(self._publish_now, pause)

    @property
    def _is_large(self) -> bool:
        """Whether a snapshot is made in a thread: it takes a tenth of a second, and keys are handled meanwhile."""
        return self.parts.nodes is not None and len(self.parts.nodes.nodes) > THREAD_MIN_NODES

    @property
    def _have_all_answered(self) -> bool:
        """Whether each source of Ray and at least one host have answered."""
        return bool(self.parts.hosts) and all(name in self.answered for name in self._wakes if _is_ray_source(name))

    def subscribe(self, publish: Callable[[Snapshot], None]) -> None:
        """Call this with every snapshot too."""
        self._subscribers.append(publish)

    def prepare_with(self, look_up: Callable[[Snapshot], None]) -> None:
        """Call this with every snapshot before it is published; of a large cluster in the thread that makes it."""
        self._preparers.append(look_up)

    def rejoin(self) -> None:
        """Make a snapshot of all that is known now, with findings."""
        self.snapshot = self._make_snapshot(self.parts, at_once=True)

    def join_early(self) -> Snapshot:
        """A snapshot before the pause is over; of a large cluster the one that was published last."""
        if not self._is_large:
            self.snapshot = self._make_snapshot(self.parts)
        return self.snapshot

    def _make_snapshot(self, parts: Parts, *, at_once: bool = False) -> Snapshot:
        with self._making:
            now, self._joined_hosts = self.clock(), parts.hosts
            try:
                # If the host slept, findings skip the gap, and new ones wait until facts are fresh again.
                before, self._made_at = self._made_at, now
                if before is not None and now - before > SLEPT_AFTER_S:
                    self.tracker.skip_gap(now - before)
                    self._settled_at = now + SETTLE_AFTER_SLEEP_S
                joined = self.activities.add_activities(self.join(parts, now))
                is_settled = now >= self._settled_at and (self._was_whole or not 0 <= now - self._watched_at < FIRST_ANSWERS_S)
                if at_once or (is_settled and self.tracker.due(joined)):
                    self.tracker.run_detectors(joined)
                snapshot = self.tracker.with_findings(joined)
                self.usage.add(snapshot)
                for look_up in self._preparers:
                    look_up(snapshot)
            except Exception as error:  # noqa: BLE001 any facts can trip us: an old screen that says so is better than none
                faults = tuple(fault for fault in self.snapshot.faults if fault is not self._bug)
                since = self._bug.since if self._bug else now
                self._bug = Fault("cockpit", f"{bug(error)}; nothing new is shown while this lasts", since)
                return replace(self.snapshot, taken=now, faults=(*faults, self._bug))
            self._bug = None
            return snapshot

    async def change(self, patience: float) -> None:
        """Wait until something has answered, but at most `patience` seconds."""
        progress = self._progress = asyncio.Event()
        await wait_for_event(progress, max(0.0, patience))

    async def wait_for_answer(self, source: str, patience: float) -> None:
        """Wait until a source has answered or failed. After `patience` seconds report a fault."""
        deadline = time.monotonic() + patience
        while source not in self.answered and time.monotonic() < deadline:
            await self.change(deadline - time.monotonic())
        if source not in self.answered:
            self.report_fault(source, f"{source.capitalize()} has not answered within {patience:.0f} s")

    def watch(self, sources: Iterable[Source[Any]], address: str | None = None) -> None:
        """Begin to poll the sources of a dashboard."""
        self._watched_at = self.clock()
        self.tracker.expire_findings()
        self._set(replace(self.parts, cluster=Cluster(address)))
        self.ask(sources)

    def ask(self, sources: Iterable[Source[Any]]) -> None:
        """Begin to poll, each source in its own task, so that a slow one delays no other."""
        for source in sources:
            self._wakes[source.name] = retry_now = asyncio.Event()
            self._tasks.append(asyncio.create_task(self._poll(source, retry_now), name=source.name))

    def leave(self) -> None:
        """Stop polling Ray, and forget its answers."""
        self._cancel(_is_ray_source)
        self.answered = {name for name in self.answered if not _is_ray_source(name)}
        faults = {key: fault for key, fault in self.parts.faults.items() if not _is_ray_source(key[0])}
        as_of = {name: moment for name, moment in self.parts.as_of.items() if not _is_ray_source(name)}
        self._set(replace(self.parts.forget_ray(), cluster=Cluster(), faults=faults, as_of=as_of))
        self.tracker.forget_findings()
        self.rejoin()  # findings about hosts hold on while the next Ray is polled

    def stop(self) -> None:
        """Stop polling; the facts stay."""
        self._cancel(lambda _: True)

    def _cancel(self, is_meant: Callable[[str], bool]) -> None:
        for task in self._tasks:
            if is_meant(task.get_name()):
                task.cancel()
        self._tasks = [task for task in self._tasks if not is_meant(task.get_name())]
        self._wakes = {name: retry_now for name, retry_now in self._wakes.items() if not is_meant(name)}

    def set_other_rays(self, others: tuple[OtherRay, ...]) -> None:
        """Set which other Rays live on this host; found out while nothing answers at the address."""
        if others != self.parts.cluster.others:
            self._set(replace(self.parts, cluster=replace(self.parts.cluster, others=others)))

    def refresh(self, *, is_awaited: bool = False) -> None:
        """Poll everything again now. `is_awaited`: a person waits for it, so answers are published as they arrive."""
        if is_awaited:
            self._awaited_at = time.monotonic()
            self._publish_now.set()
        for retry_now in self._wakes.values():
            retry_now.set()

    def update_host(self, host: Host) -> None:
        """Store a new sample of a host."""
        source = f"probe:{host.name}"
        self.answered.add(source)
        before = self.parts.hosts.get(host.name)
        if before is not None and self._joined_hosts.get(host.name) is not before:
            host = host.with_titles_of(before)
        hosts, as_of = {**self.parts.hosts, host.name: host}, {**self.parts.as_of, source: self.clock()}
        self._set(replace(self.parts, hosts=hosts, as_of=as_of))

    def forget_host(self, host: str) -> None:
        """Drop a host that is no longer probed: its facts would only grow old."""
        self.answered.discard(f"probe:{host}")
        if host in self.parts.hosts:
            hosts = {name: value for name, value in self.parts.hosts.items() if name != host}
            as_of = {name: moment for name, moment in self.parts.as_of.items() if name != f"probe:{host}"}
            self._set(replace(self.parts, hosts=hosts, as_of=as_of))

    def set_ports(self, ports: tuple[Port, ...]) -> None:
        """Set who listens on the ports that failed jobs wanted."""
        if ports != self.parts.ports:
            self._set(replace(self.parts, ports=ports))

    def set_nccl(self, reports: tuple[NcclReport, ...]) -> None:
        """Set what NCCL has reported about jobs."""
        if reports != self.parts.nccl:
            self._set(replace(self.parts, nccl=reports))

    def set_engines(self, engines: tuple[Engine, ...] | None, as_of: float | None) -> None:
        """Set the inference engines, as their reporters have last said at `as_of`; `None`: nobody was asked."""
        heard = {} if as_of is None else {ENGINES_SOURCE: as_of}
        is_news = engines != self.parts.engines
        if is_news or not heard.items() <= self.parts.as_of.items():
            self._set(replace(self.parts, engines=engines, as_of={**self.parts.as_of, **heard}), is_news=is_news)

    def set_failures(self, failures: tuple[Failure, ...]) -> None:
        """Set what the logs of failed jobs and restarting actors show."""
        if failures != self.parts.failures:
            self._set(replace(self.parts, failures=failures))

    def set_starts(self, starts: tuple[StartTrouble, ...]) -> None:
        """Set why actors don't start."""
        if starts != self.parts.starts:
            self._set(replace(self.parts, starts=starts))

    def set_log_steps(self, steps: tuple[LogSteps, ...]) -> None:
        """Set what the logs of running jobs say about their steps."""
        if steps != self.parts.log_steps:
            self._set(replace(self.parts, log_steps=steps))

    def set_listed_workers(self, workers: tuple[ListedWorkers, ...]) -> None:
        """Set the workers of running jobs on nodes without a probe."""
        if workers != self.parts.listed_workers:
            self._set(replace(self.parts, listed_workers=workers))

    def report_fault(self, source: str, text: str, host: str | None = None, cause: Cause | None = None) -> None:
        """Note that a source fails; its last facts stay, and so does the time of its first failure."""
        before = self.parts.faults.get((source, host))
        fault = Fault(source, text, before.since if before else self.clock(), host, cause)
        if fault != before:
            self._set(replace(self.parts, faults={**self.parts.faults, (source, host): fault}))

    def clear_fault(self, source: str, host: str | None = None) -> None:
        """Note that a source has answered again."""
        if (source, host) in self.parts.faults:
            self._set(replace(self.parts, faults={key: fault for key, fault in self.parts.faults.items() if key != (source, host)}))

    def _set(self, parts: Parts, *, is_news: bool = True) -> None:
        """Store new parts. Without news no snapshot is published for their sake."""
        self.parts = parts
        self._progress.set()
        if is_news:
            self._changed.set()

    async def _poll(self, source: Source[Any], retry_now: asyncio.Event) -> None:
        """Ask one source again and again, as long as `wake` is its own: after `leave` the name may be another cluster's."""
        failures = 0
        while self._wakes.get(source.name) is retry_now:
            retry_now.clear()
            try:
                failures = 0 if await self._ask(source, retry_now) else failures + 1
                usual = source.pause()
            except Exception as error:  # noqa: BLE001 no `SourceError`, so a bug of ours: it must be seen, and must end no polling
                if self._wakes.get(source.name) is retry_now:
                    self.report_fault(source.name, bug(error))
                    self.answered.add(source.name)
                failures = 0
                await asyncio.sleep(LONGEST_BACKOFF_S)
                continue
            doublings = 0 if source.name == "ray.identity" else min(failures, 6)  # identity is cheap, and all others wait for it
            pause = min(usual * 2**doublings, max(LONGEST_BACKOFF_S, usual))
            await wait_for_event(retry_now, pause * random.uniform(1.0, 1.1))  # noqa: S311 not all sources at once

    async def _ask(self, source: Source[Any], retry_now: asyncio.Event) -> bool:
        """Read a source once; whether it has answered."""
        facts, failure = None, None
        try:
            facts = await wait_within(source.timeout, source.read())
        except SourceError as error:
            failure = error
        except asyncio.TimeoutError:
            failure = SourceError(f"no answer within {source.timeout:.0f} s", "silent")
        if self._wakes.get(source.name) is not retry_now:  # left meanwhile: the answer may be another cluster's
            return False
        self.answered.add(source.name)
        if failure is not None:
            self.report_fault(source.name, str(failure), cause=failure.cause)
            if source.name == "ray.identity":
                self._set(replace(self.parts, cluster=replace(self.parts.cluster, reachable=False)))
            return False
        self._store(source.name, facts)
        if _is_ray_source(source.name) and self.parts.cluster.reachable is False:
            self._wakes["ray.identity"].set()  # the dashboard answers again: without this it would look lost for ten seconds more
        self.clear_fault(source.name)
        return True

    def _store(self, name: str, facts: object) -> None:
        as_of = {**self.parts.as_of, name: self.clock()}
        if isinstance(facts, Cluster):
            if self.parts.cluster.reachable is False:
                self.refresh()
            known = self.parts.forget_ray() if facts.is_other_than(self.parts.cluster) else self.parts
            self._set(replace(known, cluster=facts, as_of=as_of), is_news=facts != self.parts.cluster)
        elif (part := _PARTS.get(type(facts))) is not None:
            is_news = facts != getattr(self.parts, part)  # an equal answer keeps the old value, and everything made from it
            self._set(replace(self.parts, as_of=as_of, **({part: facts} if is_news else {})), is_news=is_news)
        else:
            self._set(replace(self.parts, as_of=as_of), is_news=False)


def _is_ray_source(source: str) -> bool:
    return source.startswith("ray.")
