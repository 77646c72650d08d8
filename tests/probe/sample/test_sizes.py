"""The size of a session's folder, and the files in it that may be worth keeping."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from cockpit.probe.sample import sizes as module
from cockpit.probe.sample.sizes import MAX_KEPT_LISTED, Sizes, count
from tests.probe.waiting import until


def never_pause(_seconds: float) -> None:
    """A pause that takes no time."""


def write(path: Path, size: int = 5000) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)


def test_the_blocks_of_all_files_are_counted(tmp_path):
    write(tmp_path / "logs" / "a.out", 100_000)
    write(tmp_path / "b", 1)
    os.symlink("/", tmp_path / "root")
    assert count(str(tmp_path), never_pause).size == sum((tmp_path / name).stat().st_blocks * 512 for name in ("logs/a.out", "b"))


def test_a_missing_folder_has_no_size_and_too_many_files_have_none(tmp_path):
    assert count(str(tmp_path / "absent"), never_pause) == (0, ())
    for number in range(5):
        write(tmp_path / str(number))
    assert count(str(tmp_path), never_pause, most=4).size is None


@pytest.mark.parametrize(
    ("path", "keep"),
    [
        ("runtime_resources/working_dir_files/pkg/model.safetensors", "runtime_resources/working_dir_files/pkg/model.safetensors"),
        ("a/weights.pt", "a/weights.pt"),
        ("a/last.ckpt", "a/last.ckpt"),
        ("a/global_step120/actor/optim.bin", "a/global_step120"),
        ("a/checkpoint-500/optimizer.bin", "a/checkpoint-500"),
        ("a/checkpoints/iter_7/x", "a/checkpoints"),
        ("core.4711", "core.4711"),
        ("core", "core"),
        ("core-python3.4711", "core-python3.4711"),
        ("a/ckpt_best/vocab.json", "a/ckpt_best"),
        ("a/pytorch_model-00001-of-2.bin", "a/pytorch_model-00001-of-2.bin"),
        ("pip/lib/site-packages/distutils-precedence.pth", None),
        ("pip/lib/site-packages/torch/checkpoint/mod.so", None),
        ("logs/worker.out", None),
        ("pkg/checkpoint.py", None),
        ("pkg/checkpoint/loader.py", None),
        ("pkg/core/mod.so", None),
        ("logs/checkpoint.log", None),
        (os.fsdecode(b"\xff.pt"), "\\xff.pt"),
    ],
)
def test_files_that_are_worth_keeping_are_named(tmp_path, path, keep):
    write(tmp_path / path)
    assert count(str(tmp_path), never_pause).keeps == ((keep,) if keep else ())
    write(tmp_path / path, 0)
    assert count(str(tmp_path), never_pause).keeps == (), "it is empty"


def test_the_number_of_kept_names_is_limited(tmp_path):
    for number in range(MAX_KEPT_LISTED + 5):
        write(tmp_path / f"{number}.pt")
    assert len(count(str(tmp_path), never_pause).keeps) == MAX_KEPT_LISTED


def test_the_counting_pauses_regularly(tmp_path):
    for number in range(401):
        (tmp_path / str(number)).touch()
    pauses: list[float] = []
    count(str(tmp_path), pauses.append)
    assert len(pauses) == 2


def test_the_folders_of_a_disk_that_fills_are_counted_again(tmp_path, monkeypatch):
    used = [0.5]
    monkeypatch.setattr(module, "_measure_use", lambda folder: used[0])
    monkeypatch.setattr(module, "CHECK_INTERVAL_S", 0.01)
    sizes = Sizes(never_pause)
    sizes.start()
    sizes.want([str(tmp_path)])
    until(lambda: str(tmp_path) in sizes.known)
    before = sizes.known[str(tmp_path)].size
    write(tmp_path / "spilled")
    used[0] = 0.56
    until(lambda: sizes.known[str(tmp_path)].size != before)
    sizes.want([])


def test_folders_are_counted_when_wanted_and_forgotten_when_not(tmp_path):
    write(tmp_path / "a" / "x")
    sizes = Sizes(never_pause)
    sizes.start()
    sizes.want([str(tmp_path / "a")])
    until(lambda: str(tmp_path / "a") in sizes.known)
    sizes.want([])
    assert sizes.known == {}
    assert any(thread.name == "sizes" and thread.daemon for thread in threading.enumerate())
