"""Writes a part of a recording to a file of its own, for other people."""

from __future__ import annotations

from contextlib import closing
from itertools import islice
from pathlib import Path

from cockpit.recording.files import RecordingError
from cockpit.recording.recording import Recording
from cockpit.recording.writer import SegmentWriter

EVENTS_AT_ONCE = 1000


def cut(recording: Recording, begin: float, end: float, path: Path) -> int:
    """Write the part from `begin` to `end`; returns the number of frames. Raises `RecordingError` and `OSError`."""
    frames = 0
    with closing(SegmentWriter(path.parent, only=path)) as writer:
        for snapshot in recording.walk(begin, end):
            writer.write(snapshot)
            frames += 1
        events = iter(recording.events(begin, end))
        while some := list(islice(events, EVENTS_AT_ONCE)):
            writer.write_events(some, some[0].at)
    if not frames:
        raise RecordingError("nothing was recorded in that time")
    return frames
