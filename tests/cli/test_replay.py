"""Tests `cockpit replay`, and which recordings a screen opens as the past of its cluster."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cockpit.cli import replay as command
from cockpit.cli.writers import open_recording
from cockpit.model import Cluster
from cockpit.recording.folder import recordings_path
from cockpit.recording.writer import SegmentWriter
from cockpit.sources.source import SourceError
from cockpit.ui.screens.replay import ReplayScreen
from tests.world import NOW, snapshot

HERE = Cluster(address="http://127.0.0.1:8265", session="session_now")


def write(name, *moments, cluster=HERE):
    folder = recordings_path() / name
    folder.mkdir(parents=True, mode=0o700)
    writer = SegmentWriter(folder)
    for moment in moments:
        writer.write(snapshot(taken=moment, cluster=cluster))
    writer.close()
    return writer.path


def screen(recorder=None, cluster=HERE):
    return SimpleNamespace(recorder=recorder, snapshot=snapshot(cluster=cluster))


def replay(*words):
    """Run the command, and return its exit code."""
    with pytest.raises(SystemExit) as ended:
        command.replay.main(list(words), standalone_mode=False)
    return ended.value.code


def test_a_recording_is_opened_at_its_end_or_at_the_given_time(monkeypatch):
    path = write("session_now", NOW, NOW + 5, NOW + 10)
    apps = []

    async def run(shown):
        apps.append(shown)
        return 0

    monkeypatch.setattr(command, "why_no_screen", lambda: None)
    monkeypatch.setattr(command, "run_until_quit", run)
    assert replay(str(path)) == 0
    assert replay(str(path.parent), "-t", "-5s") == 0
    first = [shown.get_default_screen() for shown in apps]
    assert all(isinstance(each, ReplayScreen) for each in first)
    assert [each._wanted for each in first] == [None, NOW + 5]


@pytest.mark.parametrize(
    ("words", "is_recorded", "said"), [(["missing"], False, "no such file"), ([], False, "no recording"), (["-t", "soon"], True, "soon")]
)
def test_a_bad_recording_or_time_is_one_sentence_and_no_screen(capsys, monkeypatch, words, is_recorded, said):
    monkeypatch.setattr(command, "why_no_screen", lambda: None)
    monkeypatch.setattr(command, "run_until_quit", pytest.fail)
    if is_recorded:
        write("session_now", NOW)
    assert replay(*words) == 3
    assert said in capsys.readouterr().err


def test_the_past_of_a_cluster_goes_back_beyond_its_session():
    write("session_old", NOW - 100, cluster=Cluster(address=HERE.address, session="session_old"))
    write("session_elsewhere", NOW - 50, cluster=Cluster(address="http://other:8265", session="session_elsewhere"))
    own = write("session_now", NOW)
    past = open_recording(screen(SimpleNamespace(state=SimpleNamespace(path=own, reason=None))))
    assert (past.begin, past.end) == (NOW - 100, NOW)
    assert past.snapshot_at(NOW - 50) is None
    assert past.snapshot_at(NOW - 100).cluster.session == "session_old"


def test_a_recording_of_another_cockpit_is_the_past_too():
    write("session_now", NOW)
    state = SimpleNamespace(path=None, reason="recorded by another cockpit, pid 7 on head")
    assert open_recording(screen(SimpleNamespace(state=state))).end == NOW


def test_without_a_recording_the_reason_is_given():
    state = SimpleNamespace(path=None, reason="the disk has too little space for recordings")
    with pytest.raises(SourceError, match="no recording of this cluster yet: the disk has too little space"):
        open_recording(screen(SimpleNamespace(state=state)))
