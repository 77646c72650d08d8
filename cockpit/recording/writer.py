"""Appends snapshots and events to segments; decides when a key frame is due and when a new segment begins."""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from cockpit.config.thresholds import LARGE_CLUSTER_NODES
from cockpit.model import Snapshot
from cockpit.recording.events import Event
from cockpit.recording.files import (
    MAX_BLOCK_BYTES,
    MAX_EVENT_BYTES,
    MAX_SPAN_BYTES,
    SUFFIX,
    Packer,
    RecordKind,
    SegmentHeader,
    list_segments,
    open_for_writing,
    pack_header,
    pack_record,
)
from cockpit.recording.frames import OTHER_TABLES, TABLES, Change, Frame, Tables, make_frame, tables_of
from cockpit.recording.numbers import LAYOUT
from cockpit.recording.redaction import pack_row, redact_texts

KEY_EVERY_S, LARGE_KEY_EVERY_S = 300.0, 900.0
"""Seconds from a key frame to the next. Damage destroys at most this span, and a reader decodes at most this span to show a moment."""
SEGMENT_S = 86400.0
SEGMENT_BYTES = 256 << 20
FSYNC_EVERY_S = 60.0
_encoder = msgspec.msgpack.Encoder()


class SegmentWriter:
    """Appends to one recording; only one thread may use it."""

    def __init__(self, folder: Path, *, own_name: str = "", segment_bytes: int = SEGMENT_BYTES, only: Path | None = None) -> None:
        """`own_name`: part of the files' names, if no lock keeps other writers away; `only`: write everything to this file."""
        self._only = only
        self._folder, self._own_name, self._segment_bytes = folder, own_name, segment_bytes
        self.path: Path | None = None
        self._file: int | None = None
        self._written = 0
        self._begun = self._key_at = self._synced = float("-inf")
        self._last: Tables | None = None
        self._last_time = float("-inf")
        self._packer = Packer()
        self._checksum = 0
        """The checksum of the last frame."""
        self._span = 0
        """Unpacked bytes since the last key frame."""

    def write(self, snapshot: Snapshot, events: Iterable[Event] = ()) -> None:
        """Append the changes since the last snapshot, and events. Raises `OSError`."""
        self._roll(snapshot)
        records = [self._pack_frame(snapshot), *self._pack_events(list(events), snapshot.taken)]
        self._append(b"".join(records))
        self._last_time = snapshot.taken

    def write_events(self, events: Sequence[Event], at: float) -> None:
        """Append events alone, if a segment is open. Raises `OSError`."""
        if self._file is not None:
            self._append(b"".join(self._pack_events(events, at)))

    def close(self) -> None:
        """Flush the segment to the disk and close it; the next write begins a new one."""
        if self._file is not None:
            file, self._file, self._last = self._file, None, None
            try:
                os.fsync(file)
            finally:
                os.close(file)

    def _roll(self, snapshot: Snapshot) -> None:
        """Begin a new segment if the last is long enough, or the clock was set back."""
        is_full = self._written >= self._segment_bytes or snapshot.taken - self._begun >= SEGMENT_S
        if self._file is not None and (self._only or (not is_full and snapshot.taken >= self._last_time)):
            return
        self.close()
        cluster = snapshot.cluster
        header = SegmentHeader(
            cluster=self._folder.name,
            address=cluster.address,
            session=cluster.session,
            host=socket.gethostname(),
            ray_version=cluster.ray_version,
            begun=snapshot.taken,
            layout=LAYOUT,
        )
        if self._only:
            self.path = self._only
        else:  # with a number, so that names are in order even if the clock was set back
            numbers = [path.name.partition(".")[0] for path in list_segments(self._folder)]
            number = max((int(text) for text in numbers if text.isdigit() and len(text) < 10), default=0) + 1
            day = time.strftime("%Y-%m-%dT%H-%M", time.localtime(snapshot.taken))
            self.path = self._folder / f"{number:06}.{day}{f'.{self._own_name}' if self._own_name else ''}{SUFFIX}"
        self._file = open_for_writing(self.path, checks_folder=self._only is None)
        self._written, self._begun, self._last = 0, snapshot.taken, None
        self._append(pack_header(header))

    def _pack_frame(self, snapshot: Snapshot) -> bytes:
        now = tables_of(snapshot)
        key_every_s = LARGE_KEY_EVERY_S if len(snapshot.nodes or ()) > LARGE_CLUSTER_NODES else KEY_EVERY_S
        is_key = self._last is None or snapshot.taken - self._key_at >= key_every_s
        block = pack(make_frame(None if is_key else self._last, now))
        if not is_key and self._span + len(block) > MAX_SPAN_BYTES:
            is_key, block = True, pack(make_frame(None, now))
        if len(block) > MAX_BLOCK_BYTES:
            raise OSError(errno.EFBIG, "a state of this cluster is too large to be recorded")
        if is_key:
            self._key_at, self._span, self._checksum = snapshot.taken, 0, 0
        self._span += len(block)
        self._last = now
        kind = RecordKind.KEY if is_key else RecordKind.DELTA
        data, self._checksum = pack_record(kind, snapshot.taken, self._packer.pack(block, anew=is_key), len(block), self._checksum)
        return data

    def _pack_events(self, events: Sequence[Event], at: float) -> list[bytes]:
        if not events:
            return []
        block = _encoder.encode(redact_texts(events))
        if len(block) > MAX_EVENT_BYTES:
            half = len(events) // 2
            return [*self._pack_events(events[:half], at), *self._pack_events(events[half:] if half else [], at)]
        return [pack_record(RecordKind.EVENTS, at, Packer().pack(block, anew=True), len(block))[0]]

    def _append(self, data: bytes) -> None:
        """Append all of it or nothing: if the disk is full, what it has taken is cut off again."""
        if self._file is None:
            return
        try:
            if os.write(self._file, data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # noqa: TRY301 handled as if the write itself had failed
        except OSError:
            self._last = None  # the next begins with a key frame
            os.ftruncate(self._file, self._written)
            raise
        self._written += len(data)
        if time.monotonic() - self._synced >= FSYNC_EVERY_S:
            self._synced = time.monotonic()
            os.fsync(self._file)


def pack(frame: Frame) -> bytes:
    """The frame in msgpack, without secrets."""
    for name in (*TABLES, *OTHER_TABLES):
        change: Change[object] | None = getattr(frame, name)
        if change is not None and change.edit is not None:
            change.edit = [row if isinstance(row, tuple) else pack_row(row) for row in change.edit]
    return _encoder.encode(frame)
