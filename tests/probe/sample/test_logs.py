"""Tests which files of a session the probe reads, and which it refuses."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from cockpit.probe.sample import logs
from cockpit.probe.sample.logs import list_logs, read_log

NAME = f"session_2026-11-21_08-02-10_{os.getpid()}_7"
"""No other test run on this host uses this name: processes may name sessions in any folder."""


@pytest.fixture
def temp(temp: Path) -> Path:
    for part in ("sockets", "logs"):
        (temp / NAME / part).mkdir(parents=True)
    return temp


@pytest.fixture
def folder(temp: Path) -> Path:
    """The folder of the logs."""
    return temp / NAME / "logs"


def read_text(temp: Path, name: str, lines: int = -1, session: str = NAME) -> tuple[str, str | None]:
    """The text, and the error."""
    answers: list[dict] = []
    read_log([str(temp)], session, name, lines, answers.append, follow=False)
    error = next((answer["error"] for answer in answers if "error" in answer), None)
    assert error or answers[-1] == {"text": "", "end": True}
    return "".join(answer.get("text", "") for answer in answers), error


def test_a_log_of_a_dead_or_live_session_is_read_to_its_end(temp, folder):
    (folder / "raylet.out").write_text("one\ntwo\nthree\nno end")
    assert read_text(temp, "raylet.out") == ("one\ntwo\nthree\nno end", None)
    assert read_text(temp, "raylet.out", 2) == ("three\nno end", None)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(temp / NAME / "sockets" / "raylet"))
        sock.listen()
        assert read_text(temp, "raylet.out", 1) == ("no end", None)


def test_bytes_arrive_as_they_are(temp, folder):
    (folder / "a.out").write_bytes(bytes(range(256)))
    assert read_text(temp, "a.out")[0].encode("latin-1") == bytes(range(256))


def test_the_last_lines_are_searched_at_the_end_of_the_log_and_sent_in_steps(temp, folder, monkeypatch):
    monkeypatch.setattr(logs, "LAST_BYTES", 10)
    monkeypatch.setattr(logs, "STEP_BYTES", 3)
    (folder / "a.out").write_text("first\nsecond\nthird\n")
    assert read_text(temp, "a.out", 5) == ("third\n", None)
    assert read_text(temp, "a.out")[0] == "first\nsecond\nthird\n"
    (folder / "a.out").write_text("x" * 100 + "end")
    assert read_text(temp, "a.out", 5) == ("end", None), "only the end of a very long line is read"


def test_names_that_match_are_listed(temp, folder, monkeypatch):
    for name in ("worker-1.out", "worker-2.out", "raylet.out"):
        (folder / name).touch()
    assert sorted(list_logs([str(temp)], NAME, "worker-*")["names"]) == ["worker-1.out", "worker-2.out"]
    monkeypatch.setattr(logs, "MAX_NAMES", 1)
    assert len(list_logs([str(temp)], NAME, "*")["names"]) == 1


@pytest.mark.parametrize("name", ["../sockets/x", "/etc/passwd", "old/a.out", "..", ".", "", "a\0b"])
def test_a_name_with_a_path_is_refused(temp, folder, name):
    (folder / "old").mkdir()
    (folder / "old" / "a.out").write_text("secret")
    text, error = read_text(temp, name)
    assert text == ""
    assert error


@pytest.mark.parametrize(
    ("plant", "reason"),
    [
        (lambda path, elsewhere: path.symlink_to(elsewhere), "it is not a regular file"),
        (lambda path, elsewhere: os.link(elsewhere, path), "it belongs to another user"),
        (lambda path, elsewhere: os.mkfifo(path), "it is not a regular file"),
    ],
    ids=["link", "hard link", "pipe"],
)
def test_no_link_is_followed_and_no_pipe_opened(temp, folder, plant, reason):
    (temp / "elsewhere").write_text("secret")
    plant(folder / "a.out", temp / "elsewhere")
    assert read_text(temp, "a.out") == ("", f"a.out in the logs of {NAME} can't be read: {reason}")


def test_a_link_in_place_of_the_logs_folder_is_not_followed(temp, folder):
    (temp / "elsewhere").mkdir()
    (temp / "elsewhere" / "a.out").write_text("secret")
    folder.rmdir()
    folder.symlink_to(temp / "elsewhere")
    text, error = read_text(temp, "a.out")
    assert (text, "can't be read" in error) == ("", True)
    assert "error" in list_logs([str(temp)], NAME, "*")


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")
def test_a_file_of_another_user_is_not_read(temp, folder):
    (folder / "a.out").write_text("forged")
    os.chown(folder / "a.out", 12345, 12345)
    assert "it belongs to another user" in read_text(temp, "a.out")[1]
    os.chown(folder, 12345, 12345)
    assert read_text(temp, "a.out")[1] == f"the logs of {NAME} are not its own folder: somebody has put another one there"


@pytest.mark.parametrize(
    "session", ["session_2026-11-21_08-02-10_714202_1", "logs", f"../{NAME}", ""], ids=["another", "folder", "above", "none"]
)
def test_a_name_that_is_no_session_here_has_no_logs(temp, folder, session):
    assert "there is no Ray session" in read_text(temp, "a.out", session=session)[1]
    assert "there is no Ray session" in list_logs([str(temp)], session, "*")["error"]


def test_a_followed_log_continues_with_new_lines_and_after_truncation_from_its_beginning(temp, folder, monkeypatch):
    monkeypatch.setattr(logs, "POLL_INTERVAL_S", 0.001)
    monkeypatch.setattr(logs, "EMPTY_ANSWER_AFTER_S", 0.0)
    path = folder / "a.out"
    path.write_text("one\n")
    received, steps = [], iter(["two\n", "", None])

    class LeftError(Exception):
        pass

    def receive(answer):
        received.append(answer["text"])
        if answer["text"]:
            return
        step = next(steps)
        if step is None:
            raise LeftError
        if step:
            with path.open("a") as file:
                file.write(step)
        else:
            path.write_text("anew\n")

    with pytest.raises(LeftError):
        read_log([str(temp)], NAME, "a.out", -1, receive, follow=True)
    assert [text for text in received if text] == ["one\n", "two\n", "anew\n"]
