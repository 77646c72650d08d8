from __future__ import annotations

import os
import stat

import pytest

from cockpit.files.atomic import ALL_READ, OWNER_READS, write_whole


@pytest.mark.parametrize("mode", [ALL_READ, OWNER_READS])
def test_a_file_is_replaced_with_the_given_mode(tmp_path, mode):
    path = tmp_path / "a.prom"
    path.write_text("old")
    path.chmod(0o666)
    with path.open() as reader:
        write_whole(path, "new – ✓\r\n", mode)
        assert reader.read() == "old", "whoever reads it reads on"
    assert path.read_bytes() == "new – ✓\r\n".encode()
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert os.listdir(tmp_path) == ["a.prom"]


def test_a_link_is_neither_followed_nor_replaced(tmp_path):
    (tmp_path / "target").write_text("keep")
    (tmp_path / "link").symlink_to("target")
    with pytest.raises(OSError, match="not a regular file"):
        write_whole(tmp_path / "link", "new", ALL_READ)
    assert (tmp_path / "target").read_text() == "keep"
    assert (tmp_path / "link").is_symlink()


def test_a_pipe_or_a_device_keeps_its_place(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(OSError, match="not a regular file"):
            write_whole(path, "new", ALL_READ)
    assert stat.S_ISFIFO((tmp_path / "pipe").lstat().st_mode)


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "a.prom"
    path.write_text("old")

    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fchmod", refuse)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, "new", ALL_READ)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.prom"]
