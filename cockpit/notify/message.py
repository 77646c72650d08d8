"""What is told of findings that began and ended, in plain words, for a chat and for a program."""

from __future__ import annotations

import socket
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from cockpit.findings.rays_here import is_loopback
from cockpit.model import Cluster, Finding, Level, Value
from cockpit.secrets import redact
from cockpit.text import age, clean, plural

LONGEST_LINE = 600
"""Characters of one finding's sentence, or of what helps."""


class FindingNotice(Value, frozen=True):
    """A finding that was told as begun: what its end is told with."""

    key: str
    code: str
    level: Level
    subject: str
    text: str
    since: float | None
    remedy: str | None = None
    now: Level | None = None
    """Of one that is told as ended: it goes on at a level that this target is not told of."""


class Message(msgspec.Struct, frozen=True):
    """What began and what ended; the text is safe for a terminal and holds no secrets, but may still be markup to whoever draws it."""

    cluster: str
    at: float
    begun: Sequence[FindingNotice] = ()
    ended: Sequence[FindingNotice] = ()
    unread: Sequence[str] = ()
    """Sources that can't be read: what was found by them is not seen any more, but may not be over."""
    is_test: bool = False

    @property
    def heading(self) -> str:
        """Cluster and counts."""
        if self.is_test:
            return f"cockpit: this is a test, nothing is wrong. Cluster: {self.cluster}"
        counts = [f"{plural(len(of), 'finding')} {what}" for of, what in ((self.begun, "started"), (self.ended, self._end.lower())) if of]
        return f"cockpit: {', '.join(counts)}. Cluster: {self.cluster}"

    @property
    def entries(self) -> list[str]:
        """A few lines for each finding, the worst first."""
        return [*(self._begin_lines(one) for one in self.begun), *(self._end_line(one) for one in self.ended)]

    def text(self, most: int, measure: Callable[[str], int] = len) -> str:
        """As much as `measure` finds to be at most so much; it is said how many findings were left out."""
        entries = self.entries

        def some(shown: int) -> str:
            rest = len(entries) - shown
            return "\n".join([self.heading, *entries[:shown], *([f"… and {rest} more: run `cockpit status`"] if rest else [])])

        if measure(whole := some(len(entries))) <= most:
            return whole
        fitting = bisect_right(range(len(entries)), most, key=lambda shown: measure(some(shown)))
        return some(fitting - 1) if fitting else self.heading[: most // 4]

    def document(self) -> dict[str, Any]:
        """For a program."""
        return {
            "version": 1,
            "test": self.is_test,
            "cluster": self.cluster,
            "at": self.at,
            "begun": msgspec.to_builtins(self.begun),
            "ended": msgspec.to_builtins(self.ended),
            "unread": list(self.unread),
            "text": self.text(1 << 20),
        }

    @property
    def _end(self) -> str:
        return "Not seen any more" if self.unread else "Cleared"

    def _begin_lines(self, one: FindingNotice) -> str:
        lines = [f"{one.level.upper()} {one.text}", f"  where: {one.subject}; {_since(one, self.at)}"]
        return "\n".join([*lines, *([f"  what to do: {one.remedy}"] if one.remedy else [])])

    def _end_line(self, one: FindingNotice) -> str:
        blind = f"; can't be read now: {', '.join(self.unread)}" if self.unread else ""
        what = f"LOWERED TO {one.now.upper()}" if one.now else self._end.upper()
        return f"{what} (was {one.level}): {one.text}; where: {one.subject}; {_since(one, self.at)}{blind}"


def notice_of(finding: Finding) -> FindingNotice:
    """Of the cluster's text only what is safe to be shown."""
    remedy = finding.remedy.text.splitlines() if finding.remedy else []
    return FindingNotice(
        _safe(finding.key),
        finding.code,
        finding.level,
        _safe(finding.subject),
        _safe(finding.text),
        finding.since,
        _safe(remedy[0]) if remedy else None,
    )


def cluster_name(cluster: Cluster) -> str:
    """Its address; of one on this host with the host's name, as elsewhere nobody knows which host is meant."""
    address = cluster.address or "unknown address"
    return _safe(f"{address} on {socket.gethostname()}" if is_near(cluster) else address)


def is_near(cluster: Cluster) -> bool:
    """Whether its address says this host, whichever that is."""
    name = (urlsplit(cluster.address).hostname or "") if cluster.address else "localhost"
    return is_loopback(name) or name in ("localhost.localdomain", "localhost4", "localhost6")  # as hosts files have it


def _since(one: FindingNotice, now: float) -> str:
    if one.since is None:
        return "start time unknown"
    date = time.strftime("%m-%d %H:%M:%S", time.localtime(one.since))
    return f"since {date} ({age(now - one.since)})"


def _safe(text: str) -> str:
    line = redact(clean(text))
    return line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 1] + "…"
