"""Whom the kernel has killed for want of memory, by its log, or where that may not be read by a cgroup's counter."""

from __future__ import annotations

import os
import re
import time
from typing import Any, Callable, Dict

from .processes import read

Kill = Dict[str, Any]
LOG = "/dev/kmsg"
COUNTERS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
FIRST_PID_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO of linux/proc_ns.h."""
MOST_RECORDS = 20_000
_KILLED = re.compile(
    r"Killed process (?P<pid>\d+) \((?P<name>.*?)\),? .*?"
    r"anon-rss:(?P<anon>\d+)kB(?:, file-rss:(?P<file>\d+)kB)?(?:, shmem-rss:(?P<shmem>\d+)kB)?"
)


class Kernel:
    """Looks again and again, each time at what is new."""

    def __init__(self, log: str | None = None, counters: tuple[str, ...] = COUNTERS, now: Callable[[], float] = time.time) -> None:
        self._path = log or (LOG if in_first_namespace() else None)
        self._counters = counters
        self._now = now
        self._log: int | None = None
        self._count: int | None = None

    def read(self) -> list[Kill] | None:
        """`None` where neither may be read. In a container the log tells of the whole machine, in pids that mean nothing there."""
        if self._log is None and self._path is not None:
            try:
                self._log = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError:
                self._path = None
        return self._read_counters() if self._log is None else self._read_log(self._log)

    def _read_log(self, log: int) -> list[Kill]:
        """A record a read; what was overwritten before it was read is passed over."""
        booted = self._now() - time.clock_gettime(time.CLOCK_MONOTONIC)
        found = []
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
        return found

    def _read_counters(self) -> list[Kill] | None:
        """A counter says that there was one, not who: the moment is when it was seen to have grown."""
        for path in self._counters:
            try:
                words = dict(line.split()[:2] for line in read(path).decode().splitlines() if " " in line)
                count = int(words["oom_kill"])
            except (OSError, ValueError, KeyError):
                continue
            before, self._count = self._count, count
            if before is None or count <= before:
                return []
            return [{"by": "kernel", "moment": self._now(), "text": f"oom_kill in {path} has grown from {before} to {count}"}]
        return None


def parse(record: str, booted: float) -> Kill | None:
    """One record of /dev/kmsg, `priority,number,microseconds since boot,flags;text`; `None` when it tells of no kill."""
    head, _, text = record.partition(";")
    words, found = head.split(","), _KILLED.search(text)
    if found is None or len(words) < 3 or not words[2].isdigit():
        return None
    held = sum(int(found[kind] or 0) for kind in ("anon", "file", "shmem")) * 1024
    line = text.partition("\n")[0]
    return {
        "by": "kernel", "moment": booted + int(words[2]) / 1e6, "pid": int(found["pid"]), "name": found["name"], "held": held, "text": line,
    }  # fmt: skip


def in_first_namespace() -> bool:
    """Whether every process of this machine is seen from here: not in a container."""
    try:
        return os.readlink("/proc/self/ns/pid") == FIRST_PID_NAMESPACE
    except OSError:
        return False


def uptime() -> float:
    """Seconds since this host was started, by a clock that nobody sets."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
