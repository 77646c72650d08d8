"""Finds the place in a log that the user looks for: the line of the error that caused a failure, and the file in which it stands."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from cockpit.findings.actors import RESTARTING_CODE
from cockpit.findings.failures import failure_of, last_report
from cockpit.findings.stalls import STALL_CODES
from cockpit.model import Actor, Failure, Finding, Job, Snapshot
from cockpit.model.about import find_things

CODES_WITH_ERRORS: Final = frozenset({"job-failed", RESTARTING_CODE, *STALL_CODES})
"""Codes of findings about a failure, or about something that may have reported one."""
MIN_QUOTE_CHARS: Final = 4
"""Shortest line of an error that is specific enough to be searched in a log."""


class LogPlace(msgspec.Struct, frozen=True):
    """Where a log is opened."""

    marks: tuple[str, ...] = ()
    """The first line of the error; empty: the log is opened at its end."""
    file: str | None = None
    """The log in which it stands; `None`: unknown."""
    node: str | None = None
    """The id of the node with that file; `None`: unknown."""


def place_of(thing: Any, snapshot: Snapshot) -> LogPlace:
    """Where the log of a finding, a job or an actor is opened."""
    failure = failure_about(thing, snapshot)
    if failure is None or not failure.text:
        return LogPlace()
    line = failure.text.partition("\n")[0].strip()
    # A cause that cockpit has worded stands in no log.
    is_quote = failure.text != failure.cause and len(line) >= MIN_QUOTE_CHARS
    return LogPlace((line,) if is_quote else (), failure.file, failure.node)


def failure_about(thing: Any, snapshot: Snapshot) -> Failure | None:
    """The failure that a finding is about, or that a job or an actor has; `None`: there is none, or it was not read."""
    if isinstance(thing, Finding):
        if thing.code not in CODES_WITH_ERRORS:
            return None
        by_key = {each.key: each for each in find_things(thing, snapshot)}
        things = [by_key[key] for key in thing.about if key in by_key and isinstance(by_key[key], (Job, Actor))]
        return next((failure for each in things if (failure := failure_about(each, snapshot)) is not None), None)
    if isinstance(thing, Job) and thing.status == "FAILED":
        return failure_of(thing, snapshot)
    if isinstance(thing, (Job, Actor)):
        return last_report(thing.key, snapshot)
    return None
