"""Chooses the Ray to follow: the one at the given address, or the session that lives on this host; and asks the other Rays here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from urllib.parse import urlsplit

from msgspec.structs import replace

from cockpit.config.address import Address, resolve_address
from cockpit.config.document import InputError
from cockpit.config.settings import Config
from cockpit.findings.rays_here import head_elsewhere, other_slurm_job, rays_on
from cockpit.model import Host, Job, OtherRay, Session, Snapshot
from cockpit.monitor.poller import Poller
from cockpit.sources.ray.client import RayClient
from cockpit.sources.source import SourceError, wait_within
from cockpit.text.bug import bug
from cockpit.trust import Peer, find_token, own_uids
from cockpit.trust.sockets import listening_users

LOCAL_PROBE_TIMEOUT_S = 3.0
"""The default address is followed if this host's probe has not listed its sessions within this time."""
OTHERS_INTERVAL_S = 10.0
"""How often the other Rays on this host are asked while nothing answers at the address."""
MAX_ASKED = 16
"""Other Rays that are asked at once: anybody can start thousands of processes that look like one."""
MAX_ANSWER_BYTES = 64 << 10
"""A Ray answers with a few hundred bytes."""
OTHER_RAY_TIMEOUT_S, OTHER_RAY_NAME_TIMEOUT_S = 2.0, 4.0
"""How long another Ray may take to list its jobs, and to name its session. Nothing waits for the name, and whether a Ray answers must
not change from one request to the next on a busy host; so that may take longer."""
SessionJobs = tuple[str, tuple[Job, ...]]
"""A session's name, and the jobs of its Ray."""


class ClusterChoice:
    """Gives the poller another dashboard when the followed session has moved or another one has replaced it."""

    def __init__(self, config: Config, env: Mapping[str, str], poller: Poller, local: str) -> None:
        """`local`: the name of this host."""
        self.token: Callable[[], str | None] = find_token
        """Returns the token for the followed Ray."""
        self.choose: Callable[[tuple[Address, ...]], object] | None = None
        """Called when several live sessions are found here; it must call `follow` with one of them."""
        self.address: Address | None = None
        """The dashboard that is followed."""
        self.choices: tuple[Address, ...] = ()
        """The dashboards among which a person must choose."""
        self.ray: RayClient | None = None
        self._config, self._env, self._poller, self._local = config, env, poller, local
        self._peer: Peer | None = None
        self._resolved = asyncio.Event()
        self._host: Host | None = None
        """This host in the last snapshot."""
        self._is_lost = False
        """Whether the dashboard did not answer in the last snapshot."""
        self._beside: frozenset[str] = frozenset()
        """Sessions that lived here together with the followed one, so none of them is its successor."""
        self._closing: asyncio.Future[None] | None = None
        self._asking: asyncio.Future[None] | None = None
        self._asked_at = 0.0

    async def run(self) -> None:
        """Choose once: at once if an address is given, else when the local probe has listed its sessions or takes too long."""
        if not (self._config.address or self._env.get("RAY_API_SERVER_ADDRESS") or self._env.get("RAY_ADDRESS", "").startswith("http")):
            with suppress(asyncio.TimeoutError):
                await wait_within(LOCAL_PROBE_TIMEOUT_S, self._resolved.wait())
        if not self._resolved.is_set():
            self._resolve()

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Choose as soon as the sessions are known; afterwards follow the session to its new address or to its successor."""
        host = next((host for host in snapshot.hosts.values() if host.local), None)
        is_known = host is not None and host.sessions is not None and not (self._poller.parts.slurm_ids and "rays" in host.unanswered)
        is_current = snapshot.cluster.address == self._poller.parts.cluster.address  # else it was begun before the address changed
        is_lost = snapshot.cluster.reachable is False and is_current
        has_changed = host is not self._host or is_lost != self._is_lost
        self._host, self._is_lost = host, is_lost
        if not self._resolved.is_set():
            if is_known or any(fault.source == "probe" and fault.host == self._local for fault in snapshot.faults):
                self._resolve()
        elif is_known and has_changed:
            self._follow_session(local_sessions(snapshot.hosts), snapshot.cluster.session if is_current else None)
        is_due = self._asking is None or (self._asking.done() and self._poller.clock() - self._asked_at > OTHERS_INTERVAL_S)
        if self.has_wrong_address and is_due:
            self._asked_at, self._asking = self._poller.clock(), asyncio.ensure_future(self._ask_others())

    def _follow_session(self, sessions: Sequence[Session], answering: str | None) -> None:
        """Follow the session to its dashboard's address, or its successor. `answering`: the session that answers at the address now.

        A successor is followed only if no person has chosen the session, the session is dead, and the successor was started since.
        """
        if self.address is None:
            return
        # The session may have been restarted at its address; and other sessions may live beside it.
        address = self.address
        if not address.chosen and address.origin.startswith("session"):
            trusted = [(session.name, session.dashboard) for session in sessions if session.live and session.trusted]
            if answering not in (None, address.origin) and (answering, address.url) in trusted:
                self.address = address = replace(address, origin=answering)
                self._beside = frozenset()
            elif self.is_alive(address.origin):
                self._beside |= {session.name for session in sessions if session.live} - {address.origin}
        followable = [session for session in sessions if session.trusted or (address.owner and session.owner == address.owner)]
        dashboards = {session.name: session.dashboard for session in followable if session.live and session.dashboard}
        is_gone = address.origin == "default" or (self._is_lost and address.origin.startswith("session"))
        if url := dashboards.get(address.origin):
            if self._is_lost:
                self.follow(replace(address, url=url, given=False))
        elif is_gone and not address.chosen and not self.is_alive(address.origin) and dashboards.keys() - self._beside:
            self._resolve(without=self._beside)

    @property
    def has_wrong_address(self) -> bool:
        """Whether nothing has ever answered at the address, and this host's probe has listed its sessions."""
        cluster, hosts = self._poller.parts.cluster, self._poller.parts.hosts
        is_known = any(host.local and host.sessions is not None for host in hosts.values())
        return cluster.reachable is False and cluster.session is None and is_known

    async def find_others(self, *, strangers: bool = True) -> tuple[OtherRay, ...]:
        """The other Rays on this host, asked now whether they answer; `strangers`: other users' too, only because a person wants it."""
        followed = self._origin if self._origin.startswith("session") else self._poller.parts.cluster.session
        url = self.address.url if self.address is not None else None
        # By session; by address only if the session that is followed is unknown.
        rays = [ray for ray in (rays_on(self._host) if self._host else ()) if (ray.session != followed if followed else ray.url != url)]
        return await ask_rays(rays, self._poller.clock, strangers=strangers)

    @property
    def _origin(self) -> str:
        """How the followed address is known, which may be the name of a session; empty if none is followed."""
        return self.address.origin if self.address is not None else ""

    async def find_answering(self, addresses: Iterable[Address]) -> tuple[Address, ...]:
        """The addresses without those whose Ray does not answer now. Other users' Rays are not asked: nobody has chosen that yet."""
        asked = await ask_rays([OtherRay(one.url, one.origin, one.owner) for one in addresses], self._poller.clock)
        silent = {ray.url for ray in asked if ray.answers is False}
        return tuple(one for one in addresses if one.url not in silent)

    async def _ask_others(self) -> None:
        address = self.address
        try:
            others = await self.find_others(strangers=False)
        except Exception as error:  # noqa: BLE001 nobody awaits this task, so that its error would never be seen
            self._poller.report_fault("cockpit", bug(error))
            return
        if self.address is address and self.has_wrong_address:
            self._poller.set_other_rays(others)

    def follow(self, address: Address) -> None:
        """Poll this dashboard from now on. If its session was chosen by a person, its answers count only while that session answers."""
        is_same = self.address is not None and (self.address.url, self.address.chosen) == (address.url, address.chosen)
        if is_same and (not address.chosen or address.origin == self._origin):
            self.address = address
            return
        before = None if address.chosen or self.address is None else self._poller.parts.cluster.session
        if self.ray is not None:
            self._poller.leave()
            self._closing = asyncio.ensure_future(self.ray.close())
        self.address, self._beside = address, frozenset()
        self._peer = Peer(address.url, given=address.given)
        self.ray = RayClient(
            address.url,
            token=lambda: self.token(),
            peer=self._peer,
            clock=self._poller.clock,
            why_not_meant=self._why_not_chosen if address.chosen else None,
            before=before,
        )
        self._poller.watch(self.ray.sources, self.ray.address)

    def _why_not_chosen(self, name: str | None) -> str | None:
        """Why the session that answers is not the chosen one. `name` is `None` before Ray 2.35, which does not report its session."""
        chosen = self._origin
        if name is not None:
            return None if name == chosen else f"another Ray session answers there now, {name}; cockpit follows {chosen}, as you chose"
        is_dead = any(one.name == chosen and one.live is False for one in local_sessions(self._poller.parts.hosts))
        return f"another Ray session answers there now; {chosen}, which you chose, has ended" if is_dead else None

    def followed_ray(self) -> RayClient:
        """Raises `SourceError` as long as none is followed."""
        if self.ray is None:
            raise SourceError("no Ray dashboard is known yet")
        return self.ray

    def why_not_trusted(self) -> str | None:
        """Why the followed Ray gets no secrets, and its answers end no process; `None`: it is trusted."""
        return self._peer.why_not_trusted() if self._peer is not None else "no Ray is followed"

    def why_not_session(self, name: str) -> str | None:
        """Why the followed Ray is not the session `name`, as which it answers: a session on this host has a dashboard of its own."""
        live = [one for one in local_sessions(self._poller.parts.hosts) if one.live and one.dashboard and one.name == name]
        peer = self._peer
        for session in live:
            if peer is not None and peer.is_at(urlsplit(session.dashboard or "").port) and (peer.is_ours() or not session.trusted):
                return None
        return f"it calls itself {name}, but that session's dashboard on this host is {live[0].dashboard}" if live else None

    def why_not_believed(self, name: str) -> str | None:
        """Why the followed Ray's answers as session `name` end no process."""
        return self.why_not_trusted() or self.why_not_session(name)

    def is_alive(self, name: str) -> bool:
        """Whether the session `name` lives here. Any user can give one that name, so it must be trusted, or its owner be chosen.

        Its dashboard may be dead while its Ray lives: then no other cluster takes its place.
        """
        followed = self.address or Address("", "")
        same = [session for session in local_sessions(self._poller.parts.hosts) if session.live and session.name == name]
        return any(session.trusted or followed.given or (followed.owner and session.owner == followed.owner) for session in same)

    def _resolve(self, without: Collection[str] = ()) -> None:
        """Follow a Ray of this host, or let a person choose; `without`: sessions that are not meant."""
        self._resolved.set()
        config, host, ours = self._config, self._host, self._poller.parts.slurm_ids
        sessions = [one for one in local_sessions(self._poller.parts.hosts) if one.name not in without]
        # By session: the other Slurm job in which it runs (`?`: not known yet), and the address of its head if only a worker runs here.
        names = {session.name for session in host.sessions or ()} if host else set[str]()
        jobs = {name: job for name in names if host and (job := other_slurm_job(ours, host, name)) is not None}
        heads = {one.name: head for one in sessions if host and (head := head_elsewhere(host, one.name)) is not None}
        given = Address(config.address, config.origins.get("address", "--address"), given=True) if config.address else None
        try:
            found = resolve_address(given, self._env, sessions, self._find_stranger, jobs, heads)
        except InputError as error:
            self._poller.report_fault("address", str(error))
            return
        if found.address is not None:
            self.follow(found.address)
        elif found.choices != self.choices:
            self.choices = found.choices
            if self.choose is not None:
                self.choose(found.choices)

    def _find_stranger(self, port: int) -> str | None:
        """The owner of what listens on the port, if it may be another user's, or another Slurm job's of ours.

        The `/tmp` of another Slurm job may be invisible from here, and with it the session.
        """
        try:
            users = listening_users(port)
        except OSError:
            return "an unknown user"
        if not users <= own_uids():
            return "another user"
        host, ours = self._host, self._poller.parts.slurm_ids
        if not users or not ours:
            return None
        if host is None or "rays" in host.unanswered:
            return "an unknown Slurm job"
        jobs = {ray.slurm for ray in host.rays or () if ray.slurm is not None} - ours
        return f"Slurm job {' and '.join(sorted(jobs))}" if jobs else None


def local_sessions(hosts: Mapping[str, Host]) -> list[Session]:
    """The sessions that this host's probe has listed."""
    return [session for host in hosts.values() if host.local for session in host.sessions or ()]


async def ask_rays(rays: Iterable[OtherRay], clock: Callable[[], float], *, strangers: bool = False) -> tuple[OtherRay, ...]:
    """These Rays, ours first, each asked for its session without a token.

    `strangers`: ask other users' too, only because a person wants it: their owners choose where they listen and what they send.
    """
    listed = sorted(rays, key=lambda ray: (ray.owner is not None, ray.url))
    asked = [ray for ray in listed if strangers or ray.owner is None][:MAX_ASKED]
    return (*await asyncio.gather(*(_ask(ray, clock) for ray in asked)), *(ray for ray in listed if ray not in asked))


async def _ask(ray: OtherRay, clock: Callable[[], float]) -> OtherRay:
    client = RayClient(ray.url, token=lambda: None, peer=Peer(ray.url, given=False), clock=clock, max_bytes=MAX_ANSWER_BYTES)
    try:
        session = await wait_within(OTHER_RAY_NAME_TIMEOUT_S, client.session())
        answers = session in (None, ray.session)  # a Ray before 2.35 does not report its session
    except SourceError as error:
        answers = error.cause == "no token"
    except asyncio.TimeoutError:
        answers = False
    finally:
        await client.close()
    return replace(ray, answers=answers)


async def jobs_by_session(
    followed: RayClient | None,
    others: Sequence[Session],
    token: Callable[[], str | None],
    clock: Callable[[], float],
    why_not: Callable[[str], str | None],
) -> list[SessionJobs]:
    """The jobs of the followed Ray, and of those others that answer. Raises `SourceError` if the followed Ray fails or is not believed.

    `followed`: `None` if it must not be asked. `token`: for the others. `why_not`: why the followed Ray is not believed to be a session.
    """
    first = [_read_jobs(followed, why_not)] if followed is not None else []
    answers = await asyncio.gather(*first, *(_read_jobs_of_other(session, token, clock) for session in others))
    return [answer for answer in answers if answer is not None]


async def _read_jobs_of_other(session: Session, token: Callable[[], str | None], clock: Callable[[], float]) -> SessionJobs | None:
    """`None`: it does not answer, is another session, or may be another user's: its answer decides what is ended."""
    url = session.dashboard or ""
    peer = Peer(url, given=False)
    ray = RayClient(url, token=token, peer=peer, clock=clock)

    def why_not(name: str) -> str | None:  # while the connection is still open
        return peer.why_not_trusted() if name == session.name else f"it is not {session.name}"

    try:
        return await wait_within(OTHER_RAY_TIMEOUT_S, _read_jobs(ray, why_not))
    except (SourceError, asyncio.TimeoutError):
        return None
    finally:
        await ray.close()


async def _read_jobs(ray: RayClient, why_not: Callable[[str], str | None]) -> SessionJobs:
    """A Ray's session and jobs. `why_not`: why it is not believed to be a session."""
    session = await ray.session(decides=True)
    jobs = (await ray.read_jobs(decides=True)).jobs
    if session is None or await ray.session(decides=True) != session:
        raise SourceError("the session that answers there is unknown")
    if (reason := why_not(session)) is not None:
        raise SourceError(f"its list of jobs is not used: {reason}")
    return session, jobs
