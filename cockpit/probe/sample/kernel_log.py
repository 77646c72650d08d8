"""Reads out-of-memory kills and Xids of GPUs from the kernel's log; if it may not be read, a cgroup's counter gives the number of kills."""

from __future__ import annotations

import glob
import os
import re
import time
from typing import Any, Callable, Dict, Mapping, NamedTuple, Sequence, Tuple

from .cgroups import cgroup_folders, parse_slurm_job
from .host import lowest_limit
from .proc import in_first_namespace, read_or_nothing
from .xids import MARK, Bus, Xid, newest, parse_line

Kill = Dict[str, Any]
LOG = "/dev/kmsg"
COUNTERS = (("", "memory.events"), ("/memory", "memory.oom_control"))
"""The counters of a container: a folder below /sys/fs/cgroup, and the file in it."""
_SLURM_JOB = re.compile(r"^0::/(\S{1,500}/job_(\d{1,12}))(?:/|$)", re.MULTILINE)
"""Cgroup version 2: `system.slice/slurmstepd.scope/job_42/step_3/user/task_0` (slurm.conf, cgroup.conf: ConstrainRAMSpace)."""
_SLURM_JOB_V1 = re.compile(r"^\d{1,9}:memory:/(\S{1,500}/job_(\d{1,12}))(?:/|$)", re.MULTILINE)
"""Cgroup version 1: `slurm/uid_1000/job_42/step_3/task_0`. There each cgroup counts only the kills of its own tasks."""
MAX_RECORDS = 20_000
"""Records that are read at once."""
_FIRST_FACILITY = 8
"""The priority of a record of the kernel's own is below this; records of programs have a facility (Documentation/ABI/testing/dev-kmsg)."""
_REPORT_MARKS = (b"invoked oom-killer", b";memory: usage ", b";oom-kill:constraint=")
_KILLED = re.compile(
    r"(?:[A-Z][A-Za-z_ ()]{5,60}: )?Killed process (?P<pid>\d+) \((?P<name>.*?)\),? .*?"
    r"anon-rss:(?P<anon>\d+)kB(?:, file-rss:(?P<file>\d+)kB)?(?:, shmem-rss:(?P<shmem>\d+)kB)?"
)
_LIMIT = re.compile(r"memory: usage \d{1,19}kB, limit (\d{1,19})kB")
_AT_LIMIT = re.compile(r"oom-kill:constraint=CONSTRAINT_MEMCG,.*\boom_memcg=(?P<cgroup>[^,]*),.*,pid=(?P<pid>\d+),uid=\d+$")
"""The line before "Killed process" (mm/oom_kill.c). The name of the process may contain anything, so the last `pid=` of the line counts."""


class Counter(NamedTuple):
    """The files that count the kills in a Slurm job or in a container."""

    path: str
    """A pattern that matches these files."""
    folders: Tuple[str, ...]
    """The cgroups whose limits apply there."""
    slurm: str | None = None
    """The id of the Slurm job."""


class KillReport:
    """The lines that the kernel logs about a kill before the line with the killed process."""

    def __init__(self) -> None:
        self._limit: int | None = None
        self._at_limit: Tuple[int, Kill] | None = None
        """The pid that is killed at a limit, and the facts of that limit."""

    def add_line(self, text: str) -> None:
        """Reads one such line. If the whole host lacks memory, no line names a limit."""
        if "invoked oom-killer" in text:
            self._limit = self._at_limit = None
        elif limit := _LIMIT.match(text):
            self._limit = int(limit[1]) * 1024
        elif self._limit is not None and (found := _AT_LIMIT.match(text)) and text.count("_memcg=") == 2:  # a name may contain anything
            self._at_limit = int(found["pid"]), {"limit": self._limit, "slurm": parse_slurm_job(f"0::{found['cgroup']}")}

    def facts(self, pid: int) -> Kill:
        """The limit at which this process was killed; empty if the lines did not name it."""
        return self._at_limit[1] if self._at_limit is not None and self._at_limit[0] == pid else {}


class Kernel:
    """Reads the records, or the kills in the counters, that are new since the last read."""

    def __init__(self, log: str | None = None, counters: Tuple[Counter, ...] | None = None, now: Callable[[], float] = time.time) -> None:
        self._path = log or (LOG if in_first_namespace() else None)
        self._counters = find_counters() if counters is None else counters
        self._now = now
        self._log: int | None = None
        self._report = KillReport()
        self._counted: Dict[str, int] = {}
        """The count of each file at the last read, also of files that are gone."""
        self._counted_at: float | None = None
        self.xids: Mapping[Bus, Sequence[Xid]] | None = None
        """By the PCI bus of the GPU: the Xids of the last day, as of the last read; `None`: the log may not be read."""

    @property
    def is_readable(self) -> bool:
        """Whether the log may be read; in a container never."""
        if self._log is None and self._path is not None:
            try:
                self._log = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError:
                self._path = None
        return self._log is not None

    def read(self) -> list[Kill] | None:
        """New kills; `None`: neither log nor counters may be read.

        In a container the log is not used: it belongs to the whole machine, with pids that mean nothing in the container.
        """
        if not self.is_readable or self._log is None:
            return self._read_counters()
        # Each `os.read` returns one record. Records that were overwritten before they were read are lost.
        booted = self._now() - time.clock_gettime(time.CLOCK_MONOTONIC)
        found: list[Kill] = []
        xids = {bus: list(known) for bus, known in (self.xids or {}).items()}
        for _ in range(MAX_RECORDS):
            try:
                record = os.read(self._log, 8192)
            except BrokenPipeError:
                continue
            except BlockingIOError:
                break
            if not record:
                break
            if b"Killed process" in record:
                if kill := parse(record.decode("utf-8", "replace"), booted):
                    found.append({**kill, **self._report.facts(kill["pid"])})
            elif any(words in record for words in _REPORT_MARKS):
                moment, text = _split(record.decode("utf-8", "replace"), booted)
                if moment is not None:
                    self._report.add_line(text.partition("\n")[0])
            elif MARK in record and (found_xid := parse_xid(record.decode("utf-8", "replace"), booted)):
                xids.setdefault(found_xid[0], []).append(found_xid[1])
        self.xids = {bus: newest(known, self._now()) for bus, known in xids.items()}
        return found

    def _read_counters(self) -> list[Kill] | None:
        """A counter shows how many kills there were, not of which processes. Their moment is the time of this read."""
        for counter in self._counters:
            counts: Dict[str, int] = {}
            for path in glob.glob(counter.path):
                words = dict(line.split()[:2] for line in read_or_nothing(path).splitlines() if " " in line)
                if words.get("oom_kill", "").isdigit():
                    counts[path] = int(words["oom_kill"])
            if not counts:
                continue
            grown = {path: (self._counted.get(path, 0), count) for path, count in counts.items() if count > self._counted.get(path, 0)}
            before, now = self._counted_at, self._now()
            self._counted_at = now
            self._counted.update(counts)
            if before is None or not grown:
                return []
            memory = lowest_limit(counter.folders)
            texts = (f"oom_kill in {path} has grown from {earlier} to {after}" for path, (earlier, after) in sorted(grown.items()))
            kill: Kill = {
                "by": "kernel",
                "moment": now,
                "within": round(now - before, 1),
                "count": sum(after - earlier for earlier, after in grown.values()),
                "limit": memory and memory.total,
                "used": memory and memory.used,  # after the kill
                "slurm": counter.slurm,
                "text": "; ".join(texts),
            }
            return [kill]
        return None


def find_counters(proc: str = "/proc", cgroups: str = "/sys/fs/cgroup") -> Tuple[Counter, ...]:
    """The counters of the Slurm job that we run in, which count the kills in all its steps, and the counters of a container."""
    own = read_or_nothing(f"{proc}/self/cgroup")
    job, old = _SLURM_JOB.search(own), _SLURM_JOB_V1.search(own)
    return (
        *([_job_counter(f"{cgroups}/{glob.escape(job[1])}/memory.events", job, cgroups)] if job else ()),
        *([_job_counter(f"{cgroups}/memory/{glob.escape(old[1])}/step_*/task_*/memory.oom_control", old, cgroups)] if old else ()),
        *(Counter(f"{cgroups}{folder}/{name}", (f"{cgroups}{folder}",)) for folder, name in COUNTERS),
    )


def _job_counter(path: str, job: re.Match[str], cgroups: str) -> Counter:
    return Counter(path, tuple(cgroup_folders(job[0], "memory", cgroups)), job[2])


def parse(record: str, booted: float) -> Kill | None:
    """The kill in a record of /dev/kmsg, `priority,number,microseconds since boot,flags;text`; `None`: there is none.

    `booted` is the POSIX time of the boot.
    """
    moment, text = _split(record, booted)
    found = _KILLED.match(text)
    if found is None or moment is None:
        return None
    held = sum(int(found[kind] or 0) for kind in ("anon", "file", "shmem")) * 1024
    line = text.partition("\n")[0]
    return {"by": "kernel", "moment": moment, "pid": int(found["pid"]), "name": found["name"], "held": held, "text": line}


def parse_xid(record: str, booted: float) -> Tuple[Bus, Xid] | None:
    """The Xid in a record of /dev/kmsg; `None`: there is none. A record that a program has written does not count."""
    moment, text = _split(record, booted)
    return parse_line(text, moment) if moment is not None and text.startswith(MARK.decode()) else None


def _split(record: str, booted: float) -> Tuple[float | None, str]:
    """The moment (`None`: the record is not the kernel's own) and the text of a record."""
    head, _, text = record.partition(";")
    words = head.split(",")
    is_kernel = len(words) > 2 and words[0].isdigit() and int(words[0]) < _FIRST_FACILITY and words[2].isdigit()
    return booted + int(words[2]) / 1e6 if is_kernel else None, text
