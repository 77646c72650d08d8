"""Failing or stale sources by cause, and since when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cockpit.model import Fault
from cockpit.report.faults import also_down, by_cause
from cockpit.ui.columns import ago, words
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
            words("HOST", 10, lambda fault, _: fault.host or None, rank=1),
            ago("SINCE", 6, lambda fault, _: fault.since),
            Column("WHAT", 30, lambda fault, _: f"{fault.text}{also_down(fault)}", grow=True, fold=MAX_TEXT_LINES),
        )
        return (Section("faults", "FAULTS", columns, by_cause(view.snapshot.faults), "none: all sources answer", _search),)


def _search(fault: Fault) -> str:
    return f"{' '.join(fault.sources)} {fault.host} {fault.text}"
