"""Reads and keeps the last lines of the logs of jobs, actors, processes and nodes, safe to draw."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from cockpit.monitor.logs import BEFORE, Log
from cockpit.secrets import LineRedactor
from cockpit.sources.source import SourceError, wait_within
from cockpit.ui.log_colours import split_line
from cockpit.ui.log_strips import MAX_KEY_LINES

TAIL_LINES: Final = 20
"""Lines kept of a log."""
LINES_READ: Final = TAIL_LINES + MAX_KEY_LINES
"""Lines read of a log: a secret that ends in the kept lines may begin before them."""
MAX_LINE_CHARS: Final = 500
"""Characters kept of a line: more than the widest screen draws."""
MAX_TAILS: Final = 50
"""Things whose last lines are kept. The entry read longest ago is dropped first."""
READ_INTERVAL_S: Final = 5.0
"""Seconds after which a log that stays visible is read again."""
MAX_READ_SHARE: Final = 0.1
"""Largest share of time for reading a log again: an old Ray sends the whole log of a job for its last line."""
FIRST_LINES_TIMEOUT_S: Final = 10.0
"""Seconds until the first lines must arrive."""
MAX_READ_S: Final = 2.5
"""Seconds from the first lines on after which reading stops. A log that nobody writes ends sooner."""
_RAY_MARK: Final = re.compile(r":(?:job_id|actor_name|task_name):.*")
"""Lines that Ray's workers write at the top of out and err and before a task; not output of the program."""


class LogTail(msgspec.Struct, frozen=True):
    """The last lines of the log of a thing, or the reason why they could not be read."""

    log: Log | None = None
    lines: tuple[str, ...] = ()
    """Safe text without secrets, the newest last."""
    why: str = ""
    """Why the log could not be read; empty: it was read."""
    logs: tuple[Log, ...] = ()
    """All logs of the thing, in the order of the log screen."""
    of: object = None
    """The process of the thing when `logs` were found; for another process they must be found again."""
    read_at: float = 0.0
    took: float = 0.0
    """Seconds."""

    @property
    def keys(self) -> str:
        """The keys that open the log."""
        return " ".join(("l", *("o" for _ in self.logs[: self.logs.index(self.log)]))) if self.log in self.logs and self.log else "l"


class LogTails:
    """The last lines of logs, by the key of the thing."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.known: dict[str, LogTail] = {}

    def is_due(self, thing: Any, *, again: bool) -> bool:
        """Whether the log of a thing must be read now; without `again`, only if it was never read."""
        tail = self.known.get(thing.key)
        if tail is None or not again:
            return tail is None
        return self._clock() - tail.read_at >= max(READ_INTERVAL_S, tail.took / MAX_READ_SHARE)

    async def read(self, thing: Any, find: Callable[[Any], Awaitable[tuple[Log, ...]]]) -> None:
        """Read the last lines of the log of a thing; `find` returns all its logs."""
        begun, before = self._clock(), self.known.get(thing.key)
        # After a restart an actor has another process, which has other logs.
        of = tuple(getattr(thing, name, None) for name in ("node", "pid", "restarts", "wait"))
        logs = before.logs if before and before.of == of and not before.why else ()
        try:
            logs = logs or await find(thing)
            log, lines = await _read_first(logs)
            why = ""
        except SourceError as error:
            log, lines, why = None, (), str(error)
        now = self._clock()
        self.known.pop(thing.key, None)  # so the log read last is at the end
        self.known[thing.key] = LogTail(log, lines, why, tuple(logs), of, now, now - begun)
        if len(self.known) > MAX_TAILS:
            del self.known[next(iter(self.known))]


async def _read_first(logs: Sequence[Log]) -> tuple[Log, tuple[str, ...]]:
    """Read the first log that has lines, err before out; the log of a driver only if there is no other."""
    own = [log for log in logs if log.label != "job"] or logs
    pairs: dict[str, list[Log]] = {}  # out and err of one process together, each other log by itself
    for log in own:
        stream = log.label.removesuffix(BEFORE)
        pairs.setdefault(log.label.removeprefix(stream) if stream in ("err", "out") else log.file, []).append(log)
    errors: list[SourceError] = []
    for pair in pairs.values():
        pair.sort(key=lambda log: not log.label.startswith("err"))
        for log, found in zip(pair, await asyncio.gather(*map(_read_end, pair), return_exceptions=True), strict=True):
            if isinstance(found, SourceError):
                errors.append(found)
            elif isinstance(found, BaseException):
                raise found
            elif lines := fit_lines(found):
                return log, lines
    if errors:
        raise errors[0]
    return own[0], ()


async def _read_end(log: Log) -> Sequence[str]:
    """The last lines of a log. Raises `SourceError` if none arrive in time."""
    kept: deque[str] = deque(maxlen=LINES_READ)
    batches = log.follow(LINES_READ, False).__aiter__()
    loop = asyncio.get_running_loop()
    ends, has_come = loop.time() + FIRST_LINES_TIMEOUT_S, False
    try:
        while (batch := await wait_within(ends - loop.time(), anext(batches, None))) is not None:
            kept.extend(batch)
            if not has_come:
                ends, has_come = loop.time() + MAX_READ_S, True
    except asyncio.TimeoutError:
        if not has_come:
            raise SourceError(f"{log.title}: no answer within {FIRST_LINES_TIMEOUT_S:g} s") from None
    return kept


def fit_lines(lines: Iterable[str]) -> tuple[str, ...]:
    """The last of these raw lines, without secrets, empty lines and Ray's own lines, safe to draw."""
    hide = LineRedactor()
    safe = ("".join(text for text, _ in split_line(line, hide=hide)).rstrip() for line in lines)
    return tuple([line[:MAX_LINE_CHARS] for line in safe if line and not _RAY_MARK.fullmatch(line)][-TAIL_LINES:])
