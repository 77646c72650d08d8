"""Makes frames from snapshots and snapshots from frames: a frame has the changes since the frame before, a key frame everything."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from cockpit.config.thresholds import STALE_AFTER_S
from cockpit.model import (
    Activity,
    Actor,
    Cluster,
    Demand,
    Engine,
    Failure,
    Fault,
    Finding,
    Host,
    Job,
    NcclReport,
    Node,
    OomKill,
    PhaseSpan,
    PlacementGroup,
    Process,
    RayProcess,
    Session,
    Snapshot,
    Step,
)
from cockpit.recording.numbers import MAX_NUMBER, Heard, UserRow, Written, codes_of, rest_of, with_codes
from cockpit.text.grouping import group_by

if TYPE_CHECKING:
    JobRow = Job
else:  # a job without its runtime environment, which may have any content and is neither written nor read
    JobRow = msgspec.defstruct(
        "JobRow",
        [
            (field.name, field.type) if field.required else (field.name, field.type, field.default)
            for field in msgspec.structs.fields(Job)
            if field.name != "runtime_env"
        ],
        frozen=True,
    )
Row = TypeVar("Row")
MAX_ROWS = 200_000
"""Rows of one table: twenty times the rows of the largest tested cluster."""


class FrameError(ValueError):
    """A frame is invalid, or does not follow the one before."""


class Change(msgspec.Struct, Generic[Row], omit_defaults=True):
    """The change of one table."""

    unknown: bool = False
    edit: list[tuple[int, int] | Row] | None = None
    """All rows in their order: runs of rows of the frame before as (begin, count), and new rows; `None`: the same rows."""
    at: list[int] = []
    """The rows with changed numbers, each as the distance to the one before."""
    by: list[int] = []
    """The difference of each number of these rows."""


class Frame(msgspec.Struct, omit_defaults=True):
    """The changes of all tables, and of the other fields of a snapshot."""

    taken: float
    cluster: Cluster | UnsetType = UNSET
    growing: bool | UnsetType = UNSET
    actor_counts: Mapping[str, int] | UnsetType | None = UNSET
    actors_complete: bool | UnsetType | None = UNSET
    demand: tuple[Demand, ...] | UnsetType | None = UNSET
    nodes: Change[Node] | None = None
    actors: Change[Actor] | None = None
    placement_groups: Change[PlacementGroup] | None = None
    jobs: Change[JobRow] | None = None
    processes: Change[Process] | None = None
    sessions: Change[Session] | None = None
    oom_kills: Change[OomKill] | None = None
    engines: Change[Engine] | None = None
    failures: Change[Failure] | None = None
    activities: Change[Activity] | None = None
    spans: Change[PhaseSpan] | None = None
    steps: Change[Step] | None = None
    nccl: Change[NcclReport] | None = None
    faults: Change[Fault] | None = None
    findings: Change[Finding] | None = None
    hosts: Change[Host] | None = None
    memory_users: Change[UserRow] | None = None
    heard: Change[Heard] | None = None
    written: Change[Written] | None = None


PLAIN = ("cluster", "growing", "actor_counts", "actors_complete", "demand")
TABLES = (
    "nodes", "actors", "placement_groups", "jobs", "processes", "sessions", "oom_kills", "engines", "failures", "activities",
    "spans", "steps", "nccl", "faults", "findings",
)  # fmt: skip
"""Tables that are fields of a snapshot; the others are made from it."""
NEVER_UNKNOWN = ("failures", "activities", "spans", "steps", "nccl", "faults", "findings")
OTHER_TABLES = ("hosts", "memory_users", "heard", "written")
Rows = tuple[Any, ...] | None


class Tables(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A snapshot as tables of rows, which have each fact once."""

    snapshot: Snapshot
    rows: Mapping[str, Rows]


def tables_of(snapshot: Snapshot) -> Tables:
    """The tables of a snapshot."""
    rows = {name: getattr(snapshot, name) for name in TABLES}
    hosts = snapshot.hosts.values()
    if snapshot.jobs is not None:  # their environments are never recorded
        rows["jobs"] = tuple([job if job.runtime_env is None else replace(job, runtime_env=None) for job in snapshot.jobs])
    if any(process.titles for process in snapshot.processes or ()):  # titles between samples: the last one is the command
        rows["processes"] = tuple([replace(process, titles=()) if process.titles else process for process in snapshot.processes or ()])
    rows["hosts"] = tuple([_host_row(host) for host in hosts])
    users = [(host.name, user) for host in hosts for user in sorted(host.memory_users, key=lambda one: one.pid)]
    rows["memory_users"] = tuple([UserRow(name, user) for name, user in users])
    rows["heard"] = tuple([Heard(name, at) for name, at in snapshot.as_of.items()])
    logs = [(host.name, session, jobs) for host in hosts for session, jobs in host.wrote.items()]
    rows["written"] = tuple([Written(name, session, job, at) for name, session, jobs in logs for job, at in jobs.items()])
    return Tables(snapshot, rows)


def _host_row(host: Host) -> Host:
    """A host without the facts that other tables have."""
    # Only the times of stale facts: the others change with each sample, and are close to `taken`.
    stale = {source: at for source, at in host.observed.items() if host.taken is not None and host.taken - at > STALE_AFTER_S}
    # Figures that change all the time, in steps of a hundredth of the line: so few frames need the row.
    rays = host.rays and tuple([_in_steps(ray) if ray.kill_used is not None and ray.kill_at else ray for ray in host.rays])
    return replace(
        host,
        rays=rays,
        processes=None if host.processes is None else (),
        ended=(),
        sessions=None if host.sessions is None else (),
        memory_users=(),
        engines=None,
        wrote={},
        observed=stale,
    )


def _in_steps(ray: RayProcess) -> RayProcess:
    step = max(1, (ray.kill_at or 0) // 100)
    used, charged = (None if each is None else round(each / step) * step for each in (ray.kill_used, ray.charged))
    return replace(ray, kill_used=used, charged=charged)


def snapshot_of(plain: Mapping[str, Any], rows: Mapping[str, Rows], taken: float) -> Snapshot:
    """The snapshot of these tables; `plain`: its other fields."""
    own: dict[str, Any] = {name: rows[name] for name in TABLES}
    own.update({name: own[name] or () for name in NEVER_UNKNOWN})
    own["jobs"] = own["jobs"] and tuple([Job(**msgspec.structs.asdict(job)) for job in own["jobs"]])
    as_of = {one.key: one.at for one in rows["heard"] or () if one.at is not None}

    def by_host(table: str) -> dict[str, list[Any]]:
        return group_by(rows[table] or (), lambda row: row.host)

    processes, sessions, users, written = map(by_host, ("processes", "sessions", "memory_users", "written"))
    hosts: dict[str, Host] = {}
    for host in rows["hosts"] or ():
        logs: dict[str, dict[str, float]] = {}
        for one in written.get(host.name, ()):
            if one.at is not None:
                logs.setdefault(one.session, {})[one.job] = one.at
        hosts[host.name] = replace(
            host,
            processes=None if host.processes is None else tuple(processes.get(host.name, ())),
            sessions=None if host.sessions is None else tuple(sessions.get(host.name, ())),
            memory_users=tuple(sorted([one.user for one in users.get(host.name, ())], key=lambda user: -user.rss)),
            wrote=logs,
        )
    return Snapshot(taken=taken, **plain, **own, hosts=hosts, as_of=as_of, findings_as_of=taken)


_MAYBE_ENDLESS = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]|\xca[\x7f\xff][\x80-\xff]")
"""The first bytes of infinity and NaN in msgpack. No text has these bytes; an integer may."""
_decoder = msgspec.msgpack.Decoder(Frame)


def decode_frame(block: bytes) -> Frame:
    """Decode a frame. Raises `FrameError` for infinity and NaN, which no page expects; msgspec's errors; and `ValueError`."""
    frame = _decoder.decode(block)
    if _MAYBE_ENDLESS.search(block) and not _is_finite(frame):
        raise FrameError("a frame has values that are not numbers")
    return frame


def _is_finite(value: Any) -> bool:
    """Checks the decoded frame: without its types, each byte of a hostile block would become an object."""
    if isinstance(value, msgspec.Struct):
        return all(_is_finite(getattr(value, name)) for name in value.__struct_fields__)
    if isinstance(value, Mapping):
        return all(map(_is_finite, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


# Writing: from snapshots to frames


def make_frame(before: Tables | None, now: Tables) -> Frame:
    """The frame with the changes since `before`; without `before` a key frame."""
    changes: dict[str, Any] = {name: _change(before.rows[name] if before else None, now.rows[name]) for name in (*TABLES, *OTHER_TABLES)}
    plain = {name: getattr(now.snapshot, name) for name in PLAIN}
    if before is not None:
        plain = {name: value for name, value in plain.items() if value != getattr(before.snapshot, name)}
    return Frame(now.snapshot.taken, **plain, **changes)


def _change(before: Rows, now: Rows) -> Change[Any] | None:
    if before is now:
        return None
    if now is None:
        return Change(unknown=True)
    if before is None:
        return Change(edit=list(now))
    if len(before) == len(now) and all(map(_has_same_rest, before, now)):
        return _numbers(before, now)
    # Rows that have changed in their numbers only are taken from the frame before, wherever they stood.
    places = {row.key: place for place, row in enumerate(before)}
    kept: list[Any] = []
    edit: list[Any] = []
    for row in now:
        place = places.get(row.key)
        if place is None or not _has_same_rest(before[place], row):
            kept.append(row)
            edit.append(row)
            continue
        kept.append(before[place])
        run = edit[-1] if edit else None
        if isinstance(run, tuple) and place == run[0] + run[1]:
            edit[-1] = (run[0], run[1] + 1)
        else:
            edit.append((place, 1))
    change = _numbers(kept, now) or Change()
    change.edit = edit
    return change


def _has_same_rest(one: Any, other: Any) -> bool:
    """Whether two rows differ in their numbers at most."""
    return one is other or rest_of(one) == rest_of(other)


def _numbers(before: Sequence[Any], now: Sequence[Any]) -> Change[Any] | None:
    """The differences of the rows' numbers; `None`: there are none."""
    change: Change[Any] = Change(at=[], by=[])
    last = 0
    for place, (old, new) in enumerate(zip(before, now, strict=True)):
        if old is new or (was := codes_of(old)) == (codes := codes_of(new)):
            continue
        change.at.append(place - last)
        change.by += [code - earlier for code, earlier in zip(codes, was, strict=True)]
        last = place
    return change if change.at else None


# Reading: from frames to snapshots


class _Table:
    """The rows of one table at the last frame. Changed numbers are kept beside the rows until these are needed."""

    def __init__(self) -> None:
        self.known = False
        self.rows: list[Any] = []
        self.codes: list[list[int] | None] = []
        """The numbers of each row; `None`: those that the row has."""
        self.changed: set[int] = set()
        """The rows whose numbers have changed."""
        self._result: Rows = None

    def apply(self, change: Change[Any]) -> None:
        """Apply the change of one frame. Raises `FrameError`."""
        if change.unknown:
            self.known, self.rows, self.codes, self.changed = False, [], [], set()
        elif change.edit is not None:
            self._edit(change.edit)
        self._add(change.at, change.by)
        self._result = None

    def _edit(self, edit: Sequence[Any]) -> None:
        self.materialize()
        rows: list[Any] = []
        codes: list[list[int] | None] = []
        for one in edit:
            if isinstance(one, tuple):
                begin, count = one
                if not (begin >= 0 and count > 0 and begin + count <= len(self.rows)):
                    raise FrameError("a frame refers to rows that are not there")
                _refuse_many(len(rows) + count)
                rows += self.rows[begin : begin + count]
                codes += self.codes[begin : begin + count]
            else:
                rows.append(one)
                codes.append(None)
        _refuse_many(len(rows))
        self.rows, self.codes, self.known = rows, codes, True

    def _add(self, at: Sequence[int], by: Sequence[int]) -> None:
        place = used = 0
        for step in at:
            place += step
            if not 0 <= place < len(self.rows):
                raise FrameError("a frame refers to a row that is not there")
            known = self.codes[place]
            codes = codes_of(self.rows[place]) if known is None else known
            if used + len(codes) > len(by):
                raise FrameError("a frame lacks numbers")
            sums = [code + step for code, step in zip(codes, by[used : used + len(codes)], strict=True)]
            if sums and not 0 <= min(sums) <= max(sums) <= MAX_NUMBER:
                raise FrameError("a frame has impossible numbers")
            self.codes[place] = sums
            self.changed.add(place)
            used += len(codes)

    def materialize(self) -> Rows:
        """The rows with their current numbers."""
        for place in self.changed:
            self.rows[place] = with_codes(self.rows[place], iter(self.codes[place] or ()))
        if self._result is None or self.changed:
            self._result = tuple(self.rows)
        self.changed = set()
        return self._result if self.known else None


def _refuse_many(count: int) -> None:
    if count > MAX_ROWS:
        raise FrameError(f"a frame has more than {MAX_ROWS:,} rows")


class State:
    """The state after a key frame and the frames that follow it."""

    def __init__(self) -> None:
        self.taken = 0.0
        self._plain: dict[str, Any] = {name: getattr(Snapshot(), name) for name in PLAIN}
        self._tables = {name: _Table() for name in (*TABLES, *OTHER_TABLES)}

    def apply(self, frame: Frame) -> None:
        """Apply the next frame. Raises `FrameError`."""
        self.taken = frame.taken
        for name in PLAIN:
            if (value := getattr(frame, name)) is not UNSET:
                self._plain[name] = value
        for name, table in self._tables.items():
            if (change := getattr(frame, name)) is not None:
                table.apply(change)

    def snapshot(self) -> Snapshot:
        """The snapshot at the last frame."""
        return snapshot_of(self._plain, {name: table.materialize() for name, table in self._tables.items()}, self.taken)
