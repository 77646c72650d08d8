"""Tests a collector that hangs or fails."""

from __future__ import annotations

import threading
import time

import pytest

from cockpit.probe.sample import collector
from cockpit.probe.sample.collector import CollectError, Collector
from tests.probe.waiting import until


def test_facts_are_collected_in_another_thread():
    one = Collector("x", "X", threading.get_ident, 60)
    first = threading.Event()
    assert one.facts is None
    one.start(first)
    assert first.wait(60)
    assert one.facts not in (None, threading.get_ident())
    assert one.fault() is None


def test_there_are_no_facts_before_the_first_answer_and_soon_a_fault(monkeypatch):
    monkeypatch.setattr(collector, "FIRST_ANSWER_TIMEOUT_S", 0.05)
    never = threading.Event()
    one = Collector("nvml", "NVML", never.wait, 60)
    one.start(threading.Event())
    until(one.fault)
    assert one.fault()["text"] == "NVML has not answered yet"
    assert one.facts is None
    never.set()


def test_a_source_that_hangs_keeps_its_facts_and_says_since_when():
    never, asked = threading.Event(), []

    def collect() -> int:
        asked.append(1)
        if len(asked) > 1:
            never.wait()
        return 7

    one = Collector("nvml", "NVML", collect, 0.01, patience=0.1)
    one.start(threading.Event())
    until(lambda: one.fault() and one.answered.is_set())
    assert one.facts == 7
    fault = one.fault()
    assert fault["source"] == "nvml"
    assert time.time() - 10 < fault["since"] < time.time()
    assert len(asked) == 2, "one question in flight"
    never.set()
    until(lambda: one.fault() is None)


def test_a_collector_without_interval_collects_when_asked_and_waiting_ends_after_the_given_seconds():
    asked: list[int] = []
    one = Collector("x", "X", lambda: asked.append(1), None)
    one.start(threading.Event())
    one.wait(60)
    assert len(asked) == 1
    one.ask()
    one.wait(60)
    assert len(asked) == 2
    never = threading.Event()
    hanging = Collector("x", "X", never.wait, None)
    hanging.start(threading.Event())
    hanging.ask()
    hanging.wait(0.05)
    never.set()


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (CollectError("NVML can't be started: Driver Not Loaded"), "NVML can't be started: Driver Not Loaded"),
        (PermissionError(13, "Permission denied"), "NVML can't be read: PermissionError: [Errno 13] Permission denied"),
        (ValueError("odd"), "NVML can't be read: ValueError: odd"),
    ],
)
def test_a_failure_is_a_sentence_and_the_next_answer_ends_it(error, text):
    answers = [error]

    def collect() -> int:
        if answers:
            raise answers[0]
        return 7

    one = Collector("nvml", "NVML", collect, 0.005)
    one.start(threading.Event())
    until(lambda: one.answered.is_set() and one.fault())
    assert one.fault()["text"] == text
    answers.clear()
    until(lambda: one.facts == 7 and one.fault() is None)


def burn(seconds):
    began = time.thread_time()
    while time.thread_time() - began < seconds:
        sum(range(100))


def test_an_expensive_collector_takes_a_tenth_of_a_core_however_often_it_is_asked():
    looks = []

    def look():
        burn(0.02)
        looks.append(time.monotonic())
        return len(looks)

    one = Collector("processes", "/proc", look, 0.0)
    one.start(threading.Event())
    until(lambda: len(looks) >= 6)
    assert looks[5] - looks[0] >= 5 * 0.02 * collector.REST_PER_CPU_S


def test_a_fault_says_that_facts_are_read_only_seldom(monkeypatch):
    monkeypatch.setattr(collector, "SELDOM_REST_S", 0.05)
    one = Collector("processes", "/proc", lambda: burn(0.05), 60)
    one.start(threading.Event())
    until(one.fault)
    assert one.fault()["text"].startswith("/proc takes 0.1 s of CPU to read, so it is read only every ")
    assert one.facts is None


def test_a_collector_waits_for_the_facts_of_another_and_reports_no_fault_until_then():
    late, first = threading.Event(), threading.Event()

    def scan() -> bool:
        if not processes.answered.is_set():
            raise OSError
        return late.wait()

    processes = Collector("processes", "/proc", scan, 0.005, patience=0.02)
    sessions = Collector("sessions", "Ray's temp dir", lambda: processes.facts, 60, after=processes)
    for one in (sessions, processes):
        one.start(first)
    until(lambda: (fault := processes.fault()) and fault["text"].startswith("/proc has not answered"))
    assert (sessions.facts, sessions.answered.is_set(), sessions.fault()) == (None, False, None)
    late.set()
    until(sessions.answered.is_set)
    assert sessions.facts is True


def test_a_collector_that_begins_late_reports_no_fault_before_it_has_asked(monkeypatch):
    monkeypatch.setattr(collector, "FIRST_ANSWER_TIMEOUT_S", 0.0)
    asked, never = threading.Event(), threading.Event()

    def collect() -> None:
        asked.set()
        never.wait()

    one = Collector("engines", "An engine", collect, 60, delay=0.3)
    one.start(threading.Event())
    while not asked.is_set():
        assert one.fault() is None or asked.is_set()
    until(one.fault)
    never.set()


def test_a_source_that_may_take_long_may_take_as_long_for_its_first_answer(monkeypatch):
    monkeypatch.setattr(collector, "FIRST_ANSWER_TIMEOUT_S", 0.0)
    asked, never = threading.Event(), threading.Event()
    one = Collector("engines", "An engine", lambda: asked.set() or never.wait(), 60, patience=60.0)
    one.start(threading.Event())
    assert asked.wait(60)
    assert one.fault() is None
    never.set()
