"""Defines the view that pages are drawn from: a snapshot, look-ups in it, the recent past, and the size of the screen."""

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
from cockpit.model import GROUP_WAIT_PREFIX, ClusterIndex, Gpu, PlacementGroup, Snapshot
from cockpit.monitor.history import History
from cockpit.report.grouping import LONG_REASON_CHARS
from cockpit.ui.findings import FindingIndex
from cockpit.ui.log_tails import LogTail

GPU_IN_USE_SHARE = 0.1
"""Fraction of a GPU's memory above which it is in use: a driver alone holds less."""
T = TypeVar("T")


class Index:
    """Look-ups and sums that pages need of one snapshot; each is made when it is first needed."""

    def __init__(self, snapshot: Snapshot, hidden: AbstractSet[str] = frozenset()) -> None:
        """`hidden`: keys of the findings that the user has hidden."""
        self.snapshot, self.cluster = snapshot, snapshot.index
        self._hidden = frozenset(hidden)
        self.findings = FindingIndex(snapshot.findings, hidden)
        self._made: dict[Callable[[Snapshot], Any], Any] = {}

    def is_of(self, snapshot: Snapshot, hidden: AbstractSet[str]) -> bool:
        """Whether the index was made for this snapshot and these hidden findings."""
        return self.snapshot is snapshot and self._hidden == hidden

    def precompute(self, before: Index) -> None:
        """Make now all that pages needed of the last snapshot: they will need it again, and a key must not wait for it."""
        for name in list(vars(before.cluster)):
            if isinstance(getattr(ClusterIndex, name, None), cached_property):
                getattr(self.cluster, name)
        for name in list(vars(before)):
            if isinstance(getattr(Index, name, None), cached_property):
                getattr(self, name)
        for make in list(before._made):
            self.of(make)

    def of(self, make: Callable[[Snapshot], T]) -> T:
        """Call `make` with the snapshot once and keep the result. `make` depends on nothing else, and is the same function each time."""
        if make not in self._made:
            self._made[make] = make(self.snapshot)
        made: T = self._made[make]
        return made

    @cached_property
    def gpu_memory(self) -> tuple[int, int] | None:
        """Used and total bytes of all GPUs that report both. A GPU that two nodes of one host see counts once."""
        gpus = {
            (node.ip, gpu.uuid) if gpu.uuid else (node.key, gpu.index): gpu
            for node in self.snapshot.nodes or ()
            for gpu in self.cluster.machine(node).current_gpus or ()
        }
        used, total = sum_gpu_memory(gpus.values())
        return (used, total) if total else None

    @cached_property
    def unseen_gpus(self) -> int:
        """The number of GPUs of living nodes whose memory no source shows now: `gpu_memory` leaves them out."""
        living = [node for node in self.snapshot.nodes or () if node.state == "ALIVE" and "GPU" in node.resources]
        return sum(round(node.resources["GPU"].total or 0) for node in living if self.cluster.machine(node).current_gpus is None)

    @cached_property
    def node_count(self) -> tuple[int, int] | None:
        """The numbers of Ray's living nodes, and of dead ones that have not come back; `None`: Ray has listed no node."""
        ours = [node for node in self.snapshot.nodes or () if node.id is not None]
        back = {node.ip for node in ours if node.state == "ALIVE"}
        missing = sum(node.state != "ALIVE" and node.ip not in back for node in ours)
        return (sum(node.state == "ALIVE" for node in ours), missing) if ours else None

    @cached_property
    def reserved_gpus(self) -> tuple[float | None, float]:
        """The numbers of reserved GPUs and of all GPUs of the living nodes."""
        living = [node.resources.get("GPU") for node in self.snapshot.nodes or () if node.state == "ALIVE"]
        quantities = [quantity for quantity in living if quantity is not None]
        used = [quantity.used for quantity in quantities if quantity.used is not None]
        return (sum(used) if used else None, sum(quantity.total or 0 for quantity in quantities))

    @cached_property
    def gpus_not_given(self) -> Mapping[str, tuple[Gpu, ...]]:
        """By key of a node: GPUs that Ray can't hand out, because its raylet was not given them. Nodes without an answer are left out."""
        return find_all_not_given(self.snapshot)

    @cached_property
    def groups(self) -> Mapping[str, PlacementGroup]:
        """Placement groups by id."""
        return {group.id: group for group in self.snapshot.placement_groups or ()}

    @cached_property
    def first_reasons(self) -> Mapping[str, tuple[str, str]]:
        """By a long reason for waiting, which several rows may share: key and name of the first row, groups before actors."""
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
        """The time of the last answer of each Ray source, if it is old. Values from such a source are drawn as old."""
        times = SourceTimes(self.snapshot)
        known = [times.of_ray(source) for source in self.snapshot.as_of if source.startswith("ray.")]
        return {one.source: one.at for one in known if one.is_old and one.at is not None}

    @cached_property
    def holders_unknown(self) -> frozenset[str]:
        """Ids of nodes on which a GPU is in use by a process that cockpit does not see: what actors and jobs hold there is unknown.

        In a container NVML may give no pids, or pids of another namespace.
        """
        unknown = set()
        for node in self.snapshot.nodes or ():
            if node.id and node.state == "ALIVE" and "GPU" in node.resources:
                gpus = self.cluster.machine(node).current_gpus
                if self.snapshot.processes is None or gpus is None:
                    unknown.add(node.id)
                    continue
                in_use = [gpu for gpu in gpus if (gpu.memory_used or 0) > GPU_IN_USE_SHARE * (gpu.memory_total or 0)]
                if any((node.key, gpu.index) not in self.cluster.gpu_holders for gpu in in_use):
                    unknown.add(node.id)
        return frozenset(unknown)

    def gpu_reservers(self, node: str, gpu: int) -> Mapping[str, int]:
        """Actors with a GPU reservation that hold memory of this GPU: the key of each, and the number of GPUs it may have."""
        actors = [self.cluster.actors.get(process.actor or "") for process, _ in self.cluster.gpu_holders.get((node, gpu), ())]
        having = [actor for actor in actors if actor is not None and (actor.placement_group or actor.needs.get("GPU"))]
        return {actor.key: max(1, ceil(actor.needs.get("GPU", 0))) for actor in having}


def sum_gpu_memory(gpus: Iterable[Gpu]) -> tuple[int, int]:
    """Used and total bytes of the GPUs that report both."""
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
    actions: bool = False
    """Whether actions are available; else their keys are not shown."""
    preset_entries: tuple[PresetEntry, ...] | None = None
    """The presets as they were last read; `None` until the page Presets is opened."""
    log_tails: Mapping[str, LogTail] = msgspec.field(default_factory=dict)
    """The last lines of logs, by key of the thing that wrote them."""
    ago: float | None = None
    """The age in seconds of the moment that is shown; `None`: it is now."""

    @property
    def cluster(self) -> ClusterIndex:
        """The look-ups in the snapshot."""
        return self.snapshot.index

    def job_title(self, job: str | None) -> str:
        """The name that the owner gave to the job, else its id."""
        return self.cluster.job_title(job)

    def node_title(self, node: str | None) -> str:
        """The name of a node; the beginning of its id if the node is not listed."""
        known = self.cluster.nodes.get(node or "")
        return self.cluster.titles.of_node(known) if known else (node or "")[:8]

    def host_title(self, host: str) -> str:
        """The name of a host: the name of its node."""
        return self.cluster.titles.of_host(host)

    def host_words(self, host: str) -> str:
        """The name of the host's node, with the host's own name if it differs: `head (host vm)`."""
        title = self.host_title(host)
        return title if title == host else f"{title} (host {host})"
