"""Runs the probes of all hosts: always the probe of this host, and the probes of other hosts on request; no host delays another."""

from __future__ import annotations

import asyncio
import math
import socket
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any

from cockpit.config.document import InputError
from cockpit.config.reach import THROUGH_RAY, HostEntry, reach_command
from cockpit.config.settings import Config
from cockpit.model import Host
from cockpit.secrets import redact
from cockpit.sources.probes.decode import is_hello
from cockpit.sources.probes.host_probe import HostProbe, ProbeListener, ProbeTimings, why_it_ended
from cockpit.sources.probes.payload import program
from cockpit.sources.probes.process import Child, OnLines, parse_message, start_child, wait_for_exit
from cockpit.sources.probes.spawn import hold_stdin, local_command, watch_words
from cockpit.sources.probes.ssh_control import SshControlSockets
from cockpit.sources.ray.nodes import NodeFacts
from cockpit.sources.source import SourceError, wait_for_event
from cockpit.times.clock import CLOCK

MAX_ANSWER_BYTES = 16 << 20
"""The longest answer to one question: an environment has at most 6 MiB, a stack far less."""
NVML_TIMEOUT_S = 5.0
"""The time that NVML has for its first answer; a host whose NVML takes longer counts as complete without GPUs."""


class ProbePool:
    """All probes of this cockpit. `run` needs the event loop; `close` doesn't."""

    def __init__(
        self,
        config: Config,
        listener: ProbeListener,
        *,
        clock: Callable[[], float] = CLOCK,
        timings: ProbeTimings | None = None,
    ) -> None:
        self.local = socket.gethostname()
        """The name of this host."""
        self.control_sockets = SshControlSockets()
        """The open ssh connections, to be shared with others that connect to the same hosts."""
        self._config, self._listener, self._clock = config, listener, clock
        self._timings = timings or ProbeTimings()
        self._interval = config.interval
        self._woken = asyncio.Event()
        self._local_probe = HostProbe(self.local, listener, self._timings, clock, self._woken.set, local=True)
        """The probe of this host."""
        self._probes: dict[str, HostProbe] = {}
        """The probes of other hosts, by host name."""
        self._entries: dict[str, HostEntry] = {entry.name: entry for entry in config.hosts}
        self._complete: frozenset[str] = frozenset()
        self._asked: set[Child] = set()
        """The children that answer one question each."""
        self._closed = False

    async def run(self) -> None:
        """Keep the probes running until closed or cancelled; every child has been killed when this returns."""
        last_turn = time.monotonic()
        try:
            while not self._closed:
                now = time.monotonic()
                probes = (self._local_probe, *self._probes.values())
                # If this program stood still, the silence of the probes was ours.
                if now - last_turn > self._timings.frozen_after + self._timings.idle_tick:
                    for probe in probes:
                        probe.shift_deadlines(now - last_turn)
                for probe in probes:
                    probe.check_child(now)
                # A new interval restarts the probe of this host.
                if self._local_probe.child is not None and self._local_probe.interval != self._interval:
                    self._local_probe.stop()
                if self._local_probe.child is None and now >= self._local_probe.due:
                    self._local_probe.start(local_command(watch_words(self._interval)), self._interval)
                if any(probe.child is None for probe in self._probes.values()):
                    # Packing takes a tenth of a second the first time, so another thread does it.
                    await asyncio.to_thread(program, ())
                self._make_room(now)
                self._start_due(now)
                last_turn = now
                is_starting = any(probe.child is None for probe in (self._local_probe, *self._probes.values()))
                await wait_for_event(self._woken, self._timings.tick if is_starting else self._timings.idle_tick)
                self._woken.clear()
        finally:
            self.close()

    def set_targets(self, targets: Mapping[str, HostEntry]) -> None:
        """Replace the other hosts to be watched. A host that is no longer a target is watched for a minute longer."""
        if self._config.probe_hosts == "never" or self._config.reach == THROUGH_RAY:
            return
        wanted = {name: entry for name, entry in targets.items() if name != self.local}
        for name, entry in wanted.items():
            if name not in self._probes or self._entries.get(name) != entry:
                if name in self._probes:
                    self._probes[name].stop()
                self._entries[name] = entry
                self._probes[name] = HostProbe(name, self._listener, self._timings, self._clock, self._woken.set)
                self._probes[name].due = time.monotonic()
            self._probes[name].unwanted = None
        for name in self._probes.keys() - wanted.keys():
            probe = self._probes[name]
            probe.unwanted = probe.unwanted or time.monotonic()
            # It may be this host under another name, which was unknown until this host's probe listed its addresses.
            if self._entries[name].target in self._local_probe.addresses:
                self._drop(name)
        self._woken.set()

    def set_complete_hosts(self, names: Iterable[str]) -> None:
        """Set the hosts whose samples have all that a command needs: they give up their places as soon as others wait for one."""
        self._complete = frozenset(names)

    def set_interval(self, seconds: float) -> None:
        """Set the seconds between samples. This host's probe is restarted with it; the others get it at their next start."""
        self._interval = min(max(seconds, 0.5), 3600.0)
        self._woken.set()

    def refresh(self) -> None:
        """Start at once the probes that pause after a failure."""
        for probe in (self._local_probe, *self._probes.values()):
            probe.due = min(probe.due, time.monotonic())
        self._woken.set()

    async def ask(self, host: str, words: Sequence[str], entry: HostEntry | None = None) -> dict[str, Any]:
        """Ask one question of a probe of its own, such as `environ PID TICKS`. Raises `SourceError`.

        The answer is raw and contains secrets. `entry` says how to reach a host that is not watched.
        """
        answers: list[bytes] = []  # the last one counts
        child = await self._start_question(host, words, entry, lambda lines: answers.extend(filter(_may_be_answer, lines)))
        try:
            code = await wait_for_exit(child, f"the probe of {host}", self._timings.answer_timeout, MAX_ANSWER_BYTES)
        finally:
            self._asked.discard(child)
        if answers:
            return _parse_answer(answers[-1], host)
        raise SourceError(why_it_ended(host, code, child.last_words, spoke=False))

    async def listen(self, host: str, words: Sequence[str], entry: HostEntry | None = None) -> AsyncIterator[dict[str, Any]]:
        """Like `ask`, for a question with many answers, such as `log SESSION NAME LINES --follow`; ends after `{"end": true}`."""
        received: deque[bytes] = deque()
        changed = asyncio.Event()

        def on_lines(lines: Sequence[bytes]) -> None:
            received.extend(filter(_may_be_answer, lines))
            changed.set()

        child = await self._start_question(host, words, entry, on_lines, changed.set)
        try:
            while (code := child.poll_exit()) is None or received:
                while received:
                    answer = _parse_answer(received.popleft(), host)
                    yield answer
                    if answer.get("end") is True:
                        return
                changed.clear()
                await wait_for_event(changed, self._timings.tick)
        finally:
            child.end()
            self._asked.discard(child)
        raise SourceError(why_it_ended(host, code, child.last_words, spoke=False))

    async def _start_question(
        self, host: str, words: Sequence[str], entry: HostEntry | None, on_lines: OnLines, on_end: Callable[[], None] = lambda: None
    ) -> Child:
        text: bytes | None = None
        if host == self.local:
            command = local_command(words)
        else:
            command = command_to_reach(host, self._config.reach, self._entries.get(host) or entry, self.control_sockets)
            text = await asyncio.to_thread(program, ["--no-lifeline", *words])
        child = start_child(host, command, on_lines, on_end, text)
        self._asked.add(child)
        return child

    def close(self) -> None:
        """Kill every child at once, without waiting for any; none is started afterwards."""
        self._closed = True
        for probe in (self._local_probe, *self._probes.values()):
            probe.stop()
        for child in self._asked:
            child.end()
        self.control_sockets.close()

    def _make_room(self, now: float) -> None:
        """Stop the probes of hosts that are no longer targets, and some of the others if more hosts wait than places are free."""
        for name, probe in list(self._probes.items()):
            if probe.unwanted is not None and now - probe.unwanted > self._timings.grace:
                self._drop(name)
        started = {probe: probe.child.started for probe in self._probes.values() if probe.child is not None}
        waiting = sum(probe.child is None and now >= probe.due for probe in self._probes.values())
        free = self._timings.max_running - len(started)
        needed = max(0, min(waiting - free, self._timings.max_starts_per_tick))
        # First the hosts whose samples are complete: they are not started again.
        complete = [probe for probe in started if probe.name in self._complete][:needed]
        for probe in complete:
            probe.stop()
            probe.due = math.inf
        # Then the hosts that have run longest, if their turn is over: they wait for the next one.
        others = sorted(started.keys() - set(complete), key=lambda probe: started[probe])
        for probe in others[: needed - len(complete)]:
            if now - started[probe] > self._timings.min_turn:
                probe.yield_turn(now)

    def _drop(self, name: str) -> None:
        self._probes.pop(name).stop()
        if all(name != entry.name for entry in self._config.hosts):
            del self._entries[name]
        self._listener.clear_fault("probe", name)
        self._listener.forget_host(name)

    def _start_due(self, now: float) -> None:
        """Start the probes that are due, the longest overdue first."""
        running = sum(probe.child is not None for probe in self._probes.values())
        places = max(0, min(self._timings.max_running - running, self._timings.max_starts_per_tick))
        due = sorted((probe for probe in self._probes.values() if probe.child is None and now >= probe.due), key=lambda probe: probe.due)
        for probe in due[:places] if not self._closed else ():
            self._start(probe)

    def _start(self, probe: HostProbe) -> None:
        try:
            command = command_to_reach(probe.name, self._config.reach, self._entries[probe.name], self.control_sockets)
        except SourceError as error:
            probe.stop_and_retry(str(error))
            return
        probe.start(command, self._interval, program([*watch_words(self._interval), "--no-lifeline"]))


def command_to_reach(host: str, reach: str, entry: HostEntry | None, sockets: SshControlSockets | None) -> list[str]:
    """The command that pipes its stdin to a Python on that host. Raises `SourceError`."""
    if entry is None or reach == THROUGH_RAY:
        raise SourceError(f"cockpit has no way to reach {host}: add it under `hosts` in the config")
    try:
        return hold_stdin(reach_command(reach, entry, sockets.control if sockets else "none"))
    except InputError as error:
        raise SourceError(f"{host}: {error}") from error


def _may_be_answer(line: bytes) -> bool:
    """Whether the line may be an answer: not a hello, and not the output of a login shell."""
    return line.startswith(b"{") and not is_hello(line)


def has_complete_sample(host: Host, rays: NodeFacts | None, now: float) -> bool:
    """Whether the probe has sent the processes, and the GPUs if there may be some: a driver that nothing uses takes seconds to wake up.

    `host.nodes` is a claim of the host. A false claim makes cockpit wait `NVML_TIMEOUT_S` at most.
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
