"""Everything known at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import msgspec

from cockpit.model.finding import Finding
from cockpit.model.host import Fault, Host, Port, Process, Session
from cockpit.model.kubernetes import RayCluster
from cockpit.model.oom import OomKill
from cockpit.model.ray import Actor, Cluster, Demand, Job, Node, PlacementGroup
from cockpit.model.slurm import Allocation
from cockpit.model.titles import MachineTitles, count_machines


class Snapshot(msgspec.Struct, frozen=True, eq=False, gc=False):
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

    @property
    def unjudged(self) -> tuple[Process, ...]:
        """Of which it can't be told whether they are orphans: another user's without root, or one whose Ray must be asked and is silent."""
        return tuple(process for process in self.processes or () if process.kind == "unknown" and process.state not in ("Z", "X"))

    @property
    def looked_at(self) -> int:
        """Machines whose own process table has been read: only of these it can be said that nothing is left over."""
        return count_machines(self.nodes or (), self.hosts)[0]


class Lookups:
    """A snapshot, and what is looked up in it: made once, when it is asked for."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    @cached_property
    def nodes(self) -> Mapping[str, Node]:
        """By Ray's id."""
        return {node.id: node for node in self.snapshot.nodes or () if node.id}

    @cached_property
    def titles(self) -> MachineTitles:
        """What people call nodes and hosts."""
        return MachineTitles(self.snapshot.nodes or (), self.snapshot.hosts)

    def place_title(self, process: Process) -> str:
        """Where it runs, as people call its node, or its host."""
        node = self.nodes.get(process.node or "")
        return self.titles.of_node(node) if node is not None else self.titles.of_host(process.host)

    @cached_property
    def jobs(self) -> Mapping[str, Job]:
        """By the 8 hex digits that actors carry."""
        return {job.job: job for job in self.snapshot.jobs or () if job.job}

    @cached_property
    def actors(self) -> Mapping[str, Actor]:
        """By id; dead ones are not in it."""
        return {actor.id: actor for actor in self.snapshot.actors or ()}

    def job_title(self, job: str | None) -> str:
        """A job by the name its owner gave it, where that is known."""
        known = self.jobs.get(job or "")
        return known.id if known else job or ""
