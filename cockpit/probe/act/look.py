"""One full look at this host, at the moment something is planned or done: whose is each process, and who holds GPU memory."""

from __future__ import annotations

import os
import threading
import time
from functools import cached_property
from traceback import extract_tb
from typing import AbstractSet, Any, Callable, Dict, List, Mapping, NamedTuple, Sequence, Set, Tuple

from ..collector import Collector
from ..gpus import Nvml, Reading
from ..kinds import OWNED, Facts, Verdict, Worker, classify
from ..past import Past
from ..proc import TICKS_PER_SECOND, Forest, Identity, Process, Table, boot_time, user_name
from ..sample import usual_temps
from ..sessions import Desk, Sessions

PATIENCE = 3.0
"""Seconds that NVML gets; what it holds is then unknown, and said to be."""
Target = Dict[str, Any]
Request = Mapping[str, Any]
Tell = Callable[..., None]
"""`tell(text, done, of)`: how far it is."""


def grace_of(request: Request, usual: float) -> float:
    """Seconds between the two signals, as somebody wants them, be it none."""
    wanted = request.get("grace")
    return usual if wanted is None else float(wanted)


def unforeseen(error: Exception) -> str:
    """What went wrong that nobody has thought of, and where: enough to mend it by."""
    places = extract_tb(error.__traceback__)
    where = f" in {places[-1].name}" if places else ""
    return f"something unforeseen went wrong ({type(error).__name__}{where}: {str(error)[:200]})"


class _Seen(NamedTuple):
    """The facts of one look."""

    forest: Forest
    verdicts: Mapping[int, Verdict]
    reading: Reading
    sessions: Sessions
    fault: str | None = None
    """Why nothing is known of GPUs, when they could not be read."""
    carriers: Mapping[int, int] = {}
    """Every process that a live part of Ray hangs from, and the pid of that part."""


class Look(_Seen):
    """What was seen in one moment."""

    def target(self, pid: int, **more: Any) -> Target:
        """A process as a target; it must be in the forest."""
        return {**self._facts(self.forest[pid]), **self._verdict(pid), **more}

    def _facts(self, process: Process) -> Target:
        return {
            "what": "process",
            "pid": process.pid,
            "ticks": process.ticks,
            "started": round(boot_time() + process.ticks / TICKS_PER_SECOND, 2),
            "parent": process.parent,
            "user": None if process.details.uid is None else user_name(process.details.uid),
            "command": process.command[:4096] or process.name,
            "name": process.name,
            "state": process.state,
            "rss": process.rss,
        }

    def _verdict(self, pid: int) -> Target:
        verdict = self.verdicts.get(pid, FOREIGN)
        held = self.reading.holders.get(pid, {})
        return {
            "kind": verdict.kind,
            "why": list(verdict.why),
            "job": verdict.job,
            "session": os.path.basename(verdict.session) if verdict.session else None,
            "gpus": [{"index": index, "memory": memory} for index, memory in sorted(held.items())],
        }

    def same(self, target: Target) -> Process | None:
        """The planned process, if it is still there and alive."""
        process = self.forest.get(int(target["pid"]))
        return process if process is not None and process.ticks == int(target["ticks"]) and process.alive else None

    def below(self, pid: int) -> Tuple[int, ...]:
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
        for pid, process in self.forest.items():
            found.setdefault(process.parent, []).append(pid)
        return found

    def children_first(self, pids: Any) -> list[int]:
        """The same pids, whoever is deepest first."""
        return sorted(pids, key=lambda pid: len(self._line(pid)), reverse=True)

    def _line(self, pid: int) -> Set[int]:
        """It and all that it hangs from; a loop ends it."""
        passed: Set[int] = set()
        while pid in self.forest and pid not in passed:
            passed.add(pid)
            pid = self.forest[pid].parent
        return passed


FOREIGN = Verdict("foreign", ("nothing says that it comes from Ray",), from_ray=False)


class Watcher:
    """Looks at this host as often as it is asked to. What it has seen once is evidence the next time."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._table = Table()
        self._desk = Desk(usual_temps())
        self._past = _past_of(request)
        self._nvml: Collector[Reading] = Collector("nvml", "NVML", Nvml().read, None)
        self._nvml.start(threading.Event())
        self._last: Tuple[float, Look] | None = None

    def hear(self, temp: str) -> None:
        """A temp dir that a person has named; it is looked into from now on."""
        self._desk.hear(temp)

    def look(self, patience: float = PATIENCE) -> Look:
        """Takes as long as a scan of /proc, and waits at most `patience` seconds for NVML."""
        found = self._look(patience)
        self._last = time.monotonic(), found
        return found

    def recent(self, age: float = 1.0) -> Look:
        """The last look, when no more than `age` seconds have passed since; for many questions that are asked in a row."""
        if self._last is not None and time.monotonic() - self._last[0] <= age:
            return self._last[1]
        return self.look(0.0)

    def _look(self, patience: float) -> Look:
        asked = time.monotonic()
        self._nvml.ask()
        forest = self._table.scan()
        sessions = self._desk.read(forest)
        answered = self._answers(asked, patience)
        reading = self._nvml.facts or Reading()
        answering = frozenset(folder.path for folder in sessions.folders if folder.answers)
        past = self._past
        facts = Facts(answering, sessions.drivers, frozenset(reading.holders), past.seen, past.workers, past.parents)
        verdicts = classify(forest, facts)
        past.learn(forest, verdicts, int((time.time() - boot_time()) * TICKS_PER_SECOND))
        fault = self._nvml.fault()
        silent = None if answered or not patience else f"NVML has not answered for {patience:.0f} s, and who holds GPU memory is not known"
        final = settled(verdicts, self._request.get("jobs") or (), _live(verdicts, sessions))
        return Look(forest, final, reading, sessions, str(fault["text"]) if fault else silent, _carriers(forest, final))

    def reading(self, patience: float = PATIENCE) -> Reading | None:
        """What NVML says now, and not what it said before; `None` when it doesn't answer."""
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


def _carriers(forest: Forest, verdicts: Mapping[int, Verdict]) -> Dict[int, int]:
    found: Dict[int, int] = {}
    for pid in (pid for pid, verdict in verdicts.items() if verdict.kind in OWNED and pid in forest and forest[pid].alive):
        above = forest[pid].parent
        while above in forest and above not in found:
            found[above] = pid
            above = forest[above].parent
    return found


def settled(verdicts: Mapping[int, Verdict], words: Sequence[Mapping[str, Any]], live: AbstractSet[str]) -> Dict[int, Verdict]:
    """The same verdicts, and where this host could not tell whether a job still runs, what Ray has said of it.

    A job id counts only in its own session. What a job's entrypoint has started may show no session at all: it is of the Ray that knows its
    job, and left over when every Ray that is `live` here has been asked and none of them knows it to run.
    """
    return {pid: _settled(verdict, words, live) for pid, verdict in verdicts.items()}


def _settled(verdict: Verdict, words: Sequence[Mapping[str, Any]], live: AbstractSet[str]) -> Verdict:
    if verdict.undecided != "job":
        return verdict
    session = os.path.basename(verdict.session or "")
    asked = [one for one in words if session in ("", one["session"])]
    known = [one for one in asked if verdict.job in (*one["running"], *one["ended"])]
    said = verdict._replace(undecided=None, session=verdict.session or (known[0]["session"] if len(known) == 1 else None))
    why = verdict.why[:-1]
    if any(verdict.job in one["running"] and (session or one["session"] in live) for one in known):
        return said._replace(kind="child", why=(*why, f"its job {verdict.job} still runs"))
    if known and (session or live <= {one["session"] for one in words}):
        return said._replace(kind="orphan", why=(*why, f"its job {verdict.job} is over"))
    if asked and not session and live <= {one["session"] for one in words}:
        return said._replace(kind="orphan", why=(*why, f"no Ray here knows job {verdict.job} any more"))
    return verdict


def _live(verdicts: Mapping[int, Verdict], sessions: Sessions) -> AbstractSet[str]:
    """The names of those that live here, or may."""
    parts = {os.path.basename(verdict.session or "?") for verdict in verdicts.values() if verdict.kind == "ray"}
    return parts | {os.path.basename(folder.path) for folder in sessions.folders if folder.answers is not False}


def _past_of(request: Request) -> Past:
    past = Past()
    for pid, ticks, worker, parent in request.get("past") or ():
        identity: Identity = (int(pid), int(ticks))
        if worker is not None:
            known = Worker(worker[0], worker[1], (worker[2], worker[3]), *worker[4:7])
            past.seen[identity] = past.workers[known.pid] = known
        if parent is not None:
            past.parents[identity] = int(parent)
    return past
