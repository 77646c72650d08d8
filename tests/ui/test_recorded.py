"""What the screen reads of a recording, and what it does not wait for."""

from __future__ import annotations

import asyncio
import threading

from cockpit.ui.recorded import HISTORY_S, MAX_EXTENSION_S, RecordedPast
from tests.ui.recordings import BEGIN, Happened, Memory, recorded
from tests.world import NOW


async def test_known_facts_do_not_wait_while_older_minutes_are_read():
    walking, over = threading.Event(), threading.Event()

    class Slow(Memory):
        def walk(self, begin=None, end=None, step_s=0):
            walking.set()
            over.wait(60)
            yield from ()

    past = RecordedPast(lambda: Slow([Happened(NOW - 50, "job", "job ppo-7b began")]), "recording")
    assert await past.read_range() == (BEGIN, NOW)
    reading = asyncio.ensure_future(past.read_history(NOW - 100))
    await asyncio.to_thread(walking.wait, 60)
    try:
        assert await past.read_range() == (BEGIN, NOW)
        assert [event.at for event in await past.read_next(NOW, -1)] == [NOW - 50]
        assert not reading.done()
    finally:
        over.set()
        await reading


async def test_minutes_are_called_quick_if_they_continue_or_were_quick_before():
    past = recorded()
    await past.read(NOW - 1000, BEGIN, NOW)
    assert past.has_history_within(0.001, NOW - 1000), "nothing is known yet"
    await past.read_history(NOW - 1000)
    assert past.has_history_within(60, NOW - 5000)
    assert not past.has_history_within(0, NOW - 5000)
    assert past.has_history_within(0, NOW - 1000 + MAX_EXTENSION_S)
    assert not past.has_history_within(0, NOW - 1010), "a step back is read anew"


async def test_usage_is_not_summed_from_a_part_of_a_longer_recording():
    assert NOW - BEGIN > HISTORY_S
    for moment, is_known in ((NOW, False), (BEGIN + HISTORY_S / 2, True)):
        past = recorded()
        await past.read(moment, BEGIN, NOW)
        assert ((await past.read_history(moment)).usage.begin is not None) is is_known
