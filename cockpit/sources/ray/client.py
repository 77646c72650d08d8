"""Reads the facts of one Ray cluster from its dashboard, and decides how often each fact is requested. Ray 2.9 to 2.60."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar
from urllib.parse import quote

import httpx
from msgspec.structs import replace

from cockpit.config.thresholds import STALE_AFTER_S
from cockpit.model import Actor, Cluster, Process
from cockpit.sources.http_client import Params
from cockpit.sources.ray import actors, oom, wire
from cockpit.sources.ray.actors import WAITING, ActorFacts, GroupFacts, JobFacts
from cockpit.sources.ray.http import Dashboard, DashboardRefusedError, run_in_thread_if
from cockpit.sources.ray.jobs import JobActions
from cockpit.sources.ray.listings import NOT_DEAD, PAUSE_PER_ANSWER_TIME, ActorLists, GroupLists
from cockpit.sources.ray.log_files import LOG_LINES, LogFiles
from cockpit.sources.ray.logs import parse_version
from cockpit.sources.ray.nodes import NodeFacts, Nodes, processes
from cockpit.sources.ray.oom import OomFacts
from cockpit.sources.ray.replies import NodeReader
from cockpit.sources.ray.status import StatusFacts, StatusReports, parse_status
from cockpit.sources.source import Source, SourceError, wait_within
from cockpit.times.clock import CLOCK, redate, shift_of
from cockpit.trust import Peer, find_token

__all__ = ["ActorFacts", "GroupFacts", "JobFacts", "NodeFacts", "OomFacts", "RayClient", "StatusFacts"]

T = TypeVar("T")
MAX_LISTED = 10_000
"""The longest list of Ray's state API (RAY_MAX_LIMIT_FROM_API_SERVER)."""
THREAD_MIN_ITEMS = 200
"""The number of nodes or actors from which their facts are made in a thread, so that keys are handled meanwhile."""
NODES_PAUSE_PER_ANSWER_TIME, LEAST_NODES_PAUSE_PER_ANSWER_TIME, LONGEST_PAUSE_S = 10, 7, 30.0
"""The pause before the next request, as a multiple of the time of the last answer, and its limit: a dashboard that is loaded, or that
others ask too, is asked less often. Nodes are requested before the last answer becomes old, if the pause keeps the least multiple."""
FRESH_S = STALE_AFTER_S - 2.0
"""The age at which facts about nodes should be replaced. The 2 s are for decoding and drawing them."""
GCS_PROOF_S, GCS_QUICK_S = 6.0, 0.1
"""For how long an answer proves that the GCS lives, and the longest time of such an answer. Lists that prove it are read every five
seconds, so that a healthy GCS is not asked besides."""
GCS_PAUSE_S = 2.0
"""The pause between two questions to a GCS that has not proved that it lives."""
STATUS_WAIT_S = 3.0
"""The time for which a list of waiting placement groups waits for the status, which has their strategies."""
_MEANWHILE = "another Ray session now answers at this address; cockpit follows it"


WhyNotMeant = Callable[[str | None], str | None]
"""Given the name of the session that answers (`None`: unknown), returns why it is the wrong one; `None`: it is the right one."""


class OtherSessionError(SourceError):
    """A Ray answers, but its session is not the chosen one."""

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
        """`max_bytes` is the longest answer; `before` is the session that was followed until now.

        `why_not_meant` checks the session before its answers are believed; without it, every session is believed.
        """
        self._why_not_meant = why_not_meant
        self._before, self._replaced = before, None if before is None else clock()
        self._dashboard = Dashboard(address, token=token, peer=peer, transport=transport, max_bytes=max_bytes)
        self._clock, self._shift = clock, shift_of(clock)
        self._cluster = Cluster(address=self._dashboard.shown)
        self._is_lost = False
        self.forget()
        checked = self._read_and_check_session
        self.sources: tuple[Source[object], ...] = (
            Source("ray.identity", self.identify, every=10.0, timeout=15.0),
            Source("ray.gcs", checked(self.check_gcs), every=self._gcs_pause, timeout=8.0),
            Source("ray.nodes", checked(self.read_nodes), every=self._nodes_pause, timeout=25.0),
            Source("ray.status", checked(self.read_status), every=5.0, timeout=15.0),
            Source("ray.actors", checked(self.read_actors), every=5.0, timeout=60.0),
            Source("ray.placement_groups", checked(self.read_placement_groups), every=self._groups_pause, timeout=15.0),
            Source("ray.jobs", checked(self._read_dated_jobs), every=lambda: 5.0 if self._jobs_running else 10.0, timeout=15.0),
            Source("ray.oom", checked(self.read_kills), every=lambda: self._kills.pause(), timeout=30.0),
        )

    @property
    def address(self) -> str:
        """The address without secrets."""
        return self._dashboard.shown

    def forget(self) -> None:
        """Forget all facts, since they are about another cluster."""
        self._nodes = Nodes(self._clock)
        self._named_at = -math.inf
        self._reports = StatusReports(self._clock)
        self._status_is_text = False
        self._status_answered = asyncio.Event()
        """Set unless the status has been requested and not answered."""
        self._status_answered.set()
        self._actors = ActorLists(self._clock)
        self._groups = GroupLists(self._clock)
        self._strategies: Mapping[actors.Shape, frozenset[str | None]] = {}
        self._jobs_running = False
        self._kills = oom.OomKills(self._clock)
        self._is_gcs_lost = False
        self._gcs_lived_at = 0.0

    def job_actions(self) -> JobActions:
        """The actions on jobs through this dashboard."""
        return JobActions(self._dashboard)

    async def close(self) -> None:
        """Close all connections."""
        await self._dashboard.close()

    async def identify(self) -> Cluster:
        """The cluster that answers. If it is another one than before, all facts are forgotten. Raises `OtherSessionError`.

        A session never changes its cluster id, nor whether it requires a token.
        """
        was_lost, self._is_lost = self._is_lost, True
        before = self._cluster
        auth = await self._dashboard.find_auth(anew=was_lost)
        version = await self._read_version()
        self._refuse_other_session(version)
        cluster_id = before.cluster_id
        if was_lost or version.session_name is None or version.session_name != before.session:
            try:
                cluster_id = (await self._dashboard.data("/cluster_id", wire.ClusterId, timeout=4.0)).cluster_id
            except DashboardRefusedError:
                cluster_id = None
            if not was_lost and before.session is not None:
                auth = await self._dashboard.find_auth(anew=True)
        found = Cluster(
            address=self.address,
            ray_version=version.ray_version,
            session=version.session_name,
            cluster_id=cluster_id,
            auth=auth,
            reachable=True,
        )
        if found.is_other_than(before):
            self.forget()
            self._before, self._replaced = before.session, self._clock()
        if self._before == found.session:  # the dashboard of the same session has moved to another address
            self._before = self._replaced = None
        found = replace(found, before=self._before, replaced=self._replaced)
        self._cluster, self._is_lost = found, False
        if was_lost:
            self._dashboard.retry_now()
        return found

    async def _read_version(self, *, decides: bool = False) -> wire.Version:
        version = await self._dashboard.find("/api/version", wire.Version, timeout=4.0, decides=decides)
        if version is None:
            server = f", server {self._dashboard.server}" if self._dashboard.server else ""
            raise SourceError(f"{self.address} is not a Ray dashboard: it reports no Ray version (HTTP 404{server})", "not ray")
        return version

    async def session(self, *, decides: bool = False) -> str | None:
        """The name of the session that answers now. `decides`: processes may end because of this answer."""
        return (await self._read_version(decides=decides)).session_name

    def _read_and_check_session(self, read: Callable[[], Awaitable[T]]) -> Callable[[], Awaitable[T]]:
        """A function that reads, and then checks that the right session still answers: another Ray may have taken the port meanwhile."""
        if self._why_not_meant is None:
            return read

        async def read_and_check() -> T:
            answer = await read()
            await self.check_meant()
            return answer

        return read_and_check

    async def check_meant(self) -> None:
        """Raise `OtherSessionError` if another session than the chosen one answers now; `SourceError` if none answers."""
        if self._why_not_meant is not None:
            self._refuse_other_session(await self._read_version())

    def _refuse_other_session(self, version: wire.Version) -> None:
        if self._why_not_meant is not None and (reason := self._why_not_meant(version.session_name)) is not None:
            raise OtherSessionError(f"{self.address}: {reason}")

    async def members(self) -> tuple[wire.NodeEntry, ...]:
        """All nodes with their resources, as the GCS knows them. No agent is asked."""
        return (await self._list("nodes", wire.Listed[wire.NodeEntry])).result

    async def check_gcs(self) -> None:
        """Raise `SourceError` if the GCS does not answer. One failure does not count, since Ray waits only 0.1 s for the GCS.

        The GCS is not asked if it has just proved that it lives: every list comes from it.
        """
        if not self._is_gcs_lost and self._clock() < self._gcs_lived_at + GCS_PROOF_S:
            return
        if not await self._gcs_answers():
            await asyncio.sleep(0.5)
            if not await self._gcs_answers():
                self._is_gcs_lost = True
                raise SourceError("Ray's GCS does not answer; the dashboard's data may be old", "gcs")
        if self._is_gcs_lost:
            self._is_gcs_lost = False
            self._dashboard.retry_now()

    async def _gcs_answers(self) -> bool:
        try:
            await self._from_gcs(self._dashboard.get("/api/gcs_healthz", timeout=3.0))
        except DashboardRefusedError as error:
            if error.status != 503:
                raise
            return False
        return True

    async def _from_gcs(self, answer: Awaitable[T]) -> T:
        """An answer that the dashboard gets from the GCS. A quick one proves that the GCS lived when it was requested."""
        asked = self._clock()
        found = await answer
        if self._clock() - asked <= GCS_QUICK_S:
            self._gcs_lived_at = asked
        return found

    def _gcs_pause(self) -> float:
        left = self._gcs_lived_at + GCS_PROOF_S - self._clock()
        return left if left > 0 else GCS_PAUSE_S

    async def read_nodes(self) -> NodeFacts:
        """All nodes with their GPUs, workers and GPU processes.

        The first time, their names are requested meanwhile: a later request would wait until Ray has listed all actors.
        """
        nodes = self._nodes
        first_names = asyncio.ensure_future(self._list_names()) if self._named_at == -math.inf else None
        try:
            reader = NodeReader()
            rest = await self._dashboard.data("/nodes", wire.NodesData, timeout=12.0, params={"view": "summary"}, take=reader.take)
            data = reader.add_to(rest)
            await run_in_thread_if(len(data.summary) > THREAD_MIN_ITEMS, nodes.update, data)
            if first_names is not None:
                nodes.add_identities(await first_names)
            elif self._clock() - self._named_at >= (10.0 if nodes.needs_identities else 60.0):
                nodes.add_identities(await self._list_names())
        finally:
            if first_names is not None:
                first_names.cancel()
        facts = await run_in_thread_if(len(nodes) > THREAD_MIN_ITEMS, nodes.facts)
        if nodes is not self._nodes:
            raise SourceError(_MEANWHILE)
        return facts

    async def _list_names(self) -> Sequence[wire.NodeEntry]:
        """The names of all nodes; empty if they can't be read now. The figures of the nodes are shown without them."""
        self._named_at = self._clock()
        try:
            return await self.members()
        except SourceError:
            return ()

    async def read_status(self) -> StatusFacts:
        """The used and the requested resources, as the autoscaler monitor counts them."""
        answered = self._status_answered = asyncio.Event()
        try:
            facts = await self._read_report()
            self._strategies = actors.strategies_by_shape(facts.strategies)
            return facts
        finally:
            answered.set()

    async def _read_report(self) -> StatusFacts:
        """The report of the autoscaler monitor; with autoscaler v2, Ray has it only as a text."""
        path, reports = "/api/cluster_status", self._reports
        if not self._status_is_text:
            data = await self._from_gcs(self._dashboard.data(path, wire.StatusData, timeout=6.0))
            self._status_is_text = data.cluster_status is None
            if data.cluster_status is not None:
                facts = await run_in_thread_if(
                    len(self._nodes) > THREAD_MIN_ITEMS, reports.update, data.cluster_status, data.autoscaling_error
                )
                if reports is not self._reports:
                    raise SourceError(_MEANWHILE)
                return facts
        text = await self._from_gcs(self._dashboard.data(path, wire.StatusText, timeout=6.0, params={"format": 1}))
        self._status_is_text = text.cluster_status is not None
        if text.cluster_status is None:
            raise SourceError("the autoscaler has no status yet; used and pending resources are unknown")
        return parse_status(text.cluster_status)

    async def read_actors(self) -> ActorFacts:
        """All actors that are not dead. The list of a state that takes long is not requested each time."""
        known = self._actors
        if known.are_few:
            await self._list_actors(known, NOT_DEAD)
        if not known.are_few:
            for state in (*WAITING, "ALIVE"):  # the living last: an actor that changes its state is listed twice rather than not at all
                await self._list_actors(known, state)
        facts = await run_in_thread_if(len(known) > THREAD_MIN_ITEMS, known.facts, self._groups.groups)
        if known is not self._actors:
            raise SourceError(_MEANWHILE)
        return facts

    async def _list_actors(self, known: ActorLists, state: str) -> None:
        """Request one list if it is due."""
        if known.is_due(state):
            started = time.monotonic()
            listing = await self._list("actors", wire.Listed[wire.Actor], _only_in_state(state))
            await run_in_thread_if(len(listing.result) > THREAD_MIN_ITEMS, known.update, state, listing, time.monotonic() - started)

    async def dead_actors(self) -> tuple[Actor, ...]:
        """At most 1,000 dead actors with the causes of their deaths. Ray can't sort them, so the last ones may be missing."""
        listing = await self._list("actors", wire.Listed[wire.Actor], {"limit": 1000, **_only_in_state("DEAD")})
        return tuple(actors.parse_actor(entry, None, {}) for entry in listing.result)

    async def read_placement_groups(self) -> GroupFacts:
        """All placement groups but removed ones."""
        known, listing = self._groups, await self._list("placement_groups", wire.Listed[wire.Group])
        known.check_loss(listing)
        # At the start, the status is requested at the same time; only the status has the strategies of waiting groups.
        if not self._strategies and any(entry.state == "PENDING" for entry in listing.result):
            with suppress(asyncio.TimeoutError):
                await wait_within(STATUS_WAIT_S, self._status_answered.wait())
        await run_in_thread_if(len(self._nodes) > THREAD_MIN_ITEMS, known.update, listing.result, self._strategies)
        if known is not self._groups:
            raise SourceError(_MEANWHILE)
        return GroupFacts(groups=tuple(known.groups.values()), complete=not listing.cut)

    async def read_jobs(self, *, decides: bool = False) -> JobFacts:
        """All jobs, including those that have ended. `decides`: processes may end because of this answer."""
        entries = await self._from_gcs(self._dashboard.json("/api/jobs/", tuple[wire.Job, ...], timeout=10.0, decides=decides))
        jobs = tuple(job for entry in entries if (job := actors.parse_job(entry)))
        self._jobs_running = any(job.running for job in jobs)
        return JobFacts(jobs=jobs)

    async def _read_dated_jobs(self) -> JobFacts:
        """All jobs with times of our clock; Ray's times are from a wall clock."""
        facts, shift = await self.read_jobs(), self._shift()
        return JobFacts(tuple(replace(job, started=redate(job.started, shift), ended=redate(job.ended, shift)) for job in facts.jobs))

    async def read_kills(self) -> OomFacts:
        """The workers that Ray's memory monitor has killed. Ray cuts the list before it filters it; then the events are read too."""
        kills, started = self._kills, time.monotonic()
        workers = await self._list("workers", wire.Listed[oom.WorkerRecord], oom.OOM_FILTER)
        events = None
        if workers.cut:
            events = await self._dashboard.data("/events", oom.RayEvents, timeout=12.0, params={"job_id": "global"})
        if kills is not self._kills:
            raise SourceError(_MEANWHILE)
        return kills.update(workers, events, time.monotonic() - started)

    async def node_processes(self, node_id: str) -> tuple[Process, ...]:
        """The processes of Ray on one node; they are up to 35 s old."""
        path = f"/nodes/{quote(node_id, safe='', errors='replace')}"
        data = await self._dashboard.data(path, wire.DetailData, timeout=10.0, endpoint="/nodes/{id}")
        if data.detail.raylet.node_id is None:
            raise SourceError(f"Ray at {self.address} knows no node {node_id[:56]}")
        return processes(node_id, data.detail)

    async def follow_log(self, job: str, lines: int = LOG_LINES) -> AsyncIterator[list[str]]:
        """Like `LogFiles.follow_job`."""
        async for batch in (await self.log_files()).follow_job(job, lines):
            yield batch

    async def log_files(self) -> LogFiles:
        """The logs of this Ray."""
        await self.check_meant()
        return LogFiles(self._dashboard, parse_version(self._cluster.ray_version or (await self.identify()).ray_version))

    async def _list(self, what: str, shape: type[wire.Listed[wire.T]], params: Params | None = None) -> wire.Listing[wire.T]:
        asked = {"limit": MAX_LISTED, "detail": 1, "timeout": 6, **(params or {})}
        return (await self._from_gcs(self._dashboard.data(f"/api/v0/{what}", shape, timeout=12.0, params=asked))).result

    def _nodes_pause(self) -> float:
        """The seconds until the next request. Ray samples every 5 s, and an answer blocks its dashboard: for 1.3 s with 1,000 nodes."""
        count = len(self._nodes)
        least = 5.0 if count <= 100 else 10.0 if count <= 400 else 15.0
        took = self._dashboard.answer_times.get("/nodes", 0.0)
        most = max(FRESH_S - 2 * took, LEAST_NODES_PAUSE_PER_ANSWER_TIME * took)
        return max(least, min(NODES_PAUSE_PER_ANSWER_TIME * took, most, LONGEST_PAUSE_S))

    def _groups_pause(self) -> float:
        least = 5.0 if any(group.pending for group in self._groups.groups.values()) else 10.0
        took = self._dashboard.answer_times.get("/api/v0/placement_groups", 0.0)
        return max(least, min(PAUSE_PER_ANSWER_TIME * took, LONGEST_PAUSE_S))


def _only_in_state(state: str) -> dict[str, str]:
    """The filter for one state, or for all but DEAD. Ray applies `=` before it cuts a list, and other filters after that."""
    predicate, value = ("!=", "DEAD") if state == NOT_DEAD else ("=", state)
    return {"filter_keys": "state", "filter_predicates": predicate, "filter_values": value}
