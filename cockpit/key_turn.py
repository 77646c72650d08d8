"""Who waits for a key goes first: what takes long in a thread of ours stands back while a key is handled and drawn."""

from __future__ import annotations

import threading
import time
from typing import Final

KEY_TURN_S: Final = 0.03
"""Seconds from a key for which others stand back: by then it is drawn, also at 1,000 nodes. A key within as long again gets no turn of its
own, so that one that is held down leaves the others half of the time."""

_end = 0.0
_next = 0.0


def begin_key_turn() -> None:
    """A key was pressed. By the thread that reads the terminal."""
    global _end, _next
    now = time.monotonic()
    if now >= _next:
        _end, _next = now + KEY_TURN_S, now + 2 * KEY_TURN_S


def give_way() -> None:
    """Wait while a key is handled; by a thread that has long to go, every few milliseconds. Python's threads else take turns by halves."""
    while (left := _end - time.monotonic()) > 0 and threading.current_thread() is not threading.main_thread():
        time.sleep(left)
