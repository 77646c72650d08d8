"""Asks something that may hang, in a thread of its own, and keeps its last answer."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Dict, Generic, TypeVar

from .proc import uptime

T = TypeVar("T")
Fault = Dict[str, object]
ANSWER_TIMEOUT_S = 5.0
"""Seconds without an answer until that is a fault."""
REST_PER_CPU_S = 9.0
"""Seconds of rest for each second of CPU that an answer took: a tenth of a core is the most that a question gets, on a host of 100,000
processes too."""
SELDOM_REST_S = 10.0
"""Seconds of rest from which on it is said that facts are only read so seldom."""
FIRST_ANSWER_TIMEOUT_S = 2.0
"""Seconds without a first answer until that is a fault; before that unknown facts are `None`, and no fault is reported."""


class CollectError(Exception):
    """Its text is one sentence for a person: what could not be read, and why."""


class Collector(Generic[T]):
    """One question in flight at a time. A hung one never holds anybody up: the last facts stay, and a fault says since when.

    Asked every so many seconds, or (`None`) only when told to. A title that is called says what it hangs at now. It is not asked before
    `after` has facts, which has its own fault: what it would say without them would read like a fact.
    """

    def __init__(
        self,
        source: str,
        title: str | Callable[[], str],
        collect: Callable[[], T],
        every: float | None,
        patience: float = ANSWER_TIMEOUT_S,
        after: Collector[Any] | None = None,
    ) -> None:
        self.source = source
        self.facts: T | None = None
        self.answered = threading.Event()
        """Set once there has been an answer, good or bad."""
        self._known = threading.Event()
        """Set once there are facts."""
        self.as_of: float | None = None
        """When the last answer's question was put, by the monotonic clock."""
        self.observed: float | None = None
        """When the question was put that `facts` answers, in seconds since boot; failures since then don't change it."""
        self._named = title
        self._after = after
        self._collect = collect
        self._every = every
        self._patience = patience
        self._asked: float | None = None
        self._error: str | None = None
        self._error_since = 0.0
        self._spent = 0.0
        """Seconds of CPU that the last answer took."""
        self._seldom: float | None = None
        """Since when it is asked seldom, by the monotonic clock."""
        self._hurry = threading.Event()
        self._fresh = threading.Event()

    @property
    def _title(self) -> str:
        return self._named if isinstance(self._named, str) else self._named()

    def start(self, first: threading.Event) -> None:
        """`first` is set whenever a collector has its first answer."""
        threading.Thread(target=self._run, args=(first,), name=self.source, daemon=True).start()

    def ask(self) -> None:
        """Now, or as soon as the question in flight is answered."""
        self._fresh.clear()
        self._hurry.set()

    def wait(self, seconds: float) -> None:
        """At most so long for an answer to the last `ask`."""
        self._fresh.wait(max(0.0, seconds))

    @property
    def pace(self) -> float:
        """Seconds from one answer to the next that its own cost in CPU asks for."""
        return round((1 + REST_PER_CPU_S) * self._spent, 1)

    def fault(self) -> Fault | None:
        """Why its facts can't be believed, if so; `since` is POSIX time."""
        asked = self._asked
        waited = time.monotonic() - asked if asked is not None else 0.0
        if asked is not None and waited > (self._patience if self.answered.is_set() else FIRST_ANSWER_TIMEOUT_S):
            text = f"{self._title} has not answered for {waited:.0f} s" if waited >= 1 else f"{self._title} has not answered yet"
            return {"source": self.source, "text": text, "since": _to_posix(asked)}
        if self._error is not None:
            return {"source": self.source, "text": self._error, "since": _to_posix(self._error_since)}
        if self._seldom is not None:
            interval = (1 + REST_PER_CPU_S) * self._spent
            text = f"{self._title} takes {self._spent:.1f} s of CPU to read, so it is read only every {interval:.0f} s"
            return {"source": self.source, "text": text, "since": _to_posix(self._seldom)}
        return None

    def _run(self, first: threading.Event) -> None:
        if self._after is not None:
            self._after._known.wait()
        while True:
            self._asked = time.monotonic()
            self._hurry.clear()
            before = time.thread_time()
            self._collect_once()
            self._spent = time.thread_time() - before
            self.as_of, self._asked = self._asked, None
            self._fresh.set()
            if not self.answered.is_set():
                self.answered.set()
                first.set()
            self._rest(REST_PER_CPU_S * self._spent)
            self._hurry.wait(self._every)

    def _rest(self, seconds: float) -> None:
        self._seldom = None if seconds < SELDOM_REST_S else self._seldom or time.monotonic()
        time.sleep(seconds)

    def _collect_once(self) -> None:
        try:
            asked = uptime()
            self.facts = self._collect()
            self.observed = round(asked, 3)
            self._known.set()
            self._error = None
        except (CollectError, OSError, ValueError, LookupError, ArithmeticError, AttributeError, TypeError, RuntimeError) as error:
            text = str(error) if isinstance(error, CollectError) else f"{self._title} can't be read: {type(error).__name__}: {error}"
            if self._error is None:
                self._error_since = time.monotonic()
            self._error = text


def _to_posix(moment: float) -> float:
    """POSIX time of a moment of the monotonic clock, by the wall clock as it is now."""
    return round(time.time() - (time.monotonic() - moment), 1)
