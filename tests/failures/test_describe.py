"""A failure is clean, cut, and without secrets, whatever the log holds; and no log takes long."""

from __future__ import annotations

import time

import pytest

from cockpit.failures import describe, find_root_error, known_errors
from cockpit.failures.describe import MAX_CHARS, MAX_LINES
from cockpit.failures.known import Match
from cockpit.failures.log_lines import LogLine
from cockpit.failures.root_error import RootError
from cockpit.model import Failure
from cockpit.secrets import HIDDEN, redact

SIZE = 2 << 20
MAX_SECONDS = 2.0
"""Of CPU, for a log of `SIZE` bytes. The slowest of these needs half a second."""


def failure_of(*lines: str) -> Failure:
    root = find_root_error(lines)
    assert root is not None
    return describe(root)


def test_secrets_in_the_lines_of_an_error_are_hidden():
    secret = "hf_" + "a1B2c3D4e5" * 3 + "f6G7"
    failure = failure_of(
        "Traceback (most recent call last):",
        '  File "/app/a.py", line 3, in load',
        f"OSError: refused: https://user:{secret}@huggingface.co/x HF_TOKEN={secret} Authorization: Bearer {secret}",
        f"password={secret}",
    )
    assert secret not in repr(failure)
    assert failure.text is not None
    assert failure.text.startswith("OSError: refused: ")


def test_secrets_in_the_parts_of_a_known_error_are_hidden():
    secret = "sk-" + "a1B2c3D4e5" * 4
    failure = failure_of(f"FileNotFoundError: [Errno 2] No such file or directory: '/data/api_key={secret}'")
    assert failure.known == "file-missing"
    assert secret not in repr(failure)


def test_a_private_key_below_an_error_is_hidden():
    body = ("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj", "AgEAAoIBAQC7VJTUt9Us8cKj")
    failure = failure_of("ValueError: bad key", "-----BEGIN PRIVATE KEY-----", *body)
    assert not any(line in repr(failure) for line in body)


def test_no_beginning_of_a_secret_is_left_where_a_line_is_cut():
    secret = "hf_" + "a1B2c3D4e5" * 3 + "f6G7"
    for blanks in range(1_160, 1_200):
        assert "hf_a" not in repr(failure_of(f"ValueError: {' ' * blanks}{secret}"))


def test_a_part_that_is_a_secret_only_by_the_words_before_it_is_hidden():
    line = "ValueError: password=Sup3rS3cret is taken"
    row = next(row for row in known_errors() if row.name == "ray-actor-name-taken")
    parts = {"actor_name": "Sup3rS3cret", "namespace": "is taken"}
    failure = describe(RootError(line, LogLine(0, line), Match(row, line, 0, parts)))
    assert "Sup3rS3cret" not in repr(failure)
    assert dict(failure.parts)["namespace"] == "is taken"
    assert failure.remedy is not None


def test_escapes_do_nothing():
    failure = failure_of("\x1b[2J\x1b]0;title\x07ValueError: \x1b[31mred\x1b[0m \u202eevil\u202c \x9b31m tab\there", "second\x00 line")
    assert failure.text is not None
    first, second = failure.text.split("\n")
    assert first.isprintable()
    assert first.startswith("ValueError: red ")
    assert second == "second line"


def test_long_errors_are_cut():
    failure = failure_of(f"ValueError: {'x' * 100_000}", *("y" * 5_000 for _ in range(50)))
    assert failure.text is not None
    lines = failure.text.split("\n")
    assert len(lines) <= MAX_LINES
    assert max(map(len, lines)) <= MAX_CHARS


def test_what_is_found_is_looked_up_later_by_its_parts():
    failure = failure_of("RuntimeError: The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).")
    assert failure.known == "torch-bind-in-use"
    assert (failure.look_up, dict(failure.parts)["port"]) == ("port", "29500")


def test_binary_text_has_no_error():
    assert find_root_error([bytes(range(256)).decode("latin-1") * 20] * 50) is None


MARKERS = [marker for error in known_errors() for marker in error.markers]
HOSTILE: dict[str, tuple[str, ...]] = {
    "every marker": (*MARKERS,),
    "every marker as an error": tuple(f"ValueError: {marker}" for marker in MARKERS),
    "tracebacks": ("Traceback (most recent call last):", '  File "a.py", line 3, in x', "    y()", "aError"),
    "chains": ("Traceback (most recent call last):", "aError", "During handling of the above exception, another exception occurred:"),
    "errors": ("aError",),
    "an option": ("ValueError: " + "a.py: error: argument --x: invalid choice: " * 90,),
    "a path": ("ValueError: " + "/a" * 1_900 + " Object creation will fail if spilling is required",),
    "names": ("a." * 1_999,),
    "calls": (": ray::a" * 500,),
    "counts": (" [repeated " * 300,),
    "bars": ("%|" * 1_900,),
    "streams": tuple(f"(W pid={number}, ip=10.0.0.{number % 250}) [rank{number}]: ValueError: x {number}" for number in range(35_000)),
    "kinds of errors": tuple(
        f"{chr(97 + kind % 26)}{chr(97 + kind // 26)}Error: {text * 60}"[:4_000]
        for kind in range(170)
        for text in (
            "1" * 80 + " but it was not found in your environment ",
            "subprocess.CalledProcessError: Command '[a b c d e f g ",
            "connectFullMesh failed with [/pytorch/third_party/gloo/",
            "a" * 60 + " Permission denied (publickey ",
        )
    ),
    "one line of 1 MB": ("x" * (1 << 20), "ValueError: " + "".join(MARKERS) * 60),
    "tables": ("Root Cause (first observed failure):", "  rank : 1"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_no_log_takes_long(name: str):
    lines = list(HOSTILE[name])
    log = lines * (SIZE // sum(len(line) + 1 for line in lines) + 1)
    begun = time.process_time()
    find_root_error(log)
    assert time.process_time() - begun < MAX_SECONDS


def test_an_error_at_the_end_of_a_long_log_is_found():
    begun = time.process_time()
    root = find_root_error([*["step 1: loss 0.1 10:00:00"] * 300_000, "ValueError: at last"])
    assert time.process_time() - begun < MAX_SECONDS
    assert root is not None
    assert (root.text, root.line.number) == ("ValueError: at last", 300_000)


def test_the_words_of_a_row_are_never_hidden():
    damaged = []
    for row in known_errors():
        for text in row.matches:
            error = find_root_error(text.split("\n"))
            if error is None or HIDDEN in redact(text):
                continue
            failure = describe(error)
            if HIDDEN in f"{failure.cause} {failure.remedy}":
                damaged.append((row.name, failure.remedy))
    assert damaged == []
