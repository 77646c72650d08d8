"""A question to many processes, one of which hangs."""

from __future__ import annotations

from threading import Event

from cockpit.probe.sample.proc import Batch


def test_a_cancelled_batch_asks_no_process_after_the_hanging_one():
    goes_on = Event()
    asked: list[int] = []

    def ask(number: int) -> int:
        asked.append(number)
        if number == 2:
            goes_on.wait()
        return number

    batch = Batch([1, 2, 3, 4], ask)
    assert batch.wait(0.1) == 1
    goes_on.set()
    assert batch.finished.wait(10)
    assert (batch.answers, asked) == ([1, 2], [1, 2])
