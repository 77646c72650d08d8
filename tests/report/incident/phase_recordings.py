"""Made-up recordings of jobs whose phases were watched."""

from __future__ import annotations

from msgspec.structs import replace

from cockpit.model import Cluster, PhaseSpan, Snapshot, Step
from tests.report.incident.recordings import Made
from tests.report.phase_worlds import JOB, STEP
from tests.world import NOW

KEPT = 40
"""Phases that a snapshot has of a job."""


def long_run(steps: int = 100) -> Made:
    """So many steps of two minutes; each snapshot has only the last of their phases."""
    spans: list[PhaseSpan] = []
    ended: list[Step] = []
    moment = NOW
    for number in range(steps):
        begin = moment
        for phase, seconds in STEP:
            spans.append(PhaseSpan(JOB.key, phase, moment, moment + seconds))
            moment += seconds
        ended.append(Step(JOB.key, begin, moment, number + 1))
    snapshots: list[Snapshot] = []
    for at in range(int(NOW), int(moment) + 1, 10):
        begun = [span for span in spans if span.began <= at][-KEPT:]
        now = tuple(replace(span, ended=None) if span.ended is not None and span.ended > at else span for span in begun)
        done = tuple(step for step in ended if step.ended <= at)[-5:]
        snapshots.append(_snapshot(float(at), "session_2026-11-21_01-17-58_164160_11638", now, done))
    return Made(snapshots)


def two_sessions() -> Made:
    """Ray was restarted after 100 seconds; a job of the same name ran again."""
    first, second = "session_2026-11-21_01-17-58_164160_11638", "session_2026-11-21_02-17-58_164160_11638"
    snapshots = [_snapshot(NOW + at, first, (PhaseSpan(JOB.key, "rollout", NOW),)) for at in range(0, 101, 10)]
    snapshots += [_snapshot(NOW + at, second, (PhaseSpan(JOB.key, "training", NOW + 110),)) for at in range(110, 161, 10)]
    return Made(snapshots)


def _snapshot(taken: float, session: str, spans: tuple[PhaseSpan, ...], steps: tuple[Step, ...] = ()) -> Snapshot:
    cluster = Cluster("http://10.0.0.1:8265", "2.60.0", session, "58908c", "disabled", True)
    job = replace(JOB, started=NOW)
    return Snapshot(taken=taken, cluster=cluster, jobs=(job,), processes=(), nodes=(), spans=spans, steps=steps)
