"""In a job of Slurm its nodes are found and reached; elsewhere, and where Slurm is not whole, nothing changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.config.reach import DEFAULT_REACH, HostEntry, reach_command
from cockpit.config.settings import load
from cockpit.config.slurm import find_allocation

SRUN = "srun --jobid=42 --overlap --nodes=1 --ntasks=1 --nodelist={name} --quiet {python} -"


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with an `srun`, and a `scontrol` that expands one list."""
    (tmp_path / "bin").mkdir()
    for name, does in (("srun", "exit 1"), ("scontrol", '[ "$*" = "show hostnames gpu[1-2]" ] && printf "gpu1\\ngpu2\\n"')):
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path / "bin"


def allocation(programs: Path, nodes: str = "gpu[1-2]", job: str = "42") -> dict[str, str]:
    return {"SLURM_JOB_ID": job, "SLURM_JOB_NODELIST": nodes, "PATH": str(programs)}


@pytest.mark.process
def test_its_nodes_are_the_hosts_and_a_step_on_each_is_the_way(programs: Path, tmp_path: Path):
    config = load({}, allocation(programs), tmp_path / "none.yaml")
    assert config.hosts == (HostEntry("gpu1"), HostEntry("gpu2"))
    assert reach_command(config.reach, config.hosts[1]) == [*SRUN.split()[:5], "--nodelist=gpu2", "--quiet", "python3", "-"]
    assert config.origins == {"reach": "SLURM_JOB_ID", "hosts": "SLURM_JOB_NODELIST"}


@pytest.mark.process
def test_what_the_file_or_a_flag_says_holds_before_it(programs: Path, tmp_path: Path):
    path = tmp_path / "config.yaml"
    path.write_text("reach: ssh {address} {python} -\n")
    config = load({"hosts": "w1"}, allocation(programs), path)
    assert (config.reach, config.hosts) == ("ssh {address} {python} -", (HostEntry("w1"),))


@pytest.mark.process
@pytest.mark.parametrize("nodes", ["gpu[7-9]", "x y", "-w"])
def test_nodes_that_slurm_does_not_expand_leave_the_hosts_to_ray(programs: Path, nodes: str):
    found = find_allocation(allocation(programs, nodes))
    assert found is not None
    assert found.hosts == ()


@pytest.mark.parametrize(
    "env", [{}, {"SLURM_JOB_ID": "42"}, {"SLURM_JOB_NODELIST": "gpu1"}, {"SLURM_JOB_ID": "4 2", "SLURM_JOB_NODELIST": "a"}]
)
def test_outside_of_a_job_there_is_none(programs: Path, env: dict[str, str]):
    assert find_allocation({"PATH": str(programs), **env}) is None


def test_without_srun_hosts_are_reached_as_ever(tmp_path: Path):
    assert load({}, allocation(tmp_path), tmp_path / "none.yaml").reach == DEFAULT_REACH
