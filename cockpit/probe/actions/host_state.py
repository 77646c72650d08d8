"""Reads the state of this host for a plan or an action: the kinds of all processes, and the holders of GPU memory."""

from __future__ import annotations

import os
import re
import threading
import time
from functools import cached_property
from traceback import extract_tb
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Sequence, Set, Tuple

from ..sample.classify import classify
from ..sample.collector import Collector
from ..sample.gpus import GpuReading, Nvml
from ..sample.host_sample import facts_of, usual_temps
from ..sample.past import ProcessHistory
from ..sample.proc import TICKS_PER_SECOND, boot_time, uptime, user_name
from ..sample.process_kinds import NO_SIGN, OWNED_KINDS, KindVerdict
from ..sample.processes import ProcessScanner, ProcessTable, ScannedProcess, shown_command
from ..sample.sessions import Sessions, SessionScanner

NVML_TIMEOUT_S = 3.0
"""Seconds to wait for NVML; after them the holders of GPU memory are unknown, and a note says so."""
Target = Dict[str, Any]
Request = Mapping[str, Any]
Answer = Dict[str, Any]
OnProgress = Callable[..., None]
"""`on_progress(text, done, of)` reports progress: `done` of `of` things."""


def report_seldom(on_progress: OnProgress, every_s: float) -> OnProgress:
    """Passes on at most one report in `every_s` seconds: a count may change thousands of times a second."""
    reported_at = 0.0

    def report(text: str, done: int | None = None, of: int | None = None) -> None:
        nonlocal reported_at
        now = time.monotonic()
        if now - reported_at > every_s:
            reported_at = now
            on_progress(text, done, of)

    return report


def grace_of(request: Request, usual: float) -> float:
    """Seconds between the two signals, from the request (0 is allowed) or else the usual ones."""
    wanted = request.get("grace")
    return usual if wanted is None else float(wanted)


def describe_bug(error: Exception) -> str:
    """The text of an error that should not happen, with its type and function, so that it can be corrected."""
    places = extract_tb(error.__traceback__)
    where = f" in {places[-1].name}" if places else ""
    return f"unexpected error ({type(error).__name__}{where}: {str(error)[:200]})"


class _Facts(NamedTuple):
    """The facts of one reading."""

    table: ProcessTable
    verdicts: Mapping[int, KindVerdict]
    reading: GpuReading
    sessions: Sessions
    fault: str | None = None
    """Why the GPUs could not be read; `None` if they were."""
    carriers: Mapping[int, int] = {}
    """The ancestors of all live parts of Ray: the pid of the ancestor, and the pid of the part."""


class HostState(_Facts):
    """The state of this host at one moment."""

    def target(self, pid: int, **more: Any) -> Target:
        """A process as a target. NVML may list a process that is not in the table; then only its pid is known."""
        target: Target = {"what": "process", "pid": pid, "ticks": None}
        process = self.table.get(pid)
        if process is not None:
            target = {
                "what": "process",
                "pid": pid,
                "ticks": process.ticks,
                "started": round(boot_time() + process.ticks / TICKS_PER_SECOND, 2),
                "parent": process.parent,
                "inside": process.details.inside,
                "user": None if process.details.uid is None else user_name(process.details.uid),
                "command": shown_command(process, len(self.verdicts)) or process.name,
                "name": process.name,
                "state": process.state,
                "rss": process.rss,
            }
        verdict = self.verdicts.get(pid, NO_SIGN)
        held = self.reading.holders.get(pid, {})
        return {
            **target,
            "kind": verdict.kind,
            "why": list(verdict.why),
            "job": verdict.job,
            "session": os.path.basename(verdict.session) if verdict.session else None,
            "gpus": [{"index": index, "memory": memory} for index, memory in sorted(held.items())],
            **more,
        }

    @property
    def doubts(self) -> list[str]:
        """A sentence if the holders of GPU memory are unknown; empty if NVML has answered."""
        return [f"{self.fault}: the processes that hold GPU memory are unknown"] if self.fault else []

    def find_same(self, target: Target) -> ScannedProcess | None:
        """The planned process, if it still exists and is alive."""
        process = self.table.get(int(target["pid"]))
        return process if process is not None and process.ticks == int(target["ticks"]) and process.alive else None

    def find_descendants(self, pid: int) -> Tuple[int, ...]:
        """All its descendants. /proc is not read at one moment, so the table may contain a loop."""
        found = {pid: None}
        waiting = [pid]
        while waiting:
            new = [child for child in self._children.get(waiting.pop(), ()) if child not in found]
            found.update(dict.fromkeys(new))
            waiting += new
        return tuple(found)[1:]

    @cached_property
    def _children(self) -> Mapping[int, List[int]]:
        found: Dict[int, List[int]] = {}
        for pid, process in self.table.items():
            found.setdefault(process.parent, []).append(pid)
        return found

    def sort_deepest_first(self, pids: Any) -> list[int]:
        """The same pids; a process comes before its ancestors."""

        def depth(pid: int) -> int:
            passed: Set[int] = set()
            while pid in self.table and pid not in passed:  # a loop ends it
                passed.add(pid)
                pid = self.table[pid].parent
            return len(passed)

        return sorted(pids, key=depth, reverse=True)


class HostScanner:
    """Reads the state of this host again and again; earlier scans are evidence for later ones."""

    def __init__(self, request: Request) -> None:
        self._jobs: Sequence[Mapping[str, Any]] = request.get("jobs") or ()
        self._process_scanner = ProcessScanner()
        self._scanner = SessionScanner(usual_temps())
        self._past = ProcessHistory()
        for pid, ticks, evidence in request.get("past") or ():
            self._past.believe((int(pid), int(ticks)), evidence)
        self._nvml: Collector[GpuReading] = Collector("nvml", "NVML", Nvml().read, None)
        self._nvml.start(threading.Event())
        self._last: Tuple[float, HostState] | None = None

    def add_temp_dir(self, temp: str) -> None:
        """Adds a temp dir that a person has named."""
        self._scanner.add_temp_dir(temp)

    def doubt_jobs(self, session: str) -> None:
        """Forgets the job states of a session that is being ended, because they do not hold any more."""
        self._jobs = [one for one in self._jobs if one["session"] != session]

    def scan(self, patience: float = NVML_TIMEOUT_S) -> HostState:
        """Scans /proc, and waits at most `patience` seconds for NVML."""
        asked = time.monotonic()
        self._nvml.ask()
        table = self._process_scanner.scan()
        sessions = self._scanner.read(table)
        answered = self._answers(asked, patience)
        reading = self._nvml.facts or GpuReading()
        past = self._past
        verdicts = classify(table, facts_of(sessions, reading, past))
        past.learn(table, verdicts, int(uptime() * TICKS_PER_SECOND))
        fault = self._nvml.fault()
        silent = None if answered or not patience else f"NVML has not answered for {patience:.0f} s"
        reason = str(fault["text"]) if fault else silent
        final = apply_job_states(verdicts, self._jobs)

        # The ancestors of live parts of Ray.
        carriers: Dict[int, int] = {}
        for pid in (pid for pid, verdict in final.items() if verdict.kind in OWNED_KINDS and pid in table and table[pid].alive):
            above = table[pid].parent
            while above in table and above not in carriers:
                carriers[above] = pid
                above = table[above].parent
        found = HostState(table, final, reading, sessions, reason, carriers)
        self._last = time.monotonic(), found
        return found

    def recent(self, age: float = 1.0) -> HostState:
        """The last state if it is at most `age` seconds old, for many questions in a row; otherwise a new one."""
        if self._last is not None and time.monotonic() - self._last[0] <= age:
            return self._last[1]
        return self.scan(0.0)

    def reading(self, patience: float = NVML_TIMEOUT_S) -> GpuReading | None:
        """A new answer of NVML, not an earlier one; `None` if it does not answer."""
        asked = time.monotonic()
        return self._nvml.facts if self._answers(asked, patience) and not self._nvml.fault() else None

    def _answers(self, asked: float, patience: float) -> bool:
        """Whether NVML answers a question asked after this moment: the answer to an earlier one may describe an earlier state."""
        while True:
            if self._nvml.as_of is not None and self._nvml.as_of >= asked:
                return True
            left = asked + patience - time.monotonic()
            if left <= 0:
                return False
            self._nvml.ask()
            self._nvml.wait(left)


def apply_job_states(verdicts: Mapping[int, KindVerdict], jobs: Sequence[Mapping[str, Any]]) -> Dict[int, KindVerdict]:
    """The verdicts, decided by the job states that Ray reports: for each session, the running and the ended jobs.

    A running job outweighs all signs of death. If a job may belong to several sessions, all of them must have been asked.
    """
    states: Dict[str, Dict[str, Set[str]]] = {}
    for one in jobs:
        known = states.setdefault(str(one["session"]), {"running": set(), "ended": set()})
        known["running"].update(one["running"])
        known["ended"].update(one["ended"])
    return {pid: _apply_job_state(verdict, states) for pid, verdict in verdicts.items()}


def _apply_job_state(verdict: KindVerdict, states: Mapping[str, Mapping[str, Set[str]]]) -> KindVerdict:
    if verdict.undecided != "job" and verdict.kind != "orphan":
        return verdict
    names = [os.path.basename(session) for session in (*verdict.asks, *((verdict.session,) if verdict.session else ()))]
    runs = next((name for name in names if verdict.job in states.get(name, NO_JOBS)["running"]), None)
    why = tuple(reason for reason in verdict.why if not reason.startswith("only Ray knows whether job"))
    decided = verdict._replace(undecided=None, asks=(), session=verdict.session or (verdict.asks[0] if len(verdict.asks) == 1 else None))
    if runs is not None:
        return decided._replace(kind="child", why=(*why, f"Ray reports that its job {verdict.job} still runs in {runs}"))
    if verdict.undecided is None or not verdict.asks or not all(os.path.basename(session) in states for session in verdict.asks):
        return verdict
    has_ended = any(verdict.job in states[name]["ended"] for name in names if name in states)
    if not has_ended and verdict.session in verdict.asks:
        return verdict
    over = f"its job {verdict.job} has ended" if has_ended else f"no Ray here knows job {verdict.job} any more"
    gone, rest = (why[:1], why[1:]) if why and WORKER_GONE.match(why[0]) else ((), why)
    return decided._replace(kind="orphan", why=(f"{' and '.join((*gone, over))}; nothing alive owns it", *rest))


WORKER_GONE = re.compile(r"its worker( \d+)? is gone$")
NO_JOBS: Mapping[str, Set[str]] = {"running": set(), "ended": set()}
