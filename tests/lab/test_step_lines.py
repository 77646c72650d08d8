"""A real job whose workers no probe sees: its log gives number and duration of its steps, Ray's list of workers the phase."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.model import Snapshot
from cockpit.recording.folder import list_recordings
from cockpit.recording.recording import Recording
from tests.lab import hosts
from tests.lab.cluster import Cluster, copy_job_files, eventually, start_patiently
from tests.lab.conftest import NO_RAY, RAY
from tests.lab.hosts import Lab
from tests.lab.observe import COCKPIT

pytestmark = [pytest.mark.lab, pytest.mark.incident, pytest.mark.timeout(600)]

SCRIPT = Path(__file__).with_name("step_line_job.py")
PRINTED = re.compile(r"step:(\d+) .*? perf/time_per_step:([\d.]+)")
FIRST, STEPS, SECONDS = 401, 6, 10.0


@pytest.fixture
def ray() -> Iterator[Cluster]:
    """A Ray on two hosts."""
    reason = hosts.why_not() or (None if RAY.exists() else NO_RAY)
    if reason:
        pytest.skip(reason)
    lab = Lab(f"l{os.getpid() % 100000}", ["head", "w1"], {"PATH": f"{RAY.parent}:{os.environ['PATH']}"})
    try:
        cluster = Cluster(lab, ["head", "w1"], RAY)
        copy_job_files(cluster.head)
        (cluster.head.tmp / "jobs" / SCRIPT.name).write_text(SCRIPT.read_text())
        start_patiently(cluster.start, cluster.stop)
        yield cluster
    finally:
        lab.close()


def snapshots(cluster: Cluster) -> list[Snapshot]:
    (folder,) = list_recordings(cluster.head.tmp / "state" / "cockpit" / "recordings")
    recording = Recording.open(folder)
    try:
        return list(recording.walk())
    finally:
        recording.close()


def test_steps_are_those_of_the_log_and_the_phase_is_that_of_rays_list(ray: Cluster):
    command = f"exec env XDG_STATE_HOME=/tmp/state {COCKPIT} record >/tmp/recorder.stderr 2>&1"
    recorder = ray.head.spawn("bash", "-c", command)
    eventually(lambda: "recording to" in (ray.head.tmp / "recorder.stderr").read_text(), within=120)
    total = FIRST + STEPS - 1
    ray.submit("steps", f"python {SCRIPT.name} {FIRST} {STEPS} {SECONDS} trainer.total_training_steps={total}")
    eventually(lambda: ray.job("steps") == "SUCCEEDED", within=240, every=2.0)
    recorder.outer.terminate()
    eventually(lambda: not recorder.is_alive())

    seen = snapshots(ray)
    activities = [one for snapshot in seen for one in snapshot.activities if one.job == "job:steps"]
    numbers = [one.step for one in activities if one.step is not None]
    assert numbers == sorted(numbers)
    assert FIRST + 2 <= numbers[-1] <= total + 1
    assert {one.total_steps for one in activities if one.step is not None} == {total}
    steps = {step.number: step.seconds for snapshot in seen for step in snapshot.steps}
    assert FIRST in steps
    printed = {int(number): float(seconds) for number, seconds in PRINTED.findall(ray.http.get("/api/jobs/steps/logs").json()["logs"])}
    assert steps == pytest.approx({number: printed[number or 0] for number in steps}, abs=0.01)
    assert "rollout" in {one.phase for one in activities}
    assert {one.framework for one in activities if one.phase == "rollout"} == {"veRL"}
    assert not any(host.name == "w1" for snapshot in seen for host in snapshot.hosts.values()), "no probe was there"
