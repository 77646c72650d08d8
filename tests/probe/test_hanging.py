"""Ray's temp dir on a file system that never answers: a FUSE mount with a silent daemon."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

DETACH = 2


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[Path]:
    """A folder that blocks every reader; at the end they all get an error."""
    if os.getuid() != 0 or not os.path.exists("/dev/fuse"):
        pytest.skip("NOT ROOT OR NO FUSE: no file system was made to hang")
    libc = ctypes.CDLL(None, use_errno=True)
    folder = tmp_path / "ray"
    folder.mkdir()
    daemon = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={daemon},rootmode=40000,user_id=0,group_id=0"
    if libc.mount(b"hanging", str(folder).encode(), b"fuse", 0, options.encode()):
        os.close(daemon)
        pytest.skip(f"NO FUSE HERE ({os.strerror(ctypes.get_errno())}): no file system was made to hang")
    yield folder
    os.close(daemon)
    libc.umount2(str(folder).encode(), DETACH)


def test_a_hanging_temp_dir_stops_no_sample_and_is_named(start, hanging, tmp_path):
    probe = start("--interval", "0.2", RAY_TMPDIR=str(tmp_path))
    said = probe.until(lambda one: any(fault["source"] == "sessions" for fault in one["faults"]), 60)
    assert next(fault["text"] for fault in said["faults"] if fault["source"] == "sessions").startswith(
        f"Ray's temp dir {hanging} has not answered"
    )
    assert said["sessions"] is None
    later = probe.until(lambda one: one["taken"] > said["taken"] + 1, 60)
    assert later["processes"] is not None
    assert later["memory"]["total"]
    assert later["disks"]
    probe.process.stdin.close()
    assert probe.process.wait(60) == 0, "a thread that hangs must not hold the program"
