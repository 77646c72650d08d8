"""One full look at this host, at the moment something is planned or done: whose is each process, and who holds GPU memory."""

from __future__ import annotations

import os
import re
import threading
import time
from functools import cached_property
from traceback import extract_tb
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Sequence, Set, Tuple

from ..look.classify import classify
from ..look.collector import Collector
from ..look.gpus import GpuReading, Nvml
from ..look.kinds import NO_SIGN, OWNED_KINDS, KindVerdict
from ..look.past import ProcessHistory
from ..look.proc import TICKS_PER_SECOND, boot_time, uptime, user_name
from ..look.processes import ProcessScanner, ProcessTable, ScannedProcess, shown_command
from ..look.sample import facts_of, usual_temps
from ..look.sessions import Sessions, SessionScanner

NVML_TIMEOUT_S = 3.0
"""Seconds that NVML gets; what it holds is then unknown, and said to be."""
Target = Dict[str, Any]
Request = Mapping[str, Any]
Answer = Dict[str, Any]
Tell = Callable[..., None]
"""`tell(text, done, of)`: how far it is."""


def tell_seldom(tell: Tell, every_s: float) -> Tell:
    """The same, but not heard again within so many seconds: what is counted may change thousands of times in one."""
    told_at = 0.0

    def say(text: str, done: int | None = None, of: int | None = None) -> None:
        nonlocal told_at
        now = time.monotonic()
        if now - told_at > every_s:
            told_at = now
            tell(text, done, of)

    return say


def grace_of(request: Request, usual: float) -> float:
    """Seconds between the two signals, as somebody wants them, be it none."""
    wanted = request.get("grace")
    return usual if wanted is None else float(wanted)


def unforeseen(error: Exception) -> str:
    """What went wrong that nobody has thought of, and where: enough to mend it by."""
    places = extract_tb(error.__traceback__)
    where = f" in {places[-1].name}" if places else ""
    return f"unexpected error ({type(error).__name__}{where}: {str(error)[:200]})"


class _Seen(NamedTuple):
    """The facts of one look."""

    table: ProcessTable
    verdicts: Mapping[int, KindVerdict]
    reading: GpuReading
    sessions: Sessions
    fault: str | None = None
    """Why nothing is known of GPUs, when they could not be read."""
    carriers: Mapping[int, int] = {}
    """Every process that a live part of Ray hangs from, and the pid of that part."""


class HostState(_Seen):
    """What was seen in one moment."""

    def target(self, pid: int, **more: Any) -> Target:
        """A process as a target; of one that is not in the table, as NVML may list it, no more is known than its pid."""
        facts = self._facts(self.table[pid]) if pid in self.table else {"what": "process", "pid": pid, "ticks": None}
        return {**facts, **self._verdict(pid), **more}

    def _facts(self, process: ScannedProcess) -> Target:
        return {
            "what": "process",
            "pid": process.pid,
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

    def _verdict(self, pid: int) -> Target:
        verdict = self.verdicts.get(pid, NO_SIGN)
        held = self.reading.holders.get(pid, {})
        return {
            "kind": verdict.kind,
            "why": list(verdict.why),
            "job": verdict.job,
            "session": os.path.basename(verdict.session) if verdict.session else None,
            "gpus": [{"index": index, "memory": memory} for index, memory in sorted(held.items())],
        }

    @property
    def doubts(self) -> list[str]:
        """What can't be said of GPU memory, in a sentence; empty when NVML has answered."""
        return [f"{self.fault}: the processes that hold GPU memory are unknown"] if self.fault else []

    def find_same(self, target: Target) -> ScannedProcess | None:
        """The planned process, if it is still there and alive."""
        process = self.table.get(int(target["pid"]))
        return process if process is not None and process.ticks == int(target["ticks"]) and process.alive else None

    def find_descendants(self, pid: int) -> Tuple[int, ...]:
        """All its descendants; /proc is not read in one moment, so there may be a loop."""
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
        """The same pids, whoever is deepest first."""
        return sorted(pids, key=lambda pid: len(self._find_ancestry(pid)), reverse=True)

    def _find_ancestry(self, pid: int) -> Set[int]:
        """It and all that it hangs from; a loop ends it."""
        passed: Set[int] = set()
        while pid in self.table and pid not in passed:
            passed.add(pid)
            pid = self.table[pid].parent
        return passed


class HostScanner:
    """Looks at this host as often as it is asked to. What it has seen once is evidence the next time."""

    def __init__(self, request: Request) -> None:
        self._jobs: Sequence[Mapping[str, Any]] = request.get("jobs") or ()
        self._process_scanner = ProcessScanner()
        self._scanner = SessionScanner(usual_temps())
        self._past = _past_of(request)
        self._nvml: Collector[GpuReading] = Collector("nvml", "NVML", Nvml().read, None)
        self._nvml.start(threading.Event())
        self._last: Tuple[float, HostState] | None = None

    def add_temp_dir(self, temp: str) -> None:
        """A temp dir that a person has named; it is looked into from now on."""
        self._scanner.add_temp_dir(temp)

    def doubt_jobs(self, session: str) -> None:
        """That session is being ended: what its Ray has said of its jobs holds no longer."""
        self._jobs = [one for one in self._jobs if one["session"] != session]

    def look(self, patience: float = NVML_TIMEOUT_S) -> HostState:
        """Takes as long as a scan of /proc, and waits at most `patience` seconds for NVML."""
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
        found = HostState(table, final, reading, sessions, reason, _carriers(table, final))
        self._last = time.monotonic(), found
        return found

    def recent(self, age: float = 1.0) -> HostState:
        """The last look, when no more than `age` seconds have passed since; for many questions that are asked in a row."""
        if self._last is not None and time.monotonic() - self._last[0] <= age:
            return self._last[1]
        return self.look(0.0)

    def reading(self, patience: float = NVML_TIMEOUT_S) -> GpuReading | None:
        """What NVML says now, and not what it said before; `None` when it does not answer."""
        asked = time.monotonic()
        return self._nvml.facts if self._answers(asked, patience) and not self._nvml.fault() else None

    def _answers(self, asked: float, patience: float) -> bool:
        """Whether NVML answers a question that was put after that moment; one that was in flight then tells of before."""
        while True:
            if self._nvml.as_of is not None and self._nvml.as_of >= asked:
                return True
            left = asked + patience - time.monotonic()
            if left <= 0:
                return False
            self._nvml.ask()
            self._nvml.wait(left)


def _carriers(table: ProcessTable, verdicts: Mapping[int, KindVerdict]) -> Dict[int, int]:
    found: Dict[int, int] = {}
    for pid in (pid for pid, verdict in verdicts.items() if verdict.kind in OWNED_KINDS and pid in table and table[pid].alive):
        above = table[pid].parent
        while above in table and above not in found:
            found[above] = pid
            above = table[above].parent
    return found


def apply_job_states(verdicts: Mapping[int, KindVerdict], jobs: Sequence[Mapping[str, Any]]) -> Dict[int, KindVerdict]:
    """The same verdicts with what Ray has said of their jobs: by session, which run and which have ended.

    A job that runs outweighs every sign of death. Where this host could not tell, all sessions that it may be of must have been asked.
    """
    said: Dict[str, Dict[str, Set[str]]] = {}
    for one in jobs:
        known = said.setdefault(str(one["session"]), {"running": set(), "ended": set()})
        known["running"].update(one["running"])
        known["ended"].update(one["ended"])
    return {pid: _apply_job_state(verdict, said) for pid, verdict in verdicts.items()}


def _apply_job_state(verdict: KindVerdict, said: Mapping[str, Mapping[str, Set[str]]]) -> KindVerdict:
    if verdict.undecided != "job" and verdict.kind != "orphan":
        return verdict
    names = [os.path.basename(session) for session in (*verdict.asks, *((verdict.session,) if verdict.session else ()))]
    runs = next((name for name in names if verdict.job in said.get(name, NO_JOBS)["running"]), None)
    why = tuple(reason for reason in verdict.why if not reason.startswith("only Ray knows whether job"))
    decided = verdict._replace(undecided=None, asks=(), session=verdict.session or (verdict.asks[0] if len(verdict.asks) == 1 else None))
    if runs is not None:
        return decided._replace(kind="child", why=(*why, f"Ray reports that its job {verdict.job} still runs in {runs}"))
    if verdict.undecided is None or not verdict.asks or not all(os.path.basename(session) in said for session in verdict.asks):
        return verdict
    known = any(verdict.job in said[name]["ended"] for name in names if name in said)
    if not known and verdict.session in verdict.asks:
        return verdict
    over = f"its job {verdict.job} has ended" if known else f"no Ray here knows job {verdict.job} any more"
    gone, rest = (why[:1], why[1:]) if why and WORKER_GONE.match(why[0]) else ((), why)
    return decided._replace(kind="orphan", why=(f"{' and '.join((*gone, over))}; nothing alive owns it", *rest))


WORKER_GONE = re.compile(r"its worker( \d+)? is gone$")
NO_JOBS: Mapping[str, Set[str]] = {"running": set(), "ended": set()}


def _past_of(request: Request) -> ProcessHistory:
    past = ProcessHistory()
    for pid, ticks, evidence in request.get("past") or ():
        past.believe((int(pid), int(ticks)), evidence)
    return past
