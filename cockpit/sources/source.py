"""What a source is to whoever asks it; and work in a thread, for what a disk that never answers may keep waiting."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

import msgspec

from cockpit.config.document import READING
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


class Source(msgspec.Struct, Generic[Facts_co], frozen=True):
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


HELD_S, READ_LATE_S = 0.2, 1.0
"""Seconds by which a timeout comes late when the loop was held, and for which an answer is then still waited for."""


async def wait_within(seconds: float, answer: Awaitable[T]) -> T:
    """The answer. Raises `asyncio.TimeoutError`; wait_for, before Python 3.12, loses a cancellation that comes together with the answer.

    Where this program itself was stopped, or imported from a slow disk, the answer may have come and waits to be read.
    """
    task, loop = asyncio.ensure_future(answer), asyncio.get_running_loop()
    due = loop.time() + seconds
    try:
        await asyncio.wait({task}, timeout=seconds)
        if not task.done() and loop.time() - due > HELD_S:
            await asyncio.wait({task}, timeout=READ_LATE_S)
        if not task.done():
            raise asyncio.TimeoutError
        return task.result()
    finally:
        if not task.cancel() and not task.cancelled():
            task.exception()  # looked at, though nobody may want it any more: asyncio complains of what nobody has looked at


READ_TIMEOUT_S = 5.0
"""Seconds. A sleeping disk takes about as long to wake up; one across a dead network never answers."""


async def run_in_thread(work: Callable[[], T], about: object, patience: float | None = None) -> T:
    """What comes of the work. Raises `SourceError` with the file that it waits for, or else what it is `about`.

    A thread that never comes back ends with the program: nobody joins it, as the event loop would do with one of its own.
    """
    limit = READ_TIMEOUT_S if patience is None else patience
    found: Future[T] = Future()
    found.set_running_or_notify_cancel()  # from here on nobody's cancelling reaches the thread

    def run() -> None:
        try:
            found.set_result(work())
        except Exception as error:  # noqa: BLE001 it is raised where somebody waits for it
            found.set_exception(error)

    thread = threading.Thread(target=run, name="read", daemon=True)
    thread.start()
    done = asyncio.wrap_future(found)
    try:
        await asyncio.wait([done], timeout=limit)
        if done.done():
            return done.result()
        waits = READING.get(thread.ident or 0, about)
        raise SourceError(f"{waits} could not be read within {limit:g} s: its disk or network file system does not answer")
    finally:
        done.cancel()


async def wait_for_event(event: asyncio.Event, seconds: float) -> None:
    """Wait for the event, or until it is set because its time has come: without a task, which whoever waits all the time would feel."""
    timer = asyncio.get_running_loop().call_later(seconds, event.set)
    try:
        await event.wait()
    finally:
        timer.cancel()
