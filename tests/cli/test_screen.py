"""Tests that a signal during the import of the screen ends cockpit and its probe silently."""

from __future__ import annotations

import signal
import subprocess
import sys

import psutil
import pytest

pytestmark = pytest.mark.process

SIGNALLED = """
import os, sys, threading
from cockpit.cli import screen
from cockpit.config.settings import load
from cockpit.sources.probes import host_probe
spawn, has_spawned = host_probe.spawn, threading.Event()
def spawn_and_tell(command):
    child = spawn(command)
    print(child.pid, flush=True)
    has_spawned.set()
    return child
host_probe.spawn = spawn_and_tell
class Importing:
    def find_spec(self, name, *_):
        if name == "textual.app":
            has_spawned.wait(50)
            os.kill(os.getpid(), {number})
sys.meta_path.insert(0, Importing())
screen.show(load({{}}))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_textual_is_imported_ends_it_and_its_probe_silently(number):
    done = subprocess.run([sys.executable, "-c", SIGNALLED.format(number=int(number))], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (128 + number, "")
    _, alive = psutil.wait_procs([one for one in psutil.process_iter() if one.pid == int(done.stdout)], timeout=60)
    assert alive == []
