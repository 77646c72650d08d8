"""Workers that Ray's memory monitor has ended: what the state API and the dashboard's events say of them, each once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from cockpit.clock import redate, shift_of
from cockpit.model import OomKill
from cockpit.model.value import Value
from cockpit.secrets import redact
from cockpit.sources.ray.wire import Listing, Snake

ONLY = {"filter_keys": "exit_type", "filter_predicates": "=", "filter_values": "NODE_OUT_OF_MEMORY"}
LABEL = "Out of Memory"
KEEP_S = 3600.0
"""Seconds for which a kill is told."""
MAX_KILLS = 1000
"""Kills that are told; more in an hour is a loop, and the newest are enough to see it."""
CALM_PAUSE_S, PAUSE_PER_ANSWER_TIME = 30.0, 20
"""Seconds between two questions; and so many times as long as the answer took, because Ray goes through every worker for it."""
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
"""Before 2.56 (worker_killing_policy.cc): one task in each text; the ids end with the job's."""
_SAYS: Final = r"Memory on the node[^\n]{0,600}?(?=\. Ray killed|\n|$)"


class WorkerRecord(Snake, frozen=True):
    """A worker of `/api/v0/workers?detail=1`."""

    node_id: str | None = None
    pid: int | None = None
    end_time_ms: float | None = None
    exit_type: str | None = None
    exit_detail: str | None = None


class RayEvent(Snake, frozen=True, rename="camel"):
    """An event of `/events`; the raylet's time is a number, that of others a text."""

    label: str | None = None
    message: str | None = None
    timestamp: float | str | None = None
    custom_fields: Mapping[str, object] | None = None


class RayEvents(Snake, frozen=True):
    """`/events?job_id=global`: those that belong to no job."""

    events: tuple[RayEvent, ...] = ()


class OomFacts(Value, frozen=True):
    """The kills of the last hour, the newest first."""

    kills: tuple[OomKill, ...]


class OomKills:
    """Remembers what was told: a list that is cut, or empty for a moment, takes back nothing."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._shift = clock, shift_of(clock)
        self._known: dict[str, OomKill] = {}
        self._took = 0.0

    def pause(self) -> float:
        """Seconds until the next question."""
        return max(CALM_PAUSE_S, PAUSE_PER_ANSWER_TIME * self._took)

    def take(self, workers: Listing[WorkerRecord], events: RayEvents | None, took: float) -> OomFacts:
        """What is known after these answers; a worker's own record is believed before an event, which has whole seconds."""
        self._took = took
        found = [*_of_events(events or RayEvents()), *_of_workers(workers.result)]
        self._known.update((kill.key, kill) for kill in found)
        shift = self._shift()
        limit = self._clock() - shift - KEEP_S
        kept = [kill for kill in self._known.values() if kill.moment is not None and kill.moment >= limit]
        kept.sort(key=lambda kill: -(kill.moment or 0.0))
        self._known = {kill.key: kill for kill in kept[:MAX_KILLS]}
        return OomFacts(tuple(replace(kill, moment=redate(kill.moment, shift)) for kill in self._known.values()))


def _of_workers(workers: Iterable[WorkerRecord]) -> Iterator[OomKill]:
    for worker in workers:
        if worker.exit_type == ONLY["filter_values"] and worker.pid:
            text = worker.exit_detail or ""
            ended = worker.end_time_ms / 1000 if worker.end_time_ms else None
            bare = OomKill("ray", ended, worker.pid, node=worker.node_id, text=_line(text))
            victim = next((victim for victim in victims(text) if victim.pid == worker.pid), None)
            yield bare if victim is None else _with_victim(bare, victim)


def _of_events(events: RayEvents) -> Iterator[OomKill]:
    for event in events.events:
        if event.label == LABEL and event.message:
            node = (event.custom_fields or {}).get("nodeId")
            for victim in victims(event.message):
                where = node if isinstance(node, str) else None
                yield _with_victim(OomKill("ray", _moment(event.timestamp), victim.pid, node=where, text=_line(event.message)), victim)


def _with_victim(kill: OomKill, victim: OomKill) -> OomKill:
    return replace(kill, name=victim.name, actor=victim.actor, job=victim.job, held=victim.held)


def victims(text: str) -> Iterator[OomKill]:
    """Those that a text of Ray's says it has killed, whatever its version."""
    for match in (*re.finditer(_VICTIM, text), *re.finditer(_OLD_VICTIM, text)):
        found = match.groupdict()
        job = found.get("job") or (found.get("actor") or found.get("task") or "")[-8:]
        held = int(float(match["held"]) * _GIB)
        yield OomKill("ray", None, int(match["pid"]), redact(match["name"]), match["actor"], job or None, held=held)


def _line(text: str) -> str:
    match = re.search(_SAYS, text)
    return redact(match[0] if match else text[:300].splitlines()[0] if text else "")


def _moment(told: float | str | None) -> float | None:
    try:
        return None if told is None else float(told)
    except ValueError:
        return None
