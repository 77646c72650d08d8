"""Lists and reads the logs of the Ray sessions on this host, for when Ray itself can't be asked."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any, Callable, Dict, Iterator

from .. import trust
from .proc import make_legible
from .processes import ProcessScanner
from .session_folder import MAX_LOGS
from .sessions import SessionScanner
from .tree import file_id

MAX_NAMES = 1000
"""Names that are listed for one pattern."""
MAX_LINES = 100_000
LAST_BYTES = 8 << 20
"""The last lines are searched in so many bytes at the end of a log."""
ALL_BYTES = 1 << 30
"""Bytes that are read from the end of a log if all its lines are wanted: twice the size at which Ray rotates a log."""
STEP_BYTES = 256 << 10
"""Bytes that are written at once. The next step follows when the reader has taken this one."""
POLL_INTERVAL_S = 0.5
"""Seconds between two checks whether the log has grown."""
EMPTY_ANSWER_AFTER_S = 2.0
"""After so many seconds without new lines, an empty answer says that nothing was written."""

Answer = Dict[str, Any]
Send = Callable[[Answer], None]


class LogError(Exception):
    """The reason why a log is not read, as one sentence."""


def list_logs(temps: "list[str]", session: str, pattern: str) -> Answer:
    """`names`: the names in the logs folder of that session that match the pattern; or `error`: a sentence."""
    try:
        with _open_logs_folder(temps, session) as (folder, _), os.scandir(folder) as entries:
            matching = (entry.name for entry in islice(entries, MAX_LOGS) if fnmatchcase(entry.name, pattern))
            return {"names": [make_legible(name) for name in islice(matching, MAX_NAMES)]}
    except LogError as error:
        return {"error": str(error)}
    except OSError as error:
        return {"error": f"the logs of {session} can't be read: {_reason(error)}"}


def read_log(temps: "list[str]", session: str, name: str, lines: int, send: Send, *, follow: bool) -> None:
    """Sends the last `lines` lines of that log (-1: all) and, with `follow`, everything that is written to it later; or an `error`.

    Each byte is sent as the character of Latin-1 with the same number. A log that is truncated is sent from its new beginning.
    """
    if name != os.path.basename(name) or name in ("", ".", ".."):
        send({"error": "a log is named without a folder"})
        return
    try:
        with _open_logs_folder(temps, session) as (folder, uid), trust.open_file(name, (uid,), folder) as file:
            _send_lines(file, lines, send, follow=follow)
    except LogError as error:
        send({"error": str(error)})
    except (OSError, ValueError) as error:
        send({"error": f"{make_legible(name)} in the logs of {session} can't be read: {_reason(error)}"})


@contextmanager
def _open_logs_folder(temps: "list[str]", session: str) -> "Iterator[tuple[int, int]]":
    """The descriptor of that session's logs folder, and its owner. Raises `LogError` and `OSError`.

    If several sessions have that name, one of root or of our user comes first, then a live one. Ray makes these folders writable for all
    users, so both are checked after they were opened.
    """
    folders = [each.facts for each in SessionScanner(temps).read(ProcessScanner().scan()).folders]
    found = [each for each in folders if each.name == session and each.place is not None]
    if not found:
        raise LogError(f"there is no Ray session {make_legible(session)} on this host")
    best = max(found, key=lambda each: (each.uid in trust.own_uids(), bool(each.answers)))
    if best.answers is None:
        raise LogError(f"whether session {session} is alive is unknown, so its logs are not read")
    with trust.open_fd(best.path) as outer, trust.open_fd("logs", folder=outer) as logs:
        status, of_logs = os.fstat(outer), os.fstat(logs)
        if file_id(status) != best.place or (of_logs.st_uid, of_logs.st_dev) != (status.st_uid, status.st_dev):
            raise LogError(f"the logs of {session} are not its own folder: somebody has put another one there")
        yield logs, status.st_uid


def _send_lines(file: int, lines: int, send: Send, *, follow: bool) -> None:
    at, silence = _start_of_last_lines(file, lines), 0.0
    while True:
        size = os.fstat(file).st_size
        at = at if at <= size else 0
        while at < size and (data := os.pread(file, min(STEP_BYTES, size - at), at)):
            at, silence = at + len(data), 0.0
            send({"text": data.decode("latin-1")})
        if not follow:
            send({"text": "", "end": True})
            return
        time.sleep(POLL_INTERVAL_S)
        silence += POLL_INTERVAL_S
        if silence >= EMPTY_ANSWER_AFTER_S:
            send({"text": ""})
            silence = 0.0


def _start_of_last_lines(file: int, lines: int) -> int:
    """The position of the first of the last `lines` lines (-1: all)."""
    size = os.fstat(file).st_size
    if lines < 0:
        return max(0, size - ALL_BYTES)
    first = max(0, size - LAST_BYTES)
    data = os.pread(file, size - first, first)
    at = len(data) - 1 if data.endswith(b"\n") else len(data)
    for _ in range(min(lines, MAX_LINES)):
        at = data.rfind(b"\n", 0, max(at, 0))
        if at < 0 and first == 0:
            return 0
        if at < 0:  # there are fewer lines in LAST_BYTES: begin after the first, cut line; of a single longer line send the end
            end = data.find(b"\n")
            return first + (end + 1 if end >= 0 else max(0, len(data) - STEP_BYTES))
    return first + at + 1


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()
