"""Caches the results of a function for as long as they are in use."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

Question = TypeVar("Question", bound=Hashable)
Answer = TypeVar("Answer")
KEPT_S: Final = 60.0
"""A result stays at least this long after its last use, and at most twice as long."""


class TtlCache(Generic[Question, Answer]):
    """Calls a function once for each argument. It keeps at most twice `most` results.

    An lru_cache would keep the texts of ended jobs until it is full.
    """

    def __init__(self, answer: Callable[[Question], Answer], most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._answer, self._most, self._clock = answer, most, clock
        self._now: dict[Question, Answer] = {}
        self._before: dict[Question, Answer] = {}
        self._begun = clock()

    def __call__(self, question: Question) -> Answer:
        """Return the result. If two threads ask at the same time, the function may be called twice."""
        if self._clock() - self._begun >= KEPT_S or len(self._now) >= self._most:
            self._before, self._now, self._begun = self._now, {}, self._clock()
        now, before = self._now, self._before
        if question not in now:
            now[question] = before[question] if question in before else self._answer(question)
        return now[question]

    def __len__(self) -> int:
        return len(self._now.keys() | self._before.keys())
