"""A million lines are kept packed, and come back as they were."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from cockpit.ui.log_lines import BLOCK_LINES, LogLines
from tests.ui.logs import numbered

TEXT = st.text(st.characters(blacklist_characters="\n"), max_size=30)


def kept(lines: LogLines) -> list[str]:
    return lines.slice(lines.dropped, lines.end)


@given(st.lists(st.tuples(TEXT, st.integers(1, 2 * BLOCK_LINES)), max_size=6))
def test_every_line_comes_back_as_it_was(batches: list[tuple[str, int]]) -> None:
    lines, given_lines = LogLines(), []
    for text, count in batches:
        batch = [f"{text}{number}" for number in range(count)]
        lines.extend(batch)
        given_lines += batch
    assert kept(lines) == given_lines
    assert [lines[number] for number in range(0, lines.end, 97)] == given_lines[::97]


def test_a_line_with_half_a_character_comes_back() -> None:
    lines = LogLines()
    lines.extend(["lone \ud800"] * BLOCK_LINES)
    assert lines[0] == "lone \ud800"


def test_a_line_feed_inside_a_line_does_not_make_two_of_it() -> None:
    lines = LogLines()
    lines.extend(["two\nlines", *numbered(BLOCK_LINES)])
    assert lines[0] == "two lines"
    assert lines[1] == "line 0"


def test_the_newest_lines_are_kept_and_keep_their_numbers() -> None:
    lines = LogLines(max_lines=1000)
    for begin in range(0, 5000, 70):
        lines.extend(numbered(70, begin))
        assert len(lines) == min(1000, begin + 70)
        assert lines[lines.dropped] == f"line {lines.dropped}"
    assert kept(lines) == numbered(1000, lines.dropped)


def test_text_that_cannot_be_packed_is_dropped_sooner() -> None:
    noise = Random(7)
    lines = LogLines(max_bytes=1_000_000)
    for _ in range(20):
        lines.extend([noise.randbytes(1000).hex() for _ in range(BLOCK_LINES)])
        assert lines.bytes <= 1_000_000
    assert BLOCK_LINES <= len(lines) < 20 * BLOCK_LINES
    assert lines.end == 20 * BLOCK_LINES


def test_lines_that_are_like_each_other_take_a_fraction_of_their_length() -> None:
    lines, line = LogLines(), "2026-11-22 21:05:07 INFO (WorkerDict pid=%d) step:%d - actor/loss:0.123 - reward/mean:1.25 - timing/gen:12s"
    batch = [line % (number % 64, number) for number in range(100 * BLOCK_LINES)]
    lines.extend(batch)
    assert lines.bytes < sum(map(len, batch)) / 4


def test_the_rest_of_a_block_is_one_text() -> None:
    lines = LogLines()
    lines.extend(numbered(BLOCK_LINES + 3))
    assert lines.text(0).split("\n") == numbered(BLOCK_LINES)
    assert lines.text(BLOCK_LINES - 2).split("\n") == numbered(2, BLOCK_LINES - 2)
    assert lines.text(BLOCK_LINES + 1).split("\n") == numbered(2, BLOCK_LINES + 1)


def test_clear_forgets_everything() -> None:
    lines = LogLines(max_lines=300)
    lines.extend(numbered(1000))
    lines.clear()
    assert (len(lines), lines.dropped, lines.bytes) == (0, 0, 0)
    lines.extend(["again"])
    assert lines[0] == "again"
