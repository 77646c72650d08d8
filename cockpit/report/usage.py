"""Writes the usage of GPUs in words: GPU-hours, idle time by cause, memory against Ray's kill line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cockpit.text import UNKNOWN, age, plural, ratio, share_percent, size
from cockpit.usage import CAUSES, IdleCause, OwnerUsage

PARTLY_KNOWN_SHARE = 0.99
"""Share of the time that must be known for a value without a `>`."""


def gpu_hours(seconds: float) -> str:
    """GPU-seconds as hours."""
    return hours_words(seconds / 3600)


def hours_words(hours: float | None) -> str:
    """Hours in at most six characters: `0.04`, `3.2`, `1250`."""
    if hours is None:
        return UNKNOWN
    return f"{hours:.2f}" if 0 < hours < 1 else f"{hours:.1f}" if 0 < hours < 100 else f"{hours:.0f}"


def known_hours(seconds: float, known_s: float, seen_s: float) -> str:
    """GPU-seconds as hours; with `>` if they were unknown for a part of the time, `–` if always."""
    if known_s <= 0:
        return UNKNOWN
    return (">" if known_s < PARTLY_KNOWN_SHARE * seen_s else "") + gpu_hours(seconds)


def idle_words(idle: Mapping[IdleCause, float]) -> str:
    """`2.1 starting or loading, 0.30 cause not seen`: the longest first."""
    most = sorted(((seconds, CAUSES[cause]) for cause, seconds in idle.items() if seconds > 0), reverse=True)
    return ", ".join(f"{gpu_hours(seconds)} {words}" for seconds, words in most)


def memory_words(used: OwnerUsage) -> str:
    """The highest use of memory on one of its hosts, and the line at which Ray kills."""
    if (mark := used.memory_mark) is None:
        return UNKNOWN
    line = f", Ray kills at {size(mark.kill_at)}" if mark.kill_at is not None else ", Ray's kill line is unknown"
    return f"{size(mark.used)} of {size(mark.total)} on {mark.node}{line}"


def usage_pairs(used: OwnerUsage) -> Iterator[tuple[str, str]]:
    """Names and values for a list of facts about one job."""
    sums = used.sums
    causes = idle_words(sums.idle)

    def share(seconds: float) -> str:
        return share_percent(ratio(seconds, sums.had))

    yield "watched", age(used.seen_s) + (f"; not recorded for {age(used.unwatched_s)}" if used.unwatched_s else "")
    yield "reserved", known_hours(sums.reserved, used.reserved_s, used.seen_s)
    yield "held", known_hours(sums.held, used.held_s, used.seen_s)
    yield "busy", f"{gpu_hours(sums.busy)}  {share(sums.busy)}"
    yield "idle", f"{gpu_hours(sums.idle_sum)}  {share(sums.idle_sum)}" + (f"  ({causes})" if causes else "")
    if sums.unknown:
        yield "unknown", f"{gpu_hours(sums.unknown)}  {share(sums.unknown)}"
    yield "fullest host", memory_words(used)
    yield "most memory", f"{size(used.gpu_memory)} of GPU memory, {size(used.host_memory)} of host memory"
    yield "restarts, kills", f"{plural(used.restarts, 'restart')} of actors, {plural(used.kills, 'out-of-memory kill')}"
