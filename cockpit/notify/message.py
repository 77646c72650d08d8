"""Writes the message about findings that began and ended, as text for a chat and as data for a program."""

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
"""Characters of one finding's sentence, or of its remedy."""


class FindingNotice(Value, frozen=True):
    """The parts of a finding that a message contains; kept until the finding's end is sent."""

    key: str
    code: str
    level: Level
    subject: str
    text: str
    since: float | None
    remedy: str | None = None
    now: Level | None = None
    """Its present level, if it is sent as ended only because this target does not get that level."""


class Message(msgspec.Struct, frozen=True):
    """Findings that began and ended. Texts are safe for a terminal and contain no secrets, but may contain markup of a chat."""

    cluster: str
    at: float
    begun: Sequence[FindingNotice] = ()
    ended: Sequence[FindingNotice] = ()
    unread: Sequence[str] = ()
    """Sources that can't be read: their findings are not seen any more, but may not be over."""
    is_test: bool = False

    @property
    def heading(self) -> str:
        """The numbers of findings, and the cluster."""
        if self.is_test:
            return f"cockpit: this is a test, nothing is wrong. Cluster: {self.cluster}"
        counts = [f"{plural(len(of), 'finding')} {what}" for of, what in ((self.begun, "started"), (self.ended, self._end.lower())) if of]
        return f"cockpit: {', '.join(counts)}. Cluster: {self.cluster}"

    @property
    def entries(self) -> list[str]:
        """An entry of one or more lines for each finding, in the order of `begun` and `ended`."""
        found: list[str] = []
        for one in self.begun:
            remedy = f"\n  what to do: {one.remedy}" if one.remedy else ""
            found.append(f"{one.level.upper()} {one.text}\n  where: {one.subject}; {_since(one, self.at)}{remedy}")
        for one in self.ended:
            unread = f"; can't be read now: {', '.join(self.unread)}" if self.unread else ""
            what = f"LOWERED TO {one.now.upper()}" if one.now else self._end.upper()
            found.append(f"{what} (was {one.level}): {one.text}; where: {one.subject}; {_since(one, self.at)}{unread}")
        return found

    def text(self, most: int, measure: Callable[[str], int] = len) -> str:
        """The heading and as many entries as fit: `measure` of the text is at most `most`. The number of the others is added."""
        entries = self.entries

        def some(shown: int) -> str:
            rest = len(entries) - shown
            return "\n".join([self.heading, *entries[:shown], *([f"… and {rest} more: run `cockpit status`"] if rest else [])])

        if measure(whole := some(len(entries))) <= most:
            return whole
        fitting = bisect_right(range(len(entries)), most, key=lambda shown: measure(some(shown)))
        return some(fitting - 1) if fitting else self.heading[: most // 4]

    def document(self) -> dict[str, Any]:
        """The message as data for a program."""
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


def notice_of(finding: Finding) -> FindingNotice:
    """The notice of a finding; texts from the cluster are cleaned, shortened, and without secrets."""
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
    """The cluster's address; with the host's name if it is a loopback address, which means another host to every reader."""
    address = cluster.address or "unknown address"
    return _safe(f"{address} on {socket.gethostname()}" if is_near(cluster) else address)


def is_near(cluster: Cluster) -> bool:
    """Whether the cluster's address is a loopback address or unknown."""
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
