"""What a source is to whoever asks it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from cockpit.model import Cause

T = TypeVar("T")
Facts_co = TypeVar("Facts_co", covariant=True)


class SourceError(Exception):
    """A source that can't be believed; its text is one sentence for a person: what was asked, and what came instead."""

    def __init__(self, text: str, cause: Cause | None = None) -> None:
        super().__init__(text)
        self.cause = cause


class NotMeantError(SourceError):
    """Nothing was done, because what is there is not, or not provably, what was meant."""


@dataclass(frozen=True)
class Source(Generic[Facts_co]):
    """Something that is asked again and again, one request at a time."""

    name: str
    """Short, and part of the contract: it is the `source` of a fault. `ray.nodes`, `ray.jobs`, `probe`."""
    read: Callable[[], Awaitable[Facts_co]]
    """Raises `SourceError`; anything else is a bug and may end the program."""
    every: float | Callable[[], float]
    """Seconds between the end of one answer and the next question; a function where the last answer decides."""
    timeout: float = 5.0

    def pause(self) -> float:
        """Seconds until the next question."""
        return self.every() if callable(self.every) else self.every


async def within(seconds: float, answer: Awaitable[T]) -> T:
    """The answer. Raises `asyncio.TimeoutError`; wait_for, before Python 3.12, loses a cancellation that comes together with the answer."""
    task = asyncio.ensure_future(answer)
    try:
        await asyncio.wait({task}, timeout=seconds)
        if not task.done():
            raise asyncio.TimeoutError
        return task.result()
    finally:
        if not task.cancel() and not task.cancelled():
            task.exception()  # looked at, though nobody may want it any more: asyncio complains of what nobody has looked at


async def wait_for_event(event: asyncio.Event, seconds: float) -> None:
    """Wait for the event, or until it is set because its time has come: without a task, which whoever waits all the time would feel."""
    timer = asyncio.get_running_loop().call_later(seconds, event.set)
    try:
        await event.wait()
    finally:
        timer.cancel()
