from __future__ import annotations

import gc

import pytest

from cockpit import text
from cockpit.ui import garbage
from cockpit.ui.garbage import (
    COLLECT_INTERVAL_S,
    DRAW_CACHES,
    KEY_PAUSE_S,
    MAX_COLLECT_DELAY_S,
    WHOLE_INTERVAL_S,
    GarbageCollector,
    clear_caches,
    collect,
    tune_heap,
)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def made():
    clock, done = Clock(), []
    return GarbageCollector(clock, lambda *, whole: done.append(clock.now)), clock, done


def test_it_is_collected_once_in_a_while():
    garbage, clock, done = made()
    for second in range(int(3 * COLLECT_INTERVAL_S) + 1):
        clock.now = float(second)
        garbage.tick()
    assert done == [COLLECT_INTERVAL_S, 2 * COLLECT_INTERVAL_S, 3 * COLLECT_INTERVAL_S]


def test_every_five_minutes_one_looks_at_every_object():
    clock, whole_ones = Clock(), []
    garbage = GarbageCollector(clock, lambda *, whole: whole_ones.append(clock.now) if whole else None)
    for second in range(int(3 * WHOLE_INTERVAL_S) + 1):
        clock.now = float(second)
        garbage.tick()
    assert whole_ones == [WHOLE_INTERVAL_S, 2 * WHOLE_INTERVAL_S, 3 * WHOLE_INTERVAL_S]


class Circle:
    """Refers to itself: only a collection frees it."""

    def __init__(self, freed):
        self.me, self.freed = self, freed

    def __del__(self):
        self.freed.append(self)


@pytest.fixture
def unfrozen():
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("unfrozen")
def test_what_the_start_has_made_is_looked_at_by_a_whole_one_alone(monkeypatch):
    monkeypatch.setattr(garbage, "find_glibc", lambda: None)
    freed: list[Circle] = []
    Circle(freed)
    tune_heap()
    collect(whole=False)
    assert not freed
    collect(whole=True)
    assert len(freed) == 1


@pytest.mark.usefixtures("unfrozen")
def test_what_came_since_is_freed_by_each_and_what_was_there_by_a_whole_one():
    freed: list[Circle] = []
    old = Circle(freed)
    collect(whole=True)
    new = Circle(freed)
    del old, new
    collect(whole=False)
    assert len(freed) == 1
    collect(whole=True)
    assert len(freed) == 2


@pytest.mark.usefixtures("unfrozen")
def test_what_has_outlived_a_collection_is_looked_at_by_a_whole_one_alone():
    freed: list[Circle] = []
    old = Circle(freed)
    collect(whole=False)
    del old
    collect(whole=False)
    assert not freed
    collect(whole=True)
    assert len(freed) == 1


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
