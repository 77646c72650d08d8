"""Options of our own Slurm step do not become options of the next one."""

from __future__ import annotations

import pytest

from cockpit.probe.slurm import without_slurm

pytestmark = pytest.mark.process


def test_only_slurms_address_and_the_job_stay():
    kept = {"SLURM_CONF": "/c", "SLURM_JWT": "x", "SLURM_JOB_ID": "42", "HOME": "/h"}
    ours = {**kept, "SLURM_CPU_BIND": "x", "SLURM_GRES": "none", "SRUN_DEBUG": "3", "SLURMD_NODENAME": "a"}
    assert without_slurm({**ours, "SQUEUE_STATES": "PENDING", "SINFO_PARTITION": "cpu"}) == kept
