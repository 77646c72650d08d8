"""Sessions with very many log files."""

from __future__ import annotations

import pytest

from cockpit.findings import FindingTracker, Limits
from cockpit.findings.log_files import many_log_files
from cockpit.model import Host, Session
from tests.findings.detection import codes, later, looked, only
from tests.world import NOW, snapshot

ALONE = (many_log_files,)
NAME = "session_2026-11-21_00-00-00_000000_8"


def world(files, live=True, taken=NOW, temp="/tmp/ray"):
    session = Session(host="head", name=NAME, path=f"{temp}/{NAME}", live=live, log_files=files)
    return snapshot(hosts={"head": Host("head", taken=taken, sessions=(session,))})


def test_very_many_files_are_told_with_their_number_folder_and_what_may_go():
    found = only(looked(world(51_000), detectors=ALONE), "log-files")
    logs = f"/tmp/ray/{NAME}/logs"
    assert (found.level, found.subject) == ("warning", f"{NAME} on head")
    assert found.text == (
        f"The folder {logs} on head has at least 51,000 files; from 50,000 on Ray's log monitor, which looks through them all the time, "
        "takes up to a core and sends logs late"
    )
    assert f"`find {logs} -maxdepth 1 -name 'worker-*' -mmin +1440 -exec mv -t {logs}/old {{}} +`" in found.remedy.text


def test_it_stays_until_a_tenth_is_gone():
    tracker = FindingTracker(Limits(), ALONE)
    found = [codes(tracker(later(world(files), number)).findings) for number, files in enumerate((49_000, 50_000, 45_000, 44_000))]
    assert found == [set(), {"log-files"}, {"log-files"}, set()]


def test_a_folder_that_a_shell_would_read_otherwise_is_quoted():
    found = only(looked(world(51_000, temp="/tmp/$(reboot)"), detectors=ALONE), "log-files")
    assert f"`find '/tmp/$(reboot)/{NAME}/logs' -maxdepth 1" in found.remedy.text


@pytest.mark.parametrize(
    "fine", [world(49_000), world(None), world(90_000, live=False), world(90_000, live=None), world(90_000, taken=NOW - 300)]
)
def test_fewer_of_a_dead_session_unknown_and_old_ones_are_not_told(fine):
    assert looked(fine, 0, detectors=ALONE) == ()
