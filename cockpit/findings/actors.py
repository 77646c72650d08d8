"""Actors that come up again and again, and what holds GPUs for a job that is over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cockpit.findings.facts import Facts
from cockpit.findings.waiting import actors_of, listed, moment, short
from cockpit.model import Actor, Finding, Job, PlacementGroup, Remedy
from cockpit.text import age, count

OVER = ("SUCCEEDED", "FAILED", "STOPPED")
SERVE = "SERVE_"
"""What Ray Serve calls its placement groups first: what it runs outlives the job that deployed it, as it should."""
SHOWN = 5
MOST = 1e6
"""GPUs of one actor, from where on it makes no sense."""


def restart_loops(facts: Facts) -> Iterator[Finding]:
    """Actors of a class that were restarted too often of late."""
    actors, within = facts.snapshot.actors, facts.limits.restarts_within
    if actors is None or not facts.snapshot.actors_complete:
        return
    counts = {actor.id: actor.restarts for actor in actors if actor.restarts and actor.restarts > 0}
    grown = facts.grown(f"restarts in {facts.snapshot.cluster.session}", counts, within)
    by_class: dict[tuple[str, str | None], list[Actor]] = {}
    for actor in actors if grown else ():
        if actor.id in grown:
            by_class.setdefault((actor.class_, actor.job), []).append(actor)
    for (class_, job), again in by_class.items():
        subject = actors_of(facts, class_, job)
        most = max(grown[actor.id] for actor in again)
        if facts.over(most, facts.limits.restarts, 1, "actor-restarting", subject):
            yield _looping(facts, subject, again, grown)


def _looping(facts: Facts, subject: str, actors: list[Actor], grown: Mapping[str, float]) -> Finding:
    actors = sorted(actors, key=lambda actor: (-grown[actor.id], actor.id))
    often = f"{count(grown[actors[0].id])} times in the last {age(facts.limits.restarts_within)}"
    one = len(actors) == 1
    return Finding(
        code="actor-restarting",
        level="warning",
        subject=subject,
        text=f"actor {subject} was restarted {often}"
        if one
        else f"{len(actors)} actors {subject} were restarted, the worst of them {often}",
        evidence=(
            *(f"actor {actor.id[:12]}: {count(grown[actor.id])} times, {actor.restarts} in all" for actor in actors[:SHOWN]),
            "`ray list actors --detail` shows num_restarts; worker-*.err in the logs folder of its node's Ray session shows why it ended",
        ),
        remedy=Remedy("look at the log of its last process; if it can't go on, kill the actor", "kill-actor"),
        about=tuple(actor.key for actor in actors),
        seen=facts.heard("ray.actors"),
    )


def leaked_groups(facts: Facts) -> Iterator[Finding]:
    """Placement groups that hold GPUs, of jobs that are over."""
    by_job: dict[str, list[PlacementGroup]] = {}
    for group in facts.snapshot.placement_groups or ():
        if group.job and _leaked(facts, group):
            by_job.setdefault(group.job, []).append(group)
    for job, groups in by_job.items():
        yield from _left(facts, "placement-group-leaked", facts.jobs[job], groups)


def leaked_actors(facts: Facts) -> Iterator[Finding]:
    """Actors that hold GPUs outside of any placement group, of jobs that are over."""
    by_job: dict[str, list[Actor]] = {}
    over = {job for job, known in facts.jobs.items() if known.status in OVER}
    for actor in (facts.snapshot.actors or ()) if over else ():
        if actor.job in over and actor.state == "ALIVE" and not actor.placement_group and actor.namespace != "serve" and _gpus(actor):
            by_job.setdefault(actor.job or "", []).append(actor)
    for job, actors in by_job.items():
        yield from _left(facts, "actor-leaked", facts.jobs[job], actors)


def _leaked(facts: Facts, group: PlacementGroup) -> bool:
    job = facts.jobs.get(group.job or "")
    return (
        job is not None
        and job.status in OVER
        and group.state in ("CREATED", "RESCHEDULING")
        and not group.name.startswith(SERVE)
        and _gpus(group) > 0
    )


def _gpus(each: Actor | PlacementGroup) -> float:
    """How many GPUs it holds."""
    if isinstance(each, Actor):
        return held if 0 < (held := each.needs.get("GPU", 0.0)) < MOST else 0.0
    return sum(held for bundle in each.bundles if bundle.node and 0 < (held := bundle.needs.get("GPU", 0.0)) < MOST)


def _left(facts: Facts, code: str, job: Job, left: list[PlacementGroup] | list[Actor]) -> Iterator[Finding]:
    """What a job has left behind; Ray itself takes away what isn't detached, which takes a while."""
    ended = moment(job.ended, facts.now)
    lasted = facts.lasts(code, job.id) if ended is None else facts.now - ended
    if lasted < facts.limits.leak_age:
        return
    groups = code == "placement-group-leaked"
    noun = "placement group" if groups else "actor"
    names = [short(each.class_ if isinstance(each, Actor) else each.name) or each.id[:12] for each in left[:SHOWN]]
    many = f"its {noun} {names[0]} holds" if len(left) == 1 else f"{len(left)} {noun}s of it ({listed(names, len(left))}) hold"
    gpus = sum(map(_gpus, left))
    yield Finding(
        code=code,
        level="warning",
        subject=f"job {short(job.id)}",
        text=f"job {short(job.id)} is over ({short(job.status)}), yet {many} {count(gpus)} GPU",
        evidence=(*map(_held, left[:SHOWN]), f"`ray list {'placement-groups' if groups else 'actors'} --detail` lists them"),
        since=ended,
        remedy=Remedy(
            "remove it, unless it shall outlive its job" if len(left) == 1 else "remove them, unless they shall outlive their job",
            "remove-placement-group" if groups else "kill-actor",
        ),
        about=tuple(each.key for each in left),
        seen=facts.heard("ray.placement_groups" if groups else "ray.actors"),
    )


def _held(each: Actor | PlacementGroup) -> str:
    what = f"actor {short(each.class_)}" if isinstance(each, Actor) else f"placement group {short(each.name)}"
    kept = {True: ", detached", False: "", None: ""}[each.detached]
    return f"{what.strip()} {each.id[:12]} ({short(each.state)}{kept}) holds {count(_gpus(each))} GPU"
