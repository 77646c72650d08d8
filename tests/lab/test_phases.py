"""Phases and steps of jobs on a real Ray are what their actors really did: in time, and counted exactly."""

from __future__ import annotations

import bisect
import json
import math
import os
import random
import re
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from cockpit.model import PhaseSpan, Snapshot
from cockpit.recording.folder import list_recordings
from cockpit.recording.recording import Recording
from tests.lab import hosts
from tests.lab.cluster import Cluster, copy_job_files, eventually, start_patiently
from tests.lab.conftest import NO_RAY, RAY
from tests.lab.hosts import Lab
from tests.lab.incidents import watching
from tests.lab.observe import COCKPIT, Facts, Watcher

pytestmark = [pytest.mark.lab, pytest.mark.incident, pytest.mark.timeout(7200)]

STEPS = int(os.environ.get("COCKPIT_STEPS", "10"))
"""Steps of each job; `make phases` runs 200."""
FRAMEWORKS = ("verl", "openrlhf", "slime", "skyrl")
MIN_RIGHT = 0.98
MAX_BOUNDARY_ERROR_S = 2.0
MAX_UNSEEN = 0.002
"""The share of phases that may begin later. Here are no GPUs, and the title of an asynchronous engine is idle whenever one of its calls
ends, so in a rollout of two seconds none of its calls may be seen."""
LOOK_EVERY_S = 1.0
SCRIPT = Path(__file__).with_name("phase_jobs.py")
HOME = "XDG_STATE_HOME=/tmp/state"


class Truth(NamedTuple):
    """What a job wrote about itself."""

    begins: Sequence[tuple[float, str]]
    """When each phase began."""
    ends: Sequence[float]
    """When each step ended."""
    over: float

    def phase_at(self, moment: float) -> str:
        return self.begins[bisect.bisect([at for at, _ in self.begins], moment) - 1][1]


@pytest.fixture
def ray() -> Iterator[Cluster]:
    """A Ray on one host."""
    reason = hosts.why_not() or (None if RAY.exists() else NO_RAY)
    if reason:
        pytest.skip(reason)
    lab = Lab(f"p{os.getpid() % 100000}", ["head"], {"PATH": f"{RAY.parent}:{os.environ['PATH']}"})
    try:
        cluster = Cluster(lab, ["head"], RAY)
        copy_job_files(cluster.head)
        (cluster.head.tmp / "jobs" / SCRIPT.name).write_text(SCRIPT.read_text())
        start_patiently(cluster.start, cluster.stop)
        yield cluster
    finally:
        lab.close()


def read_truth(cluster: Cluster, job: str) -> Truth:
    lines = [json.loads(line) for line in (cluster.head.tmp / f"{job}.truth").read_text().splitlines()]
    begins = [(line["at"], line["what"]) for line in lines if line["what"] not in ("end", "over", "hang")]
    return Truth(begins, [line["at"] for line in lines if line["what"] == "end"], lines[-1]["at"])


def read_last(cluster: Cluster, at: float | None = None) -> Snapshot:
    """The last snapshot of the recording, or the one at a moment."""
    (folder,) = list_recordings(cluster.head.tmp / "state" / "cockpit" / "recordings")
    recording = Recording.open(folder)
    try:
        snapshot = recording.snapshot_at(recording.end if at is None else at)
        assert snapshot is not None
        return snapshot
    finally:
        recording.close()


def test_phases_and_steps_are_what_the_actors_really_did(ray: Cluster):
    recorder = ray.head.spawn("bash", "-c", f"exec env {HOME} {COCKPIT} record >/tmp/recorder.stderr 2>&1")
    eventually(lambda: "recording to" in (ray.head.tmp / "recorder.stderr").read_text(), within=120)
    for seed, framework in enumerate(FRAMEWORKS):
        ray.submit(framework, f"python {SCRIPT.name} {framework} {STEPS} {seed} /tmp/{framework}.truth")
    eventually(lambda: all(ray.job(framework) == "SUCCEEDED" for framework in FRAMEWORKS), within=STEPS * 40 + 300, every=2.0)
    eventually(lambda: not read_last(ray).activities, within=60, every=1.0)
    recorder.outer.terminate()
    eventually(lambda: not recorder.is_alive())

    figures: dict[str, object] = {}
    errors: list[float] = []
    looks = right = 0
    for framework in FRAMEWORKS:
        truth, spans, counted = read_truth(ray, framework), *_spans_and_steps(ray, f"job:{framework}")
        own = [min((abs(at - span.began) for span in spans if span.phase == phase), default=math.inf) for at, phase in truth.begins]
        errors += own
        late = [
            (phase, time.ctime(at), round(error, 1))
            for (at, phase), error in zip(truth.begins, own, strict=True)
            if error > MAX_BOUNDARY_ERROR_S
        ]
        asked, good = _count_right(truth, spans)
        looks, right = looks + asked, right + good
        figures[framework] = {
            "steps": counted,
            "right": round(good / asked, 4),
            "boundary": round(statistics.median(own), 2),
            "late": late,
        }
        assert counted == len(truth.ends) == STEPS, figures
    print(figures, "all:", right / looks)
    assert right / looks >= MIN_RIGHT, figures
    assert sum(error > MAX_BOUNDARY_ERROR_S for error in errors) <= MAX_UNSEEN * len(errors), figures


def _spans_and_steps(cluster: Cluster, job: str) -> tuple[Sequence[PhaseSpan], int]:
    """All spans that were recorded of a job, and the number of the last step."""
    (folder,) = list_recordings(cluster.head.tmp / "state" / "cockpit" / "recordings")
    recording, spans, number = Recording.open(folder), {}, 0
    try:
        for snapshot in recording.walk():
            spans.update({span.key: span for span in snapshot.spans if span.job == job})
            number = max([number, *(step.number or 0 for step in snapshot.steps if step.job == job)])
    finally:
        recording.close()
    return sorted(spans.values(), key=lambda span: span.began), number


def _count_right(truth: Truth, spans: Sequence[PhaseSpan]) -> tuple[int, int]:
    """Moments from the job's first phase on, and those at which the phase was right. Within `LOOK_EVERY_S` of a boundary either may be."""
    asked = right = 0
    moment = truth.begins[0][0] + LOOK_EVERY_S
    while moment < truth.over - LOOK_EVERY_S:
        true = {truth.phase_at(moment - LOOK_EVERY_S), truth.phase_at(moment)}
        found = next((span.phase for span in reversed(spans) if span.began <= moment), None)
        asked, right = asked + 1, right + (found in true)
        moment += 0.25
    return asked, right


HANGS = int(os.environ.get("COCKPIT_HANGS", "4"))
"""Hangs; `make phases` makes 40."""
MIN_TOLD = 0.95
MAX_MEDIAN_S = 60.0
KINDS: dict[str, tuple[str, ...]] = {
    "verl": ("rank", "skipped", "engine", "reward", "data"),
    "openrlhf": ("rank", "skipped", "engine", "reward", "data"),
    "slime": ("rank", "skipped", "engine", "data"),
    "skyrl": ("rank", "skipped", "engine", "reward", "data"),
}
STUCK_CODES = ("phase-stuck", "rank-behind", "job-stalled", "job-hung")


class Hang(NamedTuple):
    """A hang that a job made, and what cockpit said of it."""

    job: str
    kind: str
    phase: str
    told_after: float | None
    """Seconds; `None`: nothing was said."""
    is_right: bool
    """Whether its phase and one of its processes were named."""
    said: str


def test_hangs_are_told_with_their_phase_and_their_rank(ray: Cluster):
    chance = random.Random(7)
    watcher = watching(ray)
    hangs: list[Hang] = []
    while len(hangs) < HANGS:
        names: dict[str, str] = {}
        for framework in FRAMEWORKS:
            kind, step = chance.choice(KINDS[framework]), chance.randint(6, 12)
            name = f"{framework}-{kind}-{len(hangs) + len(names)}"
            names[name] = kind
            ray.submit(name, f"python {SCRIPT.name} {framework} 1000 {chance.randrange(10**6)} /tmp/{name}.truth {kind} {step}")
        hangs += _wait_until_told(ray, watcher, names)
        ray.stop_jobs()
    watcher.end()
    for hang in hangs:
        print(hang)
    right = [hang for hang in hangs if hang.is_right]
    assert len(right) / len(hangs) >= MIN_TOLD, [hang for hang in hangs if not hang.is_right]
    assert statistics.median(hang.told_after or math.inf for hang in right) <= MAX_MEDIAN_S


def _wait_until_told(cluster: Cluster, watcher: Watcher, kinds: Mapping[str, str], within: float = 300) -> list[Hang]:
    """Waits until each job hangs, and then until a finding says so, or until it has hung for `within` seconds."""
    begun: dict[str, Facts] = {}
    told: dict[str, Hang] = {}

    def look() -> bool:
        for job, kind in kinds.items():
            if job not in begun:
                lines = (cluster.head.tmp / f"{job}.truth").read_text().splitlines()
                if (line := next((line for line in lines if '"hang"' in line), None)) is not None:
                    begun[job] = json.loads(line)
            if job in told or job not in begun:
                continue
            hang, after = begun[job], time.time() - begun[job]["at"]
            named = [one for one in watcher.now["findings"] if one["code"] in STUCK_CODES and one["subject"] == f"job {job}"]
            if named:
                said = " ".join([named[0]["text"], *named[0]["evidence"]])
                names_it = any(re.search(rf"\b{pid}\b", said) for pid in hang["pids"])
                # Idle titles of asynchronous actors do not prove that the job waits, but that it waits for its driver is said either way.
                words = "it waits for its driver" if hang["phase"] == "waiting" else hang["phase"]
                told[job] = Hang(job, kind, hang["phase"], after, words in said and names_it, said)
            elif after > within:
                told[job] = Hang(job, kind, hang["phase"], None, False, "")
        return len(told) == len(kinds)

    eventually(look, within=within + 900, every=0.5)
    return list(told.values())
