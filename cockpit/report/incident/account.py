"""Defines the data of a report, which `cockpit report -o FILE.json` writes and all its texts are made from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from cockpit.model import Level, Phase
from cockpit.usage import IdleCause


class Episode(msgspec.Struct, frozen=True):
    """`findings[]`: one finding, from when it started to when it cleared."""

    code: str
    level: Level
    """The most severe level that it had."""
    subject: str
    text: str
    """The last text at that level."""
    told_at: float
    """The moment of that text, and of the evidence."""
    begin: float
    end: float | None
    """`null`: it had not cleared when the recording ended."""
    times: int = 1
    """How often it began, if it cleared and began again within a minute."""
    evidence: tuple[str, ...] = ()
    remedy: str | None = None
    action: str | None = msgspec.field(default=None, name="act")
    """The action of cockpit that helps."""
    about: tuple[str, ...] = ()
    """Keys of the things it is about: `job:ID`, `node:ID` and so on."""

    @property
    def key(self) -> str:
        """The key of its findings."""
        return f"finding:{self.code}:{self.subject}"


class FaultEpisode(msgspec.Struct, frozen=True):
    """`faults[]`: a failing source, with the other sources that failed with it."""

    source: str
    host: str | None
    text: str
    begin: float
    end: float | None
    title: str | None = None
    """The title of the host: the title of its node."""


class ActionDone(msgspec.Struct, frozen=True):
    """`acts[]`: an action of cockpit."""

    at: float
    action: str = msgspec.field(name="act")
    text: str
    user: str | None
    host: str | None
    """The host on which cockpit ran."""
    end: float | None
    """When it ended; `null`: not recorded."""
    outcome: Mapping[str, Any] | None = None
    """As in the log of actions."""
    targets: tuple[str, ...] = ()
    """Its targets, each with its job: `pid 4711 of job ppo-7b`, `job rm-72b`."""


class JobSpan(msgspec.Struct, frozen=True):
    """`jobs[]`: a job that started, ran or ended."""

    id: str
    session: str | None
    """The Ray session: job ids start again in each."""
    status: str
    """The last known status."""
    started: float | None
    ended: float | None
    """If it ended with its Ray: when that Ray was last seen."""
    entrypoint: str | None
    message: str | None
    """Ray's message; for a failed job with the end of its log."""
    error: str | None = None
    """The most important line of a failed job's message."""


class PhasePart(msgspec.Struct, frozen=True):
    """`phases[].parts[]`: a time in which one phase of a job took the most."""

    phase: Phase
    begin: float
    end: float


class JobCourse(msgspec.Struct, frozen=True):
    """`phases[]`: the phases of one job over time."""

    job: str
    session: str | None
    parts: tuple[PhasePart, ...]
    """In order; a time that is left out is unknown."""
    seconds: Mapping[str, float]
    """The seconds of each phase; `unknown` is one of them."""
    steps: int
    """Training steps that ended."""
    step_seconds: float | None
    """How long one of them took, on average."""


class MemoryStatus(msgspec.Struct, frozen=True):
    """`usage[].fullest_host`."""

    node: str
    at: float
    used: int
    total: int
    kill_at: int | None


class Hours(msgspec.Struct, frozen=True):
    """GPU-hours. The time in which GPUs were reserved or their memory was held is `busy` + `idle` + `unknown`."""

    reserved: float | None
    held: float | None
    busy: float
    idle: float
    idle_by_cause: Mapping[IdleCause, float]
    unknown: float
    """Hours in which it is unknown whether the GPUs worked; they don't count as idle."""


class UsageRow(msgspec.Struct, frozen=True):
    """`usage[]`: one job, or GPUs of no job by owner."""

    kind: str
    """`job`, `other Ray`, `no job`, `left over`."""
    name: str
    session: str | None
    """The Ray session: job ids start again in each."""
    user: str | None
    hours: Hours
    seen_s: float
    unwatched_s: float
    gpus_at_end: float | None
    gpu_memory: int | None
    host_memory: int | None
    """The most memory that its processes held."""
    fullest_host: MemoryStatus | None
    restarts: int
    kills: int
    """Kills for lack of memory."""


class UserRow(msgspec.Struct, frozen=True):
    """`users[]`."""

    user: str | None
    jobs: int
    hours: Hours
    gpus_at_end: float | None
    gpu_memory_at_end: int | None
    host_memory_at_end: int | None


class FleetHours(msgspec.Struct, frozen=True):
    """`fleet`: GPU-hours of all GPUs of the cluster."""

    there: float
    reserved: float
    busy: float
    idle: float
    unknown: float


class Point(msgspec.Struct, frozen=True):
    """`course[]`: one moment of the whole cluster."""

    at: float
    gpus: float | None
    reserved: float | None
    busy: float | None
    unknown: float
    memory: float | None
    """The fullest host: memory in use as a share of Ray's kill line, or of its memory if that line is unknown."""


class Account(msgspec.Struct, frozen=True):
    """The data of a report. Sizes are bytes, times POSIX seconds, `null` is unknown."""

    address: str | None
    ray_version: str | None
    session: str | None
    """The last Ray session in the report."""
    earlier_sessions: tuple[str, ...]
    """The sessions before it in their order, if Ray was restarted."""
    begin: float
    end: float
    job: str | None
    """The only job of the report; `null`: all jobs."""
    watched_s: float
    unwatched_s: float
    gaps: tuple[tuple[float, float], ...]
    """Times in which nothing was recorded."""
    damage: tuple[str, ...]
    findings: tuple[Episode, ...]
    faults: tuple[FaultEpisode, ...]
    actions: tuple[ActionDone, ...] = msgspec.field(name="acts")
    jobs: tuple[JobSpan, ...]
    phases: tuple[JobCourse, ...]
    """Of jobs whose phases are known, in the order of `jobs`."""
    usage: tuple[UsageRow, ...]
    users: tuple[UserRow, ...]
    fleet: FleetHours
    course: tuple[Point, ...]
    cockpit: str
    """The version of cockpit that wrote the report."""
    schema: int = 1


def account_json(account: Account) -> str:
    """The report as JSON for scripts."""
    return msgspec.json.format(msgspec.json.encode(account), indent=2).decode()
