"""What each key does, and where it applies."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from textual.binding import Binding

from cockpit.acts.table import ACTS, find_operation
from cockpit.check.preset_list import PresetEntry
from cockpit.model import Actor, Finding, Job, Node, PlacementGroup, Process, Session
from cockpit.ui.pages.actors import ActorsPage
from cockpit.ui.pages.findings import FindingsPage
from cockpit.ui.pages.jobs import JobsPage
from cockpit.ui.pages.nodes import NodesPage
from cockpit.ui.pages.overview import OverviewPage
from cockpit.ui.pages.presets import PresetsPage
from cockpit.ui.pages.processes import ProcessesPage
from cockpit.ui.section import Page

NOW_ONLY = frozenset(
    ["act", "explain", "dead", "hide", "unhide", "edit", "save", "log", "environment", "stack", "address", "pause", "refresh", "interval"]
)
"""Actions that ask or change what there is now: a past moment has none of them."""
PAST_ONLY = frozenset(["play", "zoom", "now", "no_past"])
"""Actions that only a past moment has."""
SWITCHES = frozenset(["tree", "dead", "user", "growth"])
"""Actions that some pages alone have."""
PRIORITY_ACTIONS = ("filter", "page", "play", "now")
"""Their keys go before the focus, but not before what is typed."""
PAST_ORDER = ("now", "step(-1)", "event(-1)", "play", "moment")
"""What comes first in the line of keys while the past is shown."""
ACTION_TARGETS: Mapping[str, type[Any]] = {"hide": Finding, "edit": PresetEntry, "save": Job}
"""The type of row that an action needs under the cursor."""
TARGET_WORDS: Mapping[str, str] = {"hide": "a finding", "edit": "a preset", "save": "a job"}
WRITING_ACTIONS = frozenset(["act", "export", "edit", "save"])
"""Actions that a read-only cockpit does not have."""
ROW_ACTIONS: Mapping[str, tuple[type[Any], ...]] = {
    "log": (Job, Actor, Process, Node, PlacementGroup, Session, Finding),
    "environment": (Process,),
    "memory": (Node,),
    "stack": (Process, Actor, Job),
}
"""The types of row for which the line of keys offers an action; elsewhere its key says what it needs."""
FOOTER_ORDER = (
    "open", "mend", "act on row", "log", "hide", "edit", "save", "stack", "environment", "tree", "dead", "user", "growth", "filter",
    "memory", "sort", "act", "gpu_memory", "raw", "pause", "quit",
)  # fmt: skip
"""What is for the row under the cursor comes first: there is no room for all."""
NOT_IN_PALETTE = frozenset(
    ["page", "act", "explain", "quit", "command_palette", "keep_filter", "back", "move", "suspend_process", "no_past", "why_not"]
)
"""Actions that the palette offers in another way, or that mean nothing from there."""


def is_offered(action: str, page: Page, *, over_page: bool, typing: bool, filtering: bool, readonly: bool, past: bool = False) -> bool:
    """Whether a key means something now: over a page or a text, while something is typed, while that is a filter.

    Keys that go before the focus must leave alone what is typed there.
    """
    if action == "keep_filter":
        return filtering
    if action == "why_not":
        return over_page and not typing
    if action in (NOW_ONLY if past else PAST_ONLY) or (typing and action in PRIORITY_ACTIONS):
        return False
    if not over_page:
        return action not in PAGE_ACTIONS
    if action in SWITCHES:
        return action in page.switches
    return action not in WRITING_ACTIONS or not readonly


def rank_key(action: str, chosen: Iterable[Any], mending: Collection[str]) -> int | None:
    """The place of an action in the line of keys; `None`: it means nothing for what is chosen. `mending`: acts that mend findings."""
    name, _, argument = action.partition("(")
    if name in ROW_ACTIONS and not any(isinstance(thing, ROW_ACTIONS[name]) for thing in chosen):
        return None
    if name == "act":
        act = find_operation(argument.strip("')"))
        name = "mend" if act.id in mending else "act on row" if act.takes else "act"
    return FOOTER_ORDER.index(name) if name in FOOTER_ORDER else len(FOOTER_ORDER)


PAGES: tuple[type[Page], ...] = (OverviewPage, NodesPage, ActorsPage, ProcessesPage, JobsPage, FindingsPage, PresetsPage)
# A priority key is looked at before what has the focus: so nothing that is typed ahead of a filter or a page is lost.
BINDINGS: tuple[Binding, ...] = (
    *(Binding(str(number), f"page({number - 1})", page.title, show=False, priority=True) for number, page in enumerate(PAGES, 1)),
    Binding("question_mark,h,f1", "help", "Help", key_display="?"),
    Binding("slash", "filter", "Filter", key_display="/", priority=True),
    Binding("q", "quit", "Quit"),
    Binding("ctrl+q", "quit", "Quit", show=False, priority=True),
    Binding("enter", "keep_filter", "Keep filter", key_display="Enter", priority=True),
    Binding("t", "tree", "Tree"),
    Binding("v", "pane", "Pane"),
    Binding("d", "dead", "Dead"),
    Binding("m", "growth", "Growth"),
    Binding("m", "memory", "Memory"),
    Binding("M", "gpu_memory", "GPU memory"),
    Binding("l", "log", "Log"),
    Binding("x", "hide", "Hide"),
    Binding("z", "unhide", "Unhide", show=False),
    Binding("e", "edit", "Edit"),
    Binding("w", "save", "Save preset"),
    Binding("e", "environment", "Env"),
    Binding("s", "stack", "Stack"),
    Binding("u", "user", "User"),
    Binding("y", "raw", "JSON"),
    Binding("c", "copy", "Copy", show=False),
    Binding("E", "export", "Export", show=False),
    Binding("F", "faults", "Sources", show=False),
    Binding("a", "address", "Other cluster"),
    Binding("p", "pause", "Pause"),
    Binding("left_square_bracket", "step(-1)", "Step", key_display="[]"),
    Binding("right_square_bracket", "step(1)", "Step forward", show=False),
    Binding("left_curly_bracket", "event(-1)", "Event", key_display="{}"),
    Binding("right_curly_bracket", "event(1)", "Next event", show=False),
    Binding("space", "play", "Play", key_display="Space", priority=True),
    Binding("at", "moment", "Go to time"),
    Binding("end", "now", "Now", key_display="End", priority=True),
    Binding("plus", "zoom(-1)", "Zoom in", show=False),
    Binding("minus", "zoom(1)", "Zoom out", show=False),
    Binding("r,f5", "refresh", "Refresh", show=False),
    Binding("plus", "interval(-1)", "Poll faster", show=False),
    Binding("minus", "interval(1)", "Poll slower", show=False),
    Binding("colon", "command_palette", "Commands", show=False),
    Binding("escape", "back", "Back", show=False),
    Binding("ctrl+z", "suspend_process", "Suspend (fg)", show=False, priority=True),
)
ANYWHERE = frozenset(["help", "quit", "keep_filter", "command_palette", "suspend_process"])
"""Actions of these keys that apply to a text or a log too."""
PAGE_ACTIONS = {binding.action.partition("(")[0] for binding in BINDINGS} - ANYWHERE | NOW_ONLY | PAST_ONLY
"""Actions that apply to pages only."""
ACT_KEYS = tuple(dict.fromkeys(key for act in ACTS for key in act.keys.split(",") if key))
# Of the bindings of one key the first counts that means something now: what the past has not is said, and where no act means anything, why.
PAST_BINDINGS: tuple[Binding, ...] = tuple(
    Binding(binding.key, f"no_past('{name}', '{binding.description}')", show=False)
    for binding in BINDINGS
    if (name := binding.action.partition("(")[0]) in NOW_ONLY - {"interval"}
)
# Of each key that a page has the last counts where no other means anything: it says why.
WHY_NOT_BINDINGS: tuple[Binding, ...] = tuple(
    Binding(key, f"why_not('{name}', '{label}')", show=False)
    for key, name, label in (
        *((binding.key, binding.action.partition("(")[0], binding.description) for binding in BINDINGS),
        *((key, "act", " / ".join(act.title for act in ACTS if key in act.keys.split(","))) for key in ACT_KEYS),
    )
    if name in PAGE_ACTIONS - PAST_ONLY - {"back"}
)
ACT_BINDINGS: tuple[Binding, ...] = (
    *(Binding(act.keys, f"act('{act.id}')", act.title, key_display=act.first_key) for act in ACTS),
    *(Binding(key, f"explain('{key}')", show=False) for key in ACT_KEYS),
    *(Binding(key, f"no_past('act', '{key.upper()}')", show=False) for key in ACT_KEYS),
)


def why_not(action: str, page: Page, *, readonly_reason: str | None) -> str:
    """Why the key of an action does nothing on this page; `readonly_reason`: why nothing may be changed here, or `None`."""
    if action in WRITING_ACTIONS and readonly_reason is not None:
        return readonly_reason
    if action in SWITCHES and action not in page.switches:
        having = [f"{each.title} ({number})" for number, each in enumerate(PAGES, 1) if action in each.switches]
        return f"only on the {'page' if len(having) == 1 else 'pages'} {' and '.join(having)}"
    return f"put the cursor on {TARGET_WORDS[action]}" if action in TARGET_WORDS else "not possible here"
