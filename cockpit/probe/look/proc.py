"""Reads files of the kernel's, and what they say of the host itself: when it was started, what its users are called, what is open."""

from __future__ import annotations

import os
import pwd
import queue
import threading
import time
from typing import Callable, Dict, Generic, Iterator, List, Sequence, Set, TypeVar

from ..socket_paths import PidRange

T = TypeVar("T")
V = TypeVar("V")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
FIRST_PID_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO of linux/proc_ns.h."""


def read(path: str) -> bytes:
    """A whole file of /proc."""
    with open(path, "rb", buffering=0) as file:
        return file.read()


def read_or_nothing(path: str) -> str:
    """The same as text; empty where it can't be read."""
    try:
        return read(path).decode("utf-8", "replace")
    except OSError:
        return ""


def read_at_once(path: str, most: int) -> bytes:
    """A file of /proc that one system call returns whole, as those of a process are; cut after `most` bytes."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(handle, most)
    finally:
        os.close(handle)


def read_at_most(path: str, most: int) -> bytes:
    """A file of /proc that takes many system calls; cut after `most` bytes."""
    found = bytearray()
    with open(path, "rb", buffering=0) as file:
        while len(found) < most and (more := file.read(most - len(found))):
            found += more
    return bytes(found)


def read_link(path: str) -> str | None:
    """`None`: it is gone, no link, or not ours to read."""
    try:
        return os.readlink(path)
    except OSError:
        return None


def open_files(pid: int) -> Iterator[str]:
    """What each of its descriptors leads to. Raises `OSError`, at once, where it has ended or is not ours to look into."""
    folder = f"/proc/{pid}/fd"
    return filter(None, (read_link(f"{folder}/{name}") for name in os.listdir(folder)))


def make_legible(text: str) -> str:
    """The same, with U+FFFD for what is no UTF-8, so that it can be sent and drawn."""
    return os.fsencode(text).decode("utf-8", "replace")


def in_first_namespace() -> bool:
    """Whether every process of this machine is seen from here: not in a container."""
    return read_link("/proc/self/ns/pid") == FIRST_PID_NAMESPACE


def is_in_our_namespace(pid: int, kind: str) -> bool | None:
    """Whether that process is in our own namespace of this kind (`mnt`, `net`, …); `None`: that can't be told."""
    theirs, ours = read_link(f"/proc/{pid}/ns/{kind}"), read_link(f"/proc/self/ns/{kind}")
    return None if theirs is None or ours is None else theirs == ours


def has_capability(pid: int, wanted: int) -> bool:
    """Whether it has one of these capabilities; also where that can't be read."""
    lines = read_or_nothing(f"/proc/{pid}/status").split("\n")
    powers = next((line.split()[1] for line in lines if line.startswith("CapEff:")), None)
    return powers is None or bool(int(powers, 16) & wanted)


def read_pid_range() -> PidRange:
    """Of the PID namespace that the probe is in."""
    newest = read_or_nothing("/proc/loadavg").split()[-1:]
    most = read_or_nothing("/proc/sys/kernel/pid_max").strip()
    return PidRange(len(newest[0]) if newest and newest[0].isdigit() else None, int(most) if most.isdigit() else None)


def uptime() -> float:
    """Seconds since this host was started, by a clock that nobody sets."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_time() -> float:
    """When this host was started."""
    return next((float(line.split()[1]) for line in read("/proc/stat").split(b"\n") if line.startswith(b"btime ")), 0.0)


def user_name(uid: int) -> str:
    """By the host's own user database, else the number. May hang, when that database is on the network."""
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OSError):
        return str(uid)


class Users:
    """Names of users, looked up by a thread of its own that may hang; until it has answered a user is a number."""

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
        """Waits a moment for a name that is new, but for none while another one hangs."""
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


class Batch(Generic[T, V]):
    """The same question to each of these, in a thread of its own, which may hang at any of them: once it answers, the rest is not asked."""

    def __init__(self, asked: Sequence[T], ask: Callable[[T], V]) -> None:
        self.answers: List[V] = []
        self.finished = threading.Event()
        self._asked, self._ask, self._is_given_up = asked, ask, False
        threading.Thread(target=self._run, name="batch", daemon=True).start()

    def _run(self) -> None:
        for one in self._asked:
            self.answers.append(self._ask(one))
            if self._is_given_up:
                break
        self.finished.set()

    def wait(self, patience: float, tell: Callable[[int], None] = lambda _: None) -> int | None:
        """The place of the one that has not answered for so many seconds; `None` when all have. `tell` hears how many have so far."""
        at, since = len(self.answers), time.monotonic()
        while not self.finished.wait(0.05):
            tell(len(self.answers))
            if len(self.answers) != at:
                at, since = len(self.answers), time.monotonic()
            elif time.monotonic() - since > patience:
                self._is_given_up = True
                return at
        return None
