"""What a page is drawn from: a snapshot, what can be looked up in it, the recent past, and the room there is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from cockpit.history import History
from cockpit.model import Actor, Gpu, Hold, Host, Job, Node, Process, Snapshot
from cockpit.shelf import Entry
from cockpit.ui.found import Found

IN_USE = 0.1
"""Of a GPU's memory: more than a driver holds by itself."""


MOST_KEPT = 8
"""Things kept of a node, on average, before all are made anew: nodes that are gone leave theirs behind."""
T = TypeVar("T")


class Index:
    """Look-ups in one snapshot, each made when first asked for; what was made of a node is kept for as long as the node stays the same."""

    def __init__(self, snapshot: Snapshot, before: Index | None = None, hidden: AbstractSet[str] = frozenset()) -> None:
        """`hidden` are keys of findings that somebody does not want to see."""
        self._snapshot = snapshot
        self.found = Found(snapshot.findings, hidden)
        self._made: dict[tuple[Any, str], tuple[Node, Any]] = before._made if before else {}
        if len(self._made) > MOST_KEPT * (1 + len(snapshot.nodes or ())):
            self._made.clear()

    def of_nodes(self, make: Callable[[Node], T]) -> Iterator[T]:
        """What `make` makes of each node. It must be the same function every time, and look at nothing but the node."""
        made = self._made
        for node in self._snapshot.nodes or ():
            known = made.get((make, node.key))
            if known is None or known[0] is not node:
                known = made[make, node.key] = (node, make(node))
            yield known[1]

    @cached_property
    def gpu_memory(self) -> tuple[int, int] | None:
        """In use and in all, over every GPU of which both are known, each once: two raylets on a host see the same ones."""
        nodes = self._snapshot.nodes or ()
        if len({node.ip for node in nodes}) == len(nodes):
            sums = [each for each in self.of_nodes(_gpu_memory) if each[1]]
        else:
            gpus = {gpu.uuid or (node.key, gpu.index): gpu for node in nodes for gpu in node.gpus or ()}
            sums = [_sums(gpus.values())]
        total = sum(each[1] for each in sums)
        return (sum(each[0] for each in sums), total) if total else None

    @cached_property
    def nodes(self) -> Mapping[str, Node]:
        """By Ray's id."""
        return {node.id: node for node in self._snapshot.nodes or () if node.id}

    @cached_property
    def actors(self) -> Mapping[str, Actor]:
        """By id; dead ones are not in it."""
        return {actor.id: actor for actor in self._snapshot.actors or ()}

    @cached_property
    def jobs(self) -> Mapping[str, Job]:
        """By the 8 hex digits that actors carry."""
        return {job.job: job for job in self._snapshot.jobs or () if job.job}

    @cached_property
    def processes(self) -> Mapping[str, list[Process]]:
        """By the key of the node they run on."""
        homes = {node.host: node.key for node in reversed(self._snapshot.nodes or ())}
        found: dict[str, list[Process]] = defaultdict(list)
        for process in self._snapshot.processes or ():
            found[f"node:{process.node}" if process.node else homes.get(process.host, f"node:{process.host}")].append(process)
        return found

    @cached_property
    def blind(self) -> frozenset[str]:
        """Nodes of which a GPU is in use and no holder is seen: there it is not known, rather than nothing, what an actor or job holds."""
        nodes = [node for node in self._snapshot.nodes or () if node.id and node.state == "ALIVE" and "GPU" in node.resources]
        return frozenset(node.id for node in nodes if node.id and (self._snapshot.processes is None or self._blind(node)))

    def _blind(self, node: Node) -> bool:
        """In a container NVML may give no pids, or those of another namespace."""
        return node.gpus is None or any(
            (gpu.memory_used or 0) > IN_USE * (gpu.memory_total or 0) and (node.key, gpu.index) not in self.holders for gpu in node.gpus
        )

    def host_of(self, node: Node) -> Host | None:
        """The probed host it runs on: by the raylet that the probe sees there, else by address, else by name."""
        hosts = self._snapshot.hosts.values()
        by_id = {node_id: host for host in hosts for node_id in host.nodes}
        by_address = {address: host for host in hosts for address in host.addresses}
        by_name = {host.name: host for host in hosts}
        return by_id.get(node.id or "") or by_address.get(node.ip) or by_name.get(node.host) or by_name.get(node.name)

    @cached_property
    def holders(self) -> Mapping[tuple[str, int], list[tuple[Process, Hold]]]:
        """By node key and GPU index: who holds its memory, the greatest first."""
        found: dict[tuple[str, int], list[tuple[Process, Hold]]] = defaultdict(list)
        for node, processes in self.processes.items():
            for process in processes:
                for hold in process.gpus:
                    found[node, hold.index].append((process, hold))
        for held in found.values():
            held.sort(key=lambda item: -(item[1].memory or 0))
        return found

    @cached_property
    def actor_gpus(self) -> Mapping[str, tuple[int | None, frozenset[tuple[str, int]]]]:
        """By actor id: GPU memory that it and its children hold, and on which GPUs."""
        memory: dict[str, int | None] = {}
        places: dict[str, set[tuple[str, int]]] = defaultdict(set)
        for process in self._snapshot.processes or ():
            if process.actor and process.gpus:
                held = process.gpu_memory
                before = memory.get(process.actor)
                memory[process.actor] = held if before is None else before + (held or 0)
                places[process.actor] |= {(process.node or process.host, hold.index) for hold in process.gpus}
        return {actor: (memory[actor], frozenset(places[actor])) for actor in memory}

    @cached_property
    def job_gpus(self) -> Mapping[str, tuple[int | None, int]]:
        """By job: GPU memory held by its processes, where NVML says it of any, and on how many GPUs."""
        memory: dict[str, int | None] = {}
        places: dict[str, set[tuple[str, int]]] = defaultdict(set)
        for process in self._snapshot.processes or ():
            if process.job and process.gpus:
                held, before = process.gpu_memory, memory.get(process.job)
                memory[process.job] = held if before is None else before + (held or 0)
                places[process.job] |= {(process.node or process.host, hold.index) for hold in process.gpus}
        return {job: (held, len(places[job])) for job, held in memory.items()}


def _gpu_memory(node: Node) -> tuple[int, int]:
    return _sums(node.gpus or ())


def _sums(gpus: Iterable[Gpu]) -> tuple[int, int]:
    known = [(gpu.memory_used, gpu.memory_total) for gpu in gpus if gpu.memory_used is not None and gpu.memory_total]
    return sum(used for used, _ in known), sum(total for _, total in known)


@dataclass(frozen=True)
class View:
    """Everything a cell may be drawn from."""

    snapshot: Snapshot = field(default_factory=Snapshot)
    index: Index = field(default_factory=lambda: Index(Snapshot()))
    history: History = field(default_factory=History)
    now: float = 0.0
    width: int = 80
    ascii: bool = False
    height: int = 24
    acts: bool = False
    """Whether anything can be done: else no key of an act is shown."""
    shelf: tuple[Entry, ...] | None = None
    """The presets, as they were when they were read last; `None`: nobody has asked for them."""

    def job_title(self, job: str | None) -> str:
        """A job by the name its owner gave it, where that is known."""
        known = self.index.jobs.get(job or "")
        return known.id if known else job or ""

    def node_title(self, node: str | None) -> str:
        """A node by its name; the beginning of its id when nothing else is known."""
        known = self.index.nodes.get(node or "")
        return known.title if known else (node or "")[:8]
