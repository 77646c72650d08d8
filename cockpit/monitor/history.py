"""Keeps the last 15 minutes of a few series in even steps of time; a step without news is a gap, not a zero."""

from __future__ import annotations

import math
from collections import deque

from cockpit.config.thresholds import STALE_AFTER_S
from cockpit.findings.memory_trend import MemoryHistory
from cockpit.findings.stalls import IDLE_CLEAR_PERCENT
from cockpit.model import Machine, Snapshot
from cockpit.usage import Usage

STEP_S = 5.0
"""Seconds of a step: Ray's own agents sample no more often (reporter_agent.py)."""
STEPS_KEPT = 180
"""15 minutes."""
MAX_IDLE_GAP_STEPS = int(STALE_AFTER_S // STEP_S)
"""After so many steps without news it is unknown whether a GPU is idle."""
JOBS_KEPT = 100
"""Running jobs with a history."""
_GAP = 255
Series = tuple[str, int | None]
"""The name of a measurement, and the index of a GPU; `None`: of the whole node or job."""
_OF_JOB: tuple[Series, ...] = (("gpu", None), ("memory", None))


class _Past:
    """The last steps of one node or job, with a byte for each series: at 1,000 nodes of 8 GPUs floats would take too much memory."""

    __slots__ = ("places", "series", "steps")

    def __init__(self, series: tuple[Series, ...]) -> None:
        self.series = series
        self.places = {one: place for place, one in enumerate(series)}
        self.steps: deque[tuple[int, bytes]] = deque(maxlen=STEPS_KEPT)

    def put(self, step: int, values: bytes) -> None:
        if self.steps and self.steps[-1][0] >= step:
            self.steps.pop()
        self.steps.append((step, values))

    def tail(self, series: Series, now: int, width: int) -> list[float | None]:
        values: list[float | None] = [None] * width
        if (place := self.places.get(series)) is None:
            return values
        for step, known in reversed(list(self.steps)):  # a copy: of a large cluster another thread records meanwhile
            if (at := width - 1 - (now - step)) < 0:
                break
            if at < width and known[place] != _GAP:
                values[at] = known[place] / 2
        return values


class History:
    """Records every snapshot, and returns the last steps of a series: node key, what, GPU index.

    All values are percentages in steps of a half: `gpu`, the utilization, and `memory` of each GPU; the means of both over a node (index
    `None`); and `host`, the host's memory. Of a running job, `gpu` and `memory` are the means over the GPUs that its processes hold.
    """

    def __init__(self, memory: MemoryHistory | None = None, usage: Usage | None = None) -> None:
        """`memory`, `usage`: from their recorder; `None`: nothing records them."""
        self.memory = memory or MemoryHistory()
        """Host memory in bytes, also by owner."""
        self.usage = usage or Usage()
        """GPU usage of jobs and users."""
        self._pasts: dict[str, _Past] = {}
        self._jobs: dict[str, _Past] = {}
        self._jobs_at = 0
        """The step in which jobs were recorded last."""
        self._now = 0
        self._seen: dict[str, float] = {}

    def record(self, snapshot: Snapshot) -> None:
        """Record new facts; a node whose facts have not changed costs nothing. Only one thread may record, others may read."""
        self._now = int(snapshot.taken // STEP_S)
        for node in snapshot.nodes or ():
            machine = snapshot.index.machine(node)
            if machine.seen is None or self._seen.get(node.key) == machine.seen or snapshot.taken - machine.seen > STALE_AFTER_S:
                continue
            self._seen[node.key] = machine.seen
            series, values = _measure(machine)
            past = self._pasts.get(node.key)
            if past is None or past.series != series:  # its GPUs have changed: MIG was switched, or one was lost
                past = self._pasts[node.key] = _Past(series)
            past.put(self._now, values)
        if snapshot.nodes is not None and len(self._seen) > len(snapshot.nodes) + 100:
            known = {node.key for node in snapshot.nodes}
            self._pasts = {key: past for key, past in self._pasts.items() if key in known}
            self._seen = {key: seen for key, seen in self._seen.items() if key in known}
        if snapshot.jobs is not None and snapshot.processes is not None and self._now != self._jobs_at:
            self._jobs_at = self._now  # once a step, since all processes are read
            self._record_jobs(snapshot)

    def _record_jobs(self, snapshot: Snapshot) -> None:
        running = {job.job: None for job in snapshot.jobs or () if job.job and job.status == "RUNNING"}
        self._jobs = {job: past for job, past in self._jobs.items() if job in running}
        for job in list(running)[:JOBS_KEPT]:
            if len(self._jobs) < JOBS_KEPT:
                self._jobs.setdefault(job, _Past(_OF_JOB))
        for job, past in self._jobs.items():
            if (held := snapshot.index.gpus_by_job.get(job)) is None:
                continue
            # The last values of the GPUs that it holds, without those that are too old.
            values: dict[str, list[int]] = {"gpu": [], "memory": []}
            for node, index in held.places:
                known = self._pasts.get(node)
                if known is None or self._now - known.steps[-1][0] > MAX_IDLE_GAP_STEPS:
                    continue
                for what, found in values.items():
                    if (place := known.places.get((what, index))) is not None:
                        found.append(known.steps[-1][1][place])
            past.put(self._now, bytes(_mean(found) for found in values.values()))

    def job_tail(self, job: str, what: str, width: int = 60) -> list[float | None]:
        """As `tail`, of a running job; also `None` where it held no GPU."""
        past = self._jobs.get(job)
        return past.tail((what, None), self._now, width) if past else [None] * width

    def tail(self, node: str, what: str, index: int | None = None, width: int = 60) -> list[float | None]:
        """The last `width` steps, newest last; `None` where nothing is known."""
        past = self._pasts.get(node)
        return past.tail((what, index), self._now, width) if past else [None] * width

    def idle_seconds(self, node: str, index: int) -> tuple[float, bool] | None:
        """For how long a GPU has been idle, and whether that may be longer; `None`: unknown now."""
        past = self._pasts.get(node)
        if past is None or (place := past.places.get(("gpu", index))) is None:
            return None
        begin = None
        for step, known in reversed(list(past.steps)):
            if (self._now if begin is None else begin) - step > MAX_IDLE_GAP_STEPS or known[place] == _GAP:
                break
            if known[place] > 2 * IDLE_CLEAR_PERCENT:
                return (0.0 if begin is None else (self._now - begin + 1) * STEP_S), False
            begin = step
        return None if begin is None else ((self._now - begin + 1) * STEP_S, True)


def _measure(machine: Machine) -> tuple[tuple[Series, ...], bytes]:
    """The series of a node, and their values now."""
    gpus = machine.gpus or ()
    are_now = machine.gpus_seen is None
    busy = [_half_percent(gpu.utilization if are_now else None) for gpu in gpus]
    full = [_share(gpu.memory_used if are_now else None, gpu.memory_total) for gpu in gpus]
    of_gpus = tuple((what, gpu.index) for what in ("gpu", "memory") for gpu in gpus)
    values = bytes((_share(machine.memory.used, machine.memory.total), _mean(busy), _mean(full), *busy, *full))
    return (("host", None), ("gpu", None), ("memory", None), *of_gpus), values


def _share(used: float | None, total: float | None) -> int:
    return _GAP if used is None or total is None or total <= 0 else _half_percent(100 * used / total)


def _half_percent(value: float | None) -> int:
    if value is None or math.isnan(value):
        return _GAP
    return int(2 * value + 0.5) if 0 <= value <= 100 else 200 * (value > 0)


def _mean(values: list[int]) -> int:
    known = [value for value in values if value != _GAP]
    return round(sum(known) / len(known)) if known else _GAP
