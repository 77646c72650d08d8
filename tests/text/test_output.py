from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from cockpit.text import output
from cockpit.text.output import escape_json

pytestmark = pytest.mark.process

HOSTILE = "a\x1b[2J\x9b31m\x07\u202eb\u2066\U000e0041"


@pytest.mark.parametrize("say", [output.print_line, output.print_note, output.print_progress])
def test_no_text_reaches_a_terminal_as_anything_but_text(say, capfd, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    say(f"one\n{HOSTILE}")
    told = "".join(capfd.readouterr())
    assert told.isprintable() is False
    assert [line.isprintable() for line in told.splitlines()] == [True, True]
    assert told.splitlines()[1] == "a�[2J�31m��b��"


def test_json_stays_the_same_value_and_shows_no_control():
    """Whoever reads it decodes the numbers again."""
    said = subprocess.run(
        [sys.executable, "-c", f"from cockpit.text import output; output.print_json({json.dumps({'x': HOSTILE}, ensure_ascii=False)!r})"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert json.loads(said) == {"x": HOSTILE}
    assert said.strip().isprintable()


def test_letters_of_all_languages_stay_letters_in_json(capsys):
    output.print_json('{"x": "训练 é 🚀"}')
    assert capsys.readouterr().out == '{"x": "训练 é 🚀"}\n'


def logged(stdout) -> None:
    code = f"from cockpit.text import output; output.print_log_line({HOSTILE!r}, lambda line: line.replace('a', '•••'))"
    subprocess.run([sys.executable, "-c", code], stdout=stdout, check=True)


def test_a_log_goes_into_a_file_as_it_is(tmp_path):
    with (tmp_path / "log").open("wb") as file:
        logged(file)
    assert (tmp_path / "log").read_bytes().decode() == f"{HOSTILE}\n"


def test_a_log_on_a_terminal_does_nothing_to_it_and_shows_no_secret():
    mine, its = pty.openpty()
    logged(its)
    assert os.read(mine, 4096).decode().strip() == "•••�[2J�31m��b��"
    os.close(mine)
    os.close(its)


def test_a_usage_error_is_cleaned_too():
    done = subprocess.run(
        [sys.executable, "-c", "from cockpit.cli.main import main; main()", f"--nope{HOSTILE}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert all(line.isprintable() for line in done.stderr.splitlines())


def test_a_traceback_is_clean_too():
    code = f"from cockpit.cli import entry, main\ndef fail(): raise KeyError({HOSTILE!r})\nmain.main = fail\nentry.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "KeyError" in done.stderr
    assert all(line.isprintable() for line in done.stderr.splitlines())


def test_json_is_made_harmless_in_less_time_than_it_takes_to_read_it():
    """A set of four thousand characters as a pattern took 13 us for each letter: two minutes for a status of 1,000 nodes."""
    text = json.dumps([{"name": f"worker-{number}", "why": "waits for GPUs " * 5} for number in range(3000)])

    def least(work: Callable[[str], object]) -> float:
        took = []
        for _ in range(5):
            began = time.process_time()
            work(text)
            took.append(time.process_time() - began)
        return min(took)

    assert least(escape_json) < 2 * least(json.loads)
