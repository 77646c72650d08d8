"""One request is answered whatever happens, and by a probe that has said before that it has begun."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cockpit.probe.acts.perform import perform


def lines(request: Any) -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = []
    perform(request if isinstance(request, str) else json.dumps(request), said.append)
    return said


def test_the_first_line_says_that_it_has_begun_whatever_comes_then():
    assert lines({"act": "unheard of"})[0] == {"tell": "checking", "done": None, "of": None}


@pytest.mark.parametrize("text", ["no json", "[]", '{"act": ["kill"], "stage": "plan"}', '{"act": "unheard of"}'])
def test_what_is_no_request_is_answered_with_a_sentence(text: str):
    assert list(lines(text)[-1]) == ["error"]


def test_what_nobody_has_foreseen_is_a_sentence_and_a_deed_is_then_in_doubt():
    planned, done = (
        lines({"act": "kill", "stage": stage, "named": [["x", None]], "targets": [{}]})[-1]["error"] for stage in ("plan", "do")
    )
    assert planned.startswith("unexpected error (ValueError in ")
    assert "KeyError" in done
    assert done.endswith(": part of it may have been done")
    assert "may have been done" not in planned
