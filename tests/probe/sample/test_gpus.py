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


def test_in_a_container_only_a_process_with_a_file_of_the_driver_holds_a_gpu(inside):
    assert inside(7)
    assert not inside(8)


def test_a_pid_without_a_process_is_kept(inside):
    assert inside(9)


def test_a_process_whose_files_can_not_be_read_does_not_count(inside, tmp_path):
    (tmp_path / "proc" / "10").mkdir()
    assert not inside(10)


def test_outside_of_containers_and_with_a_simulated_nvml_its_pids_count(inside, tmp_path):
    assert inside(8, nested=False)
    (tmp_path / "dev" / "nvidiactl").unlink()
    assert inside(8)
