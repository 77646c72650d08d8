"""`cockpit replay`, and where a screen finds the past of its cluster."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cockpit.cli import replay as command
from cockpit.cli.writers import open_recording
from cockpit.config.settings import Config
from cockpit.model import Cluster
from cockpit.recording.folder import recordings_path
from cockpit.recording.writer import SegmentWriter
from cockpit.sources.source import SourceError
from cockpit.ui.screens.replay import ReplayScreen
from tests.world import NOW, snapshot

HERE = Cluster(address="http://127.0.0.1:8265", session="session_now")


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


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


def test_a_recording_is_opened_at_its_end_or_at_the_time_that_is_asked_for(monkeypatch):
    path = write("session_now", NOW, NOW + 5, NOW + 10)
    apps = []

    async def run(shown):
        apps.append(shown)
        return 0

    monkeypatch.setattr(command, "run_until_quit", run)
    assert command._replay(Config(), str(path), None) == 0
    assert command._replay(Config(), str(path.parent), "-5s") == 0
    first = [shown.get_default_screen() for shown in apps]
    assert all(isinstance(each, ReplayScreen) for each in first)
    assert [each._wanted for each in first] == [None, NOW + 5]


@pytest.mark.parametrize(
    ("path", "time", "said"), [("missing", None, "no such file"), (None, None, "no recording"), (None, "soon", "soon")]
)
def test_what_can_not_be_shown_is_one_sentence_and_no_screen(tmp_path, capsys, monkeypatch, path, time, said):
    monkeypatch.setattr(command, "run_until_quit", pytest.fail)
    if time is not None:
        write("session_now", NOW)
    assert command._replay(Config(), path and str(tmp_path / path), time) == 3
    assert said in capsys.readouterr().err


def test_without_a_terminal_it_says_what_prints_a_moment(capsys):
    with pytest.raises(SystemExit) as ended:
        command.replay.main([], standalone_mode=False)
    assert ended.value.code == 3
    assert "cockpit status --at TIME" in capsys.readouterr().err


def test_the_past_of_a_cluster_goes_back_beyond_its_session():
    write("session_old", NOW - 100, cluster=Cluster(address=HERE.address, session="session_old"))
    write("session_elsewhere", NOW - 50, cluster=Cluster(address="http://other:8265", session="session_elsewhere"))
    own = write("session_now", NOW)
    past = open_recording(screen(SimpleNamespace(state=SimpleNamespace(path=own, reason=None))))
    assert (past.begin, past.end) == (NOW - 100, NOW)
    assert past.snapshot_at(NOW - 50) is None
    assert past.snapshot_at(NOW - 100).cluster.session == "session_old"


def test_what_another_cockpit_records_is_the_past_of_this_one_too():
    write("session_now", NOW)
    state = SimpleNamespace(path=None, reason="recorded by another cockpit, pid 7 on head")
    assert open_recording(screen(SimpleNamespace(state=state))).end == NOW


def test_where_nothing_is_recorded_it_is_said_why():
    state = SimpleNamespace(path=None, reason="the disk has too little space for recordings")
    with pytest.raises(SourceError, match="no recording of this cluster yet: the disk has too little space"):
        open_recording(screen(SimpleNamespace(state=state)))
