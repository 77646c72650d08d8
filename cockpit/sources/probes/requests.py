"""Carries requests to the acting probes of hosts, all at once, and brings back their answers; a host that hangs delays no other."""

from __future__ import annotations

import asyncio
import json
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal

import msgspec

from cockpit.config.reach import THROUGH_RAY, HostEntry
from cockpit.config.settings import Config
from cockpit.secrets import redact
from cockpit.sources.probes.host_probe import why_it_ended
from cockpit.sources.probes.payload import program, program_for
from cockpit.sources.probes.pool import command_to_reach
from cockpit.sources.probes.process import Child, parse_message, start_child
from cockpit.sources.probes.ray_tunnel import RayPlace, RayTask, RayTunnel
from cockpit.sources.probes.spawn import LOCAL_PYTHON, replace_dash
from cockpit.sources.probes.ssh_control import SshControlSockets
from cockpit.sources.source import SourceError, wait_for_event
from cockpit.text import clean

HOSTS_AT_ONCE: Final = 32
"""Hosts at once."""
RAY_WORKER_START_S: Final = 30.0
"""Seconds more that Ray gets: a worker must be started over there, perhaps on a busy node."""
PLAN_TIMEOUT_S, ACT_TIMEOUT_S = 60.0, 3600.0
"""That one host may take, however often it says how far it is: a plan for all hosts waits for the slowest."""
ANSWER_KEYS: Final = frozenset(("targets", "done", "error"))
"""An answer has one of these; a login shell may print JSON too."""
Way = Literal["local", "reach", "ray"]


class Progress(msgspec.Struct, frozen=True):
    """How far a host is: `waiting`, `connecting`, `running` until its probe says more; in the end `answered`, or why there is no answer."""

    text: str
    done: int | None = None
    of: int | None = None


class HostAnswer(msgspec.Struct, frozen=True):
    """What a host has answered, raw: secrets are in it; or one sentence that says why there is no answer."""

    host: str
    way: Way
    reply: Mapping[str, Any] | None = None
    error: str | None = None
    refused: bool = False
    """Its probe was reached, and does nothing of what it was asked."""


class ProbeRefusedError(SourceError):
    """A probe's own word: it does nothing of what it was asked."""


class ProbeRequests:
    """The way to hosts of whoever changes something there; never built when cockpit only looks. Close it at the end."""

    def __init__(
        self,
        config: Config,
        local: str,
        entries: Mapping[str, HostEntry],
        places: Mapping[str, RayPlace] | None = None,
        control_sockets: SshControlSockets | None = None,
    ) -> None:
        """`local` is what this host is called; `entries` says how to reach the others, `places` where they are in a Ray that lives.

        Both may change meanwhile. `control_sockets` are those of the `ProbePool` that looks at the same hosts, and are closed with it.
        """
        self._config, self._local, self._entries = config, local, entries
        self._places, self._control_sockets = {} if places is None else places, control_sockets
        self._tunnels: dict[str, RayTunnel] = {}
        self._closed = False
        self._under_way: set[Child | RayTask] = set()
        self._free = asyncio.Semaphore(HOSTS_AT_ONCE)

    async def send(
        self,
        requests: Mapping[str, Mapping[str, Any]],
        hear: Callable[[str, Progress], None],
        patience: float = 30.0,
    ) -> dict[str, HostAnswer]:
        """Each host's answer; one that says nothing for `patience` seconds is given up. When cancelled it ends every child at once."""
        for host in requests:
            hear(host, Progress("waiting"))
        for command in (LOCAL_PYTHON, replace_dash(shlex.split(self._config.reach))):
            await asyncio.to_thread(program_for, command, (), acting=True)  # packed once, which takes a quarter of a second
        if any(request.get("act") == "stop" for request in requests.values()):
            for tunnel in self._tunnels.values():
                tunnel.close_if_idle()  # it must not pass for a driver that would be lost
        sent = [ProbeRequest(host, request, partial(hear, host), patience) for host, request in requests.items()]
        return {answer.host: answer for answer in await asyncio.gather(*map(self._deliver, sent))}

    def close(self) -> None:
        """End every child at once, also what reaches hosts through Ray, and the connections that are kept open; waits for none."""
        self._closed = True
        for child in self._under_way:
            child.end()
        for tunnel in self._tunnels.values():
            tunnel.close()
        self._tunnels = {}
        if self._control_sockets is not None:
            self._control_sockets.close()

    async def _deliver(self, request: ProbeRequest) -> HostAnswer:
        answer = await self._run(request)
        request.tell(Progress(answer.error or "answered"))
        return answer

    async def _run(self, request: ProbeRequest) -> HostAnswer:
        way: Way = "local" if request.host == self._local else "ray" if self._config.reach == THROUGH_RAY else "reach"
        try:
            return HostAnswer(request.host, way, reply=await self._run_on(request, way))
        except ProbeRefusedError as error:
            return HostAnswer(request.host, way, error=str(error), refused=True)
        except SourceError as error:
            if way != "reach" or request.spoke or not request.through_ray or request.host not in self._places:
                return HostAnswer(request.host, way, error=str(error))
            return await self._run_through_ray(request, str(error))

    async def _run_through_ray(self, request: ProbeRequest, why: str) -> HostAnswer:
        """Where the usual way has failed before a probe spoke. What it said is kept: it is worth mending."""
        try:
            reply = await self._run_on(request, "ray", f"connecting through Ray: {why}")
        except SourceError as error:
            return HostAnswer(request.host, "ray", error=f"{why}; through Ray: {error}", refused=isinstance(error, ProbeRefusedError))
        notes = reply.get("notes")
        return HostAnswer(
            request.host, "ray", reply={**reply, "notes": [*(notes if isinstance(notes, list) else ()), f"{why}; reached through Ray"]}
        )

    async def _run_on(self, request: ProbeRequest, way: Way, words: str = "connecting") -> Mapping[str, Any]:
        async with self._free:
            request.tell(Progress(words))
            child = self._start(request, way)
            self._under_way.add(child)
            try:
                return await request.answer(child, RAY_WORKER_START_S if way == "ray" else 0)
            finally:
                self._under_way.discard(child)
                child.end()

    def _start(self, request: ProbeRequest, way: Way) -> Child | RayTask:
        if self._closed:
            raise SourceError(f"{request.host}: cockpit is closing")
        if way == "ray":
            return self._start_ray_task(request)
        command = self._command(request.host)
        return start_child(request.host, command, request.hear, request.turned.set, program_for(command, request.words, acting=True))

    def _start_ray_task(self, request: ProbeRequest) -> RayTask:
        place = self._places.get(request.host)
        if not request.through_ray:
            raise SourceError(f"{request.host}: this can't be done through Ray, and cockpit has no other way to reach it")
        if place is None:
            raise SourceError(f"{request.host} can't be reached through Ray: it is not a live node of this host's Ray cluster")
        tunnel = self._tunnels.setdefault(place.session, RayTunnel(place.session))
        return tunnel.run(place.node, program(request.words, acting=True), request.hear, request.turned.set)

    def _command(self, host: str) -> Sequence[str]:
        """Never a request: a command line is read by everybody, and by `ray stop`."""
        if host == self._local:
            return LOCAL_PYTHON
        return command_to_reach(host, self._config.reach, self._entries.get(host), self._control_sockets)


class ProbeRequest:
    """One request to one host, and what comes of it."""

    def __init__(self, host: str, request: Mapping[str, Any], tell: Callable[[Progress], None], patience: float) -> None:
        self.host, self.tell = host, tell
        self.words = ("--no-lifeline", "act", json.dumps(request))
        """Those of the probe."""
        self.through_ray = request.get("act") != "stop" and not request.get("env")
        """A Ray can't be stopped through itself; and others may read what its tasks are given, so no environment goes through it."""
        self.spoke = False
        """Whether a probe has said anything: from then on nobody else may be sent with the same request."""
        self.turned = asyncio.Event()
        """Something may be over."""
        self._patience, self._at_most = patience, PLAN_TIMEOUT_S if request.get("stage") == "plan" else ACT_TIMEOUT_S
        self._reply: Mapping[str, Any] | None = None
        self._garbage = ""
        self._heard = 0.0

    async def answer(self, child: Child | RayTask, more_patience: float) -> Mapping[str, Any]:
        """What this child answers; raises `SourceError`."""
        self._heard = began = time.monotonic()
        self._garbage = ""
        while self._reply is None:
            if (code := child.poll_exit()) is not None and self._reply is None:
                child.garbage = self._garbage
                raise SourceError(why_it_ended(self.host, code, child.last_words, spoke=self.spoke))
            now = time.monotonic()
            if now - self._heard > self._patience + more_patience:
                last = f": {child.last_words}" if child.last_words else ""
                raise SourceError(f"{self.host}: timed out, no answer for {now - self._heard:.0f} s{last}")
            if now - began > self._at_most:
                raise SourceError(f"{self.host}: timed out, no result within {self._at_most:.0f} s")
            await wait_for_event(self.turned, 0.05)  # an end makes no sound
            self.turned.clear()
        if isinstance(error := self._reply.get("error"), str):
            raise ProbeRefusedError(f"{self.host}: {redact(clean(error))}")
        return self._reply

    def hear(self, lines: Sequence[bytes]) -> None:
        """Progress, the answer, or what a login shell prints."""
        self._heard = time.monotonic()
        for line in lines:
            said = parse_message(line)
            if said is None:
                self._garbage = line[:300].decode("utf-8", "replace") or self._garbage
                continue
            if not self.spoke:
                self.spoke = True
                self.tell(Progress("running"))
            if isinstance(tell := said.get("tell"), str):
                self.tell(Progress(redact(clean(tell)), _whole_number(said.get("done")), _whole_number(said.get("of"))))
            elif ANSWER_KEYS & said.keys():
                self._reply = said
        self.turned.set()


def _whole_number(said: Any) -> int | None:
    return said if isinstance(said, int) else None
