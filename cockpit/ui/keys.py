"""Lists the rows and pages that each key needs, and the order of keys in the footer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cockpit.check.preset_list import PresetEntry
from cockpit.model import Actor, Finding, Job, Node, PlacementGroup, Process, Session

SWITCHES = ("tree", "dead", "growth", "user")
"""Actions that only some pages have, listed in `Page.switches`."""
REQUIRED_ROWS: Mapping[str, tuple[type[Any], str]] = {
    "hide": (Finding, "a finding"),
    "edit": (PresetEntry, "a preset"),
    "save": (Job, "a job"),
}
"""The type of row that an action needs, and its name."""
WRITING_ACTIONS = frozenset(["export", "edit", "save"])
"""Actions that write files: not possible with --readonly."""
OFFERED_ROWS: Mapping[str, tuple[type[Any], ...]] = {
    "log": (Job, Actor, Process, Node, PlacementGroup, Session, Finding),
    "environment": (Process,),
    "memory": (Node,),
    "stack": (Process, Actor, Job),
    "nccl": (Job,),
}
"""Types of rows for which the footer lists an action. On other rows the key shows what it needs."""
FOOTER_ORDER = (
    "open", "remedy", "row-action", "log", "hide", "edit", "save", "stack", "nccl", "environment", "tree", "dead", "user", "growth",
    "filter", "memory", "sort", "action", "gpu_memory", "raw", "pause", "quit", "pane", "address", "step", "event", "moment", "help",
)  # fmt: skip
"""Keys for the row under the cursor come first, because the footer has no room for all."""


def rank(name: str) -> int:
    """Position of an action in the footer; `name` is without parameters."""
    return FOOTER_ORDER.index(name) if name in FOOTER_ORDER else len(FOOTER_ORDER)
