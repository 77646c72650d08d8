"""Reads files of /proc, and basic facts of the host: its start, its namespaces, the names of its users, the open files of a process."""

from __future__ import annotations

import os
import pwd
import queue
import threading
import time
from typing import Callable, ClassVar, Dict, Generic, Iterator, List, Sequence, Set, TypeVar

from ..socket_paths import PidRange

T = TypeVar("T")
V = TypeVar("V")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
FIRST_PID_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO of linux/proc_ns.h."""


def read(path: str, most: int | None = None) -> bytes:
    """Reads a file of /proc: the whole file, or its first `most` bytes."""
    found = bytearray()
    with open(path, "rb", buffering=0) as file:
        if most is None:
            return file.read()
        while len(found) < most and (more := file.read(most - len(found))):
            found += more
    return bytes(found)


def read_or_nothing(path: str) -> str:
    """Reads a whole file of /proc as text; empty if it can't be read."""
    try:
        return read(path).decode("utf-8", "replace")
    except OSError:
        return ""


def read_link(path: str) -> str | None:
    """The target of a link; `None` if it is gone, is not a link, or may not be read."""
    try:
        return os.readlink(path)
    except OSError:
        return None


def open_files(pid: int) -> Iterator[str]:
    """The target of each of its descriptors. The call itself raises `OSError` if the process has ended or may not be read."""
    folder = f"/proc/{pid}/fd"
    return filter(None, (read_link(f"{folder}/{name}") for name in os.listdir(folder)))


def make_legible(text: str) -> str:
    """Replaces bytes that are not UTF-8 by U+FFFD, so that the text can be sent and drawn."""
    return os.fsencode(text).decode("utf-8", "replace")


def in_first_namespace() -> bool:
    """Whether we see all processes of this machine, because we are not in a container."""
    return read_link("/proc/self/ns/pid") == FIRST_PID_NAMESPACE


def is_in_our_namespace(pid: int, kind: str) -> bool | None:
    """Whether this process is in our namespace of this kind (`mnt`, `net`, …); `None` if unknown."""
    theirs, ours = read_link(f"/proc/{pid}/ns/{kind}"), read_link(f"/proc/self/ns/{kind}")
    return None if theirs is None or ours is None else theirs == ours


def namespace_id(pid: int | str, kind: str) -> str | None:
    """An identity of the process's namespace of this kind that no other has, on this or another host; `None`: unknown."""
    boot, namespace = read_or_nothing("/proc/sys/kernel/random/boot_id").strip(), read_link(f"/proc/{pid}/ns/{kind}")
    return f"{boot} {namespace}" if boot and namespace else None


def has_capability(pid: int, wanted: int) -> bool:
    """Whether it has one of these capabilities (a bit mask); true also if that can't be read."""
    lines = read_or_nothing(f"/proc/{pid}/status").split("\n")
    effective = next((line.split()[1] for line in lines if line.startswith("CapEff:")), None)
    return effective is None or bool(int(effective, 16) & wanted)


def find_pids() -> List[int]:
    """The pids of all processes that we see."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def read_pid_range() -> PidRange:
    """The pids of the PID namespace that the probe runs in."""
    newest = read_or_nothing("/proc/loadavg").split()[-1:]
    most = read_or_nothing("/proc/sys/kernel/pid_max").strip()
    return PidRange(len(newest[0]) if newest and newest[0].isdigit() else None, int(most) if most.isdigit() else None)


def uptime() -> float:
    """Seconds since the start of this host, by a clock that nobody can set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_time() -> float:
    """The start of this host in POSIX time, as the kernel computes it from the clock of now."""
    return next((float(line.split()[1]) for line in read("/proc/stat").split(b"\n") if line.startswith(b"btime ")), 0.0)


def user_name(uid: int) -> str:
    """The name from the host's user database, or else the number. May hang if that database is on the network."""
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OSError):
        return str(uid)


class Users:
    """Names of users. A thread of its own looks them up, because that may hang; a user is a number until it has answered."""

    def __init__(self, look: Callable[[int], str] = user_name, patience: float = 0.05) -> None:
        self._look = look
        self._patience = patience
        self._names: Dict[int, str] = {}
        self._asked: Set[int] = set()
        self._wanted: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._idle = threading.Event()
        self._idle.set()
        threading.Thread(target=self._run, name="users", daemon=True).start()

    def name(self, uid: int | None) -> str | None:
        """Waits a moment for a new name, but not while the look-up of another name hangs."""
        if uid is None:
            return None
        if uid not in self._asked:
            self._asked.add(uid)
            waits = self._idle.is_set()
            self._idle.clear()
            self._wanted.put(uid)
            if waits:
                self._idle.wait(self._patience)
        return self._names.get(uid, str(uid))

    def _run(self) -> None:
        while True:
            uid = self._wanted.get()
            self._names[uid] = self._look(uid)
            if self._wanted.empty():
                self._idle.set()


class _Worker(threading.Thread):
    """A thread that waits for the next work after each work. Starting a thread costs more than waking one."""

    idle: ClassVar[List[_Worker]] = []

    def __init__(self) -> None:
        super().__init__(name="batch", daemon=True)
        self.works: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.start()

    def run(self) -> None:
        while True:
            self.works.get()()
            self.idle.append(self)


def run_in_thread(work: Callable[[], None]) -> None:
    """Run it in a thread that is idle, or in a new one."""
    try:
        worker = _Worker.idle.pop()
    except IndexError:
        worker = _Worker()
    worker.works.put(work)


class Batch(Generic[T, V]):
    """Asks one question about many things, in a thread of its own, because any of them may hang.

    After `wait` has given up, the thread ends as soon as the hanging one answers; it does not ask about the rest.
    """

    def __init__(self, asked: Sequence[T], ask: Callable[[T], V]) -> None:
        self.answers: List[V] = []
        self.finished = threading.Event()
        self._asked, self._ask, self._is_given_up = asked, ask, False
        run_in_thread(self._run)

    def _run(self) -> None:
        for one in self._asked:
            self.answers.append(self._ask(one))
            if self._is_given_up:
                break
        self.finished.set()

    def wait(self, patience: float, on_progress: Callable[[int], None] = lambda _: None) -> int | None:
        """The place of the one that has not answered for `patience` seconds; `None` if all have answered.

        `on_progress` gets the number of answers so far.
        """
        at, since = len(self.answers), time.monotonic()
        while not self.finished.wait(0.05):
            on_progress(len(self.answers))
            if len(self.answers) != at:
                at, since = len(self.answers), time.monotonic()
            elif time.monotonic() - since > patience:
                self._is_given_up = True
                return at
        return None
