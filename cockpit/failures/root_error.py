"""Finds the error in a log that caused the others: the first cause of a chain, below the wrappers, of the process that failed first."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final

import msgspec
from msgspec.structs import replace

from cockpit.failures.known import Match, find_all_known, find_known, find_known_wrapped
from cockpit.failures.known.error import KnownError
from cockpit.failures.log_lines import LogLine, launcher_marks, read_lines
from cockpit.failures.raised_errors import RaisedError, is_wrapper_text, raised_errors
from cockpit.failures.torchrun_table import find_first_failure

MAX_GAP_LINES: Final = 200
"""Errors with more other lines between them belong to different failures: a job may go on after the first."""
MAX_LINES_AFTER: Final = 100
"""A process that writes more lines than this after an error has survived it."""
MAX_LINES_BETWEEN: Final = 20
"""Two errors with more lines between them were not printed together by one launcher."""
MAX_LINES_ABOVE: Final = 5
"""A warning in so many lines above an error that says nothing may name its cause."""
MAX_TAIL_LINES: Final = 400
"""If no error was raised, a known text counts only in so many lines at the end of the log."""
MAX_LINES: Final = 100_000
"""Only so many lines at the end of the log are read."""
MAX_ERRORS: Final = 2_000
"""Only so many errors at the end of the log are kept; a log with more of them is a loop of caught errors."""
MIN_WRAPPED_CHARS: Final = 30
"""A line that was wrapped is found again by so many characters at its beginning."""
MAX_KINDS: Final = 50
"""Only so many errors that differ in more than numbers are looked up in the table."""


class RootError(msgspec.Struct, frozen=True):
    """The error that caused the others."""

    text: str
    """Its own text, from the line that names it, at most `MAX_BLOCK_LINES` lines."""
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
        if self.known is None or self.known.error.explains_only_kind:
            return is_wrapper_text(self.text)
        return self.known.error.is_symptom


def find_root_error(raw_lines: Iterable[str]) -> RootError | None:
    """The root error of a failure that ends this log; `None`: the log shows none."""
    all_lines = list(raw_lines)
    skipped = max(0, len(all_lines) - MAX_LINES)
    lines = list(read_lines(all_lines[skipped:], skipped, launcher_marks(all_lines[skipped:])))
    errors = sorted(raised_errors(lines), key=lambda error: error.line.number)[-MAX_ERRORS:]
    burst = _last_burst([error for error in errors if not error.is_harmless])
    looked_up: dict[str, Match | None] = {}
    for error in reversed(burst):
        kind = _without_numbers(error.text)
        if kind not in looked_up and len(looked_up) < MAX_KINDS:
            looked_up[kind] = _find_known(error)
        error.known = looked_up.get(kind)
    first = find_first_failure(lines)
    table = find_known(first.text) if first is not None else None
    fatal = _fatal_errors(burst)
    chosen = _choose(burst, fatal, first)
    if first is not None and table is not None and table.error.is_certain and chosen is not None and not chosen.is_certain:
        # A process that was killed wrote nothing; unknown errors of the others follow from it.
        return RootError(first.text, first, table, others=chosen.first_line, others_count=len(fatal))
    if chosen is not None:
        return _warned_above(chosen, lines) or _root(chosen, burst)

    # Only wrappers were raised, or nothing, or errors that their processes survived.
    reports = [error for error in burst if error.is_consequence]
    ids = set(map(id, reports))
    survived = {line.number for error in errors if id(error) not in ids for line in error.lines}
    # If the table knows a line of the report, the line that names the report adds nothing.
    survived |= {report.line.number for report in reports if report.known is not None}
    begin = (reports[0].begin if reports else lines[-1].number + 1 if lines else 0) - MAX_TAIL_LINES
    tail = [line for line in lines[max(0, begin - skipped) :] if line.number not in survived]
    known = list(_known_lines(tail))
    if (root := _in_plain_lines(known, tail, first, table)) is not None:
        return root
    # The last known cause, else the last error that says more than that a process ended itself.
    last = max(reversed(burst), key=lambda each: (each.is_certain, not each.is_abort), default=None)
    wrapper = next((each for each in reports if each.known and not each.is_abort), _first_cause(last) if last else None)
    if first is not None and table is not None and wrapper is not None and "ChildFailedError" in wrapper.first_line:
        return RootError(first.text, first, table)
    if wrapper is not None:
        root = _root(wrapper, burst)
        return root if first is None or not reports else replace(root, line=replace(root.line, rank=first.rank, pid=first.pid))
    plain = min(known, key=lambda each: (each[1].error.is_warning, each[1].error.is_general), default=None)
    if plain is None and tail and (wrapped := find_known_wrapped("\n".join(line.text for line in tail))) is not None:
        begin_of_text = wrapped.text[:MIN_WRAPPED_CHARS]
        return RootError(wrapped.text, next((line for line in tail if begin_of_text in line.text), tail[-1]), wrapped)
    return RootError(plain[1].text, plain[0], plain[1]) if plain else None


def _warned_above(error: RaisedError, lines: Sequence[LogLine]) -> RootError | None:
    """The known cause that a line of the same process names directly above an error that says nothing, such as a bare `AssertionError`."""
    if error.is_certain or error.cause is not None or re.fullmatch(r"[\w.]{1,200}:?\s{0,9}", error.first_line) is None:
        return None
    above = [line for line in lines if error.begin - MAX_LINES_ABOVE <= line.number < error.begin and line.stream == error.line.stream]
    found = [each for each in _known_lines(above) if each[1].error.is_certain]
    if not found:
        return None
    # If several rows match the last of these lines, the most special row comes first.
    line, match = next(each for each in found if each[0] is found[-1][0])
    return RootError(match.text, line, match)


def _in_plain_lines(
    known: Sequence[tuple[LogLine, Match]], lines: Sequence[LogLine], first: LogLine | None, table: Match | None
) -> RootError | None:
    """A known cause that no exception names, such as a warning of NCCL, or the first failure in torchrun's table."""
    certain = [each for each in known if each[1].error.is_certain]
    found = certain[0] if certain else None
    if found is not None and found[1].error.is_general and found[1].error.look_up == "oom-kill":
        # This line says only that a process was killed; a special cause beside it says why.
        found = next((each for each in certain if not each[1].error.is_general), found)
    if first is not None and table is not None and table.error.is_certain and (found is None or found[1].error.is_general):
        return RootError(first.text, first, table)
    if found is None:
        return None
    line, match = found
    return RootError(match.text, line, match, None, _count_same(line, match.error, lines))


def _find_known(error: RaisedError) -> Match | None:
    """The row that matches message and line of code together; else the row of the message; else the row of the line of code."""
    if not error.source:
        return _find_in_message(error)
    with_source = f"{error.source}\n{error.text}"
    whole = (each for each in find_all_known(with_source) if each.begin == 0 and "\n" in each.text)
    both = [each for each in whole if not each.error.explains_only_kind]
    if both:
        return min(both, key=lambda each: not each.error.is_certain)
    of_message, of_source = _find_in_message(error), find_known(with_source)
    is_better = of_source is not None and of_source.error.is_certain and (of_message is None or of_message.error.explains_only_kind)
    return of_source if is_better else of_message or of_source


def _find_in_message(error: RaisedError) -> Match | None:
    """The row of an error's message. A report of another process far below must not hide this error; NCCL's own words do stand there."""
    known = find_known(error.text)
    is_below = known is not None and known.error.is_consequence and error.text.count("\n", 0, known.begin) > 1
    if is_below and not error.is_wrapper and "Last error:" not in error.text:
        return find_known("\n".join(error.text.split("\n")[:2]))
    if known is None or known.error.explains_only_kind or known.error.is_general:
        wrapped = find_known_wrapped(error.text)
        if wrapped is not None and (known is None or known.error.explains_only_kind or not wrapped.error.is_general):
            return wrapped
    return known


def _choose(burst: Sequence[RaisedError], fatal: Sequence[RaisedError], first: LogLine | None) -> RaisedError | None:
    """The error that caused the others; `None`: all of them only report that something else has failed. `first`: from torchrun's table."""
    last = burst[-1] if burst else None
    if first is not None:
        of_first = [error for error in fatal if (error.line.rank, error.line.pid) in ((first.rank, None), (first.rank, first.pid))]
        if first.rank is not None and of_first:
            return of_first[0]
    if last is None or last.is_consequence or last.lines_after > MAX_LINES_AFTER:
        return fatal[0] if fatal else None
    # An error that many processes report may follow from the error of the process that failed first.
    if fatal and (last.line.times > 1 or len({error.line.stream for error in burst if _kind(error) == _kind(last)}) > 1):
        return fatal[0]
    own = _first_cause(last)
    elsewhere = (error for error in fatal if error.is_certain and error.line.stream != last.line.stream)
    return own if own.is_certain else next(elsewhere, own)


def _fatal_errors(burst: Sequence[RaisedError]) -> list[RaisedError]:
    """The first cause of the error that ended it, for each process; the earliest comes first."""
    streams: dict[object, list[RaisedError]] = {}
    for error in burst:
        streams.setdefault(error.line.stream, []).append(error)
    fatal = []
    for errors in streams.values():
        own = [error for error in errors if not error.is_consequence]
        if not own or own[-1].lines_after > MAX_LINES_AFTER:
            continue
        chosen = own[-1]
        if errors[-1].is_consequence:
            # A launcher writes the errors of all its processes into one stream. The first of neighbouring errors counts.
            for before, after in zip(own[-2::-1], own[:0:-1], strict=True):
                if after.begin - before.end > MAX_LINES_BETWEEN:
                    break
                chosen = before
        fatal.append(_first_cause(chosen))
    return sorted(fatal, key=lambda error: error.line.number)


def _first_cause(error: RaisedError) -> RaisedError:
    """The earliest error of a chain that the table knows; if it knows none, the earliest one that the program itself calls the cause."""
    if error.is_certain and error.first_line.startswith("hydra.errors."):
        return error  # It names the argument of the command line; its cause names only a key.
    cause, is_direct = error, True
    while error.cause is not None and (error.is_direct or not cause.is_certain or _is_repeated_by_cuda(error)):
        is_direct = is_direct and error.is_direct
        error = error.cause
        if error.is_certain or (is_direct and not cause.is_certain and not error.is_consequence):
            cause = error
    return cause


def _is_repeated_by_cuda(error: RaisedError) -> bool:
    """Whether this error and its cause are CUDA's: after the first one every CUDA call of that process fails, often with other words."""
    return error.cause is not None and all("CUDA error: " in each.first_line for each in (error, error.cause))


def _last_burst(errors: list[RaisedError]) -> list[RaisedError]:
    """The last errors that have few other lines between them; the earliest comes first."""
    burst: list[RaisedError] = []
    for error in reversed(errors):
        if burst and burst[-1].begin - error.end > MAX_GAP_LINES:
            break
        burst.append(error)
    return burst[::-1]


def _root(error: RaisedError, burst: Sequence[RaisedError]) -> RootError:
    """The root error made of this error, with what other processes report."""
    kind = _kind(error)
    same = [other for other in burst if _kind(other) == kind]
    also = len({_process(other) for other in same} - {_process(error)}) + max((other.line.times for other in same), default=1) - 1
    others: dict[str, list[RaisedError]] = {}
    for other in burst:
        if _kind(other) != kind and not other.is_wrapper and _process(other) != _process(error):
            others.setdefault(_kind(other), []).append(other)
    most = max(others.values(), key=len, default=[])
    earlier = None
    if most and error.line.clock is not None and most[0].line.clock is not None:
        earlier = (most[0].line.clock - error.line.clock) % 86400
    return RootError(
        error.text,
        error.line,
        _find_known(error),  # not `error.known`, which may be of an error that differs in numbers
        error.raised_at,
        also,
        most[0].first_line if most else None,
        len({_process(other) for other in most}) + (max((other.line.times for other in most), default=1) - 1 if most else 0),
        earlier if earlier is not None and earlier < 3600 else None,
    )


def _process(error: RaisedError) -> object:
    """The process that the error is about. The driver repeats errors of workers, with their process ids."""
    return error.line.stream if error.line.pid is None else error.line.pid


def _kind(error: RaisedError) -> str:
    """A text that is the same for errors that differ only in numbers and ids."""
    return _without_numbers(error.first_line[:300])


def _without_numbers(text: str) -> str:
    return re.sub(r"0x[0-9a-f]+|\d+", "#", text)


def _known_lines(lines: Sequence[LogLine]) -> Iterator[tuple[LogLine, Match]]:
    """The first line that each row of the table matches, in the order of the lines."""
    begins = [0, *accumulate(len(line.text) + 1 for line in lines)]
    found = find_all_known("\n".join(line.text for line in lines))
    for match in sorted((each for each in found if not each.error.explains_only_kind), key=lambda match: match.begin):
        yield lines[bisect_right(begins, match.begin) - 1], match


def _count_same(line: LogLine, error: KnownError, lines: Sequence[LogLine]) -> int:
    """The number of other processes that wrote a line with the same marker."""
    return len({each.stream for each in lines if any(marker in each.text for marker in error.markers)} - {line.stream})
