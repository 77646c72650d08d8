"""Starts cockpit and other programs as people do."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager

PROGRAM = [sys.executable, "-c", "from cockpit.cli.main import main; main()"]


def cockpit(*words, **more):
    """Run cockpit to its end; nobody types anything."""
    more = {"stdin": subprocess.DEVNULL, **more}
    return subprocess.run([*PROGRAM, *words], capture_output=True, text=True, timeout=60, check=False, **more)


@contextmanager
def started(words, env=None):
    """A program in the background, killed at the end."""
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as child:
        try:
            yield child
        finally:
            child.kill()
