"""A recording, read: the state at any moment of it, what happened, and what of it is lost."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path

import msgspec

from cockpit.model import Snapshot
from cockpit.recording.events import Event
from cockpit.recording.files import (
    MAX_SPAN_BYTES,
    MAX_TIME,
    Record,
    RecordingError,
    RecordKind,
    Segment,
    SegmentHeader,
    Unpacker,
    list_segments,
)
from cockpit.recording.frames import FrameError, State, decode_frame
from cockpit.recording.numbers import LAYOUT
from cockpit.text import clean, explain_os_error

MAX_SILENCE_S = 20.0
"""Seconds after a frame for which it stands for the present of then; frames come every 5 s, and at each change."""
MAX_EVENTS = 100_000
_DAMAGE = (RecordingError, FrameError, msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError, OSError)
"""All that damaged or hostile bytes can lead to."""
_FRAMES = (RecordKind.KEY, RecordKind.DELTA)
_event_decoder = msgspec.msgpack.Decoder(list[Event])

__all__ = ["Recording", "RecordingError"]


class _Reader:
    """One segment: its frames in their order, and the state at the one that was read last."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.frames: list[Record] = []
        self.times: list[float] = []
        self._keys: list[int] = []
        """Places of key frames."""
        self._unreadable: dict[int, str] = {}
        """Frames that were found to be damaged, with how."""
        self._at = -1
        self._state: State | None = None
        self._unpacker = Unpacker()
        self._unpacked = 0
        self._seen = self._checked = 0
        self._events_lost = 0
        self.refresh()

    def refresh(self) -> None:
        """Take in what has been written since."""
        self.segment.scan()
        for record in self.segment.records[self._seen :]:
            if record.kind in _FRAMES and record.time >= (self.times[-1] if self.times else 0.0):
                if record.kind == RecordKind.KEY:
                    self._keys.append(len(self.frames))
                self.frames.append(record)
                self.times.append(record.time)
        self._seen = len(self.segment.records)

    def find(self, moment: float) -> int:
        """The place of the last frame that is not after that moment, or -1."""
        return bisect_right(self.times, moment) - 1

    def snapshot(self, place: int) -> Snapshot | None:
        """As of the frame there; `None` where it, or one that it follows from, is damaged."""
        if not (number := bisect_right(self._keys, place)):
            return None
        key = self._keys[number - 1]
        if self._state is None or not key <= self._at <= place:
            self._at = key - 1
        try:
            while self._at < place:
                self._read(self._at + 1)
            return self._state.snapshot() if self._state else None
        except _DAMAGE as error:
            self._unreadable.setdefault(self._at + 1, str(error))
            self._state = None
            return None

    def _read(self, place: int) -> None:
        record = self.frames[place]
        payload = self._payload(place)
        if record.kind == RecordKind.KEY:
            self._unpacker, self._state, self._unpacked = Unpacker(), State(), 0
        self._unpacked += record.unpacked
        if self._unpacked > MAX_SPAN_BYTES:
            raise RecordingError("there is more data between two key frames than any cluster has")
        if self._state is None:
            raise FrameError("a frame without a key frame")
        frame = decode_frame(self._unpacker.unpack(payload, record.unpacked))
        if frame.taken != record.time:
            raise FrameError("a frame is of another time than its record")
        self._state.apply(frame)
        self._at = place

    def _payload(self, place: int) -> bytes:
        record = self.frames[place]
        return self.segment.payload(record, 0 if record.kind == RecordKind.KEY else self.frames[place - 1].checksum if place else 0)

    def events(self) -> Iterator[Event]:
        """All of it that can be read."""
        self._events_lost = 0
        for record in self.segment.records:
            if record.kind == RecordKind.EVENTS:
                try:
                    found = _event_decoder.decode(Unpacker().unpack(self.segment.payload(record), record.unpacked))
                except _DAMAGE:
                    self._events_lost += 1
                    continue
                yield from (event for event in found if 0 <= event.at < MAX_TIME)

    def damage(self) -> Iterator[str]:
        """What can't be read of it, in sentences; all of it is looked at."""
        for place in range(self._checked, len(self.frames)):
            self._check(place)
        self._checked = len(self.frames)
        for begin, end in self._lost_spans():
            yield f"from {_clock(begin)} to {_clock(end)} nothing can be read: the file is damaged"
        if self.segment.lost:
            yield f"{self.segment.lost:,} {'byte is' if self.segment.lost == 1 else 'bytes are'} damaged"
        if self._events_lost:
            yield f"{self._events_lost:,} {'group of events is' if self._events_lost == 1 else 'groups of events are'} damaged"
        if self.segment.torn:
            last = "its last byte is" if self.segment.torn == 1 else f"its last {self.segment.torn:,} bytes are"
            yield f"{last} incomplete: what was written last is lost"

    def _check(self, place: int) -> None:
        try:
            self._payload(place)
        except RecordingError as error:
            self._unreadable.setdefault(place, str(error))

    def _lost_spans(self) -> Iterator[tuple[float, float]]:
        """Each until the next key frame, which needs nothing of what was before it."""
        ends = 0
        for place in sorted(self._unreadable):
            if place < ends:
                continue
            number = bisect_right(self._keys, place)
            ends = self._keys[number] if number < len(self._keys) else len(self.frames)
            yield self.times[place], self.times[min(ends, len(self.frames) - 1)]


def _clock(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment))


class Recording:
    """What was recorded of one cluster: a folder of segments, or one of them."""

    def __init__(self, segments: Sequence[Segment], unopened: Sequence[str], path: Path) -> None:
        """`unopened`: why some of its files can't be read."""
        self.path, self._unopened = path, unopened
        self._readers = [_Reader(segment) for segment in segments]

    @classmethod
    def open(cls, path: Path, *later: Path) -> Recording:
        """A cluster's folder, or one file; and those that follow it, as the sessions of one cluster do. Raises `RecordingError`."""
        try:
            paths = [each for place in (path, *later) for each in (list_segments(place) if place.is_dir() else [place])]
        except OSError as error:
            raise RecordingError(f"{path}: {explain_os_error(error)}") from None
        if not paths:
            raise RecordingError(f"nothing is recorded in {path}")
        recording = cls(*_open_all(paths), path)
        if not any(reader.times for reader in recording._readers):
            raise RecordingError(next(iter(recording._unopened), f"nothing can be read in {path}"))
        return recording

    def close(self) -> None:
        """Let go of its files."""
        for reader in self._readers:
            reader.segment.close()

    def refresh(self) -> None:
        """Take in what has been written to its last file since."""
        self._readers[-1].refresh()

    @property
    def cluster(self) -> SegmentHeader:
        """Which cluster it is of, as its last file says."""
        return self._readers[-1].segment.header

    @property
    def session_ends(self) -> Sequence[float]:
        """The last moment of each of its sessions of Ray, the newest first."""
        ends = {reader.segment.header.session: reader.times[-1] for reader in self._readers if reader.times}
        return sorted(ends.values(), reverse=True)

    @property
    def begin(self) -> float:
        """The first moment that is recorded."""
        return min(reader.times[0] for reader in self._readers if reader.times)

    @property
    def end(self) -> float:
        """The last."""
        return max(reader.times[-1] for reader in self._readers if reader.times)

    def covers(self, moment: float) -> bool:
        """Whether something was recorded then."""
        return self._find(moment) is not None

    def snapshot_at(self, moment: float) -> Snapshot | None:
        """The state at that moment; `None` where nothing was recorded."""
        found = self._find(moment)
        return found[0].snapshot(found[1]) if found else None

    def _find(self, moment: float) -> tuple[_Reader, int] | None:
        """The last frame of then; where the clock was set back and two were recorded at that time, the later one."""
        for reader in reversed(self._readers):
            place = reader.find(moment)
            if place >= 0 and moment - reader.times[place] <= MAX_SILENCE_S:
                return reader, place
        return None

    def walk(self, begin: float | None = None, end: float | None = None, step_s: float = 0) -> Iterator[Snapshot]:
        """What was recorded in that time, in its order; with `step_s` no two nearer to each other than that."""
        last = float("-inf")
        for reader in self._readers:
            for place, at in enumerate(reader.times):
                if (begin is not None and at < begin) or (end is not None and at > end) or at < last + step_s or at <= last:
                    continue
                if (snapshot := reader.snapshot(place)) is not None:
                    last = at
                    yield snapshot

    def events(self, begin: float | None = None, end: float | None = None) -> Sequence[Event]:
        """What happened in that time, the oldest first."""
        found = (event for reader in self._readers for event in reader.events())
        within = (event for event in found if (begin is None or event.at >= begin) and (end is None or event.at <= end))
        return sorted(islice(within, MAX_EVENTS), key=lambda event: event.at)

    @property
    def gaps(self) -> Sequence[tuple[float, float]]:
        """When nothing was recorded, between its begin and its end."""
        times = sorted(at for reader in self._readers for at in reader.times)
        return [(one, other) for one, other in pairwise(times) if other - one > MAX_SILENCE_S]

    @property
    def damage(self) -> Sequence[str]:
        """What is lost, in sentences."""
        found = [f"{reader.segment.path.name}: {text}" for reader in self._readers for text in reader.damage()]
        return [*self._unopened, *found]


def _open_all(paths: Iterable[Path]) -> tuple[list[Segment], list[str]]:
    """Those that can be read, and why not the others."""
    opened = [_try_to_open(path) for path in paths]
    return [one for one in opened if isinstance(one, Segment)], [one for one in opened if isinstance(one, str)]


def _try_to_open(path: Path) -> Segment | str:
    try:
        segment = Segment(path)
    except RecordingError as error:
        return str(error)
    if segment.header.layout == LAYOUT:
        return segment
    segment.close()
    return f"{path.name} was recorded by cockpit {clean(segment.header.cockpit)[:40]} in a format that this version can't read"
