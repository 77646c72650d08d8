"""The screen is imported in steps: Ray's answers are read between two of them, and signals end it at once, its children too."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import psutil
import pytest

IMPORTED = """
import json, sys
from importlib import import_module
steps = import_module("cockpit.ui").IMPORT_STEPS
news = []
for step in steps:
    before = len(sys.modules)
    import_module(step)
    news.append(len(sys.modules) - before)
print(json.dumps([steps[-1], news]))
"""
SIGNALLED = """
import os, sys
from cockpit.cli import screen
from cockpit.config.settings import load
spawn = screen.spawn_local
def spawn_and_tell(interval):
    child = spawn(interval)
    print(child.pid, flush=True)
    return child
screen.spawn_local = spawn_and_tell
class Importing:
    def find_spec(self, name, *_):
        if name == "textual.app":
            os.kill(os.getpid(), {number})
sys.meta_path.insert(0, Importing())
screen.show(load({{}}))
"""


def test_each_step_imports_something_and_none_of_them_most_of_it():
    done = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True, timeout=60)
    last, news = json.loads(done.stdout)
    assert last == "cockpit.ui.app"
    assert all(news)
    assert max(news) < sum(news) / 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_in_the_middle_of_a_step_ends_it_without_a_word_and_its_probe_too(number):
    done = subprocess.run([sys.executable, "-c", SIGNALLED.format(number=int(number))], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (128 + number, "")
    _, alive = psutil.wait_procs([one for one in psutil.process_iter() if one.pid == int(done.stdout)], timeout=60)
    assert alive == []
