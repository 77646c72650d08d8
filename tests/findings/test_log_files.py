"""Sessions with very many log files."""

from __future__ import annotations

import os
import subprocess

import pytest

from cockpit.findings import FindingTracker, Limits
from cockpit.findings.log_files import many_log_files
from cockpit.model import Host, Session
from tests.findings.detection import codes, detect, later, only
from tests.world import NOW, snapshot

ALONE = (many_log_files,)
NAME = "session_2026-11-21_00-00-00_000000_8"


def world(files, live=True, taken=NOW, temp="/tmp/ray", trusted=True):
    session = Session(host="head", name=NAME, path=f"{temp}/{NAME}", live=live, log_files=files, trusted=trusted)
    return snapshot(hosts={"head": Host("head", taken=taken, sessions=(session,))})


def test_very_many_files_are_reported_with_number_folder_and_remedy():
    found = only(detect(world(51_000), detectors=ALONE), "log-files")
    logs = f"/tmp/ray/{NAME}/logs"
    assert (found.level, found.subject) == ("warning", f"{NAME} on head")
    assert found.text == (
        f"The folder {logs} on head has at least 51,000 files; from 50,000 on Ray's log monitor, which looks through them all the time, "
        "takes up to a core and sends logs late"
    )
    assert f"`find {logs} -maxdepth 1 -type f -name 'worker-*' -mmin +1440 -delete`" in found.remedy.text
    quoted = only(detect(world(51_000, temp="/tmp/$(reboot)"), detectors=ALONE), "log-files")
    assert f"`find '/tmp/$(reboot)/{NAME}/logs' -maxdepth 1" in quoted.remedy.text


@pytest.mark.process
def test_the_command_removes_only_old_logs_of_workers(tmp_path):
    logs = tmp_path / NAME / "logs"
    (logs / "old").mkdir(parents=True)
    for name in ("worker-1.out", "worker-2.out", "raylet.out", "old/worker-3.out"):
        (logs / name).touch()
    (logs / "worker-4.out").symlink_to(logs / "raylet.out")
    for name in ("worker-1.out", "raylet.out", "old/worker-3.out", "worker-4.out"):
        os.utime(logs / name, (0, 0), follow_symlinks=False)
    found = only(detect(world(51_000, temp=tmp_path), detectors=ALONE), "log-files")
    subprocess.run(found.remedy.text.split("`")[1], shell=True, check=True)
    left = sorted(str(path.relative_to(logs)) for path in logs.rglob("*"))
    assert left == ["old", "old/worker-3.out", "raylet.out", "worker-2.out", "worker-4.out"]


@pytest.mark.parametrize("foreign", [world(51_000, trusted=False), world(51_000, temp="/tmp/a\x1b[2Jb")])
def test_no_command_is_printed_for_another_users_session_or_an_unprintable_path(foreign):
    found = only(detect(foreign, detectors=ALONE), "log-files")
    assert "find " not in found.remedy.text
    assert "of workers that wrote nothing for a day" in found.remedy.text


def test_it_lasts_until_a_tenth_is_gone():
    tracker = FindingTracker(Limits(), ALONE)
    found = [codes(tracker(later(world(files), number)).findings) for number, files in enumerate((49_000, 50_000, 45_000, 44_000))]
    assert found == [set(), {"log-files"}, {"log-files"}, set()]


@pytest.mark.parametrize(
    "fine", [world(49_000), world(None), world(90_000, live=False), world(90_000, live=None), world(90_000, taken=NOW - 300)]
)
def test_few_dead_unknown_and_old_files_are_not_reported(fine):
    assert detect(fine, 0, detectors=ALONE) == ()
