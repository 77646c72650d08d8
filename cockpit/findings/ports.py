"""Finds the ports that failed jobs needed and that were in use, and their hosts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import nlargest

import msgspec

from cockpit.findings.failures import failure_of, known_part
from cockpit.model import Job, Snapshot

MAX_FAILURES = 100
"""Failures of entrypoints that are read: the message of each, up to 20 kB, is searched for its cause."""
CLOCK_SKEW_S = 300.0
"""Seconds by which the clock of Ray's head may be ahead."""


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
    """The port that the job needed; `None` if its log names none, or if its host is not probed."""
    failure = failure_of(job, snapshot)
    port = int(known_part(failure, ("port",)) or 0)
    if not 0 < port < 1 << 16:
        return None
    host = snapshot.index.hosts_by_node.get(failure.node or "")
    return None if host is None else WantedPort(host.name, port)
