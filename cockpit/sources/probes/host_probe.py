"""One host under watch: its probe's child, what it said last, and when to start it again."""

from __future__ import annotations

import math
import random
import signal
import time
from collections import deque
from collections.abc import Callable, Sequence
from subprocess import Popen
from typing import Protocol

import msgspec

from cockpit.config.kubernetes import FORBIDDEN, explain_refusal
from cockpit.model import Host
from cockpit.sources.probes.decode import Hello, Sample, host_of, is_hello, read_line
from cockpit.sources.probes.process import Child
from cockpit.sources.probes.spawn import kill_and_reap, spawn
from cockpit.sources.source import SourceError
from cockpit.text import explain_os_error


class ProbeListener(Protocol):
    """Who listens to probes; `cockpit.monitor.poller.Poller` does."""

    def update_host(self, host: Host) -> None:
        """A probe has spoken."""

    def forget_host(self, host: str) -> None:
        """A host is not looked at any more."""

    def report_fault(self, source: str, text: str, host: str | None = None) -> None:
        """A probe can't be believed; the same is said again with newer words."""

    def clear_fault(self, source: str, host: str | None = None) -> None:
        """The probe speaks well again."""


class ProbeTimings(msgspec.Struct, frozen=True):
    """When a probe is checked, reported, started again and dropped, in seconds, and how many run or start at once."""

    tick: float = 0.25
    """While a host waits for its probe."""
    idle_tick: float = 1.0
    """While all probes run: their ends and words are heard at once, only a silence is not."""
    silence: float = 5.0
    """Beyond three intervals without a word, somebody is told."""
    restart: float = 30.0
    first_pause: float = 1.0
    longest_pause: float = 300.0
    settled: float = 30.0
    """A probe that has spoken for so long is well: its next end is a first one."""
    grace: float = 60.0
    """A host nobody wants any more is watched for so long."""
    turn: float = 20.0
    """A host whose place others wait for keeps it for so long."""
    frozen: float = 5.0
    """Our own loop stood still for longer: the silence was ours."""
    most: int = 32
    """Other hosts at once."""
    burst: int = 8
    """Children started in one tick: each costs a millisecond or two in which nothing is drawn."""
    answer: float = 20.0
    """For a one-shot question."""


MAX_UNREAPED_CHILDREN = 3
"""Children of one host that may hang in the kernel, killed but not gone, before no more are started."""


class HostProbe:
    """Starts, hears, and judges the probe of one host; `ProbePool` calls `check_child` again and again."""

    def __init__(
        self, name: str, listener: ProbeListener, timings: ProbeTimings, clock: Callable[[], float], *, local: bool = False
    ) -> None:
        self.name, self.local = name, local
        self.child: Child | None = None
        self.interval = 0.0
        """Of the running child."""
        self.due = 0.0
        """By the monotonic clock: not to be started before."""
        self.unwanted: float | None = None
        self._listener, self._timings, self._clock = listener, timings, clock
        self._heard: float | None = None
        self._sample_count = 0
        self._failures = 0
        self.addresses: tuple[str, ...] = ()
        """Names and addresses that it has told of itself."""
        self._skews: deque[float] = deque(maxlen=10)
        self._ended: list[Popen[bytes]] = []
        self.wake: Callable[[], None] = lambda: None

    def start(self, command: Sequence[str], interval: float, text: Sequence[bytes] | None = None) -> None:
        """Run the probe and send it the text."""
        self._ended = [process for process in self._ended if process.returncode is None]
        if len(self._ended) >= MAX_UNREAPED_CHILDREN:
            self.stop_and_retry(f"{len(self._ended)} probes of {self.name} were killed but are stuck in its kernel; no more are started")
            return
        try:
            process = spawn(command)
        except OSError as error:
            self.stop_and_retry(f"{self.name}: {command[0]}: {explain_os_error(error)}")
            return
        self._heard, self._sample_count = None, 0
        self._skews.clear()
        self.interval = interval
        self.child = Child(process, self._listen, self.wake, text)

    def stop(self) -> None:
        """End the child without a word; it may be started again at once."""
        kill_and_reap(*self.release())

    def release(self) -> list[Popen[bytes]]:
        """Listen no more; the child's process, if there is one, for whoever ends it."""
        if self.child is None:
            return []
        self._ended.append(self.child.release())
        self.child = None
        return self._ended[-1:]

    def yield_turn(self, now: float) -> None:
        """Its turn is over, and others wait; one that never spoke has to pause as well."""
        self.stop()
        self.due = now if self._sample_count else now + self._pause()

    def stop_for_good(self) -> None:
        """All that was asked of it is known: end the child, and start none again."""
        self.stop()
        self.due = math.inf

    def check_child(self, now: float) -> None:
        """Notice an end or a silence."""
        if self.child is None:
            return
        if (code := self.child.poll_exit()) is not None:
            if self._sample_count and now - self.child.started > self._timings.settled:
                self._failures = 0
            self.stop_and_retry(why_it_ended(self.name, code, self.child.last_words, spoke=self._sample_count > 0, restarts=True))
            return
        silence = now - (self._heard or self.child.started)
        patience = 3 * self.interval + self._timings.silence
        if silence > max(self._timings.restart, 2 * patience):
            self.stop_and_retry(f"{self._silence_text(silence)}; started again")
        elif silence > patience:
            self._listener.report_fault("probe", self._silence_text(silence), self.name)

    def shift_deadlines(self, gap: float) -> None:
        """We slept, not the probe."""
        if self.child is not None:
            self.child.started += gap
            self._heard = None if self._heard is None else self._heard + gap

    def _silence_text(self, silence: float) -> str:
        last = self.child.last_words if self.child else ""
        return f"the probe of {self.name} has not answered for {silence:.0f} s" + (f": {last}" if last else "")

    def stop_and_retry(self, text: str) -> None:
        """Tell, and try again later: each time twice as late, and not all hosts at the same moment."""
        self.stop()
        self.due = time.monotonic() + self._pause()
        self._listener.report_fault("probe", text, self.name)

    def _pause(self) -> float:
        pause: float = min(self._timings.first_pause * 2.0**self._failures, self._timings.longest_pause)
        self._failures = min(self._failures + 1, 20)
        return pause * random.uniform(0.8, 1.2)  # noqa: S311 no secret

    def _listen(self, lines: Sequence[bytes]) -> None:
        """Of several samples that came at once only the last counts: each is complete in itself."""
        sample = None
        for line in lines:
            if is_hello(line):
                self._take_hello(line)
            elif line.startswith(b"{"):
                sample = line
            elif self.child is not None and line.strip():
                self.child.garbage = line[:300].decode("utf-8", "replace")
        if sample is not None:
            self._take_sample(sample)

    def _take_hello(self, line: bytes) -> None:
        try:
            self.addresses = read_line(line, Hello).addresses
        except SourceError as error:
            self._misread(line, error)

    def _take_sample(self, line: bytes) -> None:
        try:
            sample = read_line(line, Sample)
        except SourceError as error:
            self._misread(line, error)
            return
        now = self._clock()
        steady = sample.taken if sample.up is None else sample.up
        self._skews.append(now - steady)
        self._heard, self._sample_count = time.monotonic(), self._sample_count + 1
        taken = steady + min(self._skews)  # a sample that lay in a pipe for an hour must not pass for a clock that is an hour late
        self._listener.update_host(host_of(sample, self.name, self.addresses, taken, taken - sample.taken, local=self.local))
        self._listener.clear_fault("probe", self.name)

    def _misread(self, line: bytes, error: SourceError) -> None:
        if self._sample_count or self.addresses:
            self._listener.report_fault("probe", f"the output of the probe of {self.name} can't be read: {error}", self.name)
        elif self.child is not None:
            self.child.garbage = line[:300].decode("utf-8", "replace")


def why_it_ended(name: str, code: int, last: str, *, spoke: bool, restarts: bool = False) -> str:
    """One sentence; `last` is the last line that the child said to a person."""
    again = "; started again" if restarts else ""
    number = -code if code < 0 else code - 128 if 128 < code < 128 + signal.NSIG else 0
    if number:
        return f"the probe of {name} was killed by signal {number}{again}"
    if code == 127 or (code == 126 and not spoke):
        return f"{name}: no Python to run there: {last or f'exit code {code}'}"
    if f"Error from server ({FORBIDDEN}): " in last:
        return explain_refusal(last, name)
    if last and not (spoke and code == 0):
        return f"{name}: {last}"
    ended = "ended by itself" if code == 0 else f"ended with exit code {code}"
    return f"the probe of {name} {ended}{again}"
