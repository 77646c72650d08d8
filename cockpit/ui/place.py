"""Where the cursor of each page was left, for when somebody comes back."""

from __future__ import annotations

from typing import NamedTuple

MAX_PLACES = 100
"""Pages that are remembered: those left longest ago are forgotten first."""


class CursorPlace(NamedTuple):
    """Where a cursor lies, and how far its page is scrolled."""

    key: str | None = None
    """Of the row; `None`: nobody has moved the cursor."""
    at: int = 0
    """Counted over the rows of all sections, for when that row is gone."""
    scroll: int = 0
    """Lines above the screen."""


class CursorPlaces:
    """The open page, and the places of those that were left."""

    def __init__(self) -> None:
        self.page = ""
        self._left: dict[str, CursorPlace] = {}

    def switch_page(self, page: str, place: CursorPlace) -> CursorPlace:
        """Open another page; `place` is where the cursor lies in this one. Returns where it was left in the other."""
        self._left.pop(self.page, None)  # so that the one left last stands last
        self._left[self.page], self.page = place, page
        if len(self._left) > MAX_PLACES:
            del self._left[next(iter(self._left))]
        return self._left.get(page, CursorPlace())

    def forget(self, page: str) -> None:
        """Have it open at its top the next time."""
        self._left.pop(page, None)
