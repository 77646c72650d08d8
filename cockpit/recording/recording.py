"""Reads a recording: the state at any moment, the events, and the lost parts."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
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
"""A frame counts for so many seconds after it; frames come every 5 s, and with each event."""
MAX_EVENTS = 100_000
_DAMAGE = (RecordingError, FrameError, msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError, OSError)
"""All errors that damaged or hostile bytes can cause."""
_FRAMES = (RecordKind.KEY, RecordKind.DELTA)
_event_decoder = msgspec.msgpack.Decoder(list[Event])

__all__ = ["Recording", "RecordingError"]


class _Reader:
    """Reads one segment; keeps the state at the frame that was read last, so that the next one needs only its own changes."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.frames: list[Record] = []
        self.times: list[float] = []
        self._keys: list[int] = []
        """Indices of key frames in `frames`."""
        self._unreadable: set[int] = set()
        """Indices of damaged frames."""
        self._at = -1
        self._state: State | None = None
        self._unpacker = Unpacker()
        self._unpacked = 0
        self._seen = self._checked = 0
        self._events_lost = 0
        self.refresh()

    def refresh(self) -> None:
        """Find the frames that were written since."""
        self.segment.scan()
        for record in self.segment.records[self._seen :]:
            if record.kind in _FRAMES and record.time >= (self.times[-1] if self.times else 0.0):
                if record.kind == RecordKind.KEY:
                    self._keys.append(len(self.frames))
                self.frames.append(record)
                self.times.append(record.time)
        self._seen = len(self.segment.records)

    def find(self, moment: float) -> int:
        """The index of the last frame that is not after the moment, or -1."""
        return bisect_right(self.times, moment) - 1

    def snapshot(self, place: int) -> Snapshot | None:
        """The state at the frame `place`; `None` if that frame, or one on which it rests, is damaged."""
        if not (number := bisect_right(self._keys, place)):
            return None
        key = self._keys[number - 1]
        if self._state is None or not key <= self._at <= place:
            self._at = key - 1
        try:
            while self._at < place:
                self._read(self._at + 1)
            return self._state.snapshot() if self._state else None
        except _DAMAGE:
            self._unreadable.add(self._at + 1)
            self._state = None
            return None

    def _read(self, place: int) -> None:
        """Apply one frame to the state. Raises an error of `_DAMAGE`."""
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
        """All events that can be read."""
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
        """Sentences about the unreadable parts; reads the whole segment."""
        for place in range(self._checked, len(self.frames)):
            try:
                self._payload(place)
            except RecordingError:  # noqa: PERF203 each frame is checked by itself
                self._unreadable.add(place)
        self._checked = len(self.frames)
        # A damaged frame loses all frames before the next key frame.
        end = 0
        for place in sorted(self._unreadable):
            if place < end:
                continue
            number = bisect_right(self._keys, place)
            end = self._keys[number] if number < len(self._keys) else len(self.frames)
            first, last = (
                time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.times[at])) for at in (place, min(end, len(self.frames) - 1))
            )
            yield f"from {first} to {last} nothing can be read: the file is damaged"
        if self.segment.lost:
            yield f"{self.segment.lost:,} {'byte is' if self.segment.lost == 1 else 'bytes are'} damaged"
        if self._events_lost:
            yield f"{self._events_lost:,} {'group of events is' if self._events_lost == 1 else 'groups of events are'} damaged"
        if self.segment.torn:
            torn = "its last byte is" if self.segment.torn == 1 else f"its last {self.segment.torn:,} bytes are"
            yield f"{torn} incomplete: what was written last is lost"


class Recording:
    """The recording of one cluster: a folder of segments, or one segment."""

    def __init__(self, segments: Sequence[Segment], unopened: Sequence[str], path: Path) -> None:
        """`unopened`: why other files of it can't be read."""
        self.path, self._unopened = path, unopened
        self._readers = [_Reader(segment) for segment in segments]

    @classmethod
    def open(cls, path: Path, *later: Path) -> Recording:
        """Open a cluster's folder or one file; `later`: the folders of the cluster's later sessions. Raises `RecordingError`."""
        try:
            paths = [each for place in (path, *later) for each in (list_segments(place) if place.is_dir() else [place])]
        except OSError as error:
            raise RecordingError(f"{path}: {explain_os_error(error)}") from None
        if not paths:
            raise RecordingError(f"nothing is recorded in {path}")
        segments, unopened = list[Segment](), list[str]()
        for each in paths:
            try:
                segment = Segment(each)
            except RecordingError as error:
                unopened.append(str(error))
                continue
            if segment.header.layout == LAYOUT:
                segments.append(segment)
                continue
            segment.close()
            version = clean(segment.header.cockpit)[:40]
            unopened.append(f"{each.name} was recorded by cockpit {version} in a format that this version can't read")
        recording = cls(segments, unopened, path)
        if not any(reader.times for reader in recording._readers):
            raise RecordingError(next(iter(unopened), f"nothing can be read in {path}"))
        return recording

    def close(self) -> None:
        """Close its files."""
        for reader in self._readers:
            reader.segment.close()

    def refresh(self) -> None:
        """Find what was written to the last segment since."""
        self._readers[-1].refresh()

    @property
    def cluster(self) -> SegmentHeader:
        """The header of the last segment, which names the cluster."""
        return self._readers[-1].segment.header

    @property
    def session_ends(self) -> Sequence[float]:
        """The last moment of each session of Ray, the newest first."""
        ends = {reader.segment.header.session: reader.times[-1] for reader in self._readers if reader.times}
        return sorted(ends.values(), reverse=True)

    @property
    def begin(self) -> float:
        """The first moment that is recorded."""
        return min(reader.times[0] for reader in self._readers if reader.times)

    @property
    def end(self) -> float:
        """The last moment that is recorded."""
        return max(reader.times[-1] for reader in self._readers if reader.times)

    def covers(self, moment: float) -> bool:
        """Whether something was recorded then."""
        return self._find(moment) is not None

    def snapshot_at(self, moment: float) -> Snapshot | None:
        """The state at that moment; `None`: nothing was recorded."""
        found = self._find(moment)
        return found[0].snapshot(found[1]) if found else None

    def _find(self, moment: float) -> tuple[_Reader, int] | None:
        """The last frame before the moment; of two segments with the same time, as after a clock was set back, the later one."""
        for reader in reversed(self._readers):
            place = reader.find(moment)
            if place >= 0 and moment - reader.times[place] <= MAX_SILENCE_S:
                return reader, place
        return None

    def walk(self, begin: float | None = None, end: float | None = None, step_s: float = 0) -> Iterator[Snapshot]:
        """The states from `begin` to `end` in their order, at least `step_s` apart."""
        last = float("-inf")
        for reader in self._readers:
            for place, at in enumerate(reader.times):
                if (begin is not None and at < begin) or (end is not None and at > end) or at < last + step_s or at <= last:
                    continue
                if (snapshot := reader.snapshot(place)) is not None:
                    last = at
                    yield snapshot

    def events(self, begin: float | None = None, end: float | None = None) -> Sequence[Event]:
        """The events from `begin` to `end`, the oldest first."""
        found = (event for reader in self._readers for event in reader.events())
        within = (event for event in found if (begin is None or event.at >= begin) and (end is None or event.at <= end))
        return sorted(islice(within, MAX_EVENTS), key=lambda event: event.at)

    @property
    def gaps(self) -> Sequence[tuple[float, float]]:
        """The times between its begin and its end in which nothing was recorded."""
        times = sorted(at for reader in self._readers for at in reader.times)
        return [(one, other) for one, other in pairwise(times) if other - one > MAX_SILENCE_S]

    @property
    def damage(self) -> Sequence[str]:
        """Sentences about the unreadable parts."""
        found = [f"{reader.segment.path.name}: {text}" for reader in self._readers for text in reader.damage()]
        return [*self._unopened, *found]
