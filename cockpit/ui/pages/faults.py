"""Failing or stale sources by cause, and since when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cockpit.model import Fault
from cockpit.report.faults import also_down, by_cause
from cockpit.text import UNKNOWN
from cockpit.ui import cells
from cockpit.ui.pages.page import Page
from cockpit.ui.section import MAX_TEXT_LINES, Column, Section
from cockpit.ui.view import View


class FaultsPage(Page):
    """One list."""

    title = "Faults"

    def sections(self, view: View) -> Sequence[Section[Any]]:
        """The oldest first."""
        columns: tuple[Column[Fault], ...] = (
            Column("FAULTS", 20, lambda fault, _: ((fault.source, "bad"),), sort=lambda fault, _: fault.source),
            Column("HOST", 10, lambda fault, _: fault.host or UNKNOWN, sort=lambda fault, _: fault.host, rank=1),
            Column("SINCE", 6, lambda fault, view: cells.ago(fault.since, view), sort=lambda fault, _: fault.since, right=True),
            Column("WHAT", 30, lambda fault, _: f"{fault.text}{also_down(fault)}", grow=True, fold=MAX_TEXT_LINES),
        )
        return (
            Section(
                "faults",
                "FAULTS",
                columns,
                by_cause(view.snapshot.faults),
                "none: all sources answer",
                lambda fault: f"{' '.join(fault.sources)} {fault.host} {fault.text}",
            ),
        )
