"""An event loop on which no time passes unused: where nothing else is to be done, its clock goes on to the next timer."""

from __future__ import annotations

import asyncio
import selectors
import threading
from time import monotonic


class Clock:
    """Seconds as a loop counts them: those of the machine, and those that nobody waited for."""

    def __init__(self):
        self.skipped = 0.0

    def __call__(self):
        return monotonic() + self.skipped


class Selector(selectors.DefaultSelector):
    """Waits for a file or a thread, never for a time."""

    def __init__(self, clock):
        super().__init__()
        self.clock, self.threads = clock, 0

    def select(self, timeout=None):
        if timeout is None or timeout <= 0 or self.threads or is_reading():
            return super().select(timeout)
        ready = super().select(0)
        if not ready:
            self.clock.skipped += timeout
        return ready


def is_reading():
    """Whether a thread reads a file for the screen: the loop did not start it, and doesn't count it."""
    return any(thread.name == "read" for thread in threading.enumerate())


class Loop(asyncio.SelectorEventLoop):
    """A picture that Textual draws 60 times a second, a pause of a pilot, a time-out: the same order, and no waiting."""

    def __init__(self):
        self.clock = Clock()
        super().__init__(Selector(self.clock))

    def time(self):
        return self.clock()

    def run_in_executor(self, executor, func, *args):
        """As long as a thread works, time is that of the machine."""
        self._selector.threads += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._finish)
        return future

    def _finish(self, _):
        self._selector.threads -= 1


def loop_time():
    """Textual's own clock must be that of its timers."""
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return monotonic()
