"""The lines with which native code ends a process are explained, each alone in a log."""

from __future__ import annotations

import pytest

from cockpit.failures import describe, find_root_error
from cockpit.model import Failure

FATAL = (
    "Fatal Python error: Aborted",
    "Fatal Python error: Segmentation fault",
    "Fatal Python error: Bus error",
    "Fatal Python error: Illegal instruction",
    "Fatal Python error: Floating point exception",
    "Fatal Python error: init_fs_encoding: failed to get the Python codec of the filesystem encoding",
    "Fatal Python error: init_import_site: Failed to import the site module",
    "Fatal Python error: PyThreadState_Get: the function must be called with the GIL held",
    "Fatal Python error: deallocating None",
    "Fatal Python error: Cannot recover from stack overflow.",
    "Fatal Python error: words that nobody knows",
    "terminate called after throwing an instance of 'std::runtime_error'\n  what():  boom",
    "terminate called after throwing an instance of 'std::system_error'\n  what():  Resource temporarily unavailable",
    "terminate called after throwing an instance of 'c10::Error'\n  what():  CUDA error: an illegal memory access was encountered",
    "terminate called after throwing an instance of 'std::out_of_range'\n  what():  vector::_M_range_check",
    "terminate called after throwing an instance of 'pybind11::error_already_set'\n  what():  RuntimeError: x",
    "terminate called recursively",
    "F0000 00:00:1700000000.000000  123 ssl_transport_security.cc:500] Check failed: x == y",
    "(raylet) [2025-01-01 10:00:00,123 C 1 1] (raylet) main.cc:100: The raylet exited immediately because one Ray agent failed",
    "[2025-01-01 10:00:00,123 C 1 1] (raylet) The raylet exited immediately because one Ray agent failed, agent_name = x/4.",
    "free(): invalid pointer",
    "double free or corruption (out)",
    "corrupted double-linked list",
    "src/tcmalloc.cc:283] Attempt to free invalid pointer 0x7f9a",
    "<jemalloc>: Unsupported system page size",
    "*** SIGILL received at time=1700000000 on cpu 3 ***",
    "*** SIGFPE received at time=1700000000 on cpu 3 ***",
    "[node1:12:0:12] Caught signal 11 (Segmentation fault: address not mapped to object at address (nil))",
    "Trace/breakpoint trap (core dumped)",
    "thread '<unnamed>' panicked at src/lib.rs:10:5:\nindex out of bounds",
    "LLVM ERROR: Cannot select: intrinsic %llvm.nvvm.shfl.sync.bfly.i32",
)


def failure(*lines: str) -> Failure | None:
    error = find_root_error(["step 1", "step 2", *"\n".join(lines).split("\n")])
    return describe(error) if error else None


@pytest.mark.parametrize("text", FATAL)
def test_a_fatal_line_alone_has_a_cause_and_a_remedy(text: str):
    found = failure(text)
    assert found is not None
    assert found.cause is not None
    assert found.remedy is not None


def test_an_error_of_python_comes_before_an_abort_that_follows_it():
    found = failure(
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 3, in <module>',
        "ValueError: the batch is empty",
        "terminate called after throwing an instance of 'std::runtime_error'",
        "  what():  boom",
        "Fatal Python error: Aborted",
    )
    assert found is not None
    assert found.text == "ValueError: the batch is empty"
