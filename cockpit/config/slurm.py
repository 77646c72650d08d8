"""The Slurm allocation that cockpit runs in: which nodes it has, and the step that gives a pipe to a Python on one of them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from typing import Final, NamedTuple

from cockpit.config.document import InputError
from cockpit.config.reach import HostEntry, check_host

JOB: Final = "SLURM_JOB_ID"
NODES: Final = "SLURM_JOB_NODELIST"
"""Such as `gpu[001-004,9],login1`."""
PATIENCE_S: Final = 5.0
REACH: Final = "srun --jobid={job} --overlap --nodes=1 --ntasks=1 --nodelist={{name}} --quiet {{python}} -"
"""A step beside those that hold the resources (`--overlap`, since 20.11)."""


class Allocation(NamedTuple):
    """What its variables say, and `scontrol`."""

    reach: str
    hosts: tuple[HostEntry, ...]
    """By Slurm's names of its nodes; none where those can't be told."""


def find_allocation(env: Mapping[str, str]) -> Allocation | None:
    """`None` outside of one, and where there is no `srun`. Slurm sets these variables for what it starts, and only its user can."""
    job, nodes = env.get(JOB, ""), env.get(NODES, "")
    if not (job.isascii() and job.isdigit()) or not nodes or shutil.which("srun", path=env.get("PATH")) is None:
        return None
    return Allocation(REACH.format(job=job), tuple(_hosts(nodes, env)))


def _hosts(nodes: str, env: Mapping[str, str]) -> list[HostEntry]:
    """Expanded by Slurm, whose form of it has many cases."""
    try:
        told = subprocess.run(
            ["scontrol", "show", "hostnames", nodes], env=dict(env), capture_output=True, text=True, timeout=PATIENCE_S, check=True
        )
        return [check_host(HostEntry(name)) for name in told.stdout.split()]
    except (OSError, subprocess.SubprocessError, InputError):
        return []
