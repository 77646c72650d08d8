"""Detects jobs whose steps, or one phase of them, take longer than before, and lists what changed at that time."""

from __future__ import annotations

from bisect import bisect, insort
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

import msgspec

from cockpit.config.thresholds import DAY_S
from cockpit.findings.facts import Facts
from cockpit.findings.memory import NEAR_CODE
from cockpit.findings.rank_words import processes_of
from cockpit.findings.sources import rests_on
from cockpit.findings.stalls import job_subject
from cockpit.model import PHASES, Finding, Job, Phase, PhaseSpan, Remedy, Step
from cockpit.phases import seconds_by_phase
from cockpit.phases.ranks import are_titles_watched
from cockpit.text import age, clean

CODE: Final = "steps-slower"
NEW_STEPS: Final = 5
"""So many steps in a row must be longer. The median of as many last steps is compared."""
MIN_OLD_STEPS: Final = 10
"""So many steps before them are needed."""
SURE_STEPS: Final = 20
"""With so many steps before them, their spread is known well."""
FEW_FACTOR: Final = 1.5
"""With fewer than `SURE_STEPS`, their spread is multiplied by this."""
CLEAR_FACTOR: Final = 0.9
"""After the finding was made, its limits are multiplied by this."""
MIN_STEP_SHARE: Final = 0.1
"""One phase must be longer by this share of a step. Nobody would notice less."""
STARTED_BEFORE_S: Final = 300.0
"""Another job that began up to so many seconds before may be the reason: it takes time until it works."""
MAX_NAMED: Final = 3


class Rise(msgspec.Struct, frozen=True):
    """Seconds that have become larger."""

    before: float
    now: float
    place: int
    """The index of the first larger number in the list."""


def find_rise(seconds: Sequence[float], share: float, least: float) -> Rise | None:
    """Find the place since which numbers are larger than before; `None`: they are not larger now.

    The steps of some jobs vary a lot. So each of the first larger numbers must exceed the largest number before by as much as that one
    exceeds the usual number. With twenty numbers before, the largest of them is ignored as an exception.
    """
    now, old = median(seconds[-NEW_STEPS:]), sorted(seconds[:MIN_OLD_STEPS])
    for place in range(MIN_OLD_STEPS, len(seconds) - NEW_STEPS + 1):
        usual, largest = old[len(old) // 2], old[-1 - len(old) // SURE_STEPS]
        spread = (largest - usual) * (FEW_FACTOR if place < SURE_STEPS else 1.0)
        mark = max(usual * (1 + share), usual + least, largest + spread)
        if now >= mark and min(seconds[place : place + NEW_STEPS]) >= mark:
            return Rise(usual, now, place)
        insort(old, seconds[place])
    return None


@rests_on("ray.jobs", "processes")
def slower_steps(facts: Facts) -> Iterator[Finding]:
    """Jobs that have become slower. A single sample has no steps."""
    if facts.is_single_sample:
        return
    for job in facts.snapshot.jobs or ():
        listed = facts.steps_by_job.get(job.key, ()) if job.running else ()
        steps = [step for step in listed if not step.is_longer and 0 < step.seconds < DAY_S]
        if len(steps) < MIN_OLD_STEPS + NEW_STEPS:
            continue
        factor = CLEAR_FACTOR if facts.was_found(CODE, job_subject(job)) else 1.0
        share, least = factor * facts.limits.slower_share, factor * facts.limits.slower_by
        whole = find_rise([step.seconds for step in steps], share, least)
        spans = facts.spans_by_job.get(job.key, ()) if are_titles_watched(job, facts.known) else ()
        rises = _find_phase_rises(steps, spans, share, least)
        if whole is None and not rises:
            continue
        phase, part = max(rises.items(), key=lambda item: item[1].now - item[1].before) if rises else (None, None)
        rise = whole or part
        if rise is not None:
            since = steps[rise.place].began
            yield _slower_finding(facts, job, steps, whole, phase, part, since, are_phases_known=bool(spans))


def _find_phase_rises(steps: Sequence[Step], spans: Sequence[PhaseSpan], share: float, least: float) -> dict[Phase, Rise]:
    """The phases that take more time in a step than before."""
    kept = [step for step in steps if spans and step.began >= spans[0].began]  # the phases of earlier steps are no longer kept
    if len(kept) < MIN_OLD_STEPS + NEW_STEPS:
        return {}
    begins = [span.began for span in spans]
    parts = [
        seconds_by_phase(spans[max(0, bisect(begins, step.began) - 1) : bisect(begins, step.ended)], step.began, step.ended)
        for step in kept
    ]
    usual_step = median(step.seconds for step in kept)
    found: dict[Phase, Rise] = {}
    for phase in PHASES:
        rise = find_rise([part.get(phase, 0.0) for part in parts], share, max(least, MIN_STEP_SHARE * usual_step))
        if rise is not None:
            found[phase] = Rise(rise.before, rise.now, rise.place + len(steps) - len(kept))
    return found


def _slower_finding(
    facts: Facts,
    job: Job,
    steps: Sequence[Step],
    whole: Rise | None,
    phase: Phase | None,
    part: Rise | None,
    since: float,
    *,
    are_phases_known: bool,
) -> Finding:
    words = f"{phase} takes {age(part.now)} of a step instead of {age(part.before)}" if phase is not None and part is not None else ""
    if whole is not None:
        percent = 100 * (whole.now / whole.before - 1)
        text = f"steps of {job_subject(job)} take {age(whole.now)} instead of {age(whole.before)} ({percent:+.0f} %)"
        if are_phases_known:
            text += f", mostly because {words}" if words else ", in no single phase"
    else:
        text = f"{words} in {job_subject(job)}"
    number = next((step.number for step in steps if step.began == since), None)
    text += f", since {age(facts.now - since)}" + (f" (step {number})" if number is not None else "")
    changes = list(_find_changes(facts, job, since))
    text += f"; at the same time: {changes[0]}" if changes else ""
    evidence = [f"seconds of the last steps: {' '.join(f'{step.seconds:.0f}' for step in steps[-15:])}", *changes]
    if not changes:
        evidence.append("cockpit sees no throttled GPU, full memory, restarted actor or new job where it runs")
    remedy = Remedy(
        "compare the GPUs (`nvidia-smi -q -d PERFORMANCE`) and hosts of the job, and the lengths of its answers in its log: longer answers "
        "take longer, and are no fault"
    )
    return Finding(CODE, "warning", job_subject(job), text, tuple(evidence), since, remedy, (job.key,))


def _find_changes(facts: Facts, job: Job, since: float) -> Iterator[str]:
    """Sentences on what else has changed on the machines of the job."""
    index = facts.index
    places = {index.place_of(process) for process in processes_of(job, facts)}
    nodes = [node for node in facts.snapshot.nodes or () if node.key in places]
    for node in nodes:
        slowed = [gpu.label for gpu in index.machine(node).gpus or () if any(gpu.slowed or ())]
        if slowed:
            yield f"GPU {', '.join(slowed)} of {facts.title(node)} is slowed by heat or power"
        if facts.was_found(NEAR_CODE, facts.title(node)):
            yield f"host memory of {facts.title(node)} is near Ray's kill line"
    earliest = since - STARTED_BEFORE_S
    own = [actor for actor in facts.snapshot.actors or () if actor.job == job.job]
    restarted = [actor for actor in own if actor.restarts and (actor.since or 0.0) > earliest]
    if restarted:
        yield f"{clean(restarted[0].class_)[:60]} was restarted" + (f", and {len(restarted) - 1} more actors" if len(restarted) > 1 else "")
    for other in facts.snapshot.jobs or ():
        near = other.started is not None and earliest <= other.started <= since + STARTED_BEFORE_S
        if near and other.key != job.key and any(index.place_of(process) in places for process in processes_of(other, facts)):
            yield f"{job_subject(other)} began on the same machines {age(facts.now - (other.started or 0.0))} ago"
