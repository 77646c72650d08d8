"""Lines of a log say in one line why a job failed."""

from __future__ import annotations

from cockpit.findings.log_reason import reason_in_log

LINES = [
    "step 1",
    "Traceback (most recent call last):",
    '  File "/app/train.py", line 7, in main',
    "    load()",
    "ValueError: no such model",
    "INFO shutdown",
]


def test_an_unknown_error_is_given_in_its_own_words_with_the_place_that_raised_it():
    assert reason_in_log(LINES) == "ValueError: no such model (raised at train.py:7 in main)"


def test_a_known_error_has_its_remedy():
    said = reason_in_log(
        ["Traceback (most recent call last):", '  File "a.py", line 1, in <module>', "ModuleNotFoundError: No module named 'verl'"]
    )
    assert said is not None
    assert "verl" in said
    assert "; what to do: " in said


def test_secrets_and_escapes_are_left_out_and_lines_without_an_error_say_nothing():
    said = reason_in_log(["ValueError: token=hf_" + "a" * 34 + " \x1b]0;x\x07refused"])
    assert said is not None
    assert "hf_a" not in said
    assert "\x1b" not in said
    assert reason_in_log(["step 1", "step 2"]) is None
    assert reason_in_log([]) is None
