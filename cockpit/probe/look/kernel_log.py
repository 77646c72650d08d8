"""What the kernel's log tells: whom it has killed for lack of memory, and Xids of GPUs. Kills are also told by a cgroup's counter."""

from __future__ import annotations

import glob
import os
import re
import time
from typing import Any, Callable, Dict, Mapping, Sequence, Tuple

from .proc import in_first_namespace, read_or_nothing
from .xids import MARK, Bus, Xid, newest, parse_line

Kill = Dict[str, Any]
LOG = "/dev/kmsg"
COUNTERS = ("memory.events", "memory/memory.oom_control")
"""Below /sys/fs/cgroup, of a container."""
_SLURM_JOB = re.compile(r"^0::/(\S{1,500}/job_\d{1,12})(?:/|$)", re.MULTILINE)
"""Of cgroup version 2: `system.slice/slurmstepd.scope/job_42/step_3/user/task_0` (slurm.conf, cgroup.conf: ConstrainRAMSpace)."""
_SLURM_JOB_V1 = re.compile(r"^\d{1,9}:memory:/(\S{1,500}/job_\d{1,12})(?:/|$)", re.MULTILINE)
"""Of version 1: `slurm/uid_1000/job_42/step_3/task_0`. There each counts only the kills of its own tasks."""
MOST_RECORDS = 20_000
_KILLED = re.compile(
    r"Killed process (?P<pid>\d+) \((?P<name>.*?)\),? .*?"
    r"anon-rss:(?P<anon>\d+)kB(?:, file-rss:(?P<file>\d+)kB)?(?:, shmem-rss:(?P<shmem>\d+)kB)?"
)


class Kernel:
    """Looks again and again, each time at what is new."""

    def __init__(self, log: str | None = None, counters: Tuple[str, ...] | None = None, now: Callable[[], float] = time.time) -> None:
        self._path = log or (LOG if in_first_namespace() else None)
        self._counters = find_counters() if counters is None else counters
        self._now = now
        self._log: int | None = None
        self._count: int | None = None
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
                found += [kill for kill in [parse(record.decode("utf-8", "replace"), booted)] if kill]
            elif MARK in record and (told := parse_xid(record.decode("utf-8", "replace"), booted)):
                xids.setdefault(told[0], []).append(told[1])
        self.xids = {bus: newest(known, self._now()) for bus, known in xids.items()}
        return found

    def _read_counters(self) -> list[Kill] | None:
        """A counter says that there was one, not who: the moment is when it was seen to have grown."""
        for path in self._counters:
            counts = [count for count in map(_count_kills, glob.glob(path)) if count is not None]
            if not counts:
                continue
            count = sum(counts)
            before, self._count = self._count, count
            if before is None or count <= before:
                return []
            return [{"by": "kernel", "moment": self._now(), "text": f"oom_kill in {path} has grown from {before} to {count}"}]
        return None


def find_counters(proc: str = "/proc", cgroups: str = "/sys/fs/cgroup") -> Tuple[str, ...]:
    """Files that count kills: of a job of Slurm's, within which we run, its own, which counts those of all its steps; of a container."""
    own = read_or_nothing(f"{proc}/self/cgroup")
    job, old = _SLURM_JOB.search(own), _SLURM_JOB_V1.search(own)
    of_job = f"{cgroups}/{glob.escape(job[1])}/memory.events" if job else None
    of_tasks = f"{cgroups}/memory/{glob.escape(old[1])}/step_*/task_*/memory.oom_control" if old else None
    return (*filter(None, (of_job, of_tasks)), *(f"{cgroups}/{name}" for name in COUNTERS))


def _count_kills(path: str) -> int | None:
    words = dict(line.split()[:2] for line in read_or_nothing(path).splitlines() if " " in line)
    return int(words["oom_kill"]) if words.get("oom_kill", "").isdigit() else None


def parse(record: str, booted: float) -> Kill | None:
    """One record of /dev/kmsg, `priority,number,microseconds since boot,flags;text`; `None` when it tells of no kill."""
    moment, text = _split(record, booted)
    found = _KILLED.search(text)
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
    return booted + int(words[2]) / 1e6 if len(words) > 2 and words[2].isdigit() else None, text
