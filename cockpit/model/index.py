"""The look-ups in what is known at one moment: which host a node runs on, what is known of its machine, who holds which GPU."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

import msgspec

from cockpit.model.claims import believed_hosts, count_different
from cockpit.model.host import Hold, Host, Process
from cockpit.model.machine import Machine, machine_of
from cockpit.model.ray import Actor, Job, Node
from cockpit.model.titles import MachineTitles

GpuPlace = tuple[str, int]
"""Key of a node, and index of a GPU there."""


class HeldGpus(msgspec.Struct):
    """The GPUs that somebody's processes hold."""

    places: set[GpuPlace] = msgspec.field(default_factory=set)
    memory: int | None = None
    """Of all of them; `None` when NVML won't say for any."""


class ClusterIndex:
    """Look-ups in one snapshot. Each is made when it is first asked for; `Snapshot.index` is the only one of a snapshot."""

    def __init__(
        self,
        nodes: Sequence[Node],
        hosts: Mapping[str, Host],
        processes: Sequence[Process] = (),
        jobs: Iterable[Job] = (),
        actors: Iterable[Actor] = (),
    ) -> None:
        self._nodes, self._hosts, self._processes, self._jobs, self._actors = nodes, hosts, processes, jobs, actors

    # What Ray lists

    @cached_property
    def nodes(self) -> Mapping[str, Node]:
        """By Ray's id."""
        return {node.id: node for node in self._nodes if node.id}

    @cached_property
    def jobs(self) -> Mapping[str, Job]:
        """By the 8 hex digits that actors carry."""
        return {job.job: job for job in self._jobs if job.job}

    @cached_property
    def actors(self) -> Mapping[str, Actor]:
        """By id; dead ones are not in it."""
        return {actor.id: actor for actor in self._actors}

    def job_title(self, job: str | None) -> str:
        """A job by the name its owner gave it, where that is known."""
        known = self.jobs.get(job or "")
        return known.id if known else job or ""

    # Machines

    @cached_property
    def believed_hosts(self) -> Mapping[str, Sequence[Host]]:
        """By Ray's id of a node: the hosts whose claim to run it is believed."""
        return believed_hosts(self._nodes, self._hosts)

    @cached_property
    def hosts_by_node(self) -> Mapping[str, Host]:
        """By Ray's id of a node: the host that it runs on. A node is left out where no host's claim is believed."""
        return {node: hosts[-1] for node, hosts in self.believed_hosts.items() if hosts}

    def host_of(self, node: Node) -> Host | None:
        """The host that it runs on. A probe sees its raylet there, or the join believes that probe about its machine.

        A dead node was on the host that has its address. An address says nothing of a living node, because private addresses are the same
        everywhere. A row without an id of Ray's is itself a host.
        """
        host = self.hosts_by_node.get(node.id or "") or self._hosts.get((node.host if node.id is None else node.probe) or "")
        return self._hosts_by_address.get(node.ip) if host is None and node.state == "DEAD" else host

    @cached_property
    def _hosts_by_address(self) -> Mapping[str, Host]:
        """Addresses that one host alone has."""
        found: dict[str, list[Host]] = defaultdict(list)
        for host in self._hosts.values():
            for address in host.addresses:
                found[address].append(host)
        return {address: hosts[-1] for address, hosts in found.items() if count_different(hosts) == 1}

    @cached_property
    def _node_ids(self) -> Mapping[str, Sequence[str]]:
        """By the name of a host: Ray's ids of the nodes that are believed to run on it."""
        found: dict[str, list[str]] = {}
        for node, hosts in self.believed_hosts.items():
            for host in hosts:
                found.setdefault(host.name, []).append(node)
        return found

    def node_ids_on(self, host: Host) -> Sequence[str]:
        """Ray's ids of the nodes that are believed to run on a host, also of those that Ray does not list."""
        return self._node_ids.get(host.name, ())

    def nodes_on(self, host: Host) -> Sequence[Node]:
        """Those of them that Ray lists."""
        return [self.nodes[node] for node in self.node_ids_on(host) if node in self.nodes]

    def node_keys_on(self, host: Host) -> tuple[str, ...]:
        """The keys of all nodes on a host; a host without one is a row of its own."""
        return tuple(f"node:{node}" for node in self.node_ids_on(host)) or (f"node:{host.name}",)

    @cached_property
    def _machines(self) -> Mapping[str, Machine]:
        """By Ray's id of a node; of one that Ray does not list, by the name of its host."""
        return {node.id or node.host: machine_of(node, self._hosts.get(node.probe or "")) for node in self._nodes}

    def machine(self, node: Node) -> Machine:
        """What is known of the machine of a node."""
        known = self._machines.get(node.id or node.host)
        return machine_of(node, self._hosts.get(node.probe or "")) if known is None else known

    @cached_property
    def titles(self) -> MachineTitles:
        """What people call nodes and hosts."""
        return MachineTitles(self._nodes, self._hosts, self.believed_hosts)

    # Processes

    @cached_property
    def _homes(self) -> Mapping[str, str]:
        """By the name of a host: the key of the first node on it."""
        homes = {node.host: node.key for node in reversed(self._nodes)}
        homes.update({node.probe: node.key for node in reversed(self._nodes) if node.probe})
        for name, ids in self._node_ids.items():
            if (first := next((node for node in ids if node in self.nodes), None)) is not None:
                homes[name] = self.nodes[first].key
        return homes

    def place_of(self, process: Process) -> str:
        """The key of the node that it runs on. What is of another Ray is at the node that this one has on its host."""
        node = self.nodes.get(process.node or "")
        return node.key if node is not None else self._homes.get(process.host) or f"node:{process.host}"

    def place_title(self, process: Process) -> str:
        """Where it runs, as people call its node, or its host."""
        node = self.nodes.get(process.node or "")
        return self.titles.of_node(node) if node is not None else self.titles.of_host(process.host)

    @cached_property
    def processes_by_node(self) -> Mapping[str, Sequence[Process]]:
        """By the key of the node that they run on."""
        found: dict[str, list[Process]] = defaultdict(list)
        for process in self._processes:
            found[self.place_of(process)].append(process)
        return found

    @cached_property
    def processes_by_host(self) -> Mapping[str, Sequence[Process]]:
        """By the name of their host."""
        found: dict[str, list[Process]] = {}
        for process in self._processes:
            found.setdefault(process.host, []).append(process)
        return found

    # GPUs

    @cached_property
    def gpu_holders(self) -> Mapping[GpuPlace, Sequence[tuple[Process, Hold]]]:
        """Who holds the memory of each GPU, the greatest first; a GPU that nobody is seen to hold is not in it."""
        found: dict[GpuPlace, list[tuple[Process, Hold]]] = {}
        for process in self._processes:
            if process.gpus:
                place = self.place_of(process)
                for hold in process.gpus:
                    found.setdefault((place, hold.index), []).append((process, hold))
        for holders in found.values():
            if len(holders) > 1:
                holders.sort(key=lambda pair: -(pair[1].memory or 0))
        return found

    @cached_property
    def gpus_by_job(self) -> Mapping[str, HeldGpus]:
        """By job, as its processes carry it: what they hold."""
        return self._gpus_by(lambda process: process.job)

    @cached_property
    def gpus_by_actor(self) -> Mapping[str, HeldGpus]:
        """By id of an actor: what it and its children hold."""
        return self._gpus_by(lambda process: process.actor)

    def _gpus_by(self, owner_of: Callable[[Process], str | None]) -> Mapping[str, HeldGpus]:
        found: dict[str, HeldGpus] = {}
        for process in self._processes:
            if process.gpus and (owner := owner_of(process)):
                held, place, memory = found.setdefault(owner, HeldGpus()), self.place_of(process), process.gpu_memory
                held.places.update([(place, hold.index) for hold in process.gpus])
                if memory is not None:
                    held.memory = (held.memory or 0) + memory
        return found
