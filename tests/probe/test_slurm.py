"""Nothing of our own step becomes a wish for the next."""

from __future__ import annotations

from cockpit.probe.slurm import without_slurm


def test_only_where_slurm_is_configured_stays():
    ours = {"SLURM_CONF": "/c", "SLURM_CPU_BIND": "x", "SLURM_GRES": "none", "SRUN_DEBUG": "3", "SLURMD_NODENAME": "a", "HOME": "/h"}
    assert without_slurm({**ours, "SQUEUE_STATES": "PENDING", "SINFO_PARTITION": "cpu"}) == {"SLURM_CONF": "/c", "HOME": "/h"}
