"""Which rows and pages a key is for, where it stands in the line of keys, and why it does nothing elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from textual.binding import Binding

from cockpit.check.preset_list import PresetEntry
from cockpit.model import Actor, Finding, Job, Node, PlacementGroup, Process, Session
from cockpit.ui.pages import PAGES
from cockpit.ui.section import Page

SWITCHES = ("tree", "dead", "growth", "user")
"""Actions that some pages alone have: `Page.switches`."""
REQUIRED_ROWS: Mapping[str, tuple[type[Any], str]] = {
    "hide": (Finding, "a finding"),
    "edit": (PresetEntry, "a preset"),
    "save": (Job, "a job"),
}
"""The type of row that an action needs, and its name."""
WRITING_ACTIONS = frozenset(["export", "edit", "save"])
"""Actions that a read-only cockpit does not have."""
OFFERED_ROWS: Mapping[str, tuple[type[Any], ...]] = {
    "log": (Job, Actor, Process, Node, PlacementGroup, Session, Finding),
    "environment": (Process,),
    "memory": (Node,),
    "stack": (Process, Actor, Job),
}
"""The types of row for which the line of keys offers an action; elsewhere its key says what it needs."""
FOOTER_ORDER = (
    "open", "mend", "act on row", "log", "hide", "edit", "save", "stack", "environment", "tree", "dead", "user", "growth", "filter",
    "memory", "sort", "act", "gpu_memory", "raw", "pause", "quit", "pane", "address", "step", "event", "moment", "help",
)  # fmt: skip
"""What is for the row under the cursor comes first: there is no room for all."""


def rank(name: str) -> int:
    """The place of an action in the line of keys, without its parameters."""
    return FOOTER_ORDER.index(name) if name in FOOTER_ORDER else len(FOOTER_ORDER)


def why_not(action: str, page: Page, selected: Iterable[Any], *, readonly_reason: str | None) -> str | None:
    """Why an action means nothing for this page and these rows; `None`: it means something. `readonly_reason`: why nothing is written."""
    if action in WRITING_ACTIONS and readonly_reason is not None:
        return readonly_reason
    if action in SWITCHES and action not in page.switches:
        having = [f"{each.title} ({number})" for number, each in enumerate(PAGES, 1) if action in each.switches]
        return f"only on the {'page' if len(having) == 1 else 'pages'} {' and '.join(having)}" if having else "not possible here"
    if action in REQUIRED_ROWS:
        kind, words = REQUIRED_ROWS[action]
        return None if any(isinstance(row, kind) for row in selected) else f"put the cursor on {words}"
    return None


def explain_bindings(*bindings: tuple[str, str, str]) -> list[Binding]:
    """For a key, an action and its label: a binding that says why the key does nothing. Textual runs the first enabled one of a key."""
    return [Binding(key, f"why_not('{action}', '{label}')", show=False) for key, action, label in bindings]
