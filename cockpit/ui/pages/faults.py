"""Everything that can't be believed now, and since when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cockpit.model import Fault
from cockpit.text import UNKNOWN
from cockpit.ui import cells
from cockpit.ui.pages.page import Page
from cockpit.ui.section import Column, Section
from cockpit.ui.view import View


class Faults(Page):
    """One list."""

    title = "Faults"

    def sections(self, view: View) -> Sequence[Section[Any]]:
        """The oldest first."""
        columns: tuple[Column[Fault], ...] = (
            Column("FAULTS", 20, lambda fault, _: ((fault.source, "bad"),), sort=lambda fault, _: fault.source),
            Column("HOST", 10, lambda fault, _: fault.host or UNKNOWN, sort=lambda fault, _: fault.host, rank=1),
            Column("SINCE", 6, lambda fault, view: cells.ago(fault.since, view), sort=lambda fault, _: fault.since, right=True),
            Column("WHAT", 30, lambda fault, _: fault.text, grow=True),
        )
        return (
            Section(
                "faults",
                "FAULTS",
                columns,
                view.snapshot.faults,
                "none: every source answers",
                lambda fault: f"{fault.source} {fault.host} {fault.text}",
            ),
        )
