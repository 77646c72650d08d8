"""When to collect garbage and clear caches of drawn texts: while no key is pressed, as it takes up to 40 ms on a large cluster."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Final

from rich.cells import cached_cell_len

from cockpit import text
from cockpit.ui import block, marks

COLLECT_INTERVAL_S: Final = 60.0
"""Seconds between two collections: Python's own come after so many new objects that a small cluster waits hours for one."""
KEY_PAUSE_S: Final = 3.0
"""Seconds without a key before a collection."""
MAX_COLLECT_DELAY_S: Final = 600.0
"""Seconds after which it is done even while somebody types."""
DRAW_CACHES: Final = (cached_cell_len, block.lay_out_cell, block.fold_text, *text.CACHED, *marks.CACHED)
"""Caches of drawn texts and numbers: within hours they fill up with those of things that are gone."""


def collect() -> None:
    """Clear the caches of drawn texts, and collect garbage."""
    for cache in DRAW_CACHES:
        cache.cache_clear()
    gc.collect()
    _give_back()


def _give_back() -> None:
    """Empty pages of the C library's heap: below anything that lives it keeps them for good, and large answers come and go."""
    import ctypes  # a start doesn't wait for it

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's alone
    if trim is not None:
        trim(0)


class GarbageCollector:
    """Decides when to collect, from the time of the last key and of the last collection."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, collect: Callable[[], object] = collect) -> None:
        self._clock, self._collect = clock, collect
        self._last_key = self._last_collection = clock()

    def note_key(self) -> None:
        """A key was pressed or the mouse was used."""
        self._last_key = self._clock()

    def tick(self) -> None:
        """Collect if it is time."""
        now = self._clock()
        since = now - self._last_collection
        if since >= MAX_COLLECT_DELAY_S or (since >= COLLECT_INTERVAL_S and now - self._last_key >= KEY_PAUSE_S):
            self._collect()
            self._last_collection = self._clock()
