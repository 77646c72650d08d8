"""The recent past of each GPU: how full it was at most, step by step, since the same processes hold it, and how busy it is on average."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from math import exp

import msgspec

from cockpit.config.thresholds import STALE_AFTER_S, Limits
from cockpit.findings.trend import Series, find_trend
from cockpit.model import Gpu, GpuPlace, Hold, Process, Snapshot

WINDOW_STEPS = 9
"""Steps from which a growth is told. Of each its peak counts, so that what goes up and down within a step doesn't look like growth."""
MAX_STEPS = 4 * WINDOW_STEPS
"""Steps that are remembered: memory that only returns to where it was does not grow."""
RECENT_STEPS = 3
"""The last of the window, in which it must have come beyond all that there was before."""
RECENT_SHARE = 0.5
"""Of its usual growth, by which it must have."""
MIN_LATER_SHARE = 0.6
"""Of its growth in the earlier half of the window, what it must show in the later one: what grows slower and slower comes to rest by
itself, as PyTorch's cache does."""
AVERAGED_S = 120.0
"""Seconds over which a load is averaged, and for which it must be known: longer than the parts of a training step."""
MAX_GAP_S = 60.0
"""Seconds of silence after which an average begins anew."""
MAX_BYTES = 2**60
"""No GPU has as many."""
MAX_LOAD = 100_000.0
"""No percent, watts or megahertz of a GPU are as many."""

Load = tuple[float | None, float | None, float | None]
"""On average: percent of utilization, watts, and megahertz of its processors; `None` where that is not known."""
UTILIZATION, POWER, CLOCK = 0, 1, 2
_UNKNOWN: Load = (None, None, None)


class Growth(msgspec.Struct, frozen=True):
    """How the memory in use has grown, in bytes a second, from how much to how much within how many seconds."""

    slope: float
    before: float
    now: float
    seconds: float


class _Past:
    """Of one GPU."""

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
        if used is not None and step > self.first:  # of the first step only a part is seen
            newest = self.peaks.values[-1] if self.peaks.values and self.peaks.last == step else 0.0
            self.peaks.put(step, max(newest, used))
        self._average(gpu, now)

    def _average(self, gpu: Gpu, now: float) -> None:
        utilization, gap = _plausible_load(gpu.utilization), now - self.seen
        if gap > MAX_GAP_S or gap < 0 or utilization is None:
            self.load, self.begun = _UNKNOWN, now
        share = _share_of_new(gap)
        busy, power, clock = self.load
        self.load = (
            _blend(busy, utilization, share),
            _blend(power, _plausible_load(gpu.power), share),
            _blend(clock, _plausible_load(gpu.clock), share),
        )
        self.seen = now


class GpuHistory:
    """Fed with every snapshot; asked for how the memory of a GPU grows, and what it does on average."""

    def __init__(self, window: float = Limits().gpu_memory_watched) -> None:
        """`window`: seconds from which a growth is told."""
        self._step_s = max(1.0, window / WINDOW_STEPS)
        self._now = 0.0
        self._pasts: dict[GpuPlace, _Past] = {}

    def record(self, snapshot: Snapshot) -> None:
        """Take in what is new."""
        self._now, index = snapshot.taken, snapshot.index
        for node in snapshot.nodes or ():
            machine = index.machine(node)
            if machine.gpus and machine.seen is not None and self._now - machine.seen <= STALE_AFTER_S:
                self._put(node.key, machine.gpus, machine.seen, index.gpu_holders)
        self._forget(snapshot)

    def load(self, node: str, index: int) -> Load | None:
        """What it does on average; `None` while that isn't known for long enough."""
        past = self._pasts.get((node, index))
        known = past is not None and past.seen - past.begun >= AVERAGED_S and self._now - past.seen <= MAX_GAP_S
        return past.load if past and known else None

    def growth(self, node: str, index: int) -> Growth | None:
        """How its memory grows; `None` where it does not, or not steadily, or nobody is known to hold it."""
        past = self._pasts.get((node, index))
        if past is None or not past.holders:
            return None
        step = int(self._now // self._step_s)
        if past.growth is None or past.growth[0] != step:
            past.growth = step, find_growth(past.peaks.tail(step, MAX_STEPS + 1)[:-1], self._step_s)
        return past.growth[1]

    def _put(self, node: str, gpus: Sequence[Gpu], seen: float, holders_by_gpu: Mapping[GpuPlace, Sequence[tuple[Process, Hold]]]) -> None:
        step = int(self._now // self._step_s)
        for gpu in gpus:
            holders = frozenset([process.ns_pid or process.pid for process, _ in holders_by_gpu.get((node, gpu.index), ())])
            past = self._pasts.get((node, gpu.index))
            if past is None or (holders and holders.isdisjoint(past.holders)):
                past = self._pasts[node, gpu.index] = _Past(step, seen, holders)
            if seen != past.seen or past.first == step:
                past.put(step, gpu, seen)
            past.holders = holders or past.holders

    def _forget(self, snapshot: Snapshot) -> None:
        known = sum(len(snapshot.index.machine(node).gpus or ()) for node in snapshot.nodes or ())
        if len(self._pasts) > known + 100:
            there = {node.key for node in snapshot.nodes or ()}
            self._pasts = {place: past for place, past in self._pasts.items() if place[0] in there}


def find_growth(peaks: list[float | None], step_s: float) -> Growth | None:
    """A growth that is steady, goes on, and leads beyond all that there was before."""
    window, last = peaks[-WINDOW_STEPS:], peaks[-1]
    trend = find_trend(window, step_s)
    if trend is None or not trend.steady or last is None:
        return None
    earlier = max((peak for peak in peaks[:-RECENT_STEPS] if peak is not None), default=last)
    if last - earlier < RECENT_SHARE * trend.slope * RECENT_STEPS * step_s or not _goes_on(window):
        return None
    first, before = next((place, peak) for place, peak in enumerate(window) if peak is not None)
    return Growth(trend.slope, before, last, (len(window) - 1 - first) * step_s)


def _goes_on(values: list[float | None]) -> bool:
    known = [(place, value) for place, value in enumerate(values) if value is not None]
    (first, start), (middle, half), (last, end) = known[0], known[len(known) // 2], known[-1]
    return (end - half) / (last - middle) >= MIN_LATER_SHARE * (half - start) / (middle - first)


def plausible_memory(gpu: Gpu) -> int | None:
    """Bytes in use, where that is a number that can be."""
    used, total = gpu.memory_used, gpu.memory_total
    return used if used is not None and total is not None and 0 <= used <= total < MAX_BYTES else None


def _plausible_load(value: float | None) -> float | None:
    return value if value is not None and 0 <= value <= MAX_LOAD else None


@lru_cache(maxsize=64)
def _share_of_new(gap: float) -> float:
    """Of a value `gap` seconds after the last in their average; all GPUs of a node have the same."""
    return 1 - exp(-max(0.0, gap) / AVERAGED_S)


def _blend(old: float | None, new: float | None, share: float) -> float | None:
    return new if old is None or new is None else old + share * (new - old)
