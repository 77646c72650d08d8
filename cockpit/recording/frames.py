"""What a frame is: what has changed of a snapshot since the frame before; of a key frame all of it."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from cockpit.config.thresholds import STALE_AFTER_S
from cockpit.model import (
    Actor,
    Cluster,
    Demand,
    Fault,
    Finding,
    Host,
    Job,
    Node,
    OomKill,
    PlacementGroup,
    Process,
    Session,
    Snapshot,
)
from cockpit.recording.numbers import MAX_NUMBER, Heard, UserRow, Written, codes_of, rest_of, with_codes

if TYPE_CHECKING:
    JobRow = Job
else:  # without its environment, which may be anything: never written, and never read
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
"""Rows of one table: twenty times those of the largest cluster that is tested."""


class FrameError(ValueError):
    """A frame that doesn't follow from the one before it."""


class Change(msgspec.Struct, Generic[Row], omit_defaults=True):
    """What has changed of one table."""

    unknown: bool = False
    edit: list[tuple[int, int] | Row] | None = None
    """The rows in their order: runs of those before (begin, count), and new ones; `None`: as they were."""
    at: list[int] = []
    """Which rows have other numbers: each by how far it is from the one before."""
    by: list[int] = []
    """By how much each number of these rows has changed."""


class Frame(msgspec.Struct, omit_defaults=True):
    """The change of each table, and of what is not a table."""

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
    faults: Change[Fault] | None = None
    findings: Change[Finding] | None = None
    hosts: Change[Host] | None = None
    memory_users: Change[UserRow] | None = None
    heard: Change[Heard] | None = None
    written: Change[Written] | None = None


PLAIN = ("cluster", "growing", "actor_counts", "actors_complete", "demand")
TABLES = ("nodes", "actors", "placement_groups", "jobs", "processes", "sessions", "oom_kills", "faults", "findings")
"""Those of a snapshot; the others are made of it."""
OTHER_TABLES = ("hosts", "memory_users", "heard", "written")
Rows = tuple[Any, ...] | None


class Tables(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A snapshot as rows, each fact once."""

    snapshot: Snapshot
    rows: Mapping[str, Rows]


def tables_of(snapshot: Snapshot) -> Tables:
    """The snapshot as rows."""
    rows = {name: getattr(snapshot, name) for name in TABLES}
    hosts = snapshot.hosts.values()
    if snapshot.jobs is not None:  # their environments are never recorded
        rows["jobs"] = tuple([job if job.runtime_env is None else replace(job, runtime_env=None) for job in snapshot.jobs])
    rows["hosts"] = tuple([_host_row(host) for host in hosts])
    rows["memory_users"] = tuple(
        [UserRow(host.name, user) for host in hosts for user in sorted(host.memory_users, key=lambda one: one.pid)]
    )
    rows["heard"] = tuple([Heard(name, at) for name, at in snapshot.as_of.items()])
    logs = [(host.name, session, jobs) for host in hosts for session, jobs in host.wrote.items()]
    rows["written"] = tuple([Written(name, session, job, at) for name, session, jobs in logs for job, at in jobs.items()])
    return Tables(snapshot, rows)


def _host_row(host: Host) -> Host:
    """A host without what other tables have."""
    return replace(
        host,
        processes=None if host.processes is None else (),
        sessions=None if host.sessions is None else (),
        memory_users=(),
        wrote={},
        observed=_failing_for_long(host),
    )


def _failing_for_long(host: Host) -> Mapping[str, float]:
    """Sources of its probe whose facts are old. The times of the others change with each sample, and are close to `taken`."""
    return {source: at for source, at in host.observed.items() if host.taken is not None and host.taken - at > STALE_AFTER_S}


def snapshot_of(plain: Mapping[str, Any], rows: Mapping[str, Rows], taken: float) -> Snapshot:
    """The snapshot that these rows are of."""
    own: dict[str, Any] = {name: rows[name] for name in TABLES}
    own["faults"], own["findings"] = own["faults"] or (), own["findings"] or ()
    own["jobs"] = own["jobs"] and tuple([Job(**msgspec.structs.asdict(job)) for job in own["jobs"]])
    heard = {one.key: one.at for one in rows["heard"] or () if one.at is not None}
    return Snapshot(taken=taken, **plain, **own, hosts={host.name: host for host in _hosts_of(rows)}, as_of=heard)


def _hosts_of(rows: Mapping[str, Rows]) -> Iterator[Host]:
    processes, sessions = _by(rows["processes"], "host"), _by(rows["sessions"], "host")
    users, written = _by(rows["memory_users"], "host"), _by(rows["written"], "host")
    for host in rows["hosts"] or ():
        logs: dict[str, dict[str, float]] = defaultdict(dict)
        for one in written.get(host.name, ()):
            if one.at is not None:
                logs[one.session][one.job] = one.at
        yield replace(
            host,
            processes=None if host.processes is None else tuple(processes.get(host.name, ())),
            sessions=None if host.sessions is None else tuple(sessions.get(host.name, ())),
            memory_users=tuple(sorted([one.user for one in users.get(host.name, ())], key=lambda user: -user.rss)),
            wrote=logs,
        )


def _by(rows: Rows, field: str) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = defaultdict(list)
    for row in rows or ():
        found[getattr(row, field)].append(row)
    return found


_MAYBE_ENDLESS = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]|\xca[\x7f\xff][\x80-\xff]")
"""How infinity, and what is no number, begin in msgpack; no text has these bytes, a whole number may."""
_decoder = msgspec.msgpack.Decoder(Frame)


def decode_frame(block: bytes) -> Frame:
    """Raises `FrameError` for numbers that JSON doesn't have, and that nobody who draws one expects; msgspec's errors and `ValueError`."""
    frame = _decoder.decode(block)
    if _MAYBE_ENDLESS.search(block) and not _is_finite(frame):
        raise FrameError("a frame has values that are not numbers")
    return frame


def _is_finite(value: Any) -> bool:
    """Asked of what was typed: untyped, each byte of a bomb would become an object."""
    if isinstance(value, msgspec.Struct):
        return all(_is_finite(getattr(value, name)) for name in value.__struct_fields__)
    if isinstance(value, Mapping):
        return all(map(_is_finite, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


# What has changed


def make_frame(before: Tables | None, now: Tables) -> Frame:
    """What has changed since `before`; without one a key frame, with all there is."""
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
    if len(before) == len(now) and all(map(_is_alike, before, now)):
        return _numbers(before, now)
    sources = list(_sources(before, now))
    kept = [before[at] if at is not None else row for at, row in zip(sources, now, strict=True)]
    change = _numbers(kept, now) or Change()
    change.edit = list(_runs(sources, now))
    return change


def _is_alike(one: Any, other: Any) -> bool:
    """Whether they differ in numbers at most."""
    return one is other or rest_of(one) == rest_of(other)


def _numbers(before: Sequence[Any], now: Sequence[Any]) -> Change[Any] | None:
    change: Change[Any] = Change(at=[], by=[])
    last = 0
    for place, (old, new) in enumerate(zip(before, now, strict=True)):
        if old is new or (was := codes_of(old)) == (codes := codes_of(new)):
            continue
        change.at.append(place - last)
        change.by += [code - earlier for code, earlier in zip(codes, was, strict=True)]
        last = place
    return change if change.at else None


def _sources(before: Sequence[Any], now: Sequence[Any]) -> Iterator[int | None]:
    """For each row the place at which it stood, where only its numbers have changed."""
    places = {row.key: place for place, row in enumerate(before)}
    for row in now:
        at = places.get(row.key)
        yield at if at is not None and _is_alike(before[at], row) else None


def _runs(sources: Iterable[int | None], now: Sequence[Any]) -> Iterator[Any]:
    begin = count = 0
    for at, row in zip(sources, now, strict=True):
        if at is not None and count and at == begin + count:
            count += 1
            continue
        if count:
            yield (begin, count)
        begin, count = (at, 1) if at is not None else (0, 0)
        if at is None:
            yield row
    if count:
        yield (begin, count)


# What a reader makes of it


class _Table:
    """The rows of one table as of the last frame, and what their numbers have become since they were made."""

    def __init__(self) -> None:
        self.known = False
        self.rows: list[Any] = []
        self.codes: list[list[int] | None] = []
        self.changed: set[int] = set()
        self._told: Rows = None

    def apply(self, change: Change[Any]) -> None:
        """Raises `FrameError`."""
        if change.unknown:
            self.known, self.rows, self.codes, self.changed = False, [], [], set()
        elif change.edit is not None:
            self._edit(change.edit)
        self._add(change.at, change.by)
        self._told = None

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
        """The rows with their numbers."""
        for place in self.changed:
            self.rows[place] = with_codes(self.rows[place], iter(self.codes[place] or ()))
        if self._told is None or self.changed:
            self._told = tuple(self.rows)
        self.changed = set()
        return self._told if self.known else None


def _refuse_many(count: int) -> None:
    if count > MAX_ROWS:
        raise FrameError(f"a frame has more than {MAX_ROWS:,} rows")


class State:
    """What frames that follow each other add up to, from a key frame on."""

    def __init__(self) -> None:
        self.taken = 0.0
        self._plain: dict[str, Any] = {name: getattr(Snapshot(), name) for name in PLAIN}
        self._tables = {name: _Table() for name in (*TABLES, *OTHER_TABLES)}

    def apply(self, frame: Frame) -> None:
        """Raises `FrameError`."""
        self.taken = frame.taken
        for name in PLAIN:
            if (value := getattr(frame, name)) is not UNSET:
                self._plain[name] = value
        for name, table in self._tables.items():
            if (change := getattr(frame, name)) is not None:
                table.apply(change)

    def snapshot(self) -> Snapshot:
        """As of the last frame."""
        return snapshot_of(self._plain, {name: table.materialize() for name, table in self._tables.items()}, self.taken)
