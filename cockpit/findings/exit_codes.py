"""Explains the exit codes of jobs whose log shows no error."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Final

import msgspec

SIGKILL: Final = 9
_SHELL_BASE: Final = 128
"""A shell gives 128 + N for a program that signal N has ended."""


class ExitMeaning(msgspec.Struct, frozen=True):
    """What is known from an exit code alone."""

    cause: str
    """Without a full stop."""
    remedy: str | None = None
    look_up: str | None = None
    """As in `Failure`."""


_SIGNALS: Final[Mapping[int, ExitMeaning]] = {
    2: ExitMeaning("interrupted by SIGINT, as Ctrl-C sends it"),
    6: ExitMeaning(
        "aborted by SIGABRT: native code ended the process after an error of its own", "set PYTHONFAULTHANDLER=1 to get its stack"
    ),
    7: ExitMeaning("crashed by SIGBUS: memory of a mapped file or of /dev/shm could not be provided", None, "shm"),
    SIGKILL: ExitMeaning("killed by SIGKILL", None, "oom-kill"),
    11: ExitMeaning(
        "crashed by SIGSEGV: native code used memory that it may not use", "set PYTHONFAULTHANDLER=1 to get the Python stack of the crash"
    ),
    15: ExitMeaning(
        "ended by SIGTERM, which a scheduler (time limit, preemption), the stop of a container, or a person sends",
        "find who sent it: a scheduler's or container's log names its own stops",
    ),
}
_CODES: Final[Mapping[int, ExitMeaning]] = {
    2: ExitMeaning("ended with exit code 2, as argparse and shells do for a wrong argument or syntax"),
    126: ExitMeaning(
        "a command of its entrypoint is there but can't be executed",
        "it may lack the execute permission, be a folder, or be built for another machine",
    ),
    127: ExitMeaning(
        "a command of its entrypoint was not found",
        "check its name, and the PATH of its runtime environment on the node where the driver runs",
    ),
}


def signal_of(code: int) -> int | None:
    """The signal that ended the entrypoint, by its exit code; `None`: it ended by itself."""
    number = -code if code < 0 else code - _SHELL_BASE
    return number if 0 < number < signal.NSIG else None


def meaning_of(code: int | None) -> ExitMeaning | None:
    """What this exit code means; `None`: nothing that every program agrees on."""
    if code is None:
        return None
    number = signal_of(code)
    return _CODES.get(code) if number is None else _SIGNALS.get(number)
