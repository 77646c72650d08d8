"""Removes the environment variables that Slurm's programs read as options."""

from __future__ import annotations

from typing import Dict, Mapping

_KEPT = ("SLURM_CONF", "SLURM_JWT", "SLURM_CLUSTERS", "SLURM_JOB_ID", "SLURM_JOBID")
"""Variables for the address of Slurm, for the user's token, and for the current job."""
_OPTION_PREFIXES = ("SLURM_", "SLURMD_", "SRUN_", "SBATCH_", "SALLOC_", "SQUEUE_", "SINFO_")


def without_slurm(environ: Mapping[str, str]) -> Dict[str, str]:
    """A copy of the environment without Slurm's options.

    Otherwise a new step would request the options of our own step (srun(1), INPUT ENVIRONMENT VARIABLES): its memory and CPUs, which are
    in use or belong to another node, labels before each line, or no variables at all.
    """
    return {name: value for name, value in environ.items() if name in _KEPT or not name.startswith(_OPTION_PREFIXES)}
