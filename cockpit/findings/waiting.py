"""What waits for a place, and what can never get one: by class and job, so that a thousand actors are one finding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from cockpit.findings.facts import Facts
from cockpit.limits import Limits
from cockpit.model import LEVELS, Actor, Finding, Job, Level, PlacementGroup, Remedy, Wait
from cockpit.placement import amount, fixed
from cockpit.placement.ask import rank
from cockpit.text import clean, plural

Waiting = Actor | PlacementGroup
SHOWN = 5
"""Reasons that the evidence tells."""
STATES = ("PENDING_CREATION", "DEPENDENCIES_UNREADY", "RESTARTING")
HOPELESS = ("never", "removed", "deadlock")
"""No patience helps."""
SETUP = "runtime_env_setup-*.log and worker-*.err in the logs folder of Ray's session on its node"
REMEDIES: Mapping[Wait, tuple[str, str | None]] = {
    "never": ("no node can ever hold it: ask for less or add a node that can; until then its job waits in vain", "stop-job"),
    "itself": ("ask for less at once, share GPUs between its parts (`--colocate…`), or add a node", "stop-job"),
    "held": ("wait for what holds it, or end that", None),
    "fragmented": ("end what holds a part of a node, or ask for smaller bundles or another strategy", None),
    "short": ("ask for less of it for each GPU, or start Ray with more (`ray start --num-cpus`)", None),
    "label": ("free a node that has the label, give it to another (`ray start --labels`), or ask without it", None),
    "removed": ("its group does not come back: kill the actor", "kill-actor"),
    "starting": (f"look at {SETUP}", None),
    "room": (f"look whether it is bound to a node; else at {SETUP}", None),
}


def waiting_groups(facts: Facts) -> Iterator[Finding]:
    """Placement groups without a place, by job, with the actors that wait for them."""
    users: dict[str, list[Actor]] = {}
    by_job: dict[str | None, list[PlacementGroup]] = {}
    for group in facts.snapshot.placement_groups or ():
        if group.pending and group.wait != "deadlock":
            by_job.setdefault(group.job, []).append(group)
            users[group.id] = []
    for actor in (facts.snapshot.actors or ()) if users else ():
        if actor.placement_group in users and actor.state in STATES:
            users[actor.placement_group].append(actor)
    for job, groups in by_job.items():
        actors = [actor for group in groups for actor in users[group.id]]
        yield from _found(facts, Fold("placement-group-pending", owner(facts, job), _groups(facts, groups), job, groups, actors))


def waiting_actors(facts: Facts) -> Iterator[Finding]:
    """Actors without a place, by class and job; those that wait for their group are told with it."""
    groups = {group.id for group in facts.snapshot.placement_groups or () if group.pending}
    by_class: dict[tuple[str, str | None], list[Actor]] = {}
    for actor in facts.snapshot.actors or ():
        if actor.state in STATES and actor.wait not in ("group", "deadlock") and not actor.internal and actor.placement_group not in groups:
            by_class.setdefault((actor.class_, actor.job), []).append(actor)
    for (class_, job), actors in by_class.items():
        subject = actors_of(facts, class_, job)
        who = f"{len(actors)} actors" if len(actors) > 1 else "actor"
        yield from _found(facts, Fold("actor-pending", subject, f"{who} {subject}", job, actors))


class Fold(NamedTuple):
    """Things of a kind that wait, told as one."""

    code: str
    subject: str
    who: str
    job: str | None
    waiting: list[PlacementGroup] | list[Actor]
    after: Iterable[Actor] = ()
    """Actors that wait for them."""


def _found(facts: Facts, fold: Fold) -> Iterator[Finding]:
    """One finding for all of them; the worst reason is told, and of equal ones that of the most."""
    seen = facts.heard("ray.actors" if fold.code == "actor-pending" else "ray.placement_groups")
    now = seen or facts.now
    levels = {each.id: level for each in fold.waiting if (level := level_of(each, now, facts.limits))}
    if not levels:
        return
    worst = min(levels.values(), key=LEVELS.index)
    reasons = Counter((each.why, each.wait) for each in fold.waiting if levels.get(each.id) == worst)
    (why, wait), alike = reasons.most_common(1)[0]
    part = f", {alike} of them" if alike < len(fold.waiting) else ""
    job = facts.jobs.get(fold.job or "")
    remedy = _remedy(wait, job)
    yield Finding(
        code=fold.code,
        level=worst,
        subject=fold.subject,
        text=f"{fold.who} {'wait' if len(fold.waiting) > 1 else 'waits'}{part}" + (f": {why}" if why else ", and Ray gives no reason"),
        evidence=(*_reasons(fold), *_after(fold), _seen_by(fold)),
        since=min((each.since for each in fold.waiting if each.since is not None and 0 < each.since <= now), default=None),
        remedy=remedy,
        about=(
            *[each.key for each in fold.waiting],
            *[actor.key for actor in fold.after],
            *([job.key] if job and remedy and remedy.act == "stop-job" else []),
        ),
        seen=seen,
    )


def level_of(each: Waiting, now: float, limits: Limits) -> Level | None:
    """How bad it is that this waits still; `None` while it is too early to tell. What has waited before it was seen is told at once."""
    first = each.at_least if isinstance(each, Actor) else False
    waited = max(0.0, now - each.since) if each.since is not None and each.since > 0 else 0.0
    if each.wait in HOPELESS and (first or waited >= limits.waiting_hopeless):
        return "critical"
    slow = each.wait == "starting" or each.why is None or each.state == "DEPENDENCIES_UNREADY"
    if waited >= (limits.starting_long if slow else limits.waiting_long):
        return "warning"
    return "info" if first or waited >= limits.waiting_told else None


def _remedy(wait: Wait | None, job: Job | None) -> Remedy | None:
    text, act = REMEDIES.get(wait, (None, None)) if wait else (None, None)
    return Remedy(text, act if act != "stop-job" or stoppable(job) else None) if text else None


def stoppable(job: Job | None) -> bool:
    """Whether Ray's job API can stop it: not a driver that connected by itself."""
    return job is not None and job.running and job.submission is not None


def _reasons(fold: Fold) -> Iterator[str]:
    counted = Counter(each.why or "no reason is known" for each in fold.waiting)
    for why, number in counted.most_common(SHOWN):
        yield f"{number} x {why}" if len(fold.waiting) > 1 else why


def _after(fold: Fold) -> Iterator[str]:
    classes = Counter(short(actor.class_) for actor in fold.after)
    if classes:
        named = ", ".join(f"{number} x {class_}" for class_, number in classes.most_common(SHOWN))
        yield f"{plural(classes.total(), 'actor waits', 'actors wait')} for it: {named}"


def _seen_by(fold: Fold) -> str:
    kind = "actors" if fold.code == "actor-pending" else "placement-groups"
    ids = ", ".join(each.id[:12] for each in fold.waiting[:3])
    return f"`ray list {kind} --filter state={short(fold.waiting[0].state)}` lists {ids}{' …' if len(fold.waiting) > 3 else ''}"


def deadlocks(facts: Facts) -> Iterator[Finding]:
    """Jobs that hold what others wait for, and wait for what those hold."""
    by_job: dict[str, list[Waiting]] = {}
    for group in facts.snapshot.placement_groups or ():
        if group.wait == "deadlock" and group.job:
            by_job.setdefault(group.job, []).append(group)
    for actor in facts.snapshot.actors or ():
        if actor.wait == "deadlock" and actor.job:
            by_job.setdefault(actor.job, []).append(actor)
    seen = facts.heard("ray.actors", "ray.placement_groups")
    since = max((_first(mine, facts.now) for mine in by_job.values()), default=facts.now)
    lasted = (seen or facts.now) - since
    if by_job and lasted >= facts.limits.waiting_told:
        yield _deadlock(facts, by_job, "critical" if lasted >= facts.limits.waiting_hopeless else "info", since, seen)


def _first(mine: Iterable[Waiting], now: float) -> float:
    return min((each.since for each in mine if each.since is not None and 0 < each.since <= now), default=now)


def _deadlock(facts: Facts, by_job: Mapping[str, list[Waiting]], level: Level, since: float, seen: float | None) -> Finding:
    known = [facts.jobs[job] for job in by_job if job in facts.jobs]
    last = max(filter(stoppable, known), key=lambda job: job.started or 0, default=None)
    names = [short(facts.job_title(job)) for job in sorted(by_job)]
    who = f"{listed(names)} wait for each other" if len(names) > 1 else f"{names[0]} and another job wait for each other"
    whys = dict.fromkeys(each.why for mine in by_job.values() for each in mine if each.why)
    stop = f"stop job {short(last.id)}, which began last; the others go on" if last else "end the driver of one of them; the others go on"
    return Finding(
        code="deadlock",
        level=level,
        subject=f"{'jobs' if len(names) > 1 else 'job'} {listed(names)}",
        text="; ".join([f"{who}, and none goes on until one lets go", *_standings(facts, by_job)]),
        evidence=(*list(whys)[:SHOWN], "`ray status -v` shows what is used and what is waited for"),
        since=since,
        remedy=Remedy(stop, "stop-job" if last else None),
        about=(*[each.key for mine in by_job.values() for each in mine], *([last.key] if last else [])),
        seen=seen,
    )


def _standings(facts: Facts, by_job: Mapping[str, Iterable[Waiting]]) -> Iterator[str]:
    """What each job holds and waits for, of what more than one has to do with."""
    lacks = {job: sum((_lacked(each) for each in mine), Counter[str]()) for job, mine in by_job.items()}
    holds = _held(facts, by_job)
    names = sorted({name for mine in lacks.values() for name in mine} & {name for mine in holds.values() for name in mine}, key=rank)[:2]
    for job in sorted(by_job)[:SHOWN]:
        has, wants = (", ".join(amount(name, mine[job][name]) for name in names) for mine in (holds, lacks))
        if names:
            yield f"{short(facts.job_title(job))} holds {has} and waits for {wants}"


def _lacked(each: Waiting) -> Counter[str]:
    parts = [each.needs] if isinstance(each, Actor) else [bundle.needs for bundle in each.bundles if bundle.node is None]
    return sum(map(_exact, parts), Counter[str]())


def _held(facts: Facts, jobs: Iterable[str]) -> Mapping[str, Counter[str]]:
    held = {job: Counter[str]() for job in jobs}
    for actor in facts.snapshot.actors or ():
        if actor.job in held and actor.state == "ALIVE" and not actor.placement_group:
            held[actor.job].update(_exact(actor.needs))
    for group in facts.snapshot.placement_groups or ():
        if group.job in held and group.state in ("CREATED", "RESCHEDULING"):
            for bundle in group.bundles:
                held[group.job].update(_exact(bundle.needs) if bundle.node else {})
    return held


def _exact(needs: Mapping[str, float]) -> Counter[str]:
    return Counter({name: fixed(number) for name, number in needs.items() if 0 < number < 1e15})


def _groups(facts: Facts, groups: list[PlacementGroup]) -> str:
    names = [short(group.name) or group.id[:8] for group in groups]
    if len(groups) == 1:
        return f"placement group {names[0]} of {owner(facts, groups[0].job)}"
    return f"{len(groups)} placement groups of {owner(facts, groups[0].job)} ({listed(names)})"


def owner(facts: Facts, job: str | None) -> str:
    """A job in a sentence."""
    return f"job {short(facts.job_title(job))}" if job else "no known job"


def actors_of(facts: Facts, class_: str, job: str | None) -> str:
    """All actors of one class and job, as people call them."""
    return f"{short(class_)} of {owner(facts, job)}".strip()


def listed(names: list[str]) -> str:
    """The first of them, and how many more."""
    if len(names) > 3:
        return f"{', '.join(names[:3])} and {len(names) - 3} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def short(foreign: str) -> str:
    """A foreign name, fit for a sentence."""
    return clean(foreign)[:60]
