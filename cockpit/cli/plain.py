"""Prints the state as sentences, then a line for each change, for a screen reader (`cockpit --plain`)."""

from __future__ import annotations

import select
import sys
import time
from functools import partial

from cockpit.cli.notify import SETTLING_S, attach_notifier
from cockpit.cli.options import DONE, NO_ANSWER, run_until_interrupted
from cockpit.cli.record import attach_recorder
from cockpit.cli.service import PollStep, serve
from cockpit.config.settings import Config
from cockpit.model import Snapshot
from cockpit.monitor.monitor import ClusterMonitor
from cockpit.report.snapshot_text import plain_changes, status_text
from cockpit.text import output

KEYS = "Enter prints the state again, q and Enter quits."


def show_plain(config: Config, seconds: float | None = None) -> int:
    """Print until the user quits, or for so many seconds; return the exit code: after that time, whether Ray answers."""
    return run_until_interrupted(serve(config, partial(_attach, seconds=seconds)))


def _attach(config: Config, monitor: ClusterMonitor, seconds: float | None) -> PollStep:
    attach_recorder(config, monitor)
    attach_notifier(config, monitor)
    begun = time.monotonic()
    printed: Snapshot | None = None

    def print_news() -> int | None:
        nonlocal printed
        typed: str | None = None
        if sys.stdin.isatty() and select.select([sys.stdin], [], [], 0)[0]:
            typed = (sys.stdin.readline() or "q").strip()  # an empty string is the end of the input
        if typed == "q":
            return DONE
        snapshot = monitor.poller.snapshot
        is_judged = monitor.coverage.is_complete() and snapshot.findings_as_of is not None
        if printed is None and not is_judged and time.monotonic() - begun < SETTLING_S:
            return None
        if printed is None or typed is not None:
            output.print_line(f"{status_text(snapshot, plain=True)}\n{KEYS}")
        else:
            for line in plain_changes(printed, snapshot):
                output.print_line(line)
        printed = snapshot
        if seconds is not None and time.monotonic() - begun >= seconds:
            return DONE if snapshot.cluster.reachable else NO_ANSWER
        return None

    return print_news
