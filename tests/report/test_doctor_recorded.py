from __future__ import annotations

import pytest

from cockpit.recording.recording import Recording
from cockpit.report.doctor import RECORDED_S, last_half_hour
from tests.report.incident.recordings import written
from tests.world import NOW


@pytest.fixture
def folder(tmp_path):
    return written(tmp_path / "recorded")


def test_the_last_half_hour_is_a_recording_of_its_own_and_a_report(folder, tmp_path):
    files = last_half_hour(folder)
    (tmp_path / "part").write_bytes(files["recording.cockpit"])
    part = Recording.open(tmp_path / "part")
    assert part.end == Recording.open(folder).end
    assert part.begin == NOW + 2200  # the first record in it
    assert part.end - part.begin <= RECORDED_S
    assert "4 orphans hold 200G of GPU memory on node1" in files["report.md"].decode()
    assert files["report.html"].startswith(b"<!doctype html>")


def test_without_a_recording_nothing_is_added(tmp_path):
    assert last_half_hour(tmp_path / "nowhere") == {}
    (tmp_path / "junk").mkdir()
    assert last_half_hour(tmp_path / "junk") == {}
