"""Detects tasks that no node is large enough for. Tasks that only wait for their turn are no trouble: Ray queues tasks by design."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.findings.facts import Facts
from cockpit.findings.sources import rests_on
from cockpit.findings.waiting import REQUIRED_SOURCES, find_remedy, has_growth_ended
from cockpit.model import Finding, Level
from cockpit.placement import needs_words
from cockpit.text import plural

CODE = "task-pending"


@rests_on("ray.nodes", "ray.actors", "ray.status")
def waiting_tasks(facts: Facts) -> Iterator[Finding]:
    """Such tasks by their needs: Ray reports neither their jobs nor since when they wait."""
    limits = facts.limits
    for demand in facts.snapshot.demand or ():
        if demand.why is None:
            continue
        lasted = facts.seconds_lasting(CODE, demand.key)
        level: Level
        if demand.wait == "never" and has_growth_ended(facts, CODE, demand.key) and lasted >= limits.waiting_hopeless:
            level = "critical"
        elif lasted >= limits.waiting_long:
            level = "warning"
        elif lasted >= limits.waiting_told:
            level = "info"
        else:
            continue
        needs = needs_words(demand.needs)
        text = f"{plural(demand.count, 'task waits', 'tasks wait')} for {needs}: {demand.why}"
        evidence = (
            "`ray status` shows them under Demands",
            "`ray list tasks --filter state=PENDING_NODE_ASSIGNMENT` lists tasks that wait, with their jobs",
        )
        since, seen = facts.first_seen(CODE, demand.key), facts.last_answer_before_fault("ray.status", *REQUIRED_SOURCES)
        yield Finding(CODE, level, needs, text, evidence, since, find_remedy(demand.wait, None), (demand.key,), seen)
