"""Sentences at the edge of the screen, and what is said while a key waits for an answer."""

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
"""Seconds after which it is said what is waited for."""


def say(node: DOMNode, text: str, severity: Any = "information") -> None:
    """Show a notification in place of the last one: it tells of the newest key. Text from a cluster is never markup."""
    take_back_notifications(node.app, "information")
    node.app.notify(clean(text), severity=severity, markup=False, timeout=6)


@contextmanager
def telling_failures(node: DOMNode, severity: str = "warning") -> Iterator[None]:
    """A source that fails meanwhile ends the work, and says why."""
    try:
        yield
    except SourceError as error:
        say(node, str(error), severity)


async def await_aloud(node: DOMNode, work: Coroutine[Any, Any, Answer], words: str) -> Answer:
    """The answer; while it takes long the screen says in these words what is waited for."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=WAIT_NOTICE_DELAY_S)
        if task.done():
            return task.result()
        say(node, words)
        answer = await task
        take_back_notifications(node.app, "information")
        return answer
    finally:
        task.cancel()
