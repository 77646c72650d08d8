from __future__ import annotations

import asyncio
import time

import pytest

from cockpit.sources.source import SourceError, wait_within


async def test_an_answer_in_time_is_the_answer():
    assert await wait_within(1.0, asyncio.sleep(0, "here")) == "here"


async def test_a_slow_read_is_cancelled():
    never = asyncio.ensure_future(asyncio.Event().wait())
    with pytest.raises(asyncio.TimeoutError):
        await wait_within(0.01, never)
    await asyncio.wait({never})
    assert never.cancelled()


async def test_time_in_which_the_loop_was_blocked_does_not_count():
    async def answer():
        await asyncio.sleep(0.01)
        await asyncio.sleep(0)
        return "here"

    asking = asyncio.ensure_future(wait_within(0.05, answer()))
    await asyncio.sleep(0)
    until = time.monotonic() + 0.5
    while time.monotonic() < until:
        """Blocks the loop, as a slow import does."""
    assert await asking == "here"


@pytest.mark.parametrize("outcome", [None, SourceError("refused")])
async def test_a_cancellation_together_with_the_answer_is_not_lost(outcome):
    answer = asyncio.get_running_loop().create_future()
    asking = asyncio.ensure_future(wait_within(5.0, answer))
    await asyncio.sleep(0)
    answer.set_exception(outcome) if outcome else answer.set_result("here")
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait({asking})
    assert asking.cancelled()
