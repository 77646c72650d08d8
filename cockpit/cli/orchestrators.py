"""Finds the Slurm job and the RayCluster that `--slurm` and `--kubernetes` name, before anything else is sampled."""

from __future__ import annotations

import asyncio
import os

from msgspec.structs import replace

from cockpit.config import kubernetes, slurm
from cockpit.config.document import InputError
from cockpit.config.settings import Config, Orchestrator
from cockpit.sources.kubernetes.api import KubernetesApi
from cockpit.sources.kubernetes.facts import check_ray_cluster
from cockpit.sources.slurm import find_parts, read_names
from cockpit.sources.source import SourceError


def find_named_orchestrators(job: str | None, cluster: str | None) -> tuple[Orchestrator, ...]:
    """The named Slurm job and the named RayCluster of KubeRay, as Slurm and Kubernetes know them now. Raises `InputError`."""
    found: list[Orchestrator] = []
    if job is not None:
        if not slurm.is_job_name(job):
            raise InputError(f"{slurm.FLAG}: expected the id of a job such as 12345, 12345_1 of an array, or 12345+1, got {job}")
        try:
            first, *others = asyncio.run(find_parts(job))
            found.append(slurm.named_allocation(first.id, first.nodes, name=first.name, parts=(other.id for other in others)))
        except (SourceError, InputError) as error:
            raise InputError(f"{slurm.FLAG}: {error}") from error
    if cluster is not None:
        try:
            place = kubernetes.named_place(cluster, os.environ)
            asyncio.run(check_ray_cluster(KubernetesApi(place)))
            found.append(place)
        except (SourceError, InputError) as error:
            raise InputError(f"{kubernetes.FLAG}: {error}") from error
    return tuple(found)


def with_slurm_names(config: Config) -> Config:
    """The config with all names and addresses of the job's nodes, and hosts under Slurm's names; unchanged if Slurm does not answer."""
    try:
        known = asyncio.run(read_names(",".join(node.name for node in config.slurm_nodes)))
    except SourceError:
        return config
    return replace(config, hosts=slurm.by_slurm_names(config.hosts, known), slurm_nodes=known)
