"""Pending actors and placement groups, one finding per class and job, and deadlocks between jobs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import inf
from operator import itemgetter
from typing import Final

import msgspec

from cockpit.alike import group_by
from cockpit.findings.facts import Facts
from cockpit.findings.give_up import ENGINE_WAITS_S, LIMIT_WORDS, deadline_words, find_deadline
from cockpit.findings.shell_words import shell_word
from cockpit.findings.sources import rests_on
from cockpit.model import DEADLOCK, LEVELS, Actor, Finding, Job, Level, PlacementGroup, Remedy, Wait
from cockpit.placement import amount, scale_amount
from cockpit.placement.request import rank
from cockpit.text import clean, plural

Waiting = Actor | PlacementGroup
GROUPS_CODE = "placement-group-pending"
MAX_REASONS = 5
"""Reasons that the evidence tells."""
WAITING_STATES = ("PENDING_CREATION", "DEPENDENCIES_UNREADY", "RESTARTING")
REQUIRED_SOURCES = ("ray.identity", "ray.gcs")
"""Without them nothing that Ray says is new."""
HOPELESS = ("never", "removed", "deadlock")
"""No patience helps."""
HELD: Final = r"\d\S* (?:is|are) reserved\b"
"""Who holds what is needed stands behind this in a reason."""
SETUP_LOGS = "runtime_env_setup-*.log and worker-*.err in the logs folder of the Ray session on its node"
REMEDIES: Mapping[Wait, tuple[str, str | None]] = {
    "never": ("ask for less, or add nodes that are large enough; otherwise its job waits forever", "stop-job"),
    "itself": ("ask for less at once, share GPUs between its parts (OpenRLHF: `--colocate_all_models`), or add a node", "stop-job"),
    "held": ("wait until the resources are free, or stop what holds them", None),
    "fragmented": ("stop work that uses only a part of a node, or ask for smaller bundles or another strategy", None),
    "short": ("ask for less of the missing resource per GPU, or start Ray with more of it (CPUs: `--num-cpus` of `ray start`)", None),
    "label": ("free a node that has the label, give the label to another node (`--labels` of `ray start`), or ask without it", None),
    "removed": ("kill the actor: its placement group was removed, so it can never start", "kill-actor"),
    "starting": (f"read {SETUP_LOGS}", None),
    "room": (f"check whether it is bound to a node; if not, read {SETUP_LOGS}", None),
}


class WaitKind(msgspec.Struct, frozen=True):
    """What waits in the same way is judged as one."""

    why: str | None
    wait: Wait | None
    state: str


Kinds = dict[WaitKind, list[Waiting]]


class WaitingSet(msgspec.Struct, frozen=True):
    """What is told as one."""

    code: str
    subject: str
    who: str
    job: str | None
    kinds: Kinds
    after: Sequence[Actor] = ()
    """Actors that wait for it."""
    deadline: float | None = None
    """When it is given up, and its job fails."""

    @property
    def all(self) -> list[Waiting]:
        """Whatever its kind."""
        return [each for kind in self.kinds.values() for each in kind]


@rests_on("ray.placement_groups")
def waiting_groups(facts: Facts) -> Iterator[Finding]:
    """Placement groups without a place, by job, with the actors that wait for them."""
    users: dict[str, list[Actor]] = {}
    by_job: dict[str | None, Kinds] = {}
    for group in facts.snapshot.placement_groups or ():
        if group.pending and group.wait != "deadlock":
            by_job.setdefault(group.job, {}).setdefault(WaitKind(group.why, group.wait, group.state), []).append(group)
            users[group.id] = []
    for actor in (facts.snapshot.actors or ()) if users else ():
        if actor.placement_group in users and actor.state in WAITING_STATES:
            users[actor.placement_group].append(actor)
    for job, kinds in by_job.items():
        groups = [group for kind in kinds.values() for group in kind if isinstance(group, PlacementGroup)]
        actors = [actor for group in groups for actor in users[group.id]]
        fold = WaitingSet(GROUPS_CODE, job_words(facts, job), _groups_words(facts, groups, job), job, kinds, actors, find_deadline(groups))
        yield from _worst_finding(facts, fold)


@rests_on("ray.actors")
def waiting_actors(facts: Facts) -> Iterator[Finding]:
    """Actors without a place, by class and job; those that wait for their group are told with it."""
    groups = {group.id for group in facts.snapshot.placement_groups or () if group.pending}
    alike: dict[tuple[str, str | None, str | None, Wait | None, str], list[Waiting]] = {}
    for actor in facts.snapshot.actors or ():
        if (
            actor.state in WAITING_STATES
            and actor.wait not in ("group", "deadlock")
            and not actor.internal
            and actor.placement_group not in groups
        ):
            alike.setdefault((actor.class_, actor.job, actor.why, actor.wait, actor.state), []).append(actor)
    by_class: dict[tuple[str, str | None], Kinds] = {}
    for (class_, job, why, wait, state), waiting in alike.items():
        by_class.setdefault((class_, job), {})[WaitKind(why, wait, state)] = waiting
    for (class_, job), kinds in by_class.items():
        subject, number = actors_words(facts, class_, job), sum(map(len, kinds.values()))
        who = f"{number} actors" if number > 1 else "Actor"
        yield from _worst_finding(facts, WaitingSet("actor-pending", subject, f"{who} {subject}", job, kinds))


def _worst_finding(facts: Facts, fold: WaitingSet) -> Iterator[Finding]:
    """One finding for all of them; the worst kind is told, of equal ones that of the most, of these one that has a reason."""
    seen = facts.last_heard_before_fault("ray.actors" if fold.code == "actor-pending" else "ray.placement_groups", *REQUIRED_SOURCES)
    now = seen or facts.now
    given_up = _is_given_up(facts, fold)
    levels = {kind: _level(facts, kind, waiting, now, given_up=given_up) for kind, waiting in fold.kinds.items()}
    if fold.deadline is not None and fold.deadline - now <= ENGINE_WAITS_S / 2:
        levels = {kind: "warning" if level == "info" else level for kind, level in levels.items()}
    told = [(LEVELS.index(level), -len(fold.kinds[kind]), kind.why is None, kind, level) for kind, level in levels.items() if level]
    if told:
        *_, kind, level = min(told, key=itemgetter(0, 1, 2))
        as_bad = [each for other, waiting in fold.kinds.items() if levels[other] == level for each in waiting]
        yield _finding(facts, fold, kind, level, seen, as_bad)


def _finding(facts: Facts, fold: WaitingSet, kind: WaitKind, level: Level, seen: float | None, as_bad: Sequence[Waiting]) -> Finding:
    """`as_bad`: those that have this level too; only their rows are marked with it."""
    waiting = fold.all
    marked = {each.id for each in as_bad}
    job = facts.jobs.get(fold.job or "")
    remedy = find_remedy(kind.wait, job)
    stopped = [job.key] if job and remedy and remedy.act == "stop-job" else []
    limits = [] if fold.deadline is None else [LIMIT_WORDS]
    return Finding(
        code=fold.code,
        level=level,
        subject=fold.subject,
        text=_sentence(facts, fold, kind),
        evidence=(*_other_reasons(fold, kind), *limits, *_waiting_actor_lines(fold), _list_command(fold, waiting)),
        since=None if facts.is_single_look and any(map(_is_of_unknown_age, waiting)) else _first_waiting(waiting, seen or facts.now),
        remedy=remedy,
        about=(*[each.key for each in as_bad], *[actor.key for actor in fold.after if actor.placement_group in marked], *stopped),
        seen=seen,
    )


def _sentence(facts: Facts, fold: WaitingSet, kind: WaitKind) -> str:
    """Of those that wait for one reason, and that others wait for another; of the others the evidence tells."""
    alike, others = fold.kinds[kind], len(fold.all) - len(fold.kinds[kind])
    who = fold.who if not others else _groups_words(facts, alike, fold.job) if fold.code == GROUPS_CODE else f"{len(alike)} of {fold.who}"
    why = f": {kind.why}" if kind.why else ", and Ray gives no reason"
    rest = f"; {others} more {'waits for another reason' if others == 1 else 'wait for other reasons'}" if others else ""
    given_up = "" if fold.deadline is None else f"; {deadline_words(fold.deadline, facts.now)}"
    return f"{who} {'wait' if len(alike) > 1 else 'waits'}{why}{rest}{given_up}"


def _part_words(fold: WaitingSet, part: Sequence[Waiting]) -> str:
    """Which of them: groups by their names; actors of one class, which are alike, only by their number."""
    named = f" ({join_names(told_names(part[:MAX_REASONS]), len(part))})" if fold.code == GROUPS_CODE else ""
    return f"{len(part)} of these {len(fold.all)}{named}"


def _is_given_up(facts: Facts, fold: WaitingSet) -> bool:
    """Whether there is no hope of a node that it waits for."""
    return all(kind.wait != "never" for kind in fold.kinds) or has_growth_ended(facts, fold.code, fold.subject)


def has_growth_ended(facts: Facts, code: str, subject: str) -> bool:
    """Whether no node has joined of late that could be followed by the one it waits for; once it was so, that is no hope any more."""
    begun = (node.started for node in facts.living_nodes if node.started is not None)
    quiet = not any(0 <= facts.now - started < facts.limits.waiting_hopeless for started in begun)
    return facts.seconds_steady(quiet, f"no node joins for {code}", subject, inf) is not None


def _level(facts: Facts, kind: WaitKind, waiting: Sequence[Waiting], now: float, *, given_up: bool) -> Level | None:
    """How bad it is that these wait still; `None` while it is too early to tell.

    What waited before anybody looked is taken to have waited for as long as it can have: who looks a minute later, or only once, must not
    tell another level. What no node can hold is hopeless only once nodes are `given_up`: no more of them join.
    """
    limits, least = facts.limits, now - (_first_waiting(waiting, now) or now)
    most = max(most_waited(facts, each, now) for each in waiting)
    if kind.wait in HOPELESS and (given_up or kind.wait != "never") and most >= limits.waiting_hopeless:
        return "critical"
    if kind.wait == "starting" or kind.why is None or kind.state == "DEPENDENCIES_UNREADY":
        long = least >= limits.starting_long
    else:
        long = (most if given_up else least) >= limits.waiting_long
    return "warning" if long else "info" if most > least or least >= limits.waiting_told else None


def most_waited(facts: Facts, each: Waiting, now: float) -> float:
    """Seconds for which it can have waited; where it did so when it was first seen, all of its job's life, as far as that is known."""
    if not _is_of_unknown_age(each):
        return now - (plausible_time(each.since, now) or now)
    job = facts.jobs.get(each.job or "")
    started = plausible_time(job.started, now) if job else None
    return inf if started is None else now - started


def _is_of_unknown_age(each: Waiting) -> bool:
    """Whether it waited already when it was first seen: Ray does not tell since when actors wait."""
    return isinstance(each, Actor) and each.at_least


def _first_waiting(waiting: Iterable[Waiting], now: float) -> float | None:
    """When the first of them began to wait, as far as that makes sense."""
    return min([each.since for each in waiting if each.since is not None and 0 < each.since <= now], default=None)


def plausible_time(told: float | None, now: float) -> float | None:
    """A time that makes sense; unknown where it doesn't."""
    return told if told is not None and 0 < told <= now else None


def find_remedy(wait: Wait | None, job: Job | None) -> Remedy | None:
    """What helps; the job can be stopped only where it is known and Ray's job API can do it."""
    text, act = REMEDIES.get(wait, (None, None)) if wait else (None, None)
    return Remedy(text, act if act != "stop-job" or is_stoppable(job) else None) if text else None


def is_stoppable(job: Job | None) -> bool:
    """Whether Ray's job API can stop it: not a driver that connected by itself."""
    return job is not None and job.running and job.submission is not None


def _other_reasons(fold: WaitingSet, told: WaitKind) -> Iterator[str]:
    """Of those that wait for another reason than the sentence tells; who holds what they need is told once."""
    others: dict[str, list[Waiting]] = {}
    is_told = bool(re.search(HELD, told.why or ""))
    for kind, waiting in sorted(fold.kinds.items(), key=lambda item: -len(item[1])):
        if kind.why != told.why:
            why = kind.why or "Ray gives no reason"
            is_held = bool(re.search(HELD, why))
            others.setdefault(why.partition("; ")[0] if is_held and is_told else why, []).extend(waiting)
            is_told = is_told or is_held
    yield from (f"{_part_words(fold, waiting)}: {why}" for why, waiting in list(others.items())[:MAX_REASONS])


def _waiting_actor_lines(fold: WaitingSet) -> Iterator[str]:
    classes = Counter([actor.class_ for actor in fold.after])
    if classes:
        named = ", ".join(f"{number} x {short_name(class_)}" for class_, number in classes.most_common(MAX_REASONS))
        yield f"{plural(classes.total(), 'actor waits', 'actors wait')} for this placement group: {named}"


def _list_command(fold: WaitingSet, waiting: Sequence[Waiting]) -> str:
    kind = "actors" if fold.code == "actor-pending" else "placement-groups"
    names = join_names(told_names(waiting[:MAX_REASONS]), len(waiting))
    return f"`ray list {kind} --filter state={shell_word(waiting[0].state)}` lists {names}"


@rests_on("ray.actors", "ray.placement_groups")
def deadlocks(facts: Facts) -> Iterator[Finding]:
    """Jobs that hold what others wait for, and wait for what those hold."""
    every: Iterator[Waiting] = chain(facts.snapshot.placement_groups or (), facts.snapshot.actors or ())
    by_job = group_by((each for each in every if each.wait == "deadlock" and each.job), lambda each: each.job or "")
    seen = facts.last_heard_before_fault("ray.actors", "ray.placement_groups", *REQUIRED_SOURCES)
    since = max((_first_waiting(mine, facts.now) or facts.now for mine in by_job.values()), default=facts.now)
    lasted = min((max(most_waited(facts, each, seen or facts.now) for each in mine) for mine in by_job.values()), default=0.0)
    if by_job and lasted >= facts.limits.waiting_told:
        yield _deadlock(facts, by_job, "critical" if lasted >= facts.limits.waiting_hopeless else "info", since, seen)


def _deadlock(facts: Facts, by_job: Mapping[str, list[Waiting]], level: Level, since: float, seen: float | None) -> Finding:
    known = [facts.jobs[job] for job in by_job if job in facts.jobs]
    last = max(filter(is_stoppable, known), key=lambda job: job.started or 0, default=None)
    names = [short_name(facts.job_title(job)) for job in sorted(by_job)]
    who = join_names(names) if len(names) > 1 else f"{names[0]} and another job"
    none = f"Deadlock: {who} wait for each other; none can continue until one of them releases its resources"
    whys = dict.fromkeys(each.why for mine in by_job.values() for each in mine if each.why)
    stop = f"stop job {short_name(last.id)}, which started last" if last else "kill the driver of one of them"
    return Finding(
        code="deadlock",
        level=level,
        subject=f"{'jobs' if len(names) > 1 else 'job'} {join_names(names)}",
        text="; ".join([none, *_standing_lines(facts, by_job)]),
        evidence=(*[why.removeprefix(DEADLOCK) for why in whys][:MAX_REASONS], "`ray status -v` shows used and pending resources"),
        since=since,
        remedy=Remedy(f"{stop}: then the others continue", "stop-job" if last else None),
        about=(*[each.key for mine in by_job.values() for each in mine], *([last.key] if last else [])),
        seen=seen,
    )


def _standing_lines(facts: Facts, by_job: Mapping[str, Iterable[Waiting]]) -> Iterator[str]:
    """What each job holds and waits for, of what more than one has to do with."""
    lacks = {job: sum((_sum_lacking(each) for each in mine), Counter[str]()) for job, mine in by_job.items()}
    holds = _held_by_job(facts, by_job)
    names = sorted({name for mine in lacks.values() for name in mine} & {name for mine in holds.values() for name in mine}, key=rank)[:2]
    for job in sorted(by_job)[:MAX_REASONS]:
        has, wants = (", ".join(amount(name, mine[job][name]) for name in names) for mine in (holds, lacks))
        if names:
            yield f"{short_name(facts.job_title(job))} holds {has} and waits for {wants}"


def _sum_lacking(each: Waiting) -> Counter[str]:
    parts = [each.needs] if isinstance(each, Actor) else [bundle.needs for bundle in each.bundles if bundle.node is None]
    return sum(map(_fixed_amounts, parts), Counter[str]())


def _held_by_job(facts: Facts, jobs: Iterable[str]) -> Mapping[str, Counter[str]]:
    held = {job: Counter[str]() for job in jobs}
    for actor in facts.snapshot.actors or ():
        if actor.job in held and actor.state == "ALIVE" and not actor.placement_group:
            held[actor.job].update(_fixed_amounts(actor.needs))
    for group in facts.snapshot.placement_groups or ():
        if group.job in held and group.state in ("CREATED", "RESCHEDULING"):
            for bundle in group.bundles:
                held[group.job].update(_fixed_amounts(bundle.needs) if bundle.node else {})
    return held


def _fixed_amounts(needs: Mapping[str, float]) -> Counter[str]:
    return Counter({name: scale_amount(number) for name, number in needs.items() if 0 < number < 1e15})


def _groups_words(facts: Facts, groups: Sequence[Waiting], job: str | None) -> str:
    names = told_names(groups[:MAX_REASONS])
    if len(groups) == 1:
        return f"Placement group {names[0]} of {job_words(facts, job)}"
    return f"{len(groups)} placement groups of {job_words(facts, job)} ({join_names(names, len(groups))})"


def job_words(facts: Facts, job: str | None) -> str:
    """A job in a sentence."""
    return f"job {short_name(facts.job_title(job))}" if job else "an unknown job"


def actors_words(facts: Facts, class_: str, job: str | None) -> str:
    """All actors of one class and job, as people call them."""
    return f"{short_name(class_)} of {job_words(facts, job)}".strip()


def join_names(names: Sequence[str], total: int = 0) -> str:
    """The first of them, and how many more."""
    if (more := max(total, len(names)) - 3) > 0:
        return f"{', '.join(names[:3])} and {more} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def short_name(foreign: str) -> str:
    """A foreign name, fit for a sentence."""
    return clean(foreign[:60])


def what_words(each: Waiting) -> str:
    """What it is, and its name."""
    parts = ("actor", short_name(each.class_)) if isinstance(each, Actor) else ("placement group",)
    return " ".join(filter(None, (*parts, told_name(each))))


def told_name(each: Waiting) -> str:
    """The name its owner gave it; of one without a name a part of its id."""
    return short_name(each.name) or each.id[:12]


def told_names(every: Sequence[Waiting]) -> list[str]:
    """Their names; a part of the id behind those that several have."""
    names = list(map(told_name, every))
    return [f"{name} ({each.id[:8]})" if names.count(name) > 1 else name for name, each in zip(names, every, strict=True)]
