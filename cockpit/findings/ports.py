"""Ports that failed jobs wanted and that were in use: on which host, and who listens there now."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from heapq import nlargest
from typing import Final

import msgspec

from cockpit.findings.causes import find_cause, find_port_in_use
from cockpit.model import Job, Listener, Process, Snapshot
from cockpit.text import clean

MAX_COMMAND = 100
"""Characters of a listener's command."""
MAX_FAILURES = 100
"""Of entrypoints: of each the message, up to 20 kB, is searched for its cause."""
CLOCK_SKEW_S = 300.0
"""Seconds by which the clock of Ray's head may be ahead."""
_FROM_WORKER: Final = r"^\s*\([\w.:]{1,80}(?: pid=\d+)?, ip=([\w.:]+)\)"


class WantedPort(msgspec.Struct, frozen=True):
    """A port of a host that is looked at."""

    host: str
    port: int


def last_failures(jobs: Iterable[Job], now: float, told_s: float) -> Iterator[Job]:
    """The last failure of each entrypoint, until it runs again or it is longer ago than `told_s`; the newest `MAX_FAILURES` of them."""
    last: dict[str, Job] = {}
    again: dict[str, float] = {}
    for job in jobs:
        what = job.entrypoint or job.id
        if job.status in ("RUNNING", "SUCCEEDED"):
            again[what] = max(again.get(what, 0.0), job.started or 0.0)
        elif job.status == "FAILED" and job.ended is not None and -CLOCK_SKEW_S <= now - job.ended <= told_s:
            last[what] = max(last.get(what, job), job, key=lambda each: each.ended or 0.0)
    failed = [job for what, job in last.items() if again.get(what, 0.0) <= (job.started or 0.0)]
    newest = {id(job) for job in nlargest(MAX_FAILURES, failed, key=lambda each: each.ended or 0.0)}
    return (job for job in failed if id(job) in newest)


def find_wanted_port(job: Job, snapshot: Snapshot) -> WantedPort | None:
    """Ray writes the address of its node before what a worker says, but for those on the node of the driver."""
    cause = find_cause(job.message)
    port = find_port_in_use(cause[0]) if cause else None
    if cause is None or port is None:
        return None
    said = re.match(_FROM_WORKER, cause[0])
    living = [node for node in snapshot.nodes or () if node.state == "ALIVE"]
    home = [node for node in living if (node.ip == said[1] if said else node.id and node.id == job.driver_node)]
    looked_at = {host.name for node in home if (host := snapshot.index.hosts_by_node.get(node.id or "")) is not None}
    return WantedPort(looked_at.pop(), port) if len(looked_at) == 1 else None


def listeners_of(snapshot: Snapshot, wanted: WantedPort) -> tuple[Listener, ...] | None:
    """`None`: nobody has been asked, or has answered."""
    return next((one.listeners for one in snapshot.ports if WantedPort(one.host, one.port) == wanted), None)


def known_process(listener: Listener, processes: Iterable[Process]) -> Process | None:
    """The same as its host's probe sees it, if that counts it among those that matter."""
    return next((one for one in processes if one.pid == listener.pid and listener.ticks is not None and one.ticks == listener.ticks), None)


def listener_line(wanted: WantedPort, place: str, listener: Listener, known: Process | None) -> str:
    """As evidence; `place`: what people call the host."""
    user = clean(listener.user or "")[:40]
    who = f"process {listener.pid}{f' of {user}' if user else ''}" if listener.pid else f"a process of {user or 'another user'}"
    ray = ", ".join(filter(None, (known.kind, known.session))) if known else ""
    command = clean(" ".join((listener.command or "").split()))[:MAX_COMMAND]
    what = f"{f' ({clean(ray)})' if ray else ''}{f': {command}' if command else ''}"
    return f"{who} listens on port {wanted.port} of {clean(place)} now{what}"
