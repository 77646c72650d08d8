"""Keeps the recent past of each GPU: peaks of memory in use since the same processes hold it, and its average load."""

from __future__ import annotations

from collections.abc import Collection
from math import exp

import msgspec

from cockpit.config.thresholds import STALE_AFTER_S, Limits
from cockpit.findings.trend import Series, find_trend
from cockpit.model import Gpu, GpuPlace, Snapshot

WINDOW_STEPS = 9
"""Steps over which growth is measured. The peak of each step counts, so that ups and downs within a step don't look like growth."""
MAX_STEPS = 4 * WINDOW_STEPS
"""Steps kept: memory that only returns to an earlier level does not grow."""
RECENT_STEPS = 3
"""Last steps of the window, in which memory must rise above all earlier peaks."""
RECENT_SHARE = 0.5
"""Share of its usual growth by which it must do so."""
MIN_LATER_SHARE = 0.6
"""Share of the growth in the earlier half of the window that the later half must reach: a growth that slows down stops by itself, as
the growth of PyTorch's cache does."""
AVERAGED_S = 120.0
"""Seconds over which a load is averaged, and for which it must be known: longer than the phases of a training step."""
MAX_GAP_S = 60.0
"""Seconds without a sample after which an average starts again."""
MAX_BYTES = 2**60
"""More bytes than any GPU has."""
MAX_LOAD = 100_000.0
"""More percent, watts or megahertz than any GPU has."""

Load = tuple[float | None, float | None, float | None]
"""Averages: utilization in percent, power in watts, processor clock in megahertz; `None`: unknown."""
UTILIZATION, POWER, CLOCK = 0, 1, 2
_UNKNOWN: Load = (None, None, None)


class Growth(msgspec.Struct, frozen=True):
    """A growth of memory in use: bytes a second, peaks in bytes before and now, and the seconds between them."""

    slope: float
    before: float
    now: float
    seconds: float


class _Past:
    """The past of one GPU."""

    __slots__ = ("begun", "first", "growth", "holders", "load", "peaks", "seen")

    def __init__(self, step: int, now: float, holders: Collection[int]) -> None:
        self.first = step
        self.peaks = Series(step + 1, MAX_STEPS)
        self.growth: tuple[int, Growth | None] | None = None
        self.holders = holders
        self.load = _UNKNOWN
        self.begun = self.seen = now

    def put(self, step: int, gpu: Gpu, now: float) -> None:
        used = plausible_memory(gpu)
        if used is not None and step > self.first:  # only a part of the first step was watched
            newest = self.peaks.values[-1] if self.peaks.values and self.peaks.last == step else 0.0
            self.peaks.put(step, max(newest, used))

        # Averages of the load; after a gap they start again.
        utilization, gap = _plausible_load(gpu.utilization), now - self.seen
        if gap > MAX_GAP_S or gap < 0 or utilization is None:
            self.load, self.begun = _UNKNOWN, now
        share = 1 - exp(-max(0.0, gap) / AVERAGED_S)  # the weight of the new value
        busy, power, clock = self.load
        self.load = (
            _blend(busy, utilization, share),
            _blend(power, _plausible_load(gpu.power), share),
            _blend(clock, _plausible_load(gpu.clock), share),
        )
        self.seen = now


class GpuHistory:
    """The recent past of all GPUs, from snapshots in their order."""

    def __init__(self, window: float = Limits().gpu_memory_watched) -> None:
        """`window`: seconds over which growth is measured."""
        self._step_s = max(1.0, window / WINDOW_STEPS)
        self._now = 0.0
        self._pasts: dict[GpuPlace, _Past] = {}

    def record(self, snapshot: Snapshot) -> None:
        """Add a snapshot."""
        self._now, holders_by_gpu = snapshot.taken, snapshot.index.gpu_holders
        step = int(self._now // self._step_s)
        known = 0
        for node in snapshot.nodes or ():
            machine = snapshot.index.machine(node)
            key, gpus, seen = node.key, machine.gpus or (), machine.seen
            known += len(gpus)
            if seen is None or self._now - seen > STALE_AFTER_S:
                continue
            for gpu in gpus:
                place = key, gpu.index
                holders = frozenset([process.ns_pid or process.pid for process, _ in holders_by_gpu.get(place, ())])
                past = self._pasts.get(place)
                if past is None or (holders and holders.isdisjoint(past.holders)):
                    past = self._pasts[place] = _Past(step, seen, holders)
                if seen != past.seen or past.first == step:
                    past.put(step, gpu, seen)
                past.holders = holders or past.holders
        if len(self._pasts) > known + 100:  # forget nodes that are gone
            there = {node.key for node in snapshot.nodes or ()}
            self._pasts = {place: past for place, past in self._pasts.items() if place[0] in there}

    def load(self, node: str, index: int) -> Load | None:
        """The average load of a GPU; `None` until it is known for long enough."""
        past = self._pasts.get((node, index))
        known = past is not None and past.seen - past.begun >= AVERAGED_S and self._now - past.seen <= MAX_GAP_S
        return past.load if past and known else None

    def growth(self, node: str, index: int) -> Growth | None:
        """The growth of a GPU's memory; `None` if it does not grow steadily, or if no process is known to hold it."""
        past = self._pasts.get((node, index))
        if past is None or not past.holders:
            return None
        step = int(self._now // self._step_s)
        if past.growth is None or past.growth[0] != step:
            past.growth = step, find_growth(past.peaks.tail(step, MAX_STEPS + 1)[:-1], self._step_s)
        return past.growth[1]


def find_growth(peaks: list[float | None], step_s: float) -> Growth | None:
    """A growth that is steady, has not slowed down, and exceeds all earlier peaks."""
    window, last = peaks[-WINDOW_STEPS:], peaks[-1]
    trend = find_trend(window, step_s)
    if trend is None or not trend.steady or last is None:
        return None
    earlier = max((peak for peak in peaks[:-RECENT_STEPS] if peak is not None), default=last)
    if last - earlier < RECENT_SHARE * trend.slope * RECENT_STEPS * step_s:
        return None
    known = [(step, peak) for step, peak in enumerate(window) if peak is not None]
    (first, start), (middle, half), (newest, end) = known[0], known[len(known) // 2], known[-1]
    if (end - half) / (newest - middle) < MIN_LATER_SHARE * (half - start) / (middle - first):
        return None
    return Growth(trend.slope, start, last, (len(window) - 1 - first) * step_s)


def plausible_memory(gpu: Gpu) -> int | None:
    """Bytes in use; `None` if unknown or implausible."""
    used, total = gpu.memory_used, gpu.memory_total
    return used if used is not None and total is not None and 0 <= used <= total < MAX_BYTES else None


def _plausible_load(value: float | None) -> float | None:
    return value if value is not None and 0 <= value <= MAX_LOAD else None


def _blend(old: float | None, new: float | None, share: float) -> float | None:
    return new if old is None or new is None else old + share * (new - old)
