"""Rings the terminal bell and sends a desktop notification when a critical finding begins."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from cockpit.model import Finding, Snapshot
from cockpit.text import clean

SETTLING_S = 30.0
"""Seconds after the first snapshot without alarms: these findings are older than cockpit, but detectors need some seconds."""
MIN_ALARM_INTERVAL_S = 10.0
"""Seconds between two alarms, because the nodes of a rack die one after the other."""
MAX_NOTIFICATION_CELLS = 200
"""Longest notification that desktops show, in terminal cells."""


class Alarm:
    """Remembers which findings were announced, and when."""

    def __init__(self) -> None:
        self._announced_keys: AbstractSet[str] = frozenset()
        self._first_taken: float | None = None
        self._last_alarm = -math.inf

    def take_new(self, snapshot: Snapshot, hidden: AbstractSet[str]) -> Sequence[Finding]:
        """Critical findings not announced yet. Within `MIN_ALARM_INTERVAL_S` of the last alarm none: a later call returns them."""
        now = snapshot.taken
        self._first_taken = self._first_taken or now or None
        critical = {finding.key: finding for finding in snapshot.findings if finding.level == "critical"}
        fresh = [finding for key, finding in critical.items() if key not in self._announced_keys | hidden]
        settling = self._first_taken is None or now - self._first_taken < SETTLING_S
        if fresh and not settling and now - self._last_alarm < MIN_ALARM_INTERVAL_S:
            self._announced_keys &= critical.keys()
            return ()
        self._announced_keys = frozenset(critical)  # a finding that has ended is announced when it begins again
        if settling or not fresh:
            return ()
        self._last_alarm = now
        return fresh


def alarm_sequence(findings: Sequence[Finding], env: Mapping[str, str], *, ascii: bool = False) -> str:
    """The bytes that let a terminal ring and notify: BEL and OSC 9.

    tmux drops a plain OSC 9. A wrapped one it passes on if its option `allow-passthrough` is on.
    """
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    text = clean(findings[0].text)
    text = f"cockpit: {text if len(text) <= MAX_NOTIFICATION_CELLS else text[: MAX_NOTIFICATION_CELLS - 1] + '…'}{more}"
    notice = f"\x1b]9;{text.encode('ascii', 'replace').decode() if ascii else text}\x07"
    inside = "TMUX" in env or env.get("TERM", "").startswith("tmux")  # only TERM, if ssh runs in a pane of tmux
    return "\x07" + (f"\x1bPtmux;{notice.replace(chr(27), chr(27) * 2)}\x1b\\" if inside else notice)
