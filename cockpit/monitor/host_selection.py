"""Which other hosts are looked at: where Ray is down or a GPU is held by no known owner, containers, and those that are named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cockpit.config.reach import HostEntry, Roster, named_apart
from cockpit.config.settings import Config
from cockpit.model import LEFT_OVER, Node, Process, RayCluster, Snapshot
from cockpit.sources.probes.pool import ProbePool
from cockpit.sources.probes.spawn import ENGINES, find_executor

LOOPBACK_PREFIXES = ("127.", "::1", "localhost")
_OWNED_KINDS = frozenset(["worker", "driver"])
_SUSPECT_KINDS = frozenset(["unknown", *LEFT_OVER])


def are_containers(config: Config) -> bool:
    """Whether the hosts of the config are containers: Ray doesn't know them by these names, and what is left over in them only they see."""
    return find_executor(config.reach.split()) in ENGINES


class HostSelection:
    """Listens to snapshots, and tells the pool of probes which hosts of the config and of Ray's nodes matter now; never this one."""

    def __init__(self, config: Config, pool: ProbePool, *, everywhere: bool = False, named: bool = False) -> None:
        """`everywhere`: all that there are; `named`: whoever names a host for this run wants it looked at."""
        self.local, self.everywhere = pool.local, everywhere
        self._config, self._pool, self._named = config, pool, named
        self._cluster: RayCluster | None = None
        self._hosts = config.hosts
        self._roster = Roster(config.hosts)
        self._are_containers = are_containers(config)

    def hear(self, snapshot: Snapshot) -> None:
        """Have those probed that matter now."""
        self._meet_pods(snapshot.kubernetes)
        if self._config.probe_hosts != "never":
            self._pool.set_targets(self.select_hosts(snapshot))

    def _meet_pods(self, cluster: RayCluster | None) -> None:
        """Pods come and go: those that run now are hosts beside those of the config."""
        if cluster is not self._cluster:
            self._cluster, self._hosts = cluster, (*self._config.hosts, *_entries_of_pods(cluster))
            self._roster = Roster(self._hosts)

    def entry(self, node: Node) -> HostEntry:
        """How a node's host is reached."""
        return self._roster.entry(node)

    def select_hosts(self, snapshot: Snapshot) -> dict[str, HostEntry]:
        """Those that matter."""
        if self.everywhere:
            return self.select_others(snapshot)
        down = snapshot.cluster.reachable is False
        nodes = [node for node in snapshot.nodes or () if node.id and (down or node.state != "ALIVE")]
        listed = self._hosts if down or self._are_containers or self._config.probe_hosts == "always" else ()
        return {**self._without_local([*self._entries(nodes, snapshot), *listed], snapshot), **self.select_awaited(snapshot)}

    def select_awaited(self, snapshot: Snapshot) -> dict[str, HostEntry]:
        """Those of them without which what is seen is not the whole truth: a single look waits for them."""
        if self.everywhere:
            return self.select_others(snapshot)
        suspects = {node for process in snapshot.processes or () if _is_suspect(process) for node in _ray_nodes_of(process, snapshot)}
        nodes = [node for node in snapshot.nodes or () if node.id and (node.id in suspects or _hides_gpus(node, snapshot))]
        named = self._named_hosts() if self._named and self._is_placed(snapshot) else ()
        return self._without_local([*self._entries(nodes, snapshot), *named], snapshot)

    def select_others(self, snapshot: Snapshot) -> dict[str, HostEntry]:
        """Every other host there is: those of the config, and Ray's nodes; one that has died only where no other has taken its name."""
        nodes = sorted((node for node in snapshot.nodes or () if node.id), key=lambda node: node.state != "ALIVE")
        alive = {node.title for node in nodes if node.state == "ALIVE"}
        known = [node for node in nodes if node.state == "ALIVE" or node.title not in alive]
        near = _local_addresses(snapshot) | {self.local}
        reached: dict[str, HostEntry] = {}
        for entry in (*self._hosts, *self._entries(known, snapshot)):
            if not self._is_near(entry, near):
                reached.setdefault(entry.target, entry)
        return named_apart(reached.values())

    def _named_hosts(self) -> Sequence[HostEntry]:
        pods = self._hosts[len(self._config.hosts) :] if self._config.kubernetes and self._config.kubernetes.is_named else ()
        return (*(self._config.hosts if self._are_containers else self._config.named_hosts), *pods)

    def _is_placed(self, snapshot: Snapshot) -> bool:
        """Whether it is known which names and addresses are this host's own, or nobody will say."""
        failed = any(fault.source == "probe" and fault.host == self.local for fault in snapshot.faults)
        return failed or any(host.local for host in snapshot.hosts.values())

    def _without_local(self, entries: Iterable[HostEntry], snapshot: Snapshot) -> dict[str, HostEntry]:
        near = _local_addresses(snapshot)
        return {entry.name: entry for entry in entries if not self._is_near(entry, near)}

    def _is_near(self, entry: HostEntry, near: set[str]) -> bool:
        return entry.target in near or entry.target.startswith(LOOPBACK_PREFIXES)

    def _entries(self, nodes: Sequence[Node], snapshot: Snapshot) -> Iterator[HostEntry]:
        """Ray forgets how the hosts of dead nodes are called: where a node lives there again, the host is reached as that one's.

        A node whose raylet runs here, as in a container with an address of its own, is this host.
        """
        living = {node.ip: node for node in snapshot.nodes or () if node.state == "ALIVE" and node.ip}
        here = {node for host in snapshot.hosts.values() if host.local for node in snapshot.index.node_ids_on(host)}
        others = (node for node in nodes if node.id not in here)
        return (self._roster.entry(node if node.state == "ALIVE" else living.get(node.ip, node)) for node in others)


def _entries_of_pods(cluster: RayCluster | None) -> Iterator[HostEntry]:
    for pod in (cluster.pods if cluster else None) or ():
        if pod.phase == "Running" and pod.ip:
            yield HostEntry(pod.name, address=pod.ip)


def _local_addresses(snapshot: Snapshot) -> set[str]:
    """The names and addresses of this host, as far as its probe has told."""
    return {address for host in snapshot.hosts.values() if host.local for address in (host.name, *host.addresses)}


def _hides_gpus(node: Node, snapshot: Snapshot) -> bool:
    """Whether Ray hands out GPUs there and its agent sees none: NVML may fail, and only a probe can tell why."""
    offered = node.resources.get("GPU")
    return (
        node.state == "ALIVE" and bool(offered and offered.total) and node.agent.seen is not None and not snapshot.index.machine(node).gpus
    )


def _is_suspect(process: Process) -> bool:
    """Our Ray doesn't vouch for it. What a probe has made of it since is no reason to look away: then it would be unknown again."""
    vouched = process.kind in _OWNED_KINDS and process.ours is not False
    return process.kind in _SUSPECT_KINDS or (not vouched and bool(process.gpus))


def _ray_nodes_of(process: Process, snapshot: Snapshot) -> Sequence[str | None]:
    """Ray's ids of the nodes on its host: one of another Ray says nothing of ours there."""
    host = snapshot.hosts.get(process.host)
    return (process.node, *(snapshot.index.node_ids_on(host) if host else ()))
