"""Walks through folders by descriptors."""

from __future__ import annotations

import json
import os

import pytest

from cockpit.probe.sample.tree import MovedError, Walk, decode_path, encode_path
from cockpit.probe.trust import FOLDER


@pytest.fixture
def top(tmp_path):
    for name in ("b/c/two", "b/one", "a/three", "four"):
        (tmp_path / "top" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "top" / name).touch()
    descriptor = os.open(tmp_path / "top", FOLDER)
    yield descriptor
    os.close(descriptor)


def test_a_folder_comes_after_its_contents_one_can_be_last_and_unwanted_ones_are_skipped(top):
    assert [entry.path for entry in Walk(top)] == ["four", "a/three", "a", "b/one", "b/c/two", "b/c", "b"]
    assert [entry.path for entry in Walk(top, last="a")][-2:] == ["a/three", "a"]
    assert [entry.path for entry in Walk(top, lambda path: path != "b")] == ["four", "a/three", "a"]


def test_an_entry_can_be_opened_by_its_folders_descriptor(top):
    for entry in Walk(top):
        assert os.stat(entry.name, dir_fd=entry.folder, follow_symlinks=False).st_ino == entry.status.st_ino


def test_a_link_to_a_folder_is_an_entry_and_no_folder(top, tmp_path):
    os.symlink("b", tmp_path / "top" / "link")
    assert [entry.is_folder for entry in Walk(top) if entry.path.startswith("link")] == [False]


def test_a_folder_that_becomes_a_link_is_not_entered(top, tmp_path):
    troubles = []
    found = []
    for entry in Walk(top, trouble=lambda *trouble: troubles.append(trouble)):
        found.append(entry.path)
        if entry.path == "four":
            (tmp_path / "top" / "b").rename(tmp_path / "b")
            os.symlink(tmp_path / "b", tmp_path / "top" / "b")
    assert [path for path in found if path not in ("b", "four")] == ["a/three", "a"]
    assert troubles == [("b", "it was replaced")] or "b" in found, "listed before as a folder, or after as a link"


def test_a_walk_does_not_go_up_from_a_moved_folder(top, tmp_path):
    walk = iter(Walk(top))
    while next(walk).path != "b/c/two":
        pass
    (tmp_path / "top" / "b" / "c").rename(tmp_path / "c")
    with pytest.raises(MovedError, match="/top/b/c was moved by somebody else meanwhile"):
        next(walk)


def test_a_moved_folder_is_noticed_before_anything_is_done_in_it(top, tmp_path):
    walk = Walk(top)
    entries = iter(walk)
    while next(entries).path != "b/c/two":
        walk.check_not_moved()
    (tmp_path / "top" / "b").rename(tmp_path / "b")
    with pytest.raises(MovedError):
        walk.check_not_moved()


def test_no_descriptor_stays_open(top):
    before = os.listdir("/proc/self/fd")
    list(Walk(top))
    next(iter(Walk(top)))
    assert len(os.listdir("/proc/self/fd")) == len(before)


@pytest.mark.parametrize(
    "raw", [b"/plain/path", b"\xff", b"a\\xff", b"\\", b"\\\\x41\xc3\xa4\xc3", b"line\nbreak\xf0\x9f\x90", "größe".encode()]
)
def test_a_path_that_is_not_utf8_is_encoded_and_decoded(raw):
    path = os.fsdecode(raw)
    there = json.dumps(encode_path(path)).encode().decode("ascii")
    assert decode_path(json.loads(there)) == path


def test_a_plain_path_is_shown_as_it_is():
    assert encode_path("/tmp/ray/größe") == decode_path("/tmp/ray/größe") == "/tmp/ray/größe"
    encode_path(os.fsdecode(b"\xff")).encode("utf-8")
