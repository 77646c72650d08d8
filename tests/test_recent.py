from __future__ import annotations

from cockpit.recent import KEPT_S, Recent


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def made(most=100):
    clock, asked = Clock(), []

    def answer(question):
        asked.append(question)
        return question.upper()

    return Recent(answer, most, clock), clock, asked


def test_what_is_asked_again_is_answered_once():
    recent, clock, asked = made()
    for _ in range(10):
        assert recent("job") == "JOB"
        clock.now += KEPT_S / 2
    assert asked == ["job"]


def test_what_nobody_asks_for_any_more_is_forgotten():
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


def test_an_answer_that_says_nothing_is_an_answer():
    asked = []
    recent = Recent(asked.append, 10)
    assert recent("job") is None
    assert recent("job") is None
    assert asked == ["job"]
