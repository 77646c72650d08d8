"""Sums the usage of each Ray session in a recording by itself, because job ids start again in each session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec.structs import astuple

from cockpit.model import Snapshot
from cockpit.report.incident.account import FleetHours, Hours, MemoryStatus, UsageRow, UserRow
from cockpit.usage import LONGEST_STEP_S, HourSums, OwnerUsage, Usage, users_of

_HOUR_S = 3600


class SessionUsages:
    """The usage of all sessions, from snapshots in their order."""

    def __init__(self) -> None:
        self._all = [Usage()]

    @property
    def last(self) -> Usage:
        """The usage of the latest session."""
        return self._all[-1]

    def add(self, snapshot: Snapshot) -> bool:
        """Add a snapshot; returns the same as `Usage.add`."""
        if self.last.is_of_another_session(snapshot):
            for used in self.last.owners:
                used.now = None
            self._all.append(Usage())
        return self.last.add(snapshot)

    @property
    def sessions(self) -> Sequence[str]:
        """Names of the known sessions, in their order."""
        return [usage.session for usage in self._all if usage.session is not None]

    def ended(self, session: str | None) -> float | None:
        """When a session was last seen; `None` for the latest one, which may still run."""
        return next((usage.end for usage in self._all[:-1] if usage.session == session), None)

    @property
    def watched_s(self) -> float:
        """Seconds that were recorded."""
        return sum(usage.watched_s for usage in self._all)

    @property
    def unwatched_s(self) -> float:
        """Seconds that were not recorded, also between two sessions."""
        between = (after.begin - before.end for before, after in pairwise(self._all) if after.begin is not None and before.end is not None)
        return sum(usage.unwatched_s for usage in self._all) + sum(gap for gap in between if gap > LONGEST_STEP_S)

    def rows(self, job: str | None) -> Sequence[UsageRow]:
        """Usage by owner and session, the most GPU-hours first; perhaps of one job only."""
        pairs: Iterator[tuple[OwnerUsage, str | None]] = ((each, usage.session) for usage in self._all for each in usage.owners)
        wanted = [(each, session) for each, session in pairs if job is None or job in (each.title, each.owner.name)]
        rows: list[UsageRow] = []
        for used, session in sorted(wanted, key=lambda pair: -pair[0].sums.had):
            mark = used.memory_mark
            row = UsageRow(
                kind=used.owner.kind,
                name=used.title,
                session=session,
                user=used.user,
                hours=_hours(used.sums, used.reserved_s > 0, used.held_s > 0),
                seen_s=round(used.seen_s, 1),
                unwatched_s=round(used.unwatched_s, 1),
                gpus_at_end=used.now.had if used.now else None,
                gpu_memory=used.gpu_memory,
                host_memory=used.host_memory,
                fullest_host=MemoryStatus(mark.node, mark.moment, mark.used, mark.total, mark.kill_at) if mark else None,
                restarts=used.restarts,
                kills=used.kills,
            )
            rows.append(row)
        return rows

    def user_rows(self) -> Sequence[UserRow]:
        """Usage by user, the most GPU-hours first."""
        users = users_of(each for usage in self._all for each in usage.owners)
        return [UserRow(one.user, one.jobs, _hours(one.sums, True, True), one.gpus, one.gpu_memory, one.host_memory) for one in users]

    def fleet(self) -> FleetHours:
        """GPU-hours of all GPUs."""
        sums = map(sum, zip(*(astuple(usage.fleet_sums) for usage in self._all), strict=True))
        return FleetHours(*map(_in_hours, sums))


def _hours(sums: HourSums, is_reserved_known: bool, is_held_known: bool) -> Hours:
    return Hours(
        reserved=_in_hours(sums.reserved) if is_reserved_known else None,
        held=_in_hours(sums.held) if is_held_known else None,
        busy=_in_hours(sums.busy),
        idle=_in_hours(sums.idle_sum),
        idle_by_cause={cause: _in_hours(seconds) for cause, seconds in sums.idle.items() if seconds},
        unknown=_in_hours(sums.unknown),
    )


def _in_hours(seconds: float) -> float:
    return round(seconds / _HOUR_S, 4)
