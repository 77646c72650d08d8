"""Work that reads files whose disk may never answer: it is done in a thread, and nobody waits for it longer than a while."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from cockpit.config.document import READING
from cockpit.sources.source import SourceError

T = TypeVar("T")

READ_TIMEOUT_S = 5.0
"""Seconds. A sleeping disk takes about as long to wake up; one across a dead network never answers."""


async def in_time(work: Callable[[], T], about: object, patience: float | None = None) -> T:
    """What comes of the work. Raises `SourceError` with the file that it waits for, or else what it is `about`.

    A thread that never comes back ends with the program: nobody joins it, as the event loop would do with one of its own.
    """
    loop, limit = asyncio.get_running_loop(), READ_TIMEOUT_S if patience is None else patience
    done: asyncio.Future[T] = loop.create_future()

    def set_(answer: Callable[[Any], None], value: object) -> None:
        if not done.done():
            answer(value)

    def tell(answer: Callable[[Any], None], value: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(set_, answer, value)

    def run() -> None:
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 it is raised where somebody waits for it
            tell(done.set_exception, error)
        else:
            tell(done.set_result, result)

    thread = threading.Thread(target=run, name="read", daemon=True)
    thread.start()
    try:
        await asyncio.wait([done], timeout=limit)
        if done.done():
            return done.result()
        waits = READING.get(thread.ident or 0, about)
        raise SourceError(f"{waits} could not be read within {limit:g} s: its disk or network file system does not answer")
    finally:
        done.cancel()
