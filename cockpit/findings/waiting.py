"""Detects pending actors and placement groups, one finding per class and job, and deadlocks between jobs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import inf
from operator import itemgetter
from typing import Final

import msgspec

from cockpit.findings.engine_timeout import ENGINE_WAITS_S, LIMIT_WORDS, deadline_words, find_deadline
from cockpit.findings.facts import Facts
from cockpit.findings.shell_words import shell_word
from cockpit.findings.sources import rests_on
from cockpit.model import DEADLOCK, LEVELS, Actor, Finding, Job, Level, PlacementGroup, Remedy, StartTrouble, Wait
from cockpit.placement import amount, scale_amount
from cockpit.placement.request import rank
from cockpit.text import age, clean, plural
from cockpit.text.grouping import group_by

Waiting = Actor | PlacementGroup
GROUPS_CODE = "placement-group-pending"
MAX_REASONS = 5
"""Reasons in the evidence."""
WAITING_STATES = ("PENDING_CREATION", "DEPENDENCIES_UNREADY", "RESTARTING")
REQUIRED_SOURCES = ("ray.identity", "ray.gcs")
"""While one of these sources fails, Ray's lists are old."""
HOPELESS = ("never", "removed", "deadlock")
"""Waiting longer does not help."""
HELD: Final = r"\d\S* (?:is|are) reserved\b"
"""In a reason, the holders of the resources follow these words."""
SETUP_LOGS = "runtime_env_setup-*.log and worker-*.err in the logs folder of the Ray session on its node"
REMEDIES: Mapping[Wait, tuple[str, str | None]] = {
    "never": ("ask for less, or add nodes that are large enough; otherwise its job waits forever", "stop-job"),
    "itself": ("ask for less at once, let its parts share GPUs, or add a node", "stop-job"),
    "held": ("wait until the resources are free, or stop what holds them", None),
    "fragmented": ("stop work that uses only a part of a node, or ask for smaller bundles or another strategy", None),
    "short": ("ask for less of the missing resource per GPU, or start Ray with more of it (CPUs: `--num-cpus` of `ray start`)", None),
    "label": ("free a node that has the label, give the label to another node (`--labels` of `ray start`), or ask without it", None),
    "removed": ("kill the actor: its placement group was removed, so it can never start", "kill-actor"),
    "starting": (f"read {SETUP_LOGS}", None),
    "room": (f"check whether it is bound to a node; if not, read {SETUP_LOGS}", None),
}


class WaitKind(msgspec.Struct, frozen=True):
    """Actors or groups that wait in the same way are judged together."""

    why: str | None
    wait: Wait | None
    state: str


Kinds = dict[WaitKind, list[Waiting]]


class WaitingSet(msgspec.Struct, frozen=True):
    """Actors or groups that share one finding."""

    code: str
    subject: str
    who: str
    job: str | None
    kinds: Kinds
    after: Sequence[Actor] = ()
    """Actors that wait for these placement groups."""
    deadline: float | None = None
    """When an engine gives up waiting for them, and the job fails."""

    @property
    def all(self) -> list[Waiting]:
        """The actors or groups of all kinds."""
        return [each for kind in self.kinds.values() for each in kind]


@rests_on("ray.placement_groups")
def waiting_groups(facts: Facts) -> Iterator[Finding]:
    """Pending placement groups by job, with the actors that wait for them."""
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
        words = _groups_words(facts, groups, job)
        yield from _worst_finding(facts, WaitingSet(GROUPS_CODE, job_words(facts, job), words, job, kinds, actors, find_deadline(groups)))


@rests_on("ray.actors")
def waiting_actors(facts: Facts) -> Iterator[Finding]:
    """Pending actors by class and job. An actor that waits for its placement group belongs to the finding of the group."""
    groups = {group.id for group in facts.snapshot.placement_groups or () if group.pending}
    by_class: dict[tuple[str, str | None], Kinds] = {}
    for actor in facts.snapshot.actors or ():
        if (
            actor.state in WAITING_STATES
            and actor.wait not in ("group", "deadlock")
            and not actor.internal
            and actor.placement_group not in groups
        ):
            kinds = by_class.setdefault((actor.class_, actor.job), {})
            kinds.setdefault(WaitKind(actor.why, actor.wait, actor.state), []).append(actor)
    for (class_, job), kinds in by_class.items():
        subject, number = actors_words(facts, class_, job), sum(map(len, kinds.values()))
        who = f"{number} actors" if number > 1 else "Actor"
        yield from _worst_finding(facts, WaitingSet("actor-pending", subject, f"{who} {subject}", job, kinds))


def _worst_finding(facts: Facts, waiting_set: WaitingSet) -> Iterator[Finding]:
    """One finding for the set, with the sentence of its worst kind: of equal levels the largest kind, of these one with a reason."""
    kinds, everything, is_group = waiting_set.kinds, waiting_set.all, waiting_set.code == GROUPS_CODE
    seen = facts.last_answer_before_fault("ray.placement_groups" if is_group else "ray.actors", *REQUIRED_SOURCES)
    now = seen or facts.now
    given_up = all(kind.wait != "never" for kind in kinds) or has_growth_ended(facts, waiting_set.code, waiting_set.subject)
    levels = {kind: _level(facts, kind, waiting, now, given_up=given_up) for kind, waiting in kinds.items()}
    if waiting_set.deadline is not None and waiting_set.deadline - now <= ENGINE_WAITS_S / 2:
        levels = {kind: "warning" if level == "info" else level for kind, level in levels.items()}
    ranked = [(LEVELS.index(level), -len(kinds[kind]), kind.why is None, kind, level) for kind, level in levels.items() if level]
    if not ranked:
        return
    *_, kind, level = min(ranked, key=itemgetter(0, 1, 2))

    # The sentence speaks of the worst kind and counts the others; the evidence has their reasons.
    alike = kinds[kind]
    others = len(everything) - len(alike)
    who = waiting_set.who
    if others:
        who = _groups_words(facts, alike, waiting_set.job) if is_group else f"{len(alike)} of {who}"
    trouble = find_trouble(facts, kind.why, alike)
    why = f": {kind.why}{silent_words(facts, trouble)}" if kind.why else ", and Ray gives no reason"
    rest = f"; {others} more {'waits for another reason' if others == 1 else 'wait for other reasons'}" if others else ""
    deadline = "" if waiting_set.deadline is None else f"; {deadline_words(waiting_set.deadline, facts.now)}"

    # Only the rows of kinds with this level are marked.
    as_bad = [each for other, waiting in kinds.items() if levels[other] == level for each in waiting]
    marked = {each.id for each in as_bad}
    job = facts.index.jobs.get(waiting_set.job or "")
    remedy = Remedy(trouble.remedy) if trouble and trouble.remedy else find_remedy(kind.wait, job)
    stopped = [job.key] if job and remedy and remedy.action == "stop-job" else []
    about = (*[each.key for each in as_bad], *[actor.key for actor in waiting_set.after if actor.placement_group in marked], *stopped)
    since = None if facts.is_single_sample and any(map(_is_of_unknown_age, everything)) else _first_waiting(everything, now)
    text, evidence = f"{who} {'wait' if len(alike) > 1 else 'waits'}{why}{rest}{deadline}", tuple(_evidence(waiting_set, kind))
    yield Finding(waiting_set.code, level, waiting_set.subject, text, evidence, since, remedy, about, seen)


def _evidence(waiting_set: WaitingSet, stated: WaitKind) -> Iterator[str]:
    """Reasons of the other kinds than the `stated` one, the limit of an engine, the actors that wait, and the command that lists all."""
    everything = waiting_set.all
    others: dict[str, list[Waiting]] = {}
    are_holders_named = bool(re.search(HELD, stated.why or ""))
    for kind, waiting in sorted(waiting_set.kinds.items(), key=lambda item: -len(item[1])):
        if kind.why != stated.why:
            why = kind.why or "Ray gives no reason"
            has_holders = bool(re.search(HELD, why))
            others.setdefault(why.partition("; ")[0] if has_holders and are_holders_named else why, []).extend(waiting)
            are_holders_named = are_holders_named or has_holders
    for why, part in list(others.items())[:MAX_REASONS]:
        # Actors of one class look alike, so only groups are named.
        named = f" ({join_names(display_names(part[:MAX_REASONS]), len(part))})" if waiting_set.code == GROUPS_CODE else ""
        yield f"{len(part)} of these {len(everything)}{named}: {why}"
    if waiting_set.deadline is not None:
        yield LIMIT_WORDS
    if classes := Counter([actor.class_ for actor in waiting_set.after]):
        named = ", ".join(f"{number} x {short_name(class_)}" for class_, number in classes.most_common(MAX_REASONS))
        yield f"{plural(classes.total(), 'actor waits', 'actors wait')} for this placement group: {named}"
    listed = "placement-groups" if waiting_set.code == GROUPS_CODE else "actors"
    names = join_names(display_names(everything[:MAX_REASONS]), len(everything))
    yield f"`ray list {listed} --filter state={shell_word(everything[0].state)}` lists {names}"


def has_growth_ended(facts: Facts, code: str, subject: str) -> bool:
    """Whether no node has joined lately, so that the one it waits for won't follow. Once this was true, a later node changes nothing."""
    begun = (node.started for node in facts.living_nodes if node.started is not None)
    quiet = not any(0 <= facts.now - started < facts.limits.waiting_hopeless for started in begun)
    return facts.seconds_steady(quiet, f"no node joins for {code}", subject, inf) is not None


def _level(facts: Facts, kind: WaitKind, waiting: Sequence[Waiting], now: float, *, given_up: bool) -> Level | None:
    """The level of these actors or groups that still wait; `None`: too early for a finding.

    Those that waited before cockpit started count with the longest time possible: a second cockpit, started a minute later or run
    once, must come to the same level. What fits on no node is hopeless only once nodes are `given_up`: no more of them join.
    """
    limits, least = facts.limits, now - (_first_waiting(waiting, now) or now)
    most = max(longest_wait(facts, each, now) for each in waiting)
    if kind.wait in HOPELESS and (given_up or kind.wait != "never") and most >= limits.waiting_hopeless:
        return "critical"
    if (trouble := find_trouble(facts, kind.why, waiting)) is not None and trouble.fails and most >= limits.waiting_hopeless:
        return "warning"
    if kind.wait == "starting" or kind.why is None or kind.state == "DEPENDENCIES_UNREADY":
        long = least >= limits.starting_long
    else:
        long = (most if given_up else least) >= limits.waiting_long
    return "warning" if long else "info" if most > least or least >= limits.waiting_told else None


def find_trouble(facts: Facts, why: str | None, waiting: Iterable[Waiting]) -> StartTrouble | None:
    """Why these actors don't start, by the logs of their nodes; `None`: it is not known, or `why` is another reason."""
    keys = {each.key for each in waiting}
    return next((trouble for trouble in facts.snapshot.starts if trouble.text == why and not keys.isdisjoint(trouble.about)), None)


def silent_words(facts: Facts, trouble: StartTrouble | None) -> str:
    """` (4m)`: for how long what it waits for has said nothing."""
    if trouble is None or trouble.silent_since is None:
        return ""
    return f" ({age(max(0.0, facts.now - trouble.silent_since))})"


def longest_wait(facts: Facts, each: Waiting, now: float) -> float:
    """The longest time, in seconds, that it can have waited: if it already waited when first seen, its job's whole life, or `inf`."""
    if not _is_of_unknown_age(each):
        return now - (plausible_time(each.since, now) or now)
    job = facts.index.jobs.get(each.job or "")
    started = plausible_time(job.started, now) if job else None
    return inf if started is None else now - started


def _is_of_unknown_age(each: Waiting) -> bool:
    """Whether it already waited when it was first seen: Ray does not report since when actors wait."""
    return isinstance(each, Actor) and each.at_least


def _first_waiting(waiting: Iterable[Waiting], now: float) -> float | None:
    """When the first of them began to wait; implausible times don't count."""
    return min([each.since for each in waiting if each.since is not None and 0 < each.since <= now], default=None)


def plausible_time(moment: float | None, now: float) -> float | None:
    """The moment, or `None` if it lies in the future or is not positive."""
    return moment if moment is not None and 0 < moment <= now else None


def find_remedy(wait: Wait | None, job: Job | None) -> Remedy | None:
    """The remedy for this kind of wait. It stops the job only if the job is known and Ray's job API can stop it."""
    text, action = REMEDIES.get(wait, (None, None)) if wait else (None, None)
    return Remedy(text, action if action != "stop-job" or is_stoppable(job) else None) if text else None


def is_stoppable(job: Job | None) -> bool:
    """Whether Ray's job API can stop it: it can't stop a driver that connected by itself."""
    return job is not None and job.running and job.submission is not None


@rests_on("ray.actors", "ray.placement_groups")
def deadlocks(facts: Facts) -> Iterator[Finding]:
    """Jobs that wait for resources which other such jobs hold, in a circle."""
    every: Iterator[Waiting] = chain(facts.snapshot.placement_groups or (), facts.snapshot.actors or ())
    by_job = group_by((each for each in every if each.wait == "deadlock" and each.job), lambda each: each.job or "")
    seen = facts.last_answer_before_fault("ray.actors", "ray.placement_groups", *REQUIRED_SOURCES)
    since = max((_first_waiting(mine, facts.now) or facts.now for mine in by_job.values()), default=facts.now)
    lasted = min((max(longest_wait(facts, each, seen or facts.now) for each in mine) for mine in by_job.values()), default=0.0)
    if not by_job or lasted < facts.limits.waiting_told:
        return
    known = [facts.index.jobs[job] for job in by_job if job in facts.index.jobs]
    last = max(filter(is_stoppable, known), key=lambda job: job.started or 0, default=None)
    names = [short_name(facts.job_title(job)) for job in sorted(by_job)]
    who = join_names(names) if len(names) > 1 else f"{names[0]} and another job"
    none = f"Deadlock: {who} wait for each other; none can continue until one of them releases its resources"
    whys = dict.fromkeys(each.why for mine in by_job.values() for each in mine if each.why)
    stop = f"stop job {short_name(last.id)}, which started last" if last else "kill the driver of one of them"
    level: Level = "critical" if lasted >= facts.limits.waiting_hopeless else "info"
    subject, text = f"{'jobs' if len(names) > 1 else 'job'} {join_names(names)}", "; ".join([none, *_holding_lines(facts, by_job)])
    evidence = (*[why.removeprefix(DEADLOCK) for why in whys][:MAX_REASONS], "`ray status -v` shows used and pending resources")
    remedy = Remedy(f"{stop}: then the others continue", "stop-job" if last else None)
    about = (*[each.key for mine in by_job.values() for each in mine], *([last.key] if last else []))
    yield Finding("deadlock", level, subject, text, evidence, since, remedy, about, seen)


def _holding_lines(facts: Facts, by_job: Mapping[str, Iterable[Waiting]]) -> Iterator[str]:
    """The amounts that each job holds and waits for, of the first two resources that jobs both hold and wait for."""
    lacks = {job: Counter[str]() for job in by_job}
    for job, mine in by_job.items():
        for each in mine:
            parts = [each.needs] if isinstance(each, Actor) else [bundle.needs for bundle in each.bundles if bundle.node is None]
            for needs in parts:
                lacks[job].update(_fixed_amounts(needs))

    holds = {job: Counter[str]() for job in by_job}
    for actor in facts.snapshot.actors or ():
        if actor.job in holds and actor.state == "ALIVE" and not actor.placement_group:
            holds[actor.job].update(_fixed_amounts(actor.needs))
    for group in facts.snapshot.placement_groups or ():
        if group.job in holds and group.state in ("CREATED", "RESCHEDULING"):
            for bundle in group.bundles:
                holds[group.job].update(_fixed_amounts(bundle.needs) if bundle.node else {})

    names = sorted({name for mine in lacks.values() for name in mine} & {name for mine in holds.values() for name in mine}, key=rank)[:2]
    for job in sorted(by_job)[:MAX_REASONS]:
        has, wants = (", ".join(amount(name, mine[job][name]) for name in names) for mine in (holds, lacks))
        if names:
            yield f"{short_name(facts.job_title(job))} holds {has} and waits for {wants}"


def _fixed_amounts(needs: Mapping[str, float]) -> Counter[str]:
    return Counter({name: scale_amount(number) for name, number in needs.items() if 0 < number < 1e15})


def _groups_words(facts: Facts, groups: Sequence[Waiting], job: str | None) -> str:
    names = display_names(groups[:MAX_REASONS])
    if len(groups) == 1:
        return f"Placement group {names[0]} of {job_words(facts, job)}"
    return f"{len(groups)} placement groups of {job_words(facts, job)} ({join_names(names, len(groups))})"


def job_words(facts: Facts, job: str | None) -> str:
    """A job's name, for a sentence."""
    return f"job {short_name(facts.job_title(job))}" if job else "an unknown job"


def actors_words(facts: Facts, class_: str, job: str | None) -> str:
    """All actors of one class and job, for a sentence."""
    return f"{short_name(class_)} of {job_words(facts, job)}".strip()


def join_names(names: Sequence[str], total: int = 0) -> str:
    """The first three names, and how many more there are."""
    if (more := max(total, len(names)) - 3) > 0:
        return f"{', '.join(names[:3])} and {more} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def short_name(foreign: str) -> str:
    """A name from the cluster: cleaned, at most 60 characters."""
    return clean(foreign[:60])


def kind_and_name(each: Waiting) -> str:
    """`actor CLASS NAME` or `placement group NAME`."""
    parts = ("actor", short_name(each.class_)) if isinstance(each, Actor) else ("placement group",)
    return " ".join(filter(None, (*parts, display_name(each))))


def display_name(each: Waiting) -> str:
    """The name its owner gave it; without a name, the beginning of its id."""
    return short_name(each.name) or each.id[:12]


def display_names(every: Sequence[Waiting]) -> list[str]:
    """Their names; if several have the same name, each with the beginning of its id."""
    names = list(map(display_name, every))
    return [f"{name} ({each.id[:8]})" if names.count(name) > 1 else name for name, each in zip(names, every, strict=True)]
