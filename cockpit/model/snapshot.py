"""Defines the snapshot: everything known at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import msgspec

from cockpit.model.activity import Activity, ListedWorkers, LogSteps, PhaseSpan, Step
from cockpit.model.engine import Engine
from cockpit.model.failure import Failure
from cockpit.model.finding import Finding
from cockpit.model.host import Fault, Host, Port, Process, Session
from cockpit.model.index import ClusterIndex
from cockpit.model.kubernetes import RayCluster
from cockpit.model.nccl import NcclReport
from cockpit.model.oom import OomKill
from cockpit.model.ray import Actor, Cluster, Demand, Job, Node, PlacementGroup
from cockpit.model.slurm import Allocation
from cockpit.model.start import StartTrouble
from cockpit.model.titles import probed_machines


class Snapshot(msgspec.Struct, frozen=True, eq=False, dict=True):
    """Everything known at one moment; immutable, compared by identity."""

    taken: float = 0.0
    cluster: Cluster = Cluster()
    nodes: tuple[Node, ...] | None = None
    growing: bool = False
    """An autoscaler has created some of the nodes, and could create more."""
    actors: tuple[Actor, ...] | None = None
    actor_counts: Mapping[str, int] | None = None
    actors_complete: bool | None = None
    """Whether `actors` has every actor that is not dead: Ray's answer ends after 10,000."""
    placement_groups: tuple[PlacementGroup, ...] | None = None
    jobs: tuple[Job, ...] | None = None
    demand: tuple[Demand, ...] | None = None
    processes: tuple[Process, ...] | None = None
    sessions: tuple[Session, ...] | None = None
    oom_kills: tuple[OomKill, ...] | None = None
    """Of the last hour, from Ray and from probed hosts, each once."""
    hosts: Mapping[str, Host] = {}
    engines: tuple[Engine, ...] | None = None
    """The inference engines of running jobs, as far as they report themselves; `None`: nothing that could report them was asked."""
    failures: tuple[Failure, ...] = ()
    """The errors in the logs of failed jobs and restarting actors, or why a log could not be read."""
    activities: tuple[Activity, ...] = ()
    """What each running job does, one row a job."""
    spans: tuple[PhaseSpan, ...] = ()
    """The phases of running jobs and of the last ten that ended, by job, then in order: at most the last 600 of each."""
    steps: tuple[Step, ...] = ()
    """The steps that have ended, of the same jobs: at most the last 50 of each."""
    starts: tuple[StartTrouble, ...] = ()
    """Why actors that have a place don't start, as far as their nodes' logs show it. Not recorded; the text is the actors' `why`."""
    log_steps: tuple[LogSteps, ...] = ()
    """What the logs of running jobs say about their steps. Not recorded; the activities have it."""
    listed_workers: tuple[ListedWorkers, ...] = ()
    """The workers of running jobs on nodes without a probe, with their titles. Not recorded."""
    ports: tuple[Port, ...] = ()
    """Ports in use that a failed job could not bind, on the hosts that were asked. Not recorded."""
    nccl: tuple[NcclReport, ...] = ()
    """What NCCL last reported about running jobs; only jobs about which it was asked."""
    allocation: Allocation | None = None
    """The Slurm job that this Ray runs in, if known. Not recorded."""
    slurm_ids: frozenset[str] = frozenset()
    """Ids of the Slurm job that cockpit runs in or that the user has named, and of its parts. Not recorded."""
    kubernetes: RayCluster | None = None
    """The RayCluster that this Ray is, if known. Not recorded."""
    faults: tuple[Fault, ...] = ()
    findings: tuple[Finding, ...] = ()
    """The most severe first."""
    findings_as_of: float | None = None
    """When the detectors last ran; `None`: not yet since this cluster is followed, so that `findings` has not all that is wrong. Not
    recorded."""
    as_of: Mapping[str, float] = {}
    """For each source, the time of its last good answer."""

    @cached_property
    def index(self) -> ClusterIndex:
        """All look-ups, made once. The index has no reference to the snapshot, so that an unused snapshot is freed at once."""
        return ClusterIndex(self.nodes or (), self.hosts, self.processes or (), self.jobs or (), self.actors or ())

    @property
    def unjudged(self) -> tuple[Process, ...]:
        """Processes that may be orphans: cockpit lacks root for other users' processes, or must ask their Ray, and it is silent."""
        return tuple(process for process in self.processes or () if process.kind == "unknown" and process.state not in ("Z", "X"))

    @property
    def looked_at(self) -> int:
        """The number of machines whose process table was read: only they can be said to have no leftovers."""
        return probed_machines(self.hosts)
