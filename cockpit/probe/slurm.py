"""Which environment variables Slurm's programs read as options, and an environment without them."""

from __future__ import annotations

from typing import Dict, Mapping

_KEPT = ("SLURM_CONF", "SLURM_JWT", "SLURM_CLUSTERS", "SLURM_JOB_ID", "SLURM_JOBID")
"""Where Slurm is, who asks it, and in which job."""
_WISHES = ("SLURM_", "SLURMD_", "SRUN_", "SBATCH_", "SALLOC_", "SQUEUE_", "SINFO_")


def without_slurm(environ: Mapping[str, str]) -> Dict[str, str]:
    """An environment that asks nothing of them.

    What our own step was given would be asked for the next one: its memory and its CPUs, which are in use or are another node's, its
    labels before each line, no variables at all (srun(1), INPUT ENVIRONMENT VARIABLES).
    """
    return {name: value for name, value in environ.items() if name in _KEPT or not name.startswith(_WISHES)}
