"""What becomes of the program when its terminal is gone."""

import os
import signal
import subprocess
import sys

import pytest

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
