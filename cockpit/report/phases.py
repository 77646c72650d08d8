"""Writes in words what a job does: its phase and step, their usual times, and which workers wait for which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

import msgspec

from cockpit.model import Activity, Job, Laggard, Phase, PhaseSpan, Process, Snapshot, Step
from cockpit.phases import Rank, UsualTime, ranks_of, seconds_by_phase, seconds_left, usual_seconds
from cockpit.phases.methods import find_method, is_known_sync
from cockpit.phases.ranks import unseen_actors, workers_of
from cockpit.text import UNKNOWN, age, clean, join_first
from cockpit.text.grouping import group_by

MAX_NAMED: Final = 3
"""A sentence names so many classes and ranks; the others are counted."""


class JobPhases(msgspec.Struct, frozen=True, dict=True):
    """The known phases and steps of one job."""

    activity: Activity | None = None
    """`None`: the job has ended, or none of its workers was seen."""
    spans: Sequence[PhaseSpan] = ()
    """In order."""
    steps: Sequence[Step] = ()
    """In order."""

    @cached_property
    def usual(self) -> Mapping[Phase | str | None, UsualTime]:
        """The result of `usual_seconds`. Ray's list of workers is read too seldom for times of phases."""
        return usual_seconds(self.steps, () if self.is_listed else self.spans)

    @property
    def is_listed(self) -> bool:
        """Whether only Ray's list of workers shows the phase."""
        return self.activity is not None and self.activity.listed is not None

    @cached_property
    def usual_step(self) -> UsualTime | None:
        """The usual time of a step. Lists of jobs need only this, and it is faster than `usual`."""
        return usual_seconds(self.steps, ()).get("step")

    @property
    def step_seconds(self) -> float | None:
        """The seconds of a step: the median, or the last step if there are too few steps."""
        return self.usual_step.median if self.usual_step else self.steps[-1].seconds if self.steps else None

    @property
    def steps_per_hour(self) -> float | None:
        """The mean over all kept steps, also those with a checkpoint or an evaluation."""
        seconds = sum(step.seconds for step in self.steps)
        return 3600 * len(self.steps) / seconds if seconds > 0 and self.usual_step else None

    @cached_property
    def shares(self) -> Mapping[Phase | None, float]:
        """The share of each phase in the kept steps, from 0 to 1; empty before the first step has ended."""
        sums: Counter[Phase | None] = Counter()
        for step in self.steps if not self.is_listed else ():
            sums.update(seconds_by_phase(self.spans, step.began, step.ended))
        whole = sum(sums.values())
        return {phase: seconds / whole for phase, seconds in sums.items()} if whole > 0 else {}

    def running_seconds(self, now: float) -> Mapping[Phase | None, float]:
        """The seconds of each phase in the running step; before the first step, only those of the present phase."""
        activity = self.activity
        if activity is None or self.is_listed or (activity.step_began is None and activity.since is None):
            return {}
        if activity.step_began is None or activity.is_phase_logged:  # spans come only from titles
            return {activity.phase: max(0.0, now - (activity.since or now))}
        return seconds_by_phase(self.spans, activity.step_began, now)

    def seconds_left(self, now: float) -> float | None:
        """The seconds until the last step ends, if all steps take as long as usual; `None`: unknown."""
        return seconds_left(self.activity, self.steps, now) if self.activity is not None else None


def phases_by_job(snapshot: Snapshot) -> Mapping[str, JobPhases]:
    """By job key: the phases and steps of each job that has any."""
    activities = {activity.job: activity for activity in snapshot.activities}
    spans, steps = group_by(snapshot.spans, lambda span: span.job), group_by(snapshot.steps, lambda step: step.job)
    return {key: JobPhases(activities.get(key), spans.get(key, ()), steps.get(key, ())) for key in {**activities, **spans, **steps}}


def phase_words(activity: Activity | None) -> str:
    """`training + rollout`; the method, if the phase is unknown; `–`, if both are unknown."""
    if activity is None or activity.phase is None:
        return clean(activity.method) if activity is not None and activity.method else UNKNOWN
    return " + ".join((activity.phase, *activity.also))


def step_words(activity: Activity | None) -> str:
    """`412/1000`; `412`, if the total is unknown; `–`, if the step is unknown."""
    if activity is None or activity.step is None:
        return UNKNOWN
    return f"{activity.step}/{activity.total_steps}" if activity.total_steps is not None else str(activity.step)


def usual_words(usual: UsualTime | None) -> str:
    """`2m58s ± 20s`."""
    return UNKNOWN if usual is None else f"{age(usual.median)} ± {age(usual.spread)}"


def activity_words(phases: JobPhases, now: float) -> str:
    """`step 412 · rollout 3m12s (usual 2m58s ± 20s) · 9.1 steps/h`; also `ends in about 2d17h`, if that is known."""
    activity = phases.activity
    if activity is None:
        return UNKNOWN
    parts = [f"step {step_words(activity)}"] if activity.step is not None else []
    words = phase_words(activity)
    if activity.phase is not None or activity.method:
        seconds = phases.running_seconds(now).get(activity.phase)
        # The first phase that was seen, or seen again, began before cockpit saw it.
        earlier = phases.spans[-2:-1]
        is_first = not earlier or (earlier[0].phase is None and earlier[0].method is None)
        mark = ">" if activity.step_began is None and is_first else ""
        words += f" {mark}{age(seconds)}" if seconds is not None and seconds >= (1 if mark else 0) else ""
        usual = phases.usual.get(activity.phase) if activity.phase is not None and activity.step_began is not None else None
        words += f" (usual {usual_words(usual)})" if usual and not activity.is_phase_logged else ""
        words += " (as its log says)" if activity.is_phase_logged else ""
        if activity.listed is not None and not activity.is_phase_logged:
            words += f" (by Ray's list, {age(max(0.0, now - activity.listed))} ago)"
    parts.append(words)
    if (rate := phases.steps_per_hour) is not None:
        parts.append(f"{rate:.{2 if rate < 1 else 1 if rate < 100 else 0}f} steps/h")
    if left := phases.seconds_left(now):
        parts.append(f"ends in about {age(left)}")
    return " · ".join(parts)


def wait_words(job: Job, activity: Activity, snapshot: Snapshot) -> str:
    """Which workers of the job wait for which, by their titles; empty if the titles don't show it. Workers of silent hosts are left out."""
    ranks = [rank for rank in ranks_of(job, snapshot) if not rank.is_old]
    if activity.laggards:
        return "; ".join(_laggard_words(activity.laggards, ranks, snapshot))
    waiting, working = list[str](), list[str]()
    partly_seen = {actor.class_ for actor in unseen_actors(job, workers_of(job, snapshot), snapshot)}
    for class_, members in group_by((rank for rank in ranks if rank.title.class_), lambda rank: rank.title.class_).items():
        methods = Counter(rank.title.method for rank in members if rank.title.method)
        if methods:
            method, count = methods.most_common(1)[0]
            row = find_method(class_, method)
            if row is None or row.kind != "whole":
                of = "" if count == len(members) else f" of {len(members)}"
                working.append(clean(f"{count}{of} {class_} {'is' if count == 1 else 'are'} in {method}"))
        elif is_known_sync(class_) and class_ not in partly_seen:
            waiting.append(clean(f"{len(members)} {class_}"))
    if not waiting or activity.phase == "waiting":
        return ""
    many = len(waiting) > 1 or not waiting[0].startswith("1 ")
    words = f"{join_first(waiting, MAX_NAMED)} {'wait' if many else 'waits'}"
    return "; ".join((words, *([join_first(working, MAX_NAMED)] if working else [])))


def _laggard_words(laggards: Sequence[Laggard], ranks: Sequence[Rank], snapshot: Snapshot) -> Iterator[str]:
    """`7 of 8 PolicyModelActor have waited for 4m10s; w1 GPU 3 (pid 123) is still in fit`, for each class and method."""
    by_process = {rank.process.key: rank for rank in ranks}
    for method, group in group_by((one for one in laggards if one.process in by_process), lambda one: one.method).items():
        found = [by_process[one.process] for one in group]
        class_ = found[0].title.class_
        others = [rank for rank in ranks if rank.title.class_ == class_ and rank.title.method != found[0].title.method]
        ended, seconds = group[0].others, max(0.0, snapshot.taken - min(one.since for one in group))
        name = found[0].title.method or method
        waited = f"{'have' if ended > 1 else 'has'} waited for {age(seconds)}"
        if any(rank.title.method for rank in others):  # they run another method now
            waited = f"ended {name} {age(seconds)} ago"
        who = join_first([rank_place(rank.process, snapshot) for rank in found], MAX_NAMED)
        verb = "is" if len(found) == 1 else "are"
        yield clean(f"{ended} of {ended + len(found)} {class_} {waited}; {who} {verb} still in {name}")


def rank_place(process: Process, snapshot: Snapshot) -> str:
    """`w1 GPU 3 (pid 123)`."""
    gpus = ",".join(str(hold.index) for hold in process.gpus)
    return f"{snapshot.index.place_title(process)}{f' GPU {gpus}' if gpus else ''} (pid {process.pid})"


class Band:
    """Divides a time into equal parts, and sums up the seconds of each phase in each part."""

    def __init__(self, begin: float, end: float, cells: int) -> None:
        self.begin, self.end = begin, end
        self._width = (end - begin) / max(1, cells)
        self._sums: list[dict[Phase | None, float]] = [{} for _ in range(cells if end > begin else 0)]

    def add(self, phase: Phase | None, first: float, last: float) -> None:
        """Add a period in which the job was in this phase."""
        first, last = max(self.begin, first), min(self.end, last)
        if last <= first or not self._sums:
            return
        for cell in range(int((first - self.begin) / self._width), min(len(self._sums), int((last - self.begin) / self._width) + 1)):
            begin = self.begin + cell * self._width
            seconds = min(last, begin + self._width) - max(first, begin)
            self._sums[cell][phase] = self._sums[cell].get(phase, 0.0) + max(0.0, seconds)

    @property
    def phases(self) -> list[Phase | None]:
        """For each part, the phase that took the most of it; `None`: unknown."""
        return [max(seconds, key=lambda phase: seconds[phase]) if seconds else None for seconds in self._sums]

    @property
    def seconds(self) -> Mapping[Phase | None, float]:
        """The seconds of each phase in all parts."""
        found: dict[Phase | None, float] = {}
        for sums in self._sums:
            for phase, seconds in sums.items():
                found[phase] = found.get(phase, 0.0) + seconds
        return found


def band(spans: Sequence[PhaseSpan], begin: float, end: float, cells: int) -> list[Phase | None]:
    """Divide a time into equal parts, and return the phase that took the most of each. `None`: unknown. A running span lasts to the end."""
    sums = Band(begin, end, cells)
    for span in spans:
        sums.add(span.phase, span.began, end if span.ended is None else span.ended)
    return sums.phases
