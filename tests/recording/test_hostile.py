from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from cockpit.model import Job
from cockpit.recording.files import Packer, RecordKind, SegmentHeader, pack_header, pack_record
from cockpit.recording.frames import FrameError, State, decode_frame, make_frame, tables_of
from cockpit.recording.numbers import LAYOUT
from cockpit.recording.recording import Recording
from cockpit.recording.writer import pack
from cockpit.report.snapshot_text import status_text
from cockpit.text import output
from tests import world
from tests.recording import fuzz
from tests.recording.recorded import write

MUTATIONS = 1500


@pytest.mark.slow
def test_a_mutated_recording_loses_only_a_part():
    assert fuzz.run(MUTATIONS) > MUTATIONS


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_nan_and_infinity_are_refused(number):
    block = msgspec.msgpack.encode({"taken": 5.0, "nodes": {"edit": [{"id": "a", "host": "w1", "agent": {"cpu": number}}]}})
    with pytest.raises(FrameError, match="values that are not numbers"):
        decode_frame(block)


def test_integers_that_look_like_infinity_are_read():
    size = int.from_bytes(b"\xcb\x7f\xf0\0", "big")
    frame = decode_frame(msgspec.msgpack.encode({"taken": 5.0, "sessions": {"edit": [{"name": "s", "path": "p", "size": size}]}}))
    assert frame.sessions is not None
    assert frame.sessions.edit[0].size == size


def test_a_frame_with_another_time_than_its_record_is_refused(tmp_path):
    block = pack(make_frame(None, tables_of(replace(world.snapshot(), taken=1e300))))
    data, _ = pack_record(RecordKind.KEY, 5.0, Packer().pack(block, anew=True), len(block))
    (tmp_path / "a.cockpit").write_bytes(pack_header(SegmentHeader(layout=LAYOUT)) + data)
    assert Recording.open(tmp_path / "a.cockpit").snapshot_at(5.0) is None


def test_no_content_reaches_the_terminal_uncleaned(tmp_path, capsys):
    path = write(tmp_path / "recordings" / "cluster", [world.snapshot("\x1b[2J\x9b31m\u202e")])
    recording = Recording.open(path)
    output.print_line(status_text(recording.snapshot_at(recording.begin)))
    printed = capsys.readouterr().out
    assert not any(character in printed for character in "\x1b\x9b\u202e")


def test_a_runtime_environment_in_a_recording_is_not_even_decoded():
    block = msgspec.msgpack.encode({"taken": 5.0, "jobs": {"edit": [{"id": "a", "runtime_env": {"a": [[]] * 9}}]}})
    state = State()
    state.apply(decode_frame(block))
    assert state.snapshot().jobs == (Job("a"),)
