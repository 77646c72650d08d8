"""What pages are drawn from: a snapshot, look-ups in it, the recent past, and the size of the screen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property
from math import ceil
from typing import Any, TypeVar

import msgspec

from cockpit.check.preset_list import PresetEntry
from cockpit.findings.ray_gpus import find_all_not_given
from cockpit.findings.sources import SourceTimes
from cockpit.model import GROUP_WAIT_PREFIX, ClusterIndex, Gpu, Node, PlacementGroup, Snapshot
from cockpit.monitor.history import History
from cockpit.report.grouping import LONG_REASON_CHARS
from cockpit.ui.findings import FindingIndex
from cockpit.ui.log_tails import LogTail

GPU_IN_USE_SHARE = 0.1
"""Fraction of a GPU's memory above which it is in use: a driver alone holds less."""
T = TypeVar("T")


class Index:
    """What pages sum up in one snapshot, each made when first asked for. The sums of a node are kept while its GPUs stay the same."""

    def __init__(self, snapshot: Snapshot, before: Index | None = None, hidden: AbstractSet[str] = frozenset()) -> None:
        """`hidden`: keys of the findings that the user has hidden."""
        self.snapshot, self.cluster = snapshot, snapshot.index
        self._hidden = frozenset(hidden)
        self.findings = FindingIndex(snapshot.findings, hidden)
        self._summed: dict[str, tuple[tuple[Gpu, ...], tuple[int, int]]] = before._summed if before else {}
        self._made: dict[Callable[[Snapshot], Any], Any] = {}

    def is_of(self, snapshot: Snapshot, hidden: AbstractSet[str]) -> bool:
        """Whether it was made for this snapshot and these hidden findings."""
        return self.snapshot is snapshot and self._hidden == hidden

    def look_up_again(self, before: Index) -> None:
        """Make now what was asked of the last snapshot's: it will be asked of this one, and a key must not wait for it."""
        for name in list(vars(before.cluster)):
            if isinstance(getattr(ClusterIndex, name, None), cached_property):
                getattr(self.cluster, name)
        for name in list(vars(before)):
            if isinstance(getattr(Index, name, None), cached_property):
                getattr(self, name)
        for make in list(before._made):
            self.of(make)

    def of(self, make: Callable[[Snapshot], T]) -> T:
        """What `make` makes of the snapshot, made once. It must be the same function every time, and look at nothing else."""
        if make not in self._made:
            self._made[make] = make(self.snapshot)
        made: T = self._made[make]
        return made

    @cached_property
    def gpu_memory(self) -> tuple[int, int] | None:
        """In use and in all, over every GPU of which both are known, each once: two raylets on a host see the same ones."""
        nodes = self.snapshot.nodes or ()
        if len({node.ip for node in nodes}) == len(nodes):
            before, self._summed = self._summed, {}
            for node in nodes:
                gpus, known = self.cluster.machine(node).current_gpus or (), before.get(node.key)
                self._summed[node.key] = known if known is not None and known[0] is gpus else (gpus, sum_gpu_memory(gpus))
            sums = [each for _, each in self._summed.values() if each[1]]
        else:
            each_once = {gpu.uuid or (node.key, gpu.index): gpu for node in nodes for gpu in self.cluster.machine(node).current_gpus or ()}
            sums = [sum_gpu_memory(each_once.values())]
        total = sum(each[1] for each in sums)
        return (sum(each[0] for each in sums), total) if total else None

    @cached_property
    def node_count(self) -> tuple[int, int] | None:
        """Ray's nodes that are alive, and those that are not and have not come back; `None`: Ray has told of none."""
        ours = [node for node in self.snapshot.nodes or () if node.id is not None]
        back = {node.ip for node in ours if node.state == "ALIVE"}
        missing = sum(node.state != "ALIVE" and node.ip not in back for node in ours)
        return (sum(node.state == "ALIVE" for node in ours), missing) if ours else None

    @cached_property
    def reserved_gpus(self) -> tuple[float | None, float]:
        """Of the living nodes: GPUs that Ray has handed out, and all."""
        living = [node.resources.get("GPU") for node in self.snapshot.nodes or () if node.state == "ALIVE"]
        quantities = [quantity for quantity in living if quantity is not None]
        used = [quantity.used for quantity in quantities if quantity.used is not None]
        return (sum(used) if used else None, sum(quantity.total or 0 for quantity in quantities))

    @cached_property
    def gpus_not_given(self) -> Mapping[str, tuple[Gpu, ...]]:
        """By key of the node, where that is known: GPUs that Ray can't hand out, because its raylet was not given them."""
        return find_all_not_given(self.snapshot)

    @cached_property
    def groups(self) -> Mapping[str, PlacementGroup]:
        """By id."""
        return {group.id: group for group in self.snapshot.placement_groups or ()}

    @cached_property
    def first_reasons(self) -> Mapping[str, tuple[str, str]]:
        """By a long reason for which several things may wait: key and name of the first, groups before actors."""
        groups = [group for group in self.snapshot.placement_groups or () if group.pending]
        reasons = [(group.why, group.key, f"group {group.name or group.id[:12]}") for group in groups]
        waiting = [actor for actor in self.snapshot.actors or () if actor.state != "ALIVE"]
        reasons += [(actor.why, actor.key, f"actor {actor.name or actor.class_}") for actor in waiting]
        found: dict[str, tuple[str, str]] = {}
        for why, key, name in reasons:
            if why and len(reason := why.removeprefix(GROUP_WAIT_PREFIX)) >= LONG_REASON_CHARS:
                found.setdefault(reason, (key, name))
        return found

    @cached_property
    def old_lists(self) -> Mapping[str, float]:
        """By source of the cluster whose last answer is too old for now: when that came. What it listed is drawn as old."""
        times = SourceTimes(self.snapshot)
        told = [times.of_ray(source) for source in self.snapshot.as_of if source.startswith("ray.")]
        return {one.source: one.at for one in told if one.is_old and one.at is not None}

    @cached_property
    def holders_unknown(self) -> frozenset[str]:
        """Ids of nodes with a GPU in use and no holder seen: what actors and jobs hold there is not known."""
        nodes = [node for node in self.snapshot.nodes or () if node.id and node.state == "ALIVE" and "GPU" in node.resources]
        return frozenset(node.id for node in nodes if node.id and (self.snapshot.processes is None or self._has_unknown_holder(node)))

    def _has_unknown_holder(self, node: Node) -> bool:
        """In a container NVML may give no pids, or those of another namespace."""
        gpus = self.cluster.machine(node).current_gpus
        return gpus is None or any(
            (gpu.memory_used or 0) > GPU_IN_USE_SHARE * (gpu.memory_total or 0) and (node.key, gpu.index) not in self.cluster.gpu_holders
            for gpu in gpus
        )

    def gpu_reservers(self, node: str, gpu: int) -> Mapping[str, int]:
        """By a node's key and a GPU's index: the keys of who works there on a reservation, with how many GPUs of the node each may have."""
        actors = [self.cluster.actors.get(process.actor or "") for process, _ in self.cluster.gpu_holders.get((node, gpu), ())]
        having = [actor for actor in actors if actor is not None and (actor.placement_group or actor.needs.get("GPU"))]
        return {actor.key: max(1, ceil(actor.needs.get("GPU", 0))) for actor in having}


def sum_gpu_memory(gpus: Iterable[Gpu]) -> tuple[int, int]:
    """In use and in all, over the GPUs that report both."""
    known = [(gpu.memory_used, gpu.memory_total) for gpu in gpus if gpu.memory_used is not None and gpu.memory_total]
    return sum(used for used, _ in known), sum(total for _, total in known)


class View(msgspec.Struct, frozen=True):
    """Everything a cell may be drawn from."""

    snapshot: Snapshot = msgspec.field(default_factory=Snapshot)
    index: Index = msgspec.field(default_factory=lambda: Index(Snapshot()))
    history: History = msgspec.field(default_factory=History)
    now: float = 0.0
    width: int = 80
    ascii: bool = False
    height: int = 24
    acts: bool = False
    """Whether acts are available; else their keys are not shown."""
    preset_entries: tuple[PresetEntry, ...] | None = None
    """The presets as read last; `None` until the page Presets is opened."""
    log_tails: Mapping[str, LogTail] = msgspec.field(default_factory=dict)
    """The last lines of logs, by key of the thing that they are of."""
    ago: float | None = None
    """How long ago the moment is that is shown, in seconds; `None`: it is now."""

    @property
    def cluster(self) -> ClusterIndex:
        """The look-ups in the snapshot."""
        return self.snapshot.index

    def job_title(self, job: str | None) -> str:
        """A job by the name its owner gave it, where that is known."""
        return self.cluster.job_title(job)

    def node_title(self, node: str | None) -> str:
        """A node by its name; the beginning of its id when nothing else is known."""
        known = self.cluster.nodes.get(node or "")
        return self.cluster.titles.of_node(known) if known else (node or "")[:8]

    def host_title(self, host: str) -> str:
        """A host as its node is called."""
        return self.cluster.titles.of_host(host)

    def host_words(self, host: str) -> str:
        """The same, and its own name where that is another: `head (host vm)`."""
        title = self.host_title(host)
        return title if title == host else f"{title} (host {host})"
