"""The lines of a job's log say in one line why it failed."""

from __future__ import annotations

from cockpit.findings.failures import reason_in_log

LINES = [
    "step 1",
    "Traceback (most recent call last):",
    '  File "/app/train.py", line 7, in main',
    "    load()",
    "ValueError: no such model",
    "INFO shutdown",
]


def test_an_unknown_error_is_given_in_its_own_words_with_the_place_that_raised_it():
    assert reason_in_log(LINES, "") == "ValueError: no such model (raised at train.py:7 in main)"


def test_a_known_error_has_its_remedy():
    said = reason_in_log(
        ["Traceback (most recent call last):", '  File "a.py", line 1, in <module>', "ModuleNotFoundError: No module named 'verl'"], ""
    )
    assert said is not None
    assert "verl" in said
    assert "; what to do: " in said


def test_the_command_of_the_entrypoint_is_no_error():
    lines = ["Running entrypoint for job ppo: python x.py", "exit 137", "step 1"]
    assert reason_in_log(lines, "python x.py\nexit 137") is None
    assert reason_in_log([*lines, "exit 137"], "python x.py\nexit 137") is not None, "the job itself wrote it"


def test_secrets_and_escapes_are_left_out_and_lines_without_an_error_say_nothing():
    said = reason_in_log(["ValueError: token=hf_" + "a" * 34 + " \x1b]0;x\x07refused"], "")
    assert said is not None
    assert "hf_a" not in said
    assert "\x1b" not in said
    assert reason_in_log(["step 1", "step 2"], "") is None
    assert reason_in_log([], "") is None
