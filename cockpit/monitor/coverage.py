"""Who has answered by now: Ray's sources, this host's probe, and those of other hosts that matter to a single look."""

from __future__ import annotations

import time
from collections.abc import Mapping

from cockpit.config.reach import THROUGH_RAY, HostEntry
from cockpit.config.settings import Config
from cockpit.model import Host
from cockpit.monitor.cluster_choice import ClusterChoice
from cockpit.monitor.host_selection import HostSelection
from cockpit.monitor.poller import Poller
from cockpit.sources.probes.pool import has_told


class Coverage:
    """Asked by whoever must know everything before going on: a single look, an act that is planned."""

    def __init__(self, config: Config, poller: Poller, choice: ClusterChoice, selection: HostSelection) -> None:
        self._config, self._poller, self._choice, self._selection = config, poller, choice, selection

    def is_complete(self) -> bool:
        """Whether everything that is asked has answered or failed."""
        local = self._selection.local
        probed = self._has_local_answered() or ("probe", local) in self._poller.parts.faults
        if (
            self._selection.everywhere
            and self._reaches_hosts
            and not all(map(self._has_looked_around, self._selection.select_hosts(self._poller.snapshot)))
        ):
            return False
        if self._choice.ray is None:
            return bool(self._choice.choices) and probed
        others_unknown = self._choice.is_astray and self._poller.parts.cluster.others is None
        return probed and not others_unknown and (not self._find_unanswered() or self._is_dashboard_down())

    def silent_sources(self) -> set[str]:
        """Sources of a dashboard that is there, which have neither answered nor failed yet."""
        return set() if self._poller.parts.cluster.reachable is False else self._find_unanswered()

    def unanswered_hosts(self) -> Mapping[str, HostEntry]:
        """The hosts that a person has named, or whose GPU processes have no known owner, of which no probe has told everything."""
        if self._config.probe_hosts == "never":
            return {}
        awaited = self._selection.select_awaited(self._poller.snapshot)
        return {name: entry for name, entry in awaited.items() if not self._has_looked_around(name)}

    def told_hosts(self) -> set[str]:
        """Other hosts of which a probe has told everything, sessions too: those may come later."""
        parts, now = self._poller.parts, self._poller.clock()
        others = (host for host in parts.hosts.values() if not host.local and host.sessions is not None)
        return {host.name for host in others if has_told(host, parts.nodes, now)}

    async def wait_until_complete(self, timeout: float) -> None:
        """Wait until everybody who is asked has answered once, but not longer than that; it is in the snapshot then."""
        if self.is_complete():
            return
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline and not self._is_complete_with_newest():
            await self._poller.change(deadline - time.monotonic())
        self._poller.rejoin()

    async def wait_for_hosts(self, timeout: float) -> None:
        """Wait until every other host that matters to a single look has answered, but not longer than that."""
        deadline = time.monotonic() + timeout
        self._selection.hear(self._poller.snapshot)
        while self._reaches_hosts and not self._have_named_looked_around() and time.monotonic() < deadline:
            await self._poller.change(deadline - time.monotonic())

    def _have_named_looked_around(self) -> bool:
        awaited = self._selection.select_awaited(self._poller.snapshot) if self._config.probe_hosts != "never" else {}
        return all(map(self._has_looked_around, awaited))

    def _is_complete_with_newest(self) -> bool:
        """Whether it is complete with what was heard last: hosts of which Ray has told only now are to be looked at too."""
        if self.is_complete():
            self._poller.rejoin()
        return self.is_complete()

    @property
    def _reaches_hosts(self) -> bool:
        """Whether probes get to other hosts: through Ray only acts do."""
        return self._config.reach != THROUGH_RAY

    def _find_unanswered(self) -> set[str]:
        sources = self._choice.ray.sources if self._choice.ray is not None else ()
        return {source.name for source in sources} - self._poller.answered

    def _is_dashboard_down(self) -> bool:
        return "ray.identity" in self._poller.answered and not self._poller.parts.cluster.reachable

    def _has_local_answered(self) -> bool:
        """Whether this host's probe has seen its processes: a first sample may come before them."""
        parts = self._poller.parts
        host = next((host for host in parts.hosts.values() if host.local), None)
        return host is not None and self._has_told_sessions(host) and has_told(host, parts.nodes, self._poller.clock())

    def _has_answered(self, name: str) -> bool:
        """Whether another host's probe has seen its processes and GPUs, or can't be reached."""
        parts = self._poller.parts
        host = parts.hosts.get(name)
        told = host is not None and has_told(host, parts.nodes, self._poller.clock())
        return told or ("probe", name) in parts.faults

    def _has_looked_around(self, name: str) -> bool:
        """The same, and its sessions: they prove what is left over. A temp dir that hangs keeps nobody waiting beyond their patience."""
        host = self._poller.parts.hosts.get(name)
        return self._has_answered(name) and (host is None or self._has_told_sessions(host) or ("probe", name) in self._poller.parts.faults)

    def _has_told_sessions(self, host: Host) -> bool:
        """In a Slurm job also in which job each runs: that of another one is not meant."""
        return host.sessions is not None and not (self._poller.parts.slurm_ids and "rays" in host.unanswered)
