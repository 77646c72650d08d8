"""Who hears what probes say, and writes it down."""

from __future__ import annotations

import asyncio
import time

from cockpit.config.reach import HostEntry
from cockpit.config.settings import Config
from cockpit.model import Host
from cockpit.sources.probes.pool import ProbePool


class RecordingListener:
    """A listener that writes down what it is told."""

    def __init__(self) -> None:
        self.hosts: dict[str, Host] = {}
        self.faults: dict[str, str] = {}
        self.said: list[tuple[str, str]] = []
        self.lost: list[str] = []
        self.heard: list[str] = []

    def update_host(self, host: Host) -> None:
        self.hosts[host.name] = host
        self.heard.append(host.name)

    def forget_host(self, host: str) -> None:
        self.lost.append(host)

    def report_fault(self, source: str, text: str, host: str | None = None) -> None:
        assert source == "probe"
        assert host is not None
        self.faults[host] = text
        self.said.append((host, text))

    def clear_fault(self, source: str, host: str | None = None) -> None:
        self.faults.pop(host or "", None)


async def watch_host(reach: str, entry: HostEntry) -> tuple[ProbePool, asyncio.Task[None], RecordingListener]:
    """Everything as it is once the host has spoken, or a fault has."""
    told = RecordingListener()
    hosts = ProbePool(Config(reach=reach, interval=0.5), told)
    task = asyncio.create_task(hosts.run())
    hosts.set_targets({entry.name: entry})
    limit = time.monotonic() + 60
    while entry.name not in told.hosts and entry.name not in told.faults:
        assert time.monotonic() < limit
        await asyncio.sleep(0.02)
    return hosts, task, told
