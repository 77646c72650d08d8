"""Defines the trouble of actors that don't start."""

from __future__ import annotations

from cockpit.model.value import Value


class StartTrouble(Value, frozen=True):
    """What actors wait for that have a place and don't start, by the logs of their node. Texts are clean and without secrets."""

    about: tuple[str, ...]
    """The keys of the actors; the supervisor of a job is one."""
    text: str
    """Continues `the actor waits: `."""
    remedy: str | None = None
    fails: bool = False
    """Whether it fails again and again, so that waiting alone does not help."""
    silent_since: float | None = None
    """Since when what it waits for has said nothing, at the earliest; `None`: it does not apply."""
