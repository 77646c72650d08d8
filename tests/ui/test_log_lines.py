"""The newest lines are kept as they came, and those before them are counted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cockpit.ui.log_lines import LogLines
from tests.ui.logs import numbered

TEXT = st.text(st.characters(blacklist_characters="\n"), max_size=30)


def kept(lines: LogLines) -> list[str]:
    return lines.slice(lines.cut, lines.end)


@given(st.lists(st.lists(TEXT, max_size=20), max_size=6))
def test_every_line_comes_back_as_it_was(batches: list[list[str]]) -> None:
    lines, given_lines = LogLines(), []
    for batch in batches:
        lines.extend(batch)
        given_lines += batch
    assert kept(lines) == given_lines
    assert [lines[number] for number in range(lines.end)] == given_lines


def test_a_line_with_half_a_character_comes_back() -> None:
    lines = LogLines()
    lines.extend(["lone \ud800"])
    assert lines[0] == "lone \ud800"


def test_a_line_feed_inside_a_line_does_not_make_two_of_it() -> None:
    lines = LogLines()
    lines.extend(["two\nlines", "the next"])
    assert kept(lines) == ["two lines", "the next"]


def test_the_newest_lines_are_kept_and_keep_their_numbers() -> None:
    lines = LogLines(max_lines=1000)
    for begin in range(0, 5000, 70):
        lines.extend(numbered(70, begin))
        assert len(lines) == min(1000, begin + 70)
        assert lines[lines.cut] == f"line {lines.cut}"
    assert kept(lines) == numbered(1000, lines.cut)


def test_a_slice_that_begins_before_the_kept_lines_has_only_kept_lines() -> None:
    lines = LogLines(max_lines=10)
    lines.extend(numbered(30))
    assert lines.slice(15, 22) == ["line 20", "line 21"]
    assert lines.slice(5, 15) == []


def test_long_lines_are_cut_sooner_so_that_memory_is_limited() -> None:
    lines = LogLines(max_bytes=1_000_000)
    for number in range(1000):
        lines.extend([f"{number} " + "漢" * 3000])
        assert lines.bytes <= 1_000_000
    assert 50 < len(lines) < 100
    assert lines.end == 1000
    assert lines.cut_in_words() == f"older lines are cut: {lines.cut} (limit 200,000 lines, 977K)"


def test_clear_forgets_everything() -> None:
    lines = LogLines(max_lines=300)
    lines.extend(numbered(1000))
    lines.clear()
    assert (len(lines), lines.cut, lines.bytes, lines.cut_in_words()) == (0, 0, 0, "")
    lines.extend(["again"])
    assert lines[0] == "again"
