"""Says why a job failed, in one sentence: by its log, and until that is read by the last lines that Ray keeps of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from cockpit.failures import describe, find_root_error
from cockpit.model import Failure, Job, Snapshot
from cockpit.text import clean
from cockpit.times.ttl_cache import TtlCache

MAX_REASON_CHARS: Final = 300
_HEAD: Final = (
    r"^(?:Job entrypoint command failed with exit code -?\d+, last available logs.*"
    r"|Running entrypoint for job .*|.{0,40}job_manager\.py:.*)$"
)
"""Lines of a job's message that Ray adds (dashboard/modules/job/job_manager.py)."""
PLAIN_MESSAGES: Final = frozenset({"Job is currently running.", "Job finished successfully.", "Job was intentionally stopped."})
"""What Ray says of every job of a status: no reason (dashboard/modules/job/common.py)."""
_OOM: Final = "Refer to the documentation on how to address the out of memory issue"
"""The end of an OutOfMemoryError's message. Ray gives only the last ten lines of a log, so the beginning is often missing."""
_OOM_CAUSE: Final = "Ray's memory monitor killed one of its workers because the node was low on memory"


def failure_of(job: Job, snapshot: Snapshot) -> Failure:
    """The failure of a failed job. `text` is `None` if neither its log nor Ray's message shows an error."""
    read = next((each for each in snapshot.failures if each.about == job.key and each.moment == job.ended), None)
    found = read if read is not None and read.text is not None else failure_in_message(job.message or "")
    living = [node.id for node in snapshot.nodes or () if found.ip and node.ip == found.ip and node.state == "ALIVE"]
    node = living[0] if len(living) == 1 else None if found.ip else job.driver_node
    return replace(found, about=job.key, moment=job.ended, node=node, unread=read.unread if read else None)


def _failure_in_message(message: str) -> Failure:
    lines = re.sub(_HEAD, "", message, flags=re.MULTILINE).splitlines()
    if (error := find_root_error(lines)) is not None:
        return describe(error)
    if _OOM in message:
        return Failure("", text=_OOM_CAUSE, cause=_OOM_CAUSE)
    last = next((clean(line.strip()) for line in reversed(lines) if line.strip(" \t\r-=")), None)
    return Failure("", text=last[:MAX_REASON_CHARS] if last else None)


failure_in_message = TtlCache(_failure_in_message, 256)


def reason_of(failure: Failure) -> str | None:
    """Why it failed, in one sentence without a full stop; `None`: no log shows it."""
    if failure.cause is not None:
        return failure.cause
    return failure.text.partition("\n")[0] if failure.text else None


def last_reason(job: Job, snapshot: Snapshot) -> str:
    """The reason of a failed job; of another job the last line of Ray's message."""
    if job.status == "FAILED":
        return reason_of(failure_of(job, snapshot)) or ""
    lines = [line.strip() for line in (job.message or "").splitlines() if line.strip()]
    return lines[-1] if lines and lines[-1] not in PLAIN_MESSAGES else ""


def group_key(failure: Failure) -> str | None:
    """Equal for failures with the same reason, apart from numbers; `None`: the reason is not known."""
    reason = failure.known or reason_of(failure)
    return None if reason is None else re.sub(r"0x[0-9a-f]+|\d+", "#", reason)


def known_part(failure: Failure, names: Iterable[str]) -> str | None:
    """The first of these parts that the error names."""
    parts = dict(failure.parts)
    return next((parts[name] for name in names if parts.get(name)), None)
