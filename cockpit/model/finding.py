"""What is wrong, in a sentence, with what proves it and what mends it."""

from __future__ import annotations

from typing import Literal

from cockpit.model.value import Value

Level = Literal["info", "warning", "critical"]
LEVELS: tuple[Level, ...] = ("critical", "warning", "info")
"""The worst first."""


class Remedy(Value, frozen=True):
    """What helps, in words; `act` is the id of the act in the table of acts that does it, where cockpit has one."""

    text: str
    act: str | None = None


class Finding(Value, frozen=True):
    """One thing that is wrong now. `(code, subject)` is its identity: at any moment there is one of each at most."""

    code: str
    """A stable name such as `gpu-memory-orphaned`."""
    level: Level
    subject: str
    """What it is about, as people call it: `w1`, `w1 GPU 3`, `job train1`."""
    text: str
    """One sentence with the numbers in it."""
    evidence: tuple[str, ...] = ()
    """Lines that anyone can check without cockpit."""
    since: float | None = None
    """When it began, where that is known; else the tracker's first sight of it."""
    remedy: Remedy | None = None
    about: tuple[str, ...] = ()
    """Keys of the rows it is about; the remedy's act is aimed at those of them that it takes."""
    seen: float | None = None
    """When the oldest of the facts it is made of were true; `None`: now."""
    sources: tuple[str, ...] = ()
    """What it rests on: `ray.jobs`, `w1 nvml`. Nothing of it is newer than the oldest of these; empty where nobody has said so."""

    @property
    def key(self) -> str:
        """Its identity."""
        return f"finding:{self.code}:{self.subject}"

    def lasted(self, now: float) -> float | None:
        """Seconds for which it is known to have held: until its facts were last seen. `None` where its begin is not known."""
        return None if self.since is None else max(0.0, (now if self.seen is None else min(self.seen, now)) - self.since)


def rank_of(finding: Finding, since: float) -> tuple[int, bool, float]:
    """They are sorted by this: the worst first, of these what lasts longest (it may be the cause), then failed jobs, the newest first."""
    has_ended = finding.code == "job-failed"
    return LEVELS.index(finding.level), has_ended, -since if has_ended else since
