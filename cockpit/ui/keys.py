"""What each key means, and where it means nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from textual.binding import Binding, BindingType

from cockpit.actions.table import ACTS
from cockpit.model import Finding, Job
from cockpit.shelf import Entry
from cockpit.ui.pages.actors import Actors
from cockpit.ui.pages.findings import Findings
from cockpit.ui.pages.jobs import Jobs
from cockpit.ui.pages.nodes import Nodes
from cockpit.ui.pages.overview import Overview
from cockpit.ui.pages.page import Page
from cockpit.ui.pages.presets import Presets
from cockpit.ui.pages.processes import Processes

ON_PAGES = frozenset(
    [
        "tree", "memory", "dead", "hide", "edit", "save", "log", "environment", "stack", "user", "raw", "copy", "export",
        "faults", "pause", "refresh", "interval", "back", "page", "act", "explain",
    ]
)  # fmt: skip
"""What makes no sense over a text or a log."""
NEEDS: Mapping[str, type[Any]] = {"hide": Finding, "edit": Entry, "save": Job}
"""What must be chosen for a key to mean something."""
IN_PALETTE = frozenset(["help", "pause", "refresh", "tree", "faults", "export", "raw", "copy"])


def offered(action: str, page: Page, over: str, *, typing: bool, filtering: bool, readonly: bool) -> bool:
    """Whether a key means something now: over a `page`, a `log` or a `text`, while something is typed, while that is a filter.

    Keys that go before the focus must leave alone what is typed there.
    """
    if action == "keep_filter":
        return filtering
    if typing and action in ("filter", "page"):
        return False
    if action == "filter":
        return over != "text"
    return _on_page(action, page, readonly=readonly) if over == "page" else action not in ON_PAGES


def _on_page(action: str, page: Page, *, readonly: bool) -> bool:
    if action == "tree":
        return page.can_tree
    if action == "dead":
        return isinstance(page, Actors)
    if action == "user":
        return isinstance(page, Processes)
    return action not in ("export", "edit", "save") or not readonly


PAGES: tuple[type[Page], ...] = (Overview, Nodes, Actors, Processes, Jobs, Findings, Presets)
# A priority key is looked at before what has the focus: so nothing that is typed ahead of a filter or a page is lost.
BINDINGS: tuple[BindingType, ...] = (
    *(Binding(str(number), f"page({number - 1})", page.title, show=False, priority=True) for number, page in enumerate(PAGES, 1)),
    Binding("question_mark,h,f1", "help", "Help", key_display="?"),
    Binding("slash", "filter", "Filter", key_display="/", priority=True),
    Binding("q", "quit", "Quit"),
    Binding("ctrl+q", "quit", "Quit", show=False, priority=True),
    Binding("enter", "keep_filter", "Keep the filter", show=False, priority=True),
    Binding("t", "tree", "Tree"),
    Binding("d", "dead", "Dead"),
    Binding("m", "memory", "Memory", show=False),
    Binding("l", "log", "Log"),
    Binding("x", "hide", "Hide"),
    Binding("e", "edit", "Edit"),
    Binding("w", "save", "Save as preset"),
    Binding("e", "environment", "Env"),
    Binding("s", "stack", "Stack"),
    Binding("u", "user", "User"),
    Binding("y", "raw", "JSON"),
    Binding("c", "copy", "Copy", show=False),
    Binding("E", "export", "Export", show=False),
    Binding("F", "faults", "Faults", show=False),
    Binding("p", "pause", "Pause"),
    Binding("r,f5", "refresh", "Refresh", show=False),
    Binding("plus", "interval(-1)", "Look oftener", show=False),
    Binding("minus", "interval(1)", "Look less often", show=False),
    Binding("colon", "command_palette", "Commands", show=False),
    Binding("escape", "back", "Back", show=False),
)
# Of the bindings of one key the first counts that means something now: where no act does, it is said why.
ACT_BINDINGS: tuple[Binding, ...] = (
    *(Binding(act.keys, f"act('{act.id}')", act.title, key_display=act.first_key) for act in ACTS),
    *(Binding(key, f"explain('{key}')", show=False) for key in dict.fromkeys(key for act in ACTS for key in act.keys.split(","))),
)
