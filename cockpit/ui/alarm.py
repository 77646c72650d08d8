"""Whom nobody looks at: a bell and a notification of the terminal when something critical begins."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from cockpit.model import Finding, Snapshot
from cockpit.text import clean

SETTLING = 30.0
"""What is found so soon after the first look was there before: detectors wait some seconds before they say a thing."""
APART = 10.0
"""Between two alarms: a rack that dies does so node by node."""
MOST = 200
"""Cells of a notification: desktops show no more."""


class Alarm:
    """Remembers what has been told."""

    def __init__(self) -> None:
        self._told: AbstractSet[str] = frozenset()
        self._began: float | None = None
        self._rang = -math.inf

    def new(self, snapshot: Snapshot, hidden: AbstractSet[str]) -> Sequence[Finding]:
        """Critical findings that nobody has been told of, all at once; what comes too soon after others is told later."""
        now = snapshot.taken
        self._began = self._began or now or None
        critical = {finding.key: finding for finding in snapshot.findings if finding.level == "critical"}
        fresh = [finding for key, finding in critical.items() if key not in self._told | hidden]
        settling = self._began is None or now - self._began < SETTLING
        if fresh and not settling and now - self._rang < APART:
            self._told &= critical.keys()
            return ()
        self._told = frozenset(critical)  # what has ended may begin anew
        if settling or not fresh:
            return ()
        self._rang = now
        return fresh


def ring(findings: Sequence[Finding], env: Mapping[str, str], *, ascii: bool = False) -> str:  # noqa: A002
    """What makes a terminal ring and notify: BEL and OSC 9.

    tmux swallows an OSC 9; what is wrapped it hands on where `allow-passthrough` is on, and swallows as well where it isn't.
    """
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    text = clean(findings[0].text)
    text = f"cockpit: {text if len(text) <= MOST else text[: MOST - 1] + '…'}{more}"
    notice = f"\x1b]9;{text.encode('ascii', 'replace').decode() if ascii else text}\x07"
    inside = "TMUX" in env or env.get("TERM", "").startswith("tmux")  # the latter where ssh was typed into a pane
    return "\x07" + (f"\x1bPtmux;{notice.replace(chr(27), chr(27) * 2)}\x1b\\" if inside else notice)
