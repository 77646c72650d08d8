"""Starts the probe of one host, reads its samples, and restarts it when it ends or hangs."""

from __future__ import annotations

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
from cockpit.sources.probes.decode import Hello, Sample, is_hello, make_host, read_line
from cockpit.sources.probes.process import Child
from cockpit.sources.probes.spawn import spawn
from cockpit.sources.source import SourceError
from cockpit.text import explain_os_error


class ProbeListener(Protocol):
    """The receiver of samples and faults; `cockpit.monitor.poller.Poller` is one."""

    def update_host(self, host: Host) -> None:
        """A probe has sent a sample."""

    def forget_host(self, host: str) -> None:
        """A host is no longer watched."""

    def report_fault(self, source: str, text: str, host: str | None = None) -> None:
        """A probe fails. A later call for the same host replaces the text."""

    def clear_fault(self, source: str, host: str | None = None) -> None:
        """The probe works again."""


class ProbeTimings(msgspec.Struct, frozen=True):
    """When a probe is checked, reported, restarted and stopped, in seconds, and how many probes run or start at once."""

    tick: float = 0.25
    """Between two checks while a host waits for its probe."""
    idle_tick: float = 1.0
    """Between two checks while all probes run. Their output and their exit are noticed at once; a check only notices silence."""
    silence: float = 5.0
    """A probe that is silent for three intervals and so many seconds is reported."""
    restart: float = 30.0
    """A probe that is silent for so long, and for twice as long as until it is reported, is restarted."""
    first_pause: float = 1.0
    """Before the restart after the first failure; each further failure doubles the pause."""
    longest_pause: float = 300.0
    settled: float = 30.0
    """A probe that has run for so long works: its next exit counts as a first failure."""
    grace: float = 60.0
    """A host that is no longer a target is watched for so long."""
    min_turn: float = 20.0
    """A probe runs at least for so long before it gives up its place to a host that waits."""
    frozen_after: float = 5.0
    """If this program stood still for longer, the silence of its probes does not count."""
    max_running: int = 32
    """The number of other hosts whose probes run at once."""
    max_starts_per_tick: int = 8
    """The number of children started in one tick. Each takes a millisecond or two, in which nothing is drawn."""
    answer_timeout: float = 20.0
    """For the answer to one question."""


MAX_UNREAPED_CHILDREN = 3
"""If so many killed children of a host still hang in the kernel, no more are started."""


class HostProbe:
    """The probe of one host. `ProbePool` calls `check_child` in every tick."""

    def __init__(
        self,
        name: str,
        listener: ProbeListener,
        timings: ProbeTimings,
        clock: Callable[[], float],
        on_end: Callable[[], None],
        *,
        local: bool = False,
    ) -> None:
        """`on_end` is called when the child has closed its stdout."""
        self.name, self.local = name, local
        self.child: Child | None = None
        self.interval = 0.0
        """The seconds between the samples of the running child."""
        self.due = 0.0
        """The time of the next start, by the monotonic clock."""
        self.unwanted: float | None = None
        """Since when the host is no longer a target, by the monotonic clock."""
        self.addresses: tuple[str, ...] = ()
        """The names and addresses that the probe has sent of its host."""
        self._listener, self._timings, self._clock, self._on_end = listener, timings, clock, on_end
        self._sampled_at: float | None = None
        self._sample_count = 0
        self._failures = 0
        self._skews: deque[float] = deque(maxlen=10)
        self._ended: list[Popen[bytes]] = []

    def start(self, command: Sequence[str], interval: float, text: bytes | None = None) -> None:
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
        self._sampled_at, self._sample_count = None, 0
        self._skews.clear()
        self.interval = interval
        self.child = Child(process, self._read_lines, self._on_end, text)

    def stop(self) -> None:
        """Kill the child without reporting anything; it may be restarted at once."""
        if self.child is not None:
            self._ended.append(self.child.process)
            self.child.end()
            self.child = None

    def yield_turn(self, now: float) -> None:
        """Give up the place to another host. A probe that never sent a sample pauses first."""
        self.stop()
        self.due = now if self._sample_count else now + self._next_pause()

    def stop_and_retry(self, text: str) -> None:
        """Report a fault, and restart the child after a pause."""
        self.stop()
        self.due = time.monotonic() + self._next_pause()
        self._listener.report_fault("probe", text, self.name)

    def check_child(self, now: float) -> None:
        """Report and restart a child that has ended or is silent."""
        if self.child is None:
            return
        if (code := self.child.poll_exit()) is not None:
            if self._sample_count and now - self.child.started > self._timings.settled:
                self._failures = 0
            self.stop_and_retry(why_it_ended(self.name, code, self.child.last_words, spoke=self._sample_count > 0, restarts=True))
            return
        silence = now - (self._sampled_at or self.child.started)
        patience = 3 * self.interval + self._timings.silence
        if silence > patience:
            last = f": {self.child.last_words}" if self.child.last_words else ""
            text = f"the probe of {self.name} has not answered for {silence:.0f} s{last}"
            if silence > max(self._timings.restart, 2 * patience):
                self.stop_and_retry(f"{text}; started again")
            else:
                self._listener.report_fault("probe", text, self.name)

    def shift_deadlines(self, gap: float) -> None:
        """Forgive a silence of `gap` seconds, in which this program itself stood still."""
        if self.child is not None:
            self.child.started += gap
            self._sampled_at = None if self._sampled_at is None else self._sampled_at + gap

    def _next_pause(self) -> float:
        """The seconds until the next start: twice as long after each failure, and varied so that hosts don't start together."""
        pause: float = min(self._timings.first_pause * 2.0**self._failures, self._timings.longest_pause)
        self._failures = min(self._failures + 1, 20)
        return pause * random.uniform(0.8, 1.2)  # noqa: S311 no secret

    def _read_lines(self, lines: Sequence[bytes]) -> None:
        sample = None
        for line in lines:
            if is_hello(line):
                sample = None  # what came before the probe's first line is a banner of the host
                try:
                    self.addresses = read_line(line, Hello).addresses
                except SourceError as error:
                    self._report_unreadable(line, error)
            elif line.startswith(b"{"):
                sample = line
            elif self.child is not None and line.strip():
                self.child.garbage = line[:300].decode("utf-8", "replace")
        # A sample is complete in itself, so only the last one of several that came at once counts.
        if sample is not None:
            self._read_sample(sample)

    def _read_sample(self, line: bytes) -> None:
        try:
            sample = read_line(line, Sample)
        except SourceError as error:
            self._report_unreadable(line, error)
            return
        now = self._clock()
        steady = sample.taken if sample.up is None else sample.up
        self._skews.append(now - steady)
        self._sampled_at, self._sample_count = time.monotonic(), self._sample_count + 1
        # The smallest of the last differences is the difference of the clocks: a larger one is the time that a sample lay in a pipe.
        taken = steady + min(self._skews)
        self._listener.update_host(make_host(sample, self.name, self.addresses, taken, taken - sample.taken, local=self.local))
        self._listener.clear_fault("probe", self.name)

    def _report_unreadable(self, line: bytes, error: SourceError) -> None:
        """Report a fault; a child that has sent nothing yet may not be a probe at all, so its line is kept for the fault at its end."""
        if self._sample_count or self.addresses:
            self._listener.report_fault("probe", f"the output of the probe of {self.name} can't be read: {error}", self.name)
        elif self.child is not None:
            self.child.garbage = line[:300].decode("utf-8", "replace")


def why_it_ended(name: str, code: int, last: str, *, spoke: bool, restarts: bool = False) -> str:
    """The reason for a fault in one sentence. `last` is the last line of the child's output that is meant for people."""
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
