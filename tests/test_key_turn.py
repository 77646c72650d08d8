"""What takes long stands back for a key, and for no longer than that."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from cockpit import key_turn
from cockpit.key_turn import KEY_TURN_S, begin_key_turn, give_way


class Clock:
    """A time that passes only where somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 3))
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(key_turn, "time", made)
    monkeypatch.setattr(key_turn, "_end", 0.0)
    monkeypatch.setattr(key_turn, "_next", 0.0)
    return made


def aside(work: Callable[[], None]) -> None:
    """In another thread, to its end."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_a_thread_waits_while_a_key_is_handled(clock: Clock):
    aside(give_way)
    assert clock.slept == [], "no key was pressed"
    begin_key_turn()
    clock.now += 0.01
    aside(give_way)
    aside(give_way)
    assert clock.slept == [0.02]


def test_the_thread_that_handles_keys_never_waits_for_itself(clock: Clock):
    begin_key_turn()
    give_way()
    assert clock.slept == []


def test_a_key_that_is_held_down_leaves_half_of_the_time(clock: Clock):
    for _ in range(100):
        begin_key_turn()
        aside(give_way)
        clock.now += KEY_TURN_S / 3
    assert sum(clock.slept) < (clock.now - 100.0) / 2 + KEY_TURN_S
