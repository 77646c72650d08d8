from __future__ import annotations

import errno
import os

import pytest
from msgspec.structs import replace

from cockpit.model import Job, Snapshot
from cockpit.recording import writer as writing
from cockpit.recording.events import Event
from cockpit.recording.files import RecordKind, Segment, list_segments
from cockpit.recording.recording import Recording
from cockpit.recording.writer import KEY_EVERY_S, SegmentWriter
from tests import world
from tests.recording.recorded import snapshots, write

SECRET = "hf_" + "abcdefGHIJKLmnopqrSTUVwxyz01234567"


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "recordings" / "cluster"
    path.mkdir(parents=True)
    return path


def kinds(path):
    segment = Segment(path)
    segment.scan()
    return [(RecordKind(record.kind).name, record.time) for record in segment.records]


def test_key_frames_come_first_every_five_minutes_and_before_a_readers_limit(folder, monkeypatch):
    written = list(snapshots(130))
    keys = [moment for kind, moment in kinds(write(folder, written)) if kind == "KEY"]
    assert keys == [written[0].taken, written[0].taken + KEY_EVERY_S, written[0].taken + 2 * KEY_EVERY_S]
    monkeypatch.setattr(writing, "MAX_SPAN_BYTES", 20_000)
    written = list(snapshots(50))
    assert [kind for kind, _ in kinds(write(folder, written))].count("KEY") > 1
    assert Recording.open(folder).snapshot_at(written[-1].taken).nodes == written[-1].nodes


def test_a_full_old_or_later_segment_is_followed_by_a_new_one(folder):
    writer, now = SegmentWriter(folder, segment_bytes=4000), world.snapshot()
    for taken in (0.0, 5.0):
        writer.write(replace(now, taken=now.taken + taken))
    assert len(list(list_segments(folder))) == 1
    writer.write(replace(now, taken=now.taken + 90_000))
    assert len(list(list_segments(folder))) == 2
    writer.write(now)
    assert len(list(list_segments(folder))) == 3
    writer.close()
    assert [path.name[:7] for path in list_segments(folder)] == ["000001.", "000002.", "000003."]


def test_a_write_cut_by_a_full_disk_leaves_complete_records_and_a_key_frame_follows(folder, monkeypatch):
    writer, (one, two, three) = SegmentWriter(folder), list(snapshots(3))
    writer.write(one)
    write_all = os.write
    monkeypatch.setattr(writing.os, "write", lambda file, data: write_all(file, data[:20]))
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        writer.write(two)
    monkeypatch.undo()
    writer.write(three)
    recording = Recording.open(folder)
    assert recording.damage == []
    assert [kind for kind, _ in kinds(next(list_segments(folder)))] == ["KEY", "KEY"]
    assert recording.snapshot_at(three.taken).taken == three.taken


def test_no_secret_reaches_the_disk(folder):
    job = Job(
        "a", entrypoint=f"python train.py --token {SECRET}", message=f"no access with {SECRET}", metadata={"api_key": "Kx81jsaJ2lLsa91"}
    )
    process = world.process(5, command=f"HF_TOKEN={SECRET} python serve.py")
    finding = world.finding(evidence=(f"curl -H 'Authorization: Bearer {SECRET}'",))
    now = Snapshot(taken=5.0, jobs=(job,), processes=(process,), findings=(finding,))
    writer = SegmentWriter(folder)
    writer.write(now, [Event(5.0, "act", f"launched with {SECRET}", data={"plan": [{"command": f"x --token {SECRET}"}]})])
    recording = Recording.open(folder)
    text = repr((recording.snapshot_at(5.0), recording.events()))
    assert "•••" in text
    assert SECRET not in text
    assert "Kx81jsaJ2lLsa91" not in text


def test_many_events_are_written_in_several_records(folder, monkeypatch):
    monkeypatch.setattr(writing, "MAX_EVENT_BYTES", 1000)
    writer = SegmentWriter(folder)
    writer.write(world.snapshot(), [Event(float(number), "act", "x" * 50) for number in range(100)])
    assert [event.at for event in Recording.open(folder).events()] == [float(number) for number in range(100)]
