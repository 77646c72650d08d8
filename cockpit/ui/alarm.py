"""Terminal bell and desktop notification when a critical finding begins."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from cockpit.model import Finding, Snapshot
from cockpit.text import clean

SETTLING_S = 30.0
"""Seconds after the first snapshot in which no alarm is raised: these findings were there before, detectors need some seconds."""
MIN_ALARM_INTERVAL_S = 10.0
"""Seconds between two alarms: the nodes of a rack die one after the other."""
MAX_NOTIFICATION_CELLS = 200
"""Length of a notification in terminal cells; desktops show no more."""


class Alarm:
    """Remembers which findings have been announced, and when."""

    def __init__(self) -> None:
        self._announced_keys: AbstractSet[str] = frozenset()
        self._first_taken: float | None = None
        self._last_alarm = -math.inf

    def take_new(self, snapshot: Snapshot, hidden: AbstractSet[str]) -> Sequence[Finding]:
        """Critical findings not announced yet; none within `MIN_ALARM_INTERVAL_S` of the last alarm, they come with a later call."""
        now = snapshot.taken
        self._first_taken = self._first_taken or now or None
        critical = {finding.key: finding for finding in snapshot.findings if finding.level == "critical"}
        fresh = [finding for key, finding in critical.items() if key not in self._announced_keys | hidden]
        settling = self._first_taken is None or now - self._first_taken < SETTLING_S
        if fresh and not settling and now - self._last_alarm < MIN_ALARM_INTERVAL_S:
            self._announced_keys &= critical.keys()
            return ()
        self._announced_keys = frozenset(critical)  # what has ended may begin anew
        if settling or not fresh:
            return ()
        self._last_alarm = now
        return fresh


def alarm_sequence(findings: Sequence[Finding], env: Mapping[str, str], *, ascii: bool = False) -> str:
    """The bytes that make a terminal ring and notify: BEL and OSC 9.

    tmux drops a plain OSC 9; a wrapped one it passes on where `allow-passthrough` is on.
    """
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    text = clean(findings[0].text)
    text = f"cockpit: {text if len(text) <= MAX_NOTIFICATION_CELLS else text[: MAX_NOTIFICATION_CELLS - 1] + '…'}{more}"
    notice = f"\x1b]9;{text.encode('ascii', 'replace').decode() if ascii else text}\x07"
    inside = "TMUX" in env or env.get("TERM", "").startswith("tmux")  # the latter where ssh was typed into a pane
    return "\x07" + (f"\x1bPtmux;{notice.replace(chr(27), chr(27) * 2)}\x1b\\" if inside else notice)
