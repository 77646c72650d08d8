from __future__ import annotations

import json
import os
from pathlib import Path

import platformdirs
import pytest

from cockpit.files.status_line import MAX_BYTES, MAX_LINE_CHARS, StatusLine, line_path, lines_path, read_line
from cockpit.trust import own_uids

NOW = 1_795_223_900.0
HEAD = "http://head:8265"


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    lines_path().mkdir(parents=True)
    return tmp_path


def left(address=HEAD, **more) -> Path:
    path = line_path(address)
    path.write_text(json.dumps({"text": "ray 2 nodes", "code": 0, "written": NOW - 3, **more}))
    return path


def test_its_folder_is_that_of_platformdirs(monkeypatch):
    assert lines_path().parent == platformdirs.user_state_path("cockpit")
    monkeypatch.delenv("XDG_STATE_HOME")
    assert lines_path().parent == platformdirs.user_state_path("cockpit")


def test_the_last_line_is_read_or_the_line_of_the_given_address():
    os.utime(left(text="of head"), (NOW, NOW))
    os.utime(left("http://other:1", text="of other", code=2), (NOW - 9, NOW - 9))
    assert read_line(None, NOW) == StatusLine("of head", 0, 3.0)
    assert read_line("http://other:1/", NOW) == StatusLine("of other", 2, 3.0)
    assert read_line("http://nobody:1", NOW) is None


def test_nothing_is_known_where_nothing_was_left(state):
    assert read_line(None, NOW) is None
    lines_path().rmdir()
    assert read_line(None, NOW) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\x00\xff",
        "[]",
        "null",
        "[" * MAX_BYTES,
        '{"text": "a", "code": 0}',
        '{"text": "a", "code": 7, "written": 1}',
        '{"text": "a", "code": "x", "written": 1}',
        '{"text": "a", "code": 0, "written": NaN}',
        '{"text": "a", "code": Infinity, "written": 1}',
        '{"text": "a", "code": 0, "written": 1795223960}',  # a minute from now
        '{"text": "a", "code": 0, "written": ' + "9" * 4000 + "}",
        json.dumps({"text": "a" * 2 * MAX_BYTES, "code": 0, "written": NOW}),
    ],
)
def test_garbage_is_not_believed(text):
    left().write_text(text, encoding="latin-1")
    assert read_line(None, NOW) is None


def test_a_line_of_another_user_is_not_trusted(monkeypatch):
    left()
    assert read_line(None, NOW) is not None
    monkeypatch.setattr("cockpit.trust.ownership.own_uids", lambda: frozenset(uid + 1 for uid in own_uids() if uid))
    assert read_line(None, NOW) is None


def test_no_link_is_followed(tmp_path):
    path = left()
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert read_line(HEAD, NOW) is None


def test_a_pipe_is_not_waited_for():
    os.mkfifo(line_path(HEAD))
    assert read_line(HEAD, NOW) is None


def test_nothing_in_it_can_make_a_terminal_tmux_or_a_shell_do_anything():
    left(text="job \x1b[31m #[fg=red]#(id) %{x%} `id` $(id) \\w $HOME\nrunning · 2–3 中文, a.b:c/d@e+f_g-h")
    line = read_line(None, NOW)
    assert line is not None
    assert not set(line.text) & set("\x1b\n#[]{}%`$\\")
    assert line.text.endswith("running · 2–3 中文, a.b:c/d@e+f_g-h")


def test_a_long_line_is_cut():
    left(text="a" * 1000)
    assert read_line(None, NOW) == StatusLine("a" * MAX_LINE_CHARS, 0, 3.0)
