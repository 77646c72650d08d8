"""Defines an event: a finding, fault, job or action that began or ended, or cockpit's own start and stop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from cockpit.model import Level, Value

Phase = Literal["begin", "worse", "end"]
"""`worse`: a finding has a higher level than before."""


class Event(Value, frozen=True):
    """One event. Each is written as soon as it is seen, between two frames too."""

    at: float
    kind: str
    """`finding`, `fault`, `job`, `act` or `recording`; a later cockpit may have more."""
    text: str
    """One sentence."""
    phase: Phase = "begin"
    subject: str | None = None
    """The name of the thing for people."""
    level: Level | None = None
    """The level of a finding; `critical` for a job that failed."""
    key: str | None = None
    """The same for begin and end: `finding:…`, `fault:…`, `job:…`, `act:…`."""
    about: tuple[str, ...] = ()
    """Keys of the rows it is about."""
    data: Mapping[str, Any] | None = None
    """Of an action: `act`, `user`, `host`, `plan`, `outcome`, as in the log of actions."""
