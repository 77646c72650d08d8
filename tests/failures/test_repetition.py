"""A log that only repeats a line is told from one that says something new."""

from __future__ import annotations

import time

import pytest

from cockpit.failures.repetition import MAX_LINES, MIN_LINES, find_repetition

HEALTH = 'INFO: 127.0.0.1:{port} - "GET /health HTTP/1.1" 200 OK'


def test_health_checks_of_half_an_hour_are_one_line_that_began_after_the_last_step():
    steps = [f"2026-11-28 09:{minute:02}:00 step {minute} loss 0.{minute}" for minute in range(30)]
    checks = [
        f"2026-11-28 10:{second // 60:02}:{second % 60:02} {HEALTH.format(port=40000 + 7919 * second % 20000)}"
        for second in range(0, 1800, 5)
    ]
    found = find_repetition([*steps, *checks])
    assert found is not None
    assert "GET /health" in found.line
    assert (found.begin, found.seconds) == (30, 1795)


def test_three_lines_in_turn_repeat_too_and_a_fourth_kind_does_not():
    turn = [
        HEALTH.format(port=1),
        "Avg prompt throughput: 0.0 tokens/s, Running: 0 reqs",
        "(Critic pid=12) waiting for actors, 30 s so far",
    ]
    found = find_repetition(turn * 20)
    assert found is not None
    assert found.seconds is None
    assert find_repetition([*turn, "something else is written"] * 20) is None


@pytest.mark.parametrize(
    "line",
    [
        "step {n} done",
        "Training:  {n}%|███",
        "loss 0.{odd} of this batch",
        "received request {n}",
        "epoch 1 iteration {n}/900",
    ],
)
def test_a_number_that_counts_or_a_loss_that_changes_is_progress(line):
    assert find_repetition([line.format(n=n, odd=n * 7919 % 97) for n in range(100)]) is None


@pytest.mark.parametrize(
    "line",
    [
        "waiting for the other ranks for {n} s",
        "[{clock}] heartbeat",
        "heartbeat {odd}",
        "10.0.0.2:{port} connected",
        "request 0a1b2c{n:010x} timed out",
    ],
)
def test_times_addresses_and_ids_may_differ(line):
    lines = [line.format(n=n, odd=n * 7919 % 97, clock=f"10:00:{n % 60:02}", port=40000 + n) for n in range(59)]
    assert find_repetition(lines) is not None


def test_few_lines_say_nothing():
    assert find_repetition([]) is None
    assert find_repetition([HEALTH] * (MIN_LINES - 1)) is None
    assert find_repetition([""] * 100) is None


def test_hostile_lines_are_soon_read():
    for piece in ("1", "1.", "0x", "a1-", "1:", "9 ", "-1e"):
        began = time.perf_counter()
        find_repetition([piece * 20_000] * MAX_LINES)
        assert time.perf_counter() - began < 5


def test_a_line_that_has_the_sign_for_a_number_itself_is_read_too():
    found = find_repetition([*["# # x"] * 10, *["5 5 x"] * 20])
    assert found is not None
    assert found.line == "5 5 x"
