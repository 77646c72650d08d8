"""Detects jobs that stay in a phase far longer than ever before, and ranks that are still in a method which the others have ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

import msgspec

from cockpit.config.thresholds import Limits
from cockpit.findings.facts import Facts
from cockpit.findings.nccl import evidence_lines, find_report
from cockpit.findings.rank_words import find_stopped, find_suspects, name_processes, rank_lines, unseen_words
from cockpit.findings.sources import rests_on
from cockpit.findings.stalls import PHASE_CODE, does_a_gpu_work, job_subject, seconds_silent
from cockpit.model import Activity, Finding, Job, Level, PhaseSpan, Remedy
from cockpit.phases import Rank, ranks_of
from cockpit.phases.ranks import are_titles_watched
from cockpit.phases.tracker import LAGGARD_AFTER_S
from cockpit.text import age, clean, plural

BEHIND_CODE: Final = "rank-behind"
LAST_SPANS: Final = 50
MIN_SPANS: Final = 3
"""From so many ended phases on, the usual time of the phase is known."""
SURE_SPANS: Final = 10
"""From so many ended phases on, hardly any phase will take longer than the longest of them."""
FEW_FACTOR: Final = 1.5
"""With fewer than `SURE_SPANS` phases, the limit is multiplied by this: if times vary a lot, the first ones may all be short."""
STEP_FACTOR: Final = 1.5
"""A job without a running method is stuck after so many times its longest step: within a step, every method runs."""
DOUBT_FACTOR: Final = 3.0
"""While a GPU works or the log grows, the limit is multiplied by this: it may be a validation, or a long answer."""
TALKS_S: Final = 20.0
"""A log counts as growing if it was written less than so many seconds ago."""


class UsualPhase(msgspec.Struct, frozen=True):
    """How long a phase of a job has taken before."""

    median: float
    longest: float
    count: int

    @property
    def is_known(self) -> bool:
        """Whether there were enough phases to know the usual time."""
        return self.count >= MIN_SPANS

    @property
    def is_sure(self) -> bool:
        """Whether there were enough phases to trust the longest time."""
        return self.count >= SURE_SPANS

    @property
    def words(self) -> str:
        """`usually 1m02s, at most 1m30s in the last 12 times`."""
        return f"usually {age(self.median)}, at most {age(self.longest)} in the last {self.count} times"


def _usual_phase(spans: Sequence[PhaseSpan], phase: str | None, method: str | None) -> UsualPhase | None:
    """How long the job was in this phase before, or in this method if its phase is unknown; `None`: never."""
    return usual_of([span.ended - span.began for span in spans if span.ended is not None and (span.phase, span.method) == (phase, method)])


def usual_of(seconds: Sequence[float]) -> UsualPhase | None:
    """The usual time of a phase, from the seconds that it took each time; `None`: it has never ended."""
    seconds = seconds[-LAST_SPANS:]
    return UsualPhase(median(seconds), max(seconds), len(seconds)) if seconds else None


def limit_of(usual: UsualPhase, limits: Limits) -> float:
    """The seconds after which the phase takes too long."""
    return limits.phase_factor * (1.0 if usual.is_sure else FEW_FACTOR) * usual.longest + limits.phase_more


@rests_on("ray.jobs", "processes")
def slow_phases(facts: Facts) -> Iterator[Finding]:
    """Jobs that stay in a phase far longer than ever before, and ranks for which all others of their class wait.

    A single sample shows no times of phases. GPUs that wait for each other have another finding, with phase and ranks as evidence.
    """
    if facts.is_single_sample:
        return
    activities = {activity.job: activity for activity in facts.snapshot.activities}
    for job in facts.snapshot.jobs or ():
        activity = activities.get(job.key)
        if activity is None or not job.running:
            continue
        found = _find_stuck(facts, job, activity) or _find_behind(facts, job, activity)
        if found is not None and not facts.was_found("job-hung", job_subject(job)):
            yield found


def _find_stuck(facts: Facts, job: Job, activity: Activity) -> Finding | None:
    if activity.since is None or activity.phase == "loading" or not _is_phase_seen(facts, job, activity):
        return None
    # Time without samples does not count: the job may have been in other phases.
    watched = facts.seconds_lasting(f"in {activity.phase or activity.method} since {activity.since:.1f}", job.key)
    lasted = min(facts.now - activity.since, watched)
    steps = facts.steps_by_job.get(job.key, ())
    if steps and steps[-1].ended > activity.since + 1:
        return None  # its steps go on
    verdict = _judge(facts, job, activity, lasted)
    if verdict is None or not are_titles_watched(job, facts.known):
        return None
    return _stuck_finding(facts, job, activity, lasted, *verdict)


def _is_phase_seen(facts: Facts, job: Job, activity: Activity) -> bool:
    """Whether fresh facts show that the job is in this phase. The last title of a silent host may be out of date."""
    if facts.snapshot.processes is facts.known.processes:
        return True  # no host is silent, so the ranks are not needed
    ranks = ranks_of(job, facts.known)
    seen = [rank for rank in ranks if facts.is_seen_now(rank.process)]
    if len(seen) == len(ranks):
        return True
    if activity.phase is not None:
        return any(rank.phase == activity.phase for rank in seen)
    return activity.method is not None and any(rank.title.text == activity.method for rank in seen)


def _is_pause(activity: Activity) -> bool:
    """Whether the titles show no running method."""
    return activity.phase == "waiting" or (activity.phase is None and activity.method is None)


def _judge(facts: Facts, job: Job, activity: Activity, lasted: float) -> tuple[Level, str, str] | None:
    """The level, the usual time in words, and what speaks against a hang; `None`: the phase does not take too long."""
    usual = _usual_phase(facts.spans_by_job.get(job.key, ()), activity.phase, activity.method)
    if _is_pause(activity):
        # Pauses between two methods are mostly too short to be seen, so the time is compared with a whole step.
        steps = facts.steps_by_job.get(job.key, ())
        is_placed = not any(actor.job == job.job and actor.pending for actor in facts.snapshot.actors or ())
        if len(steps) < MIN_SPANS or not is_placed:
            return None
        longest = max(step.seconds for step in steps)
        limit = max(STEP_FACTOR * longest + facts.limits.phase_more, limit_of(usual, facts.limits) if usual is not None else 0.0)
        words = f"its longest step of the last {len(steps)} took {age(longest)}"
    elif usual is None or not usual.is_known:
        return None
    else:
        longest, limit, words = usual.longest, limit_of(usual, facts.limits), usual.words
    if lasted < longest + facts.limits.phase_more:
        return None
    if lasted < limit and not find_stopped(facts, job):  # a process that a signal has stopped does not continue by itself
        return None
    silent, _ = seconds_silent(facts, job)
    doubts: list[str] = []
    if does_a_gpu_work(facts, job):
        doubts.append("one of its GPUs works")
    if silent is not None and silent < TALKS_S:
        doubts.append("its log grows")
    if doubts and lasted < DOUBT_FACTOR * limit:
        return None
    return "info" if doubts else "warning", words, " and ".join(doubts)


def _stuck_finding(facts: Facts, job: Job, activity: Activity, lasted: float, level: Level, usual: str, doubts: str) -> Finding:
    ranks = [rank for rank in ranks_of(job, facts.known) if facts.is_seen_now(rank.process)]
    suspects, unseen = find_suspects(facts, job, activity, ranks), unseen_words(job, facts.known)
    if activity.phase == "waiting":
        does = "waiting"
    elif activity.phase is not None or activity.method is not None:
        does = f"in {activity.phase or clean(activity.method or '')[:80]}"
    elif unseen:
        does = "idle, by the titles that are seen,"
    else:
        does = "idle by all titles (it waits, or an engine without titles works)"
    text = f"{job_subject(job)} has been {does} for {age(lasted)}, {usual}"
    text += f": {suspects.words}" if suspects is not None else ": no rank differs from the others"
    text += f"; but {doubts}" if doubts else ""
    evidence = [*rank_lines(facts, ranks), *([unseen] if unseen else [])]
    silent, report = seconds_silent(facts, job)
    if silent is not None:
        evidence.append(f"job-driver-{clean(job.submission or '')[:80]}.log was last written {age(silent)} ago")
    if report is not None and report.repeats is not None:
        evidence.append(f"that log repeats: {report.repeats}")
    named = suspects.processes if suspects is not None else ()
    evidence += [f"ps -o pid,stat,wchan:32,cmd -p {process.pid} on {facts.place(process)}" for process in named[:3]]
    if suspects is not None and suspects.is_stopped:
        first = named[0]
        remedy = Remedy(
            "if nobody stopped it on purpose, for example with a debugger, let it continue "
            f"(`kill -CONT {first.pid}` on {facts.place(first)}); if the others have given up meanwhile, start the job again"
        )
    elif _is_pause(activity) and unseen:
        remedy = Remedy(
            "read the stacks of the workers that are not seen (`py-spy dump --pid PID` on their nodes), then that of the driver. If it "
            "hangs, stop the job and start it again",
            "stop-job",
        )
    elif _is_pause(activity):
        remedy = Remedy(
            "read the stack of the driver (`py-spy dump --pid PID`) and the end of its log: does it compute rewards, load data, or wait "
            "for a server that does not answer? If it hangs, stop the job and start it again",
            "stop-job",
        )
    else:
        remedy = Remedy(
            "compare the stacks of its ranks (`py-spy dump --pid PID`), first the one that differs; in rollout and scoring ask the engine "
            "or the reward server that it waits for. If it hangs, stop the job and start it from its last checkpoint",
            "stop-job",
        )
    if (nccl := find_report(job, facts.snapshot)) is not None and nccl.asked >= facts.now - lasted:
        evidence += evidence_lines(nccl, facts.snapshot, tuple(process.key for process in named), facts.now)
    about = (job.key, *dict.fromkeys(process.key for process in named))
    return Finding(PHASE_CODE, level, job_subject(job), text, tuple(evidence), facts.now - lasted, remedy, about)


def _find_behind(facts: Facts, job: Job, activity: Activity) -> Finding | None:
    if not activity.laggards:
        return None
    ranks = [rank for rank in ranks_of(job, facts.known) if facts.is_seen_now(rank.process)]
    by_key = {rank.process.key: rank for rank in ranks}
    late: list[tuple[float, Rank, UsualPhase, int]] = []
    for laggard in activity.laggards:
        rank = by_key.get(laggard.process)
        if rank is None or rank.phase in (None, "loading"):
            continue
        watched = facts.seconds_lasting(f"behind in {laggard.method}", laggard.process) + LAGGARD_AFTER_S
        lasted = min(facts.now - laggard.since, watched)
        usual = _usual_phase(facts.spans_by_job.get(job.key, ()), rank.phase, None)
        if usual is not None and usual.is_known:
            factor = 1.0 if usual.is_sure else facts.limits.phase_factor
            if lasted >= factor * usual.longest + facts.limits.phase_more:
                late.append((lasted, rank, usual, laggard.others))
    return _behind_finding(facts, job, activity, ranks, late) if late else None


def _behind_finding(
    facts: Facts, job: Job, activity: Activity, ranks: Sequence[Rank], late: Sequence[tuple[float, Rank, UsualPhase, int]]
) -> Finding:
    lasted, first, usual, others = max(late, key=lambda each: each[0])
    processes = [rank.process for _, rank, _, _ in late]
    have = "has" if len(late) == 1 else "have"
    text = (
        f"{name_processes(facts, processes)} of {job_subject(job)} {have} been alone in {clean(first.title.method)[:60]} ({first.phase}) "
        f"for {age(lasted)}; {plural(others, 'other rank')} of its class {'has' if others == 1 else 'have'} ended it. The whole phase "
        f"took {usual.words}"
    )
    level: Level = "warning" if lasted >= facts.limits.phase_factor * usual.longest + facts.limits.phase_more else "info"
    suspects = find_suspects(facts, job, activity, ranks)
    evidence = (*((suspects.words,) if suspects is not None else ()), *rank_lines(facts, ranks))
    remedy = Remedy(
        "compare its stack with those of the others (`py-spy dump --pid PID`): does it load data, save, log, or wait for a server while "
        "the others have nothing to do? Then look at its host: CPU, memory, disk, network, GPU"
    )
    about = (job.key, *(process.key for process in processes))
    return Finding(BEHIND_CODE, level, job_subject(job), text, evidence, facts.now - lasted, remedy, about)
