"""Holds the last good answer of every source, from which the join makes a snapshot."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from cockpit.model import (
    Allocation,
    Cluster,
    Engine,
    Failure,
    Fault,
    Host,
    ListedWorkers,
    LogSteps,
    NcclReport,
    Port,
    RayCluster,
    StartTrouble,
)
from cockpit.sources.ray.client import ActorFacts, GroupFacts, JobFacts, NodeFacts, OomFacts, StatusFacts


class Parts(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The last good answer of every source."""

    cluster: Cluster = Cluster()
    nodes: NodeFacts | None = None
    status: StatusFacts | None = None
    actors: ActorFacts | None = None
    groups: GroupFacts | None = None
    jobs: JobFacts | None = None
    oom: OomFacts | None = None
    hosts: Mapping[str, Host] = {}
    engines: tuple[Engine, ...] | None = None
    failures: tuple[Failure, ...] = ()
    starts: tuple[StartTrouble, ...] = ()
    log_steps: tuple[LogSteps, ...] = ()
    listed_workers: tuple[ListedWorkers, ...] = ()
    ports: tuple[Port, ...] = ()
    nccl: tuple[NcclReport, ...] = ()
    allocation: Allocation | None = None
    kubernetes: RayCluster | None = None
    expected: tuple[tuple[str, str], ...] = ()
    """Name and address of the hosts in the config. They have a row even before any source has reported them."""
    slurm_ids: frozenset[str] = frozenset()
    faults: Mapping[tuple[str, str | None], Fault] = {}
    as_of: Mapping[str, float] = {}

    def forget_ray(self) -> Parts:
        """Drops all answers of Ray: they are not true of another cluster."""
        return replace(
            self,
            nodes=None,
            status=None,
            actors=None,
            groups=None,
            jobs=None,
            oom=None,
            engines=None,
            failures=(),
            starts=(),
            log_steps=(),
            listed_workers=(),
            nccl=(),
        )
