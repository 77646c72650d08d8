"""One target: which findings it is to be told of now, and when it may be sent something again."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from cockpit.config.notify import NotifyTarget
from cockpit.model import LEVELS, Finding, Level, Snapshot
from cockpit.notify.message import FindingNotice, Message, cluster_name, notice_of

BEGIN_AFTER_S = 10.0
"""For which a finding is seen before it is told: what comes and goes faster wakes nobody."""
END_AFTER_S = 120.0
"""For which it is not seen before it is told as ended: one that flickers has not ended."""
REST_S = 10.0
"""Between two messages: what begins meanwhile comes in one. Six a minute are below every robot's limit (DingTalk and WeCom take 20)."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 10.0, 300.0
"""After a message that was not taken; doubled each time."""


class Recipient:
    """What it was told, and what it sees now; the difference is what it is told next."""

    def __init__(self, target: NotifyTarget, told: Sequence[FindingNotice] = ()) -> None:
        self.target = target
        self.failure: str | None = None
        """Why the last message was not taken, in half a sentence."""
        self._told = {one.key: one for one in told}
        self._first: dict[str, float] = {}
        self._last: dict[str, float] = {}
        self._seen: dict[str, FindingNotice] = {}
        self._lower: dict[str, Level] = {}
        self._began: float | None = None
        self._next = float("-inf")
        self._failures = 0

    @property
    def open_notices(self) -> tuple[FindingNotice, ...]:
        """What it was sent as started, and not yet as cleared."""
        return tuple(self._told.values())

    def look(self, snapshot: Snapshot) -> None:
        """Take in what holds now."""
        now = snapshot.taken
        self._began = now if self._began is None else self._began
        self._seen = {one.key: one for one in map(notice_of, filter(self._is_wanted, snapshot.findings))}
        self._lower = {notice_of(one).key: one.level for one in snapshot.findings if not self._is_wanted(one)}
        self._last.update(dict.fromkeys(self._seen, now))
        for key in [key for key in self._last if self._is_over(key, now)]:
            del self._last[key]
            self._first.pop(key, None)
        for key in self._seen:
            self._first.setdefault(key, now)

    def message(self, snapshot: Snapshot) -> Message | None:
        """What it is to be told now; `None`: nothing, or not yet."""
        now = snapshot.taken
        if now < self._next:
            return None
        lasting = [one for key, one in self._seen.items() if key not in self._told and now - self._first[key] >= BEGIN_AFTER_S]
        ended = [replace(one, now=self._lower.get(key)) for key, one in self._told.items() if self._is_over(key, now)]
        unread = tuple(dict.fromkeys(fault.source for fault in snapshot.faults if fault.source != "notify"))
        return Message(cluster_name(snapshot.cluster), now, lasting, ended, unread if ended else ()) if lasting or ended else None

    def note_sent(self, message: Message, now: float) -> None:
        """It has taken it."""
        self._told |= {one.key: one for one in message.begun}
        for one in message.ended:
            self._told.pop(one.key, None)
        self._next, self._failures, self.failure = now + REST_S, 0, None

    def note_failure(self, reason: str, now: float, pause: float | None = None) -> None:
        """It has not; it is tried again later, with what is to be told then."""
        grown = min(FIRST_PAUSE_S * 2**self._failures, LONGEST_PAUSE_S)
        self._next, self._failures, self.failure = now + max(grown, pause or 0.0), self._failures + 1, reason

    def _is_wanted(self, finding: Finding) -> bool:
        target = self.target
        return LEVELS.index(finding.level) <= LEVELS.index(target.level) and (not target.codes or finding.code in target.codes)

    def _is_over(self, key: str, now: float) -> bool:
        return now - self._last.get(key, self._began or now) >= END_AFTER_S
