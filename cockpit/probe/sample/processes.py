"""Reads the processes of this host from /proc: their users, commands, start times and parents."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Callable, Dict, Iterable, Mapping, NamedTuple, Tuple

from .. import trust
from .cgroups import read_container_id
from .network import Interfaces, read_interfaces
from .origin import NO_JOB, SOCKET_INTERFACES, WANTED, ProcessOrigin, trace
from .proc import (
    PAGE_BYTES,
    TICKS_PER_SECOND,
    Batch,
    find_pids,
    is_in_our_namespace,
    make_legible,
    read,
    read_link,
    read_or_nothing,
    uptime,
)

STUCK_AFTER_S = 1.0
"""Seconds to wait for one process: reading its cmdline or environ hangs while its memory map is locked."""
MAX_ENVIRON_BYTES = 8 << 20
"""The kernel gives a new program at most 6 MiB, but a process may later declare any part of its memory to be its environment."""
MAX_COMMAND_BYTES, MAX_WORDS = 1 << 15, 1000
"""Read of one command: a raylet's has some KiB. Any user may start very many processes with 32,000 words each."""
OWN_COMMANDS_CHARS, COMMANDS_CHARS, LONGEST_COMMAND, SHORTEST_COMMAND = 2 << 20, 1 << 20, 4096, 120
"""Characters of commands in one sample: of all processes of root and our user, of all others; and of one command at most and at least."""
MIN_STUCK_AFTER_S = 0.3
"""Lowest value of STUCK_AFTER_S. It is halved after each process that hangs in one scan, because a user may have many of them."""
SETTLED_AFTER_S = 3.0
"""Seconds after which a process has finished its start: fork, redirection and exec."""
_BEGINNINGS = (b"RAY_", *(f"{name}=".encode() for name in SOCKET_INTERFACES))
_KERNEL_THREAD = 0x00200000
"""PF_KTHREAD of linux/sched.h. Pids do not identify kernel threads: in a container, pid 2 is an ordinary program."""

Identity = Tuple[int, int]
"""A pid and its start time in clock ticks since boot, because pids are reused."""


class Details(NamedTuple):
    """The facts that are read once for each process, and again if its name changes or if it was too young."""

    argv: Tuple[str, ...] = ()
    environ: Mapping[str, str] | None = None
    """The variables of `origin.WANTED` in its environment; `None` if that can't be read."""
    uid: int | None = None
    pids: Tuple[int, ...] = ()
    """Its pids, from this PID namespace inwards."""
    inside: str | None = None
    """Its PID namespace if that is inside ours; `None`: it is in ours, or unknown."""
    origin: ProcessOrigin = ProcessOrigin()
    stuck: bool = False
    apart: bool = False
    """It is in another PID or cgroup namespace than we are: its memory limits are not the limits that we see."""
    mount_namespace: str | None = None
    """Its mount namespace if it is not ours: it sees other files than we do. `None`: it is in ours, or unknown."""
    interfaces: Interfaces | None = None
    """Its network interfaces, if its environment names some; `None`: it names none, or unknown."""
    settled: bool = True
    """False: read it again. It was very young, or in exec, when it has neither a command line nor an environment."""
    cgroup: Tuple[str, str] | None = None
    """In a PID namespace inside ours: the container engine and the container id in the name of its cgroup."""


class ScannedProcess(NamedTuple):
    """One process as /proc/PID/stat shows it. Reading that never waits for the process. A scan adds its details."""

    pid: int
    name: str
    state: str
    parent: int
    group: int
    leader: int
    """The id of its session (setsid)."""
    ticks: int
    rss: int
    terminal: int = 0
    """The device number of its controlling terminal; 0: none."""
    kernel: bool = False
    """It is a kernel thread."""
    threads: int = 1
    details: Details = Details()

    @property
    def identity(self) -> Identity:
        """Pid and start time: no other process on this host will ever have both."""
        return self.pid, self.ticks

    @property
    def origin(self) -> ProcessOrigin:
        """Where it comes from, by its own command, environment and log."""
        return self.details.origin

    @property
    def ns_pid(self) -> int | None:
        """Its pid in its own PID namespace; `None` if it is the same as ours."""
        return self.details.pids[-1] if self.details.pids and self.details.pids[-1] != self.pid else None

    @property
    def alive(self) -> bool:
        """Not a zombie."""
        return self.state not in "ZXx"

    @property
    def command(self) -> str:
        """Its command line, or the title that it has set; may contain secrets."""
        return " ".join(self.details.argv)


ProcessTable = Dict[int, ScannedProcess]


def shown_command(process: ScannedProcess, number: int) -> str:
    """The beginning of its command, so short that a sample with `number` processes stays within the limit for one line.

    Commands of root and of our user may be longer, because findings recognize parts of Ray by their commands.
    """
    room = OWN_COMMANDS_CHARS if process.details.uid in trust.own_uids() else COMMANDS_CHARS
    return process.command[: max(SHORTEST_COMMAND, min(LONGEST_COMMAND, room // max(1, number)))]


def parse_stat(text: bytes) -> ScannedProcess:
    """The name is in parentheses, and may itself contain parentheses and blanks."""
    head, _, tail = text.rpartition(b")")
    pid, _, name = head.partition(b" (")
    rest = tail.split(None, 22)
    state, parent, group, leader, terminal, ticks, pages = rest[0].decode(), *rest[1:5], rest[19], rest[21]
    numbers = int(parent), int(group), int(leader), int(ticks), int(pages) * PAGE_BYTES, int(terminal)
    return ScannedProcess(int(pid), name.decode("utf-8", "replace"), state, *numbers, bool(int(rest[6]) & _KERNEL_THREAD), int(rest[17]))


def read_stat(pid: int) -> ScannedProcess | None:
    """`None` if there is no such process any more."""
    try:
        found = parse_stat(read(f"/proc/{pid}/stat", 4096))
    except (OSError, ValueError, IndexError):
        return None
    if found.state == "Z" and found.threads > 1:
        # The main thread has ended and looks like a zombie, but others live on. A process that hangs in a driver does that.
        try:
            texts = [read(f"/proc/{pid}/task/{name}/stat", 4096) for name in os.listdir(f"/proc/{pid}/task")]
        except OSError:
            return found  # a thread has just ended
        living = {state for state in (parse_stat(text).state for text in texts) if state not in "ZXx"}
        return found._replace(state="D" if "D" in living else min(living, default=found.state))
    return found


def lives(pid: int, ticks: int) -> bool:
    """Whether exactly this process exists and is not a zombie."""
    found = read_stat(pid)
    return found is not None and found.ticks == ticks and found.state not in "ZXx"


def read_environ(pid: int) -> Dict[str, str] | None:
    """The whole environment that it was started with; `None` if it can't be read. `os.fsencode` gives the original bytes."""
    text = read_environ_bytes(pid)
    return None if text is None else _pairs(text.split(b"\0"))


def read_environ_bytes(pid: int) -> bytes | None:
    """The environment as the kernel shows it; `None` if it can't be read."""
    try:
        return read(f"/proc/{pid}/environ", MAX_ENVIRON_BYTES)
    except OSError:
        return None


def _pairs(entries: Iterable[bytes]) -> Dict[str, str]:
    pairs = (os.fsdecode(entry).partition("=") for entry in entries if b"=" in entry)
    return {name: value for name, _, value in pairs}


def read_details(stat: ScannedProcess) -> Details:
    """May hang if the memory map of the process is locked."""
    pid = stat.pid
    argv = read_argv(pid)
    text = read_environ_bytes(pid) if stat.alive else b""
    environ: Dict[str, str] | None = None if text is None else {}
    if text and b"RAY_" in text:  # few environments have it, so the others are not split
        found = _pairs(entry for entry in text.split(b"\0") if entry.startswith(_BEGINNINGS))
        environ = {name: make_legible(found[name]) for name in WANTED.intersection(found)}
    uid, pids = read_status(pid)
    settled = not stat.alive or (bool(argv) and text != b"" and uptime() - stat.ticks / TICKS_PER_SECOND > SETTLED_AFTER_S)

    # Its log: the first lines may name the job of a worker that was started without one.
    logs = [link for link in (read_link(f"/proc/{pid}/fd/{number}") for number in (1, 2)) if link]
    head = b""
    if any(f"-{NO_JOB}-" in log for log in logs):
        with suppress(OSError):  # opened through the process, whose mounts may differ from ours
            head = trust.read_begin(f"/proc/{pid}/fd/1", 512, link=0)
    origin = trace(argv, stat.name, environ, logs, head)
    if origin.role:
        # A program such as sudo belongs to root, but any user chooses its name, words and files.
        with suppress(OSError):
            if os.stat(f"/proc/{pid}/exe").st_mode & trust.SETS_ID:
                origin = ProcessOrigin(readable=False)

    is_inside, mounts = len(pids) > 1, read_link(f"/proc/{pid}/ns/mnt")
    return Details(
        argv,
        environ,
        uid,
        pids or (pid,),
        read_link(f"/proc/{pid}/ns/pid") if is_inside else None,
        origin,
        apart=is_inside or is_in_our_namespace(pid, "cgroup") is False,
        mount_namespace=None if mounts == read_link("/proc/self/ns/mnt") else mounts,
        interfaces=read_interfaces(pid) if any(name in (environ or {}) for name in SOCKET_INTERFACES) else None,
        settled=settled,
        cgroup=read_container_id(pid) if is_inside else None,
    )


def read_argv(pid: int) -> Tuple[str, ...]:
    """The words of its command; empty also if there is no such process."""
    try:
        text = read(f"/proc/{pid}/cmdline", MAX_COMMAND_BYTES)
    except OSError:
        return ()
    text = text.rstrip(b"\0")
    return tuple(word.decode("utf-8", "replace") for word in text.split(b"\0", MAX_WORDS)[:MAX_WORDS]) if text else ()


def read_status(pid: int) -> Tuple[int | None, Tuple[int, ...]]:
    """Its user id, and its pids from this PID namespace inwards; `None` and `()` if it has ended."""
    lines = read_or_nothing(f"/proc/{pid}/status").split("\n", 20)  # the whole file: thousands of groups may come before the pids
    fields = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    return int(fields["Uid"][0]) if "Uid" in fields else None, tuple(map(int, fields.get("NSpid", ())))


class ProcessScanner:
    """Scans all processes of this host, and keeps the details that it has read."""

    def __init__(self, look: Callable[[ScannedProcess], Details] = read_details, patience: float = STUCK_AFTER_S) -> None:
        self._look = look
        self._patience = patience
        self._known: Dict[Identity, Tuple[str, Details]] = {}
        self._hanging: list[Tuple[int, Batch[ScannedProcess, Tuple[Identity, Tuple[str, Details]]]]] = []
        """Batches that were given up, and the place of the process that hung. Answers before that place have been replaced since."""

    def scan(self) -> ProcessTable:
        """All processes but kernel threads, which hold no memory and start nothing of Ray."""
        stats = [stat for stat in map(read_stat, find_pids()) if stat and not stat.kernel]

        # New is also a process with a new name. Exec and setproctitle change it: a Ray worker is `ray::IDLE`, later `ray::` and its actor.
        known = ((stat, self._known.get(stat.identity)) for stat in stats)
        self._read_all([stat for stat, one in known if one is None or one[0] != stat.name or not one[1].settled])

        # Without its user, a process that ended meanwhile would look like a live process of an unknown user.
        stats = [stat for stat in stats if self._known[stat.identity][1].uid is not None or lives(*stat.identity)]
        self._known = {stat.identity: self._known[stat.identity] for stat in stats}
        return {stat.pid: stat._replace(details=self._known[stat.identity][1]) for stat in stats}

    def _read_all(self, stats: list[ScannedProcess]) -> None:
        """Reads these processes in a thread, marks each that hangs as stuck, and goes on with the next one."""

        def read_one(stat: ScannedProcess) -> Tuple[Identity, Tuple[str, Details]]:
            """A user may prevent the parsing of his process; then only its user and pids are known."""
            try:
                return stat.identity, (stat.name, self._look(stat))
            except (ValueError, ArithmeticError, RecursionError):
                return stat.identity, (stat.name, _unread(stat))

        ended = [one for one in self._hanging if one[1].finished.is_set()]
        self._hanging = [one for one in self._hanging if one not in ended]
        for place, hung in ended:
            self._known.update(hung.answers[place:])
        patience = self._patience
        while stats:
            batch = Batch(stats, read_one)
            at = batch.wait(patience)
            patience = max(patience / 2, MIN_STUCK_AFTER_S)
            self._known.update(batch.answers)
            if at is None:
                return
            stuck = stats[at]
            self._known[stuck.identity] = stuck.name, _unread(stuck)._replace(stuck=True)
            self._hanging.append((at, batch))
            stats = stats[at + 1 :]


def _unread(stat: ScannedProcess) -> Details:
    """The details that can be read without its memory, so without the danger to hang."""
    uid, pids = read_status(stat.pid)
    return Details(uid=uid, origin=trace((), stat.name, None), pids=pids or (stat.pid,))
