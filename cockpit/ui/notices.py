"""Shows notifications, for errors and for long waits too."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from textual.dom import DOMNode

from cockpit.sources.source import SourceError
from cockpit.text import clean
from cockpit.ui.textual_internals import take_back_notifications

Answer = TypeVar("Answer")
WAIT_NOTICE_DELAY_S: Final = 0.7
"""Seconds of waiting after which a notice says what cockpit waits for."""


def show_notice(node: DOMNode, text: str, severity: Any = "information") -> None:
    """Show a notification in place of the last one, which belonged to an older key. Text from a cluster is never markup."""
    take_back_notifications(node.app, "information")
    node.app.notify(clean(text), severity=severity, markup=False, timeout=6)


@contextmanager
def showing_failures(node: DOMNode, severity: str = "warning") -> Iterator[None]:
    """Show a `SourceError` from the block as a notification, and continue after the block."""
    try:
        yield
    except SourceError as error:
        show_notice(node, str(error), severity)


async def await_with_notice(node: DOMNode, work: Coroutine[Any, Any, Answer], notice: str) -> Answer:
    """Return the result of `work`; if it takes long, show `notice` until it is there."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=WAIT_NOTICE_DELAY_S)
        if task.done():
            return task.result()
        show_notice(node, notice)
        answer = await task
        take_back_notifications(node.app, "information")
        return answer
    finally:
        task.cancel()
