"""The logs of the Ray sessions on this host: their names, and one of them line by line, where Ray itself can't be asked."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any, Callable, Dict, Iterator

from .. import trust
from .kinds import SessionFolder
from .proc import make_legible
from .processes import ProcessScanner
from .session_folder import MOST_LOGS
from .sessions import SessionScanner
from .tree import file_id

MOST_NAMES = 1000
"""That are told of one pattern."""
MOST_LINES = 100_000
LAST_BYTES = 8 << 20
"""Of a log, from its end, in which its last lines are looked for."""
ALL_BYTES = 1 << 30
"""Of one that is wanted whole: twice what Ray lets a log grow to."""
STEP_BYTES = 256 << 10
"""That are said at once; after each the next follows only when somebody has read it."""
PAUSE = 0.5
"""Seconds between two looks at whether more was written."""
QUIET = 2.0
"""Seconds of silence after which it is said that nothing was written."""

Answer = Dict[str, Any]
Say = Callable[[Answer], None]


class LogError(Exception):
    """Why a log is not read, in one sentence."""


def list_logs(temps: "list[str]", session: str, pattern: str) -> Answer:
    """The names in the logs folder of that session that match, or a sentence that says why not."""
    try:
        with _logs_of(temps, session) as (folder, _), os.scandir(folder) as entries:
            matching = (entry.name for entry in islice(entries, MOST_LOGS) if fnmatchcase(entry.name, pattern))
            return {"names": [make_legible(name) for name in islice(matching, MOST_NAMES)]}
    except LogError as error:
        return {"error": str(error)}
    except OSError as error:
        return {"error": f"the logs of {session} can't be read: {_reason(error)}"}


def read_log(temps: "list[str]", session: str, name: str, lines: int, say: Say, *, follow: bool) -> None:
    """Says the last lines of that file (all: -1), and then, when it is followed, whatever is written to it; or why not.

    Bytes go as the characters of Latin-1 with the same numbers. A file that is cut is said from its new beginning.
    """
    if name != os.path.basename(name) or name in ("", ".", ".."):
        say({"error": "a log is named without a folder"})
        return
    try:
        with _logs_of(temps, session) as (folder, uid), trust.open_file(name, (uid,), folder) as file:
            _say_lines(file, lines, say, follow=follow)
    except LogError as error:
        say({"error": str(error)})
    except (OSError, ValueError) as error:
        say({"error": f"{make_legible(name)} in the logs of {session} can't be read: {_reason(error)}"})


@contextmanager
def _logs_of(temps: "list[str]", session: str) -> "Iterator[tuple[int, int]]":
    """The open logs folder of that session, and whose both are. Ray makes these writable for all: what is opened is what was looked at."""
    known = _find(temps, session)
    with trust.open_fd(known.path) as outer, trust.open_fd("logs", folder=outer) as logs:
        status, of_logs = os.fstat(outer), os.fstat(logs)
        if file_id(status) != known.place or (of_logs.st_uid, of_logs.st_dev) != (status.st_uid, status.st_dev):
            raise LogError(f"the logs of {session} are not its own folder: somebody has put another one there")
        yield logs, status.st_uid


def _find(temps: "list[str]", session: str) -> SessionFolder:
    """Of several of that name one of root's or ours, then one that lives."""
    folders = [each.facts for each in SessionScanner(temps).read(ProcessScanner().scan()).folders]
    found = [each for each in folders if each.name == session and each.place is not None]
    if not found:
        raise LogError(f"there is no Ray session {make_legible(session)} on this host")
    best = max(found, key=lambda each: (each.uid in trust.own_uids(), bool(each.answers)))
    if best.answers is None:
        raise LogError(f"whether session {session} is alive is unknown, so its logs are not read")
    return best


def _say_lines(file: int, lines: int, say: Say, *, follow: bool) -> None:
    at, silence = _start(file, lines), 0.0
    while True:
        size = os.fstat(file).st_size
        at = at if at <= size else 0
        while at < size and (data := os.pread(file, min(STEP_BYTES, size - at), at)):
            at, silence = at + len(data), 0.0
            say({"text": data.decode("latin-1")})
        if not follow:
            say({"text": "", "end": True})
            return
        time.sleep(PAUSE)
        silence += PAUSE
        if silence >= QUIET:
            say({"text": ""})
            silence = 0.0


def _start(file: int, lines: int) -> int:
    """Where the last so many lines begin."""
    size = os.fstat(file).st_size
    if lines < 0:
        return max(0, size - ALL_BYTES)
    first = max(0, size - LAST_BYTES)
    data = os.pread(file, size - first, first)
    at = len(data) - 1 if data.endswith(b"\n") else len(data)
    for _ in range(min(lines, MOST_LINES)):
        at = data.rfind(b"\n", 0, max(at, 0))
        if at < 0:
            return first if first == 0 else _after_first_line(data, first)
    return first + at + 1


def _after_first_line(data: bytes, first: int) -> int:
    """Where the first whole line of `data` begins; of a line that is longer than that, the end is wanted."""
    end = data.find(b"\n")
    return first + (end + 1 if end >= 0 else max(0, len(data) - STEP_BYTES))


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()
