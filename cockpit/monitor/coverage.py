"""Who has answered by now: Ray's sources, this host's probe, and those of other hosts that matter to a single look."""

from __future__ import annotations

import time
from collections.abc import Mapping

from cockpit.config.reach import THROUGH_RAY, HostEntry
from cockpit.config.settings import Config
from cockpit.monitor.cluster_choice import ClusterChoice
from cockpit.monitor.host_selection import HostSelection
from cockpit.monitor.poller import Poller
from cockpit.sources.probes.pool import has_complete_sample


class Coverage:
    """Asked by whoever must know everything before going on: a single look, an act that is planned."""

    def __init__(self, config: Config, poller: Poller, choice: ClusterChoice, selection: HostSelection) -> None:
        self._config, self._poller, self._choice, self._selection = config, poller, choice, selection
        self._reaches_hosts = config.reach != THROUGH_RAY
        """Whether probes get to other hosts: through Ray only acts do."""

    def is_complete(self) -> bool:
        """Whether everything that is asked has answered or failed."""
        probed = self._has_looked_around(self._selection.local)
        if (
            self._selection.everywhere
            and self._reaches_hosts
            and not all(map(self._has_looked_around, self._selection.select_hosts(self._poller.snapshot)))
        ):
            return False
        if self._choice.ray is None:
            return bool(self._choice.choices) and probed
        cluster = self._poller.parts.cluster
        others_unknown = self._choice.is_astray and cluster.others is None
        is_down = "ray.identity" in self._poller.answered and not cluster.reachable
        return probed and not others_unknown and (is_down or not self._find_unanswered())

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
        return {host.name for host in others if has_complete_sample(host, parts.nodes, now)}

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
        while self._reaches_hosts and self.unanswered_hosts() and time.monotonic() < deadline:
            await self._poller.change(deadline - time.monotonic())

    def _is_complete_with_newest(self) -> bool:
        """Whether it is complete with what was heard last: hosts of which Ray has told only now are to be looked at too."""
        if self.is_complete():
            self._poller.rejoin()
        return self.is_complete()

    def _find_unanswered(self) -> set[str]:
        sources = self._choice.ray.sources if self._choice.ray is not None else ()
        return {source.name for source in sources} - self._poller.answered

    def _has_looked_around(self, name: str) -> bool:
        """Whether a host's probe has seen its processes, GPUs and sessions, or can't be reached: a first sample may come before them.

        Sessions prove what is left over; a temp dir that hangs keeps nobody waiting beyond their patience. In a Slurm job it is also to
        be known in which job each runs: that of another one is not meant.
        """
        parts = self._poller.parts
        if ("probe", name) in parts.faults:
            return True
        host = parts.hosts.get(name)
        if host is None or host.sessions is None or (parts.slurm_ids and "rays" in host.unanswered):
            return False
        return has_complete_sample(host, parts.nodes, self._poller.clock())
