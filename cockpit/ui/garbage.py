"""When to collect garbage and clear caches of drawn texts: while no key is pressed, as it takes up to 60 ms on a large cluster."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any, Final

from rich.cells import cached_cell_len
from rich.segment import Segment
from textual.geometry import Region
from textual.strip import Strip

from cockpit import text
from cockpit.ui import block, marks

COLLECT_INTERVAL_S: Final = 15.0
"""Seconds between two collections: Python's own come after so many new objects that a small cluster waits hours for one. What waits to be
collected takes new memory, which Python seldom gives back: once a minute the screen grew by 1.2 MB in an hour and had 1.5 MB more."""
WHOLE_INTERVAL_S: Final = 300.0
"""Seconds between two collections that look at every object: 40 ms at two nodes. The others look at those that came since: 1.4 ms."""
KEY_PAUSE_S: Final = 3.0
"""Seconds without a key before a collection."""
MAX_COLLECT_DELAY_S: Final = 60.0
"""Seconds after which it is done even while somebody types: without, three minutes of keys and new sizes took 135 MB on a slow machine."""
PLACE_CACHES: Final = tuple(
    one for kind in (Region, Segment, Strip) for one in (getattr(kind, name) for name in vars(kind)) if hasattr(one, "cache_clear")
)
"""Of where widgets and parts of lines lie: Textual and rich keep up to 16,384 answers each."""
DRAW_CACHES: Final = (cached_cell_len, block.lay_out_cell, block.fold_text, *text.CACHED, *marks.CACHED, *PLACE_CACHES)
"""Caches of what was drawn: within hours they fill up with that of things that are gone."""
LARGE_BYTES: Final = 1 << 16
"""From so many bytes on malloc takes memory from the system, and gives it back when freed. glibc raises its own line, up to 32 MiB, with
each large answer that is freed: later ones lie in the heap, which can't shrink below the small things that come to lie above them."""
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
"""Of glibc's malloc.h."""


def collect(*, whole: bool) -> None:
    """Free what nothing refers to any more, of all objects or of those that came since the last collection; then the caches.

    What came before was needed once, and mostly still is: at 1,000 nodes to look at the objects of five minutes takes 54 ms.
    """
    if whole:
        gc.unfreeze()
    gc.collect()
    gc.freeze()
    clear_caches()


def clear_caches() -> None:
    """Forget drawn texts, and give back the memory of what was forgotten."""
    for cache in DRAW_CACHES:
        cache.cache_clear()
    if (library := find_glibc()) is not None:
        library.malloc_trim(0)


def tune_heap() -> None:
    """From now on keep the heap such that more of it can be given back: one for all threads, without large blocks.

    Of what the start has made most stays: no collection but a whole one looks at it.
    """
    if (library := find_glibc()) is not None:
        library.mallopt(_M_ARENA_MAX, 1)  # else each thread that reads answers has a heap of its own
        library.mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
    gc.freeze()


def find_glibc() -> Any:
    """The C library of this process; `None`: it is not glibc."""
    import ctypes  # a start doesn't wait for it

    library = ctypes.CDLL(None)
    return library if hasattr(library, "malloc_trim") else None


class GarbageCollector:
    """Decides when to collect, from the times of the last key and of the last collections."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, collect: Callable[..., object] = collect) -> None:
        self._clock, self._collect = clock, collect
        self._last_key = self._last = clock()
        self._next_whole = self._last + WHOLE_INTERVAL_S

    def note_key(self) -> None:
        """A key was pressed or the mouse was used."""
        self._last_key = self._clock()

    def tick(self) -> None:
        now = self._clock()
        since = now - self._last
        if since < MAX_COLLECT_DELAY_S and (since < COLLECT_INTERVAL_S or now - self._last_key < KEY_PAUSE_S):
            return
        if whole := now >= self._next_whole:
            self._next_whole = now + WHOLE_INTERVAL_S
        self._collect(whole=whole)
        self._last = self._clock()
