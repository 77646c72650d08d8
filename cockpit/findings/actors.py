"""Actors in a restart loop, and actors and placement groups that hold GPUs for a job that has ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf

import msgspec

from cockpit.alike import group_by
from cockpit.findings.facts import Facts
from cockpit.findings.sources import rests_on
from cockpit.findings.waiting import actors_words, display_name, join_names, plausible_time, short_name, what_words
from cockpit.model import Actor, Finding, Job, PlacementGroup, Remedy
from cockpit.text import age, count

RESTARTING_CODE = "actor-restarting"
LOG_WORDS = "worker-*.err of its process before the restart, in the logs of the Ray session on its node"
ENDED_STATES = ("SUCCEEDED", "FAILED", "STOPPED")
SERVE_PREFIX = "SERVE_"
"""What Ray Serve calls its placement groups first: what it runs outlives the job that deployed it, as it should."""
MAX_EVIDENCE_LINES = 5
MAX_GPUS_PER_ACTOR = 1e6
"""GPUs of one actor, from where on it makes no sense."""


class RestartedActor(msgspec.Struct, frozen=True):
    """An actor that was restarted."""

    actor: Actor
    times: float
    when: str
    """In which time, as far as that is known."""
    lately: float
    """Restarts within the time in which they are counted: as watched, else as many as in the mean since its job started."""


@rests_on("ray.actors", "ray.jobs", "processes")
def restart_loops(facts: Facts) -> Iterator[Finding]:
    """Actors of a class that were restarted too often of late."""
    actors, limits = facts.snapshot.actors, facts.limits
    if actors is None or not facts.snapshot.actors_complete:
        return
    restarted = _find_restarted(facts, [actor for actor in actors if actor.restarts and actor.restarts > 0])
    by_class = group_by(restarted, lambda again: (again.actor.class_, again.actor.job))
    for (class_, job), every in by_class.items():
        subject = actors_words(facts, class_, job)
        if facts.is_over_mark(max(again.lately for again in every), limits.restarts, 1, RESTARTING_CODE, subject):
            yield _restart_finding(facts, subject, every)


def _find_restarted(facts: Facts, actors: list[Actor]) -> Iterator[RestartedActor]:
    """By what was watched; until that is long enough, also by Ray's own counts."""
    what, within = f"restarts in {facts.snapshot.cluster.session}", facts.limits.restarts_within
    grown = facts.growth_by_name(what, {actor.id: actor.restarts or 0 for actor in actors}, within)
    watched = facts.seconds_lasting(what, "all") >= within
    recent = f"in the last {age(within if watched else facts.seconds_grown(what))}"
    begun = {} if watched else _process_starts(facts, actors)
    for actor in actors:
        times = grown.get(actor.id, 0.0)
        counted = None if watched or times >= facts.limits.restarts else _by_count(facts, actor, begun.get(actor.id))
        if counted and counted.lately > times:
            yield counted
        elif times:
            yield RestartedActor(actor, times, recent, times)


def _process_starts(facts: Facts, actors: list[Actor]) -> Mapping[str, float]:
    """By actor, when its process began, of those that were restarted often enough for a loop; not when what that has started did."""
    often = {actor.id for actor in actors if (actor.restarts or 0) >= facts.limits.restarts}
    processes = (facts.snapshot.processes or ()) if often else ()
    return {each.actor: each.started for each in processes if each.actor in often and each.kind == "worker" and each.started is not None}


def _by_count(facts: Facts, actor: Actor, begun: float | None) -> RestartedActor | None:
    """By Ray's count: all of it lies within the life of its job, and the last of it before the begin of its process."""
    job, times, within = facts.jobs.get(actor.job or ""), actor.restarts or 0, facts.limits.restarts_within
    started = plausible_time(job.started, facts.now) if job else None
    if started is None or times < facts.limits.restarts:
        return None
    lives = facts.now - started
    recent = lives <= within or actor.state == "RESTARTING" or (begun is not None and facts.now - begun <= within)
    if facts.seconds_steady(recent, "restarted lately", actor.id, inf) is None:
        return None
    return RestartedActor(actor, times, f"since its job started {age(lives)} ago", times * min(1.0, within / lives) if lives else times)


def _restart_finding(facts: Facts, subject: str, every: list[RestartedActor]) -> Finding:
    every = sorted(every, key=lambda again: (-again.lately, again.actor.id))
    often = f"{_times(every[0].times)} {every[0].when}"
    who = f"Actor {subject} was restarted" if len(every) == 1 else f"{len(every)} actors {subject} were restarted, one of them"
    job = facts.jobs.get(every[0].actor.job or "")  # its row stands where its actors are not listed
    return Finding(
        code=RESTARTING_CODE,
        level="warning",
        subject=subject,
        text=f"{who} {often}",
        evidence=(
            *map(_restarted_line, every[:MAX_EVIDENCE_LINES]),
            "`ray list actors --detail` shows num_restarts",
            f"why it ended: {LOG_WORDS}",
        ),
        remedy=Remedy("read why its last process ended; if it can't recover, kill the actor", "kill-actor"),
        about=(*(again.actor.key for again in every), *((job.key,) if job else ())),
        seen=facts.last_heard_before_fault("ray.actors"),
    )


def _restarted_line(again: RestartedActor) -> str:
    total = again.actor.restarts or 0
    in_total = f", {count(total)} times in total" if total > again.times else ""
    return f"actor {display_name(again.actor)}: restarted {_times(again.times)} {again.when}{in_total}"


def _times(number: float) -> str:
    return "once" if number == 1 else f"{count(number)} times"


@rests_on("ray.jobs", "ray.actors", "ray.placement_groups")
def leaks(facts: Facts) -> Iterator[Finding]:
    """Placement groups, and actors outside of any, that hold GPUs of jobs that are over."""
    over = {job for job, known in facts.jobs.items() if known.status in ENDED_STATES}
    groups, actors = (facts.snapshot.placement_groups or (), facts.snapshot.actors or ()) if over else ((), ())
    found: dict[tuple[str, str], list[PlacementGroup | Actor]] = {}
    for group in groups:
        has_place = group.state in ("CREATED", "RESCHEDULING")
        if group.job in over and has_place and not group.name.startswith(SERVE_PREFIX) and _held_gpus(group):
            found.setdefault(("placement-group-leaked", group.job or ""), []).append(group)
    for actor in actors:
        if actor.job in over and actor.state == "ALIVE" and not actor.placement_group and actor.namespace != "serve" and _held_gpus(actor):
            found.setdefault(("actor-leaked", actor.job or ""), []).append(actor)
    for (code, job), left in found.items():
        yield from _leak_findings(facts, code, facts.jobs[job], left)


def _held_gpus(each: Actor | PlacementGroup) -> float:
    if isinstance(each, Actor):
        return held if 0 < (held := each.needs.get("GPU", 0.0)) < MAX_GPUS_PER_ACTOR else 0.0
    return sum(held for bundle in each.bundles if bundle.node and 0 < (held := bundle.needs.get("GPU", 0.0)) < MAX_GPUS_PER_ACTOR)


def _leak_findings(facts: Facts, code: str, job: Job, left: Sequence[PlacementGroup | Actor]) -> Iterator[Finding]:
    """What a job has left behind; Ray itself takes away what isn't detached, which takes a while."""
    ended = plausible_time(job.ended, facts.now)
    lasted = facts.seconds_lasting(code, job.id) if ended is None else facts.now - ended
    if lasted < facts.limits.leak_age:
        return
    one, groups = len(left) == 1, code == "placement-group-leaked"
    noun, verb = ("placement group", "remove") if groups else ("actor", "kill")
    names = [short_name(each.class_ if isinstance(each, Actor) else each.name) or each.id[:12] for each in left[:MAX_EVIDENCE_LINES]]
    many = f"its {noun} {names[0]} still holds" if one else f"{len(left)} of its {noun}s ({join_names(names, len(left))}) still hold"
    unless = "it, unless it is meant to outlive its job" if one else "them, unless they are meant to outlive their job"
    gpus = sum(map(_held_gpus, left))
    yield Finding(
        code=code,
        level="warning",
        subject=f"job {short_name(job.id)}",
        text=f"Job {short_name(job.id)} has ended ({short_name(job.status)}), but {many} {count(gpus)} GPU{'s' if gpus > 1 else ''}",
        evidence=(
            *map(_holding_line, left[:MAX_EVIDENCE_LINES]),
            f"`ray list {'placement-groups' if groups else 'actors'} --detail` lists them",
        ),
        since=ended,
        remedy=Remedy(f"{verb} {unless}", "remove-placement-group" if groups else "kill-actor"),
        about=tuple(each.key for each in left),
        seen=facts.last_heard_before_fault("ray.placement_groups" if groups else "ray.actors"),
    )


def _holding_line(each: Actor | PlacementGroup) -> str:
    kept, held = {True: ", detached", False: "", None: ""}[each.detached], _held_gpus(each)
    return f"{what_words(each)} ({short_name(each.state)}{kept}) holds {count(held)} GPU{'s' if held > 1 else ''}"
