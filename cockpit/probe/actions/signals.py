"""Sends signals that can't hit the wrong process: each goes to a process that is held open, never to a number."""

from __future__ import annotations

import errno
import os
import resource
import select
import signal
import time
from typing import Callable, Dict, NamedTuple, Sequence, Tuple

from ..sample.processes import Identity, read_stat

KILL_TIMEOUT_S = 3.0
"""Seconds after SIGKILL in which a process dies if it can; freeing 80 GB of GPU memory takes one second."""
MAX_POLL_INTERVAL_S = 0.02
SPARE_FILES = 64
"""Files that can still be opened when many processes are held: if /proc can't be read, processes would seem to have ended."""
_PIDFD_OPEN, _PIDFD_SEND_SIGNAL = 434, 424
"""The numbers of the system calls, which are the same on every architecture; needed for Python 3.8."""
_PR_SET_PDEATHSIG = 1


class Ending(NamedTuple):
    """The outcome for one process."""

    gone: bool
    text: str


class ProtectedError(Exception):
    """The process is this program or one of its ancestors."""


class ProcessHandle:
    """One process, held by a pidfd if the kernel has pidfds (5.3): a signal then never reaches another process that reuses the pid."""

    def __init__(self, pid: int, ticks: int, pidfd: int | None) -> None:
        self.pid, self.ticks = pid, ticks
        self._pidfd = pidfd

    @property
    def identity(self) -> Identity:
        """Pid and start time."""
        return self.pid, self.ticks

    def send(self, number: int) -> None:
        """Raises `ProcessLookupError` if it has ended, `PermissionError` if it belongs to another user."""
        if self.state() is None:
            raise ProcessLookupError(self.pid)
        if self._pidfd is None:
            os.kill(self.pid, number)
            return
        try:
            if hasattr(signal, "pidfd_send_signal"):
                signal.pidfd_send_signal(self._pidfd, number)
            else:
                _syscall(_PIDFD_SEND_SIGNAL, self._pidfd, number, None, 0)
        except OSError as error:
            if error.errno != errno.ENOSYS:
                raise
            os.kill(self.pid, number)  # the kernel has no such system call

    def state(self) -> str | None:
        """Its state as in ps, `D` if any thread hangs; `None` once it has ended, even if it is still a zombie."""
        if self._pidfd is not None:
            poll = select.poll()
            poll.register(self._pidfd, select.POLLIN)
            if poll.poll(0):
                return None
        found = read_stat(self.pid)
        return found.state if found is not None and found.ticks == self.ticks and found.state not in "ZXx" else None

    def release(self) -> None:
        """Closes the pidfd."""
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None


def open_handle(pid: int, ticks: int) -> ProcessHandle | None:
    """Holds exactly this process; `None` if it has ended. Raises `ProtectedError`."""
    if pid in find_own_ancestry():
        raise ProtectedError(f"cockpit itself runs in process {pid}")
    pidfd = _pidfd_open(pid)
    held = ProcessHandle(pid, ticks, pidfd)
    if held.state() is None:  # read after it was opened, so the held process is the right one
        held.release()
        return None
    return held


def end(
    handles: Sequence[ProcessHandle],
    grace: float,
    first: int = signal.SIGTERM,
    last: int | None = signal.SIGKILL,
    on_progress: Callable[..., None] = lambda *_: None,
) -> Dict[Identity, Ending]:
    """Sends `first` to all in this order, waits up to `grace` seconds, and sends `last` to the rest (`None`: no second signal)."""
    began = time.monotonic()
    found = _send(handles, first)
    _wait(handles, found, first, began, grace, on_progress)
    left = [held for held in handles if held.identity not in found]
    if last is not None and left and first != last:
        found.update(_send(left, last))
        _wait(handles, found, last, began, time.monotonic() - began + KILL_TIMEOUT_S, on_progress)
    took = time.monotonic() - began
    for held in handles:
        if held.identity not in found:
            reason = f"it has not ended {took:.0f} s after the first signal (last signal: {signal.Signals(last or first).name})"
            if held.state() == "D":
                reason = (
                    f"it hangs in the kernel (state D), most often in the GPU driver, and has not ended {took:.0f} s after the first "
                    "signal: only a reset of that GPU (nvidia-smi --gpu-reset) or a reboot of the host ends it"
                )
            found[held.identity] = Ending(False, reason)
    return found


def _send(handles: Sequence[ProcessHandle], number: int) -> Dict[Identity, Ending]:
    """Returns only the processes that could not be signalled."""
    found = {}
    for held in handles:
        try:
            held.send(number)
            if number == signal.SIGTERM and held.state() == "T":
                held.send(signal.SIGCONT)  # a stopped process reacts to no other signal
        except ProcessLookupError:  # noqa: PERF203 each process has its own outcome
            found[held.identity] = Ending(True, "had already ended")
        except PermissionError:
            found[held.identity] = Ending(False, "it belongs to another user: no permission to signal it")
    return found


def _wait(
    handles: Sequence[ProcessHandle],
    found: Dict[Identity, Ending],
    number: int,
    began: float,
    until: float,
    on_progress: Callable[..., None],
) -> None:
    """Adds the processes that end until then to `found`. `until`: seconds since `began`."""
    name = signal.Signals(number).name
    reported, nap = -1, 0.001
    while True:
        took = time.monotonic() - began
        for held in handles:
            if held.identity not in found and held.state() is None:
                found[held.identity] = Ending(True, f"ended by {name} after {took:.1f} s")
        ended = sum(ending.gone for ending in found.values())
        if ended != reported:
            on_progress(f"{ended} of {len(handles)} processes have ended", ended, len(handles))
            reported = ended
        if took >= until or all(held.identity in found for held in handles):
            return
        time.sleep(nap)
        nap = min(2 * nap, MAX_POLL_INTERVAL_S)


def make_parent_death_hook() -> Callable[[int], None]:
    """A function for a forked child, which makes the kernel kill the child when its parent ends. The child passes its parent's pid.

    The child must call it after it has changed its user, because that change undoes it. Everything that takes a lock is done here, before
    the fork, because another thread may hold the lock then. Without ctypes, the function does nothing.
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
    """The pids of this program and all its ancestors, and of init."""
    line = [os.getpid()]
    while line[-1] > 1:
        found = read_stat(line[-1])
        if found is None or found.parent in line:
            break
        line.append(found.parent)
    return (*line, 1, 0)


def _pidfd_open(pid: int) -> int | None:
    """`None` if the kernel has no pidfds or forbids them, if too many files are open, or if the process has just ended."""
    pidfd = _try_pidfd_open(pid)
    if pidfd == -errno.EMFILE and _raise_file_limit():
        pidfd = _try_pidfd_open(pid)
    if pidfd >= resource.getrlimit(resource.RLIMIT_NOFILE)[0] - SPARE_FILES and not _raise_file_limit():
        os.close(pidfd)
        return None
    return pidfd if pidfd >= 0 else None


def _try_pidfd_open(pid: int) -> int:
    """The pidfd, or the negative number of the error."""
    try:
        return os.pidfd_open(pid) if hasattr(os, "pidfd_open") else _syscall(_PIDFD_OPEN, pid, 0)
    except OSError as error:
        return -(error.errno or errno.EIO)


def _syscall(*words: int | None) -> int:
    try:
        import ctypes  # few Pythons lack it
    except ImportError as error:
        raise OSError(errno.ENOSYS, "no ctypes") from error
    found: int = ctypes.CDLL(None, use_errno=True).syscall(*words)
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found


def _raise_file_limit() -> bool:
    """Raises the soft limit, which is often 1,024: a tree may have more processes. False if it is at its maximum."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return False
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return True
