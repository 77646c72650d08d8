"""Runs one reading at a time in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class Reading:
    """The reading that runs now, if there is one."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        """Whether the last reading has not ended."""
        return self._task is not None and not self._task.done()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin a reading."""
        self._task = asyncio.ensure_future(work)

    async def finish(self, patience: float) -> None:
        """Wait until it ends, but at most `patience` seconds; then cancel it."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=patience)
            self.cancel()

    def cancel(self) -> None:
        """Cancel it. Another one can begin at once."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
