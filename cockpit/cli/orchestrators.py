"""`--slurm JOBID` and `--kubernetes NAMESPACE/RAYCLUSTER`: what was named is asked for before anything else."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from msgspec.structs import replace

from cockpit.config import kubernetes, slurm
from cockpit.config.document import InputError
from cockpit.config.settings import Config, Orchestrator
from cockpit.sources.kubernetes.api import KubernetesApi
from cockpit.sources.kubernetes.facts import check_ray_cluster
from cockpit.sources.slurm import find_parts, read_names
from cockpit.sources.source import SourceError


def find_named_orchestrators(job: str | None, cluster: str | None) -> tuple[Orchestrator, ...]:
    """The Slurm job and the RayCluster of KubeRay's that were named, as these know them now. Raises `InputError`."""
    allocation = None if job is None else _find(slurm.FLAG, _find_allocation, job)
    place = None if cluster is None else _find(kubernetes.FLAG, _find_place, cluster)
    return tuple(one for one in (allocation, place) if one is not None)


def with_slurm_names(config: Config) -> Config:
    """With all names and addresses of the job's nodes, as far as Slurm tells them at once, and the hosts by Slurm's names."""
    try:
        known = asyncio.run(read_names(",".join(node.name for node in config.slurm_nodes)))
    except SourceError:
        return config
    return replace(config, hosts=slurm.by_slurm_names(config.hosts, known), slurm_nodes=known)


def _find(flag: str, find: Callable[[str], Orchestrator], name: str) -> Orchestrator:
    try:
        return find(name)
    except (SourceError, InputError) as error:
        raise InputError(f"{flag}: {error}") from error


def _find_allocation(name: str) -> slurm.SlurmHosts:
    if not slurm.is_job_name(name):
        raise InputError(f"expected the id of a job such as 12345, 12345_1 of an array, or 12345+1, got {name}")
    job, *others = asyncio.run(find_parts(name))
    return slurm.named_allocation(job.id, job.nodes, name=job.name, parts=(other.id for other in others))


def _find_place(name: str) -> kubernetes.KubernetesPlace:
    place = kubernetes.named_place(name, os.environ)
    asyncio.run(check_ray_cluster(KubernetesApi(place)))
    return place
