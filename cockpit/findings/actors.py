"""Detects actors in a restart loop, and actors and placement groups that hold GPUs of a job that has ended."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

import msgspec

from cockpit.findings.facts import Facts
from cockpit.findings.failures import last_report, reason_of
from cockpit.findings.sources import rests_on
from cockpit.findings.waiting import actors_words, display_name, join_names, kind_and_name, plausible_time, short_name
from cockpit.model import Actor, Finding, PlacementGroup, Remedy
from cockpit.text import age, count
from cockpit.text.grouping import group_by

RESTARTING_CODE = "actor-restarting"
LOG_WORDS = "worker-*.err of its process before the restart, in the logs of the Ray session on its node"
ENDED_STATES = ("SUCCEEDED", "FAILED", "STOPPED")
SERVE_PREFIX = "SERVE_"
"""Beginning of the names of Ray Serve's placement groups: they outlive the job that deployed them on purpose."""
MAX_EVIDENCE_LINES = 5
MAX_GPUS_PER_ACTOR = 1e6
"""A request for more GPUs is implausible."""


class RestartedActor(msgspec.Struct, frozen=True):
    """An actor that was restarted."""

    actor: Actor
    times: float
    when: str
    """The time in which it was restarted, in words."""
    lately: float
    """Restarts in the last `restarts_within` seconds: as watched, else the average since its job started."""


@rests_on("ray.actors", "ray.jobs", "processes")
def restart_loops(facts: Facts) -> Iterator[Finding]:
    """Actors that were restarted too often lately, one finding for each class and job."""
    actors, limits = facts.snapshot.actors, facts.limits
    if actors is None or not facts.snapshot.actors_complete:
        return
    restarted = _find_restarted(facts, [actor for actor in actors if actor.restarts and actor.restarts > 0])
    by_class = group_by(restarted, lambda again: (again.actor.class_, again.actor.job))
    for (class_, job), every in by_class.items():
        subject = actors_words(facts, class_, job)
        if not facts.is_over_mark(max(again.lately for again in every), limits.restarts, 1, RESTARTING_CODE, subject):
            continue
        every.sort(key=lambda again: (-again.lately, again.actor.id))
        often = f"{_times(every[0].times)} {every[0].when}"
        who = f"Actor {subject} was restarted" if len(every) == 1 else f"{len(every)} actors {subject} were restarted, one of them"
        evidence: list[str] = []
        for again in every[:MAX_EVIDENCE_LINES]:
            total = again.actor.restarts or 0
            in_total = f", {count(total)} times in total" if total > again.times else ""
            evidence.append(f"actor {display_name(again.actor)}: restarted {_times(again.times)} {again.when}{in_total}")
        reports = [report for again in every if (report := last_report(again.actor.key, facts.snapshot)) is not None]
        report = next((each for each in reports if reason_of(each)), None)
        reason = reason_of(report) if report is not None else None
        why = f": {reason}" if reason else ""
        if report is not None:
            evidence += [f"its last process reported: {line}" for line in (report.text or "").split("\n")[:MAX_EVIDENCE_LINES] if line]
            evidence += [f"raised at {report.raised_at}"] if report.raised_at else []
        evidence += ["`ray list actors --detail` shows num_restarts", f"why it ended: {LOG_WORDS}"]
        helps = f"{report.remedy}; " if report is not None and report.remedy else "read why its last process ended; "
        remedy = Remedy(f"{helps}if it can't recover, kill the actor", "kill-actor")
        known_job = facts.index.jobs.get(job or "")  # its row stands for its actors on a page that does not list them
        about = (*(again.actor.key for again in every), *((known_job.key,) if known_job else ()))
        seen = facts.last_answer_before_fault("ray.actors")
        yield Finding(RESTARTING_CODE, "warning", subject, f"{who} {often}{why}", tuple(evidence), None, remedy, about, seen)


def _find_restarted(facts: Facts, actors: list[Actor]) -> Iterator[RestartedActor]:
    """The restarts that cockpit has watched; until it has watched long enough, also those that Ray has counted."""
    what, within, most = f"restarts in {facts.snapshot.cluster.session}", facts.limits.restarts_within, facts.limits.restarts
    grown = facts.growth_by_name(what, {actor.id: actor.restarts or 0 for actor in actors}, within)
    watched = facts.seconds_lasting(what, "all") >= within
    recent = f"in the last {age(within if watched else facts.seconds_grown(what))}"

    # When the present process of each suspicious actor began; a child that the actor has started began later.
    often = {actor.id for actor in actors if not watched and (actor.restarts or 0) >= most}
    workers = [each for each in (facts.snapshot.processes or ()) if each.actor in often and each.kind == "worker"] if often else []
    begun = {each.actor: each.started for each in workers if each.started is not None}
    for actor in actors:
        times, counted = grown.get(actor.id, 0.0), actor.restarts or 0
        job = facts.index.jobs.get(actor.job or "")
        started = plausible_time(job.started, facts.now) if job and actor.id in often and times < most else None
        if started is not None:
            # By Ray's count: all restarts happened since the job started, and the last one when the actor's process began.
            lives, last = facts.now - started, begun.get(actor.id)
            is_recent = lives <= within or actor.state == "RESTARTING" or (last is not None and facts.now - last <= within)
            lately = counted * min(1.0, within / lives) if lives else counted
            if facts.seconds_steady(is_recent, "restarted lately", actor.id, inf) is not None and lately > times:
                yield RestartedActor(actor, counted, f"since its job started {age(lives)} ago", lately)
                continue
        if times:
            yield RestartedActor(actor, times, recent, times)


def _times(number: float) -> str:
    return "once" if number == 1 else f"{count(number)} times"


@rests_on("ray.jobs", "ray.actors", "ray.placement_groups")
def leaks(facts: Facts) -> Iterator[Finding]:
    """Placement groups, and actors outside of groups, that hold GPUs of jobs that have ended.

    Ray itself removes groups and actors that are not detached, but that takes a while.
    """
    over = {job for job, known in facts.index.jobs.items() if known.status in ENDED_STATES}
    groups, actors = (facts.snapshot.placement_groups or (), facts.snapshot.actors or ()) if over else ((), ())
    found: dict[tuple[str, str], list[PlacementGroup | Actor]] = {}
    for group in groups:
        has_place = group.state in ("CREATED", "RESCHEDULING")
        if group.job in over and has_place and not group.name.startswith(SERVE_PREFIX) and _held_gpus(group):
            found.setdefault(("placement-group-leaked", group.job or ""), []).append(group)
    for actor in actors:
        if actor.job in over and actor.state == "ALIVE" and not actor.placement_group and actor.namespace != "serve" and _held_gpus(actor):
            found.setdefault(("actor-leaked", actor.job or ""), []).append(actor)
    for (code, job_id), left in found.items():
        job = facts.index.jobs[job_id]
        ended = plausible_time(job.ended, facts.now)
        lasted = facts.seconds_lasting(code, job.id) if ended is None else facts.now - ended
        if lasted < facts.limits.leak_age:
            continue
        one, are_groups = len(left) == 1, code == "placement-group-leaked"
        noun, verb = ("placement group", "remove") if are_groups else ("actor", "kill")
        names = [short_name(each.class_ if isinstance(each, Actor) else each.name) or each.id[:12] for each in left[:MAX_EVIDENCE_LINES]]
        many = f"its {noun} {names[0]} still holds" if one else f"{len(left)} of its {noun}s ({join_names(names, len(left))}) still hold"
        unless = "it, unless it is meant to outlive its job" if one else "them, unless they are meant to outlive their job"
        gpus, name = sum(map(_held_gpus, left)), short_name(job.id)
        evidence: list[str] = []
        for each in left[:MAX_EVIDENCE_LINES]:
            detached, held = ", detached" if each.detached else "", _held_gpus(each)
            evidence.append(f"{kind_and_name(each)} ({short_name(each.state)}{detached}) holds {count(held)} GPU{'s' if held > 1 else ''}")
        evidence.append(f"`ray list {'placement-groups' if are_groups else 'actors'} --detail` lists them")
        text = f"Job {name} has ended ({short_name(job.status)}), but {many} {count(gpus)} GPU{'s' if gpus > 1 else ''}"
        remedy = Remedy(f"{verb} {unless}", "remove-placement-group" if are_groups else "kill-actor")
        about = tuple(each.key for each in left)
        seen = facts.last_answer_before_fault("ray.placement_groups" if are_groups else "ray.actors")
        yield Finding(code, "warning", f"job {name}", text, tuple(evidence), ended, remedy, about, seen)


def _held_gpus(each: Actor | PlacementGroup) -> float:
    if isinstance(each, Actor):
        return held if 0 < (held := each.needs.get("GPU", 0.0)) < MAX_GPUS_PER_ACTOR else 0.0
    return sum(held for bundle in each.bundles if bundle.node and 0 < (held := bundle.needs.get("GPU", 0.0)) < MAX_GPUS_PER_ACTOR)
