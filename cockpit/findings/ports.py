"""Finds the ports that failed jobs needed and that were in use, and their hosts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from heapq import nlargest
from typing import Final

import msgspec

from cockpit.findings.causes import find_cause, find_port_in_use
from cockpit.model import Job, Snapshot

MAX_FAILURES = 100
"""Failures of entrypoints that are read: the message of each, up to 20 kB, is searched for its cause."""
CLOCK_SKEW_S = 300.0
"""Seconds by which the clock of Ray's head may be ahead."""
_FROM_WORKER: Final = r"^\s*\([\w.:]{1,80}(?: pid=\d+)?, ip=([\w.:]+)\)"


class WantedPort(msgspec.Struct, frozen=True):
    """A port of a probed host."""

    host: str
    port: int


def last_failures(jobs: Iterable[Job], now: float, keep_s: float) -> Iterator[Job]:
    """The last failure of each entrypoint in the last `keep_s` seconds, unless it ran again; the newest `MAX_FAILURES` of them."""
    last: dict[str, Job] = {}
    again: dict[str, float] = {}
    for job in jobs:
        what = job.entrypoint or job.id
        if job.status in ("RUNNING", "SUCCEEDED"):
            again[what] = max(again.get(what, 0.0), job.started or 0.0)
        elif job.status == "FAILED" and job.ended is not None and -CLOCK_SKEW_S <= now - job.ended <= keep_s:
            last[what] = max(last.get(what, job), job, key=lambda each: each.ended or 0.0)
    failed = [job for what, job in last.items() if again.get(what, 0.0) <= (job.started or 0.0)]
    newest = {id(job) for job in nlargest(MAX_FAILURES, failed, key=lambda each: each.ended or 0.0)}
    return (job for job in failed if id(job) in newest)


def find_wanted_port(job: Job, snapshot: Snapshot) -> WantedPort | None:
    """The port that the job needed; `None` if its log names none, or if its host is not probed.

    Ray writes the address of the node before a worker's line, except for workers on the driver's node.
    """
    cause = find_cause(job.message)
    port = find_port_in_use(cause[0]) if cause else None
    if cause is None or port is None:
        return None
    line = re.match(_FROM_WORKER, cause[0])
    living = [node for node in snapshot.nodes or () if node.state == "ALIVE"]
    home = [node for node in living if (node.ip == line[1] if line else node.id and node.id == job.driver_node)]
    probed = {host.name for node in home if (host := snapshot.index.hosts_by_node.get(node.id or "")) is not None}
    return WantedPort(probed.pop(), port) if len(probed) == 1 else None
