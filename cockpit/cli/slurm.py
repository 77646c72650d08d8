"""`--slurm JOBID`: the nodes of a job of Slurm's that was named, asked of Slurm before anything else."""

from __future__ import annotations

import asyncio

from cockpit.config.document import InputError
from cockpit.config.slurm import FLAG, SlurmHosts, is_job_id, named_allocation
from cockpit.sources.slurm import list_nodes
from cockpit.sources.source import SourceError


def find_allocation(job: str) -> SlurmHosts:
    """Raises `InputError`."""
    if not is_job_id(job):
        raise InputError(f"{FLAG}: expected the id of a job such as 12345, got {job}")
    try:
        return named_allocation(job, asyncio.run(list_nodes(job)))
    except (SourceError, InputError) as error:
        raise InputError(f"{FLAG}: {error}") from error
