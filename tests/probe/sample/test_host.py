"""Tests memory as Ray counts it, and file systems."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.probe.sample import host
from cockpit.probe.sample.network import addresses

GIB = 1 << 30
MEMINFO = f"MemTotal: {64 * GIB // 1024} kB\nMemFree: 1 kB\nMemAvailable: {40 * GIB // 1024} kB\nSwapTotal: 999 kB\n"


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A machine with 64 GiB, 24 of them in use, without a limit of a cgroup."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "cgroup" / "memory").mkdir(parents=True)
    (tmp_path / "proc" / "meminfo").write_text(MEMINFO)
    return tmp_path


def look(machine: Path) -> host.MemoryUse:
    return host.memory(str(machine / "proc"), str(machine / "cgroup"))


def v2(machine: Path, limit: str, current: int = 20 * GIB) -> None:
    (machine / "cgroup" / "memory.max").write_text(f"{limit}\n")
    (machine / "cgroup" / "memory.current").write_text(f"{current}\n")
    (machine / "cgroup" / "memory.stat").write_text(f"anon 5\nfile 9\ninactive_file {3 * GIB}\nactive_file {2 * GIB}\n")


def v1(machine: Path, limit: int) -> None:
    folder = machine / "cgroup" / "memory"
    (folder / "memory.limit_in_bytes").write_text(f"{limit}\n")
    (folder / "memory.usage_in_bytes").write_text(f"{20 * GIB}\n")
    (folder / "memory.stat").write_text(f"inactive_file 1\nactive_file 1\ntotal_inactive_file {4 * GIB}\ntotal_active_file {1 * GIB}\n")


@pytest.mark.parametrize(
    ("limits", "use"),
    [
        ({}, (24 * GIB, 64 * GIB)),
        ({"v2": str(32 * GIB)}, (15 * GIB, 32 * GIB)),
        ({"v1": 32 * GIB}, (15 * GIB, 32 * GIB)),
        ({"v2": "max"}, (24 * GIB, 64 * GIB)),
        ({"v2": "0"}, (24 * GIB, 64 * GIB)),
        ({"v2": str(128 * GIB)}, (24 * GIB, 64 * GIB)),
        ({"v1": 9223372036854771712}, (24 * GIB, 64 * GIB)),
        ({"v1": 8 * GIB, "v2": "max"}, (24 * GIB, 64 * GIB)),
        ({"v2": str(8 * GIB)}, (8 * GIB, 8 * GIB)),
    ],
    ids=["no cgroup", "v2", "v1 with its whole tree", "no limit", "0", "more than the host has", "the unlimited number of v1",
         "v2 hides v1", "use never exceeds the limit"],
)  # fmt: skip
def test_a_cgroup_counts_only_if_its_limit_is_lower_than_the_memory_of_the_host(machine, limits, use):
    if "v1" in limits:
        v1(machine, limits["v1"])
    if "v2" in limits:
        v2(machine, limits["v2"])
    assert look(machine)[:2] == use


def test_shared_memory_is_that_of_the_host_or_of_the_cgroup(machine):
    (machine / "proc" / "meminfo").write_text(f"{MEMINFO}Shmem: {7 * GIB // 1024} kB\n")
    assert look(machine).shared == 7 * GIB
    v2(machine, str(32 * GIB))
    assert look(machine).shared is None
    stat = machine / "cgroup" / "memory.stat"
    stat.write_text(f"{stat.read_text()}shmem {2 * GIB}\nshmem_thp 5\n")
    assert look(machine).shared == 2 * GIB


def test_the_memory_of_the_machine_is_kept_if_a_cgroup_gives_less(machine):
    assert look(machine).host_total is None
    v2(machine, str(128 * GIB))
    assert look(machine).host_total is None
    v2(machine, str(32 * GIB))
    assert look(machine).host_total == 64 * GIB


def test_the_lowest_limit_of_nested_cgroups_counts_and_of_equal_limits_the_uppermost(machine):
    folders = [machine / "cgroup" / "memory" / name for name in ("slurm/job_42/step_0", "slurm/job_42", "slurm")]
    folders[0].mkdir(parents=True)
    for folder, limit, used in zip(folders, (9, 9, 1 << 33), (2, 6, 30), strict=True):
        (folder / "memory.limit_in_bytes").write_text(f"{limit * GIB}\n")
        (folder / "memory.usage_in_bytes").write_text(f"{used * GIB}\n")
        (folder / "memory.stat").write_text(f"total_inactive_file {GIB}\ntotal_active_file 0\n")
    assert host.lowest_limit(map(str, folders))[:2] == (5 * GIB, 9 * GIB)
    assert host.lowest_limit([str(machine)]) is None


def test_use_that_cannot_be_read_is_unknown(machine):
    v2(machine, str(32 * GIB))
    (machine / "cgroup" / "memory.stat").write_text("anon 5\n")
    assert look(machine)[:2] == (None, 32 * GIB)


def test_each_file_system_is_counted_once_by_the_first_folder_on_it(tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    found = host.disks([str(tmp_path / "absent"), str(first), str(second)])
    assert [disk["path"] for disk in found] == [str(first)]
    assert 0 < found[0]["used"] <= found[0]["total"]


def test_the_processors_are_measured_between_two_reads(monkeypatch):
    times = iter([(10, 100), (40, 200), (40, 200)])
    monkeypatch.setattr(host, "_cpu_times", lambda: next(times))
    cpu = host.Cpu()
    assert cpu.read() == 30.0
    assert cpu.read() is None


def test_the_addresses_are_not_loopback():
    assert not any(address.startswith(("127.", "::1", "fe80")) for address in addresses())
