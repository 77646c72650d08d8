"""Versions that differ between hosts, and open files."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.findings import FindingTracker, Limits
from cockpit.findings.versions import differing_drivers, differing_versions, open_files
from cockpit.model import Cluster, Host, RayProcess
from tests.findings.detection import detect, only
from tests.world import NOW, node, snapshot

VERSIONS, FILES = (differing_versions, differing_drivers), (open_files,)
SESSION = "session_2026-11-21_00-00-00_000000_8"
CLUSTER = Cluster("http://10.0.0.1:8265", "2.60.0", SESSION, reachable=True)


def host(number, ray="2.60.0", python="3.10.14", driver="550.54.15", **more):
    raylet = RayProcess("raylet", 20 + number, SESSION, node(number).id, "S", ray, python, **more)
    return Host(f"node{number}", (f"10.0.0.{number}",), NOW, nodes=(node(number).id,), rays=(raylet,), driver=driver)


def hosts(*looked_at, **more):
    facts = {"cluster": CLUSTER, "nodes": tuple(node(number) for number in range(1, len(looked_at) + 1)), **more}
    return snapshot(hosts={one.name: one for one in looked_at}, **facts)


def test_the_different_versions_are_named_even_of_one_raylet_and_the_dashboard():
    made = hosts(host(1), host(2, ray="2.52.0", python="3.10.15", driver="535.1"), host(3), host(4, driver="535.1"))
    reported = {found.code: found for found in detect(made, detectors=VERSIONS)}
    assert reported["ray-versions"].text == "Ray is 2.52.0 on node2, but the cluster has 2.60.0"
    assert reported["python-versions"].text == "Python is 3.10.15 on node2, but 3 other hosts have 3.10.14"
    assert reported["driver-versions"].text == "The NVIDIA driver is 535.1 on node2, node4, but 2 other hosts have 550.54.15"
    assert {code: found.level for code, found in reported.items()} == {
        "ray-versions": "warning", "python-versions": "warning", "driver-versions": "info",
    }  # fmt: skip
    assert reported["ray-versions"].about == (node(2).key,)
    found = only(detect(hosts(host(1, ray="2.52.0")), detectors=VERSIONS), "ray-versions")
    assert found.evidence == ("2.52.0: node1", "2.60.0: the dashboard")


@pytest.mark.parametrize(
    "fine",
    [
        hosts(host(1), host(2)),
        hosts(host(1), host(2, ray=None, python=None, driver=None)),
        hosts(host(1), host(2, ray="", python="", driver="")),
        hosts(host(1), replace(host(2), rays=None, driver="535.1")),
        hosts(host(1), host(7, ray="2.9.3", python="3.8.1")),
        hosts(),
    ],
)
def test_equal_unknown_and_foreign_versions_are_fine(fine):
    assert detect(fine, detectors=VERSIONS) == ()


def test_without_an_answering_ray_two_rays_on_one_host_are_not_compared():
    one, other = host(1), host(1, ray="2.44.1")
    another = replace(other.rays[0], session="session_2026-11-22_00-00-00_000000_9")
    silent = {"cluster": Cluster("http://10.0.0.1:8265", reachable=False), "nodes": ()}
    assert detect(hosts(replace(one, rays=(*one.rays, another)), **silent), detectors=VERSIONS) == ()
    assert only(detect(hosts(one, host(2, ray="2.44.1"), **silent), detectors=VERSIONS), "ray-versions")


def test_a_raylet_near_its_limit_of_open_files_is_reported_until_clearly_below():
    found = only(detect(hosts(host(1, files=60000, files_limit=65536)), detectors=FILES), "open-files")
    assert found.text == "Raylet (pid 21) on node1 has 60000 of 65536 files open: at the limit no more workers can register"
    assert (found.level, found.evidence[0]) == ("warning", "ls /proc/21/fd | wc -l: 60000")
    assert "prlimit --pid 21 --nofile=131072" in found.remedy.text
    assert only(detect(hosts(host(1, files=65000, files_limit=65536)), detectors=FILES), "open-files-full").level == "critical"
    judge = FindingTracker(Limits(), FILES)
    reported = [
        [found.code for found in judge(hosts(host(1, files=files, files_limit=100000))).findings] for files in (79000, 80000, 71000, 69000)
    ]
    assert reported == [[], ["open-files"], ["open-files"], []]


def test_a_low_limit_is_an_info_for_all_hosts_together():
    found = only(detect(hosts(host(1, files=9, files_limit=1024), host(2, files=9, files_limit=4096)), detectors=FILES), "open-files-limit")
    assert found.text == "Ray may open as few as 1024 files on node1, node2; Ray's documentation asks for 65535"
    assert found.level == "info"


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"files": 9},
        {"files_limit": 65535},
        {"files": 9, "files_limit": 0},
        {"files": 9, "files_limit": -1},
        {"files": 1 << 60, "files_limit": 65535},
    ],
)
def test_unknown_numbers_of_files_are_not_reported(files):
    assert detect(hosts(host(1, **files)), detectors=FILES) == ()


def test_another_rays_limit_of_files_does_not_concern_ours():
    theirs = (
        RayProcess("raylet", 707, "session_2", "f" * 56, files=1000, files_limit=1024),
        RayProcess("gcs_server", 412, "session_2", files=9, files_limit=9),
    )
    beside = replace(host(1, files=900, files_limit=1024), rays=(*(host(1, files=900, files_limit=1024).rays or ()), *theirs))
    reported = detect(hosts(beside), detectors=FILES)
    assert "707" not in str(reported)
    assert "412" not in str(reported)
    assert only(reported, "open-files").subject == "raylet 21 on node1"
    assert only(reported, "open-files-limit").evidence == ("/proc/21/limits on node1 (raylet): Max open files 1024",)
