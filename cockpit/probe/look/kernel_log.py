"""What the kernel's log tells: whom it has killed for lack of memory, and Xids of GPUs. A cgroup's counter tells that there was a kill."""

from __future__ import annotations

import glob
import os
import re
import time
from typing import Any, Callable, Dict, Mapping, NamedTuple, Sequence, Tuple

from .cgroups import cgroup_folders
from .host import lowest_limit
from .proc import in_first_namespace, read_or_nothing
from .raylets import parse_slurm_job
from .xids import MARK, Bus, Xid, newest, parse_line

Kill = Dict[str, Any]
LOG = "/dev/kmsg"
COUNTERS = (("", "memory.events"), ("/memory", "memory.oom_control"))
"""Below /sys/fs/cgroup, of a container: the folder, and the file in it."""
_SLURM_JOB = re.compile(r"^0::/(\S{1,500}/job_(\d{1,12}))(?:/|$)", re.MULTILINE)
"""Of cgroup version 2: `system.slice/slurmstepd.scope/job_42/step_3/user/task_0` (slurm.conf, cgroup.conf: ConstrainRAMSpace)."""
_SLURM_JOB_V1 = re.compile(r"^\d{1,9}:memory:/(\S{1,500}/job_(\d{1,12}))(?:/|$)", re.MULTILINE)
"""Of version 1: `slurm/uid_1000/job_42/step_3/task_0`. There each counts only the kills of its own tasks."""
MOST_RECORDS = 20_000
_FACILITY = 8
"""What a record begins with is below this where the kernel itself speaks; what programs write has a facility (dev/kmsg of the kernel)."""
_REPORTED = (b"invoked oom-killer", b";memory: usage ", b";oom-kill:constraint=")
_KILLED = re.compile(
    r"(?:[A-Z][A-Za-z_ ()]{5,60}: )?Killed process (?P<pid>\d+) \((?P<name>.*?)\),? .*?"
    r"anon-rss:(?P<anon>\d+)kB(?:, file-rss:(?P<file>\d+)kB)?(?:, shmem-rss:(?P<shmem>\d+)kB)?"
)
_LIMIT = re.compile(r"memory: usage \d{1,19}kB, limit (\d{1,19})kB")
_AT_LIMIT = re.compile(r"oom-kill:constraint=CONSTRAINT_MEMCG,.*\boom_memcg=(?P<cgroup>[^,]*),.*,pid=(?P<pid>\d+),uid=\d+$")
"""What the kernel says before it says whom it has killed (mm/oom_kill.c): that one's name may hold anything, so the last pid counts."""


class Counter(NamedTuple):
    """Of kills in a Slurm job, or in a container."""

    path: str
    """Which files count, as a pattern."""
    folders: Tuple[str, ...]
    """The cgroups whose limits hold there."""
    slurm: str | None = None
    """The job."""


class KillReport:
    """What the kernel's log has said of a kill before the line that names whom it has killed."""

    def __init__(self) -> None:
        self._limit: int | None = None
        self._at_limit: Tuple[int, Kill] | None = None

    def hear(self, text: str) -> None:
        """A line of it. A kill because the whole host has no memory names no limit."""
        if "invoked oom-killer" in text:
            self._limit = self._at_limit = None
        elif limit := _LIMIT.match(text):
            self._limit = int(limit[1]) * 1024
        elif self._limit is not None and (found := _AT_LIMIT.match(text)) and text.count("_memcg=") == 2:  # a name may hold anything
            self._at_limit = int(found["pid"]), {"limit": self._limit, "slurm": parse_slurm_job(f"0::{found['cgroup']}")}

    def facts(self, pid: int) -> Kill:
        """The limit at which this one was killed, where it was said of it."""
        return self._at_limit[1] if self._at_limit is not None and self._at_limit[0] == pid else {}


class Kernel:
    """Looks again and again, each time at what is new."""

    def __init__(self, log: str | None = None, counters: Tuple[Counter, ...] | None = None, now: Callable[[], float] = time.time) -> None:
        self._path = log or (LOG if in_first_namespace() else None)
        self._counters = find_counters() if counters is None else counters
        self._now = now
        self._log: int | None = None
        self._report = KillReport()
        self._counted: Dict[str, int] = {}
        """Kills by file, also of those that are gone; as of when they were read last."""
        self._counted_at: float | None = None
        self.xids: Mapping[Bus, Sequence[Xid]] | None = None
        """Of the last day, by the PCI bus of the GPU, as of the last look; `None` where the log may not be read."""

    @property
    def is_readable(self) -> bool:
        """Whether the log itself may be read, in a container never."""
        if self._log is None and self._path is not None:
            try:
                self._log = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError:
                self._path = None
        return self._log is not None

    def read(self) -> list[Kill] | None:
        """`None` where neither may be read. In a container the log tells of the whole machine, in pids that mean nothing there."""
        if not self.is_readable or self._log is None:
            return self._read_counters()
        return self._read_log(self._log)

    def _read_log(self, log: int) -> list[Kill]:
        """A record a read; what was overwritten before it was read is passed over."""
        booted = self._now() - time.clock_gettime(time.CLOCK_MONOTONIC)
        found: list[Kill] = []
        xids = {bus: list(known) for bus, known in (self.xids or {}).items()}
        for _ in range(MOST_RECORDS):
            try:
                record = os.read(log, 8192)
            except BrokenPipeError:
                continue
            except BlockingIOError:
                break
            if not record:
                break
            if b"Killed process" in record:
                if kill := parse(record.decode("utf-8", "replace"), booted):
                    found.append({**kill, **self._report.facts(kill["pid"])})
            elif any(words in record for words in _REPORTED):
                moment, text = _split(record.decode("utf-8", "replace"), booted)
                if moment is not None:
                    self._report.hear(text.partition("\n")[0])
            elif MARK in record and (told := parse_xid(record.decode("utf-8", "replace"), booted)):
                xids.setdefault(told[0], []).append(told[1])
        self.xids = {bus: newest(known, self._now()) for bus, known in xids.items()}
        return found

    def _read_counters(self) -> list[Kill] | None:
        """A counter says that there was one, not who: the moment is when it was seen to have grown."""
        for counter in self._counters:
            counts = {path: count for path in glob.glob(counter.path) for count in [_count_kills(path)] if count is not None}
            if counts:
                grown = {path: (self._counted.get(path, 0), count) for path, count in counts.items() if count > self._counted.get(path, 0)}
                before, self._counted_at = self._counted_at, self._now()
                self._counted.update(counts)
                return [] if before is None or not grown else [_counted_kill(counter, grown, self._counted_at, before)]
        return None


def _counted_kill(counter: Counter, grown: Mapping[str, Tuple[int, int]], now: float, before: float) -> Kill:
    """All that was counted since the look before. What is in use is so after it."""
    memory = lowest_limit(counter.folders)
    return {
        "by": "kernel",
        "moment": now,
        "within": round(now - before, 1),
        "count": sum(after - earlier for earlier, after in grown.values()),
        "limit": memory and memory.total,
        "used": memory and memory.used,
        "slurm": counter.slurm,
        "text": "; ".join(f"oom_kill in {path} has grown from {earlier} to {after}" for path, (earlier, after) in sorted(grown.items())),
    }


def find_counters(proc: str = "/proc", cgroups: str = "/sys/fs/cgroup") -> Tuple[Counter, ...]:
    """Files that count kills: of a Slurm job, within which we run, its own, which counts those of all its steps; of a container."""
    own = read_or_nothing(f"{proc}/self/cgroup")
    job, old = _SLURM_JOB.search(own), _SLURM_JOB_V1.search(own)
    return (
        *([_job_counter(f"{cgroups}/{glob.escape(job[1])}/memory.events", job, cgroups)] if job else ()),
        *([_job_counter(f"{cgroups}/memory/{glob.escape(old[1])}/step_*/task_*/memory.oom_control", old, cgroups)] if old else ()),
        *(Counter(f"{cgroups}{folder}/{name}", (f"{cgroups}{folder}",)) for folder, name in COUNTERS),
    )


def _job_counter(path: str, job: re.Match[str], cgroups: str) -> Counter:
    return Counter(path, tuple(cgroup_folders(job[0], "memory", cgroups)), job[2])


def _count_kills(path: str) -> int | None:
    words = dict(line.split()[:2] for line in read_or_nothing(path).splitlines() if " " in line)
    return int(words["oom_kill"]) if words.get("oom_kill", "").isdigit() else None


def parse(record: str, booted: float) -> Kill | None:
    """One record of /dev/kmsg, `priority,number,microseconds since boot,flags;text`; `None` when it tells of no kill."""
    moment, text = _split(record, booted)
    found = _KILLED.match(text)
    if found is None or moment is None:
        return None
    held = sum(int(found[kind] or 0) for kind in ("anon", "file", "shmem")) * 1024
    line = text.partition("\n")[0]
    return {"by": "kernel", "moment": moment, "pid": int(found["pid"]), "name": found["name"], "held": held, "text": line}


def parse_xid(record: str, booted: float) -> Tuple[Bus, Xid] | None:
    """The same; `None` when it tells of no Xid. Whoever may write to the log as a program is not the driver."""
    moment, text = _split(record, booted)
    return parse_line(text, moment) if moment is not None and text.startswith(MARK.decode()) else None


def _split(record: str, booted: float) -> Tuple[float | None, str]:
    head, _, text = record.partition(";")
    words = head.split(",")
    is_kernel = len(words) > 2 and words[0].isdigit() and int(words[0]) < _FACILITY and words[2].isdigit()
    return booted + int(words[2]) / 1e6 if is_kernel else None, text
