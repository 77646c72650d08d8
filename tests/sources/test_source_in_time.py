"""A file that cannot be read at once blocks nobody and is named."""

from __future__ import annotations

import os
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from cockpit.actions.launch.launch import Launches
from cockpit.actions.plan import ActionTarget
from cockpit.actions.table import find_action
from cockpit.config import document
from cockpit.config.document import InputError, read_text
from cockpit.presets import read_preset
from cockpit.sources import source as disk
from cockpit.sources.source import SourceError, run_in_thread
from tests.sources.ray.job_table import JobTable, Operator, dashboard


@pytest.fixture
def dead(monkeypatch):
    """A disk that answers only when the test is over."""
    alive = threading.Event()
    monkeypatch.setattr(document, "_check_regular", lambda _: alive.wait(20))
    monkeypatch.setattr(disk, "READ_TIMEOUT_S", 0.2)
    yield alive
    alive.set()


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.symlink("/dev/zero", path)], ids=["pipe", "device"])
def test_a_pipe_and_a_device_are_never_read(tmp_path, make):
    make(tmp_path / "ppo.yaml")
    with pytest.raises(InputError, match=r"ppo\.yaml: not a regular file"):
        read_text(tmp_path / "ppo.yaml")


def test_a_pipe_from_the_shell_is_read_completely():
    read_end, write_end = os.pipe()
    os.write(write_end, b"hosts: [w1]\n")
    os.close(write_end)
    try:
        assert read_text(Path(f"/dev/fd/{read_end}")) == "hosts: [w1]\n"
    finally:
        os.close(read_end)


async def test_the_result_of_a_quick_function_is_returned(tmp_path):
    (tmp_path / "a").write_text("x")
    assert await run_in_thread(partial(read_text, tmp_path / "a"), "a") == "x"
    with pytest.raises(InputError, match="is a directory"):
        await run_in_thread(partial(read_text, tmp_path), "a")


async def test_a_disk_that_does_not_answer_times_out_and_the_file_is_named(tmp_path, dead):
    (tmp_path / "a").write_text("x")
    with pytest.raises(SourceError, match=r"/a could not be read within 0\.2 s"):
        await run_in_thread(partial(read_text, tmp_path / "a"), "something else")
    with pytest.raises(SourceError, match="something else could not be read"):
        await run_in_thread(partial(time.sleep, 0.5), "something else")


async def test_no_launch_waits_for_a_script_on_a_hanging_disk(tmp_path, dead, monkeypatch):
    (tmp_path / "run.sh").write_text("python train.py")
    dead.set()
    (tmp_path / "ppo.yaml").write_text("job: {entrypoint: bash run.sh, working_dir: .}")
    preset = read_preset(Path(tmp_path / "ppo.yaml"))
    dead.clear()
    with pytest.raises(SourceError, match=r"run\.sh could not be read"):
        await Launches(Operator(dashboard(JobTable()))).plan(find_action("launch"), ActionTarget(rows=(preset,)))  # type: ignore[arg-type]


async def test_no_launch_waits_for_a_pipe_that_its_preset_names(tmp_path):
    os.mkfifo(tmp_path / "needs.txt")
    os.mkfifo(tmp_path / "run.sh")
    (tmp_path / "ppo.yaml").write_text("job: {entrypoint: bash run.sh, working_dir: ., runtime_env: {pip: needs.txt}}")
    launches = Launches(Operator(dashboard(JobTable())))  # type: ignore[arg-type]
    with pytest.raises(SourceError, match=r"job\.runtime_env\.pip: .*needs\.txt: not a regular file"):
        await launches.plan(find_action("launch"), ActionTarget(rows=(read_preset(tmp_path / "ppo.yaml"),)))
