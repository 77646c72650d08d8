"""Each request is answered in all cases, after a first line that reports the beginning."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cockpit.probe.actions.perform import perform

pytestmark = pytest.mark.process


def lines(request: Any) -> list[dict[str, Any]]:
    answers: list[dict[str, Any]] = []
    perform(request if isinstance(request, str) else json.dumps(request), answers.append)
    return answers


@pytest.mark.parametrize("text", ["no json", "[]", '{"act": ["kill"], "stage": "plan"}', '{"act": "unheard of"}'])
def test_an_invalid_request_is_answered_with_a_sentence(text: str):
    first, *_, last = lines(text)
    assert first == {"tell": "checking", "done": None, "of": None}
    assert list(last) == ["error"]


def test_a_bug_is_a_sentence_and_leaves_the_outcome_of_do_in_doubt():
    planned, done = (
        lines({"act": "kill", "stage": stage, "named": [["x", None]], "targets": [{}]})[-1]["error"] for stage in ("plan", "do")
    )
    assert planned.startswith("unexpected error (ValueError in ")
    assert "KeyError" in done
    assert done.endswith(": part of it may have been done")
    assert "may have been done" not in planned
