"""Looks at hosts through their probes: always at this one, at others when somebody wants to; none can hold up another, or us."""

from __future__ import annotations

import asyncio
import shlex
import socket
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from subprocess import Popen
from typing import Any

from cockpit.clock import CLOCK
from cockpit.config.document import InputError
from cockpit.config.reach import THROUGH_RAY, HostEntry, reach_command
from cockpit.config.settings import Config
from cockpit.model import Host
from cockpit.secrets import redact
from cockpit.sources.probes.decode import is_hello
from cockpit.sources.probes.host_probe import HostProbe, ProbeListener, ProbeTimings, why_it_ended
from cockpit.sources.probes.payload import program_for
from cockpit.sources.probes.process import Child, HearLines, parse_message, start_child, wait_for_exit
from cockpit.sources.probes.spawn import kill_and_reap, local_command, replace_dash, watch_words
from cockpit.sources.probes.ssh_control import SshControlSockets
from cockpit.sources.ray.nodes import NodeFacts
from cockpit.sources.source import SourceError, wait_for_event

MAX_ANSWER_BYTES = 16 << 20
"""That one question may be answered with: an environment has at most 6 MiB, a stack far less."""
NVML_TIMEOUT_S = 5.0
"""Seconds after which a first answer is waited for no longer."""


class ProbePool:
    """Every probe there is. `run` needs the event loop; `close` doesn't."""

    def __init__(
        self,
        config: Config,
        listener: ProbeListener,
        *,
        early: Popen[bytes] | None = None,
        clock: Callable[[], float] = CLOCK,
        timings: ProbeTimings | None = None,
    ) -> None:
        self.local = socket.gethostname()
        """What this host is called here."""
        self.control_sockets = SshControlSockets()
        """The connections that are kept open, for whoever else goes to the same hosts."""
        self._config, self._listener, self._early, self._clock = config, listener, early, clock
        self._timings = timings or ProbeTimings()
        self._interval = config.interval
        self._here = HostProbe(self.local, listener, self._timings, clock, local=True)
        self._watches: dict[str, HostProbe] = {}
        self._entries: dict[str, HostEntry] = {entry.name: entry for entry in config.hosts}
        self._told: frozenset[str] = frozenset()
        self._program: asyncio.Task[tuple[bytes, bytes]] | None = None
        self._asked: set[Child] = set()
        self._woken = asyncio.Event()
        self._closed = False
        self._here.wake = self._woken.set

    async def run(self) -> None:
        """Look until closed or cancelled; every child has been ended when this returns."""
        before = time.monotonic()
        try:
            while not self._closed:
                now = time.monotonic()
                self._tick(now, now - before)
                before = now
                await wait_for_event(self._woken, self._timings.tick if self._is_starting else self._timings.idle_tick)
                self._woken.clear()
        finally:
            self.close()

    @property
    def _is_starting(self) -> bool:
        """Whether a host waits for its probe."""
        return self._here.child is None or any(watch.child is None for watch in self._watches.values())

    def want(self, targets: Mapping[str, HostEntry]) -> None:
        """The other hosts to be looked at from now on. One that is left out is looked at for a minute longer."""
        if self._config.probe_hosts == "never" or self._config.reach == THROUGH_RAY:
            return
        wanted = {name: entry for name, entry in targets.items() if name != self.local}
        for name, entry in wanted.items():
            if name not in self._watches or self._entries.get(name) != entry:
                self._watch(name, entry)
            self._watches[name].unwanted = None
        for name in self._watches.keys() - wanted.keys():
            watch = self._watches[name]
            watch.unwanted = watch.unwanted or time.monotonic()
            if self._entries[name].target in self._here.addresses:  # this host by another name: it had not told its names yet
                self._drop(name)
        self._woken.set()

    def replace_told(self, names: Iterable[str]) -> None:
        """These have told all that a single look asks for: as soon as others wait for a place, they get one of theirs."""
        self._told = frozenset(names)

    def set_interval(self, seconds: float) -> None:
        """Seconds between samples: this host's probe starts anew, others keep theirs until they are started next."""
        self._interval = min(max(seconds, 0.5), 3600.0)
        self._woken.set()

    def refresh(self) -> None:
        """Try again now, also where a pause was made after a failure."""
        for watch in (self._here, *self._watches.values()):
            watch.due = min(watch.due, time.monotonic())
        self._woken.set()

    async def ask(self, host: str, words: Sequence[str], entry: HostEntry | None = None) -> dict[str, Any]:
        """One question to a probe of its own, such as `environ PID TICKS`. Raises `SourceError`. The answer is raw: secrets are in it.

        `entry` says how to reach a host that has not been looked at.
        """
        answers: list[bytes] = []  # the last of them counts
        child = await self._start_question(host, words, entry, lambda lines: answers.extend(filter(_may_be_answer, lines)))
        try:
            code = await wait_for_exit(child, f"the probe of {host}", self._timings.answer, MAX_ANSWER_BYTES)
        finally:
            self._asked.discard(child)
        if answers:
            return _parse_answer(answers[-1], host)
        raise SourceError(why_it_ended(host, code, child.last_words, spoke=False))

    async def listen(self, host: str, words: Sequence[str], entry: HostEntry | None = None) -> AsyncIterator[dict[str, Any]]:
        """The same for a question that is answered little by little, such as `log SESSION NAME LINES --follow`, until `{"end": true}`."""
        heard: deque[bytes] = deque()
        turned = asyncio.Event()

        def hear(lines: Sequence[bytes]) -> None:
            heard.extend(filter(_may_be_answer, lines))
            turned.set()

        child = await self._start_question(host, words, entry, hear, turned.set)
        try:
            while (code := child.poll_exit()) is None or heard:
                while heard:
                    answer = _parse_answer(heard.popleft(), host)
                    yield answer
                    if answer.get("end") is True:
                        return
                turned.clear()
                await wait_for_event(turned, self._timings.tick)
        finally:
            child.end()
            self._asked.discard(child)
        raise SourceError(why_it_ended(host, code, child.last_words, spoke=False))

    async def _start_question(
        self, host: str, words: Sequence[str], entry: HostEntry | None, hear: HearLines, wake: Callable[[], None] = lambda: None
    ) -> Child:
        text: Sequence[bytes] | None = None
        if host == self.local:
            command = local_command(words)
        else:
            command = command_to_reach(host, self._config.reach, self._entries.get(host) or entry, self.control_sockets)
            text = await asyncio.to_thread(program_for, command, ["--no-lifeline", *words])
        child = start_child(host, command, hear, wake, text)
        self._asked.add(child)
        return child

    def close(self) -> None:
        """End every child at once, without waiting for any; none is started any more."""
        self._closed = True
        processes = [process for watch in (self._here, *self._watches.values()) for process in watch.release()]
        processes += [child.release() for child in self._asked]
        if self._early is not None:
            processes.append(self._early)
            self._early = None
        kill_and_reap(*processes)
        self.control_sockets.close()
        if self._program is not None and not self._program.done():
            self._program.cancel()

    def _watch(self, name: str, entry: HostEntry) -> None:
        if name in self._watches:
            self._watches[name].stop()
        self._entries[name] = entry
        self._watches[name] = watch = HostProbe(name, self._listener, self._timings, self._clock)
        watch.due = time.monotonic()
        watch.wake = self._woken.set

    def _tick(self, now: float, gap: float) -> None:
        watches = (self._here, *self._watches.values())
        if gap > self._timings.frozen + self._timings.idle_tick:
            for watch in watches:
                watch.shift_deadlines(gap)
        for watch in watches:
            watch.check_child(now)
        self._watch_local(now)
        self._drop_unwanted(now)
        self._start_due(now)

    def _watch_local(self, now: float) -> None:
        command = local_command(watch_words(self._interval))
        if self._early is not None:
            early, self._early = self._early, None
            if list(early.args) == command:  # type: ignore[arg-type]  # a list: `spawn` was given one
                self._here.start(command, self._interval, early=early)
                return
            kill_and_reap(early)
        if self._here.child is not None and self._here.interval != self._interval:
            self._here.stop()
        if self._here.child is None and now >= self._here.due:
            self._here.start(command, self._interval)

    def _drop_unwanted(self, now: float) -> None:
        """Let go of hosts that nobody has wanted for a while, and of those whose turn is over while others wait."""
        for name, watch in list(self._watches.items()):
            if watch.unwanted is not None and now - watch.unwanted > self._timings.grace:
                self._drop(name)
        running = [watch for watch in self._watches.values() if watch.child is not None]
        waiting = sum(watch.child is None and now >= watch.due for watch in self._watches.values())
        spare = self._timings.most - len(running)
        self._make_room(running, max(0, min(waiting - spare, self._timings.burst)), now)

    def _drop(self, name: str) -> None:
        self._watches.pop(name).stop()
        if all(name != entry.name for entry in self._config.hosts):
            del self._entries[name]
        self._listener.clear_fault("probe", name)
        self._listener.forget_host(name)

    def _make_room(self, running: Sequence[HostProbe], places: int, now: float) -> None:
        """First those that need not come back, then whoever has run longest."""
        started = {watch: watch.child.started for watch in running if watch.child is not None}
        told = [watch for watch in started if watch.name in self._told][:places]
        for watch in told:
            watch.stop_for_good()
        others = sorted(started.keys() - set(told), key=lambda watch: started[watch])
        for watch in others[: places - len(told)]:
            if now - started[watch] > self._timings.turn:
                watch.yield_turn(now)

    def _start_due(self, now: float) -> None:
        """Start the probes whose time has come, whoever waits longest first."""
        running = sum(watch.child is not None for watch in self._watches.values())
        places = min(self._timings.most - running, self._timings.burst)
        due = sorted((watch for watch in self._watches.values() if watch.child is None and now >= watch.due), key=lambda watch: watch.due)
        if not due or places <= 0 or not self._is_program_packed():
            return
        for watch in due[:places]:
            self._start(watch)

    def _is_program_packed(self) -> bool:
        """Whether the text to send is ready: packing it takes a quarter of a second, so another thread does it."""
        if self._program is None:
            self._program = asyncio.create_task(asyncio.to_thread(program_for, replace_dash(shlex.split(self._config.reach)), ()))
            self._program.add_done_callback(lambda _: self._woken.set())
        return self._program.done()

    def _start(self, watch: HostProbe) -> None:
        try:
            command = command_to_reach(watch.name, self._config.reach, self._entries[watch.name], self.control_sockets)
        except SourceError as error:
            watch.stop_and_retry(str(error))
            return
        watch.start(command, self._interval, program_for(command, [*watch_words(self._interval), "--no-lifeline"]))


def command_to_reach(host: str, reach: str, entry: HostEntry | None, sockets: SshControlSockets | None) -> list[str]:
    """The words that give a pipe to a Python there. Raises `SourceError`."""
    if entry is None or reach == THROUGH_RAY:
        raise SourceError(f"cockpit has no way to reach {host}: add it under `hosts` in the config")
    try:
        return replace_dash(reach_command(reach, entry, sockets.control if sockets else "none"))
    except InputError as error:
        raise SourceError(f"{host}: {error}") from error


def _may_be_answer(line: bytes) -> bool:
    """A login shell prints other things too."""
    return line.startswith(b"{") and not is_hello(line)


def has_told(host: Host, rays: NodeFacts | None, now: float) -> bool:
    """Whether a probe has told of processes, and of GPUs where there may be some: a driver that nothing uses wakes for seconds.

    A node that the host only claims can do no more than make cockpit wait that long.
    """
    seen_by_ray = any(node.agent.gpus for node in (rays.nodes if rays else ()) if node.id in host.nodes)
    fails = seen_by_ray and any(fault.source == "nvml" for fault in host.faults)  # without a fault there is no driver to be asked
    wakes = host.gpus is None and (fails or "nvml" in host.unanswered)
    hangs = any(fault.source == "nvml" and now - fault.since > NVML_TIMEOUT_S for fault in host.faults)
    return host.processes is not None and (not wakes or hangs)


def _parse_answer(line: bytes, host: str) -> dict[str, Any]:
    answer = parse_message(line)
    if answer is None:
        raise SourceError(f"the output of the probe of {host} can't be read")
    if isinstance(answer.get("error"), str):
        raise SourceError(redact(answer["error"]))
    return answer
