"""The marks that launchers write before the lines of a log."""

from __future__ import annotations

import pytest

from cockpit.failures import find_root_error
from cockpit.failures.log_lines import launcher_marks

TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "/home/user/train.py", line 88, in step',
    "    loss.backward()",
    "ValueError: batch is odd",
)


@pytest.mark.parametrize(
    ("mark", "rank"),
    [("3: ", 3), ("[1,3]<stderr>:", 3), ("w1: ", None), ("10.0.0.3: ", None), ("ray-head-1  | ", None), ("", None)],
    ids=["srun --label", "mpirun --tag-output", "pdsh", "pdsh with addresses", "docker compose", "none"],
)
def test_a_traceback_is_read_below_the_marks_of_a_launcher(mark: str, rank: int | None):
    log = [f"{mark}{line}" for line in ("step 1", *TRACEBACK, "shutting down")]
    error = find_root_error(log)
    assert error is not None
    assert (error.text.partition("\n")[0], error.raised_at, error.line.rank) == ("ValueError: batch is odd", "train.py:88 in step", rank)


def test_tracebacks_of_two_hosts_that_are_mixed_are_one_error_of_two_processes():
    log = [f"{host}: {line}" for line in TRACEBACK for host in ("w1", "w2")]
    error = find_root_error(log)
    assert error is not None
    assert (error.text, error.also) == ("ValueError: batch is odd", 1)


def test_the_name_of_an_exception_before_a_traceback_is_no_mark():
    assert launcher_marks(["RuntimeError: Traceback (most recent call last):", *TRACEBACK[1:]]) == {}


def test_colours_are_removed_also_if_the_escape_was_written_as_its_number():
    error = find_root_error(["#033[2m#033[33m(raylet)#033[0m ValueError: batch is odd"])
    assert error is not None
    assert (error.text, error.line.writer) == ("ValueError: batch is odd", "raylet")
