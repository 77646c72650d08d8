"""What a page is: a name, and the sections it makes of a view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from cockpit.ui.section import Section
from cockpit.ui.view import View


class Page:
    """One page, or the detail of one thing. It keeps its own switches and nothing of what it shows."""

    title: ClassVar[str] = ""
    short_title: ClassVar[str | None] = None
    """Where there is no room for all titles."""
    can_tree: ClassVar[bool] = False
    wants_dead: bool = False
    """Whether dead actors have been asked for."""

    def __init__(self) -> None:
        self.tree = False
        self.user: str | None = None

    @property
    def heading(self) -> str:
        """Where we are, for the line under the header."""
        return self.title

    def sections(self, view: View) -> Sequence[Section[Any]]:
        """What to show now."""
        raise NotImplementedError
