"""Says in one line why a job failed, by the lines of its log: the reason, where it was raised, and what helps."""

from __future__ import annotations

from collections.abc import Iterable

from cockpit.failures import describe, find_root_error
from cockpit.findings.failures import reason_of


def reason_in_log(lines: Iterable[str]) -> str | None:
    """Safe text without secrets; `None`: the lines show no error."""
    error = find_root_error(lines)
    failure = describe(error) if error is not None else None
    reason = reason_of(failure) if failure is not None else None
    if failure is None or reason is None:
        return None
    where = f" (raised at {failure.raised_at})" if failure.raised_at else ""
    return f"{reason}{where}{f'; what to do: {failure.remedy}' if failure.remedy else ''}"
