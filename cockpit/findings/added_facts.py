"""Adds to the reason of a failed job what the cluster shows now: who has the port, who holds the memory, who has the name."""

from __future__ import annotations

import msgspec

from cockpit.findings.facts import Facts
from cockpit.findings.failures import known_part
from cockpit.findings.ports import find_wanted_port
from cockpit.model import Failure, Job
from cockpit.text import clean

MAX_COMMAND_CHARS = 100
"""Of the command of a process."""


class AddedFacts(msgspec.Struct, frozen=True):
    """What the cluster's present state adds to a failure."""

    evidence: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    """Keys of the things that the action takes."""
    action: str | None = None


def added_facts(facts: Facts, job: Job, failure: Failure) -> AddedFacts:
    """What is known about the things that the error names."""
    if known_part(failure, ("port",)):
        return _port_facts(facts, job, failure)
    if name := known_part(failure, ("actor_name",)):
        return _name_facts(facts, name)
    return AddedFacts()


def _port_facts(facts: Facts, job: Job, failure: Failure) -> AddedFacts:
    """The processes that now listen on the port that the job needed, as far as known; else a command that shows them."""
    port, wanted = known_part(failure, ("port",)), find_wanted_port(job, facts.snapshot)
    answer = next((one for one in facts.snapshot.ports if wanted and (one.host, one.port) == (wanted.host, wanted.port)), None)
    if wanted is None or answer is None or answer.listeners is None:
        return AddedFacts((f"`ss -ltnp 'sport = :{port}'` on the node where it failed shows who has port {port} now",))
    place = clean(facts.titles.of_host(wanted.host))
    lines: list[str] = []
    about: list[str] = []
    is_left_over = False
    for one in answer.listeners:
        listed = facts.index.processes_by_host.get(wanted.host, ())
        known = next((each for each in listed if each.pid == one.pid and one.ticks is not None and each.ticks == one.ticks), None)
        if known is not None:
            about.append(known.key)
            is_left_over = is_left_over or known.left_over
        user = clean(one.user or "")[:40]
        who = f"process {one.pid}{f' of {user}' if user else ''}" if one.pid else f"a process of {user or 'another user'}"
        ray = clean(", ".join(filter(None, (known.kind, known.session)))) if known else ""
        command = clean(" ".join((one.command or "").split()))[:MAX_COMMAND_CHARS]
        what = f"{f' ({ray})' if ray else ''}{f': {command}' if command else ''}"
        lines.append(f"{who} listens on port {wanted.port} of {place} now{what}")
    lines = lines or [f"nothing listens on port {wanted.port} of {place} now (containers not checked)"]
    return AddedFacts(tuple(lines), tuple(about), "kill-orphans" if is_left_over else None)


def _name_facts(facts: Facts, name: str) -> AddedFacts:
    """The living actors that have the name."""
    having = [actor for actor in facts.snapshot.actors or () if actor.name == name and actor.state != "DEAD" and not actor.internal]
    lines = [f"actor {clean(name)} is {clean(actor.state)}, of job {facts.job_title(actor.job)}" for actor in having[:3]]
    return AddedFacts(tuple(lines), tuple(actor.key for actor in having), "kill-actor" if len(having) == 1 else None)
