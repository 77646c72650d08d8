"""A program that is asked once: what it prints, or why it has not answered."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from cockpit.sources.probes.process import Child
from cockpit.sources.probes.spawn import spawn
from cockpit.sources.source import SourceError
from cockpit.text import explain_os_error

ANSWER_S: Final = 10.0
"""Seconds for one answer: a busy slurmctld or API server takes a few."""
MAX_BYTES: Final = 64 << 20
"""Of an answer: of thousands of pods it is some 10 kB each."""
_TURN_S: Final = 0.02


async def ask_program(who: str, *words: str, send: bytes = b"") -> list[bytes]:
    """The lines that it prints; `who` is asked by it. Raises `SourceError`."""
    lines: list[bytes] = []
    size = 0

    def hear(more: list[bytes]) -> None:
        nonlocal size
        size += sum(map(len, more))
        lines.extend(more)

    try:
        child = Child(spawn(words), hear, lambda: None, send)
    except OSError as error:
        raise SourceError(f"{who} can't be asked: {words[0]}: {explain_os_error(error)}") from error
    deadline = time.monotonic() + ANSWER_S
    try:
        while (code := child.poll_exit()) is None:
            if size > MAX_BYTES:
                raise SourceError(f"{who} sent more than {MAX_BYTES >> 20} MB ({words[0]})")
            if time.monotonic() > deadline:
                raise SourceError(f"{who} did not answer within {ANSWER_S:.0f} s ({words[0]})")
            await asyncio.sleep(_TURN_S)
    finally:
        child.end()
    if code or child.garbage:
        raise SourceError(f"{words[0]}: {child.last_words or f'exit code {code}'}")
    return lines
