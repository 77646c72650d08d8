"""What acts are planned and done in: what is known now, which hosts and which Ray session are meant, and the way there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import urlsplit

from msgspec.structs import replace

from cockpit.acts.plan import Aim, Plan
from cockpit.config.document import InputError
from cockpit.config.reach import HostEntry, check_host
from cockpit.findings.rays_here import live_sessions, other_slurm_job
from cockpit.model import Job, Session, Snapshot
from cockpit.model.claims import count_different
from cockpit.monitor.monitor import ClusterMonitor
from cockpit.sources.probes.ray_tunnel import RayPlace
from cockpit.sources.probes.requests import ProbeRequests, Progress
from cockpit.sources.source import NotMeantError, SourceError, wait_within

RAY_JOBS_TIMEOUT_S = 3.0
"""Ray may take so long to say which jobs run; an operator with a frozen dashboard waits no longer."""
Hear = Callable[[str, Progress], None]
"""Told how far a host is."""
T = TypeVar("T")


class UnclearSessionError(SourceError):
    """Which Ray is meant can't be told. How one is chosen is for whoever asked to say: by a flag or by a key."""


class ActContext:
    """One for each executor. It opens nothing before an act asks hosts."""

    def __init__(self, monitor: ClusterMonitor) -> None:
        self.monitor = monitor
        self._entries: dict[str, HostEntry] = {}
        self._places: dict[str, RayPlace] = {}
        self.requests = ProbeRequests(monitor.config, monitor.pool.local, self._entries, self._places, monitor.pool.control_sockets)
        self._kept: dict[Any, Any] = {}

    def close(self) -> None:
        """End what is under way on hosts."""
        self.requests.close()

    def keep(self, make: Callable[[ClusterMonitor], T]) -> T:
        """What an act remembers from its plan to its deed; made when it is first asked for, then the same again."""
        if make not in self._kept:
            self._kept[make] = make(self.monitor)
        kept: T = self._kept[make]
        return kept

    @property
    def snapshot(self) -> Snapshot:
        """What is known now."""
        return self.monitor.poller.snapshot

    # Which Ray

    async def jobs_by_session(self) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
        """Which jobs run, as Ray says now, as a request holds it; a sentence when it does not answer: then nobody guesses."""
        try:
            jobs_of = await wait_within(RAY_JOBS_TIMEOUT_S, self.monitor.jobs_by_session())
        except (SourceError, asyncio.TimeoutError) as error:
            why = str(error) or f"it has not answered within {RAY_JOBS_TIMEOUT_S:g} s"
            return [], (f"Ray did not report which jobs run: {why}",)
        return [{"session": session, **_by_state(jobs)} for session, jobs in jobs_of], ()

    def follows(self, session: str | None) -> bool:
        """Whether what is known here is known of that session; `None`: of whichever is followed."""
        return session in (None, self.snapshot.cluster.session)

    def refuse_unshown(self, shown: str | None) -> None:
        """Raises `NotMeantError` where another session is followed than the screen has `shown`; `None`: it has shown none."""
        followed = self.snapshot.cluster.session
        if shown is not None and followed != shown:
            now = f"cockpit follows {followed} now" if followed else "it is unknown now which Ray is followed"
            raise NotMeantError(f"the screen showed {shown}, and {now}; look again, then repeat the key")

    def with_ray(self, plan: Plan, aim: Aim) -> Plan:
        """The plan with the session that it means, where that one's dashboard is, and which other sessions live on the hosts."""
        cluster = self.snapshot.cluster
        asked = next((request["session"] for request in plan.requests.values() if request.get("session")), None)
        meant = asked or aim.session or cluster.session
        live = {one.name for one in self.snapshot.sessions or () if one.live}
        live |= {name for host in self.snapshot.hosts.values() for name in live_sessions(host) if name}
        dashboards = [one.dashboard for one in self.snapshot.sessions or () if one.name == meant and one.dashboard]
        address = cluster.address if meant == cluster.session else next(iter(dashboards), None)
        return replace(plan, session=meant, address=address, followed=meant == cluster.session, beside=tuple(sorted(live - {meant})))

    async def refuse_other_ray(self, plan: Plan) -> None:
        """Raises `NotMeantError` where another session is followed, or answers, than the plan was made for.

        A dashboard that does not answer proves nothing: hosts look themselves whose processes they end.
        """
        if plan.session is None or not plan.followed:
            return
        cluster = self.snapshot.cluster
        answering = cluster.session
        if cluster.reachable and cluster.session == plan.session:
            with suppress(SourceError, asyncio.TimeoutError):
                answering = await wait_within(RAY_JOBS_TIMEOUT_S, self.monitor.answering_session()) or answering
        if answering != plan.session:
            told = f"{answering} answers at {cluster.address} now" if answering else "it is unknown now which Ray is followed"
            raise NotMeantError(f"nothing was done: it was planned for {plan.session}, and {told}")

    def session(self, aim: Aim) -> str | None:
        """The one that is meant: never one that merely is the only one on some host. Raises `SourceError`."""
        followed = self.snapshot.cluster.session
        if not aim.session and not aim.everything and followed and (reason := self._why_not_meant(followed)) is not None:
            raise UnclearSessionError(f"{self.snapshot.cluster.address}: {reason}; give --session {followed} if you mean that one")
        if aim.session or followed or aim.everything:
            return aim.session or followed
        found = [one for one in self.snapshot.sessions or () if one.live]
        live = {one.name for one in found if self._serves(one)}
        if found and not live:
            others = sorted({one.name for one in found})
            jobs = sorted({job for one in found if (job := self._other_job(one))})
            where = f"in Slurm job {' and '.join(jobs)}" if jobs else "with another dashboard"
            run = "runs" if len(others) == 1 else "run"
            raise UnclearSessionError(f"the dashboard has not answered; {', '.join(others)} {run} here {where}")
        if len(live) > 1:
            raise self.unclear_session(live)
        return live.pop() if live else None

    def _why_not_meant(self, session: str) -> str | None:
        """Why the session that is followed may be another than whoever named none means."""
        address = self.monitor.choice.address
        chosen = address is not None and (address.given or address.owner is not None)
        hosts = [host for host in self.snapshot.hosts.values() if session in live_sessions(host)]
        found = [other_slurm_job(self.snapshot.slurm_ids, host, session) for host in hosts]
        other = None if chosen else next(filter(None, found), None)
        return self.monitor.choice.why_not_session(session) or (other and f"{session} runs in Slurm job {other}")

    def _other_job(self, session: Session) -> str | None:
        """The Slurm job in which it runs, where that is another than the one whose nodes are the hosts."""
        host = self.snapshot.hosts.get(session.host)
        return other_slurm_job(self.snapshot.slurm_ids, host, session.name) if host else None

    @staticmethod
    def unclear_session(sessions: Iterable[str]) -> SourceError:
        """Several live, and somebody has to choose one."""
        return UnclearSessionError(f"several Ray sessions run: {', '.join(sorted(sessions))}")

    def _serves(self, session: Session) -> bool:
        """False: somebody has said which dashboard or which Slurm job is meant, and it is not this session's."""
        address = self.monitor.choice.address
        if self._other_job(session) is not None:
            return False
        if address is None or address.origin == "default" or address.origin.startswith("session"):
            return True
        meant, host = urlsplit(address.url), self.snapshot.hosts.get(session.host)
        here = ("localhost", "127.0.0.1", "::1") if session.host == self.monitor.pool.local else ()
        near = meant.hostname in (session.host, *here, *(host.addresses if host else ()))
        return near and (session.dashboard is None or urlsplit(session.dashboard).port == meant.port)

    # Which hosts

    @property
    def addresses(self) -> dict[str, str]:
        """By host, under what name or address it is reached."""
        return {name: entry.target for name, entry in self._entries.items()}

    def titles_of(self, hosts: Iterable[str]) -> dict[str, str]:
        """By host, what people call it: as its node, dead or alive, is called on every page."""
        titles = self.snapshot.index.titles
        return {host: titles.of_host(host, self.addresses.get(host, host)) for host in hosts}

    def update_hosts(self) -> None:
        """Learn how hosts are reached now."""
        self._entries.update(self.monitor.select_others())
        self._places.clear()
        self._places.update(self.monitor.places())

    @property
    def all_hosts(self) -> tuple[str, ...]:
        """Where cockpit runs, and all that can be reached."""
        return (self.monitor.pool.local, *sorted(self._entries))

    def named_hosts(self, names: Sequence[str]) -> tuple[str, ...]:
        """What persons call hosts, as the names that these have here. Raises `SourceError`."""
        return tuple(dict.fromkeys(self._resolve_host(name) for name in names))

    def ray_host(self) -> str:
        """One with a live raylet of this cluster: this host, else the head, else any. Raises `SourceError`."""
        session = self.snapshot.cluster.session
        lives = {one.host for one in self.snapshot.sessions or () if one.live and session in (None, one.name)}
        if self.monitor.pool.local in lives:
            return self.monitor.pool.local
        nodes = sorted((node for node in self.snapshot.nodes or () if node.state == "ALIVE"), key=lambda node: not node.head)
        for node in nodes:
            return self._resolve_host(node.ip)
        raise SourceError("no host with a live raylet of this cluster is known")

    def register_host(self, entry: HostEntry) -> str:
        """What a host is called here; one that nobody knows is reached as the entry says from now on.

        Raises `SourceError`, also where several hosts may be meant.
        """
        self._entries.update(self.monitor.select_others())
        if (known := self._find_known(entry.name, entry.target)) is not None:
            return known
        self._entries[entry.name] = entry
        return entry.name

    def _resolve_host(self, name: str) -> str:
        """One that nobody knows is reached by the name itself."""
        if (known := self._find_known(name)) is not None:
            return known
        try:
            self._entries[name] = check_host(HostEntry(name))
        except InputError as error:
            raise SourceError(str(error)) from error
        return name

    def _find_known(self, *names: str) -> str | None:
        """By any of its names: its own first, then those of its nodes."""
        called = [alias for name in names for alias in self.monitor.config.names_of(name)]
        return next(filter(None, map(self._find_own, called)), None) or next(filter(None, map(self._find_by_node, called)), None)

    def _find_own(self, name: str) -> str | None:
        """The host that has this name or address itself, whatever runs on it."""
        if name in {self.monitor.pool.local, "localhost", *self._own_names}:
            return self.monitor.pool.local
        if name in self._entries:
            return name
        return self._find_at((name,))

    @property
    def _own_names(self) -> set[str]:
        """Names and addresses of the host that cockpit runs on."""
        return {alias for host in self.snapshot.hosts.values() if host.local for alias in (host.name, *host.addresses)}

    def _find_by_node(self, name: str) -> str | None:
        """The host of the nodes that are called so. Raises `NotMeantError` where several hosts may be meant.

        Any user can make a host claim a node (`believed_hosts`): the node's address decides before the claim of a host without it.
        """
        nodes, hosts, titles = self.snapshot.nodes or (), self.snapshot.hosts, self.snapshot.index.titles
        called = [node for node in nodes if name in (node.title, titles.of_node(node), node.host, node.ip, node.id)]
        called = [node for node in called if node.state == "ALIVE"] or called
        addresses = {node.ip for node in called if node.ip}
        believed = self.snapshot.index.believed_hosts
        claiming = [host for node in called for host in believed.get(node.id or "", ())]
        with_address = [host for host in claiming if not addresses.isdisjoint(host.addresses)]
        if not with_address and (near := self._find_at(addresses)) is not None:
            return near
        called_titles = {name, *map(titles.of_node, called)}
        meant = with_address or claiming or [host for host in hosts.values() if titles.of_host(host.name) in called_titles]
        # Also who is not believed, for a person who must choose knows whether that is the host that is meant.
        unbelieved = [host for host in hosts.values() if any(node.id in host.nodes for node in called)]
        if count_different(meant) > 1 or (unbelieved and not meant):
            claims = ", ".join(sorted({host.name for host in meant or unbelieved}))
            raise NotMeantError(f"which host {name} is can't be told, it is claimed by {claims}; give the name of the host that you mean")
        reached = (self.monitor.pool.local if host.local else host.name for host in meant if host.local or host.name in self._entries)
        return next(reached, None)

    def _find_at(self, addresses: Collection[str]) -> str | None:
        """The host that is reached at one of these addresses."""
        here = self.monitor.pool.local if not self._own_names.isdisjoint(addresses) else None
        return here or next((name for name, entry in self._entries.items() if entry.target in addresses), None)


def _by_state(jobs: Iterable[Job]) -> dict[str, list[str]]:
    """By either id; one that has been given to two jobs counts as running."""
    jobs = tuple(jobs)
    running = {name for job in jobs if job.running for name in (job.job, job.submission) if name}
    ended = {name for job in jobs for name in (job.job, job.submission) if name} - running
    return {"running": sorted(running), "ended": sorted(ended)}
