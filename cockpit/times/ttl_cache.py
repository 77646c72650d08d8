"""Caches the results of a function for as long as they are in use."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

Argument = TypeVar("Argument", bound=Hashable)
Result = TypeVar("Result")
KEPT_S: Final = 60.0
"""A result stays at least this long after its last use, and at most twice as long."""


class TtlCache(Generic[Argument, Result]):
    """Calls a function once for each argument. It keeps at most twice `most` results.

    An lru_cache would keep the texts of ended jobs until it is full.
    """

    def __init__(self, function: Callable[[Argument], Result], most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._function, self._most, self._clock = function, most, clock
        self._current: dict[Argument, Result] = {}
        self._previous: dict[Argument, Result] = {}
        self._current_since = clock()

    def __call__(self, argument: Argument) -> Result:
        """Return the result. If two threads ask at the same time, the function may be called twice."""
        if self._clock() - self._current_since >= KEPT_S or len(self._current) >= self._most:
            self._previous, self._current, self._current_since = self._current, {}, self._clock()
        current, previous = self._current, self._previous
        if argument not in current:
            current[argument] = previous[argument] if argument in previous else self._function(argument)
        return current[argument]

    def __len__(self) -> int:
        return len(self._current.keys() | self._previous.keys())
