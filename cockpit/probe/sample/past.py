"""Remembers what earlier scans saw: the workers, the processes below them, and the pids that belonged to Ray in the last hour."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Sequence, Tuple

from .origin import WORKERS
from .proc import TICKS_PER_SECOND
from .process_kinds import LEFT_OVER_KINDS, OWNED_KINDS, KindVerdict, ProcessFacts, SeenWorker
from .processes import Identity, ProcessTable, ScannedProcess

HOUR_TICKS, MINUTE_TICKS = 3600 * TICKS_PER_SECOND, 60 * TICKS_PER_SECOND


class ProcessHistory:
    """Learns from each scan, and forgets processes that have left the host."""

    def __init__(self) -> None:
        self.seen: Dict[Identity, SeenWorker] = {}
        self.workers: Dict[int, SeenWorker] = {}
        self._rays: Dict[int, int] = {}
        """By pid: when it was last seen to belong to Ray or to come from Ray, in clock ticks since boot."""
        self._begun: int | None = None

    def learn(self, table: ProcessTable, verdicts: Mapping[int, KindVerdict], now: int) -> None:
        """`now`: clock ticks since boot."""
        for pid, verdict in verdicts.items():
            process = table.get(pid)
            if verdict.kind != "worker" or process is None or not process.alive or process.origin.role not in WORKERS:
                continue
            above = table.get(process.parent)
            while above and above.origin.role != "raylet" and above.parent in table and above.parent != above.pid:
                above = table[above.parent]
            if above and above.origin.role == "raylet":
                self.workers[pid] = SeenWorker(pid, process.ticks, above.identity, verdict.session, verdict.job, now, process.details.uid)
        for pid, verdict in verdicts.items():
            worker = self.workers.get(verdict.owner) if verdict.owner else None
            if verdict.kind == "child" and worker and pid in table:
                self.seen[table[pid].identity] = worker
        self._begun = self._begun or now
        self._rays.update((pid, now) for pid, verdict in verdicts.items() if verdict.kind in OWNED_KINDS + LEFT_OVER_KINDS)

        self._rays = {pid: seen for pid, seen in self._rays.items() if now - seen < HOUR_TICKS}
        here = {process.identity for process in table.values()}
        led = {process.group for process in table.values()} | {process.leader for process in table.values()}
        self.seen = {identity: worker for identity, worker in self.seen.items() if identity in here}
        self.workers = {pid: worker for pid, worker in self.workers.items() if pid in led or pid in table}

    def was_rays(self, pid: int, ticks: float) -> bool | None:
        """Whether a process with this pid belonged to Ray within a minute of `ticks` (since boot); `None` before the first scan."""
        if self._begun is None or ticks < self._begun:
            return None
        seen = self._rays.get(pid)
        return seen is not None and abs(seen - ticks) < MINUTE_TICKS

    def evidence(self, process: ScannedProcess, verdict: KindVerdict) -> Tuple[Any, ...] | None:
        """The facts about a process that may be left over which a new probe lacks; `None` if there are none."""
        if not process.alive or verdict.kind not in (*LEFT_OVER_KINDS, "unknown"):
            return None
        worker = next(iter(ProcessFacts(seen=self.seen, workers=self.workers).find_past_workers(process)), None)
        return (*worker[:2], *worker.raylet, *worker[3:]) if worker else None

    def believe(self, process: Identity, evidence: Sequence[Any]) -> None:
        """Takes over what another probe returned from `evidence`."""
        worker, ticks, raylet, raylet_ticks, *rest = evidence
        self.seen[process] = self.workers[int(worker)] = SeenWorker(worker, ticks, (raylet, raylet_ticks), *rest)
