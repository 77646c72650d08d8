"""Who has used what in one session of Ray after another: job ids count anew in each, so that each has sums of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec.structs import astuple

from cockpit.model import Snapshot
from cockpit.report.incident.account import FleetHours, UsageRow, UserRow
from cockpit.report.incident.usage_rows import fleet_hours, usage_row, user_row
from cockpit.usage import LONGEST_STEP_S, FleetSums, OwnerUsage, Usage, users_of


class SessionUsages:
    """Fed with snapshots in their order."""

    def __init__(self) -> None:
        self._all = [Usage()]

    @property
    def last(self) -> Usage:
        """Of the session that was seen last."""
        return self._all[-1]

    def add(self, snapshot: Snapshot) -> bool:
        """As `Usage.add`."""
        if self.last.is_of_another_session(snapshot):
            for used in self.last.owners:
                used.now = None
            self._all.append(Usage())
        return self.last.add(snapshot)

    @property
    def sessions(self) -> Sequence[str]:
        """Those that were told, the first one first."""
        return [usage.session for usage in self._all if usage.session is not None]

    def ended(self, session: str | None) -> float | None:
        """When a session was seen last; `None` of the last one, which may go on."""
        return next((usage.end for usage in self._all[:-1] if usage.session == session), None)

    @property
    def watched_s(self) -> float:
        """Seconds in which somebody watched."""
        return sum(usage.watched_s for usage in self._all)

    @property
    def unwatched_s(self) -> float:
        """Seconds in which nobody did, also from one session to the next."""
        between = (after.begin - before.end for before, after in pairwise(self._all) if after.begin is not None and before.end is not None)
        return sum(usage.unwatched_s for usage in self._all) + sum(gap for gap in between if gap > LONGEST_STEP_S)

    def rows(self, job: str | None) -> Sequence[UsageRow]:
        """Whoever had anything, the most GPU-hours first; of one job, where it is named."""
        pairs: Iterator[tuple[OwnerUsage, str | None]] = ((each, usage.session) for usage in self._all for each in usage.owners)
        wanted = [(each, session) for each, session in pairs if job is None or job in (each.title, each.owner.name)]
        return [usage_row(each, session) for each, session in sorted(wanted, key=lambda pair: -pair[0].sums.had)]

    def user_rows(self) -> Sequence[UserRow]:
        """By user, the most GPU-hours first."""
        return [user_row(each) for each in users_of(each for usage in self._all for each in usage.owners)]

    def fleet(self) -> FleetHours:
        """All GPUs."""
        return fleet_hours(FleetSums(*map(sum, zip(*(astuple(usage.fleet_sums) for usage in self._all), strict=True))))
