"""A recording as the screen reads it, beside the loop: a moment, its history, and what happened around it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from cockpit.model import Fault, Snapshot
from cockpit.moment import moment_text
from cockpit.monitor.history import STEP_S, STEPS_KEPT, History
from cockpit.sources.source import run_in_thread
from cockpit.ui.time_line import Stretch

if TYPE_CHECKING:
    from cockpit.recording.events import Event
    from cockpit.recording.recording import Recording

HISTORY_S: Final = STEPS_KEPT * STEP_S
"""Seconds before a moment that sparklines and the Memory page show."""
READ_TIMEOUT_S: Final = 30.0
"""Seconds for a moment to be read; its history may take as long again."""
MAX_MORE_S: Final = 60.0
"""Seconds by which a history is carried on; it is made anew for what lies further off, or before it."""
T = TypeVar("T")


class PastMoment(msgspec.Struct, frozen=True):
    """The state of a past moment."""

    at: float
    snapshot: Snapshot
    stretch: Stretch
    """What the line of time shows around it."""
    gap: tuple[float, float] | None = None
    """From when to when nothing was recorded, where it lies in that."""
    history: History = msgspec.field(default_factory=History)


class RecordedPast:
    """Opens the recording when it is first asked for; of one that is still being written it reads on where a moment lies beyond its end."""

    def __init__(self, open: Callable[[], Recording], about: object) -> None:  # noqa: A002
        """`open` raises `SourceError`; `about` is the path, for a disk that does not answer."""
        self._open, self._about = open, about
        self._recording: Recording | None = None
        self._end = 0.0
        self._gaps: Sequence[tuple[float, float]] = ()
        self._events: Sequence[Event] = ()
        self._lock = Lock()
        self._wanted = 0.0
        self._history = (History(), float("-inf"))
        """What was read last, and until when."""
        self._history_took = 0.0
        """Seconds, of the last that was made anew; at least so many, where it was broken off."""
        self._is_whole = False
        """Whether the minutes before are all that was recorded: then what jobs have used is known."""

    async def read(self, moment: float, begin: float, end: float) -> PastMoment:
        """The state then, and what happened from `begin` to `end`. Raises `SourceError`."""
        self._wanted = moment
        return await self._ask(partial(self._read, moment, begin, end))

    async def read_history(self, moment: float) -> History:
        """The minutes before, for sparklines and the Memory page; a little later than the last time, only what is new is read."""
        history, until = self._history
        if self._continues(moment):
            for snapshot in await self._ask(lambda: list(self._reopen().walk(until, moment, STEP_S))):
                if snapshot.taken > until:
                    _record(history, snapshot, sums_usage=self._is_whole)
        else:
            history = await self._ask(partial(self._read_history, moment))
        if self._wanted == moment:  # else it is not whole
            self._history = (history, moment)
        return history

    def has_history_within(self, seconds: float, moment: float) -> bool:
        """Whether the minutes before are probably read in so many seconds."""
        return self._continues(moment) or self._history_took < seconds

    def _continues(self, moment: float) -> bool:
        return 0 <= moment - self._history[1] <= MAX_MORE_S

    async def read_range(self) -> tuple[float, float]:
        """From when to when there is a recording."""
        if self._recording is not None:
            return self._recording.begin, self._end
        return await self._ask(lambda: (self._reopen().begin, self._end))

    async def read_next(self, moment: float, direction: int) -> Sequence[Event]:
        """The events that come next (1) or came last (-1), all of one time; none: there is none any more."""
        if self._recording is not None and (direction < 0 or moment < self._end):
            return self._find_next(moment, direction)  # known: not to be waited for behind a history that is being read
        await self._ask(partial(self._reopen, moment if direction > 0 else None))
        return self._find_next(moment, direction)

    async def read_damage(self) -> Sequence[str]:
        """What can't be read, in sentences."""
        return await self._ask(lambda: tuple(self._reopen().damage))

    async def _ask(self, work: Callable[[], T]) -> T:
        def run_locked() -> T:
            with self._lock:
                return work()

        return await run_in_thread(run_locked, self._about, READ_TIMEOUT_S)

    def _reopen(self, moment: float | None = None) -> Recording:
        if self._recording is None:
            self._recording = self._open()
        elif moment is None or moment <= self._end:
            return self._recording
        else:
            self._recording.refresh()
            if self._recording.end == self._end:  # perhaps it goes on in another file
                self._recording = self._open()
        self._end, self._gaps, self._events = self._recording.end, self._recording.gaps, self._recording.events()
        return self._recording

    def _read(self, moment: float, begin: float, end: float) -> PastMoment:
        recording = self._reopen(moment)
        recorded = (recording.begin, self._end)
        events = tuple(event for event in self._events if begin <= event.at < end)
        stretch = Stretch(begin, end, recorded, self._gaps, events)
        snapshot = recording.snapshot_at(moment)
        if snapshot is not None:
            return PastMoment(moment, snapshot, stretch)
        gap = next((each for each in self._gaps if each[0] <= moment < each[1]), None)
        return PastMoment(moment, unknown_snapshot(moment, gap, recorded), stretch, gap)

    def _read_history(self, moment: float) -> History:
        history, begun, is_whole = History(), time.perf_counter(), True
        recording = self._reopen()
        self._is_whole = recording.begin > moment - HISTORY_S
        for snapshot in recording.walk(moment - HISTORY_S, moment, STEP_S):
            if self._wanted != moment:
                is_whole = False
                break
            _record(history, snapshot, sums_usage=self._is_whole)
        took = time.perf_counter() - begun
        self._history_took = took if is_whole else max(took, self._history_took)
        return history

    def _find_next(self, moment: float, direction: int) -> Sequence[Event]:
        beyond = [event for event in self._events if (event.at - moment) * direction > 0]
        at = (min if direction > 0 else max)((event.at for event in beyond), default=None)
        return [event for event in beyond if event.at == at]


def _record(history: History, snapshot: Snapshot, *, sums_usage: bool) -> None:
    """Some minutes of a recording are no sum of what jobs have used: `cockpit report --who` reads all of it."""
    history.record(snapshot)
    history.memory.record(snapshot)
    if sums_usage:
        history.usage.add(snapshot)


def unknown_snapshot(moment: float, gap: tuple[float, float] | None, recorded: tuple[float, float]) -> Snapshot:
    """Of a moment at which nothing was recorded: nothing is known, and it is said why."""
    begin, end = gap or recorded
    words = f"from {moment_text(begin, moment)} to {moment_text(end, moment)}"
    text = f"nothing was recorded {words}" if gap else f"nothing was recorded at this time; the recording is {words}"
    return Snapshot(taken=moment, faults=(Fault("recording", text, begin if gap else moment),))
