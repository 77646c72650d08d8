"""Computes how long each phase and each step takes and usually takes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from statistics import median, quantiles
from typing import Final

import msgspec

from cockpit.model import Activity, Phase, PhaseSpan, Step

MIN_STEPS: Final = 3
"""A usual time is known from this many steps on."""


class UsualTime(msgspec.Struct, frozen=True):
    """How long something usually takes, in seconds."""

    median: float
    spread: float
    """Half of the distance between the quartiles."""
    count: int


def seconds_by_phase(spans: Sequence[PhaseSpan], began: float, ended: float) -> Mapping[Phase | None, float]:
    """The seconds of each phase between two times. Time outside of all spans does not count. `spans`: those of one job, in order."""
    found: dict[Phase | None, float] = {}
    for number in range(max(0, bisect_right(spans, began, key=lambda span: span.began) - 1), len(spans)):
        span = spans[number]
        if span.began >= ended:
            break
        seconds = min(span.ended if span.ended is not None else ended, ended) - max(span.began, began)
        if seconds > 0:
            found[span.phase] = found.get(span.phase, 0.0) + seconds
    return found


def usual_seconds(steps: Sequence[Step], spans: Sequence[PhaseSpan]) -> Mapping[Phase | str | None, UsualTime]:
    """The usual seconds of each phase in a step, and of a whole step under `step`; empty with fewer than `MIN_STEPS` steps.

    Steps with a checkpoint or an evaluation count only if there are too few other steps.
    """
    plain = [step for step in steps if not step.is_longer]
    counted = plain if len(plain) >= MIN_STEPS else list(steps)
    if len(counted) < MIN_STEPS:
        return {}
    amounts: dict[Phase | str | None, list[float]] = {"step": [step.seconds for step in counted]}
    for step in counted:
        for phase, seconds in seconds_by_phase(spans, step.began, step.ended).items():
            amounts.setdefault(phase, []).append(seconds)
    return {what: _usual(seconds) for what, seconds in amounts.items() if len(seconds) >= MIN_STEPS}


def seconds_left(activity: Activity, steps: Sequence[Step], now: float) -> float | None:
    """The seconds until the job ends, if its steps take as long as usual; `None`: unknown. `steps`: those of the job."""
    usual = usual_seconds(steps, ()).get("step")
    if usual is None or activity.steps_left is None:
        return None
    if activity.steps_left == 0:
        return 0.0
    spent = max(0.0, now - activity.step_began) if activity.step_began is not None else 0.0
    return (activity.steps_left - 1) * usual.median + max(0.0, usual.median - spent)


def _usual(seconds: Sequence[float]) -> UsualTime:
    low, _, high = quantiles(seconds, n=4)
    return UsualTime(median(seconds), (high - low) / 2, len(seconds))
