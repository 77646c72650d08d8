"""Holds what actions need: the current snapshot, which hosts and which Ray session are meant, and the connections to hosts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from msgspec.structs import replace

from cockpit.actions.plan import ActionTarget, Plan
from cockpit.config.document import InputError
from cockpit.config.reach import HostEntry, check_host
from cockpit.findings.rays_here import live_sessions, other_slurm_job
from cockpit.model import Session, Snapshot
from cockpit.model.claims import count_different
from cockpit.monitor.monitor import ClusterMonitor
from cockpit.sources.probes.ray_tunnel import RayPlace
from cockpit.sources.probes.requests import ProbeRequests, Progress
from cockpit.sources.source import NotMeantError, SourceError, wait_within

RAY_JOBS_TIMEOUT_S = 3.0
"""For Ray's list of jobs: an operator with a frozen dashboard waits no longer."""
OnProgress = Callable[[str, Progress], None]
"""Called with a host and its progress."""


class UnclearSessionError(SourceError):
    """Several Ray sessions may be meant. The caller says how to choose one: by a flag or by a key."""


class ActionContext:
    """The context of one executor's actions. It opens no connection before an action asks hosts."""

    def __init__(self, monitor: ClusterMonitor) -> None:
        self.monitor = monitor
        self._entries: dict[str, HostEntry] = {}
        self._places: dict[str, RayPlace] = {}
        self.requests = ProbeRequests(monitor.config, monitor.pool.local, self._entries, self._places, monitor.pool.control_sockets)
        self.launches: Any = None
        """The `Launches` that keeps a planned launch until it is confirmed; made by the first launch. Its module imports this one."""

    def close(self) -> None:
        """Abort the requests that are running on hosts."""
        self.requests.close()

    @property
    def snapshot(self) -> Snapshot:
        """The current snapshot."""
        return self.monitor.poller.snapshot

    # The Ray session

    async def jobs_by_session(self) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
        """Return which jobs run, as Ray reports it now, in the form of a request. If Ray is silent: no jobs, and a sentence."""
        try:
            jobs_of = await wait_within(RAY_JOBS_TIMEOUT_S, self.monitor.jobs_by_session())
        except (SourceError, asyncio.TimeoutError) as error:
            why = str(error) or f"it has not answered within {RAY_JOBS_TIMEOUT_S:g} s"
            return [], (f"Ray did not report which jobs run: {why}",)
        parts = []
        for session, jobs in jobs_of:
            # A job has two ids. An id that two jobs have counts as running.
            ids = {(name, job.running) for job in jobs for name in (job.job, job.submission) if name}
            running = {name for name, runs in ids if runs}
            parts.append({"session": session, "running": sorted(running), "ended": sorted({name for name, _ in ids} - running)})
        return parts, ()

    def follows(self, session: str | None) -> bool:
        """Return whether the snapshot is about that session. `None` stands for the followed one."""
        return session in (None, self.snapshot.cluster.session)

    def refuse_unshown(self, shown: str | None) -> None:
        """Raise `NotMeantError` if another session is followed than the screen has shown. `None`: it has shown none."""
        followed = self.snapshot.cluster.session
        if shown is not None and followed != shown:
            now = f"cockpit follows {followed} now" if followed else "it is unknown now which Ray is followed"
            raise NotMeantError(f"the screen showed {shown}, and {now}; look again, then repeat the key")

    def with_ray(self, plan: Plan, requested: ActionTarget) -> Plan:
        """Return the plan with the session that it means, the URL of its dashboard, and the other live sessions on the hosts."""
        cluster = self.snapshot.cluster
        asked = next((request["session"] for request in plan.requests.values() if request.get("session")), None)
        meant = asked or requested.session or cluster.session
        live = {one.name for one in self.snapshot.sessions or () if one.live}
        live |= {name for host in self.snapshot.hosts.values() for name in live_sessions(host) if name}
        dashboards = [one.dashboard for one in self.snapshot.sessions or () if one.name == meant and one.dashboard]
        address = cluster.address if meant == cluster.session else next(iter(dashboards), None)
        return replace(plan, session=meant, address=address, followed=meant == cluster.session, beside=tuple(sorted(live - {meant})))

    async def refuse_other_ray(self, plan: Plan) -> None:
        """Raise `NotMeantError` if another session is followed, or answers, than the plan was made for.

        A silent dashboard proves nothing; the hosts check the session of each process themselves.
        """
        if plan.session is None or not plan.followed:
            return
        cluster = self.snapshot.cluster
        answering = cluster.session
        if cluster.reachable and cluster.session == plan.session:
            with suppress(SourceError, asyncio.TimeoutError):
                answering = await wait_within(RAY_JOBS_TIMEOUT_S, self.monitor.answering_session()) or answering
        if answering != plan.session:
            now = f"{answering} answers at {cluster.address} now" if answering else "it is unknown now which Ray is followed"
            raise NotMeantError(f"nothing was done: it was planned for {plan.session}, and {now}")

    def session(self, requested: ActionTarget) -> str | None:
        """Return the session that is meant, or `None` if none is known. Raises `UnclearSessionError`.

        A session is never meant only because it is the only one on some host.
        """
        cluster = self.snapshot.cluster
        if requested.session:
            return requested.session
        if requested.everything:
            return cluster.session
        if cluster.session:
            if (reason := self._why_not_meant(cluster.session)) is not None:
                raise UnclearSessionError(f"{cluster.address}: {reason}; give --session {cluster.session} if you mean that one")
            return cluster.session
        found = [one for one in self.snapshot.sessions or () if one.live]
        live = {one.name for one in found if self._may_be_meant(one)}
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
        """Return why the followed session may not be the one that the user means, or `None`."""
        if (reason := self.monitor.choice.why_not_session(session)) is not None:
            return reason
        address = self.monitor.choice.address
        if address is not None and (address.given or address.owner is not None):
            return None
        hosts = [host for host in self.snapshot.hosts.values() if session in live_sessions(host)]
        jobs = (other_slurm_job(self.snapshot.slurm_ids, host, session) for host in hosts)
        job = next(filter(None, jobs), None)
        return job and f"{session} runs in Slurm job {job}"

    def _other_job(self, session: Session) -> str | None:
        """Return the Slurm job of the session, if it is not the job whose nodes the hosts are."""
        host = self.snapshot.hosts.get(session.host)
        return other_slurm_job(self.snapshot.slurm_ids, host, session.name) if host else None

    @staticmethod
    def unclear_session(sessions: Iterable[str]) -> SourceError:
        """Return the error that asks the user to choose one of several live sessions."""
        return UnclearSessionError(f"several Ray sessions run: {', '.join(sorted(sessions))}")

    def _may_be_meant(self, session: Session) -> bool:
        """Return false if the user has named another dashboard or another Slurm job."""
        address = self.monitor.choice.address
        if self._other_job(session) is not None:
            return False
        if address is None or address.origin == "default" or address.origin.startswith("session"):
            return True
        named, host = urlsplit(address.url), self.snapshot.hosts.get(session.host)
        here = ("localhost", "127.0.0.1", "::1") if session.host == self.monitor.pool.local else ()
        is_near = named.hostname in (session.host, *here, *(host.addresses if host else ()))
        return is_near and (session.dashboard is None or urlsplit(session.dashboard).port == named.port)

    # The hosts

    @property
    def addresses(self) -> dict[str, str]:
        """The name or address at which each host is reached."""
        return {name: entry.target for name, entry in self._entries.items()}

    def titles_of(self, hosts: Iterable[str]) -> dict[str, str]:
        """Return for each host the name that people use: its node's name, dead or alive, as on every page."""
        titles = self.snapshot.index.titles
        return {host: titles.of_host(host, self.addresses.get(host, host)) for host in hosts}

    def update_hosts(self) -> None:
        """Update how hosts are reached."""
        self._entries.update(self.monitor.select_others())
        self._places.clear()
        self._places.update(self.monitor.places())

    @property
    def all_hosts(self) -> tuple[str, ...]:
        """The local host, and all hosts that can be reached."""
        return (self.monitor.pool.local, *sorted(self._entries))

    def named_hosts(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return cockpit's names for hosts that a user has named. Raises `SourceError`."""
        return tuple(dict.fromkeys(self._resolve_host(name) for name in names))

    def ray_host(self) -> str:
        """Return a host with a live raylet of this cluster: this host, else the head, else any. Raises `SourceError`."""
        session = self.snapshot.cluster.session
        lives = {one.host for one in self.snapshot.sessions or () if one.live and session in (None, one.name)}
        if self.monitor.pool.local in lives:
            return self.monitor.pool.local
        alive = [node for node in self.snapshot.nodes or () if node.state == "ALIVE"]
        if not alive:
            raise SourceError("no host with a live raylet of this cluster is known")
        return self._resolve_host(next((node for node in alive if node.head), alive[0]).ip)

    def register_host(self, entry: HostEntry) -> str:
        """Return cockpit's name for a host; an unknown host is reached as the entry says from now on.

        Raises `SourceError`, also if several hosts may be meant.
        """
        self._entries.update(self.monitor.select_others())
        if (known := self._find_known(entry.name, entry.target)) is not None:
            return known
        self._entries[entry.name] = entry
        return entry.name

    def _resolve_host(self, name: str) -> str:
        """Return cockpit's name for a host; an unknown host is contacted under the given name."""
        if (known := self._find_known(name)) is not None:
            return known
        try:
            self._entries[name] = check_host(HostEntry(name))
        except InputError as error:
            raise SourceError(str(error)) from error
        return name

    def _find_known(self, *names: str) -> str | None:
        """Find a host by any of these names: first by the names of hosts, then by the names of nodes."""
        called = [alias for name in names for alias in self.monitor.config.names_of(name)]
        return next(filter(None, map(self._find_own, called)), None) or next(filter(None, map(self._find_by_node, called)), None)

    def _find_own(self, name: str) -> str | None:
        """Find the host that has this name or address itself, regardless of the nodes on it."""
        if name in {self.monitor.pool.local, "localhost", *self._own_names}:
            return self.monitor.pool.local
        return name if name in self._entries else self._find_at((name,))

    @property
    def _own_names(self) -> set[str]:
        """Names and addresses of this host."""
        return {alias for host in self.snapshot.hosts.values() if host.local for alias in (host.name, *host.addresses)}

    def _find_by_node(self, name: str) -> str | None:
        """Find the host of the nodes with this name. Raises `NotMeantError` if several hosts may be meant.

        Any user can make a host claim a node (`believed_hosts`), so the node's address counts more than a claim without that address.
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
        # Name also the hosts that are not believed, because the person who must choose may know better.
        unbelieved = [host for host in hosts.values() if any(node.id in host.nodes for node in called)]
        if count_different(meant) > 1 or (unbelieved and not meant):
            claims = ", ".join(sorted({host.name for host in meant or unbelieved}))
            raise NotMeantError(f"it is unclear which host {name} is: claimed by {claims}; give the name of the host that you mean")
        reached = (self.monitor.pool.local if host.local else host.name for host in meant if host.local or host.name in self._entries)
        return next(reached, None)

    def _find_at(self, addresses: Collection[str]) -> str | None:
        """Find the host that is reached at one of these addresses."""
        here = self.monitor.pool.local if not self._own_names.isdisjoint(addresses) else None
        return here or next((name for name, entry in self._entries.items() if entry.target in addresses), None)
