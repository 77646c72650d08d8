"""Answers that are asked for again and again, kept for as long as somebody does: what they are about may be gone in the next minute."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

Question = TypeVar("Question", bound=Hashable)
Answer = TypeVar("Answer")
KEPT_S: Final = 60.0
"""Seconds at least for which an answer is kept after it was asked for; at most twice as long."""


class Recent(Generic[Question, Answer]):
    """Calls a function once for each argument. `most` bounds how many answers are kept: twice as many, at the worst moment.

    An lru_cache would be full of the names of jobs that have ended before it forgets the first.
    """

    def __init__(self, answer: Callable[[Question], Answer], most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._answer, self._most, self._clock = answer, most, clock
        self._now: dict[Question, Answer] = {}
        self._before: dict[Question, Answer] = {}
        self._begun = clock()

    def __call__(self, question: Question) -> Answer:
        """The answer, which several threads may ask for: at worst it is found twice."""
        if self._clock() - self._begun >= KEPT_S or len(self._now) >= self._most:
            self._before, self._now, self._begun = self._now, {}, self._clock()
        now, before = self._now, self._before
        if question not in now:
            now[question] = before[question] if question in before else self._answer(question)
        return now[question]

    def __len__(self) -> int:
        return len(self._now.keys() | self._before.keys())
