"""Which Ray is followed: that at the given address, or that of the session that lives here; and what the other Rays here answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from urllib.parse import urlsplit

from msgspec.structs import replace

from cockpit.bug import bug
from cockpit.config.address import Address, resolve_address
from cockpit.config.document import InputError
from cockpit.config.settings import Config
from cockpit.findings.rays_here import head_elsewhere, other_slurm_job, rays_on
from cockpit.model import Host, Job, OtherRay, Session, Snapshot
from cockpit.monitor.poller import Poller
from cockpit.sockets import listening_users
from cockpit.sources.ray.client import RayClient
from cockpit.sources.source import SourceError, wait_within
from cockpit.trust import Peer, find_token, own_uids

LOCAL_PROBE_TIMEOUT_S = 3.0
"""How long this host's own probe may take to tell of its sessions, before the default address is asked."""
OTHERS_INTERVAL_S = 10.0
"""Seconds between two questions to the other Rays on this host, while nothing answers at the address."""


class ClusterChoice:
    """Listens to snapshots; gives the poller another dashboard to ask when the followed session has moved, or another took its place."""

    def __init__(self, config: Config, env: Mapping[str, str], poller: Poller, local: str) -> None:
        """`local` is what this host is called."""
        self.token: Callable[[], str | None] = find_token
        """Of the Ray that is followed."""
        self.choose: Callable[[tuple[Address, ...]], object] | None = None
        """Called when several live sessions are found here; whoever chooses calls `follow`."""
        self.address: Address | None = None
        """Of the dashboard that is followed."""
        self.choices: tuple[Address, ...] = ()
        """The addresses among which somebody must choose."""
        self.ray: RayClient | None = None
        self._config, self._env, self._poller, self._local = config, env, poller, local
        self._peer: Peer | None = None
        self._resolved = asyncio.Event()
        self._heard: tuple[Host | None, bool] = (None, False)
        """This host, and whether the dashboard was lost, as of the last snapshot."""
        self._beside: frozenset[str] = frozenset()
        """Sessions that lived here together with the followed one: none of them is that Ray started again."""
        self._closing: asyncio.Future[None] | None = None
        self._asking: asyncio.Future[None] | None = None
        self._asked_at = 0.0

    async def run(self) -> None:
        """Choose once: at once where an address is given, else when the local probe has told of its sessions, or takes too long."""
        if not (self._config.address or self._env.get("RAY_API_SERVER_ADDRESS") or self._env.get("RAY_ADDRESS", "").startswith("http")):
            with suppress(asyncio.TimeoutError):
                await wait_within(LOCAL_PROBE_TIMEOUT_S, self._resolved.wait())
        if not self._resolved.is_set():
            self._resolve()

    def hear(self, snapshot: Snapshot) -> None:
        """Follow the session to where its dashboard is now.

        Another session is followed only where no person has chosen one, the followed one is dead, and the other has been started since.
        """
        local = next((host for host in snapshot.hosts.values() if host.local), None)
        told = local is not None and local.sessions is not None and not (self._poller.parts.slurm_ids and "rays" in local.unanswered)
        failed = any(fault.source == "probe" and fault.host == self._local for fault in snapshot.faults)
        before, self._heard = self._heard, (local, self._is_lost(snapshot))
        if not self._resolved.is_set():
            if told or failed:
                self._resolve()
        elif told and (before[0] is not local or before[1] != self._heard[1]):
            self._note_sessions(snapshot)
            self._follow_moved(local_sessions(snapshot.hosts), lost=self._heard[1])
        if self.is_astray and (self._asking is None or (self._asking.done() and self._poller.clock() - self._asked_at > OTHERS_INTERVAL_S)):
            self._asked_at, self._asking = self._poller.clock(), asyncio.ensure_future(self._look_around())

    @property
    def is_astray(self) -> bool:
        """Whether nothing has ever answered at the address, and this host has told of its sessions."""
        cluster, hosts = self._poller.parts.cluster, self._poller.parts.hosts
        told = any(host.local and host.sessions is not None for host in hosts.values())
        return cluster.reachable is False and cluster.session is None and told

    async def find_others(self, *, strangers: bool = True) -> tuple[OtherRay, ...]:
        """The other Rays that live on this host, asked now whether they answer; other users' only because a person wants to know."""
        local, _ = self._heard
        rays = [ray for ray in (rays_on(local) if local else ()) if not self._is_followed(ray)]
        return await ask_rays(rays, self._poller.clock, strangers=strangers)

    @property
    def _origin(self) -> str:
        """How the followed address is known, which may be the name of a session; empty while there is none."""
        return self.address.origin if self.address is not None else ""

    def _is_followed(self, ray: OtherRay) -> bool:
        """By its session; by its address only where the session that is followed has not been told."""
        followed = self._origin if self._origin.startswith("session") else self._poller.parts.cluster.session
        return ray.session == followed if followed else self.address is not None and ray.url == self.address.url

    async def find_answering(self, addresses: Iterable[Address]) -> tuple[Address, ...]:
        """Those of them at which their Ray answers now; other users' as they are: nobody has chosen to ask them yet."""
        asked = await ask_rays([OtherRay(one.url, one.origin, one.owner) for one in addresses], self._poller.clock)
        silent = {ray.url for ray in asked if ray.answers is False}
        return tuple(one for one in addresses if one.url not in silent)

    async def _look_around(self) -> None:
        address = self.address
        try:
            others = await self.find_others(strangers=False)
        except Exception as error:  # noqa: BLE001 nobody waits for it: what isn't said here is never seen
            self._poller.report_fault("cockpit", bug(error))
            return
        if self.address is address and self.is_astray:
            self._poller.set_other_rays(others)

    def follow(self, address: Address) -> None:
        """Ask this dashboard from now on; where its session was chosen, only as long as that one answers there."""
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
        """Why the session that answers is not the one that a person has chosen. Ray before 2.35 does not say which it is."""
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
        """Why the Ray that is followed gets no secrets, and its word ends nothing; `None`: it is trusted."""
        return self._peer.why_not_trusted() if self._peer is not None else "no Ray is followed"

    def why_not_session(self, name: str) -> str | None:
        """Why the Ray that is followed is not the session that it calls itself: one that lives on this host has a dashboard of its own."""
        live = [one for one in local_sessions(self._poller.parts.hosts) if one.live and one.dashboard and one.name == name]
        own = [one for one in live if self._is_served_by(one)]
        return f"it calls itself {name}, but that session's dashboard on this host is {live[0].dashboard}" if live and not own else None

    def why_not_believed(self, name: str) -> str | None:
        """Why what the Ray that is followed says as that session ends nothing."""
        return self.why_not_trusted() or self.why_not_session(name)

    def _is_served_by(self, session: Session) -> bool:
        peer, port = self._peer, urlsplit(session.dashboard or "").port
        return peer is not None and peer.is_at(port) and (peer.is_ours() or not session.trusted)

    def is_alive(self, name: str) -> bool:
        """Whether a session of that name lives here; anybody may give one that name, so that it must be trusted, or its owner be chosen.

        Its dashboard may be dead while its Ray lives: then no other cluster takes its place.
        """
        followed = self.address or Address("", "")
        same = [session for session in local_sessions(self._poller.parts.hosts) if session.live and session.name == name]
        return any(session.trusted or followed.given or (followed.owner and session.owner == followed.owner) for session in same)

    def _resolve(self, without: Collection[str] = ()) -> None:
        """Follow a Ray of this host, or have a person choose; none of these sessions is meant."""
        self._resolved.set()
        try:
            sessions = [one for one in local_sessions(self._poller.parts.hosts) if one.name not in without]
            jobs = self._other_jobs()
            local, _ = self._heard
            heads = {one.name: head for one in sessions if local and (head := head_elsewhere(local, one.name)) is not None}
            config = self._config
            given = Address(config.address, config.origins.get("address", "--address"), given=True) if config.address else None
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

    def _other_jobs(self) -> dict[str, str]:
        """By session, the Slurm job in which it runs here, where that is another than ours; `?`: not known yet."""
        ours, (local, _) = self._poller.parts.slurm_ids, self._heard
        names = {session.name for session in local.sessions or ()} if local else set()
        return {name: its for name in names if local and (its := other_slurm_job(ours, local, name)) is not None}

    def _find_stranger(self, port: int) -> str | None:
        """Whose it may be who listens there: another user's, or another Slurm job's of ours, whose `/tmp` need not be seen from here."""
        try:
            users, (local, _) = listening_users(port), self._heard
        except OSError:
            return "an unknown user"
        if not users <= own_uids():
            return "another user"
        ours = self._poller.parts.slurm_ids
        if users and ours and (local is None or "rays" in local.unanswered):
            return "an unknown Slurm job"
        jobs = {ray.slurm for ray in (local.rays if local and ours else None) or () if ray.slurm is not None} - ours
        return f"Slurm job {' and '.join(sorted(jobs))}" if users and jobs else None

    def _is_lost(self, snapshot: Snapshot) -> bool:
        """A snapshot that was begun before the last change of address tells of the other dashboard."""
        return snapshot.cluster.reachable is False and snapshot.cluster.address == self._poller.parts.cluster.address

    def _note_sessions(self, snapshot: Snapshot) -> None:
        """Which session is followed where it was started again at its address, and which live beside it."""
        address, sessions = self.address, local_sessions(snapshot.hosts)
        if address is None or address.chosen or not address.origin.startswith("session"):
            return
        now = snapshot.cluster.session if snapshot.cluster.address == self._poller.parts.cluster.address else None
        here = [(one.name, one.dashboard) for one in sessions if one.live and one.trusted]
        if now not in (None, address.origin) and (now, address.url) in here:
            self.address, self._beside = replace(address, origin=now), frozenset()
        elif self.is_alive(address.origin):
            self._beside |= {one.name for one in sessions if one.live} - {address.origin}

    def _follow_moved(self, sessions: Iterable[Session], *, lost: bool) -> None:
        if self.address is None:
            return
        chosen = self.address.owner
        followable = [session for session in sessions if session.trusted or (chosen and session.owner == chosen)]
        here = {session.name: session for session in followable if session.live and session.dashboard}
        origin = self.address.origin
        same = here.get(origin)
        if same is not None and same.dashboard:
            if lost:
                self.follow(replace(self.address, url=same.dashboard, given=False))
        elif self.address.chosen or self.is_alive(origin):
            return
        elif (origin == "default" or (lost and origin.startswith("session"))) and here.keys() - self._beside:
            self._resolve(without=self._beside)


def local_sessions(hosts: Mapping[str, Host]) -> list[Session]:
    """The sessions on this host, as far as its probe has told."""
    return [session for host in hosts.values() if host.local for session in host.sessions or ()]


MAX_ASKED = 16
"""Rays asked at once: anybody can start what looks like thousands."""
MAX_ANSWER_BYTES = 64 << 10
"""Of which it is a few hundred where a Ray answers."""


async def ask_rays(rays: Iterable[OtherRay], clock: Callable[[], float], *, strangers: bool = False) -> tuple[OtherRay, ...]:
    """The same, our own first, each asked who it is; nobody is sent a token for that.

    Other users' are asked only where a person wants it (`strangers`): they listen where their owner chooses, and send what he likes.
    """
    listed = sorted(rays, key=lambda ray: (ray.owner is not None, ray.url))
    asked = [ray for ray in listed if strangers or ray.owner is None][:MAX_ASKED]
    return (*await asyncio.gather(*(_ask(ray, clock) for ray in asked)), *(ray for ray in listed if ray not in asked))


async def _ask(ray: OtherRay, clock: Callable[[], float]) -> OtherRay:
    client = RayClient(ray.url, token=lambda: None, peer=Peer(ray.url, given=False), clock=clock, max_bytes=MAX_ANSWER_BYTES)
    try:
        session = await wait_within(OTHER_RAY_NAME_TIMEOUT_S, client.session())
        answers = session in (None, ray.session)  # an old Ray does not tell it
    except SourceError as error:
        answers = error.cause == "no token"
    except asyncio.TimeoutError:
        answers = False
    finally:
        await client.close()
    return replace(ray, answers=answers)


OTHER_RAY_TIMEOUT_S, OTHER_RAY_NAME_TIMEOUT_S = 2.0, 4.0
"""Seconds that a Ray that is not followed may take to say which jobs it has; and to say which session it is, for which nothing waits but
the word whether it answers: on a busy host that must not change from look to look."""
Token = Callable[[], str | None]
SessionJobs = tuple[str, tuple[Job, ...]]
"""A session's name, and the jobs of its Ray."""


async def jobs_by_session(
    followed: RayClient | None, others: Sequence[Session], token: Token, clock: Callable[[], float], why_not: Callable[[str], str | None]
) -> list[SessionJobs]:
    """Of the Ray that is followed, `None` where that is not to be asked, and of those others that answer.

    `token` is for the others. `why_not`: why the followed one's word is not that session's. Raises `SourceError` when that one doesn't
    answer, or is not believed.
    """
    mine = [_read_jobs_of_followed(followed, why_not)] if followed is not None else []
    answers = await asyncio.gather(*mine, *(_read_jobs_of_other(session, token, clock) for session in others))
    return [answer for answer in answers if answer is not None]


async def _read_jobs_of_followed(ray: RayClient, why_not: Callable[[str], str | None]) -> SessionJobs:
    session, jobs = await _read_jobs(ray)
    if (reason := why_not(session)) is not None:
        raise SourceError(f"its list of jobs is not used: {reason}")
    return session, jobs


async def _read_jobs_of_other(session: Session, token: Token, clock: Callable[[], float]) -> SessionJobs | None:
    """`None` when it is silent, says that it is another one, or may be another user's: its word decides what is ended."""
    url = session.dashboard or ""
    peer = Peer(url, given=False)
    ray = RayClient(url, token=token, peer=peer, clock=clock)
    try:
        answer = await wait_within(OTHER_RAY_TIMEOUT_S, _read_jobs(ray))
        return answer if answer[0] == session.name and peer.why_not_trusted() is None else None  # the connection is still open
    except (SourceError, asyncio.TimeoutError):
        return None
    finally:
        await ray.close()


async def _read_jobs(ray: RayClient) -> SessionJobs:
    session = await ray.session()
    jobs = (await ray.read_jobs()).jobs
    if session is None or await ray.session() != session:
        raise SourceError("the session that answers there is unknown")
    return session, jobs
