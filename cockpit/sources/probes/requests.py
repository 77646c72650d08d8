"""Sends requests to the acting probes of many hosts at once, and collects their answers; a host that hangs delays no other."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from cockpit.config.reach import THROUGH_RAY, HostEntry
from cockpit.config.settings import Config
from cockpit.secrets import redact
from cockpit.sources.probes.host_probe import why_it_ended
from cockpit.sources.probes.payload import program
from cockpit.sources.probes.pool import command_to_reach
from cockpit.sources.probes.process import Child, parse_message, start_child
from cockpit.sources.probes.ray_tunnel import RayPlace, RayTask, RayTunnel
from cockpit.sources.probes.spawn import LOCAL_PYTHON
from cockpit.sources.probes.ssh_control import SshControlSockets
from cockpit.sources.source import SourceError, wait_for_event
from cockpit.text import clean

HOSTS_AT_ONCE: Final = 32
RAY_WORKER_START_S: Final = 30.0
"""The additional time before an answer through Ray: a worker must be started there, perhaps on a busy node."""
PLAN_TIMEOUT_S, ACTION_TIMEOUT_S = 60.0, 3600.0
"""The longest time until an answer, even if the host reports progress: a plan for all hosts waits for the slowest one."""
ANSWER_KEYS: Final = frozenset(("targets", "done", "error"))
"""An answer has one of these keys; a login shell may print JSON too."""


class Progress(msgspec.Struct, frozen=True):
    """The progress on one host: `waiting`, `connecting`, `running`, the probe's own reports; at the end `answered` or an error."""

    text: str
    done: int | None = None
    of: int | None = None


class HostAnswer(msgspec.Struct, frozen=True):
    """The raw answer of a host, with secrets in it; or one sentence that says why there is none."""

    host: str
    reply: Mapping[str, Any] | None = None
    error: str | None = None
    refused: bool = False
    """The probe has answered that it does nothing of the request."""


class ProbeRefusedError(SourceError):
    """The probe has answered that it does nothing of the request."""


class ProbeRequests:
    """Sends requests that change something on hosts; not built when cockpit only reads. Close it at the end."""

    def __init__(
        self,
        config: Config,
        local: str,
        entries: Mapping[str, HostEntry],
        places: Mapping[str, RayPlace] | None = None,
        control_sockets: SshControlSockets | None = None,
    ) -> None:
        """`local` is the name of this host; `entries` says how to reach other hosts, `places` where they are in a live Ray cluster.

        Both mappings may change later. `control_sockets` are the sockets of the `ProbePool` for the same hosts; `close` closes them too.
        """
        self._config, self._local, self._entries = config, local, entries
        self._places, self._control_sockets = {} if places is None else places, control_sockets
        self._tunnels: dict[str, RayTunnel] = {}
        self._closed = False
        self._running: set[Child | RayTask] = set()
        self._free = asyncio.Semaphore(HOSTS_AT_ONCE)

    async def send(
        self,
        requests: Mapping[str, Mapping[str, Any]],
        on_progress: Callable[[str, Progress], None],
        patience: float = 30.0,
        *,
        allows_ray: bool,
    ) -> dict[str, HostAnswer]:
        """Send a request to each host and return the answers by host. A cancellation kills every child at once.

        A host that is silent for `patience` seconds gets an error as its answer. Requests that end Ray itself must not be sent through it:
        `allows_ray` is false for them.
        """
        for host in requests:
            on_progress(host, Progress("waiting"))
        # Pack the program now, in a thread, since that takes a tenth of a second. It is cached.
        await asyncio.to_thread(program, (), acting=True)
        # An idle tunnel is a driver of the Ray that will be stopped; the plan must not list it as a loss.
        if not allows_ray:
            for tunnel in self._tunnels.values():
                tunnel.close_if_idle()
        sent = [ProbeRequest(host, request, partial(on_progress, host), patience, allows_ray) for host, request in requests.items()]
        return {answer.host: answer for answer in await asyncio.gather(*map(self._deliver, sent))}

    def close(self) -> None:
        """Kill every child at once, the tunnels through Ray too, and close the open ssh connections; waits for none of them."""
        self._closed = True
        for child in self._running:
            child.end()
        for tunnel in self._tunnels.values():
            tunnel.close()
        self._tunnels = {}
        if self._control_sockets is not None:
            self._control_sockets.close()

    async def _deliver(self, request: ProbeRequest) -> HostAnswer:
        """Send the request the usual way; if that fails, through Ray. Then the answer names the error of the usual way too."""
        host, why = request.host, ""
        uses_ray = self._config.reach == THROUGH_RAY and host != self._local
        try:
            try:
                answer = HostAnswer(host, await self._run(request, "connecting", uses_ray=uses_ray))
            except SourceError as error:
                # Once a probe has spoken it may have acted, so the request must not be sent a second time.
                if uses_ray or host == self._local or request.spoke or not request.allows_ray or host not in self._places:
                    raise
                why = str(error)
                reply = await self._run(request, f"connecting through Ray: {why}", uses_ray=True)
                notes = reply.get("notes")
                notes = [*(notes if isinstance(notes, list) else ()), f"{why}; reached through Ray"]
                answer = HostAnswer(host, {**reply, "notes": notes})
        except SourceError as error:
            text = f"{why}; through Ray: {error}" if why else str(error)
            answer = HostAnswer(host, error=text, refused=isinstance(error, ProbeRefusedError))
        request.on_progress(Progress(answer.error or "answered"))
        return answer

    async def _run(self, request: ProbeRequest, progress: str, *, uses_ray: bool) -> Mapping[str, Any]:
        async with self._free:
            request.on_progress(Progress(progress))
            child = self._start(request, uses_ray=uses_ray)
            self._running.add(child)
            try:
                return await request.wait_for_answer(child, RAY_WORKER_START_S if uses_ray else 0)
            finally:
                self._running.discard(child)
                child.end()

    def _start(self, request: ProbeRequest, *, uses_ray: bool) -> Child | RayTask:
        host = request.host
        if self._closed:
            raise SourceError(f"{host}: cockpit is closing")
        if uses_ray:
            place = self._places.get(host)
            if not request.allows_ray:
                raise SourceError(f"{host}: this can't be done through Ray, and cockpit has no other way to reach it")
            if place is None:
                raise SourceError(f"{host} can't be reached through Ray: it is not a live node of this host's Ray cluster")
            tunnel = self._tunnels.setdefault(place.session, RayTunnel(place.session))
            return tunnel.run(place.node, program(request.words, acting=True), request.on_lines, request.changed.set)
        # The request is part of the program on stdin: everybody can read a command line, and `ray stop` kills by the words in it.
        command: Sequence[str] = LOCAL_PYTHON
        if host != self._local:
            command = command_to_reach(host, self._config.reach, self._entries.get(host), self._control_sockets)
        return start_child(host, command, request.on_lines, request.changed.set, program(request.words, acting=True))


class ProbeRequest:
    """One request to one host, and the state of its answer."""

    def __init__(
        self, host: str, request: Mapping[str, Any], on_progress: Callable[[Progress], None], patience: float, allows_ray: bool
    ) -> None:
        self.host, self.on_progress = host, on_progress
        self.words = ("--no-lifeline", "act", json.dumps(request))
        """The arguments of the probe."""
        self.allows_ray = allows_ray and not request.get("env")
        """Whether it may be sent through Ray: not with an environment, since others can read the data of a task."""
        self.spoke = False
        """Whether a probe has sent anything."""
        self.changed = asyncio.Event()
        """Set when lines have come or the child may have ended."""
        self._patience, self._timeout_s = patience, PLAN_TIMEOUT_S if request.get("stage") == "plan" else ACTION_TIMEOUT_S
        self._reply: Mapping[str, Any] | None = None
        self._garbage = ""
        self._last_line_at = 0.0

    async def wait_for_answer(self, child: Child | RayTask, more_patience: float) -> Mapping[str, Any]:
        """The answer that this child sends. Raises `SourceError`."""
        self._last_line_at = began = time.monotonic()
        self._garbage = ""
        while self._reply is None:
            if (code := child.poll_exit()) is not None and self._reply is None:
                child.garbage = self._garbage
                raise SourceError(why_it_ended(self.host, code, child.last_words, spoke=self.spoke))
            now = time.monotonic()
            if now - self._last_line_at > self._patience + more_patience:
                last = f": {child.last_words}" if child.last_words else ""
                raise SourceError(f"{self.host}: timed out, no answer for {now - self._last_line_at:.0f} s{last}")
            if now - began > self._timeout_s:
                raise SourceError(f"{self.host}: timed out, no result within {self._timeout_s:.0f} s")
            await wait_for_event(self.changed, 0.05)  # an exit sets no event
            self.changed.clear()
        if isinstance(error := self._reply.get("error"), str):
            raise ProbeRefusedError(f"{self.host}: {redact(clean(error))}")
        return self._reply

    def on_lines(self, lines: Sequence[bytes]) -> None:
        """Read lines of the child: reports of progress, the answer, or the output of a login shell."""
        self._last_line_at = time.monotonic()
        for line in lines:
            message = parse_message(line)
            if message is None:
                self._garbage = line[:300].decode("utf-8", "replace") or self._garbage
                continue
            if not self.spoke:
                self.spoke = True
                self.on_progress(Progress("running"))
            if isinstance(text := message.get("tell"), str):
                done, of = (value if isinstance(value, int) else None for value in (message.get("done"), message.get("of")))
                self.on_progress(Progress(redact(clean(text)), done, of))
            elif ANSWER_KEYS & message.keys():
                self._reply = message
        self.changed.set()
