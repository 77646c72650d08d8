"""Tests how many CPUs a process may use."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from cockpit.probe.sample.cgroups import CpuLimit, cpu_limit

ALL = len(os.sched_getaffinity(0))


def limits(tmp_path: Path, *folders: dict[str, str]) -> CpuLimit:
    """The limits of this process in cgroups with these files, its own cgroup first."""
    paths = []
    for number, files in enumerate(folders):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, text in files.items():
            (folder / name).write_text(text)
        paths.append(str(folder))
    return cpu_limit(os.getpid(), paths)


def test_the_lowest_quota_of_all_cgroups_counts_with_its_file(tmp_path):
    found = limits(tmp_path, {"cpu.max": "max 100000\n"}, {"cpu.max": "400000 100000\n"}, {"cpu.max": "800000 100000\n"}, {})
    assert found == CpuLimit(ALL, 4.0, f"{tmp_path}/1/cpu.max")


def test_cgroup_version_1_has_two_files(tmp_path):
    found = limits(
        tmp_path,
        {"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n"},
        {"cpu.cfs_quota_us": "250000\n", "cpu.cfs_period_us": "100000\n"},
    )
    assert found == CpuLimit(ALL, 2.5, f"{tmp_path}/1/cpu.cfs_quota_us")


@pytest.mark.parametrize(
    "files",
    [
        {}, {"cpu.max": ""}, {"cpu.max": "max"}, {"cpu.max": "0 100000"}, {"cpu.max": "100000 0"}, {"cpu.max": "x y"}, {"cpu.max": "1 2 3"},
        {"cpu.cfs_quota_us": "100000"}, {"cpu.cfs_quota_us": "100000", "cpu.cfs_period_us": "0"},
    ],
)  # fmt: skip
def test_no_limit_and_invalid_files_are_unknown(tmp_path, files):
    assert limits(tmp_path, files) == CpuLimit(ALL, None, None)


@pytest.mark.process
def test_the_affinity_of_another_process_is_read():
    one = min(os.sched_getaffinity(0))
    with subprocess.Popen(["taskset", "-c", str(one), "sleep", "600"]) as child:
        try:
            while Path(f"/proc/{child.pid}/comm").read_text() != "sleep\n":
                assert child.poll() is None
            assert cpu_limit(child.pid, []) == CpuLimit(1, None, None)
        finally:
            child.kill()


def test_nothing_is_known_of_an_ended_process():
    assert cpu_limit(4_000_000, []) == CpuLimit(None, None, None)
