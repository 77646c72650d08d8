"""Reads and writes segments: files of a header and records, each record with its length and a checksum."""

from __future__ import annotations

import os
import stat
import struct
import zlib
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import Final

import msgspec
import zstandard

from cockpit import __version__
from cockpit.text import explain_os_error
from cockpit.trust import is_plain, why_not_ours

MAGIC: Final = b"cockpit\x00"
MAJOR: Final = 1
"""A reader refuses a higher major version."""
MINOR: Final = 0
"""A reader ignores the fields that a higher minor version adds."""
SUFFIX: Final = ".cockpit"
_HEADER: Final = struct.Struct("<8sHHI")
"""Magic, major, minor, length of the rest."""
_RECORD: Final = struct.Struct("<4sIIIBd")
"""Mark, checksum of all that follows, bytes here, bytes unpacked, kind, time."""
_MARK: Final = b"\xc1CkR"
"""It starts each record, so that the next one is found behind a damaged one. No msgpack value begins with C1."""
_CHECKED: Final = 8
"""The checksum covers the record from this byte on."""
MAX_HEADER_BYTES: Final = 1 << 16
MAX_BLOCK_BYTES: Final = 1 << 24
"""An unpacked block: three times the key frame of 1,000 nodes with 16,000 processes."""
MAX_SPAN_BYTES: Final = 3 * MAX_BLOCK_BYTES
"""All unpacked blocks from a key frame to the next: twice the blocks of 1,000 nodes."""
MAX_PACKED_BYTES: Final = MAX_BLOCK_BYTES + (1 << 16)
MAX_TIME: Final = 1e11
"""The year 5138: a later time is invalid."""
MAX_EVENT_BYTES: Final = 1 << 20
"""An unpacked block of events."""
MAX_SEGMENT_BYTES: Final = 1 << 30
MAX_RECORDS: Final = 200_000
"""In one segment, damaged ones too: five times the number of a day with an event in every snapshot."""
MAX_WINDOW_BYTES: Final = 1 << 23
LEVEL: Final = 3
READ_BYTES: Final = 1 << 20
SEARCH_BYTES: Final = 1 << 16


class RecordKind(IntEnum):
    """The content of a record; a reader skips unknown kinds."""

    KEY = 1
    DELTA = 2
    EVENTS = 3


class SegmentHeader(msgspec.Struct, frozen=True):
    """The header of a segment."""

    cockpit: str = __version__
    cluster: str = ""
    """The name of its folder."""
    address: str | None = None
    session: str | None = None
    host: str | None = None
    """The recording host: homes are shared, and each host has another Ray at `localhost`."""
    ray_version: str | None = None
    begun: float = 0.0
    layout: str = ""
    """`numbers.LAYOUT`: another version of cockpit may pack other fields as numbers, and each number is a difference to the last."""


class Record(msgspec.Struct, frozen=True):
    """The place of a record in its segment."""

    kind: int
    time: float
    begin: int
    """Of the payload, in bytes."""
    length: int
    unpacked: int
    checksum: int


class RecordingError(Exception):
    """A recording can't be read or written; the text is one sentence."""


def pack_header(header: SegmentHeader) -> bytes:
    """The first bytes of a segment."""
    rest = msgspec.msgpack.encode(header)
    return _HEADER.pack(MAGIC, MAJOR, MINOR, len(rest)) + rest


def pack_record(kind: RecordKind, time: float, payload: bytes, unpacked: int, after: int = 0) -> tuple[bytes, int]:
    """The bytes of a record, and its checksum. `after`: the checksum of the frame before, without which this one can't be read."""
    checksum = _checksum(kind, time, payload, unpacked, after)
    return _RECORD.pack(_MARK, checksum, len(payload), unpacked, kind, time) + payload, checksum


def _checksum(kind: int, time: float, payload: bytes, unpacked: int, after: int) -> int:
    head = _RECORD.pack(_MARK, 0, len(payload), unpacked, kind, time)
    return zlib.crc32(payload, zlib.crc32(head[_CHECKED:], after))


class Packer:
    """Compresses blocks, each with those since the last key frame as its dictionary."""

    def __init__(self) -> None:
        self._compressor = zstandard.ZstdCompressor(level=LEVEL)
        self._stream = self._compressor.compressobj()

    def pack(self, block: bytes, *, anew: bool) -> bytes:
        """The compressed block, complete in itself; `anew`: begin without the blocks before."""
        if anew:
            self._stream = self._compressor.compressobj()
        return self._stream.compress(block) + self._stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)


class _Given:
    """The source of an unpacker's stream: the current payload."""

    def __init__(self) -> None:
        self.left = b""

    def read(self, count: int) -> bytes:
        given, self.left = self.left[:count], self.left[count:]
        return given


class Unpacker:
    """Decompresses blocks in their order; never produces more bytes than a record states."""

    def __init__(self) -> None:
        self._given = _Given()  # no method of ours: a reference cycle would keep eight megabytes until the next garbage collection
        decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
        self._stream = decompressor.stream_reader(self._given, read_size=READ_BYTES)  # type: ignore[arg-type]  # it only reads

    def unpack(self, payload: bytes, unpacked: int) -> bytes:
        """Raises `RecordingError` unless the block has exactly `unpacked` bytes."""
        self._given.left = payload
        try:
            block = self._stream.read(unpacked)
        except zstandard.ZstdError as error:
            raise RecordingError(f"a block can't be unpacked ({error})") from None
        if len(block) != unpacked:
            raise RecordingError("a block is shorter than its stated length")
        return block


class Segment:
    """One segment, open for reading."""

    def __init__(self, path: Path) -> None:
        """Raises `RecordingError`, also for a link or a pipe."""
        self.path = path
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError as error:
            raise RecordingError(f"{path}: {explain_os_error(error)}") from None
        try:
            self.header, self._scanned = self._read_header()
        except RecordingError:
            os.close(self._file)
            raise
        self.records: list[Record] = []
        self.lost = 0
        """Bytes between records that belong to none."""
        self._size = self._scanned
        """Its size at the last scan; it may have grown since."""

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def scan(self) -> None:
        """Find the records that were written since the last scan."""
        self._size = size = min(os.fstat(self._file).st_size, MAX_SEGMENT_BYTES)
        place, damaged = self._scanned, 0
        while place + _RECORD.size <= size and len(self.records) + damaged < MAX_RECORDS:
            record = self._read_record(place, size)
            if record is None:
                found = self._find_mark(place + 1, size)
                if found is None:
                    break
                self.lost += found - place
                place, damaged = found, damaged + 1
                continue
            self.records.append(record)
            place = record.begin + record.length
        self._scanned = place

    @property
    def torn(self) -> int:
        """Bytes at its end that are no complete record."""
        return max(0, self._size - self._scanned)

    def payload(self, record: Record, after: int = 0) -> bytes:
        """The payload of a record. Raises `RecordingError` if it is damaged, or doesn't follow the frame with the checksum `after`."""
        data = os.pread(self._file, record.length, record.begin)
        if _checksum(record.kind, record.time, data, record.unpacked, after) != record.checksum:
            raise RecordingError(f"{record.length} bytes at {record.begin} are damaged")
        return data

    def _read_header(self) -> tuple[SegmentHeader, int]:
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            raise RecordingError(f"{self.path} is not a regular file")
        head = os.pread(self._file, _HEADER.size, 0)
        if len(head) < _HEADER.size or not head.startswith(MAGIC):
            raise RecordingError(f"{self.path.name} is not a cockpit recording")
        _, major, _, length = _HEADER.unpack(head)
        if major > MAJOR:
            raise RecordingError(f"{self.path.name} has format {major}, and this cockpit reads up to {MAJOR}: it needs a later cockpit")
        if length > MAX_HEADER_BYTES:
            raise RecordingError(f"the header of {self.path.name} is damaged")
        try:
            header = msgspec.msgpack.decode(os.pread(self._file, length, _HEADER.size), type=SegmentHeader)
        except (msgspec.MsgspecError, ValueError):
            raise RecordingError(f"the header of {self.path.name} is damaged") from None
        return header, _HEADER.size + length

    def _read_record(self, place: int, size: int) -> Record | None:
        """The record at a place in the segment of this size; `None`: there is none."""
        head = os.pread(self._file, _RECORD.size, place)
        if len(head) < _RECORD.size:
            return None
        mark, checksum, length, unpacked, kind, time = _RECORD.unpack(head)
        begin = place + _RECORD.size
        most_unpacked = MAX_EVENT_BYTES if kind == RecordKind.EVENTS else MAX_BLOCK_BYTES
        fits = length <= MAX_PACKED_BYTES and unpacked <= most_unpacked and begin + length <= size
        return Record(kind, time, begin, length, unpacked, checksum) if mark == _MARK and fits and 0 <= time < MAX_TIME else None

    def _find_mark(self, place: int, size: int) -> int | None:
        """The next place where a record may begin."""
        while place + len(_MARK) <= size:
            data = os.pread(self._file, SEARCH_BYTES, place)
            if (at := data.find(_MARK)) >= 0:
                return place + at
            if len(data) < len(_MARK):  # the file was truncated meanwhile
                return None
            place += len(data) - len(_MARK) + 1
        return None


def list_segments(folder: Path) -> Iterator[Path]:
    """The segments in a folder, the oldest first."""
    names = sorted(entry.name for entry in os.scandir(folder) if entry.name.endswith(SUFFIX))
    return (folder / name for name in names)


def open_for_writing(path: Path, *, checks_folder: bool) -> int:
    """Create a file; `checks_folder`: refuse a folder that other users may write. Raises `OSError`."""
    if checks_folder and (reason := why_not_ours(path.parent)) is not None:
        raise PermissionError(1, f"its folder: {reason}", str(path))
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(path, flags, 0o600)
    if not is_plain(os.fstat(file)):
        os.close(file)
        raise PermissionError(1, "it belongs to another user", str(path))
    return file
