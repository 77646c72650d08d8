"""CPUs that Ray offers compared with CPUs that it may use."""

from __future__ import annotations

import pytest

from cockpit.findings.cpus import overcounted_cpus
from cockpit.model import CpuLimit
from tests.findings.detection import detect, only
from tests.findings.raylets import cluster, place

ALONE = (overcounted_cpus,)


def find(*places, **limits):
    return detect(cluster(*places), detectors=ALONE, **limits)


def test_a_cgroup_limit_or_affinity_that_ray_ignores_is_a_warning():
    limit = CpuLimit(192, 4, "/sys/fs/cgroup/slurm/job_7/cpu.max")
    found = only(find(place(1), place(2, cpu_limit=limit)), "cpus-overcounted")
    assert found.text == "Ray offers 192 CPUs on node2, but its cgroup may use 4 (cpu.max): up to 192 tasks of one CPU run there at once"
    assert (found.level, found.subject, found.about) == ("warning", "node2", (place(2)[0].key,))
    assert found.evidence == ("CPU resource of node2: 192", "/sys/fs/cgroup/slurm/job_7/cpu.max: 4 CPUs", "CPUs of that host: 192")
    assert found.remedy
    assert found.remedy.text.startswith("if that is not meant: `ray stop` on node2, then its `ray start` again with --num-cpus=4, or raise")
    found = only(find(place(1, cpu_limit=CpuLimit(16))), "cpus-overcounted")
    assert (found.level, "its raylet may run on only 16 (taskset, cpuset or Slurm)" in found.text) == ("warning", True)
    assert "`taskset -cp 21`: 16 CPUs" in found.evidence


def test_a_configured_number_of_cpus_is_an_info():
    found = only(find(place(1, cpus=16, host_cpus=2, cpu_limit=CpuLimit(2))), "cpus-overcounted")
    assert found.text == "Ray offers 16 CPUs on node1, but its host has 2: up to 16 tasks of one CPU run there at once"
    assert found.level == "info"
    assert only(find(place(1, cpus=16, host_cpus=192, cpu_limit=CpuLimit(192, 4, "/c/cpu.max"))), "cpus-overcounted").level == "info"


def test_the_lowest_limit_counts_and_a_few_extra_cpus_are_harmless():
    found = only(find(place(1, cpu_limit=CpuLimit(8, 2.5, "/sys/fs/cgroup/cpu/cpu.cfs_quota_us"))), "cpus-overcounted")
    assert "its cgroup may use 2.5 (cpu.cfs_quota_us)" in found.text
    assert "--num-cpus=2," in found.remedy.text
    less_than_one = only(find(place(1, cpu_limit=CpuLimit(8, 0.5, "/c/cpu.max"))), "cpus-overcounted")
    assert "--num-cpus=1," in less_than_one.remedy.text
    assert find(place(1, cpu_limit=CpuLimit(129))) == ()
    assert only(find(place(1, cpu_limit=CpuLimit(128))), "cpus-overcounted")
    assert only(find(place(1, cpu_limit=CpuLimit(160)), cpu_overcount=1.2), "cpus-overcounted")


@pytest.mark.parametrize("cpus", [0, 1, 4, 191, 192])
def test_fewer_cpus_than_there_are_is_fine(cpus):
    assert find(place(1, cpus=cpus, cpu_limit=CpuLimit(192))) == ()


@pytest.mark.parametrize(
    "odd",
    [
        {"cpus": None}, {"cpus": -1.0}, {"cpus": float("nan")}, {"cpus": float("inf")}, {"cpus": 1e300},
        {"host_cpus": None}, {"host_cpus": None, "cpu_limit": CpuLimit()}, {"host_cpus": None, "cpu_limit": CpuLimit(0, 0.0, "/c")},
        {"host_cpus": -1}, {"host_cpus": 10**30}, {"host_cpus": None, "cpu_limit": CpuLimit(-1, -1.0, "/c")},
        {"host_cpus": None, "cpu_limit": CpuLimit(None, float("nan"), "/c")}, {"host_cpus": None, "cpu_limit": CpuLimit(None, 4.0)},
    ],
)  # fmt: skip
def test_unknown_or_impossible_limits_are_not_reported(odd):
    assert find(place(1, **odd)) == ()
