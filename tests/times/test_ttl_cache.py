from __future__ import annotations

from cockpit.times.ttl_cache import KEPT_S, TtlCache


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def made(most=100):
    clock, asked = Clock(), []

    def answer(question):
        asked.append(question)
        return question.upper()

    return TtlCache(answer, most, clock), clock, asked


def test_a_repeated_call_is_computed_once():
    recent, clock, asked = made()
    for _ in range(10):
        assert recent("job") == "JOB"
        clock.now += KEPT_S / 2
    assert asked == ["job"]


def test_an_unused_result_is_dropped():
    recent, clock, _ = made()
    recent("gone")
    for _ in range(3):
        clock.now += KEPT_S
        recent("here")
    assert len(recent) == 1


def test_a_flood_of_questions_keeps_no_more_than_twice_as_many_as_allowed():
    recent, _, _ = made(most=10)
    for number in range(1000):
        recent(f"job {number}")
    assert len(recent) <= 20


def test_none_is_a_result_too():
    asked = []
    recent = TtlCache(asked.append, 10)
    assert recent("job") is None
    assert recent("job") is None
    assert asked == ["job"]
