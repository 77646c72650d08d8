"""Everything known at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import msgspec

from cockpit.model.finding import Finding
from cockpit.model.host import Fault, Host, Port, Process, Session
from cockpit.model.index import ClusterIndex
from cockpit.model.kubernetes import RayCluster
from cockpit.model.oom import OomKill
from cockpit.model.ray import Actor, Cluster, Demand, Job, Node, PlacementGroup
from cockpit.model.slurm import Allocation
from cockpit.model.titles import count_machines


class Snapshot(msgspec.Struct, frozen=True, eq=False, dict=True):
    """Everything known at one moment. Never changed, compared by identity."""

    taken: float = 0.0
    cluster: Cluster = Cluster()
    nodes: tuple[Node, ...] | None = None
    growing: bool = False
    """An autoscaler has made some of the nodes, and could make more."""
    actors: tuple[Actor, ...] | None = None
    actor_counts: Mapping[str, int] | None = None
    actors_complete: bool | None = None
    """Whether `actors` holds every actor that is not dead: Ray cuts its answers at 10,000."""
    placement_groups: tuple[PlacementGroup, ...] | None = None
    jobs: tuple[Job, ...] | None = None
    demand: tuple[Demand, ...] | None = None
    processes: tuple[Process, ...] | None = None
    sessions: tuple[Session, ...] | None = None
    oom_kills: tuple[OomKill, ...] | None = None
    """Of the last hour, as Ray and the hosts that are looked at tell, each once."""
    hosts: Mapping[str, Host] = {}
    ports: tuple[Port, ...] = ()
    """That a failed job wanted and that were in use, of hosts that were asked; it is no part of a recording."""
    allocation: Allocation | None = None
    """The Slurm job that this Ray is known to run in; it is no part of a recording."""
    slurm_ids: frozenset[str] = frozenset()
    """Ids of the Slurm job that cockpit runs in, or was told of, and of its parts; it is no part of a recording."""
    kubernetes: RayCluster | None = None
    """The RayCluster of KubeRay's that this Ray is known to be; it is no part of a recording."""
    faults: tuple[Fault, ...] = ()
    findings: tuple[Finding, ...] = ()
    """What follows from all of it, the worst first."""
    as_of: Mapping[str, float] = {}
    """For each source, when its last good answer came."""

    @cached_property
    def index(self) -> ClusterIndex:
        """All look-ups in it, made once. It does not refer to the snapshot: that is freed when nobody uses it any more, not later."""
        return ClusterIndex(self.nodes or (), self.hosts, self.processes or (), self.jobs or (), self.actors or ())

    @property
    def unjudged(self) -> tuple[Process, ...]:
        """Of which it can't be told whether they are orphans: another user's without root, or one whose Ray must be asked and is silent."""
        return tuple(process for process in self.processes or () if process.kind == "unknown" and process.state not in ("Z", "X"))

    @property
    def looked_at(self) -> int:
        """Machines whose own process table has been read: only of these it can be said that nothing is left over."""
        return count_machines(self.nodes or (), self.hosts)[0]
