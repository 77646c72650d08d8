"""The recent past of a few series, in even steps of time; a step in which nothing was heard is a gap, never a zero."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from cockpit.config.thresholds import STALE_AFTER_S
from cockpit.findings.memory_trend import MemoryHistory
from cockpit.findings.stalls import IDLE_CLEAR_PERCENT
from cockpit.model import GpuPlace, Machine, Snapshot
from cockpit.usage import Usage

STEP_S = 5.0
"""Seconds a step covers: Ray's own agents look no oftener (reporter_agent.py)."""
STEPS_KEPT = 180
"""15 minutes."""
MAX_IDLE_GAP_STEPS = int(STALE_AFTER_S // STEP_S)
"""Steps without news after which nobody knows whether a GPU was idle."""
JOBS_KEPT = 100
"""Running jobs of which a past is kept."""
_GAP = 255
_WHOLE = ("host", "gpu", "memory")
"""What is kept of a node as a whole; then the same of each of its GPUs, without the first."""
_OF_JOB = ("gpu", "memory")
"""What is kept of a job: the mean of its GPUs."""


class _Past:
    """The last steps of one thing, each a few bytes: at 1,000 nodes of 8 GPUs a float a series would cost more than all that is drawn."""

    __slots__ = ("steps",)

    def __init__(self) -> None:
        self.steps: deque[tuple[int, bytes]] = deque(maxlen=STEPS_KEPT)

    @property
    def recorded(self) -> Sequence[tuple[int, bytes]]:
        """A copy, made at once: of a large cluster another thread goes on recording."""
        return list(self.steps)

    def put(self, step: int, values: bytes) -> None:
        if self.steps and self.steps[-1][0] >= step:
            self.steps.pop()
        self.steps.append((step, values))

    def tail(self, place: int, now: int, width: int) -> list[float | None]:
        values: list[float | None] = [None] * width
        for step, known in reversed(self.recorded):
            if (at := width - 1 - (now - step)) < 0:
                break
            if at < width and known[place] != _GAP:
                values[at] = known[place] / 2
        return values

    def idle_steps(self, place: int, now: int) -> tuple[int, bool] | None:
        """For how many steps the value has been small, and whether it may be for longer; `None`: not known now."""
        begin = None
        for step, known in reversed(self.recorded):
            if (begin if begin is not None else now) - step > MAX_IDLE_GAP_STEPS or known[place] == _GAP:
                break
            if known[place] > 2 * IDLE_CLEAR_PERCENT:
                return (0 if begin is None else now - begin + 1), False
            begin = step
        return None if begin is None else (now - begin + 1, True)


class _NodePast(_Past):
    """Of one node, and of each of its GPUs."""

    __slots__ = ("indices", "places")

    def __init__(self, indices: tuple[int, ...]) -> None:
        super().__init__()
        self.indices = indices
        self.places: dict[tuple[str, int | None], int] = {("host", None): 0, ("gpu", None): 1, ("memory", None): 2}
        for number, index in enumerate(indices):
            self.places["gpu", index] = len(_WHOLE) + number
            self.places["memory", index] = len(_WHOLE) + len(indices) + number


class History:
    """Fed with every snapshot, asked for the last steps of a series: `node key, what, GPU index`.

    What is kept, all of it 0-100 and to half a percent: `gpu` utilization and `memory` of each GPU, both also as the mean of a node
    (index `None`), and `host`, the host's memory. Of a running job `gpu` and `memory` are the mean of the GPUs that its processes hold.
    """

    def __init__(self, memory: MemoryHistory | None = None, usage: Usage | None = None) -> None:
        """`memory`, `usage`: of whoever records them; `None` where nobody does."""
        self.memory = memory or MemoryHistory()
        """Host memory in bytes, also by owner."""
        self.usage = usage or Usage()
        """What jobs and users have used of the GPUs."""
        self._pasts: dict[str, _NodePast] = {}
        self._jobs: dict[str, _Past] = {}
        self._jobs_at = 0
        """The step in which jobs were recorded last."""
        self._now = 0
        self._seen: dict[str, float] = {}

    def record(self, snapshot: Snapshot) -> None:
        """Take in what is new; a node whose facts haven't changed since the last time costs nothing. By one thread, read by others."""
        self._now = int(snapshot.taken // STEP_S)
        for node in snapshot.nodes or ():
            machine = snapshot.index.machine(node)
            if machine.seen is None or self._seen.get(node.key) == machine.seen or snapshot.taken - machine.seen > STALE_AFTER_S:
                continue
            self._seen[node.key] = machine.seen
            self._find_past(node.key, machine).put(self._now, _values(machine))
        self._forget(snapshot)
        if snapshot.jobs is not None and snapshot.processes is not None and self._now != self._jobs_at:
            self._jobs_at = self._now  # all processes are gone through: once a step
            self._record_jobs(snapshot)

    def _record_jobs(self, snapshot: Snapshot) -> None:
        running = {job.job: None for job in snapshot.jobs or () if job.job and job.status == "RUNNING"}
        self._jobs = {job: past for job, past in self._jobs.items() if job in running}
        for job in list(running)[:JOBS_KEPT]:
            if len(self._jobs) < JOBS_KEPT:
                self._jobs.setdefault(job, _Past())
        for job, past in self._jobs.items():
            if (held := snapshot.index.gpus_by_job.get(job)) is not None:
                past.put(self._now, bytes(_mean(self._last_values(what, held.places)) for what in _OF_JOB))

    def _last_values(self, what: str, gpus: AbstractSet[GpuPlace]) -> list[int]:
        """What was heard last of these GPUs; nothing of a node of which nothing has been heard of late."""
        found: list[int] = []
        for node, index in gpus:
            past = self._pasts.get(node)
            if past is not None and self._now - past.steps[-1][0] <= MAX_IDLE_GAP_STEPS and (what, index) in past.places:
                found.append(past.steps[-1][1][past.places[what, index]])
        return found

    def job_tail(self, job: str, what: str, width: int = 60) -> list[float | None]:
        """The same of a running job; also `None` where it held no GPU."""
        past = self._jobs.get(job)
        return [None] * width if past is None else past.tail(_OF_JOB.index(what), self._now, width)

    def tail(self, node: str, what: str, index: int | None = None, width: int = 60) -> list[float | None]:
        """The last `width` steps, newest last; `None` where nothing was heard."""
        past = self._pasts.get(node)
        place = past.places.get((what, index)) if past else None
        return [None] * width if past is None or place is None else past.tail(place, self._now, width)

    def idle_seconds(self, node: str, index: int) -> tuple[float, bool] | None:
        """For how long a GPU has done nothing, and whether it may be for longer than that; `None`: not known now."""
        past = self._pasts.get(node)
        place = past.places.get(("gpu", index)) if past else None
        steps = past.idle_steps(place, self._now) if past and place is not None else None
        return steps and (steps[0] * STEP_S, steps[1])

    def _find_past(self, node: str, machine: Machine) -> _NodePast:
        """Begun anew when its GPUs have changed: MIG was switched, one was lost."""
        indices = tuple(gpu.index for gpu in machine.gpus or ())
        past = self._pasts.get(node)
        if past is None or past.indices != indices:
            past = self._pasts[node] = _NodePast(indices)
        return past

    def _forget(self, snapshot: Snapshot) -> None:
        if snapshot.nodes is not None and len(self._seen) > len(snapshot.nodes) + 100:
            known = {node.key for node in snapshot.nodes}
            self._pasts = {key: past for key, past in self._pasts.items() if key in known}
            self._seen = {key: seen for key, seen in self._seen.items() if key in known}


def _values(machine: Machine) -> bytes:
    gpus = machine.gpus or ()
    are_now = machine.gpus_seen is None
    busy = [_half_percent(gpu.utilization if are_now else None) for gpu in gpus]
    full = [_share(gpu.memory_used if are_now else None, gpu.memory_total) for gpu in gpus]
    return bytes((_share(machine.memory.used, machine.memory.total), _mean(busy), _mean(full), *busy, *full))


def _share(used: float | None, total: float | None) -> int:
    return _GAP if used is None or total is None or total <= 0 else _half_percent(100 * used / total)


def _half_percent(value: float | None) -> int:
    if value is None or math.isnan(value):
        return _GAP
    return int(2 * value + 0.5) if 0 <= value <= 100 else 200 * (value > 0)


def _mean(values: list[int]) -> int:
    known = [value for value in values if value != _GAP]
    return round(sum(known) / len(known)) if known else _GAP
