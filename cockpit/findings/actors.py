"""Actors in a restart loop, and actors and placement groups that hold GPUs for a job that has ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cockpit.findings.facts import Facts
from cockpit.findings.waiting import actors_words, joined_names, plausible_time, short_name
from cockpit.model import Actor, Finding, Job, PlacementGroup, Remedy
from cockpit.text import age, count

ENDED_STATES = ("SUCCEEDED", "FAILED", "STOPPED")
SERVE_PREFIX = "SERVE_"
"""What Ray Serve calls its placement groups first: what it runs outlives the job that deployed it, as it should."""
MAX_EVIDENCE_LINES = 5
MAX_GPUS_PER_ACTOR = 1e6
"""GPUs of one actor, from where on it makes no sense."""


def restart_loops(facts: Facts) -> Iterator[Finding]:
    """Actors of a class that were restarted too often of late."""
    actors, within = facts.snapshot.actors, facts.limits.restarts_within
    if actors is None or not facts.snapshot.actors_complete:
        return
    counts = {actor.id: actor.restarts for actor in actors if actor.restarts and actor.restarts > 0}
    grown = facts.growth_by_name(f"restarts in {facts.snapshot.cluster.session}", counts, within)
    by_class: dict[tuple[str, str | None], list[Actor]] = {}
    for actor in actors if grown else ():
        if actor.id in grown:
            by_class.setdefault((actor.class_, actor.job), []).append(actor)
    for (class_, job), again in by_class.items():
        subject = actors_words(facts, class_, job)
        most = max(grown[actor.id] for actor in again)
        if facts.is_over_mark(most, facts.limits.restarts, 1, "actor-restarting", subject):
            yield _restart_finding(facts, subject, again, grown)


def _restart_finding(facts: Facts, subject: str, actors: list[Actor], grown: Mapping[str, float]) -> Finding:
    actors = sorted(actors, key=lambda actor: (-grown[actor.id], actor.id))
    often = f"{count(grown[actors[0].id])} times in the last {age(facts.limits.restarts_within)}"
    one = len(actors) == 1
    return Finding(
        code="actor-restarting",
        level="warning",
        subject=subject,
        text=f"actor {subject} was restarted {often}" if one else f"{len(actors)} actors {subject} were restarted, at most {often}",
        evidence=(
            *(
                f"actor {actor.id[:12]}: restarted {count(grown[actor.id])} times, {actor.restarts} in total"
                for actor in actors[:MAX_EVIDENCE_LINES]
            ),
            "`ray list actors --detail` shows num_restarts; worker-*.err in the logs of the Ray session on its node shows why it ended",
        ),
        remedy=Remedy("read the log of its last process; if it can't recover, kill the actor", "kill-actor"),
        about=tuple(actor.key for actor in actors),
        seen=facts.last_heard_before_fault("ray.actors"),
    )


def leaked_groups(facts: Facts) -> Iterator[Finding]:
    """Placement groups that hold GPUs, of jobs that are over."""
    by_job: dict[str, list[PlacementGroup]] = {}
    for group in facts.snapshot.placement_groups or ():
        if group.job and _is_leaked_group(facts, group):
            by_job.setdefault(group.job, []).append(group)
    for job, groups in by_job.items():
        yield from _leak_findings(facts, "placement-group-leaked", facts.jobs[job], groups)


def leaked_actors(facts: Facts) -> Iterator[Finding]:
    """Actors that hold GPUs outside of any placement group, of jobs that are over."""
    by_job: dict[str, list[Actor]] = {}
    over = {job for job, known in facts.jobs.items() if known.status in ENDED_STATES}
    for actor in (facts.snapshot.actors or ()) if over else ():
        if actor.job in over and actor.state == "ALIVE" and not actor.placement_group and actor.namespace != "serve" and _held_gpus(actor):
            by_job.setdefault(actor.job or "", []).append(actor)
    for job, actors in by_job.items():
        yield from _leak_findings(facts, "actor-leaked", facts.jobs[job], actors)


def _is_leaked_group(facts: Facts, group: PlacementGroup) -> bool:
    job = facts.jobs.get(group.job or "")
    return (
        job is not None
        and job.status in ENDED_STATES
        and group.state in ("CREATED", "RESCHEDULING")
        and not group.name.startswith(SERVE_PREFIX)
        and _held_gpus(group) > 0
    )


def _held_gpus(each: Actor | PlacementGroup) -> float:
    """How many GPUs it holds."""
    if isinstance(each, Actor):
        return held if 0 < (held := each.needs.get("GPU", 0.0)) < MAX_GPUS_PER_ACTOR else 0.0
    return sum(held for bundle in each.bundles if bundle.node and 0 < (held := bundle.needs.get("GPU", 0.0)) < MAX_GPUS_PER_ACTOR)


def _leak_findings(facts: Facts, code: str, job: Job, left: list[PlacementGroup] | list[Actor]) -> Iterator[Finding]:
    """What a job has left behind; Ray itself takes away what isn't detached, which takes a while."""
    ended = plausible_time(job.ended, facts.now)
    lasted = facts.seconds_lasting(code, job.id) if ended is None else facts.now - ended
    if lasted < facts.limits.leak_age:
        return
    groups = code == "placement-group-leaked"
    noun = "placement group" if groups else "actor"
    names = [short_name(each.class_ if isinstance(each, Actor) else each.name) or each.id[:12] for each in left[:MAX_EVIDENCE_LINES]]
    many = (
        f"its {noun} {names[0]} still holds"
        if len(left) == 1
        else f"{len(left)} of its {noun}s ({joined_names(names, len(left))}) still hold"
    )
    gpus = sum(map(_held_gpus, left))
    yield Finding(
        code=code,
        level="warning",
        subject=f"job {short_name(job.id)}",
        text=f"job {short_name(job.id)} has ended ({short_name(job.status)}), but {many} {count(gpus)} GPU",
        evidence=(
            *map(_holding_line, left[:MAX_EVIDENCE_LINES]),
            f"`ray list {'placement-groups' if groups else 'actors'} --detail` lists them",
        ),
        since=ended,
        remedy=Remedy(
            "remove it, unless it is meant to outlive its job"
            if len(left) == 1
            else "remove them, unless they are meant to outlive their job",
            "remove-placement-group" if groups else "kill-actor",
        ),
        about=tuple(each.key for each in left),
        seen=facts.last_heard_before_fault("ray.placement_groups" if groups else "ray.actors"),
    )


def _holding_line(each: Actor | PlacementGroup) -> str:
    what = f"actor {short_name(each.class_)}" if isinstance(each, Actor) else f"placement group {short_name(each.name)}"
    kept = {True: ", detached", False: "", None: ""}[each.detached]
    return f"{what.strip()} {each.id[:12]} ({short_name(each.state)}{kept}) holds {count(_held_gpus(each))} GPU"
