"""Reads /proc: who runs on this host, as what, since when, and whose child."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Callable, Dict, Iterable, Mapping, NamedTuple, Tuple

from .. import trust
from .cgroups import read_container_id
from .network import Interfaces, read_interfaces
from .origin import NO_JOB, SOCKET_INTERFACES, WANTED, ProcessOrigin, trace
from .proc import PAGE_BYTES, TICKS_PER_SECOND, Batch, is_in_our_namespace, make_legible, read_at_once, read_link, read_or_nothing, uptime

STUCK_AFTER_S = 1.0
"""Seconds after which a process whose memory map is locked (its cmdline and environ then hang) is left alone."""
MOST_ENVIRON_BYTES = 8 << 20
"""The kernel gives a new program 6 MiB at most; but a process may say later that its environment is any memory of its, of any size."""
MOST_COMMAND_BYTES, MOST_WORDS = 1 << 15, 1000
"""Of a command: a raylet's is some KiB long. Every user may start very many processes with 32,000 words each."""
OWN_COMMANDS_CHARS, COMMANDS_CHARS, LONGEST_COMMAND, SHORTEST_COMMAND = 2 << 20, 1 << 20, 4096, 120
"""Told of all processes together, for those of root and ours, and for others; and of one."""
MIN_STUCK_AFTER_S = 0.3
"""Least value of the one above, which is halved after each process that hangs in one scan: a user may have many that do."""
SETTLED_AFTER_S = 3.0
"""Seconds of a process's life after which it has become what it was started for: forked, redirected, executed."""
_CHUNK_BYTES = 1 << 16
_BEGINNINGS = (b"RAY_", *(f"{name}=".encode() for name in SOCKET_INTERFACES))
_KERNEL_THREAD = 0x00200000
"""PF_KTHREAD of linux/sched.h. Their pids tell nothing: in a container pid 2 is somebody's program."""

Identity = Tuple[int, int]
"""A pid and its start in clock ticks since boot: a pid alone may be reused."""


class Details(NamedTuple):
    """What is read once for each process, and again when its name changes or it was too young."""

    argv: Tuple[str, ...] = ()
    environ: Mapping[str, str] | None = None
    """Of its environment only `origin.WANTED`; `None` when it can't be read."""
    uid: int | None = None
    pids: Tuple[int, ...] = ()
    """Its pids, from this PID namespace inwards."""
    inside: str | None = None
    """Which PID namespace within ours it is in; `None`: in ours, or that can't be told."""
    origin: ProcessOrigin = ProcessOrigin()
    stuck: bool = False
    apart: bool = False
    """It is in another PID or cgroup namespace than we are: memory limits there are not those that we see."""
    mount_namespace: str | None = None
    """Its mount namespace, where that is another than ours: the files that it sees are not ours; `None`: ours, or that can't be told."""
    interfaces: Interfaces | None = None
    """The network interfaces that it has, where its environment names some of them; `None`: it doesn't, or that can't be told."""
    settled: bool = True
    """False: look again. It was very young, or caught in exec, when neither command line nor environment are there."""
    cgroup: Tuple[str, str] | None = None
    """Of one in a PID namespace within ours: an engine's word for containers, and the id of one, as its cgroup is called."""


class ScannedProcess(NamedTuple):
    """One process as /proc/PID/stat shows it, which never waits for the process; and in a scan, its details."""

    pid: int
    name: str
    state: str
    parent: int
    group: int
    leader: int
    """The id of its session, in the sense of setsid."""
    ticks: int
    rss: int
    terminal: int = 0
    """The device number of its controlling terminal; 0: it has none."""
    kernel: bool = False
    """A thread of the kernel's own."""
    threads: int = 1
    details: Details = Details()

    @property
    def identity(self) -> Identity:
        """What no other process on this host will ever have."""
        return self.pid, self.ticks

    @property
    def origin(self) -> ProcessOrigin:
        """The signs it carries."""
        return self.details.origin

    @property
    def ns_pid(self) -> int | None:
        """Its pid as it knows it itself, in a PID namespace within ours; `None` when that is the same."""
        return self.details.pids[-1] if self.details.pids and self.details.pids[-1] != self.pid else None

    @property
    def alive(self) -> bool:
        """Not a zombie."""
        return self.state not in "ZXx"

    @property
    def command(self) -> str:
        """As it was started or has named itself; secrets included."""
        return " ".join(self.details.argv)


ProcessTable = Dict[int, ScannedProcess]


def shown_command(process: ScannedProcess, number: int) -> str:
    """So much of its command as there is room for where `number` processes are told of: a line of too many bytes is not read at all.

    Of root's and of ours there is more: findings know parts of Ray by their commands.
    """
    room = OWN_COMMANDS_CHARS if process.details.uid in trust.own_uids() else COMMANDS_CHARS
    return process.command[: max(SHORTEST_COMMAND, min(LONGEST_COMMAND, room // max(1, number)))]


def parse_stat(text: bytes) -> ScannedProcess:
    """The name stands in parentheses and may hold any character, parentheses and blanks too."""
    head, _, tail = text.rpartition(b")")
    pid, _, name = head.partition(b" (")
    rest = tail.split(None, 22)
    state, parent, group, leader, terminal, ticks, pages = rest[0].decode(), *rest[1:5], rest[19], rest[21]
    numbers = int(parent), int(group), int(leader), int(ticks), int(pages) * PAGE_BYTES, int(terminal)
    return ScannedProcess(int(pid), name.decode("utf-8", "replace"), state, *numbers, bool(int(rest[6]) & _KERNEL_THREAD), int(rest[17]))


def read_stat(pid: int) -> ScannedProcess | None:
    """`None` when there is no such process any more."""
    try:
        found = parse_stat(read_at_once(f"/proc/{pid}/stat", 4096))
    except (OSError, ValueError, IndexError):
        return None
    return found._replace(state=_worst_state(pid) or found.state) if found.state == "Z" and found.threads > 1 else found


def lives(pid: int, ticks: int) -> bool:
    """Whether exactly that process is there, and is no zombie."""
    found = read_stat(pid)
    return found is not None and found.ticks == ticks and found.state not in "ZXx"


def _worst_state(pid: int) -> str | None:
    """Of the threads that live on after the main one has ended, which alone looks like a zombie: one that hangs in a driver does that."""
    try:
        texts = [read_at_once(f"/proc/{pid}/task/{name}/stat", 4096) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return None  # one of them has just ended
    living = {state for state in (parse_stat(text).state for text in texts) if state not in "ZXx"}
    return "D" if "D" in living else min(living, default=None)


def read_environ(pid: int) -> Dict[str, str] | None:
    """The whole environment it was started with, which `os.fsencode` turns back into its bytes; `None` when it may not be read."""
    text = _environ(pid)
    return None if text is None else _pairs(text.split(b"\0"))


def _environ(pid: int) -> bytes | None:
    found = bytearray()
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
            while len(found) < MOST_ENVIRON_BYTES and (more := file.read(_CHUNK_BYTES)):
                found += more
    except OSError:
        return None
    return bytes(found)


def _pairs(entries: Iterable[bytes]) -> Dict[str, str]:
    pairs = (os.fsdecode(entry).partition("=") for entry in entries if b"=" in entry)
    return {name: value for name, _, value in pairs}


def read_details(stat: ScannedProcess) -> Details:
    """May hang, when the process is stuck with its memory map locked."""
    argv = read_argv(stat.pid)
    text = _environ(stat.pid) if stat.alive else b""
    kept = None if text is None else _pick_wanted(text)
    logs = [link for link in (read_link(f"/proc/{stat.pid}/fd/{number}") for number in (1, 2)) if link]
    uid, pids = read_status(stat.pid)
    settled = not stat.alive or (bool(argv) and text != b"" and uptime() - stat.ticks / TICKS_PER_SECOND > SETTLED_AFTER_S)
    head = b""
    if any(f"-{NO_JOB}-" in log for log in logs):
        with suppress(OSError):  # through the process, whose mounts may be others than ours
            head = trust.read_begin(f"/proc/{stat.pid}/fd/1", 512, link=0)
    apart = len(pids) > 1 or is_in_our_namespace(stat.pid, "cgroup") is False
    inside = read_link(f"/proc/{stat.pid}/ns/pid") if len(pids) > 1 else None
    cgroup = read_container_id(stat.pid) if len(pids) > 1 else None
    origin = trace(argv, stat.name, kept, logs, head)
    if origin.role and _sets_user(stat.pid):
        origin = ProcessOrigin(readable=False)
    interfaces = read_interfaces(stat.pid) if any(name in (kept or {}) for name in SOCKET_INTERFACES) else None
    namespace = read_mount_namespace(stat.pid)
    return Details(argv, kept, uid, pids or (stat.pid,), inside, origin, False, apart, namespace, interfaces, settled, cgroup)


def read_mount_namespace(pid: int) -> str | None:
    """Its mount namespace; `None`: that is ours, or can't be told."""
    found = read_link(f"/proc/{pid}/ns/mnt")
    return None if found == read_link("/proc/self/ns/mnt") else found


def _sets_user(pid: int) -> bool:
    """Whether it runs a program such as sudo: that is root's for whoever starts it, who chooses its name, words and files as well."""
    try:
        return bool(os.stat(f"/proc/{pid}/exe").st_mode & trust.SETS_ID)
    except OSError:
        return False


def _pick_wanted(environ: bytes) -> Dict[str, str]:
    """Few processes have any of these; the others' environments are not even taken apart."""
    if b"RAY_" not in environ:
        return {}
    found = _pairs(entry for entry in environ.split(b"\0") if entry.startswith(_BEGINNINGS))
    return {name: make_legible(found[name]) for name in WANTED.intersection(found)}


def read_argv(pid: int) -> Tuple[str, ...]:
    """The words of its command; empty also where there is no such process."""
    try:
        text = read_at_once(f"/proc/{pid}/cmdline", MOST_COMMAND_BYTES)
    except OSError:
        return ()
    text = text.rstrip(b"\0")
    return tuple(word.decode("utf-8", "replace") for word in text.split(b"\0", MOST_WORDS)[:MOST_WORDS]) if text else ()


def read_status(pid: int) -> Tuple[int | None, Tuple[int, ...]]:
    """Its user, and its pids; `None` and none where it has ended."""
    lines = read_or_nothing(f"/proc/{pid}/status").split("\n", 20)  # whole: there may be thousands of groups before its pids
    said = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    return int(said["Uid"][0]) if "Uid" in said else None, tuple(map(int, said.get("NSpid", ())))


class ProcessScanner:
    """Every process of this host, with what is known of it from earlier scans."""

    def __init__(self, look: Callable[[ScannedProcess], Details] = read_details, patience: float = STUCK_AFTER_S) -> None:
        self._look = look
        self._patience = patience
        self._known: Dict[Identity, Tuple[str, Details]] = {}
        self._hanging: list[Tuple[int, Batch[ScannedProcess, Tuple[Identity, Tuple[str, Details]]]]] = []
        """Batches that were given up, and at which place: what was read before it has been read anew since."""

    def scan(self) -> ProcessTable:
        """Every process there is. Kernel threads are left out: they hold no memory and start nothing of Ray."""
        stats = [stat for stat in map(read_stat, _pids()) if stat and not stat.kernel]
        self._learn([stat for stat in stats if self._is_new(stat)])
        stats = [stat for stat in stats if not self._has_ended_since(stat)]
        known = self._known = {stat.identity: self._known[stat.identity] for stat in stats}
        return {stat.pid: stat._replace(details=known[stat.identity][1]) for stat in stats}

    def _has_ended_since(self, stat: ScannedProcess) -> bool:
        """It ended before its user was read, and would look like one that lives and may be anybody's."""
        return self._known[stat.identity][1].uid is None and not lives(*stat.identity)

    def _is_new(self, stat: ScannedProcess) -> bool:
        """Also after exec and setproctitle, which change the name: a Ray worker is `ray::IDLE` first, then `ray::` its actor."""
        known = self._known.get(stat.identity)
        return known is None or known[0] != stat.name or not known[1].settled

    def _read(self, stat: ScannedProcess) -> Details:
        """Its details. Of a process whose files can't be parsed, as its user may want, only its user and pids are known."""
        try:
            return self._look(stat)
        except (ValueError, ArithmeticError, RecursionError):
            return _unread(stat)

    def _learn(self, stats: list[ScannedProcess]) -> None:
        ended = [one for one in self._hanging if one[1].finished.is_set()]
        self._hanging = [one for one in self._hanging if one not in ended]
        for place, hung in ended:
            self._known.update(hung.answers[place:])
        patience = self._patience
        while stats:
            batch = Batch(stats, lambda stat: (stat.identity, (stat.name, self._read(stat))))
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
    """What can be told without asking for anything of its memory."""
    uid, pids = read_status(stat.pid)
    return Details(uid=uid, origin=trace((), stat.name, None), pids=pids or (stat.pid,))


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]
