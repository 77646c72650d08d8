"""Tests which of NVML's pids count in a container."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.probe.sample.gpus import is_ours


@pytest.fixture
def inside(tmp_path: Path):
    """`ours(pid)` in a container with the driver's files; 7 has a GPU open, 8 has not."""
    proc, dev = tmp_path / "proc", tmp_path / "dev"
    dev.mkdir()
    (dev / "nvidiactl").touch()
    for pid, target in ((7, dev / "nvidia0"), (8, dev / "null")):
        (proc / str(pid) / "fd").mkdir(parents=True)
        (proc / str(pid) / "fd" / "3").symlink_to(target)
    return lambda pid, nested=True: is_ours(pid, str(proc), str(dev), nested)


def test_in_a_container_only_a_process_with_a_file_of_the_driver_holds_a_gpu(inside, tmp_path):
    (tmp_path / "proc" / "10").mkdir()
    assert {pid: inside(pid) for pid in (7, 8, 9, 10)} == {7: True, 8: False, 9: True, 10: False}, "9 has no process here, 10 no files"


def test_outside_of_containers_and_with_a_simulated_nvml_its_pids_count(inside, tmp_path):
    assert inside(8, nested=False)
    (tmp_path / "dev" / "nvidiactl").unlink()
    assert inside(8)
