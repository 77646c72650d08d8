"""Selects the other hosts to probe: if Ray is down or a GPU holder has no known owner, containers, and hosts that were named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cockpit.config.reach import HostEntry, HostFinder, named_apart
from cockpit.config.settings import Config
from cockpit.model import LEFT_OVER, Node, RayCluster, Snapshot
from cockpit.sources.probes.pool import ProbePool
from cockpit.sources.probes.spawn import ENGINES, find_executor

LOOPBACK_PREFIXES = ("127.", "::1", "localhost")
_OWNED_KINDS = frozenset(["worker", "driver"])
_SUSPECT_KINDS = frozenset(["unknown", *LEFT_OVER])


def are_containers(config: Config) -> bool:
    """Whether the config's hosts are containers: Ray knows them by other names, and only their probes see what is left over in them."""
    return find_executor(config.reach.split()) in ENGINES


class HostSelection:
    """Gives the pool of probes, with every snapshot, the hosts of the config and of Ray's nodes to probe; never this host."""

    def __init__(self, config: Config, pool: ProbePool, *, everywhere: bool = False, named: bool = False) -> None:
        """`everywhere`: select all hosts; `named`: select the hosts that were named for this run too."""
        self.local, self.everywhere = pool.local, everywhere
        self._config, self._pool, self._named = config, pool, named
        self._cluster: RayCluster | None = None
        self._pods: tuple[HostEntry, ...] = ()
        """Pods that run, as hosts beside the config's."""
        self._finder = HostFinder(config.hosts)
        self._are_containers = are_containers(config)

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Probe the hosts that matter now."""
        if snapshot.kubernetes is not self._cluster:
            self._cluster = snapshot.kubernetes
            pods = (self._cluster.pods if self._cluster else None) or ()
            self._pods = tuple(HostEntry(pod.name, address=pod.ip) for pod in pods if pod.phase == "Running" and pod.ip)
            self._finder = HostFinder((*self._config.hosts, *self._pods))
        if self._config.probe_hosts != "never":
            self._pool.set_targets(self.select_hosts(snapshot))

    def entry(self, node: Node) -> HostEntry:
        """How to reach a node's host."""
        return self._finder.entry(node)

    def select_hosts(self, snapshot: Snapshot) -> dict[str, HostEntry]:
        """The hosts that matter now: all if Ray is down, else the hosts of nodes that are not alive, and the hosts of `select_awaited`."""
        if self.everywhere:
            return self.select_others(snapshot)
        is_down = snapshot.cluster.reachable is False
        nodes = [node for node in snapshot.nodes or () if node.id and (is_down or node.state != "ALIVE")]
        are_all_listed = is_down or self._are_containers or self._config.probe_hosts == "always"
        listed = (*self._config.hosts, *self._pods) if are_all_listed else ()
        wanted = self._without_local([*self._entries(nodes, snapshot), *listed], snapshot)
        return {**{entry.name: entry for entry in wanted}, **self.select_awaited(snapshot)}

    def select_awaited(self, snapshot: Snapshot) -> dict[str, HostEntry]:
        """The hosts without which the snapshot may mislead: a single sample waits for them."""
        if self.everywhere:
            return self.select_others(snapshot)
        suspects: set[str | None] = set()
        """Nodes with a process that the followed Ray does not know, on the GPU or left over.

        They stay suspects after the probe has classified the process: without the probe it would be unknown again.
        """
        for process in snapshot.processes or ():
            is_owned = process.kind in _OWNED_KINDS and process.ours is not False
            if process.kind in _SUSPECT_KINDS or (not is_owned and process.gpus):
                host = snapshot.hosts.get(process.host)
                # The nodes of our Ray on its host too: the process may be of another Ray's node.
                suspects |= {process.node, *(snapshot.index.node_ids_on(host) if host else ())}
        nodes = [node for node in snapshot.nodes or () if node.id and (node.id in suspects or _hides_gpus(node, snapshot))]
        # Named hosts only once this host's own names are known, or its probe fails: it may be one of them.
        has_failed = any(fault.source == "probe" and fault.host == self.local for fault in snapshot.faults)
        named: Sequence[HostEntry] = ()
        if self._named and (has_failed or any(host.local for host in snapshot.hosts.values())):
            pods = self._pods if self._config.kubernetes and self._config.kubernetes.is_named else ()
            named = (*(self._config.hosts if self._are_containers else self._config.named_hosts), *pods)
        wanted = self._without_local([*self._entries(nodes, snapshot), *named], snapshot)
        return {entry.name: entry for entry in wanted}

    def select_others(self, snapshot: Snapshot) -> dict[str, HostEntry]:
        """All other hosts of the config and of Ray's nodes; a dead node's only if no living node has its name."""
        nodes = sorted((node for node in snapshot.nodes or () if node.id), key=lambda node: node.state != "ALIVE")
        alive = {node.title for node in nodes if node.state == "ALIVE"}
        known = [node for node in nodes if node.state == "ALIVE" or node.title not in alive]
        reached: dict[str, HostEntry] = {}
        for entry in self._without_local([*self._config.hosts, *self._pods, *self._entries(known, snapshot)], snapshot):
            if entry.target != self.local:
                reached.setdefault(entry.target, entry)
        return named_apart(reached.values())

    def _entries(self, nodes: Sequence[Node], snapshot: Snapshot) -> Iterator[HostEntry]:
        """How to reach the hosts of these nodes. A node whose raylet runs on this host, perhaps in a container, is left out.

        Ray forgets the host names of dead nodes: a dead node's host is the host of a living node with its address.
        """
        living = {node.ip: node for node in snapshot.nodes or () if node.state == "ALIVE" and node.ip}
        here = {node for host in snapshot.hosts.values() if host.local for node in snapshot.index.node_ids_on(host)}
        others = (node for node in nodes if node.id not in here)
        return (self._finder.entry(node if node.state == "ALIVE" else living.get(node.ip, node)) for node in others)

    def _without_local(self, entries: Iterable[HostEntry], snapshot: Snapshot) -> list[HostEntry]:
        """Drops this host, by the names and addresses that its probe reports."""
        local = {address for host in snapshot.hosts.values() if host.local for address in (host.name, *host.addresses)}
        return [entry for entry in entries if entry.target not in local and not entry.target.startswith(LOOPBACK_PREFIXES)]


def _hides_gpus(node: Node, snapshot: Snapshot) -> bool:
    """Whether a living node offers GPUs that its agent does not see: NVML may fail, and only a probe finds out why."""
    offered = node.resources.get("GPU")
    has_gpus = bool(offered and offered.total) and node.agent.seen is not None
    return node.state == "ALIVE" and has_gpus and not snapshot.index.machine(node).gpus
