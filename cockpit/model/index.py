"""Answers questions about one snapshot: which host a node runs on, the facts about its machine, and which process holds a GPU."""

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
"""The key of a node, and the index of a GPU there."""


class GpuUse(msgspec.Struct):
    """The GPUs that the processes of a job or actor hold."""

    places: set[GpuPlace] = msgspec.field(default_factory=set)
    memory: int | None = None
    """The sum; `None` if NVML reports none of them."""


class ClusterIndex:
    """Look-ups in one snapshot, each computed at its first use. `Snapshot.index` is the only index of a snapshot."""

    def __init__(
        self,
        nodes: Sequence[Node],
        hosts: Mapping[str, Host],
        processes: Sequence[Process] = (),
        jobs: Iterable[Job] = (),
        actors: Iterable[Actor] = (),
    ) -> None:
        self._nodes, self._hosts, self._processes, self._jobs, self._actors = nodes, hosts, processes, jobs, actors

    # Nodes, jobs and actors of Ray

    @cached_property
    def nodes(self) -> Mapping[str, Node]:
        """Nodes by Ray's id."""
        return {node.id: node for node in self._nodes if node.id}

    @cached_property
    def nodes_by_key(self) -> Mapping[str, Node]:
        """Nodes by their key."""
        return {node.key: node for node in self._nodes}

    @cached_property
    def jobs(self) -> Mapping[str, Job]:
        """Jobs by `Job.job`."""
        return {job.job: job for job in self._jobs if job.job}

    @cached_property
    def actors(self) -> Mapping[str, Actor]:
        """Actors by id, without dead ones."""
        return {actor.id: actor for actor in self._actors}

    @cached_property
    def actors_by_job(self) -> Mapping[str, Sequence[Actor]]:
        """Actors by `Actor.job`, without dead ones."""
        found: dict[str, list[Actor]] = {}
        for actor in self._actors:
            if actor.job:
                found.setdefault(actor.job, []).append(actor)
        return found

    def job_title(self, job: str | None) -> str:
        """Return `Job.id`, the name that people use, for a `Job.job`; an unknown job keeps its own."""
        known = self.jobs.get(job or "")
        return known.id if known else job or ""

    # Machines

    @cached_property
    def believed_hosts(self) -> Mapping[str, Sequence[Host]]:
        """As `cockpit.model.claims.believed_hosts`."""
        return believed_hosts(self._nodes, self._hosts)

    @cached_property
    def hosts_by_node(self) -> Mapping[str, Host]:
        """The host of each node, by Ray's id. Nodes without a believed host are left out."""
        return {node: hosts[-1] for node, hosts in self.believed_hosts.items() if hosts}

    def host_of(self, node: Node) -> Host | None:
        """Return the host of a node: the one with its raylet, or else the one whose probe has the facts about its machine.

        A dead node was on the host that has its address. For a living node the address proves nothing, because different networks use the
        same private addresses. A row without an id of Ray is a host itself.
        """
        host = self.hosts_by_node.get(node.id or "") or self._hosts.get((node.host if node.id is None else node.probe) or "")
        return self._hosts_by_address.get(node.ip) if host is None and node.state == "DEAD" else host

    @cached_property
    def _hosts_by_address(self) -> Mapping[str, Host]:
        """Hosts by the addresses that no other host has."""
        found: dict[str, list[Host]] = defaultdict(list)
        for host in self._hosts.values():
            for address in host.addresses:
                found[address].append(host)
        return {address: hosts[-1] for address, hosts in found.items() if count_different(hosts) == 1}

    @cached_property
    def _node_ids(self) -> Mapping[str, Sequence[str]]:
        """Ray's ids of the believed nodes on each host, by its name."""
        found: dict[str, list[str]] = {}
        for node, hosts in self.believed_hosts.items():
            for host in hosts:
                found.setdefault(host.name, []).append(node)
        return found

    def node_ids_on(self, host: Host) -> Sequence[str]:
        """Return Ray's ids of the believed nodes on a host, also of nodes that Ray does not list."""
        return self._node_ids.get(host.name, ())

    def nodes_on(self, host: Host) -> Sequence[Node]:
        """Return the believed nodes on a host that Ray lists."""
        return [self.nodes[node] for node in self.node_ids_on(host) if node in self.nodes]

    def node_keys_on(self, host: Host) -> tuple[str, ...]:
        """Return the keys of all nodes on a host; without a node, the key of the host's own row."""
        return tuple(f"node:{node}" for node in self.node_ids_on(host)) or (f"node:{host.name}",)

    @cached_property
    def _machines(self) -> Mapping[str, Machine]:
        """Machines by Ray's id of the node, else by the name of the host."""
        return {node.id or node.host: machine_of(node, self._hosts.get(node.probe or "")) for node in self._nodes}

    def machine(self, node: Node) -> Machine:
        """Return the facts about a node's machine."""
        known = self._machines.get(node.id or node.host)
        return machine_of(node, self._hosts.get(node.probe or "")) if known is None else known

    @cached_property
    def titles(self) -> MachineTitles:
        """The titles of nodes and hosts."""
        return MachineTitles(self._nodes, self._hosts, self.believed_hosts)

    # Processes

    @cached_property
    def _homes(self) -> Mapping[str, str]:
        """The key of the first node on each host, by its name."""
        homes = {node.host: node.key for node in reversed(self._nodes)}
        homes.update({node.probe: node.key for node in reversed(self._nodes) if node.probe})
        for name, ids in self._node_ids.items():
            if (first := next((node for node in ids if node in self.nodes), None)) is not None:
                homes[name] = self.nodes[first].key
        return homes

    def place_of(self, process: Process) -> str:
        """Return the key of the node that it runs on. A process of another Ray counts to this Ray's node on its host."""
        node = self.nodes.get(process.node or "")
        return node.key if node is not None else self._homes.get(process.host) or f"node:{process.host}"

    def place_title(self, process: Process) -> str:
        """Return the title of the node or host that it runs on."""
        node = self.nodes.get(process.node or "")
        return self.titles.of_node(node) if node is not None else self.titles.of_host(process.host)

    @cached_property
    def processes_by_node(self) -> Mapping[str, Sequence[Process]]:
        """Processes by the key of their node."""
        found: dict[str, list[Process]] = defaultdict(list)
        for process in self._processes:
            found[self.place_of(process)].append(process)
        return found

    @cached_property
    def processes_by_job(self) -> Mapping[str, Sequence[Process]]:
        """Processes by `Process.job`."""
        found: dict[str, list[Process]] = {}
        for process in self._processes:
            if process.job:
                found.setdefault(process.job, []).append(process)
        return found

    @cached_property
    def last_titles(self) -> Mapping[str, Sequence[tuple[float, str]]]:
        """By the key of a worker that has just ended, the titles that its probe saw after the sample before."""
        found: dict[str, list[tuple[float, str]]] = {}
        for host in self._hosts.values():
            for process in host.ended:
                found.setdefault(process.key, []).extend(process.titles)
        return found

    @cached_property
    def users_of_actors(self) -> Mapping[str, frozenset[str]]:
        """By the name of a host, the users whose processes Ray itself lists as actors there."""
        found: dict[str, set[str]] = {}
        for process in self._processes:
            if process.actor and process.user:
                found.setdefault(process.host, set()).add(process.user)
        return {host: frozenset(users) for host, users in found.items()}

    @cached_property
    def processes_by_host(self) -> Mapping[str, Sequence[Process]]:
        """Processes by the name of their host."""
        found: dict[str, list[Process]] = {}
        for process in self._processes:
            found.setdefault(process.host, []).append(process)
        return found

    # GPUs

    @cached_property
    def gpu_holders(self) -> Mapping[GpuPlace, Sequence[tuple[Process, Hold]]]:
        """The processes that hold memory of each GPU, the largest first. GPUs without a visible holder are left out."""
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
    def gpus_by_job(self) -> Mapping[str, GpuUse]:
        """The GPUs that each job holds, by `Process.job`."""
        return self._gpus_by(lambda process: process.job)

    @cached_property
    def gpus_by_actor(self) -> Mapping[str, GpuUse]:
        """The GPUs that each actor and its children hold, by the actor's id."""
        return self._gpus_by(lambda process: process.actor)

    def _gpus_by(self, owner_of: Callable[[Process], str | None]) -> Mapping[str, GpuUse]:
        found: dict[str, GpuUse] = {}
        for process in self._processes:
            if process.gpus and (owner := owner_of(process)):
                held, place, memory = found.setdefault(owner, GpuUse()), self.place_of(process), process.gpu_memory
                held.places.update([(place, hold.index) for hold in process.gpus])
                if memory is not None:
                    held.memory = (held.memory or 0) + memory
        return found
