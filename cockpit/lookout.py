"""Finds the cluster, keeps its sources going, and decides which hosts are looked at."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from cockpit.config import Address, Config, resolve_address
from cockpit.document import InputError
from cockpit.findings import DETECTORS, Judge
from cockpit.model import LEFT_OVER, Actor, Host, Job, Node, Process, Snapshot
from cockpit.poller import Poller
from cockpit.reach import HostEntry, Roster, named_apart
from cockpit.sources.hosts import Hosts, has_told
from cockpit.sources.masters import Masters
from cockpit.sources.ray import LOG_LINES, Ray, find_token
from cockpit.sources.ray_acts import JobActs
from cockpit.sources.ray_reach import Place
from cockpit.sources.sample import Environ, Stacks, answered
from cockpit.sources.source import SourceError, within
from cockpit.text import redact_variable

PATIENCE = 3.0
"""Seconds to wait for this host's own probe to tell of a session, before the default address is asked."""
ONE_LOOK = 60.0
"""Seconds: what settles within a minute is rare enough; what needs longer to be sure of takes somebody who watches."""
OTHERS = 2.0
"""Seconds that a Ray that is not followed gets to say which jobs run."""
INTERVALS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
LOCAL = ("127.", "::1", "localhost")


class Lookout:
    """One cluster and its hosts, watched until closed. Publishes snapshots; asks nobody twice at once."""

    def __init__(
        self,
        config: Config,
        publish: Callable[[Snapshot], None],
        *,
        env: Mapping[str, str] = os.environ,
        early: subprocess.Popen[bytes] | None = None,
        clock: Callable[[], float] = time.time,
        once: bool = False,
        everywhere: bool = False,
    ) -> None:
        """`once`: a single look, for which what is seen is taken to have been so for a while; `everywhere`: at every host there is."""
        self.config, self.env, self.clock = config, env, clock
        self.token: Callable[[], str | None] = find_token
        self.choose: Callable[[tuple[Address, ...]], object] | None = None
        """Called when several live sessions are found here; whoever chooses calls `follow`."""
        self.ending: list[Callable[[], None]] = []
        """What ends together with this."""
        self.interval = config.interval
        expected = tuple((entry.name, entry.target) for entry in config.hosts)
        judge = Judge(config.limits, DETECTORS, assumed=ONE_LOOK if once else 0.0)
        self.poller = Poller(self._published, expected=expected, judge=judge, clock=clock)
        self._everywhere = everywhere
        self.address: Address | None = None
        self.asked: tuple[Address, ...] = ()
        """The addresses among which somebody must choose."""
        self._publish = publish
        self._ray: Ray | None = None
        self._hosts = Hosts(config, self, early=early, clock=clock)
        self._roster = Roster(config.hosts)
        self._told = asyncio.Event()
        self._looking = False

    async def run(self) -> None:
        """Look until cancelled."""
        self._looking = True
        try:
            await asyncio.gather(self._hosts.run(), self.poller.run(), self._find())
        finally:
            self._looking = False

    def close(self) -> None:
        """End every child at once, and whatever else stands on this; waits for nothing."""
        for end in self.ending:
            end()
        self._hosts.close()

    def refresh(self) -> None:
        """Ask everything again now."""
        self.poller.refresh()
        self._hosts.refresh()

    def pace(self, step: int) -> float:
        """Look at this host so many steps oftener (-1) or less often (1); answers with the new interval."""
        nearest = min(range(len(INTERVALS)), key=lambda number: abs(INTERVALS[number] - self.interval))
        self.interval = INTERVALS[max(0, min(len(INTERVALS) - 1, nearest + step))]
        self._hosts.set_interval(self.interval)
        return self.interval

    def complete(self) -> bool:
        """Whether everything that is asked has answered or failed."""
        probed = self._full() or ("probe", self._hosts.local) in self.poller.parts.faults
        if self._everywhere and not all(map(self._heard, self._targets(self.poller.snapshot))):
            return False
        if self._ray is None:
            return bool(self.asked) and probed
        names = {source.name for source in self._ray.sources}
        return probed and (
            names <= self.poller.answered or ("ray.identity" in self.poller.answered and not self.poller.parts.cluster.reachable)
        )

    def _heard(self, host: str) -> bool:
        """Whether another host's probe has seen its processes and GPUs, or can't be reached."""
        known = self.poller.parts.hosts.get(host)
        told = known is not None and has_told(known, self.poller.parts.nodes, self.clock())
        return told or ("probe", host) in self.poller.parts.faults

    async def known(self, patience: float = 8.0) -> None:
        """While it looks, wait until everybody who is asked has been heard once, but not longer than that; it is in the snapshot then."""
        if self.complete() or not self._looking:
            return
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline and not self._knows():
            await self.poller.change(deadline - time.monotonic())
        self.poller.rejoin()

    def _knows(self) -> bool:
        """Whether it is complete with what was heard last: hosts of which Ray has told only now are to be looked at too."""
        if self.complete():
            self.poller.rejoin()
        return self.complete()

    def silent(self) -> set[str]:
        """Sources of a dashboard that is there, which have neither answered nor failed yet."""
        if self._ray is None or self.poller.parts.cluster.reachable is False:
            return set()
        return {source.name for source in self._ray.sources} - self.poller.answered

    def _full(self) -> bool:
        """Whether this host's probe has seen its processes: a first sample may come before them."""
        host = next((host for host in self.poller.parts.hosts.values() if host.local), None)
        return host is not None and host.sessions is not None and has_told(host, self.poller.parts.nodes, self.clock())

    # Which cluster

    async def _find(self) -> None:
        """The address that was given, or else the dashboard of the session that lives here."""
        if not (self.config.address or self.env.get("RAY_API_SERVER_ADDRESS") or self.env.get("RAY_ADDRESS", "").startswith("http")):
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._told.wait(), PATIENCE)
        self._resolve()

    def _resolve(self) -> None:
        try:
            found = resolve_address(self.config, self.env, self._own_sessions())
        except InputError as error:
            self.poller.doubt("address", str(error))
            return
        if len(found) == 1:
            self.follow(found[0])
        elif found != self.asked:
            self.asked = found
            if self.choose is not None:
                self.choose(found)

    def _own_sessions(self) -> Iterable[Any]:
        return [session for host in self.poller.parts.hosts.values() if host.local for session in host.sessions or ()]

    def follow(self, address: Address) -> None:
        """Ask this dashboard from now on."""
        if self.address is not None and self.address.url == address.url:
            self.address = address
            return
        if self._ray is not None:
            self.poller.leave()
            self._closing = asyncio.ensure_future(self._ray.close())
        self.address = address
        self._ray = Ray(address.url, token=lambda: self.token(), clock=self.clock)
        self.poller.watch(self._ray, self._ray.address)

    def _moved(self) -> None:
        """Where the session that we follow has its dashboard now; another session only when ours is dead, or was only a guess."""
        if self.address is None:
            return
        here = {session.name: session for session in self._own_sessions() if session.live and session.dashboard}
        lost = self.poller.parts.cluster.reachable is False
        ours = here.get(self.address.origin)
        if ours is not None and ours.dashboard:
            if lost:
                self.follow(Address(ours.dashboard, ours.name))
        elif (
            here
            and not self._alive(self.address.origin)
            and (self.address.origin == "default" or (lost and self.address.origin.startswith("session")))
        ):
            self._resolve()

    def _alive(self, name: str) -> bool:
        """Its dashboard may be dead while its Ray lives: then no other cluster takes its place."""
        return any(session.live and session.name == name for session in self._own_sessions())

    # Which hosts

    def hear(self, host: Host) -> None:
        """A probe has spoken."""
        self.poller.hear(host)
        if host.local and host.sessions is not None:
            self._told.set()
            self._moved()

    def lose(self, host: str) -> None:
        """A host is not looked at any more."""
        self.poller.lose(host)

    def doubt(self, source: str, text: str, host: str | None = None) -> None:
        """A probe can't be believed."""
        self.poller.doubt(source, text, host)
        if host == self._hosts.local:
            self._told.set()

    def trust(self, source: str, host: str | None = None) -> None:
        """A probe speaks well again."""
        self.poller.trust(source, host)

    def _published(self, snapshot: Snapshot) -> None:
        self._publish(snapshot)
        if self.config.probe_hosts != "never":
            self._hosts.want(self._targets(snapshot))

    def _targets(self, snapshot: Snapshot) -> dict[str, HostEntry]:
        """Other hosts that matter now: Ray is down there, or a GPU process there has no known owner."""
        if self._everywhere:
            return self.others()
        near = {address for host in snapshot.hosts.values() if host.local for address in (host.name, *host.addresses)}
        down = snapshot.cluster.reachable is False
        suspects = {process.node for process in snapshot.processes or () if _suspect(process)}
        nodes = [node for node in snapshot.nodes or () if node.id and (down or node.state != "ALIVE" or node.id in suspects)]
        wanted = {entry.name: entry for entry in self._entries(nodes, snapshot) if not self._is_near(entry, near)}
        if down or self.config.probe_hosts == "always":
            wanted.update({entry.name: entry for entry in self.config.hosts if not self._is_near(entry, near)})
        return wanted

    @property
    def undecided(self) -> tuple[Address, ...]:
        """Several live sessions, as long as nobody has chosen one."""
        return self.asked if self.address is None else ()

    @property
    def local(self) -> str:
        """What this host is called."""
        return self._hosts.local

    def others(self) -> dict[str, HostEntry]:
        """Every other host there is: those of the config, and Ray's nodes; one that has died only where no other has taken its name."""
        snapshot = self.poller.snapshot
        near = {address for host in snapshot.hosts.values() if host.local for address in (host.name, *host.addresses)} | {self.local}
        nodes = sorted((node for node in snapshot.nodes or () if node.id), key=lambda node: node.state != "ALIVE")
        alive = {node.title for node in nodes if node.state == "ALIVE"}
        entries = [
            *self.config.hosts,
            *self._entries([node for node in nodes if node.state == "ALIVE" or node.title not in alive], snapshot),
        ]
        reached: dict[str, HostEntry] = {}
        for entry in entries:
            if not self._is_near(entry, near):
                reached.setdefault(entry.target, entry)
        return named_apart(reached.values())

    def places(self) -> dict[str, Place]:
        """Where hosts are in the Ray that is followed, if it lives on this host too: then there is another way to them."""
        cluster, nodes = self.poller.snapshot.cluster, self.poller.snapshot.nodes or ()
        if not cluster.session or not self._alive(cluster.session):
            return {}
        names = {entry.target: name for name, entry in self.others().items()}
        alive = [(self._roster.entry(node).target, node.id) for node in nodes if node.id and node.state == "ALIVE"]
        return {names[target]: Place(cluster.session, node) for target, node in alive if target in names}

    @property
    def masters(self) -> Masters:
        """The connections to hosts that are kept open while this lives."""
        return self._hosts.masters

    def _is_near(self, entry: HostEntry, near: set[str]) -> bool:
        return entry.target in near or entry.target.startswith(LOCAL)

    def _entries(self, nodes: Sequence[Node], snapshot: Snapshot) -> Iterator[HostEntry]:
        """Ray forgets how the hosts of dead nodes are called: where a node lives there again, the host is reached as that one's."""
        living = {node.ip: node for node in snapshot.nodes or () if node.state == "ALIVE" and node.ip}
        return (self._roster.entry(node if node.state == "ALIVE" else living.get(node.ip, node)) for node in nodes)

    # Asked for by a person

    async def dead_actors(self) -> tuple[Actor, ...]:
        """Dead actors with their cause. Raises `SourceError`."""
        return await self._asked().dead_actors()

    async def node_processes(self, node: str) -> tuple[Process, ...]:
        """Ray's own processes on a node, up to half a minute old, for when no probe looks there. Raises `SourceError`."""
        return await self._asked().node_processes(node)

    async def jobs(self) -> tuple[Job, ...]:
        """Jobs as Ray knows them now. Raises `SourceError`."""
        return (await self._asked().read_jobs()).jobs

    async def words(self) -> list[tuple[str, tuple[Job, ...]]]:
        """Jobs by session: of the Ray that is followed, and of each other that lives here and answers. Raises `SourceError`.

        What a job has left may show nothing of its session: it is nobody's only when all of them have been asked.
        """
        followed = [self._word(self._ray)] if self._ray is not None else []
        told = await asyncio.gather(*followed, *map(self._others_word, self._others()))
        return [word for word in told if word is not None]

    def _others(self) -> Sequence[str]:
        """The dashboards of the sessions that live here and are not followed."""
        ours = {*(self.address or ())}
        return [one.dashboard for one in self._own_sessions() if one.live and one.dashboard and ours.isdisjoint((one.dashboard, one.name))]

    async def _others_word(self, url: str) -> tuple[str, tuple[Job, ...]] | None:
        """`None` when it is silent. A token is for the Ray that is followed, and others may be anybody's."""
        ray = Ray(url, token=find_token if self._ray is None else lambda: None, clock=self.clock)
        try:
            return await within(OTHERS, self._word(ray))
        except (SourceError, asyncio.TimeoutError):
            return None
        finally:
            await ray.close()

    async def _word(self, ray: Ray) -> tuple[str, tuple[Job, ...]]:
        session = await ray.session()
        jobs = (await ray.read_jobs()).jobs
        if session is None or await ray.session() != session:
            raise SourceError("which session answers there is not known")
        return session, jobs

    def job_acts(self) -> JobActs:
        """What may be done to jobs. Raises `SourceError` where no dashboard is known."""
        return self._asked().job_acts()

    def follow_log(self, job: str, lines: int = LOG_LINES) -> AsyncIterator[Sequence[str]]:
        """The log of a job, from its last lines on, in batches until it is over. Raises `SourceError` as it is read."""
        return self._asked().follow_log(job, lines)

    def _asked(self) -> Ray:
        if self._ray is None:
            raise SourceError("no Ray dashboard is known yet")
        return self._ray

    async def environment(self, process: Process) -> list[str]:
        """The process's environment as `NAME=value`, sorted, secrets hidden. Raises `SourceError`."""
        if process.ticks is None:
            raise SourceError(f"no probe has looked at process {process.pid}, so it can't be told from one that took its pid")
        answer = await self._hosts.ask(process.host, ("environ", str(process.pid), str(process.ticks)))
        found = answered(answer, Environ, process.host).environ
        return sorted(f"{name}={redact_variable(name, value)}" for name, value in found.items())

    async def stack(self, process: Process) -> Stacks:
        """The Python stacks of a process, as its host's probe answers. Raises `SourceError`.

        Of one that only Ray has told of, its pid must do: Ray counts pids as the probe over there does, or the answer's command shows it.
        """
        home = next((node for node in self.poller.snapshot.nodes or () if node.id and node.id == process.node), None)
        words = ("stack", str(process.pid), str(process.ticks or 0))
        answer = await self._hosts.ask(process.host, words, self._roster.entry(home) if home else None)
        return answered(answer, Stacks, process.host)


def _suspect(process: Process) -> bool:
    """Ray doesn't vouch for it. What a probe has made of it since is no reason to look away: then it would be unknown again."""
    return process.kind in _SUSPECT or (process.kind not in _VOUCHED and bool(process.gpus))


_VOUCHED = frozenset(["worker", "driver"])
_SUSPECT = frozenset(["unknown", *LEFT_OVER])


async def look_once(config: Config, *, env: Mapping[str, str] = os.environ, patience: float = 8.0, everywhere: bool = False) -> Lookout:
    """Everything that can be known within `patience` seconds; its poller holds the snapshot. Close it afterwards."""
    lookout = Lookout(config, lambda _: None, env=env, once=True, everywhere=everywhere)
    task = asyncio.ensure_future(lookout.run())
    try:
        await asyncio.wait([task, knowing := asyncio.ensure_future(lookout.known(patience))], return_when=asyncio.FIRST_COMPLETED)
        knowing.cancel()
    finally:
        lookout.close()
        task.cancel()
    for silent in lookout.silent():
        lookout.poller.doubt(silent, f"has not answered within {patience:.0f} s")
    lookout.poller.rejoin()
    return lookout
