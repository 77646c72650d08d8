"""Decides for one target which findings to send now, and when the next message may be sent."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from cockpit.config.notify import NotifyTarget
from cockpit.model import LEVELS, Finding, Level, Snapshot
from cockpit.notify.message import FindingNotice, Message, cluster_name, notice_of

BEGIN_AFTER_S = 10.0
"""Seconds that a finding must last before it is sent: shorter ones wake nobody."""
END_AFTER_S = 120.0
"""Seconds that a finding must be gone before its end is sent: one that flickers has not ended."""
REST_S = 10.0
"""Seconds between two messages, so that findings of this time share one. Chat bots take more: DingTalk and WeCom 20 a minute."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 10.0, 300.0
"""Seconds to wait after a message that was not delivered; doubled each time."""


class Recipient:
    """The notices that a target was sent, and the findings of now; the next message is the difference."""

    def __init__(self, target: NotifyTarget, sent: Sequence[FindingNotice] = ()) -> None:
        """`sent`: notices that an earlier cockpit sent as started."""
        self.target = target
        self.failure: str | None = None
        """Why the last message was not delivered, in half a sentence."""
        self._sent = {one.key: one for one in sent}
        self._first_seen: dict[str, float] = {}
        """By key: when each present finding was first seen."""
        self._last_seen: dict[str, float] = {}
        """By key: when each recent finding was last seen."""
        self._present: dict[str, FindingNotice] = {}
        self._below_level: dict[str, Level] = {}
        """By key: levels of present findings that this target does not get."""
        self._began: float | None = None
        self._next_at = float("-inf")
        self._failures = 0

    @property
    def open_notices(self) -> tuple[FindingNotice, ...]:
        """Notices that were sent as started, and not yet as cleared."""
        return tuple(self._sent.values())

    def update(self, snapshot: Snapshot) -> None:
        """Replace the present findings by those of a new snapshot."""
        now = snapshot.taken
        self._began = now if self._began is None else self._began
        self._present = {one.key: one for one in map(notice_of, filter(self._is_wanted, snapshot.findings))}
        self._below_level = {notice_of(one).key: one.level for one in snapshot.findings if not self._is_wanted(one)}
        self._last_seen.update(dict.fromkeys(self._present, now))
        for key in [key for key in self._last_seen if self._is_over(key, now)]:
            del self._last_seen[key]
            self._first_seen.pop(key, None)
        for key in self._present:
            self._first_seen.setdefault(key, now)

    def message(self, snapshot: Snapshot) -> Message | None:
        """The message to send now; `None`: there is nothing to send, or not yet."""
        now = snapshot.taken
        if now < self._next_at:
            return None
        lasting = [one for key, one in self._present.items() if key not in self._sent and now - self._first_seen[key] >= BEGIN_AFTER_S]
        ended = [replace(one, now=self._below_level.get(key)) for key, one in self._sent.items() if self._is_over(key, now)]
        unread = tuple(dict.fromkeys(fault.source for fault in snapshot.faults if fault.source != "notify"))
        return Message(cluster_name(snapshot.cluster), now, lasting, ended, unread if ended else ()) if lasting or ended else None

    def note_sent(self, message: Message, now: float) -> None:
        """The message was delivered."""
        self._sent |= {one.key: one for one in message.begun}
        for one in message.ended:
            self._sent.pop(one.key, None)
        self._next_at, self._failures, self.failure = now + REST_S, 0, None

    def note_failure(self, reason: str, now: float, pause: float | None = None) -> None:
        """The message was not delivered; a later message will have the difference of that time."""
        grown = min(FIRST_PAUSE_S * 2**self._failures, LONGEST_PAUSE_S)
        self._next_at, self._failures, self.failure = now + max(grown, pause or 0.0), self._failures + 1, reason

    def _is_wanted(self, finding: Finding) -> bool:
        target = self.target
        return LEVELS.index(finding.level) <= LEVELS.index(target.level) and (not target.codes or finding.code in target.codes)

    def _is_over(self, key: str, now: float) -> bool:
        return now - self._last_seen.get(key, self._began or now) >= END_AFTER_S
