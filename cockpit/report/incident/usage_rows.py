"""What was used, as rows of a report."""

from __future__ import annotations

from cockpit.report.incident.account import FleetHours, Hours, MemoryStatus, UsageRow, UserRow
from cockpit.usage import FleetSums, HourSums, MemoryMark, OwnerUsage, UserUsage

_HOUR_S = 3600


def usage_row(used: OwnerUsage, session: str | None) -> UsageRow:
    """One job, or one user's GPUs outside of jobs, in that session of Ray."""
    known = used.reserved_s > 0, used.held_s > 0
    return UsageRow(
        kind=used.owner.kind,
        name=used.title,
        session=session,
        user=used.user,
        hours=_hours(used.sums, *known),
        seen_s=round(used.seen_s, 1),
        unwatched_s=round(used.unwatched_s, 1),
        gpus_at_end=used.now.had if used.now else None,
        gpu_memory=used.gpu_memory,
        host_memory=used.host_memory,
        fullest_host=_memory(used.memory_mark),
        restarts=used.restarts,
        kills=used.kills,
    )


def user_row(used: UserUsage) -> UserRow:
    """One user, with all that is theirs."""
    return UserRow(used.user, used.jobs, _hours(used.sums, True, True), used.gpus, used.gpu_memory, used.host_memory)


def fleet_hours(sums: FleetSums) -> FleetHours:
    """All GPUs."""
    return FleetHours(*(_in_hours(each) for each in (sums.gpus, sums.reserved, sums.busy, sums.idle, sums.unknown)))


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


def _memory(mark: MemoryMark | None) -> MemoryStatus | None:
    return MemoryStatus(mark.node, mark.moment, mark.used, mark.total, mark.kill_at) if mark else None
