"""Finds the error in a log that caused the others: the first cause of a chain, below the wrappers, of the rank that failed first."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final

import msgspec

from cockpit.failures.known import Match, find_all_known, find_known
from cockpit.failures.known.error import KnownError
from cockpit.failures.log_lines import LogLine, read_lines

MAX_BLOCK_LINES: Final = 12
"""Of the text of an error, beginning with the line that names it."""
MAX_GAP_LINES: Final = 200
"""Errors with more other lines between them belong to different failures: a job may go on after the first."""
MAX_TAIL_LINES: Final = 400
"""At the end of the log, in which a known text counts if no error was raised."""
_TRACEBACK: Final = "Traceback (most recent call last):"
_FRAME: Final = re.compile(r'\s{1,12}File "([^"\n]{1,400})", line (\d{1,7})(?:, in (\S{1,200}))?')
_RAY_CALL: Final = re.compile(r"(?:^|: )\s{0,8}ray::[^\n(]{1,200}\(\) \(pid=(\d{1,10})(?:, ip=([\w.:]{1,60}))?")
"""Begins the stack of a remote call: `ray::WorkerDict.fit() (pid=12, ip=10.0.0.2, actor_id=…)` (ray/exceptions.py: RayTaskError)."""
_RAISED: Final = re.compile(
    r"(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Za-z_]\w{0,80}(?:Error|Exception|Exit|Interrupt|Timeout|Fault|Refused|Unavailable|Died|Crashed|Full)"
    r"(?:\([\w.]{1,80}\))?(?::|$)"
)
_NAME_IN_TRACEBACK: Final = re.compile(r"(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Za-z_]\w{0,80}(?:\([\w.]{1,80}\))?(?:: |:$|$)")
"""After a traceback any name is an exception: not all of them end with `Error`."""
_OTHER_LINE: Final = re.compile(r"Process \S{1,60}:$|[\[(]?\d{4}-\d\d-\d\d[ T]|(?:INFO|WARNING|ERROR|DEBUG)\b|\[?[IWEF]\d{4} ")
"""A line of a logger, or of multiprocessing."""
_DIRECT: Final = "The above exception was the direct cause of the following exception:"
_DURING: Final = "During handling of the above exception, another exception occurred:"
_HARMLESS: Final = ("Exception ignored in", "--- Logging error ---", "Exception ignored on")
"""Before a traceback that ends nothing."""
_WRAPPER: Final = re.compile(
    r"(?:[\w.]{0,80}\.)?(?:RayTaskError|RayActorError|ActorDiedError|ActorUnavailableError|WorkerCrashedError|TaskUnschedulableError|ChildFailedError|"
    r"CalledProcessError|ProcessRaisedException|ProcessExitedException|EngineDeadError|SystemExit|KeyboardInterrupt|CancelledError)\b"
)
"""Exceptions that only report that something else has failed."""
_ENGINE_WRAPPER: Final = re.compile(
    r"RuntimeError: (?:Engine core initialization failed|Engine process failed to start|Engine core proc \S{1,60} died)|"
    r"Exception: (?:WorkerProc|EngineCore) \S{0,20} ?(?:initialization )?failed|Failed core proc"
)


class RootError(msgspec.Struct, frozen=True):
    """The error that caused the others."""

    text: str
    """Its own words, from the line that names it; at most `MAX_BLOCK_LINES` lines."""
    line: LogLine
    known: Match | None = None
    """The row of the table of known errors, with the parts of this text."""
    raised_at: str | None = None
    """`trainer.py:210 in fit`, the innermost call; `None`: the log does not say."""
    also: int = 0
    """The number of other processes that report the same error."""
    others: str | None = None
    """The most frequent other error of the same failure, in one line; mostly it follows from this one."""
    others_count: int = 0
    """The number of processes that report that."""
    earlier_s: float | None = None
    """Seconds by which it was earlier than the other error; `None`: the log does not say."""

    @property
    def is_consequence(self) -> bool:
        """Whether it only reports that something else has failed."""
        return self.known.error.is_consequence if self.known else _is_wrapper(self.text)


class _Error(msgspec.Struct):
    """An error that was raised."""

    line: LogLine
    text: str
    end: int
    """The number of its last line."""
    frames: list[str]
    direct_cause: _Error | None = None
    known: Match | None = None

    @property
    def first_line(self) -> str:
        return self.text.partition("\n")[0]

    @property
    def is_wrapper(self) -> bool:
        return _is_wrapper(self.text)

    @property
    def is_consequence(self) -> bool:
        """Whether it only reports that something else has failed."""
        return self.known.error.is_consequence if self.known else self.is_wrapper


def _is_wrapper(text: str) -> bool:
    return _WRAPPER.match(text) is not None or _ENGINE_WRAPPER.match(text) is not None


def find_root_error(raw_lines: Iterable[str]) -> RootError | None:
    """The root error of a failure that ends this log; `None`: the log shows none."""
    lines = list(read_lines(raw_lines))
    errors = sorted(_raised_errors(lines), key=lambda error: error.line.number)
    for error in errors:
        error.known = find_known(error.text)
    burst = _last_burst(errors)
    certain = [error for error in burst if error.known and not error.known.error.is_consequence]
    last = burst[-1] if burst else None
    if certain:
        return _root(certain[0], burst)
    unknown = [error for error in burst if not error.is_consequence]
    if last is not None and not last.is_consequence:
        # An error that many ranks report may follow from the error of the rank that failed first.
        is_of_many = len({error.line.stream for error in burst if _kind(error) == _kind(last)}) > 1
        return _root(unknown[0] if is_of_many else _first_cause(last), burst)
    if unknown:
        return _root(unknown[0], burst)

    # Only wrappers were raised, or nothing: a known text in a plain line is the reason, such as a warning of NCCL before the exception.
    begin = max(0, (burst[0].line.number if burst else len(lines)) - MAX_TAIL_LINES)
    found = [(line, match) for line, match in _known_lines(lines[begin:]) if not match.error.is_consequence]
    if found:
        line, match = found[0]
        return RootError(match.text, line, match, None, _count_same(line, match.error, lines[begin:]))
    known = [error for error in burst if error.known]
    if known:
        return _root(known[0], burst)
    plain = next(iter(_known_lines(lines[begin:])), None)
    if plain is not None:
        return RootError(plain[1].text, plain[0], plain[1])
    return _root(last, burst) if last else None


def _raised_errors(lines: Sequence[LogLine]) -> Iterator[_Error]:
    """All errors that were raised, by stream; a traceback of one process may be cut into pieces by lines of others."""
    streams: dict[object, list[LogLine]] = {}
    for line in lines:
        streams.setdefault(line.stream, []).append(line)
    for stream in streams.values():
        yield from _errors_of_stream(stream)


def _errors_of_stream(lines: Sequence[LogLine]) -> Iterator[_Error]:
    frames: list[str] | None = None
    """Of the traceback that is being read; `None`: there is none."""
    writer: LogLine | None = None
    """The remote process whose stack is being read."""
    before: _Error | None = None
    is_direct = is_harmless = False
    at = 0
    while at < len(lines):
        line = lines[at]
        text = line.text
        at += 1
        if _TRACEBACK in text:
            frames = []
            continue
        if text.startswith(_HARMLESS):
            is_harmless = True
            continue
        if text.startswith((_DIRECT, _DURING)):
            is_direct = text.startswith(_DIRECT)
            continue
        if (call := _RAY_CALL.search(text)) is not None:
            frames, writer = [], msgspec.structs.replace(line, pid=int(call[1]), ip=call[2] or line.ip)
            continue
        if (frame := _FRAME.match(text)) is not None:
            frames = [] if frames is None else frames
            frames.append(f"{frame[1].rpartition('/')[2]}:{frame[2]}{f' in {frame[3]}' if frame[3] else ''}")
            continue
        if not text or text[0].isspace() or text.startswith(("^", "|", "+")):
            continue
        if not (_NAME_IN_TRACEBACK if frames else _RAISED).match(text):
            frames, writer = (None, None) if frames else (frames, writer)
            is_direct = False
            continue

        # The line that names the error, and the lines of its message.
        block = [text]
        while at < len(lines) and len(block) < MAX_BLOCK_LINES and _continues(lines[at].text):
            block.append(lines[at].text)
            at += 1
        error = _Error(writer or line, "\n".join(block).rstrip(), lines[at - 1].number, frames or [])
        if writer is not None:
            error.line = msgspec.structs.replace(writer, number=line.number, text=text)
        error.direct_cause = before if is_direct else None
        if not is_harmless:
            yield error
            before = error
        frames, writer, is_direct, is_harmless = None, None, False, False


def _continues(text: str) -> bool:
    """Whether a line belongs to the message of the error before it."""
    begins_other = (
        _TRACEBACK in text
        or text.startswith((_DIRECT, _DURING, *_HARMLESS))
        or _RAISED.match(text) is not None
        or _RAY_CALL.search(text) is not None
        or _OTHER_LINE.match(text) is not None
    )
    return not begins_other


def _last_burst(errors: list[_Error]) -> list[_Error]:
    """The last errors with few other lines between them, the first one first."""
    burst: list[_Error] = []
    for error in reversed(errors):
        if burst and burst[-1].line.number - error.end > MAX_GAP_LINES:
            break
        burst.append(error)
    return burst[::-1]


def _first_cause(error: _Error) -> _Error:
    while error.direct_cause is not None:
        error = error.direct_cause
    return error


def _root(error: _Error, burst: Sequence[_Error]) -> RootError:
    """The error, with what other processes report."""
    kind = _kind(error)
    writers = {other.line.stream for other in burst if _kind(other) == kind}
    also = max(0, len(writers) - 1) + max((other.line.times for other in burst if _kind(other) == kind), default=1) - 1
    others: dict[str, list[_Error]] = {}
    for other in burst:
        if _kind(other) != kind and not other.is_wrapper and other.line.stream != error.line.stream:
            others.setdefault(_kind(other), []).append(other)
    most = max(others.values(), key=len, default=[])
    earlier = None
    if most and error.line.clock is not None and most[0].line.clock is not None:
        earlier = (most[0].line.clock - error.line.clock) % 86400
    return RootError(
        error.text,
        error.line,
        error.known,
        error.frames[-1] if error.frames else None,
        also,
        most[0].first_line if most else None,
        len({other.line.stream for other in most}) + (max((other.line.times for other in most), default=1) - 1 if most else 0),
        earlier if earlier is not None and earlier < 3600 else None,
    )


def _kind(error: _Error) -> str:
    """Equal for errors that differ only in numbers and ids."""
    return re.sub(r"0x[0-9a-f]+|\d+", "#", error.first_line[:300])


def _known_lines(lines: Sequence[LogLine]) -> Iterator[tuple[LogLine, Match]]:
    """Lines with a known text, of each row of the table the first one; the first line first."""
    begins = [0, *accumulate(len(line.text) + 1 for line in lines)]
    found = find_all_known("\n".join(line.text for line in lines))
    for match in sorted(found, key=lambda match: match.begin):
        yield lines[bisect_right(begins, match.begin) - 1], match


def _count_same(line: LogLine, error: KnownError, lines: Sequence[LogLine]) -> int:
    """The number of other processes that wrote a line with the same marker."""
    return len({each.stream for each in lines if error.marker in each.text} - {line.stream})
