"""Defines a finding: something wrong, in one sentence, with its evidence and its remedy."""

from __future__ import annotations

from typing import Literal

import msgspec

from cockpit.model.value import Value

Level = Literal["info", "warning", "critical"]
LEVELS: tuple[Level, ...] = ("critical", "warning", "info")
"""The most severe first."""


class Remedy(Value, frozen=True):
    """What helps, in words. `action` is the id of the action that does it, if cockpit has one; in JSON it is called `act`."""

    text: str
    action: str | None = msgspec.field(default=None, name="act")


class Finding(Value, frozen=True):
    """One thing that is wrong now. Its identity, unique at any moment, is `(code, subject)`."""

    code: str
    """A stable name such as `gpu-memory-orphaned`."""
    level: Level
    subject: str
    """Its subject under the name that people use: `w1`, `w1 GPU 3`, `job train1`."""
    text: str
    """One sentence with the numbers in it."""
    evidence: tuple[str, ...] = ()
    """Lines that anyone can check without cockpit."""
    since: float | None = None
    """When it began, if known; otherwise when the tracker first saw it."""
    remedy: Remedy | None = None
    about: tuple[str, ...] = ()
    """Keys of the rows it is about; they are the target of the remedy's action, if it takes them."""
    seen: float | None = None
    """When its oldest facts were true; `None`: now."""
    sources: tuple[str, ...] = ()
    """The sources of its facts, such as `ray.jobs` and `w1 nvml`, if known; it is as old as the oldest of them."""

    @property
    def key(self) -> str:
        """Its identity."""
        return f"finding:{self.code}:{self.subject}"

    def lasted(self, now: float) -> float | None:
        """Return the seconds from its begin until its facts were last seen, or `None` if its begin is unknown."""
        return None if self.since is None else max(0.0, (now if self.seen is None else min(self.seen, now)) - self.since)


def rank_of(finding: Finding, since: float) -> tuple[int, bool, float]:
    """Return the sort key: by severity, then the longest first (it may be the cause), then failed jobs, the newest first."""
    has_ended = finding.code == "job-failed"
    return LEVELS.index(finding.level), has_ended, -since if has_ended else since
