"""Which rows and pages a key is for, and where it stands in the line of keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cockpit.check.preset_list import PresetEntry
from cockpit.model import Actor, Finding, Job, Node, PlacementGroup, Process, Session

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
