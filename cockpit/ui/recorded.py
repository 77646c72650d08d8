"""Reads a recording for the screen in a thread: the state at a moment, the minutes before it, and the events around it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from cockpit.model import Fault, Snapshot
from cockpit.monitor.history import STEP_S, STEPS_KEPT, History
from cockpit.sources.source import run_in_thread
from cockpit.times.moments import format_time
from cockpit.ui.time_line import Stretch

if TYPE_CHECKING:
    from cockpit.recording.events import Event
    from cockpit.recording.recording import Recording

HISTORY_S: Final = STEPS_KEPT * STEP_S
"""Seconds of history that sparklines and the Memory page show."""
READ_TIMEOUT_S: Final = 30.0
"""Seconds for reading a moment, and again for its history."""
MAX_EXTENSION_S: Final = 60.0
"""Seconds up to which a history is extended to a later moment. For other moments it is read from the beginning."""
T = TypeVar("T")


class PastMoment(msgspec.Struct, frozen=True):
    """The state of a past moment."""

    at: float
    snapshot: Snapshot
    stretch: Stretch
    """The data of the time line around the moment."""
    gap: tuple[float, float] | None = None
    """Begin and end of the gap in the recording that the moment lies in."""
    history: History = msgspec.field(default_factory=History)


class RecordedPast:
    """Opens a recording at its first use. If a moment is after the end that was read, it reads what was recorded since."""

    def __init__(self, open: Callable[[], Recording], about: object) -> None:  # noqa: A002
        """`open` raises `SourceError`. `about`: the path, named in the error if the disk does not answer."""
        self._open, self._about = open, about
        self._recording: Recording | None = None
        self._end = 0.0
        self._gaps: Sequence[tuple[float, float]] = ()
        self._events: Sequence[Event] = ()
        self._lock = Lock()
        self._wanted = 0.0
        self._history = (History(), float("-inf"))
        """The history read last, and its end."""
        self._history_took = 0.0
        """Seconds for the last history read from the beginning; at least these, if reading was cancelled."""
        self._is_from_begin = False
        """Whether the history begins at the begin of the recording. Only then its sums are the GPU-hours of jobs."""

    async def read(self, moment: float, begin: float, end: float) -> PastMoment:
        """The state at a moment, and the events from `begin` to `end`. Raises `SourceError`."""
        self._wanted = moment
        return await self._ask(partial(self._read, moment, begin, end))

    async def read_history(self, moment: float) -> History:
        """The minutes before a moment. If it is a little later than the last moment, only the time between them is read."""
        history, until = self._history
        if self._continues(moment):
            for snapshot in await self._ask(lambda: list(self._reopen().walk(until, moment, STEP_S))):
                if snapshot.taken > until:
                    _record(history, snapshot, sums_usage=self._is_from_begin)
        else:
            history = await self._ask(partial(self._read_history, moment))
        if self._wanted == moment:  # else reading was cancelled
            self._history = (history, moment)
        return history

    def has_history_within(self, seconds: float, moment: float) -> bool:
        """Whether the minutes before can probably be read within `seconds`."""
        return self._continues(moment) or self._history_took < seconds

    def _continues(self, moment: float) -> bool:
        return 0 <= moment - self._history[1] <= MAX_EXTENSION_S

    async def read_range(self) -> tuple[float, float]:
        """Begin and end of the recording."""
        if self._recording is not None:
            return self._recording.begin, self._end
        return await self._ask(lambda: (self._reopen().begin, self._end))

    async def read_next(self, moment: float, direction: int) -> Sequence[Event]:
        """The next (1) or previous (-1) events, all of one time; empty if there are none."""
        if self._recording is not None and (direction < 0 or moment < self._end):
            return self._find_next(
                moment, direction
            )  # known, so it need not wait for the lock, which a thread that reads a history may hold
        await self._ask(partial(self._reopen, moment if direction > 0 else None))
        return self._find_next(moment, direction)

    async def read_damage(self) -> Sequence[str]:
        """A sentence for each part of the recording that can't be read."""
        return await self._ask(lambda: tuple(self._reopen().damage))

    async def _ask(self, work: Callable[[], T]) -> T:
        def run_locked() -> T:
            with self._lock:
                return work()

        return await run_in_thread(run_locked, self._about, READ_TIMEOUT_S)

    def _reopen(self, moment: float | None = None) -> Recording:
        """The recording, opened if it is not; if `moment` is after its end, with everything recorded since."""
        if self._recording is None:
            self._recording = self._open()
        elif moment is None or moment <= self._end:
            return self._recording
        else:
            self._recording.refresh()
            if self._recording.end == self._end:  # it may continue in another file
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
        history, begun, is_complete = History(), time.perf_counter(), True
        recording = self._reopen()
        self._is_from_begin = recording.begin > moment - HISTORY_S
        for snapshot in recording.walk(moment - HISTORY_S, moment, STEP_S):
            if self._wanted != moment:  # the user has gone to another moment
                is_complete = False
                break
            _record(history, snapshot, sums_usage=self._is_from_begin)
        took = time.perf_counter() - begun
        self._history_took = took if is_complete else max(took, self._history_took)
        return history

    def _find_next(self, moment: float, direction: int) -> Sequence[Event]:
        beyond = [event for event in self._events if (event.at - moment) * direction > 0]
        at = (min if direction > 0 else max)((event.at for event in beyond), default=None)
        return [event for event in beyond if event.at == at]


def _record(history: History, snapshot: Snapshot, *, sums_usage: bool) -> None:
    """Add a snapshot. A part of a recording gives no total GPU-hours of a job: `cockpit report --who` reads the whole."""
    history.record(snapshot)
    history.memory.record(snapshot)
    if sums_usage:
        history.usage.add(snapshot)


def unknown_snapshot(moment: float, gap: tuple[float, float] | None, recorded: tuple[float, float]) -> Snapshot:
    """A snapshot for a moment without a recording: everything is unknown, and a fault says why."""
    begin, end = gap or recorded
    words = f"from {format_time(begin, moment)} to {format_time(end, moment)}"
    text = f"nothing was recorded {words}" if gap else f"nothing was recorded at this time; the recording is {words}"
    return Snapshot(taken=moment, faults=(Fault("recording", text, begin if gap else moment),))
