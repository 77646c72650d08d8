"""The shape of a report: what `cockpit report -o FILE.json` writes, and what its texts are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from cockpit.model import Level
from cockpit.usage import IdleCause


class Episode(msgspec.Struct, frozen=True):
    """`findings[]`: one finding, from when it started to when it cleared."""

    code: str
    level: Level
    """The worst that it had."""
    subject: str
    text: str
    """As it was told last at that level, in the words of that moment."""
    told_at: float
    """That moment: evidence is of it as well."""
    begin: float
    end: float | None
    """`null`: it had not cleared when the recording ended."""
    times: int = 1
    """How often it came, where it cleared and came again within a minute."""
    evidence: tuple[str, ...] = ()
    remedy: str | None = None
    act: str | None = None
    """The act of cockpit's that helps."""
    about: tuple[str, ...] = ()
    """What it is about: `job:ID`, `node:ID` and so on."""

    @property
    def key(self) -> str:
        """What its findings had in common."""
        return f"finding:{self.code}:{self.subject}"


class FaultEpisode(msgspec.Struct, frozen=True):
    """`faults[]`: a failing source, with the other sources that failed with it."""

    source: str
    host: str | None
    text: str
    begin: float
    end: float | None
    title: str | None = None
    """What people call that host: as its node."""


class ActDone(msgspec.Struct, frozen=True):
    """`acts[]`: what somebody did with cockpit."""

    at: float
    act: str
    text: str
    user: str | None
    host: str | None
    """Where that person sat."""
    end: float | None
    """When it was over; `null`: that is not recorded."""
    outcome: Mapping[str, Any] | None = None
    """As in the log of actions."""
    targets: tuple[str, ...] = ()
    """What it was done to, each with its job: `pid 4711 of job ppo-7b`, `job rm-72b`."""


class JobSpan(msgspec.Struct, frozen=True):
    """`jobs[]`: a job that started, ran or ended."""

    id: str
    session: str | None
    """Of Ray: job ids count anew in each."""
    status: str
    """As it was seen last."""
    started: float | None
    ended: float | None
    """Of a job that ended with its Ray: when that was seen last."""
    entrypoint: str | None
    message: str | None
    """As Ray gives it: of one that failed, with the end of its log."""
    error: str | None = None
    """Of one that failed, the line of that which matters most."""


class MemoryStatus(msgspec.Struct, frozen=True):
    """`usage[].fullest_host`."""

    node: str
    at: float
    used: int
    total: int
    kill_at: int | None


class Hours(msgspec.Struct, frozen=True):
    """GPU-hours. All that was reserved, or whose memory was held, is `busy` + `idle` + `unknown`."""

    reserved: float | None
    held: float | None
    busy: float
    idle: float
    idle_by_cause: Mapping[IdleCause, float]
    unknown: float
    """Of which nobody knows whether the GPUs worked: it is not idle."""


class UsageRow(msgspec.Struct, frozen=True):
    """`usage[]`: one job; or GPUs of no job, by whose they are."""

    kind: str
    """`job`, `other Ray`, `no job`, `left over`."""
    name: str
    session: str | None
    """Of Ray: job ids count anew in each."""
    user: str | None
    hours: Hours
    seen_s: float
    unwatched_s: float
    gpus_at_end: float | None
    gpu_memory: int | None
    host_memory: int | None
    """The most that its processes held."""
    fullest_host: MemoryStatus | None
    restarts: int
    kills: int
    """For want of memory."""


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
    """The fullest host: memory in use as a share of Ray's kill line, of its memory where that line is not known."""


class Account(msgspec.Struct, frozen=True):
    """What `cockpit report` tells. Sizes are bytes, times POSIX seconds, `null` is unknown."""

    address: str | None
    ray_version: str | None
    session: str | None
    """The last of Ray's sessions that it is about."""
    earlier_sessions: tuple[str, ...]
    """Those before it, the first one first: Ray was started anew."""
    begin: float
    end: float
    job: str | None
    """The only job that it is about; `null`: all."""
    watched_s: float
    unwatched_s: float
    gaps: tuple[tuple[float, float], ...]
    """When nothing was recorded."""
    damage: tuple[str, ...]
    findings: tuple[Episode, ...]
    faults: tuple[FaultEpisode, ...]
    acts: tuple[ActDone, ...]
    jobs: tuple[JobSpan, ...]
    usage: tuple[UsageRow, ...]
    users: tuple[UserRow, ...]
    fleet: FleetHours
    course: tuple[Point, ...]
    cockpit: str
    """The version that wrote it."""
    schema: int = 1


def account_json(account: Account) -> str:
    """For scripts."""
    return msgspec.json.format(msgspec.json.encode(account), indent=2).decode()
