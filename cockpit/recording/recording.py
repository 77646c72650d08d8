"""A recording, read: the state at any moment of it, what happened, and what of it is lost."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from cockpit.model import Snapshot
from cockpit.recording.events import Event
from cockpit.recording.files import Header, Kind, Record, RecordingError, Segment, Unpacker, list_segments
from cockpit.recording.frames import Frame, FrameError, State

MAX_SILENCE_S = 20.0
"""Seconds after a frame for which it stands for the present of then; frames come every 5 s, and at each change."""
MAX_SPAN_BYTES = 1 << 27
"""Unpacked, from a key frame to the next: eight times those of 1,000 nodes."""
MAX_EVENTS = 100_000
_FRAMES = (Kind.KEY, Kind.DELTA)
_frame_decoder = msgspec.msgpack.Decoder(Frame)
_event_decoder = msgspec.msgpack.Decoder(list[Event])

__all__ = ["Recording", "RecordingError"]


class _Reader:
    """One segment: its frames in their order, and the state at the one that was read last."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.frames: list[Record] = []
        self.times: list[float] = []
        self.damage: dict[int, str] = {}
        """By the place of its record."""
        self._at = -1
        self._state: State | None = None
        self._unpacker = Unpacker()
        self._unpacked = 0
        self._seen = 0
        self.refresh()

    def refresh(self) -> None:
        """Take in what has been written since."""
        self.segment.scan()
        new = [record for record in self.segment.records[self._seen :] if record.kind in _FRAMES]
        self._seen = len(self.segment.records)
        self.frames += new
        self.times += [record.time for record in new]

    def find(self, moment: float) -> int:
        """The place of the last frame that is not after that moment, or -1."""
        return bisect_right(self.times, moment) - 1

    def snapshot(self, place: int) -> Snapshot | None:
        """As of the frame there; `None` where it, or one that it follows from, is damaged."""
        key = next((at for at in range(place, -1, -1) if self.frames[at].kind == Kind.KEY), None)
        if key is None:
            return None
        if not (self._state is not None and key <= self._at <= place):
            self._at = key - 1
        try:
            while self._at < place:
                self._read(self._at + 1)
        except (RecordingError, FrameError, msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
            self.damage.setdefault(self._at + 1, str(error))
            self._state = None
            return None
        return self._state.snapshot() if self._state else None

    def _read(self, place: int) -> None:
        record = self.frames[place]
        payload = self.segment.payload(record)
        if record.kind == Kind.KEY:
            self._unpacker, self._state, self._unpacked = Unpacker(), State(), 0
        self._unpacked += record.unpacked
        if self._unpacked > MAX_SPAN_BYTES:
            raise RecordingError("there is more between two key frames than any cluster has")
        if self._state is None:
            raise FrameError("a frame without a key frame")
        self._state.apply(_frame_decoder.decode(self._unpacker.unpack(payload, record.unpacked)))
        self._at = place

    def events(self) -> Iterator[Event]:
        """All of it that can be read."""
        for record in self.segment.records:
            if record.kind == Kind.EVENTS:
                try:
                    yield from _event_decoder.decode(Unpacker().unpack(self.segment.payload(record), record.unpacked))
                except (RecordingError, msgspec.MsgspecError) as error:
                    self.damage.setdefault(-record.begin, str(error))


class Recording:
    """What was recorded of one cluster: a folder of segments, or one of them."""

    def __init__(self, segments: Sequence[Segment], path: Path) -> None:
        self.path = path
        self._readers = [_Reader(segment) for segment in segments]

    @classmethod
    def open(cls, path: Path) -> Recording:
        """A cluster's folder, or one file. Raises `RecordingError`."""
        try:
            paths = list(list_segments(path)) if path.is_dir() else [path]
        except OSError as error:
            raise RecordingError(f"{path}: {(error.strerror or str(error)).lower()}") from None
        if not paths:
            raise RecordingError(f"nothing is recorded in {path}")
        recording = cls([Segment(one) for one in paths], path)
        if not any(reader.times for reader in recording._readers):
            raise RecordingError(f"nothing can be read in {path}")
        return recording

    def close(self) -> None:
        """Let go of its files."""
        for reader in self._readers:
            reader.segment.close()

    def refresh(self) -> None:
        """Take in what has been written to its last file since."""
        self._readers[-1].refresh()

    @property
    def cluster(self) -> Header:
        """Which cluster it is of, as its last file says."""
        return self._readers[-1].segment.header

    @property
    def begin(self) -> float:
        """The first moment that is recorded."""
        return min(reader.times[0] for reader in self._readers if reader.times)

    @property
    def end(self) -> float:
        """The last."""
        return max(reader.times[-1] for reader in self._readers if reader.times)

    def snapshot_at(self, moment: float) -> Snapshot | None:
        """The state at that moment; `None` where nothing was recorded."""
        for reader in reversed(self._readers):
            place = reader.find(moment)
            if place >= 0 and moment - reader.times[place] <= MAX_SILENCE_S:
                return reader.snapshot(place)
        return None

    def walk(self, begin: float | None = None, end: float | None = None, step_s: float = 0) -> Iterator[Snapshot]:
        """What was recorded in that time, in its order; with `step_s` no two nearer to each other than that."""
        last = float("-inf")
        for reader in self._readers:
            for place, time in enumerate(reader.times):
                if (begin is not None and time < begin) or (end is not None and time > end) or time < last + step_s or time <= last:
                    continue
                if (snapshot := reader.snapshot(place)) is not None:
                    last = time
                    yield snapshot

    def events(self, begin: float | None = None, end: float | None = None) -> Sequence[Event]:
        """What happened in that time, the oldest first."""
        found = [event for reader in self._readers for event in reader.events()]
        within = [event for event in found if (begin is None or event.at >= begin) and (end is None or event.at <= end)]
        return sorted(within, key=lambda event: event.at)[:MAX_EVENTS]

    @property
    def gaps(self) -> Sequence[tuple[float, float]]:
        """When nothing was recorded, between its begin and its end."""
        times = sorted(time for reader in self._readers for time in reader.times)
        return [(one, other) for one, other in pairwise(times) if other - one > MAX_SILENCE_S]

    @property
    def damage(self) -> Sequence[str]:
        """What is lost, in sentences."""
        return [f"{reader.segment.path.name}: {text}" for reader in self._readers for text in reader.damage.values()]
