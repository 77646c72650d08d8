"""What lies on disk: segments with a header and records, each with its length and a checksum; what of them is torn or damaged."""

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
"""A reader refuses a higher one."""
MINOR: Final = 0
"""A reader ignores what a higher one has more."""
SUFFIX: Final = ".cockpit"
_HEADER: Final = struct.Struct("<8sHHI")
"""Magic, major, minor, length of the rest."""
_RECORD: Final = struct.Struct("<4sIIIBd")
"""Mark, checksum of all that follows, bytes here, bytes unpacked, kind, time."""
_MARK: Final = b"\xc1CkR"
"""No msgpack begins with C1: by it the next record is found behind a damaged one."""
_CHECKED: Final = 8
"""Where what the checksum is of begins."""
MAX_HEADER_BYTES: Final = 1 << 16
MAX_BLOCK_BYTES: Final = 1 << 24
"""A block, unpacked: three times the key frame of 1,000 nodes with 16,000 processes."""
MAX_SPAN_BYTES: Final = 3 * MAX_BLOCK_BYTES
"""All blocks from a key frame to the next, unpacked: twice those of 1,000 nodes."""
MAX_PACKED_BYTES: Final = MAX_BLOCK_BYTES + (1 << 16)
MAX_TIME: Final = 1e11
"""The year 5138: later is no date."""
MAX_EVENT_BYTES: Final = 1 << 20
"""A block of events, unpacked."""
MAX_SEGMENT_BYTES: Final = 1 << 30
MAX_RECORDS: Final = 200_000
"""Of a segment: five times those of a day in which something happens with every snapshot."""
MAX_WINDOW_BYTES: Final = 1 << 23
LEVEL: Final = 3
READ_BYTES: Final = 1 << 20


class RecordKind(IntEnum):
    """What a record holds; a reader passes over kinds that it doesn't know."""

    KEY = 1
    DELTA = 2
    EVENTS = 3


class SegmentHeader(msgspec.Struct, frozen=True):
    """Of a segment."""

    cockpit: str = __version__
    cluster: str = ""
    """Its folder's name."""
    address: str | None = None
    session: str | None = None
    host: str | None = None
    """Where it was recorded: another one has another Ray at `localhost`, and homes are shared."""
    ray_version: str | None = None
    begun: float = 0.0
    layout: str = ""
    """Which fields of rows are packed as numbers: another cockpit may have others, and each number belongs to the one before it."""


class Record(msgspec.Struct, frozen=True):
    """Where a record lies."""

    kind: int
    time: float
    begin: int
    """Of its payload."""
    length: int
    unpacked: int
    checksum: int


class RecordingError(Exception):
    """Why a recording can't be read or written, in a sentence."""


def pack_header(header: SegmentHeader) -> bytes:
    """What a segment begins with."""
    rest = msgspec.msgpack.encode(header)
    return _HEADER.pack(MAGIC, MAJOR, MINOR, len(rest)) + rest


def pack_record(kind: RecordKind, time: float, payload: bytes, unpacked: int, after: int = 0) -> tuple[bytes, int]:
    """A record, to be appended, and its checksum; `after`: that of the frame before it, which it can't be read without."""
    checksum = _checksum(kind, time, payload, unpacked, after)
    return _RECORD.pack(_MARK, checksum, len(payload), unpacked, kind, time) + payload, checksum


def _checksum(kind: int, time: float, payload: bytes, unpacked: int, after: int) -> int:
    head = _RECORD.pack(_MARK, 0, len(payload), unpacked, kind, time)
    return zlib.crc32(payload, zlib.crc32(head[_CHECKED:], after))


class Packer:
    """Compresses blocks, each against those before it since the last key frame."""

    def __init__(self) -> None:
        self._compressor = zstandard.ZstdCompressor(level=LEVEL)
        self._stream = self._compressor.compressobj()

    def pack(self, block: bytes, *, anew: bool) -> bytes:
        """The block, flushed: all of it can be read as soon as these bytes are written."""
        if anew:
            self._stream = self._compressor.compressobj()
        return self._stream.compress(block) + self._stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)


class _Given:
    """What an unpacker's stream reads from: the payload that is its turn."""

    def __init__(self) -> None:
        self.left = b""

    def read(self, count: int) -> bytes:
        given, self.left = self.left[:count], self.left[count:]
        return given


class Unpacker:
    """The same way back; never unpacks more than a record says, whatever its bytes would become."""

    def __init__(self) -> None:
        self._given = _Given()  # an object of its own: a circle would keep eight megabytes until somebody looks for garbage
        decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
        self._stream = decompressor.stream_reader(self._given, read_size=READ_BYTES)  # type: ignore[arg-type]  # it only reads

    def unpack(self, payload: bytes, unpacked: int) -> bytes:
        """Raises `RecordingError`."""
        self._given.left = payload
        try:
            block = self._stream.read(unpacked)
        except zstandard.ZstdError as error:
            raise RecordingError(f"a block can't be unpacked ({error})") from None
        if len(block) != unpacked:
            raise RecordingError("a block is shorter than its stated length")
        return block


class Segment:
    """A file of a recording, open for reading."""

    def __init__(self, path: Path) -> None:
        """Raises `RecordingError`."""
        self.path = path
        self._file = _open_plain(path)
        try:
            self.header, self._scanned = self._read_header()
        except RecordingError:
            os.close(self._file)
            raise
        self.records: list[Record] = []
        self.lost = 0
        """Bytes between records that are none."""
        self._size = self._scanned
        """What there was when it was looked at: more may have been written since."""

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)

    def scan(self) -> None:
        """Find the records that have been written since the last time."""
        self._size = size = min(os.fstat(self._file).st_size, MAX_SEGMENT_BYTES)
        place = self._scanned
        window = _Window(self._file)
        while place + _RECORD.size <= size and len(self.records) < MAX_RECORDS:
            record = _parse(window.bytes_at(place, _RECORD.size), place, size)
            if record is None:
                found = window.find(_MARK, place + 1, size)
                if found is None:
                    break
                self.lost += found - place
                place = found
                continue
            self.records.append(record)
            place = record.begin + record.length
        self._scanned = place

    @property
    def torn(self) -> int:
        """Bytes at its end that are no whole record."""
        return max(0, self._size - self._scanned)

    def payload(self, record: Record, after: int = 0) -> bytes:
        """Raises `RecordingError` where it is damaged, or doesn't follow the record with that checksum."""
        data = os.pread(self._file, record.length, record.begin)
        if _checksum(record.kind, record.time, data, record.unpacked, after) != record.checksum:
            raise RecordingError(f"{record.length} bytes at {record.begin} are damaged")
        return data

    def _read_header(self) -> tuple[SegmentHeader, int]:
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


class _Window:
    """A file read a megabyte at a time."""

    def __init__(self, file: int) -> None:
        self._file, self._begin, self._data = file, 0, b""

    def bytes_at(self, place: int, count: int) -> bytes:
        if not self._begin <= place <= place + count <= self._begin + len(self._data):
            self._begin, self._data = place, os.pread(self._file, READ_BYTES, place)
        return self._data[place - self._begin : place - self._begin + count]

    def find(self, what: bytes, place: int, end: int) -> int | None:
        while place + len(what) <= end:
            self._begin, self._data = place, os.pread(self._file, READ_BYTES, place)
            if (at := self._data.find(what)) >= 0:
                return place + at
            place += max(1, len(self._data) - len(what) + 1)
        return None


def _parse(head: bytes, place: int, size: int) -> Record | None:
    if len(head) < _RECORD.size:
        return None
    mark, checksum, length, unpacked, kind, time = _RECORD.unpack(head)
    begin = place + _RECORD.size
    fits = (
        length <= MAX_PACKED_BYTES
        and unpacked <= (MAX_EVENT_BYTES if kind == RecordKind.EVENTS else MAX_BLOCK_BYTES)
        and begin + length <= size
    )
    return Record(kind, time, begin, length, unpacked, checksum) if mark == _MARK and fits and 0 <= time < MAX_TIME else None


def _open_plain(path: Path) -> int:
    """Raises `RecordingError`: no link, no pipe."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise RecordingError(f"{path}: {explain_os_error(error)}") from None
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise RecordingError(f"{path} is not a regular file")
    return file


def list_segments(folder: Path) -> Iterator[Path]:
    """Its segments in the order in which they were begun."""
    names = sorted(entry.name for entry in os.scandir(folder) if entry.name.endswith(SUFFIX))
    return (folder / name for name in names)


def open_for_writing(path: Path, *, checks_folder: bool) -> int:
    """A new file of ours. Raises `OSError`."""
    if checks_folder and (reason := why_not_ours(path.parent)) is not None:
        raise PermissionError(1, f"its folder: {reason}", str(path))
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(path, flags, 0o600)
    if not is_plain(os.fstat(file)):
        os.close(file)
        raise PermissionError(1, "it belongs to another user", str(path))
    return file
