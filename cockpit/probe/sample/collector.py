"""Calls a function that may hang again and again in a thread of its own, and keeps its last result."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Dict, Generic, TypeVar

from .proc import uptime

T = TypeVar("T")
Fault = Dict[str, object]
ANSWER_TIMEOUT_S = 5.0
"""Seconds without an answer until a fault is reported."""
FIRST_ANSWER_TIMEOUT_S = 2.0
"""The same for the first answer. Until then the facts are `None`, and no fault is reported."""
REST_PER_CPU_S = 9.0
"""Seconds of rest for each second of CPU that an answer took: a collector takes at most a tenth of a core, on a host of 100,000 processes
too."""
SELDOM_REST_S = 10.0
"""If a collector rests for longer, a fault says that its facts are read only seldom."""


class CollectError(Exception):
    """The reason why something can't be read, as one sentence for a person."""


class Collector(Generic[T]):
    """Collects facts, one call at a time. If a call hangs, the last facts stay, and a fault says since when."""

    def __init__(
        self,
        source: str,
        title: str | Callable[[], str],
        collect: Callable[[], T],
        every: float | None,
        patience: float | None = None,
        after: Collector[Any] | None = None,
        delay: float = 0.0,
    ) -> None:
        """`collect` is called every `every` seconds, or (`None`) only when `ask` is called, and not before `after` has facts.

        `after` reports its own fault until then, so this collector reports none. A `title` that is a function is called for each fault: it
        can name the part at which the call hangs. Without `patience`, the usual limits hold. `delay`: seconds until the first call.
        """
        self.source = source
        self.facts: T | None = None
        self.answered = threading.Event()
        """Set after the first answer, even if it was an error."""
        self._has_facts = threading.Event()
        self.as_of: float | None = None
        """The start of the last finished call, by the monotonic clock."""
        self.observed: float | None = None
        """The start of the call that returned `facts`, in seconds since boot; later failures don't change it."""
        self._title = title
        self._after = after
        self._collect = collect
        self._every = every
        self._patience, self._first_patience = patience or ANSWER_TIMEOUT_S, patience or FIRST_ANSWER_TIMEOUT_S
        self._delay = delay
        self._asked: float | None = None
        """The start of the current call, by the monotonic clock."""
        self._error: str | None = None
        self._error_since = 0.0
        self._spent = 0.0
        """Seconds of CPU that the last call took."""
        self._seldom_since: float | None = None
        """The time since which the facts are read only seldom, by the monotonic clock."""
        self._hurry = threading.Event()
        self._fresh = threading.Event()

    @property
    def _title_now(self) -> str:
        return self._title if isinstance(self._title, str) else self._title()

    def start(self, first: threading.Event) -> None:
        """Starts the thread. `first` is set after the first answer."""
        threading.Thread(target=self._run, args=(first,), name=self.source, daemon=True).start()

    def ask(self) -> None:
        """Requests a new call: now, or as soon as the current one has ended."""
        self._fresh.clear()
        self._hurry.set()

    def wait(self, seconds: float) -> None:
        """Waits for an answer to the last `ask`, at most so many seconds."""
        self._fresh.wait(max(0.0, seconds))

    @property
    def pace(self) -> float:
        """The least seconds between two calls, by the CPU that the last one took."""
        return round((1 + REST_PER_CPU_S) * self._spent, 1)

    def fault(self) -> Fault | None:
        """The reason why the facts are missing, old or seldom read; `None`: they are good. `since` is POSIX time."""
        asked = self._asked
        waited = time.monotonic() - asked if asked is not None else 0.0
        if asked is not None and waited > (self._patience if self.answered.is_set() else self._first_patience):
            text = f"{self._title_now} has not answered for {waited:.0f} s" if waited >= 1 else f"{self._title_now} has not answered yet"
            return {"source": self.source, "text": text, "since": _to_posix(asked)}
        if self._error is not None:
            return {"source": self.source, "text": self._error, "since": _to_posix(self._error_since)}
        if self._seldom_since is not None:
            interval = (1 + REST_PER_CPU_S) * self._spent
            text = f"{self._title_now} takes {self._spent:.1f} s of CPU to read, so it is read only every {interval:.0f} s"
            return {"source": self.source, "text": text, "since": _to_posix(self._seldom_since)}
        return None

    def _run(self, first: threading.Event) -> None:
        if self._after is not None:
            self._after._has_facts.wait()
        time.sleep(self._delay)
        while True:
            self._asked = time.monotonic()
            self._hurry.clear()
            before, started = time.thread_time(), uptime()
            try:
                self.facts = self._collect()
                self.observed = round(started, 3)
                self._has_facts.set()
                self._error = None
            except (CollectError, OSError, ValueError, LookupError, ArithmeticError, AttributeError, TypeError, RuntimeError) as error:
                if self._error is None:
                    self._error_since = time.monotonic()
                is_sentence = isinstance(error, CollectError)
                self._error = str(error) if is_sentence else f"{self._title_now} can't be read: {type(error).__name__}: {error}"
            self._spent = time.thread_time() - before
            self.as_of, self._asked = self._asked, None
            self._fresh.set()
            if not self.answered.is_set():
                self.answered.set()
                first.set()
            rest = REST_PER_CPU_S * self._spent
            self._seldom_since = None if rest < SELDOM_REST_S else self._seldom_since or time.monotonic()
            time.sleep(rest)
            self._hurry.wait(self._every)


def _to_posix(moment: float) -> float:
    """The POSIX time of a moment of the monotonic clock, by the wall clock as it is now."""
    return round(time.time() - (time.monotonic() - moment), 1)
