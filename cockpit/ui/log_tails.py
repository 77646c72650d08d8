"""The last lines of the logs of some things, as they were read last and fit to be drawn."""

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
"""Lines that are kept of a log."""
LINES_READ: Final = TAIL_LINES + MAX_KEY_LINES
"""The lines before those that are kept may begin a secret which ends in them."""
MAX_LINE_CHARS: Final = 500
"""Kept of a line: more than the widest screen draws."""
MAX_TAILS: Final = 50
"""Things of which the last lines are kept; those read longest ago are forgotten first."""
READ_INTERVAL_S: Final = 5.0
"""Seconds after which a log that stays in sight is read again."""
MAX_READ_SHARE: Final = 0.1
"""Share of time that may go into reading logs again: an old Ray sends the whole log of a job for its last line."""
FIRST_LINES_TIMEOUT_S: Final = 10.0
"""Seconds for the first lines to come."""
MAX_READ_S: Final = 2.5
"""Seconds from the first lines on, after which a log that is still being written is read no further; one that is not ends sooner."""

_RAY_MARK: Final = re.compile(r":(?:job_id|actor_name|task_name):.*")
"""What Ray's workers write at the top of out and err alike, and before a task: no words of the program."""


class LogTail(msgspec.Struct, frozen=True):
    """What was read of the log that matters for a thing, or why it could not be read."""

    log: Log | None = None
    lines: tuple[str, ...] = ()
    """Safe text without secrets, the newest last."""
    why: str = ""
    """Why there are no lines; empty: there are none in the log."""
    logs: tuple[Log, ...] = ()
    """All logs of the thing, in the order of the log screen."""
    of: object = None
    """What the logs were found for; of anything else they must be found anew."""
    read_at: float = 0.0
    took: float = 0.0
    """Seconds."""

    @property
    def keys(self) -> str:
        """What opens the log."""
        return " ".join(("l", *("o" for _ in self.logs[: self.logs.index(self.log)]))) if self.log in self.logs and self.log else "l"


class LogTails:
    """By key of a thing."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.known: dict[str, LogTail] = {}

    def is_due(self, thing: Any, *, again: bool) -> bool:
        """Whether its log is to be read; unless `again`, only what has never been read."""
        tail = self.known.get(thing.key)
        if tail is None or not again:
            return tail is None
        return self._clock() - tail.read_at >= max(READ_INTERVAL_S, tail.took / MAX_READ_SHARE)

    async def read(self, thing: Any, find: Callable[[Any], Awaitable[tuple[Log, ...]]]) -> None:
        """Read the last lines of its log; `find` gives all its logs."""
        begun, of, before = self._clock(), _process_of(thing), self.known.get(thing.key)
        logs = before.logs if before and before.of == of and not before.why else ()
        try:
            logs = logs or await find(thing)
            log, lines = await _read_first(logs)
            why = ""
        except SourceError as error:
            log, lines, why = None, (), str(error)
        now = self._clock()
        self.known.pop(thing.key, None)  # so that the one read last stands last
        self.known[thing.key] = LogTail(log, lines, why, tuple(logs), of, now, now - begun)
        if len(self.known) > MAX_TAILS:
            del self.known[next(iter(self.known))]


def _process_of(thing: Any) -> object:
    """With another process an actor has other logs."""
    return tuple(getattr(thing, name, None) for name in ("node", "pid", "restarts", "wait"))


async def _read_first(logs: Sequence[Log]) -> tuple[Log, tuple[str, ...]]:
    """The first log with lines, err before out; the lines of a driver only where they are all there is."""
    own = [log for log in logs if log.label != "job"] or logs
    errors: list[SourceError] = []
    for pair in _pairs(own):
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


def _pairs(logs: Iterable[Log]) -> Sequence[Sequence[Log]]:
    """Err and out of one process together, each other log by itself."""
    pairs: dict[str, list[Log]] = {}
    for log in logs:
        stream = log.label.removesuffix(BEFORE)
        pairs.setdefault(log.label.removeprefix(stream) if stream in ("err", "out") else log.file, []).append(log)
    return [sorted(pair, key=lambda log: not log.label.startswith("err")) for pair in pairs.values()]


async def _read_end(log: Log) -> Sequence[str]:
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
    """The last of these raw lines that say something, without secrets and fit to be drawn."""
    hide = LineRedactor()
    safe = ("".join(text for text, _ in split_line(line, hide=hide)).rstrip() for line in lines)
    return tuple([line[:MAX_LINE_CHARS] for line in safe if line and not _RAY_MARK.fullmatch(line)][-TAIL_LINES:])
