"""Ray's dashboard as a source of facts: what to ask, how often, and what of the answers to believe. Ray 2.9 to 2.60."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar
from urllib.parse import quote

import httpx
from msgspec.structs import replace

from cockpit.clock import CLOCK, redate, shift_of
from cockpit.config.thresholds import STALE_AFTER_S
from cockpit.model import Actor, Cluster, Process
from cockpit.sources.http_client import Params
from cockpit.sources.ray import actors, oom, wire
from cockpit.sources.ray.actors import WAITING, ActorFacts, GroupFacts, JobFacts
from cockpit.sources.ray.http import Dashboard, DashboardRefusedError, run_in_thread_if
from cockpit.sources.ray.jobs import JobActs
from cockpit.sources.ray.listings import NOT_DEAD, PAUSE_PER_ANSWER_TIME, ActorLists, GroupLists
from cockpit.sources.ray.log_files import LOG_LINES, LogFiles
from cockpit.sources.ray.logs import parse_version
from cockpit.sources.ray.nodes import NodeFacts, Nodes, processes
from cockpit.sources.ray.oom import OomFacts
from cockpit.sources.ray.replies import NodeReader
from cockpit.sources.ray.status import StatusFacts, StatusReports, parse_status
from cockpit.sources.source import Source, SourceError, wait_within
from cockpit.trust import Peer, find_token

__all__ = ["ActorFacts", "GroupFacts", "JobFacts", "NodeFacts", "OomFacts", "RayClient", "StatusFacts"]

T = TypeVar("T")
MAX_LISTED = 10_000
"""The most that Ray's state API lists (RAY_MAX_LIMIT_FROM_API_SERVER)."""
THREAD_MIN_ITEMS = 200
"""Nodes or actors from which their values are made in a thread: hundredths of a second in which no key would be drawn."""
NODES_PAUSE_PER_ANSWER_TIME, LEAST_NODES_PAUSE_PER_ANSWER_TIME, LONGEST_PAUSE_S = 10, 7, 30.0
"""For so many times as long as an answer took, it is not asked for again, but not for longer than so many seconds: a dashboard that others
ask too, or that is loaded, answers slower and is then asked less. Of nodes the answers become old: they are asked for before that, where
the answer doesn't take too long."""
FRESH_S = STALE_AFTER_S - 2.0
"""Seconds after which answers about all nodes should come again, those in which they are read and drawn left out."""
GCS_PAUSE_S, GCS_QUICK_S, GCS_SLACK_S = 2.0, 0.1, 0.2
"""Seconds after which the GCS must have shown again that it lives; in which Ray wants it to answer; by which it is asked too early, rather
than that the asking begins anew for a rest."""
STATUS_WAIT_S = 3.0
"""Seconds for which a list of waiting placement groups waits for the status, which tells their strategies."""
_MEANWHILE = "another Ray session now answers at this address; cockpit follows it"


WhyNotMeant = Callable[[str | None], str | None]
"""Given the session that answers (`None`: it does not say which it is), why that is not the one that is meant; `None`: it is."""


class OtherSessionError(SourceError):
    """A Ray answers, but not the session that a person has chosen."""

    def __init__(self, text: str) -> None:
        super().__init__(text, "other session")


class RayClient:
    """One Ray cluster, asked through its dashboard. Every failure is a `SourceError`."""

    def __init__(
        self,
        address: str,
        *,
        token: Callable[[], str | None] = find_token,
        peer: Peer | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        clock: Callable[[], float] = CLOCK,
        max_bytes: int | None = None,
        why_not_meant: WhyNotMeant | None = None,
        before: str | None = None,
    ) -> None:
        """`max_bytes`: of an answer, where less than usual is enough. `before`: the session that was followed until now.

        `why_not_meant`: only one session is meant, and this says why the one that answers is another. `None`: whichever answers is meant.
        """
        self._why_not_meant = why_not_meant
        self._before, self._replaced = before, None if before is None else clock()
        self._dashboard = Dashboard(address, token=token, peer=peer, transport=transport, max_bytes=max_bytes)
        self._clock, self._shift = clock, shift_of(clock)
        self._cluster = Cluster(address=self._dashboard.shown)
        self._lost = False
        self.forget()
        meant = self._read_of_meant
        self.sources: tuple[Source[object], ...] = (
            Source("ray.identity", self.identify, every=10.0, timeout=15.0),
            Source("ray.gcs", meant(self.check_gcs), every=self._gcs_pause, timeout=8.0),
            Source("ray.nodes", meant(self.read_nodes), every=self._nodes_pause, timeout=25.0),
            Source("ray.status", meant(self.read_status), every=5.0, timeout=15.0),
            Source("ray.actors", meant(self.read_actors), every=5.0, timeout=60.0),
            Source("ray.placement_groups", meant(self.read_placement_groups), every=self._groups_pause, timeout=15.0),
            Source("ray.jobs", meant(self._read_dated_jobs), every=lambda: 5.0 if self._jobs_running else 10.0, timeout=15.0),
            Source("ray.oom", meant(self.read_kills), every=lambda: self._kills.pause(), timeout=30.0),
        )

    @property
    def address(self) -> str:
        """Where it is asked, fit to be shown."""
        return self._dashboard.shown

    def forget(self) -> None:
        """Take everything for new: what was known is of another cluster."""
        self._nodes = Nodes(self._clock)
        self._known_at: float | None = None
        self._status = StatusReports(self._clock)
        self._status_as_text = False
        self._status_told = asyncio.Event()
        """Set while nobody asks for it."""
        self._status_told.set()
        self._actors = ActorLists(self._clock)
        self._groups = GroupLists(self._clock)
        self._strategies: Mapping[actors.Shape, frozenset[str | None]] = {}
        self._jobs_running = False
        self._kills = oom.OomKills(self._clock)
        self._gcs_lost = False
        self._gcs_lived_at = 0.0

    def job_acts(self) -> JobActs:
        """The writing half of this dashboard's job API."""
        return JobActs(self._dashboard)

    async def close(self) -> None:
        """Let all connections go."""
        await self._dashboard.close()

    async def identify(self) -> Cluster:
        """Which Ray answers. When it is another one than before, everything remembered is forgotten.

        A session keeps its cluster id, and whether it wants a token, for as long as it lives. Raises `OtherSessionError`.
        """
        lost, self._lost = self._lost, True
        before = self._cluster
        auth = await self._dashboard.find_auth(known=not lost)
        version = await self._ask_version()
        self._refuse_unmeant(version)
        is_same = not lost and version.session_name is not None and version.session_name == before.session
        found = Cluster(
            address=self.address,
            ray_version=version.ray_version,
            session=version.session_name,
            cluster_id=before.cluster_id if is_same else await self._cluster_id(),
            auth=auth if is_same else await self._dashboard.find_auth(),
            reachable=True,
        )
        if found.is_other_than(before):
            self.forget()
            self._before, self._replaced = before.session, self._clock()
        if self._before == found.session:  # its dashboard has moved to another address
            self._before = self._replaced = None
        found = replace(found, before=self._before, replaced=self._replaced)
        self._cluster, self._lost = found, False
        if lost:
            self._dashboard.wake()
        return found

    async def _ask_version(self, *, decides: bool = False) -> wire.Version:
        version = await self._dashboard.find("/api/version", wire.Version, timeout=4.0, decides=decides)
        if version is None:
            server = f", server {self._dashboard.server}" if self._dashboard.server else ""
            raise SourceError(f"{self.address} is not a Ray dashboard: it reports no Ray version (HTTP 404{server})", "not ray")
        return version

    async def session(self, *, decides: bool = False) -> str | None:
        """The session that answers now. `decides`: something ends by this answer."""
        return (await self._ask_version(decides=decides)).session_name

    def _read_of_meant(self, read: Callable[[], Awaitable[T]]) -> Callable[[], Awaitable[T]]:
        """The same answer, believed only if the session that is meant still answers after it; only where one session alone is meant.

        Another Ray may have taken the port between two questions. What has answered before a session's end can't be its successor's.
        """
        if self._why_not_meant is None:
            return read

        async def read_and_check() -> T:
            answer = await read()
            await self.check_meant()
            return answer

        return read_and_check

    async def check_meant(self) -> None:
        """Raises `OtherSessionError` where only one session is meant, and another answers now; `SourceError` where none does."""
        if self._why_not_meant is not None:
            self._refuse_unmeant(await self._ask_version())

    def _refuse_unmeant(self, version: wire.Version) -> None:
        if self._why_not_meant is not None and (reason := self._why_not_meant(version.session_name)) is not None:
            raise OtherSessionError(f"{self.address}: {reason}")

    async def members(self) -> tuple[wire.NodeEntry, ...]:
        """All nodes as the GCS has them now, with what each of them offers; no agent is asked."""
        return (await self._list("nodes", wire.Listed[wire.NodeEntry])).result

    async def _cluster_id(self) -> str | None:
        try:
            return (await self._dashboard.data("/cluster_id", wire.ClusterId, timeout=4.0)).cluster_id
        except DashboardRefusedError:
            return None

    async def check_gcs(self) -> None:
        """Ray gives the GCS a tenth of a second to answer: one failure may be a hiccup, two in half a second are none.

        It isn't asked when it has just lived: every list comes from it.
        """
        if not self._gcs_lost and self._gcs_proven_for() > GCS_SLACK_S:
            return
        if not await self._gcs_answers():
            await asyncio.sleep(0.5)
            if not await self._gcs_answers():
                self._gcs_lost = True
                raise SourceError("Ray's GCS does not answer; the dashboard's data may be old", "gcs")
        if self._gcs_lost:
            self._gcs_lost = False
            self._dashboard.wake()

    async def _gcs_answers(self) -> bool:
        try:
            await self._from_gcs(self._dashboard.get("/api/gcs_healthz", timeout=3.0))
        except DashboardRefusedError as error:
            if error.status != 503:
                raise
            return False
        return True

    async def _from_gcs(self, answer: Awaitable[T]) -> T:
        """An answer that the dashboard has to fetch from the GCS: one that comes at once proves that the GCS lived when it was asked."""
        asked = self._clock()
        found = await answer
        if self._clock() - asked <= GCS_QUICK_S:
            self._gcs_lived_at = asked
        return found

    def _gcs_proven_for(self) -> float:
        """Seconds for which nobody needs to ask whether the GCS lives."""
        return self._gcs_lived_at + GCS_PAUSE_S - self._clock()

    def _gcs_pause(self) -> float:
        left = self._gcs_proven_for()
        return left if left > GCS_SLACK_S else GCS_PAUSE_S

    async def read_nodes(self) -> NodeFacts:
        """All nodes with their GPUs, workers and GPU processes, by one question.

        At the first look it is asked at the same time who they are: later that would wait until Ray has listed all actors.
        """
        nodes = self._nodes
        names = asyncio.ensure_future(self._list_names()) if self._known_at is None else None
        try:
            reader = NodeReader()
            rest = await self._dashboard.data("/nodes", wire.NodesData, timeout=12.0, params={"view": "summary"}, take=reader.take)
            data = reader.add_to(rest)
            await run_in_thread_if(len(data.summary) > THREAD_MIN_ITEMS, nodes.update, data)
            nodes.add_identities(await (names or self._list_names_if_due(nodes)))
        finally:
            if names is not None:
                names.cancel()
        facts = await run_in_thread_if(len(nodes) > THREAD_MIN_ITEMS, nodes.facts)
        if nodes is not self._nodes:
            raise SourceError(_MEANWHILE)
        return facts

    async def _list_names_if_due(self, nodes: Nodes) -> Sequence[wire.NodeEntry]:
        """Now and then, and soon when there is one that nobody knows."""
        is_due = self._known_at is None or self._clock() - self._known_at >= (10.0 if nodes.needs_identities else 60.0)
        return await self._list_names() if is_due else ()

    async def _list_names(self) -> Sequence[wire.NodeEntry]:
        """The figures don't fail with the names; they are asked for again soon."""
        self._known_at = self._clock()
        try:
            return await self.members()
        except SourceError:
            return ()

    async def read_status(self) -> StatusFacts:
        """What is handed out and what is waited for, as the autoscaler monitor counts it."""
        told = self._status_told = asyncio.Event()
        try:
            facts = await self._ask_status()
            self._strategies = actors.strategies_by_shape(facts.strategies)
            return facts
        finally:
            told.set()

    async def _ask_status(self) -> StatusFacts:
        path = "/api/cluster_status"
        if not self._status_as_text:
            data = await self._from_gcs(self._dashboard.data(path, wire.StatusData, timeout=6.0))
            self._status_as_text = data.cluster_status is None
            if data.cluster_status is not None:
                return await self._take_status(data.cluster_status, data.autoscaling_error)
        text = await self._from_gcs(self._dashboard.data(path, wire.StatusText, timeout=6.0, params={"format": 1}))
        self._status_as_text = text.cluster_status is not None
        if text.cluster_status is None:
            raise SourceError("the autoscaler has no status yet; used and pending resources are unknown")
        return parse_status(text.cluster_status)

    async def _take_status(self, status: wire.AutoscalerReport, error: str | None) -> StatusFacts:
        known = self._status
        facts = await run_in_thread_if(len(self._nodes) > THREAD_MIN_ITEMS, known.update, status, error)
        if known is not self._status:
            raise SourceError(_MEANWHILE)
        return facts

    async def read_actors(self) -> ActorFacts:
        """All actors that are not dead; those states whose lists are dear come from an earlier answer for a while."""
        known = self._actors
        if known.are_few:
            await self._list_actors(known, NOT_DEAD)
        if not known.are_few:
            for state in (*WAITING, "ALIVE"):  # the living last: an actor on its way is seen twice rather than not at all
                await self._list_actors(known, state)
        facts = await run_in_thread_if(len(known) > THREAD_MIN_ITEMS, known.facts, self._groups.groups)
        if known is not self._actors:
            raise SourceError(_MEANWHILE)
        return facts

    async def _list_actors(self, known: ActorLists, state: str) -> None:
        """Ask for one list, when it is due."""
        if known.is_due(state):
            started = time.monotonic()
            listing = await self._list("actors", wire.Listed[wire.Actor], _only_in_state(state))
            await run_in_thread_if(len(listing.result) > THREAD_MIN_ITEMS, known.update, state, listing, time.monotonic() - started)

    async def dead_actors(self) -> tuple[Actor, ...]:
        """Some of the actors that have died, each with its cause; Ray can't say which were the last."""
        listing = await self._list("actors", wire.Listed[wire.Actor], {"limit": 1000, **_only_in_state("DEAD")})
        return tuple(actors.parse_actor(entry, None, {}) for entry in listing.result)

    async def read_placement_groups(self) -> GroupFacts:
        """All placement groups but removed ones."""
        known, listing = self._groups, await self._list("placement_groups", wire.Listed[wire.Group])
        known.check_loss(listing)
        await self._strategies_for(listing.result)
        await run_in_thread_if(len(self._nodes) > THREAD_MIN_ITEMS, known.update, listing.result, self._strategies)
        if known is not self._groups:
            raise SourceError(_MEANWHILE)
        return GroupFacts(groups=tuple(known.groups.values()), complete=not listing.cut)

    async def _strategies_for(self, entries: Iterable[wire.Group]) -> None:
        """At the first look both are asked at once, and without the status nothing can be said of groups that wait."""
        if not self._strategies and any(entry.state == "PENDING" for entry in entries):
            with suppress(asyncio.TimeoutError):
                await wait_within(STATUS_WAIT_S, self._status_told.wait())

    async def read_jobs(self, *, decides: bool = False) -> JobFacts:
        """All jobs, over or not. `decides`: something ends by this answer."""
        entries = await self._from_gcs(self._dashboard.json("/api/jobs/", tuple[wire.Job, ...], timeout=10.0, decides=decides))
        jobs = tuple(job for entry in entries if (job := actors.parse_job(entry)))
        self._jobs_running = any(job.running for job in jobs)
        return JobFacts(jobs=jobs)

    async def _read_dated_jobs(self) -> JobFacts:
        """The same by our clock: Ray dates them by a wall clock."""
        facts, shift = await self.read_jobs(), self._shift()
        if not shift:
            return facts
        return JobFacts(tuple(replace(job, started=redate(job.started, shift), ended=redate(job.ended, shift)) for job in facts.jobs))

    async def read_kills(self) -> OomFacts:
        """Workers that its memory monitor has ended; Ray filters after it has cut its list, so that then its events are asked too."""
        kills, started = self._kills, time.monotonic()
        workers = await self._list("workers", wire.Listed[oom.WorkerRecord], oom.OOM_FILTER)
        events = None
        if workers.cut:
            events = await self._dashboard.data("/events", oom.RayEvents, timeout=12.0, params={"job_id": "global"})
        if kills is not self._kills:
            raise SourceError(_MEANWHILE)
        return kills.update(workers, events, time.monotonic() - started)

    async def node_processes(self, node_id: str) -> tuple[Process, ...]:
        """Ray's processes on one node, up to 35 s old."""
        path = f"/nodes/{quote(node_id, safe='', errors='replace')}"
        data = await self._dashboard.data(path, wire.DetailData, timeout=10.0, endpoint="/nodes/{id}")
        if data.detail.raylet.node_id is None:
            raise SourceError(f"Ray at {self.address} knows no node {node_id[:56]}")
        return processes(node_id, data.detail)

    async def follow_log(self, job: str, lines: int = LOG_LINES) -> AsyncIterator[list[str]]:
        """As `LogFiles.follow_job`."""
        async for batch in (await self.log_files()).follow_job(job, lines):
            yield batch

    async def log_files(self) -> LogFiles:
        """The logs that this Ray keeps."""
        await self.check_meant()
        return LogFiles(self._dashboard, parse_version(self._cluster.ray_version or (await self.identify()).ray_version))

    async def _list(self, what: str, shape: type[wire.Listed[wire.T]], params: Params | None = None) -> wire.Listing[wire.T]:
        asked = {"limit": MAX_LISTED, "detail": 1, "timeout": 6, **(params or {})}
        return (await self._from_gcs(self._dashboard.data(f"/api/v0/{what}", shape, timeout=12.0, params=asked))).result

    def _nodes_pause(self) -> float:
        """Ray samples every 5 s, and building the answer blocks its module: 1.3 s for 1,000 nodes."""
        count = len(self._nodes)
        least = 5.0 if count <= 100 else 10.0 if count <= 400 else 15.0
        took = self._dashboard.took.get("/nodes", 0.0)
        most = max(FRESH_S - 2 * took, LEAST_NODES_PAUSE_PER_ANSWER_TIME * took)
        return max(least, min(NODES_PAUSE_PER_ANSWER_TIME * took, most, LONGEST_PAUSE_S))

    def _groups_pause(self) -> float:
        least = 5.0 if any(group.pending for group in self._groups.groups.values()) else 10.0
        took = self._dashboard.took.get("/api/v0/placement_groups", 0.0)
        return max(least, min(PAUSE_PER_ANSWER_TIME * took, LONGEST_PAUSE_S))


def _only_in_state(state: str) -> dict[str, str]:
    """Ray's own filter: without `=` a list is cut before it is searched, and Ray goes through all the dead."""
    predicate, value = ("!=", "DEAD") if state == NOT_DEAD else ("=", state)
    return {"filter_keys": "state", "filter_predicates": predicate, "filter_values": value}
