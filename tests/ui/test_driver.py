"""How often the program may draw, and what becomes of it when its terminal is gone."""

import os
import signal
import subprocess
import sys

import pytest

from cockpit.ui import FRAMES_A_SECOND

PROGRAM = [sys.executable, "-c", "from cockpit.cli.main import main; main()", "--address", "http://127.0.0.1:9", "--quiet"]


@pytest.mark.process
def test_a_screen_whose_terminal_is_gone_ends_also_where_no_hangup_is_sent():
    terminal, program = os.openpty()
    env = {**os.environ, "TERM": "xterm-256color"}
    with subprocess.Popen(PROGRAM, stdin=program, stdout=program, stderr=program, env=env, start_new_session=True) as running:
        os.close(program)
        seen = b""
        while b"Overview" not in seen:
            seen += os.read(terminal, 65536)
        os.close(terminal)
        try:
            assert running.wait(60) == 128 + signal.SIGHUP
        finally:
            running.kill()


@pytest.mark.process
def test_textual_draws_so_often_that_a_key_waits_for_no_beat_and_nothing_that_is_started_is_told_so():
    told = "print(1 / UPDATE_PERIOD, 'TEXTUAL_FPS' in os.environ)"
    code = f"import os, cockpit.cli.main, cockpit.ui.app; from textual.screen import UPDATE_PERIOD; {told}"
    env = {name: value for name, value in os.environ.items() if name != "TEXTUAL_FPS"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(float(FRAMES_A_SECOND)), "False"]
