"""Reads the workers that Ray's memory monitor has killed from the state API and from the dashboard's events, each kill once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from cockpit.model import OomKill
from cockpit.model.value import Value
from cockpit.secrets import redact
from cockpit.sources.ray.wire import Listing, Snake
from cockpit.times.clock import redate, shift_of

OOM_FILTER = {"filter_keys": "exit_type", "filter_predicates": "=", "filter_values": "NODE_OUT_OF_MEMORY"}
_EVENT_LABEL = "Out of Memory"
KEEP_S = 3600.0
"""The seconds for which a kill is kept."""
MAX_KILLS = 1000
"""The number of kills that are kept. More in an hour are a loop, which the newest kills show well enough."""
CALM_PAUSE_S, PAUSE_PER_ANSWER_TIME = 30.0, 20
"""The least seconds between two requests, and the pause as a multiple of the time of the last answer: Ray scans all workers for it."""
_GIB = 1 << 30
_VICTIM: Final = (
    r"Selected to kill: \((?:Actor\((?P<actor>[0-9a-f]{32})\)|Task): job ID=(?P<job>[0-9a-f]{8}), [^\n]{0,300}?"
    r"task name=(?P<name>[^\n]{0,300}?), required resources=[^\n]{0,2000}?, pid=(?P<pid>\d{1,9}),"
    r" actual memory used=(?P<held>\d{1,9}\.\d\d)GB"
)
_OLD_VICTIM: Final = (
    r"where the task \((?:actor ID: (?P<actor>[0-9a-f]{32})|task ID: (?P<task>[0-9a-f]{48})), name=(?P<name>[^\n]{0,300}?),"
    r" pid=(?P<pid>\d{1,9}), memory used=(?P<held>\d{1,9}\.\d\d)GB\)"
)
"""The text before Ray 2.56 (worker_killing_policy.cc), with one task each; both ids end with the id of the job."""
_SUMMARY: Final = r"Memory on the node[^\n]{0,600}?(?=\. Ray killed|\n|$)"


class WorkerRecord(Snake, frozen=True):
    """A worker of `/api/v0/workers?detail=1`."""

    node_id: str | None = None
    pid: int | None = None
    end_time_ms: float | None = None
    exit_type: str | None = None
    exit_detail: str | None = None


class RayEvent(Snake, frozen=True, rename="camel"):
    """An event of `/events`. The time is a number in events of the raylet, and a text in others."""

    label: str | None = None
    message: str | None = None
    timestamp: float | str | None = None
    custom_fields: Mapping[str, object] | None = None


class RayEvents(Snake, frozen=True):
    """`/events?job_id=global`: the events that belong to no job."""

    events: tuple[RayEvent, ...] = ()


class OomFacts(Value, frozen=True):
    """The kills of the last hour, newest first."""

    kills: tuple[OomKill, ...]


class OomKills:
    """Collects the kills of all answers. A kill stays known even if a later list is cut or empty."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._shift = clock, shift_of(clock)
        self._known: dict[str, OomKill] = {}
        self._took = 0.0

    def pause(self) -> float:
        """The seconds until the next request."""
        return max(CALM_PAUSE_S, PAUSE_PER_ANSWER_TIME * self._took)

    def update(self, workers: Listing[WorkerRecord], events: RayEvents | None, took: float) -> OomFacts:
        """Add the kills of these answers, which took `took` seconds, and return all known kills."""
        self._took = took
        # The records of workers come last and win: events have only whole seconds.
        for kill in (*_read_events(events or RayEvents()), *_read_workers(workers.result)):
            self._known[kill.key] = kill
        shift = self._shift()
        limit = self._clock() - shift - KEEP_S
        kept = [kill for kill in self._known.values() if kill.moment is not None and kill.moment >= limit]
        kept.sort(key=lambda kill: -(kill.moment or 0.0))
        self._known = {kill.key: kill for kill in kept[:MAX_KILLS]}
        return OomFacts(tuple(replace(kill, moment=redate(kill.moment, shift)) for kill in self._known.values()))


def _read_workers(workers: Iterable[WorkerRecord]) -> Iterator[OomKill]:
    for worker in workers:
        if worker.exit_type == OOM_FILTER["filter_values"] and worker.pid:
            text = worker.exit_detail or ""
            ended = worker.end_time_ms / 1000 if worker.end_time_ms else None
            kill = OomKill("ray", ended, worker.pid, node=worker.node_id, text=_summary(text))
            victim = next((victim for victim in find_victims(text) if victim.pid == worker.pid), None)
            yield kill if victim is None else _add_victim(kill, victim)


def _read_events(events: RayEvents) -> Iterator[OomKill]:
    for event in events.events:
        if event.label == _EVENT_LABEL and event.message:
            node = (event.custom_fields or {}).get("nodeId")
            try:
                moment = None if event.timestamp is None else float(event.timestamp)
            except ValueError:
                moment = None
            for victim in find_victims(event.message):
                kill = OomKill("ray", moment, victim.pid, node=node if isinstance(node, str) else None, text=_summary(event.message))
                yield _add_victim(kill, victim)


def _add_victim(kill: OomKill, victim: OomKill) -> OomKill:
    return replace(kill, name=victim.name, actor=victim.actor, job=victim.job, held=victim.held)


def find_victims(text: str) -> Iterator[OomKill]:
    """The killed workers in a text of Ray, of any version."""
    for match in (*re.finditer(_VICTIM, text), *re.finditer(_OLD_VICTIM, text)):
        found = match.groupdict()
        job = found.get("job") or (found.get("actor") or found.get("task") or "")[-8:]
        held = int(float(match["held"]) * _GIB)
        yield OomKill("ray", None, int(match["pid"]), redact(match["name"]), match["actor"], job or None, held=held)


def _summary(text: str) -> str:
    """The sentence about the node's memory, else the first line, without secrets."""
    match = re.search(_SUMMARY, text)
    return redact(match[0] if match else text[:300].splitlines()[0] if text else "")
