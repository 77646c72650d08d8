"""A listener for tests that records the samples and faults of probes."""

from __future__ import annotations

import asyncio
import time

from cockpit.config.reach import HostEntry
from cockpit.config.settings import Config
from cockpit.model import Host
from cockpit.sources.probes.pool import ProbePool


class RecordingListener:
    """Records the last sample and fault of each host, and all reports in order."""

    def __init__(self) -> None:
        self.hosts: dict[str, Host] = {}
        self.faults: dict[str, str] = {}
        self.reports: list[tuple[str, str]] = []
        self.dropped: list[str] = []
        self.samples: list[str] = []

    def update_host(self, host: Host) -> None:
        self.hosts[host.name] = host
        self.samples.append(host.name)

    def forget_host(self, host: str) -> None:
        self.dropped.append(host)

    def report_fault(self, source: str, text: str, host: str | None = None) -> None:
        assert source == "probe"
        assert host is not None
        self.faults[host] = text
        self.reports.append((host, text))

    def clear_fault(self, source: str, host: str | None = None) -> None:
        self.faults.pop(host or "", None)


async def watch_host(reach: str, entry: HostEntry) -> tuple[ProbePool, asyncio.Task[None], RecordingListener]:
    """Watch one host, and return once it has sent a sample or a fault was reported."""
    listener = RecordingListener()
    hosts = ProbePool(Config(reach=reach, interval=0.5), listener)
    task = asyncio.create_task(hosts.run())
    hosts.set_targets({entry.name: entry})
    limit = time.monotonic() + 60
    while entry.name not in listener.hosts and entry.name not in listener.faults:
        assert time.monotonic() < limit
        await asyncio.sleep(0.02)
    return hosts, task, listener
