"""Says why a job failed, in one sentence: from its log, from the last lines that Ray has until the log is read, or from its exit code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from cockpit.failures import describe, find_root_error
from cockpit.failures.describe import safe_line
from cockpit.findings.exit_codes import meaning_of, signal_of
from cockpit.model import Failure, Job, Snapshot
from cockpit.times.ttl_cache import TtlCache

MAX_MESSAGE_LINES: Final = 200
"""Of Ray's message, from its end. It has ten lines of a log, or the output of a pip that failed."""
_HEAD: Final = re.compile(
    r"Job entrypoint command failed with exit code -?\d{1,20}, last available logs|(Running entrypoint for job )|.{0,60}\bjob_manager\.py:"
)
"""Lines of a job's message and log that Ray adds (dashboard/modules/job/job_manager.py)."""
PLAIN_MESSAGES: Final = frozenset({"Job is currently running.", "Job finished successfully.", "Job was intentionally stopped."})
"""What Ray says of every job of a status: no reason (dashboard/modules/job/common.py)."""
_TORCHRUN_ROW: Final = re.compile(r"(?:Root Cause \(first observed failure\)|\[\d{1,6}\]|time|host|rank|exitcode|error_file|traceback) ?:")
"""A row of torchrun's table of failures, of which Ray's message has only the end."""
_OOM: Final = "Refer to the documentation on how to address the out of memory issue"
"""The end of an OutOfMemoryError's message. Ray gives only the last ten lines of a log, so the beginning is often missing."""
_OOM_CAUSE: Final = "Ray's memory monitor killed one of its workers because the node was low on memory"


def failure_of(job: Job, snapshot: Snapshot) -> Failure:
    """The failure of a failed job. `text` and `cause` are `None` if neither log, message nor exit code shows a reason."""
    read = next((each for each in snapshot.failures if each.about == job.key and each.moment == job.ended), None)
    found = read if read is not None and read.text is not None else failure_in_message((job.message or "", job.entrypoint or ""))
    exit_code, is_signal = meaning_of(job.exit_code), signal_of(job.exit_code or 0) is not None
    # A process that a signal ended has raised no error: an unknown error in its log is an earlier one.
    if exit_code is not None and found.known is None and (found.text is None or is_signal):
        found = Failure("", text=found.text, cause=exit_code.cause, remedy=exit_code.remedy, look_up=exit_code.look_up)
    living = [node.id for node in snapshot.nodes or () if found.ip and node.ip == found.ip and node.state == "ALIVE"]
    node = living[0] if len(living) == 1 else None if found.ip else job.driver_node
    file = read.file if read is not None else None
    return replace(found, about=job.key, moment=job.ended, node=node, file=file, unread=read.unread if read else None)


def without_ray_lines(lines: Sequence[str], entrypoint: str) -> list[str]:
    """These lines of a job, empty where Ray has written them: the command of an entrypoint may contain the words of an error."""
    found = list(lines)
    for number, line in enumerate(lines):
        if (head := _HEAD.match(line)) is not None:
            count = entrypoint.count("\n") + 1 if head[1] else 1
            found[number : number + count] = [""] * len(found[number : number + count])
    return found


def _failure_in_message(message_and_entrypoint: tuple[str, str]) -> Failure:
    message, entrypoint = message_and_entrypoint
    lines = without_ray_lines(message.splitlines(), entrypoint)[-MAX_MESSAGE_LINES:]
    if (error := find_root_error(lines)) is not None:
        return describe(error)
    if _OOM in message:
        return Failure("", text=_OOM_CAUSE, cause=_OOM_CAUSE)
    said = (line for raw in reversed(lines) if (line := safe_line(raw)).strip("-= ") and not _TORCHRUN_ROW.match(line))
    return Failure("", text=next(said, None))


failure_in_message = TtlCache(_failure_in_message, 256)
"""Of a message and its job's entrypoint."""


def reason_of(failure: Failure) -> str | None:
    """Why it failed, in one sentence without a full stop; `None`: nothing shows it."""
    if failure.cause is not None:
        has_failed = failure.moment is not None
        return f"it last reported: {failure.cause}" if failure.is_notice and has_failed else failure.cause
    return failure.text.partition("\n")[0] if failure.text else None


def how_it_ended(job: Job) -> str | None:
    """`exit code 1`, `killed by signal 9`; without both Ray's type of the error."""
    if job.exit_code is None:
        return job.error_type and safe_line(job.error_type)  # beside an exit code the error type adds nothing
    return f"exit code {job.exit_code}" if job.exit_code >= 0 else f"killed by signal {-job.exit_code}"


def reason_in_log(lines: Sequence[str], entrypoint: str) -> str | None:
    """Why a job failed, where that was raised, and what helps, in one line that is safe to show; `None`: its log shows no error."""
    error = find_root_error(without_ray_lines(lines, entrypoint))
    failure = describe(error) if error is not None else None
    reason = reason_of(failure) if failure is not None else None
    if failure is None or reason is None:
        return None
    where = f" (raised at {failure.raised_at})" if failure.raised_at else ""
    return f"{reason}{where}{f'; what to do: {failure.remedy}' if failure.remedy else ''}"


def last_reason(job: Job, snapshot: Snapshot) -> str:
    """The reason of a failed job, without one how it ended; of another job the last line of Ray's message."""
    if job.status == "FAILED":
        return reason_of(failure_of(job, snapshot)) or how_it_ended(job) or ""
    lines = [line.strip() for line in (job.message or "").splitlines() if line.strip()]
    return lines[-1] if lines and lines[-1] not in PLAIN_MESSAGES else ""


def last_report(about: str, snapshot: Snapshot) -> Failure | None:
    """What the log of a running job, or of an actor's process before its restart, last reported; `None`: it was not read."""
    return next((each for each in snapshot.failures if each.about == about and each.unread is None), None)


def group_key(failure: Failure) -> str | None:
    """Equal for failures with the same reason, apart from numbers; `None`: the reason is not known."""
    reason = failure.known or reason_of(failure)
    return None if reason is None else re.sub(r"0x[0-9a-f]+|\d+", "#", reason)


def known_part(failure: Failure, names: Iterable[str]) -> str | None:
    """The first of these parts that the error names."""
    parts = dict(failure.parts)
    return next((parts[name] for name in names if parts.get(name)), None)
