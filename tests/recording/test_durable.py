"""A recording survives kills, full disks and links, with real processes and file systems."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from cockpit.recording.folder import list_recordings
from cockpit.recording.recording import Recording

pytestmark = pytest.mark.process

RECORD = """
import sys, time
from pathlib import Path
from msgspec.structs import replace
from cockpit.recording import recorder as module
from cockpit.recording.recorder import Recorder
from tests.recording.recorded import snapshots
module.RETRY_S = 0.2
recorder = Recorder(Path(sys.argv[1]))
print("begun", flush=True)
for number, snapshot in enumerate(snapshots(int(sys.argv[2]))):
    recorder.on_snapshot(snapshot)
    while recorder._waiting.qsize():
        time.sleep(0.001)
    print(number, recorder.state.reason, flush=True)
    {after}
thread = recorder._thread
recorder.close()
thread.join()
print(recorder.state, flush=True)
"""


@pytest.fixture
def root(tmp_path):
    return tmp_path / "state" / "recordings"


def recording(root, count, after="pass"):
    return subprocess.Popen(
        [sys.executable, "-c", RECORD.format(after=after), str(root), str(count)], stdout=subprocess.PIPE, text=True, cwd=os.getcwd()
    )


def read(root):
    return Recording.open(list_recordings(root)[0])


def test_after_a_kill_all_written_data_can_be_read_and_the_next_cockpit_continues(root):
    for _ in range(2):
        child = recording(root, 10_000)
        lines = [child.stdout.readline() for _ in range(40)]
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        assert len(lines) == 40
    found = read(root)
    assert len(list(list_recordings(root)[0].glob("*.cockpit"))) == 2
    assert len(list(found.walk())) >= 35
    assert all("torn" in sentence for sentence in found.damage)


def test_of_two_that_start_together_one_records(root):
    children = [recording(root, 60, "time.sleep(0.02)") for _ in range(2)]
    outputs = [child.communicate()[0] for child in children]
    refused = ["recorded by another cockpit, pid" in text for text in outputs]
    assert any(refused)
    assert read(root).damage == []


def test_when_one_ends_the_other_takes_over(root):
    first = recording(root, 10_000, "time.sleep(0.02)")
    while not list(root.rglob("*.cockpit")):
        first.stdout.readline()
    second = recording(root, 400, "time.sleep(0.02)")
    while "recorded by another cockpit" not in second.stdout.readline():
        pass
    first.kill()
    first.wait()
    first.stdout.close()
    while len(list(root.rglob("*.cockpit"))) < 2:  # while it records: its 400 snapshots end its lines
        assert second.stdout.readline()
    second.kill()
    second.communicate()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: mounts a small file system")
def test_a_full_disk_is_reported_and_leaves_a_readable_recording(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m,mode=700", "tmpfs", str(disk)], check=True)
    try:
        root, filler = disk / "state" / "recordings", disk / "filler"
        child = recording(root, 10_000, "time.sleep(0.002)")
        while "None" not in child.stdout.readline():
            pass
        fill(filler)
        while "not recorded: the disk is full" not in child.stdout.readline():
            pass
        filler.unlink()
        while not child.stdout.readline().endswith(" None\n"):
            pass
        child.kill()
        child.communicate()
        found = read(root)
        assert all("torn" in sentence for sentence in found.damage)
        assert found.snapshot_at(found.end) is not None
        found.close()
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def fill(path):
    """Writes until the disk is full, also while somebody frees space."""
    with path.open("wb", buffering=0) as file:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                file.write(bytes(4096))
            except OSError:
                return
