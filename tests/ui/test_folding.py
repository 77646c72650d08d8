"""A folded text fits into its width, and nothing of it is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from cockpit.ui.folding import fold_text

TEXTS = st.text(st.sampled_from("ab 漢字\u0301👩"))
"""Clean texts: `clean` replaces joiners, which rich measures as nothing."""


@given(TEXTS, st.integers(1, 30), st.none() | st.integers(1, 9), st.integers(0, 6))
def test_folding_by_words_loses_nothing_but_blanks(text, width, max_lines, hang):
    lines = fold_text(text, width, hang=hang, max_lines=max_lines)
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert max_lines is None or len(lines) <= max_lines
    # Half of a narrow line is indented, and the other half may be too narrow for a wide character.
    assert all(cell_len(line) <= max(2 + width // 2, width) for line in (lines if max_lines is None else lines[:-1]))


@given(TEXTS, st.integers(2, 30))
def test_folding_at_any_character_loses_nothing(text, width):
    lines = fold_text(text, width, by_words=False)
    assert "".join(lines) == text
    assert all(cell_len(line) <= width for line in lines)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", [""]),
        ("one two three", ["one two", "three"]),
        ("one two  three  ", ["one two", "three"]),
        ("exact fit two", ["exact fit", "two"]),
        ("a /very/long/path", ["a /very/l", "ong/path"]),
        ("漢字漢字漢字", ["漢字漢字", "漢字"]),
    ],
)
def test_a_line_breaks_after_a_word_unless_half_of_it_would_stay_empty(text, lines):
    assert fold_text(text, 9) == lines


def test_no_part_of_a_folded_line_looks_like_a_line_of_its_own():
    line = "  pid 1  python " + "x" * 40 + "  pid 2  harmless"
    first, *rest = fold_text(line, 40, hang=6)
    assert first == line[:40]
    assert all(piece.startswith(" " * 8) for piece in rest)
    assert "".join([first, *rest]).replace(" ", "") == line.replace(" ", "")
