from __future__ import annotations

import os
import stat

import pytest
import zstandard
from msgspec.structs import replace

from cockpit.recording import files
from cockpit.recording.files import (
    MAX_BLOCK_BYTES,
    Packer,
    RecordingError,
    RecordKind,
    Segment,
    SegmentHeader,
    Unpacker,
    open_for_writing,
    pack_header,
    pack_record,
)


def test_a_block_is_packed_with_the_previous_ones_and_can_be_read_at_once():
    packer, unpacker, noise = Packer(), Unpacker(), os.urandom(1000)
    for number, block in enumerate((b"one" * 100, b"two", b"one" * 100)):
        assert unpacker.unpack(packer.pack(block, anew=number == 0), len(block)) == block
    assert len(packer.pack(noise, anew=True)) > 1000
    assert len(packer.pack(noise, anew=False)) < 100
    assert len(packer.pack(noise, anew=True)) > 1000


def test_no_more_bytes_are_unpacked_than_a_record_states():
    bomb = zstandard.ZstdCompressor().compress(bytes(1 << 30))
    assert Unpacker().unpack(bomb, 100) == bytes(100)


def test_a_block_that_needs_a_larger_window_than_ours_is_refused():
    parameters = zstandard.ZstdCompressionParameters(window_log=27)
    wide = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    payload = wide.compress(os.urandom(1000)) + wide.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    with pytest.raises(RecordingError, match="can't be unpacked"):
        Unpacker().unpack(payload, 1000)


@pytest.mark.parametrize("payload", [b"", b"nonsense", Packer().pack(b"short", anew=True)])
def test_a_block_that_contradicts_its_record_is_refused(payload):
    with pytest.raises(RecordingError):
        Unpacker().unpack(payload, 1000)


def written(tmp_path, *records):
    path = tmp_path / "a.cockpit"
    path.write_bytes(pack_header(SegmentHeader()) + b"".join(records))
    segment = Segment(path)
    segment.scan()
    return segment


def test_a_record_with_an_impossible_size_is_refused(tmp_path):
    segment = written(
        tmp_path, pack_record(RecordKind.KEY, 5.0, b"?", MAX_BLOCK_BYTES + 1)[0], pack_record(RecordKind.KEY, 6.0, b"?", 1)[0]
    )
    assert [record.time for record in segment.records] == [6.0]
    assert segment.lost > 0


def test_no_more_records_are_listed_than_a_day_can_have(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_RECORDS", 3)
    assert len(written(tmp_path, *[pack_record(RecordKind.EVENTS, float(at), b"?", 1)[0] for at in range(9)]).records) == 3


def test_a_file_full_of_false_beginnings_of_records_is_not_searched_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_RECORDS", 10)
    beginnings = pack_record(RecordKind.KEY, 5.0, b"?", 1)[0][:4] * 1000
    segment = written(tmp_path, beginnings)
    assert (segment.records, segment.lost, segment.torn) == ([], 40, len(beginnings) - 40)


def test_a_record_with_another_time_than_was_written_is_damaged(tmp_path):
    segment = written(tmp_path, pack_record(RecordKind.EVENTS, 5.0, b"payload", 7)[0])
    assert segment.payload(segment.records[0]) == b"payload"
    with pytest.raises(RecordingError, match="are damaged"):
        segment.payload(replace(segment.records[0], time=6.0))


def test_a_file_is_private_and_never_overwritten(tmp_path):
    path = tmp_path / "state" / "a.cockpit"
    path.parent.mkdir()
    os.close(open_for_writing(path, checks_folder=True))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        open_for_writing(path, checks_folder=True)


def test_nothing_is_written_through_a_link_or_into_a_shared_folder(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="exists"):
        open_for_writing(tmp_path / "link", checks_folder=False)
    assert not (tmp_path / "elsewhere").exists()
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(PermissionError, match="everybody can write to it"):
        open_for_writing(tmp_path / "open" / "a.cockpit", checks_folder=True)
