"""Keeps track of which sources have answered: Ray's, this host's probe, and the probes of hosts that one sample needs."""

from __future__ import annotations

import time
from collections.abc import Mapping

from cockpit.config.reach import THROUGH_RAY, HostEntry
from cockpit.config.settings import Config
from cockpit.monitor.cluster_choice import ClusterChoice
from cockpit.monitor.host_selection import HostSelection
from cockpit.monitor.poller import Poller
from cockpit.sources.probes.pool import has_complete_sample


class SourceReadiness:
    """Waits for the sources before a single sample is returned and before an action is planned: both need all facts."""

    def __init__(self, config: Config, poller: Poller, choice: ClusterChoice, selection: HostSelection) -> None:
        self._config, self._poller, self._choice, self._selection = config, poller, choice, selection
        self._are_hosts_probed = config.reach != THROUGH_RAY  # through Ray only actions reach other hosts

    def is_complete(self) -> bool:
        """Whether every source has answered or failed."""
        is_probed = self._has_sample(self._selection.local)
        if self._selection.everywhere and self._are_hosts_probed:
            is_probed = is_probed and all(map(self._has_sample, self._selection.select_hosts(self._poller.snapshot)))
        if self._choice.ray is None:
            return bool(self._choice.choices) and is_probed
        cluster = self._poller.parts.cluster
        if not is_probed or (self._choice.has_wrong_address and cluster.others is None):
            return False
        is_down = "ray.identity" in self._poller.answered and not cluster.reachable
        return is_down or not self._unanswered_sources()

    def silent_sources(self) -> set[str]:
        """Sources of a reachable dashboard that have neither answered nor failed yet."""
        return set() if self._poller.parts.cluster.reachable is False else self._unanswered_sources()

    def _unanswered_sources(self) -> set[str]:
        sources = self._choice.ray.sources if self._choice.ray is not None else ()
        return {source.name for source in sources} - self._poller.answered

    def unanswered_hosts(self) -> Mapping[str, HostEntry]:
        """Hosts without a complete sample that were named, or whose GPU processes have no known owner."""
        if self._config.probe_hosts == "never":
            return {}
        awaited = self._selection.select_awaited(self._poller.snapshot)
        return {name: entry for name, entry in awaited.items() if not self._has_sample(name)}

    def complete_hosts(self) -> set[str]:
        """Other hosts whose probes have reported everything; the sessions may come after the first sample."""
        parts, now = self._poller.parts, self._poller.clock()
        others = (host for host in parts.hosts.values() if not host.local and host.sessions is not None)
        return {host.name for host in others if has_complete_sample(host, parts.nodes, now)}

    async def wait_until_complete(self, timeout: float) -> None:
        """Wait until every source has answered once and the snapshot has its facts, but at most `timeout` seconds."""
        if self.is_complete():
            return
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self.is_complete():
                self._poller.rejoin()
                if self.is_complete():  # still, with the hosts that Ray has listed only now
                    break
            await self._poller.change(deadline - time.monotonic())
        self._poller.rejoin()

    async def wait_for_hosts(self, timeout: float) -> None:
        """Wait until every host has answered that a single sample needs, but at most `timeout` seconds."""
        deadline = time.monotonic() + timeout
        self._selection.on_snapshot(self._poller.snapshot)
        while self._are_hosts_probed and self.unanswered_hosts() and time.monotonic() < deadline:
            await self._poller.change(deadline - time.monotonic())

    def _has_sample(self, name: str) -> bool:
        """Whether a host's probe has reported its processes, GPUs and sessions, or can't be reached.

        Sessions come after the first sample, and prove which processes are left over; the wait for them is bounded even if a temp dir
        hangs. In a Slurm job the Slurm job of each session must be known too: sessions of other jobs are not meant.
        """
        parts = self._poller.parts
        if ("probe", name) in parts.faults:
            return True
        host = parts.hosts.get(name)
        if host is None or host.sessions is None or (parts.slurm_ids and "rays" in host.unanswered):
            return False
        return has_complete_sample(host, parts.nodes, self._poller.clock())
