"""Tests the line above which a raylet kills workers, and the bytes that it compares with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.probe.sample import kill_line as module
from cockpit.probe.sample.host import MemoryUse
from cockpit.probe.sample.kill_line import KillLine, isolation_folder, kill_line
from tests.probe.process_tables import NODE, raylet

GIB = 1 << 30
SWAP = "RAY_count_swap_in_memory_monitor"
ISOLATED = {"RAY_x": "1"}
MEMINFO = f"MemTotal: {64 * GIB // 1024} kB\nSwapTotal: {8 * GIB // 1024} kB\nSwapFree: {6 * GIB // 1024} kB\n"


class Machine:
    """A machine's files, and its memory as `host.memory` reports it: 64 GiB, of which 24 are in use."""

    def __init__(self, folder: Path) -> None:
        self.proc, self.cgroups = folder / "proc", folder / "cgroup"
        self.memory = MemoryUse(24 * GIB, 64 * GIB)
        self.write(self.proc / "meminfo", MEMINFO)

    def write(self, path: Path, text: object) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")

    def isolate(self, high: object = 54 * GIB, current: int = 50 * GIB, anon: int = 20 * GIB) -> str:
        """The folder of a raylet's cgroups."""
        folder = self.cgroups / f"ray-node_{NODE}"
        self.write(folder / "user/memory.high", high)
        self.write(folder / "user/memory.current", current)
        self.write(folder / "user/memory.stat", f"anon {anon}\nfile {9 * GIB}\nshmem {2 * GIB}\nswapcached {GIB}")
        self.write(folder / "system/memory.stat", f"anon {7 * GIB}\nshmem {3 * GIB}")
        return str(folder)

    def line(self, isolation: str | None = None, isolated: bool = False, apart: bool = False, readable: bool = True, **settings: str):
        process = raylet(apart=apart, readable=readable, **settings)
        if isolated:
            process = process._replace(details=process.details._replace(argv=(*process.details.argv, module.ISOLATED)))
        return kill_line(self.memory, process, isolation, str(self.proc), str(self.cgroups))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        ({}, 95),
        ({"RAY_memory_usage_threshold": "0.8"}, 80),
        ({"RAY_min_memory_free_bytes": "2"}, 98),
        ({"RAY_min_memory_free_bytes": "50"}, 95),
        ({"RAY_memory_usage_threshold": "0.5", "RAY_min_memory_free_bytes": "10"}, 90),
        ({"RAY_memory_monitor_refresh_ms": "0"}, None),
        ({"RAY_memory_monitor_refresh_ms": "1000"}, 95),
        ({"RAY_memory_usage_threshold": "much"}, None),
        ({"RAY_memory_usage_threshold": "nan"}, None),
        ({"RAY_memory_usage_threshold": "inf"}, None),
        ({"RAY_memory_usage_threshold": "-1"}, None),
    ],
)
def test_ray_kills_above_its_own_threshold(machine, settings, limit):
    machine.memory = MemoryUse(24, 100)
    assert machine.line(**settings) == (None if limit is None else KillLine(limit))


@pytest.mark.parametrize("unknown", [{"readable": False}, {"apart": True}], ids=["unreadable", "in another container"])
def test_a_raylet_that_is_not_seen_whole_has_an_unknown_threshold(machine, unknown):
    assert machine.line(**unknown) is None


@pytest.mark.parametrize(
    ("settings", "logged"),
    [
        ({}, 24012677120),
        ({"RAY_memory_usage_threshold": "0.8"}, 20221202432),
        ({"RAY_memory_usage_threshold": "0.8", "RAY_min_memory_free_bytes": "500000000"}, 24776502016),
    ],
)
def test_the_line_is_exactly_the_one_in_the_log_of_a_raylet_of_2_60(settings, logged):
    """`usage threshold at ... bytes`, `total system memory bytes: 25276502016`. Ray computes in single precision."""
    assert kill_line(MemoryUse(1, 25276502016), raylet(**settings), None) == KillLine(logged)


# Swap


def test_the_swap_of_the_host_counts_if_it_is_asked_for(machine):
    found = machine.line(**{SWAP: "1"})
    assert (found.used, found.total, round(found.at / GIB, 2)) == (26 * GIB, 72 * GIB, 68.4)
    assert machine.line(**{SWAP: "true", "RAY_min_memory_free_bytes": str(GIB)}) == KillLine(71 * GIB, 26 * GIB, 72 * GIB)
    machine.memory = MemoryUse(None, 64 * GIB)
    assert machine.line(**{SWAP: "1"}) is None, "the bytes in use are unknown"


@pytest.mark.parametrize(
    ("limit", "swap"),
    [("max", (8, 3)), (str(4 * GIB), (4, 3)), ("0", (0, 0))],
    ids=["no limit of its own", "a limit", "no swap"],
)
def test_a_cgroup_counts_its_own_swap(machine, limit, swap):
    machine.write(machine.cgroups / "memory.max", "max")
    machine.write(machine.cgroups / "memory.swap.max", limit)
    machine.write(machine.cgroups / "memory.swap.current", 4 * GIB)
    machine.write(machine.cgroups / "memory.stat", f"swapcached {GIB}")
    found = machine.line(**{SWAP: "1", "RAY_min_memory_free_bytes": "0"})
    total = (64 + swap[0]) * GIB
    assert found == KillLine(total, (24 + swap[1]) * GIB, total)


def test_a_cgroup_of_version_1_limits_memory_and_swap_together(machine):
    folder = machine.cgroups / "memory"
    machine.write(folder / "memory.memsw.limit_in_bytes", 40 * GIB)
    machine.write(folder / "memory.memsw.usage_in_bytes", 20 * GIB)
    machine.write(folder / "memory.stat", f"total_inactive_file {GIB}\ntotal_active_file {2 * GIB}")
    settings = {SWAP: "1", "RAY_min_memory_free_bytes": "0"}
    assert machine.line(**settings) == KillLine(40 * GIB, 17 * GIB, 40 * GIB)
    machine.write(folder / "memory.memsw.limit_in_bytes", 9223372036854771712)
    assert machine.line(**settings) == KillLine(72 * GIB, 26 * GIB, 72 * GIB), "the host has less"
    machine.memory = MemoryUse(1 * GIB, 4 * GIB, host_total=64 * GIB)
    assert machine.line(**settings) is None, "Ray counts the host's memory then, which is not known here"


# Resource isolation


def test_with_isolation_memory_high_of_the_workers_is_the_line_for_what_they_and_the_object_store_hold(machine):
    folder = machine.isolate()
    assert machine.line(folder, isolated=True) == KillLine(54 * GIB, (20 + 2 + 3) * GIB, None, 50 * GIB)
    thresholds = {"RAY_memory_usage_threshold": "0.5", "RAY_min_memory_free_bytes": "1"}
    assert machine.line(folder, isolated=True, **thresholds) == machine.line(folder, isolated=True), "they don't count"
    assert machine.line(folder, isolated=True, apart=True) == machine.line(folder, isolated=True), "its cgroups can be read from here"


def test_without_the_monitor_only_the_kernels_own_count_makes_ray_kill(machine):
    found = machine.line(machine.isolate(), isolated=True, RAY_memory_monitor_refresh_ms="0")
    assert found == KillLine(54 * GIB, 50 * GIB, None, 50 * GIB)


def test_with_isolation_and_swap_both_the_line_and_the_use_include_it(machine):
    folder = machine.isolate()
    machine.write(Path(folder, "user/memory.swap.max"), "max")
    machine.write(Path(folder, "user/memory.swap.current"), 4 * GIB)
    found = machine.line(folder, isolated=True, **{SWAP: "1"})
    assert found == KillLine(54 * GIB, (25 + 3) * GIB, 64 * GIB, 50 * GIB), "the uppermost cgroup of a host has no limit of swap"
    machine.write(machine.cgroups / "memory.swap.max", 2 * GIB)
    assert machine.line(folder, isolated=True, **{SWAP: "1"}) == KillLine(56 * GIB, 28 * GIB, 66 * GIB, 50 * GIB)


def test_in_another_container_the_cgroup_above_its_own_limits_the_swap(machine):
    folder = Path(machine.isolate())
    inner = machine.cgroups / "pod" / folder.name
    inner.parent.mkdir()
    folder.rename(inner)
    machine.write(machine.cgroups / "memory.swap.max", 2 * GIB)
    machine.write(inner.parent / "memory.swap.max", GIB)
    found = machine.line(str(inner), isolated=True, apart=True, **{SWAP: "1"})
    assert found is not None
    assert (found.at, found.total) == (55 * GIB, 65 * GIB)


@pytest.mark.parametrize("lost", ["user/memory.high", "user/memory.current", "user/memory.stat", "system/memory.stat"])
def test_with_isolation_the_line_is_unknown_if_a_file_is_missing(machine, lost):
    folder = machine.isolate()
    Path(folder, lost).unlink()
    assert machine.line(folder, isolated=True) is None


def test_with_isolation_the_line_is_unknown_without_a_limit_or_a_proven_folder(machine):
    assert machine.line(machine.isolate(high="max"), isolated=True) is None
    assert machine.line(None, isolated=True) is None


def folder_of(monkeypatch, own: str, version: str | None = "2.60.0", lives: bool = True, flag: str = module.ISOLATED) -> str | None:
    """The folder of a raylet whose cgroup is `own`."""
    monkeypatch.setattr(module, "folders_above", lambda *_: iter([own, "/sys/fs/cgroup"]))
    monkeypatch.setattr(module, "lives", lambda *_: lives)
    process = raylet()
    return isolation_folder(process._replace(details=process.details._replace(argv=(*process.details.argv, flag))), version)


def test_only_the_cgroups_that_the_kernel_shows_for_exactly_this_raylet_count(monkeypatch):
    its = f"/sys/fs/cgroup/kubepods/pod1/ray-node_{NODE}"
    assert folder_of(monkeypatch, f"{its}/system/leaf") == its
    assert folder_of(monkeypatch, f"{its}/system/leaf", "3.0.0.dev0") == its
    assert folder_of(monkeypatch, f"{its}/system/leaf", lives=False) is None, "another process has the pid by now"
    assert folder_of(monkeypatch, f"{its}/system/leaf", flag="--enable-resource-isolation=false") is None
    for other in (f"{its}/user/workers", its, "/sys/fs/cgroup/ray-node_0123/system/leaf", f"/x{its}/system/leaf/more", ""):
        assert folder_of(monkeypatch, other) is None
    for version in ("2.59.1", None, "new"):
        assert folder_of(monkeypatch, f"{its}/system/leaf", version) is None, "how it computes the line is unknown"
