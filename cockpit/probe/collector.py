"""Asks something that may hang, in a thread of its own, and keeps its last answer."""

from __future__ import annotations

import threading
import time
from typing import Callable, Dict, Generic, TypeVar

T = TypeVar("T")
Fault = Dict[str, object]
PATIENCE = 5.0
"""Seconds without an answer until that is a fault."""
FIRST_PATIENCE = 2.0
"""The same for the first answer; until then what is not known is `None`, without a word."""


class CollectError(Exception):
    """Its text is one sentence for a person: what could not be read, and why."""


class Collector(Generic[T]):
    """One question in flight at a time. A hung one never holds anybody up: the last facts stay, and a fault says since when.

    Asked every so many seconds, or (`None`) only when told to.
    """

    def __init__(self, source: str, title: str, collect: Callable[[], T], every: float | None, patience: float = PATIENCE) -> None:
        self.source = source
        self.facts: T | None = None
        self.answered = threading.Event()
        """Set once there has been an answer, good or bad."""
        self.as_of: float | None = None
        """When the last answer's question was put, by the monotonic clock."""
        self._title = title
        self._collect = collect
        self._every = every
        self._patience = patience
        self._asked: float | None = None
        self._error: str | None = None
        self._error_since = 0.0
        self._hurry = threading.Event()
        self._fresh = threading.Event()

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

    def fault(self) -> Fault | None:
        """Why its facts can't be believed, if so; `since` is POSIX time."""
        asked = self._asked
        waited = time.monotonic() - asked if asked is not None else 0.0
        if asked is not None and waited > (self._patience if self.answered.is_set() else FIRST_PATIENCE):
            text = f"{self._title} has not answered for {waited:.0f} s" if waited >= 1 else f"{self._title} has not answered yet"
            return {"source": self.source, "text": text, "since": round(time.time() - waited, 1)}
        if self._error is not None:
            return {"source": self.source, "text": self._error, "since": round(self._error_since, 1)}
        return None

    def _run(self, first: threading.Event) -> None:
        while True:
            self._asked = time.monotonic()
            self._hurry.clear()
            self._collect_once()
            self.as_of, self._asked = self._asked, None
            self._fresh.set()
            if not self.answered.is_set():
                self.answered.set()
                first.set()
            self._hurry.wait(self._every)

    def _collect_once(self) -> None:
        try:
            self.facts = self._collect()
            self._error = None
        except (CollectError, OSError, ValueError, LookupError, ArithmeticError, AttributeError, TypeError, RuntimeError) as error:
            text = str(error) if isinstance(error, CollectError) else f"{self._title} can't be read: {type(error).__name__}: {error}"
            if self._error is None:
                self._error_since = time.time()
            self._error = text
