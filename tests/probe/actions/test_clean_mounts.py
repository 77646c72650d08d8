"""Files that other hosts share stay: their users there can't be seen from here."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from cockpit.probe.sample import sessions
from cockpit.probe.sample import tree as mounted
from tests.probe.actions.cleaning import NAME, OTHER, Cleaner, age, names_of, session

pytestmark = pytest.mark.process


@pytest.fixture
def shared(cleaner: Cleaner, mounts: list[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temp dir beside the cleaned one, on a file system that counts as shared by many hosts."""
    temp = cleaner.temp / "shared"
    temp.mkdir()
    subprocess.run(["mount", "-t", "ramfs", "none", str(temp)], check=True)
    mounts.append(temp)
    monkeypatch.setattr(mounted, "LOCAL", mounted.LOCAL - {"ramfs"})
    return temp


def test_a_session_that_other_hosts_share_stays_even_if_it_is_named(cleaner: Cleaner, shared: Path):
    path, _ = session(shared), session(cleaner.temp, OTHER)
    named = [str(path), OTHER]
    planned = cleaner.plan(sessions=named)
    assert names_of(planned["targets"]) == [OTHER]
    (refused,) = planned["refused"]
    assert refused["reason"] == "it lies on a file system that other hosts share (ramfs): the session may be alive on another host"
    status = path.stat()
    target = {**planned["targets"][0], "path": str(path), "name": NAME, "device": status.st_dev, "inode": status.st_ino}
    assert names_of(cleaner.do([target], sessions=named)["refused"]) == [NAME]
    assert path.exists()


def test_a_pointer_that_other_hosts_share_stays(cleaner: Cleaner, shared: Path):
    os.symlink(f"/elsewhere/{NAME}", shared / "session_latest")
    age(shared / "session_latest")
    planned = Cleaner(shared).plan()
    assert planned["targets"] == []
    assert "other hosts share (ramfs)" in planned["refused"][0]["reason"]


def test_the_visible_one_of_several_mounts_on_one_point_counts(cleaner: Cleaner, shared: Path):
    for folder, reason in ((cleaner.temp, None), (shared, "it lies on a file system that other hosts share (ramfs)")):
        opened = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        try:
            assert mounted.why_shared(opened) == reason
        finally:
            os.close(opened)


def test_an_unknown_file_system_is_not_local(cleaner: Cleaner, monkeypatch: pytest.MonkeyPatch):
    session(cleaner.temp)
    known = mounted.vouched_mounts()
    monkeypatch.setattr(sessions, "vouched_mounts", lambda: known)
    monkeypatch.setattr(mounted, "mounts", list)
    (refused,) = cleaner.plan()["refused"]
    assert refused["reason"] == "whether other hosts share its file system is unknown: the session may be alive on another host"
