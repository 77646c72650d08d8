"""Tests ctrl+c while the program starts."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.process

INTERRUPTED = """
import os, signal, sys
class Importing:
    def find_spec(self, name, *_):
        if name == "cockpit.config.settings":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Importing())
{before}
sys.argv = ["cockpit", "--version"]
from cockpit.cli.entry import main
main()
"""


@pytest.mark.parametrize(("before", "ended"), [("", -signal.SIGINT), ("signal.signal(signal.SIGINT, signal.SIG_IGN)", 0)])
def test_ctrl_c_during_imports_ends_it_silently_unless_sigint_is_ignored(before, ended):
    run = subprocess.run([sys.executable, "-c", INTERRUPTED.format(before=before)], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stderr) == (ended, "")
    assert run.stdout.startswith("cockpit") == (ended == 0)


def test_after_the_imports_python_handles_ctrl_c():
    code = """
import signal
from cockpit.cli import entry, main
main.main = lambda: print(signal.getsignal(2))
entry.main()
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "default_int_handler" in run.stdout
