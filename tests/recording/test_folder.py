from __future__ import annotations

import errno
import os
import stat

import pytest

from cockpit.config.thresholds import DAY_S, RecordingLimits
from cockpit.model import Cluster
from cockpit.recording import folder as folders
from cockpit.recording.files import SegmentHeader, pack_header
from cockpit.recording.folder import Lock, folder_name, list_recordings, make_folder, remove_old

NOW = 1_800_000_000.0
KIB = 1024


@pytest.fixture
def root(tmp_path):
    return tmp_path / "state" / "recordings"


def segment(root, cluster, number, age, size=10 * KIB):
    path = root / cluster / f"{number:06}.cockpit"
    make_folder(path.parent)
    path.write_bytes(pack_header(SegmentHeader()).ljust(size, b"\0"))
    os.utime(path, (NOW - age, NOW - age))
    return path


def names(root):
    return sorted(f"{path.parent.name}/{path.name}" for path in root.rglob("*.cockpit"))


@pytest.mark.parametrize(
    ("cluster", "name"),
    [
        (Cluster(session="session_2026-11-21_01-17-58_164160_11638"), "session_2026-11-21_01-17-58_164160_11638"),
        (Cluster(session="../../etc"), "etc"),
        (Cluster(session="/"), "no-ray"),
        (Cluster(session="a\0\x1b[2Jb"), "a-2Jb"),
        (Cluster(session="x" * 500), "x" * 100),
        (Cluster(address="http://head:8265"), "head-8265"),
        (Cluster(), "no-ray"),
    ],
)
def test_any_cluster_name_becomes_a_folder_beside_the_others(cluster, name):
    assert folder_name(cluster) == name


def test_only_its_owner_may_read_the_folder_and_a_link_in_its_place_is_not_followed(root, tmp_path):
    make_folder(root / "a")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (root, root / "a")] == [0o700, 0o700]
    (tmp_path / "elsewhere").mkdir()
    (root / "b").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError, match="it is a link"):
        make_folder(root / "b")


def test_only_one_cockpit_has_the_lock(root):
    make_folder(root / "a")
    one, other = Lock(root / "a"), Lock(root / "a")
    assert one.take() is True
    assert other.take() is False
    assert f"another cockpit, pid {os.getpid()} on " in other.holder()
    one.release()
    assert other.take() is True


def test_a_file_system_without_locks_is_accepted(root, monkeypatch):
    make_folder(root / "a")

    def refuse(*_):
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(folders.fcntl, "flock", refuse)
    assert Lock(root / "a").take() is None


def test_segments_that_are_too_old_are_removed(root):
    segment(root, "a", 1, 8 * DAY_S)
    segment(root, "a", 2, 6 * DAY_S)
    remove_old(root, RecordingLimits(), NOW)
    assert names(root) == ["a/000002.cockpit"]


def test_of_too_many_bytes_the_oldest_is_removed_from_any_cluster(root, monkeypatch):
    for cluster, number, age in (("a", 1, 5000), ("b", 1, 4000), ("a", 2, 3000)):
        segment(root, cluster, number, age)
    monkeypatch.setattr(folders, "bytes_allowed", lambda *_: 25 * KIB)
    assert remove_old(root, RecordingLimits(), NOW) == 20 * KIB
    assert names(root) == ["a/000002.cockpit", "b/000001.cockpit"]


def test_a_segment_that_is_being_written_is_not_removed(root, monkeypatch):
    segment(root, "a", 1, 5)
    monkeypatch.setattr(folders, "bytes_allowed", lambda *_: 0)
    assert remove_old(root, RecordingLimits(), NOW) == 10 * KIB
    assert names(root) == ["a/000001.cockpit"]


def test_only_recordings_are_removed(root, tmp_path):
    path = segment(root, "a", 1, 100 * DAY_S)
    (tmp_path / "dear").write_text("dear")
    for name, make in (
        ("000002.cockpit", lambda place: place.symlink_to(tmp_path / "dear")),
        ("000003.cockpit", lambda place: place.write_text("not cockpit's")),
        ("notes.txt", lambda place: place.write_text("dear")),
        ("000004.cockpit", lambda place: os.link(tmp_path / "dear", place)),
    ):
        make(path.with_name(name))
        os.utime(path.with_name(name), (NOW - 100 * DAY_S, NOW - 100 * DAY_S), follow_symlinks=False)
    remove_old(root, RecordingLimits(), NOW)
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["000002.cockpit", "000003.cockpit", "000004.cockpit", "notes.txt"]
    assert (tmp_path / "dear").read_text() == "dear"


def test_an_empty_folder_is_removed_unless_a_cockpit_records_there(root):
    for cluster in ("a", "b"):
        segment(root, cluster, 1, 9 * DAY_S)
    lock = Lock(root / "b")
    assert lock.take()
    remove_old(root, RecordingLimits(), NOW)
    assert [path.name for path in root.iterdir()] == ["b"]
    lock.release()


def test_a_lock_that_was_removed_with_its_folder_is_created_again(root, monkeypatch):
    make_folder(root / "a")
    lock, flock, gone = Lock(root / "a"), folders.fcntl.flock, []

    def lock_too_late(file, how):
        if not gone:
            (root / "a" / "lock").unlink()
            gone.append(True)
        return flock(file, how)

    monkeypatch.setattr(folders.fcntl, "flock", lock_too_late)
    assert lock.take() is True
    assert Lock(root / "a").take() is False


def test_the_newest_recording_is_listed_first(root):
    segment(root, "old", 1, 5000)
    segment(root, "new", 1, 10)
    make_folder(root / "empty")
    assert [path.name for path in list_recordings(root)] == ["new", "old"]
    assert list_recordings(root / "missing") == []
