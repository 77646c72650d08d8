from __future__ import annotations

from cockpit import text
from cockpit.ui.garbage import (
    CLEAR_INTERVAL_S,
    COLLECT_INTERVAL_S,
    DRAW_CACHES,
    KEY_PAUSE_S,
    MAX_COLLECT_DELAY_S,
    GarbageCollector,
    clear_caches,
)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def made():
    clock, done = Clock(), []
    return GarbageCollector(clock, lambda: done.append(clock.now), lambda: None), clock, done


def test_it_is_collected_once_in_a_while():
    garbage, clock, done = made()
    for second in range(int(3 * COLLECT_INTERVAL_S) + 1):
        clock.now = float(second)
        garbage.tick()
    assert done == [COLLECT_INTERVAL_S, 2 * COLLECT_INTERVAL_S, 3 * COLLECT_INTERVAL_S]


def test_drawn_texts_are_forgotten_more_seldom():
    clock, cleared = Clock(), []
    garbage = GarbageCollector(clock, lambda: None, lambda: cleared.append(clock.now))
    for second in range(int(2 * CLEAR_INTERVAL_S) + 1):
        clock.now = float(second)
        garbage.tick()
    assert cleared == [CLEAR_INTERVAL_S, 2 * CLEAR_INTERVAL_S]


def test_not_while_somebody_types():
    garbage, clock, done = made()
    clock.now = COLLECT_INTERVAL_S
    garbage.note_key()
    garbage.tick()
    assert not done
    clock.now += KEY_PAUSE_S
    garbage.tick()
    assert done


def test_but_at_last_even_then():
    garbage, clock, done = made()
    while clock.now < MAX_COLLECT_DELAY_S:
        clock.now += KEY_PAUSE_S / 2
        garbage.note_key()
        garbage.tick()
    assert done == [MAX_COLLECT_DELAY_S]


def test_what_is_cleared_is_forgotten():
    text.size(3 << 30)
    clear_caches()
    assert [cache.cache_info().currsize for cache in DRAW_CACHES] == [0] * len(DRAW_CACHES)
