"""Why a job's GPUs do nothing, as far as one snapshot and the one before show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from cockpit.findings.stalls import GPUS_PER_ODD_ONE
from cockpit.model import Actor, PlacementGroup, Snapshot

IdleCause = Literal["placement", "loading", "rank", "turn", "unused", "dead", "unseen"]
CAUSES: Final[Mapping[IdleCause, str]] = {
    "placement": "the job waits for placement",
    "loading": "starting or loading",
    "rank": "one rank or a few behind the others",
    "turn": "other GPUs of the job at work",
    "unused": "reserved, and no process uses it",
    "dead": "left over by what has ended, or lost",
    "unseen": "cause not seen",
}
"""In the order in which they are listed. `unseen` is idle for sure, and why is not known; a GPU of which nobody knows whether it works is
not idle at all."""


@dataclass
class JobState:
    """What of a job speaks for a cause."""

    waits: bool = False
    """Something of it that needs GPUs has no place."""
    starts: bool = False
    """An actor of it has its place, and is being started."""
    hangs: bool = False
    """Its GPUs are found to wait for each other."""
    over: bool = False
    """Ray says that it has ended."""


def read_states(snapshot: Snapshot) -> dict[str, JobState]:
    """By the id that its actors and groups carry."""
    states: dict[str, JobState] = {}
    things: list[Actor | PlacementGroup] = [*(snapshot.placement_groups or ()), *(snapshot.actors or ())]
    for thing in things:
        if thing.job and thing.pending and _needs_gpus(thing):
            state = states.setdefault(thing.job, JobState())
            state.starts |= thing.wait == "starting"
            state.waits |= thing.wait != "starting"
    hung = {key for finding in snapshot.findings if finding.code == "job-hung" for key in finding.about}
    for job in snapshot.jobs or ():
        if job.key in hung or not job.running:
            state = states.setdefault(job.job or job.id, JobState())
            state.hangs, state.over = job.key in hung, not job.running
    return states


def _needs_gpus(thing: Actor | PlacementGroup) -> bool:
    if isinstance(thing, Actor):
        return bool(thing.needs.get("GPU") or thing.placement_group)
    return any(bundle.needs.get("GPU") for bundle in thing.bundles)


def unused_cause(state: JobState) -> IdleCause:
    """Of a GPU that is reserved, and whose memory nobody holds."""
    return "dead" if state.over else "placement" if state.waits else "loading" if state.starts else "unused"


def idle_cause(state: JobState, *, grows: bool, busy: float, held: float) -> IdleCause:
    """Of a GPU whose memory it holds and that does nothing. `grows`: that memory does; `busy` of `held` GPUs of the job work."""
    if state.over:
        return "dead"
    if state.hangs:
        return "rank"
    if grows or state.starts:
        return "loading"
    if state.waits:
        return "placement"
    if not busy:
        return "unseen"
    return "rank" if busy * GPUS_PER_ODD_ONE <= held else "turn"
