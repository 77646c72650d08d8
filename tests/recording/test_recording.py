from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from cockpit.recording import files
from cockpit.recording.files import MAGIC, MAJOR, RecordKind, Segment, pack_header, pack_record
from cockpit.recording.numbers import LAYOUT
from cockpit.recording.recording import MAX_SILENCE_S, Recording, RecordingError
from cockpit.recording.writer import SegmentWriter
from tests.recording.recorded import differences, snapshots, write

COUNT = 150
"""Frames: two and a half key frames' worth."""


@pytest.fixture
def written():
    return list(snapshots(COUNT))


@pytest.fixture
def path(tmp_path, written):
    return write(tmp_path / "recordings" / "cluster", written)


def test_every_moment_is_read_back_in_order_and_in_steps(path, written):
    recording = Recording.open(path.parent)
    for snapshot in (*written[::7], *reversed(written[::11])):
        assert differences(snapshot, recording.snapshot_at(snapshot.taken + 1)) == []
    assert [one.taken for one in recording.walk()] == [one.taken for one in written]
    assert [one.taken for one in recording.walk(written[10].taken, written[16].taken, step_s=10)] == [one.taken for one in written[10:17:2]]
    assert (recording.begin, recording.end) == (written[0].taken, written[-1].taken)
    assert recording.cluster.session == written[0].cluster.session
    assert (recording.gaps, recording.damage) == ([], [])


def test_unrecorded_moments_are_unknown(tmp_path, written):
    path = write(tmp_path / "recordings" / "cluster", [*written[:20], *written[60:]])
    recording = Recording.open(path)
    assert recording.gaps == [(written[19].taken, written[60].taken)]
    assert recording.snapshot_at(written[19].taken + MAX_SILENCE_S) is not None
    assert recording.snapshot_at(written[40].taken) is None
    assert recording.snapshot_at(written[0].taken - 1) is None
    assert recording.snapshot_at(written[-1].taken + MAX_SILENCE_S + 1) is None


def test_events_are_sorted_and_selected_by_time(path):
    recording = Recording.open(path)
    events = recording.events()
    assert [event.at for event in events] == sorted(event.at for event in events)
    assert {(event.kind, event.phase) for event in events} == {("fault", "begin"), ("finding", "begin"), ("finding", "end")}
    assert recording.events(events[2].at, events[2].at) == [event for event in events if event.at == events[2].at]


def test_a_refresh_reads_new_frames(tmp_path, written):
    folder = tmp_path / "recordings" / "cluster"
    folder.mkdir(parents=True)
    writer = SegmentWriter(folder)
    writer.write(written[0])
    recording = Recording.open(folder)
    writer.write(written[1])
    recording.refresh()
    assert differences(written[1], recording.snapshot_at(written[1].taken)) == []


def test_a_truncated_end_loses_only_the_last_record_and_is_reported(path, written):
    path.write_bytes(path.read_bytes()[:-10])
    recording = Recording.open(path)
    assert recording.end >= written[-2].taken
    assert recording.snapshot_at(recording.end) is not None
    assert any("incomplete" in sentence for sentence in recording.damage)


def records_of(path):
    segment = Segment(path)
    segment.scan()
    return segment.records


def spoil(path, begin, end):
    data = bytearray(path.read_bytes())
    data[begin:end] = bytes(end - begin)
    path.write_bytes(bytes(data))


def test_a_damaged_frame_loses_all_until_the_next_key_frame_and_is_reported(path, written):
    frames = [record for record in records_of(path) if record.kind in (RecordKind.KEY, RecordKind.DELTA)]
    keys = [place for place, record in enumerate(frames) if record.kind == RecordKind.KEY]
    spoil(path, frames[10].begin, frames[10].begin + 5)
    recording = Recording.open(path)
    assert [recording.snapshot_at(written[at].taken) is None for at in (9, 10, 11, keys[1] - 1, keys[1])] == [
        False,
        True,
        True,
        True,
        False,
    ]
    assert any("nothing can be read: the file is damaged" in sentence for sentence in recording.damage)


def test_a_damaged_record_header_is_skipped(path, written):
    frames = [record for record in records_of(path) if record.kind in (RecordKind.KEY, RecordKind.DELTA)]
    keys = [place for place, record in enumerate(frames) if record.kind == RecordKind.KEY]
    spoil(path, frames[10].begin - 29, frames[10].begin)
    recording = Recording.open(path)
    assert recording.snapshot_at(written[keys[1]].taken) is not None
    assert recording.snapshot_at(written[12].taken) is None
    assert any("bytes are damaged" in sentence for sentence in recording.damage)


def test_a_missing_frame_is_noticed(path, written):
    frames = [record for record in records_of(path) if record.kind in (RecordKind.KEY, RecordKind.DELTA)]
    data = path.read_bytes()
    path.write_bytes(data[: frames[10].begin - 29] + data[frames[10].begin + frames[10].length :])
    assert Recording.open(path).snapshot_at(written[12].taken) is None


def test_a_later_format_with_our_major_number_is_read(path, written):
    head = bytearray(path.read_bytes())
    head[10:12] = (7).to_bytes(2, "little")
    path.write_bytes(bytes(head))
    assert Recording.open(path).end == written[-1].taken
    head[8:10] = (MAJOR + 1).to_bytes(2, "little")
    path.write_bytes(bytes(head))
    with pytest.raises(RecordingError, match=r"has format 2, and this cockpit reads up to 1: it needs a later cockpit"):
        Recording.open(path)


def test_additions_of_a_later_cockpit_are_ignored(tmp_path, written):
    block = msgspec.msgpack.encode(
        {"taken": 5.0, "weather": [1, 2], "nodes": {"edit": [{"id": "a", "host": "w1", "colour": "red"}], "mood": 1}}
    )
    data, _ = pack_record(RecordKind.KEY, 5.0, files.Packer().pack(block, anew=True), len(block))
    unknown, _ = pack_record(99, 6.0, b"?", 1)
    path = tmp_path / "later.cockpit"
    path.write_bytes(pack_header(files.SegmentHeader(layout=LAYOUT)) + data + unknown)
    recording = Recording.open(path)
    assert [node.host for node in recording.snapshot_at(5.0).nodes or ()] == ["w1"]
    assert recording.damage == []


def test_after_a_clock_was_set_back_both_frames_are_kept_and_the_later_is_read(tmp_path, written):
    folder = tmp_path / "recordings" / "cluster"
    again = [replace(one, cluster=replace(one.cluster, ray_version="9.9")) for one in written[5:30]]
    write(folder, written[:40])
    write(folder, again)
    recording = Recording.open(folder)
    assert recording.snapshot_at(written[10].taken).cluster.ray_version == "9.9"
    assert recording.snapshot_at(written[2].taken).cluster.ray_version == "2.60.0"
    assert recording.snapshot_at(written[39].taken).cluster.ray_version == "2.60.0"


@pytest.mark.parametrize("data", [b"", b"cockpit", b"{}" * 100, MAGIC + b"\1\0\0\0\xff\xff\xff\xff", MAGIC + b"\1\0\0\0\5\0\0\0hello"])
def test_a_file_that_is_no_recording_is_refused_with_a_sentence(tmp_path, data):
    path = tmp_path / "a.cockpit"
    path.write_bytes(data)
    with pytest.raises(RecordingError, match=r"not a cockpit recording|header of a\.cockpit is damaged"):
        Recording.open(path)


def test_a_link_an_empty_folder_and_a_missing_file_are_refused(tmp_path, path):
    (tmp_path / "link.cockpit").symlink_to(path)
    for place in (tmp_path / "link.cockpit", tmp_path, tmp_path / "missing"):
        with pytest.raises(RecordingError):
            Recording.open(place)


def test_one_unreadable_file_does_not_hide_the_others(path, written):
    (path.parent / "000000.bad.cockpit").write_bytes(b"?")
    recording = Recording.open(path.parent)
    assert recording.end == written[-1].taken
    assert recording.damage == ["000000.bad.cockpit is not a cockpit recording"]


def test_a_recording_with_another_layout_is_refused_with_its_version(tmp_path, monkeypatch):
    monkeypatch.setattr("cockpit.recording.writer.LAYOUT", "0badc0de")
    path = write(tmp_path / "rec", snapshots(3))
    with pytest.raises(RecordingError, match=r"was recorded by cockpit \d.* in a format that this version can't read"):
        Recording.open(path)
