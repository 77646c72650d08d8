from __future__ import annotations

import errno
import json
import os
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from cockpit.config.thresholds import RecordingLimits
from cockpit.model import Cluster, Snapshot
from cockpit.recording import folder as folders
from cockpit.recording import recorder as recording_of
from cockpit.recording import writer as writing
from cockpit.recording.recorder import STEP_S, Recorder, RecorderState
from cockpit.recording.recording import Recording
from tests import world


@pytest.fixture
def root(tmp_path):
    return tmp_path / "state" / "recordings"


@pytest.fixture
def recorder(root):
    recorder = Recorder(root)
    yield recorder
    recorder.close()


def at(seconds, **more):
    return replace(world.snapshot(), taken=world.NOW + seconds, **more)


def record(root, *snapshots, recorder=None, **options):
    """A recorder that has recorded these snapshots and ended."""
    recorder = recorder or Recorder(root, **options)
    for snapshot in snapshots:
        recorder.on_snapshot(snapshot)
        while recorder._waiting.qsize():
            threading.Event().wait(0.001)
    end(recorder)
    return recorder


def end(recorder):
    thread = recorder._thread
    recorder.close()
    if thread is not None:
        thread.join()


def only_folder(root):
    (found,) = folders.list_recordings(root)
    return found


def test_recorded_snapshots_can_be_read(root):
    recorder = record(root, at(0), at(5))
    recording = Recording.open(only_folder(root))
    assert [one.taken for one in recording.walk()] == [world.NOW, world.NOW + 5]
    assert (recorder.state.path, recorder.state.reason) == (recording._readers[0].segment.path, None)


def test_between_two_steps_only_events_are_recorded(root):
    found = (world.finding(),)
    record(root, at(0), at(1.4), at(2.8, findings=found), at(3.2, findings=found), at(2.8 + STEP_S, findings=found))
    assert [round(one.taken - world.NOW, 3) for one in Recording.open(only_folder(root)).walk()] == [0.0, 2.8, 2.8 + STEP_S]


def test_it_waits_for_the_name_of_the_ray_for_a_limited_time(root):
    unknown = Cluster("http://head:8265")
    record(root, at(0, cluster=unknown), at(5, cluster=unknown))
    assert folders.list_recordings(root) == []
    record(root, at(0, cluster=unknown), at(20, cluster=unknown))
    assert only_folder(root).name == "head-8265"


def test_another_ray_has_its_own_folder_and_an_unknown_session_is_not_recorded(root):
    other = Cluster(session="session_other")
    snapshots = at(0), at(5, cluster=Cluster("http://other:8265")), at(10, cluster=Cluster()), at(12, cluster=other), at(17, cluster=other)
    record(root, *snapshots)
    assert sorted(path.name for path in folders.list_recordings(root)) == ["session_2026-11-21_01-17-58_164160_11638", "session_other"]
    assert [one.taken - world.NOW for one in Recording.open(root / "session_other").walk()] == [12.0, 17.0]


def test_a_dashboard_that_dies_ends_no_recording(root):
    lost = replace(world.snapshot().cluster, session=None, reachable=False)
    record(root, at(0), at(5, cluster=lost))
    assert len(list(Recording.open(only_folder(root)).walk())) == 2


def test_its_own_begin_and_end_are_events(root):
    record(root, at(0))
    own = [event for event in Recording.open(only_folder(root)).events() if event.kind == "recording"]
    assert [(event.phase, event.at) for event in own] == [("begin", world.NOW), ("end", world.NOW)]
    assert own[0].text.endswith("started recording")


def test_a_second_cockpit_states_that_another_one_records(root):
    first, second = Recorder(root), None
    first.on_snapshot(at(0))
    while first.state.path is None:
        threading.Event().wait(0.001)
    second = record(root, at(1))
    assert second.state.path is None
    assert f"recorded by another cockpit, pid {os.getpid()} on " in (second.state.reason or "")
    assert not second.state.is_failure
    end(first)


def test_each_cluster_has_its_own_state(root):
    first, second = Recorder(root), Recorder(root)
    first.on_snapshot(at(0))
    while first.state.path is None:
        threading.Event().wait(0.001)
    second.on_snapshot(at(1))
    while second.state.reason is None:
        threading.Event().wait(0.001)
    here = world.snapshot().cluster
    assert "another cockpit" in (second.state_of(here).reason or "")
    connecting = replace(here, address="http://10.0.0.1:8366", session=None)
    other = replace(here, address="http://10.0.0.1:8366", session="session_2026-11-22_00-00-00_000000_1")
    assert second.state_of(connecting).reason is None
    assert second.state_of(other).reason is None
    second.on_snapshot(at(10, cluster=other))
    while second.state.path is None:  # at once, not only when the first cluster is tried again
        threading.Event().wait(0.001)
    assert second.state_of(other).path is not None
    end(first)
    end(second)


def test_without_locks_it_records_in_its_own_file_and_says_so(root, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(folders.fcntl, "flock", refuse)
    recorder = record(root, at(0))
    assert recorder.state.reason == "this file system has no locks: this cockpit records in its own file"
    assert f"-{os.getpid()}.cockpit" in recorder.state.path.name


def test_after_a_full_disk_recording_continues_when_there_is_space(root, monkeypatch):
    recorder = Recorder(root)
    monkeypatch.setattr(recording_of, "RETRY_S", 0.0)
    write = os.write
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    states = []

    def write_or_not(file, data):
        if len(states) == 1:
            raise full
        return write(file, data)

    monkeypatch.setattr(writing.os, "write", write_or_not)
    for number, snapshot in enumerate((at(0), at(5), at(10))):
        recorder._try_to_record(snapshot)
        states.append(recorder.state)
        assert len(states) == number + 1
    assert [state.reason for state in states] == [None, "not recorded: the disk is full", None]
    assert [state.is_failure for state in states] == [False, True, False]
    recorder._end(None)
    assert [one.taken - world.NOW for one in Recording.open(only_folder(root)).walk()] == [0.0, 10.0]


@pytest.mark.parametrize(
    ("words", "where", "reason"),
    [
        (os.strerror(errno.EACCES), "/nonexistent", "permission denied; set XDG_STATE_HOME to a folder that you may write"),
        ("it is another user's", "/there", "it is another user's"),
    ],
)
def test_an_unwritable_folder_is_reported_with_advice_if_the_kernel_refuses_it(root, monkeypatch, words, where, reason):
    def refuse(folder):
        raise PermissionError(errno.EACCES, words, where)

    monkeypatch.setattr(recording_of, "make_folder", refuse)
    assert record(root, at(0)).state.reason == f"not recorded: {where}: {reason}"


def test_a_disk_too_small_for_recordings_is_reported(root, monkeypatch):
    monkeypatch.setattr(recording_of, "bytes_allowed", lambda *_: 1000)
    assert record(root, at(0)).state.reason == "not recorded: the disk has too little space for recordings"


def test_its_own_bug_does_not_end_the_screen(root, monkeypatch):
    monkeypatch.setattr(recording_of, "events_between", lambda *_: 1 // 0)
    assert "ZeroDivisionError" in (record(root, at(0)).state.reason or "")


def test_a_disk_that_hangs_fills_no_memory(root, monkeypatch):
    held, recorder = threading.Event(), Recorder(root)
    monkeypatch.setattr(recorder, "_try_to_record", lambda _: held.wait())
    for second in range(0, 500, 5):
        recorder.on_snapshot(at(second))
    assert recorder._waiting.qsize() <= recording_of.MAX_WAITING
    held.set()
    end(recorder)


def test_actions_of_all_cockpits_of_this_user_are_recorded_with_their_cluster(root, tmp_path):
    log = tmp_path / "acts.jsonl"
    log.write_text(json.dumps({"time": world.NOW - 50, "id": "old", "act": "stop", "target": ["node1"], "outcome": "begun"}) + "\n")
    recorder = Recorder(root, actions_log=log, clock=lambda: world.NOW)
    lines = [
        {"time": world.NOW + 1, "id": "a", "act": "kill-orphans", "user": "ann", "target": ["node1"], "outcome": "begun"},
        {
            "time": world.NOW + 2,
            "id": "a",
            "act": "kill-orphans",
            "target": ["node1"],
            "outcome": {"done": [{"pid": 7}], "refused": [], "failed": []},
        },
        {"time": world.NOW + 3, "id": "b", "act": "stop", "target": ["elsewhere"], "outcome": "begun"},
    ]
    with log.open("a") as file:
        file.write("".join(json.dumps(line) + "\n" for line in lines) + '{"time": 1, "torn')
    record(root, at(5), recorder=recorder)
    actions = [event for event in Recording.open(only_folder(root)).events() if event.kind == "act"]
    assert [(event.text, event.phase, event.key) for event in actions] == [
        ("ann began kill-orphans on node1", "begin", "act:a"),
        ("kill-orphans on node1: 1 done", "end", "act:a"),
    ]
    assert actions[1].data["outcome"]["done"] == [{"pid": 7}]


@pytest.mark.parametrize(("length", "recorded"), [(3 << 20, ["act:a", "act:b"]), (33 << 20, ["act:b"])])
def test_actions_are_recorded_after_a_very_long_line(root, tmp_path, length, recorded):
    log = tmp_path / "acts.jsonl"
    log.touch()
    recorder = Recorder(root, actions_log=log, clock=lambda: world.NOW)
    begun = {"time": world.NOW + 1, "act": "kill-orphans", "target": ["node1"], "outcome": "begun"}
    lines = ({**begun, "id": "a", "plan": [{"command": "x" * length}]}, {**begun, "id": "b"})
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    record(root, at(5), at(10), at(15), recorder=recorder)
    assert [event.key for event in Recording.open(only_folder(root)).events() if event.kind == "act"] == recorded


def test_old_recordings_are_removed_at_the_start(root, monkeypatch):
    old = root / "session_old" / "000001.cockpit"
    folders.make_folder(old.parent)
    old.write_bytes(folders.MAGIC)
    os.utime(old, (1.0, 1.0))
    record(root, at(0), limits=RecordingLimits(days=1))
    assert not Path(old).exists()


def test_before_the_first_snapshot_and_after_its_end_nothing_is_recorded(root, recorder):
    assert recorder.state == RecorderState()
    record(root, Snapshot())
    assert not root.exists()
    ended = record(root, at(0))
    ended.on_snapshot(at(5))
    ended.close()
    assert Recording.open(only_folder(root)).end == world.NOW
