"""Processes of jobs that stay in D state."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.findings import FindingTracker, Limits
from cockpit.findings.stuck_io import stuck_processes
from cockpit.model import Host, StuckProcess
from tests.findings.detection import codes, detect, later, only
from tests.world import NOW, process, snapshot

ALONE = (stuck_processes,)
NFS = {"mount": "/data", "kind": "nfs4", "source": "filer:/export", "certain": True, "waits_in": "rpc_wait_bit_killable"}


def stuck(pid, **more):
    return StuckProcess(pid=pid, **{"ticks": pid * 10, **NFS, **more})


def rank(pid=1001, state="D", **more):
    return process(pid, state=state, **{"job": "02000000", "gpus": (), **more})


def world(*processes, waits=(), taken=NOW):
    return snapshot(processes=processes, hosts={"node1": Host("node1", taken=taken, stuck=tuple(waits))})


def test_processes_that_wait_for_a_file_system_are_reported_with_it_and_the_time():
    made = world(rank(), rank(1002), waits=(stuck(1001), stuck(1002)))
    found = only(detect(made, 240, detectors=ALONE), "job-stuck-io")
    assert found.level == "warning"
    assert found.text == (
        "2 processes of job ppo-7b on node1 (pid 1001, 1002) wait for /data (nfs4 of filer:/export), in D state for 4m00s: "
        "they go on only when that answers"
    )
    assert found.subject == "job ppo-7b on node1 for /data"
    assert found.about == (rank().key, rank(1002).key)


def test_a_guessed_file_system_is_called_a_guess_and_its_name_cannot_control_the_terminal():
    found = only(detect(world(rank(), waits=(stuck(1001, certain=False),)), 240, detectors=ALONE), "job-stuck-io")
    assert "waits for /data (nfs4 of filer:/export), probably, in D state" in found.text
    found = only(detect(world(rank(), waits=(stuck(1001, mount="/d\x1b[2J"),)), 240, detectors=ALONE), "job-stuck-io")
    assert "\x1b" not in found.text + found.subject


@pytest.mark.parametrize(
    ("waits", "words"),
    [
        ((StuckProcess(pid=1001, ticks=10010, waits_in="wait_for_vfork_done"),), "waits in the kernel's wait_for_vfork_done, in D state"),
        ((), "(pid 1001) waits, in D state"),
        ((stuck(1001, ticks=7),), "(pid 1001) waits, in D state"),
    ],
)
def test_without_a_file_system_the_kernels_function_is_reported(waits, words):
    assert words in only(detect(world(rank(), waits=waits), 240, detectors=ALONE), "job-stuck-io").text


def test_the_clock_runs_only_while_the_same_process_is_in_d_state_in_every_sample():
    tracker, waiting, running = FindingTracker(Limits(stuck_age=60), ALONE), world(rank()), world(rank(state="R"))
    for seconds in range(0, 60, 5):
        assert codes(tracker(later(waiting, seconds)).findings) == set()
    assert codes(tracker(later(waiting, 60)).findings) == {"job-stuck-io"}
    assert codes(tracker(later(running, 62)).findings) == set()
    assert codes(tracker(later(waiting, 64)).findings) == set()
    tracker, first = FindingTracker(Limits(stuck_age=60), ALONE), world(rank())
    tracker(later(first, 0))
    assert codes(tracker(later(world(replace(rank(), ticks=1)), 61)).findings) == set()


@pytest.mark.parametrize(
    "fine",
    [rank(state="S"), rank(state=None), rank(job=None), rank(ours=False)],
)
def test_processes_that_do_not_wait_or_have_no_job_here_are_not_reported(fine):
    assert detect(world(fine, waits=(stuck(1001),)), 240, detectors=ALONE) == ()


def test_nothing_follows_from_old_facts_or_one_sample():
    assert detect(world(rank(), taken=NOW - 300), 0, detectors=ALONE) == ()
    assert FindingTracker(Limits(), ALONE, assumed=9999)(world(rank())).findings == ()
