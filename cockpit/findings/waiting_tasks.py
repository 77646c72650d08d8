"""Tasks that no node is large enough for. Those that wait for their turn are no trouble: Ray is meant to have a queue of tasks."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.findings.facts import Facts
from cockpit.findings.sources import rests_on
from cockpit.findings.waiting import REQUIRED_SOURCES, find_remedy, has_growth_ended
from cockpit.model import Demand, Finding, Level
from cockpit.placement import needs_words
from cockpit.text import plural

CODE = "task-pending"


@rests_on("ray.nodes", "ray.actors", "ray.status")
def waiting_tasks(facts: Facts) -> Iterator[Finding]:
    """By what they ask for: Ray tells neither whose they are nor since when they wait."""
    for demand in facts.snapshot.demand or ():
        if demand.why is not None and (level := _level(facts, demand, facts.seconds_lasting(CODE, demand.key))):
            yield _finding(facts, demand, level)


def _level(facts: Facts, demand: Demand, lasted: float) -> Level | None:
    limits = facts.limits
    if demand.wait == "never" and has_growth_ended(facts, CODE, demand.key) and lasted >= limits.waiting_hopeless:
        return "critical"
    return "warning" if lasted >= limits.waiting_long else "info" if lasted >= limits.waiting_told else None


def _finding(facts: Facts, demand: Demand, level: Level) -> Finding:
    needs = needs_words(demand.needs)
    return Finding(
        code=CODE,
        level=level,
        subject=needs,
        text=f"{plural(demand.count, 'task waits', 'tasks wait')} for {needs}: {demand.why}",
        evidence=(
            "`ray status` shows them under Demands",
            "`ray list tasks --filter state=PENDING_NODE_ASSIGNMENT` lists tasks that wait, with their jobs",
        ),
        since=facts.first_seen(CODE, demand.key),
        remedy=find_remedy(demand.wait, None),
        about=(demand.key,),
        seen=facts.last_heard_before_fault("ray.status", *REQUIRED_SOURCES),
    )
