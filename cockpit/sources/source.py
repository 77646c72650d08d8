"""Defines sources of facts, and waits for answers and for threads with a time limit."""

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
    """A source that can't be read or believed. The text is one sentence for a person, with the request and its result."""

    def __init__(self, text: str, cause: Cause | None = None) -> None:
        super().__init__(text)
        self.cause = cause


class NotMeantError(SourceError):
    """Nothing was done, because the target is not provably the planned one."""


class Source(msgspec.Struct, Generic[Facts_co], frozen=True):
    """Something that is read again and again, one request at a time."""

    name: str
    """Short, and part of the contract: it is the `source` of a fault. `ray.nodes`, `ray.jobs`, `probe`."""
    read: Callable[[], Awaitable[Facts_co]]
    """Raises `SourceError`. Another exception is a bug and may end the program."""
    every: float | Callable[[], float]
    """The seconds between the end of an answer and the next request; a function if they depend on the last answer."""
    timeout: float = 5.0

    def pause(self) -> float:
        """The seconds until the next request."""
        return self.every() if callable(self.every) else self.every


HELD_S, READ_LATE_S = 0.2, 1.0
"""If a timeout comes this much too late, the event loop was blocked; then the answer gets this much more time."""


async def wait_within(seconds: float, answer: Awaitable[T]) -> T:
    """The answer. Raises `asyncio.TimeoutError`. Before Python 3.12, wait_for loses a cancellation that comes together with the answer.

    If this program itself was stopped, the answer may have arrived and only has to be read.
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
            task.exception()  # asyncio warns about an exception that nobody has retrieved


READ_TIMEOUT_S = 5.0
"""A sleeping disk takes about so long to wake up; a disk behind a dead network never answers."""


async def run_in_thread(work: Callable[[], T], about: object, patience: float | None = None) -> T:
    """The result of the work. Raises `SourceError` after `patience`, with the file that the work waits for, else with `about`.

    A thread that hangs ends with the program. The event loop would wait for a thread of its own pool.
    """
    limit = READ_TIMEOUT_S if patience is None else patience
    found: Future[T] = Future()
    found.set_running_or_notify_cancel()  # from here on, a cancellation can't reach the thread

    def run() -> None:
        try:
            found.set_result(work())
        except Exception as error:  # noqa: BLE001 it is raised in the task that waits
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
    """Wait for the event, which is set after so many seconds at the latest."""
    timer = asyncio.get_running_loop().call_later(seconds, event.set)
    try:
        await event.wait()
    finally:
        timer.cancel()
