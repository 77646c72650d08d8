"""Finds the ports that failed jobs needed and that were in use, and their hosts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import nlargest

import msgspec

from cockpit.findings.failures import failure_of, known_part
from cockpit.model import Failure, Job, Snapshot

MAX_FAILURES = 100
"""Failures of entrypoints that are read: the message of each, up to 20 kB, is searched for its cause."""
CLOCK_SKEW_S = 300.0
"""Seconds by which the clock of Ray's head may be ahead."""
OWN_ADDRESSES = ("", "0.0.0.0", "::", "*", "127.0.0.1", "::1", "localhost")  # noqa: S104 what a log says, nothing is bound
"""Addresses that mean the node of the process itself."""


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


def port_in(failure: Failure) -> int | None:
    """The port that the error names."""
    part = known_part(failure, ("port",)) or ""
    is_port = part.isdecimal() and part.isascii() and len(part) < 6 and 0 < int(part) < 1 << 16
    return int(part) if is_port else None


def find_wanted_port(job: Job, snapshot: Snapshot) -> WantedPort | None:
    """The port that the job needed; `None` if its log names none, or if its host is not known or not probed."""
    failure = failure_of(job, snapshot)
    if (port := port_in(failure)) is None:
        return None
    address = (known_part(failure, ("host", "address", "ip")) or "").strip("[]'\"")
    living = {each.id: each for each in snapshot.nodes or () if each.state == "ALIVE"}
    node = failure.node if failure.node in living else None
    if address not in OWN_ADDRESSES:
        named = [name for name, each in living.items() if address in (each.ip, each.host, each.name)]
        node = named[0] if len(named) == 1 else None
    host = snapshot.index.hosts_by_node.get(node or "")
    return None if host is None else WantedPort(host.name, port)
