"""What happened at one moment: a finding, fault or job that began or ended, an act, cockpit's own coming and going."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from cockpit.model import Level, Value

Phase = Literal["begin", "worse", "end"]
"""`worse`: a finding has a higher level than before."""


class Event(Value, frozen=True):
    """One thing that happened. Never thinned, and written as soon as it is seen."""

    at: float
    kind: str
    """`finding`, `fault`, `job`, `act` or `recording`; of a later cockpit perhaps another one."""
    text: str
    """One sentence."""
    phase: Phase = "begin"
    subject: str | None = None
    """What it is about, as people call it."""
    level: Level | None = None
    """Of a finding its own; `critical` for a job that failed."""
    key: str | None = None
    """What begin and end have in common: `finding:…`, `fault:…`, `job:…`, `act:…`."""
    about: tuple[str, ...] = ()
    """Keys of the rows it is about."""
    data: Mapping[str, Any] | None = None
    """Of an act: `act`, `user`, `host`, `plan`, `outcome`, as in the log of acts."""
