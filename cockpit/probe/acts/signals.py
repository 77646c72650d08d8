"""Signals that can't hit the wrong process: each goes to a process that is held, never to a number."""

from __future__ import annotations

import errno
import os
import resource
import select
import signal
import time
from typing import Callable, Dict, NamedTuple, Sequence, Tuple

from ..look.processes import Identity, read_stat

KILL_TIMEOUT_S = 3.0
"""Seconds after SIGKILL within which a process that can die is dead; freeing 80 GB of GPU memory takes one of them."""
MAX_POLL_INTERVAL_S = 0.02
SPARE_FILES = 64
"""Files that may still be opened when many processes are held: /proc must be readable, or they would seem to have ended."""
_PIDFD_OPEN, _PIDFD_SEND_SIGNAL = 434, 424
"""The numbers of the system calls, for Python 3.8; the same on every architecture."""


_PR_SET_PDEATHSIG = 1


class Ending(NamedTuple):
    """What became of one process."""

    gone: bool
    text: str


class ProtectedError(Exception):
    """That process is this program, or one that it hangs from."""


class ProcessHandle:
    """One process, held: by a pidfd where the kernel has that (5.3), so that its pid can never be another process's."""

    def __init__(self, pid: int, ticks: int, pidfd: int | None) -> None:
        self.pid, self.ticks = pid, ticks
        self._pidfd = pidfd

    @property
    def identity(self) -> Identity:
        """Pid and start."""
        return self.pid, self.ticks

    def send(self, number: int) -> None:
        """Raises `ProcessLookupError` when it has ended, `PermissionError` when it is somebody else's."""
        if self.state() is None:
            raise ProcessLookupError(self.pid)
        if self._pidfd is None or not _pidfd_send(self._pidfd, number):
            os.kill(self.pid, number)

    def state(self) -> str | None:
        """As in ps, `D` when any thread hangs; `None` once it has ended, also when nobody has collected it."""
        if self._pidfd is not None and self._has_ended():
            return None
        found = read_stat(self.pid)
        return found.state if found is not None and found.ticks == self.ticks and found.state not in "ZXx" else None

    def _has_ended(self) -> bool:
        poll = select.poll()
        poll.register(self._pidfd or 0, select.POLLIN)
        return bool(poll.poll(0))

    def release(self) -> None:
        """Let go of it."""
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None


def open_handle(pid: int, ticks: int) -> ProcessHandle | None:
    """Exactly that process; `None` when it has ended. Raises `ProtectedError`."""
    if pid in find_own_ancestry():
        raise ProtectedError(f"cockpit itself runs in process {pid}")
    pidfd = _pidfd_open(pid)
    held = ProcessHandle(pid, ticks, pidfd)
    if held.state() is None:  # looked at after it was opened: what is held now is what was meant
        held.release()
        return None
    return held


def end(
    handles: Sequence[ProcessHandle],
    grace: float,
    first: int = signal.SIGTERM,
    last: int | None = signal.SIGKILL,
    tell: Callable[..., None] = lambda *_: None,
) -> Dict[Identity, Ending]:
    """`first` to all in this order, up to `grace` seconds, `last` to those that are left. `last=None`: they are left alone."""
    began = time.monotonic()
    found = _send(handles, first)
    _wait(handles, found, first, began, grace, tell)
    left = [held for held in handles if held.identity not in found]
    if last is not None and left and first != last:
        found.update(_send(left, last))
        _wait(handles, found, last, began, time.monotonic() - began + KILL_TIMEOUT_S, tell)
    for held in handles:
        found.setdefault(held.identity, Ending(False, _stays(held, last or first, time.monotonic() - began)))
    return found


def _send(handles: Sequence[ProcessHandle], number: int) -> Dict[Identity, Ending]:
    tried = ((held.identity, _try(held, number)) for held in handles)
    return {identity: ending for identity, ending in tried if ending is not None}


def _try(held: ProcessHandle, number: int) -> Ending | None:
    try:
        held.send(number)
        if number == signal.SIGTERM and held.state() == "T":
            held.send(signal.SIGCONT)  # a stopped process hears no other signal
    except ProcessLookupError:
        return Ending(True, "had already ended")
    except PermissionError:
        return Ending(False, "it belongs to another user: no permission to signal it")
    return None


def _wait(
    handles: Sequence[ProcessHandle], found: Dict[Identity, Ending], number: int, began: float, until: float, tell: Callable[..., None]
) -> None:
    name = signal.Signals(number).name
    said, nap = -1, 0.001
    while True:
        took = time.monotonic() - began
        for held in handles:
            if held.identity not in found and held.state() is None:
                found[held.identity] = Ending(True, f"ended by {name} after {took:.1f} s")
        ended = sum(ending.gone for ending in found.values())
        if ended != said:
            tell(f"{ended} of {len(handles)} processes have ended", ended, len(handles))
            said = ended
        if took >= until or all(held.identity in found for held in handles):
            return
        time.sleep(nap)
        nap = min(2 * nap, MAX_POLL_INTERVAL_S)


def _stays(held: ProcessHandle, number: int, took: float) -> str:
    if held.state() == "D":
        return (
            f"it hangs in the kernel (state D), most often in the GPU driver, and has not ended {took:.0f} s after the first signal: "
            "only a reset of that GPU (nvidia-smi --gpu-reset) or a reboot of the host ends it"
        )
    return f"it has not ended {took:.0f} s after the first signal (last signal: {signal.Signals(number).name})"


def make_parent_death_hook() -> Callable[[int], None]:
    """What a forked child calls with the pid of its parent, to end with it; after it has become another user, which undoes that.

    All that takes a lock is done here, before the fork: threads of ours may hold it then. Without ctypes nothing is bound.
    """
    try:
        import ctypes  # few Pythons lack it
    except ImportError:
        return lambda _: None
    prctl = ctypes.CDLL(None).prctl

    def bind(parent: int) -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)

    return bind


def find_own_ancestry() -> Tuple[int, ...]:
    """We, whatever we hang from, and init."""
    line = [os.getpid()]
    while line[-1] > 1:
        found = read_stat(line[-1])
        if found is None or found.parent in line:
            break
        line.append(found.parent)
    return (*line, 1, 0)


def _pidfd_open(pid: int) -> int | None:
    """`None` where the kernel has no pidfds or forbids them, where too many files are open, or when the process has just ended."""
    pidfd = _try_pidfd_open(pid)
    if pidfd == -errno.EMFILE and _more_files():
        pidfd = _try_pidfd_open(pid)
    if pidfd >= resource.getrlimit(resource.RLIMIT_NOFILE)[0] - SPARE_FILES and not _more_files():
        os.close(pidfd)
        return None
    return pidfd if pidfd >= 0 else None


def _try_pidfd_open(pid: int) -> int:
    """Or the number of the error, below 0."""
    try:
        return os.pidfd_open(pid) if hasattr(os, "pidfd_open") else _syscall(_PIDFD_OPEN, pid, 0)
    except OSError as error:
        return -(error.errno or errno.EIO)


def _pidfd_send(pidfd: int, number: int) -> bool:
    """False where the kernel can't."""
    try:
        if hasattr(signal, "pidfd_send_signal"):
            signal.pidfd_send_signal(pidfd, number)
        else:
            _syscall(_PIDFD_SEND_SIGNAL, pidfd, number, None, 0)
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
        return False
    return True


def _syscall(*words: int | None) -> int:
    try:
        import ctypes  # few Pythons lack it
    except ImportError as error:
        raise OSError(errno.ENOSYS, "no ctypes") from error
    found: int = ctypes.CDLL(None, use_errno=True).syscall(*words)
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found


def _more_files() -> bool:
    """1,024 is often the soft limit, and a tree may have more processes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return False
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return True
