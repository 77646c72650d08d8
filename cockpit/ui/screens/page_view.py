"""Shows pages with header, table, pane and footer, and handles the keys that work the same on the present and on a recording."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

from textual import events
from textual.actions import parse
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.dom import DOMNode
from textual.widget import Widget
from textual.widgets import Input, Label

from cockpit.files.atomic import write_new
from cockpit.model import Node, Process
from cockpit.text import clean
from cockpit.ui.filter import Filter, FilterLine
from cockpit.ui.footer import FOOTER_LINES, Footer, KeyPlace
from cockpit.ui.header import Header, page_notes
from cockpit.ui.keys import OFFERED_ROWS, REQUIRED_ROWS, SWITCHES, WRITING_ACTIONS, rank
from cockpit.ui.notices import show_notice
from cockpit.ui.pages import PAGES
from cockpit.ui.pages.details import DetailPage, about, clipboard_text, detail_of, json_text
from cockpit.ui.pages.findings import FaultsPage
from cockpit.ui.pages.memory import BY_GROWTH, OWNERS, MemoryPage, fullest_node, memory_node
from cockpit.ui.pages.nodes import NodePage
from cockpit.ui.pages.overview import OverviewPage
from cockpit.ui.pages.processes import BY_GPU_MEMORY, ProcessesPage
from cockpit.ui.pane import PANE_SCREEN, Body, is_large
from cockpit.ui.section import Page
from cockpit.ui.services import Services
from cockpit.ui.table import Table
from cockpit.ui.view import View

MIN_SCREEN_SIZE = (60, 15)
"""Columns and lines. A smaller terminal has no room for a useful row."""
SCREENSHOT_DELAY_S: Final = 0.1
"""Seconds until the palette has disappeared from the screen; Textual waits as long for its own screenshots."""


class PageScreen(Protocol):
    """The methods of its screen that a `PageView` calls."""

    services: Services

    @property
    def fitting_actions(self) -> Collection[str] | None:
        """Ids of the actions that fit the selection; `None`: no action is possible on this screen."""

    def make_view(self) -> View:
        """The data of the pages, at the moment that the screen shows."""

    def time_note(self) -> str | None:
        """`PAUSED`, `playing`, or `None`."""

    def draw(self) -> None:
        """Draw the open page again."""

    def place_key(self, binding: Binding) -> KeyPlace | None:
        """Position and label of a key in the footer; `None`: the footer leaves it out now."""


class PageView(Vertical):
    """Shows the last of its `pages`; Esc goes back to the page before it."""

    DEFAULT_CSS = """
    PageView { layers: base over; overflow: hidden; }
    PageView #small { layer: over; width: 100%; height: 100%; content-align: center middle; background: $background; }
    """
    # Textual handles a priority key before the focused widget does, so keys typed ahead of a filter or a page are not lost.
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(number), f"page({number - 1})", page.title, show=False, priority=True) for number, page in enumerate(PAGES, 1)),
        Binding("question_mark,h,f1", "help", "Help", key_display="?"),
        Binding("slash", "filter", "Filter", key_display="/", priority=True),
        Binding("enter", "keep_filter", "Keep filter", key_display="Enter", priority=True),
        Binding("t", "tree", "Tree"),
        Binding("v", "pane", "Pane"),
        Binding("m", "growth", "Growth"),
        Binding("m", "memory", "Memory"),
        Binding("M", "gpu_memory", "GPU memory"),
        Binding("u", "user", "User"),
        Binding("y", "raw", "JSON"),
        Binding("c", "copy", "Copy", show=False),
        Binding("E", "export", "Export", show=False),
        Binding("F", "faults", "Sources", show=False),
        Binding("escape", "back", "Back", show=False),
    ]

    def __init__(self, owner: PageScreen, *below: Widget) -> None:
        """`below`: widgets between the page and the footer."""
        super().__init__()
        self._owner, self._services, self._below = owner, owner.services, below
        self.pages: list[Page] = [OverviewPage()]
        self.view = View()
        """The data that was drawn last."""
        self._is_drawn = False
        self.table = Table()
        self.body = Body(self.table)
        self.header = Header()
        self._footer_state: object = None
        """The values that the footer's keys depend on, when they were checked last."""

    def compose(self) -> ComposeResult:
        yield self.header
        yield self.body
        yield from self._below
        yield FilterLine(Label("/"), Filter(self.table))
        yield Footer(self._owner.place_key)
        yield Label(Content(f"cockpit needs a terminal of at least {MIN_SCREEN_SIZE[0]}x{MIN_SCREEN_SIZE[1]}"), id="small")

    def continue_from(self, other: PageView) -> None:
        """Take over the pages of another view, and the order, filter, tags and cursors of its table."""
        self.pages = other.pages
        self.table.continue_from(other.table)
        self.body.is_wanted = other.body.is_wanted

    # The open page

    @property
    def page(self) -> Page:
        """The open page."""
        return self.pages[-1]

    @property
    def selected(self) -> Sequence[Any]:
        """The things of the tagged rows, else of the row under the cursor, without duplicates; on a detail page, its thing."""
        found = {thing.key: thing for row in self.table.chosen if (thing := about(row)) is not None}
        return [*found.values()] or ([self.page.thing] if isinstance(self.page, DetailPage) else [])

    def selected_of(self, kind: type[Any]) -> Sequence[Any]:
        """The selected things of one type."""
        return [thing for thing in self.selected if isinstance(thing, kind)]

    @property
    def single(self) -> Any:
        """The thing of the row under the cursor; if that has no log, on a detail page or a node's page the thing of the page."""
        row = about(self.table.selected)
        if isinstance(row, OFFERED_ROWS["log"]):
            return row
        return self.page.thing if isinstance(self.page, DetailPage) else self.page.node if isinstance(self.page, NodePage) else row

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts of the tagged nodes, else the host of the open node page. The cursor alone selects no host: it always has a row."""
        nodes = [thing for thing in self.selected_of(Node) if thing.key in self.table.tagged]
        if not nodes and isinstance(self.page, NodePage):
            nodes = [self.page.node]
        return tuple(dict.fromkeys(node.ip or node.title for node in nodes))

    @property
    def is_typing(self) -> bool:
        """Whether the user is typing a filter."""
        return isinstance(self.screen.focused, Input)

    def draw(self) -> None:
        """Draw the open page."""
        services, view = self._services, self._owner.make_view()
        self.view, self._is_drawn = view, True
        with self.app.batch_update():
            recorded = services.recorder.state_of(view.snapshot.cluster) if services.recorder else None
            notes = page_notes(self.page, self.table, recorded, time=self._owner.time_note(), readonly=services.config.readonly)
            header_lines = self.header.show(view, self.pages, notes)
            if self.body.size.height:  # after the first layout; the header may need more or fewer lines now
                room = self.body.size.height + self.header.size.height - header_lines
            else:
                room = view.height - header_lines - FOOTER_LINES
            self.table.show(self.page.sections(view), view, self.page.heading, expected_room=room)
            is_first = len(self.pages) == 1
            self.body.show(lends=is_first, may_cover=is_first and not isinstance(self.page, OverviewPage))

    def open(self, pages: list[Page]) -> None:
        """Show the last of these pages; Esc goes back to the page before it."""
        self.pages = pages
        self.table.needle = ""
        self.refresh_bindings()
        self._owner.draw()

    def open_deeper(self, page: Page) -> None:
        """Open a page at its top; Esc goes back to the current row of the current page."""
        self.table.forget_place(page.heading)
        self.open([*self.pages, page])

    def on_resize(self, event: events.Resize) -> None:
        # The label covers the page. Hiding the page by a CSS class would make Textual compute the styles of every widget again.
        small = self.get_child_by_id("small")
        small.display = event.size.width < MIN_SCREEN_SIZE[0] or event.size.height < MIN_SCREEN_SIZE[1]
        if self._is_drawn:
            self._owner.draw()
            self.refresh_bindings()

    # What keys do

    def why_not(self, action: str) -> str | None:
        """Why an action does nothing on the open page with this selection; `None`: it does something."""
        config = self._services.config
        if action in WRITING_ACTIONS and config.readonly:
            return config.readonly_reason
        if action in SWITCHES and action not in self.page.switches:
            having = [f"{each.title} ({number})" for number, each in enumerate(PAGES, 1) if action in each.switches]
            return f"only on the {'page' if len(having) == 1 else 'pages'} {' and '.join(having)}"
        if action in REQUIRED_ROWS:
            kind, words = REQUIRED_ROWS[action]
            return None if self.selected_of(kind) else f"put the cursor on {words}"
        return None

    def refuses(self, action: str, label: str) -> bool:
        """Return whether an action does nothing here, and show why."""
        if (why := self.why_not(action)) is not None:
            show_notice(self, f"{label}: {why}")
        return why is not None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 Textual asks so
        """Textual runs the first action of a key that this method allows."""
        if action == "keep_filter":
            return self.is_typing
        if action == "back":
            return bool(self.table.needle) or len(self.pages) > 1
        return action != "growth" or self.why_not(action) is None

    def place_key(self, binding: Binding) -> KeyPlace | None:
        """Position and label of a key in the footer; `None`: it does not fit the selection."""
        name = binding.action.partition("(")[0]
        if self.why_not(name) is not None:
            return None
        if name in OFFERED_ROWS and not any(isinstance(thing, OFFERED_ROWS[name]) for thing in self.selected):
            return None
        if (name == "open" and not self._can_open) or (name == "pane" and not is_large(self.app.size)):
            return None
        return rank(name), binding.description

    @property
    def _can_open(self) -> bool:
        row = self.table.selected
        return row is not None and detail_of(row) is not None

    @property
    def key_nodes(self) -> tuple[DOMNode, ...]:
        """The nodes whose key bindings work while no other screen covers the pages."""
        return (self, self.screen, self.table, self.app)

    def is_offered(self, node: DOMNode, binding: Binding) -> bool:
        """Whether help and palette offer a key for the open page and the selection."""
        _, name, parameters = parse(binding.action)
        is_enabled = bool(node.check_action(name, parameters))
        return is_enabled and (name == "memory" or self._owner.place_key(binding) is not None)  # `m` works without a selected node too

    def update_footer(self, actions: Collection[str] | None = None) -> None:
        """Have the footer check its keys again if the selection has changed. `actions`: ids of the actions that fit it."""
        before, self._footer_state = self._footer_state, (actions, {type(thing) for thing in self.selected}, self._can_open)
        if before != self._footer_state:
            self.refresh_bindings()

    # Messages of the table and the header

    def on_table_opened(self, message: Table.Opened) -> None:
        if (page := detail_of(message.row)) is not None:
            self.open_deeper(page)
        else:
            show_notice(self, "Open: there is nothing more to show for this row")

    def on_table_refused(self, message: Table.Refused) -> None:
        """Show why a key of the table does nothing."""
        show_notice(self, message.reason)

    def on_table_tagged(self) -> None:
        """Draw the number of tagged rows in the header."""
        self._owner.draw()

    def on_header_page_clicked(self, message: Header.PageClicked) -> None:
        self.action_page(message.number)

    # Keys

    def action_page(self, number: int) -> None:
        """Open a page by its number, from 0."""
        self.open([PAGES[number]()])

    def action_back(self) -> None:
        """Clear the filter, or go back one page, then from the past to now; never quits."""
        if self.table.needle:
            self.table.filter_rows("")
            self._owner.draw()
        else:
            self.open(self.pages[:-1])

    def action_help(self) -> None:
        """Show all keys and what the symbols mean."""
        from cockpit.ui.screens.help import HelpScreen, action_entries, help_text, key_entries

        fitting = self._owner.fitting_actions
        entries = [*key_entries(self.key_nodes, self.is_offered), *(() if fitting is None else action_entries(fitting))]
        self.app.push_screen(HelpScreen("Help", help_text(f"Page {self.page.heading}", entries)))

    def action_filter(self) -> None:
        """Show only rows that contain a text; !text: rows without it."""
        self.query_one(Filter).open()

    def action_keep_filter(self) -> None:
        """In the filter: keep it and go back to the rows."""
        self.query_one(Filter).close()

    def on_filter_closed(self) -> None:
        self._owner.draw()

    def action_tree(self) -> None:
        """Show the page as a tree, or as a list again."""
        if self.refuses("tree", "Tree"):
            return
        self.page.tree = not self.page.tree
        self._owner.draw()

    def action_pane(self) -> None:
        """Hide or show below the table what Enter would open (from 140x36 on)."""
        if not is_large(self.app.size):
            show_notice(self, f"The pane needs a terminal of at least {PANE_SCREEN[0]}x{PANE_SCREEN[1]}; Enter opens the row")
        elif not self.body.toggle():
            show_notice(self, "No room for the pane, or nothing more to show for this row")

    def action_growth(self) -> None:
        """On the Memory page: the owners that grow fastest first; again: in their usual order."""
        is_again = self.table.sorts.get(OWNERS) == BY_GROWTH
        self.table.sorts[OWNERS] = ("", False) if is_again else BY_GROWTH
        self._owner.draw()

    def action_memory(self) -> None:
        """Show host memory of the node under the cursor, of a finding's node, or of the open one; else of the fullest."""
        if isinstance(self.page, MemoryPage):
            show_notice(
                self, f"Memory: this page shows that of {self.page.node.title}; for another node put the cursor on it on another page"
            )
            return
        snapshot = self.view.snapshot
        node = memory_node(self.page, self.table.selected, snapshot)
        if node is None and (node := fullest_node(snapshot)) is not None:
            show_notice(self, f"Host memory of {node.title}, the node nearest to its kill line")
        if node is not None:
            self.open_deeper(MemoryPage(node))
        else:
            show_notice(self, "Host memory is unknown on all nodes")

    def action_gpu_memory(self) -> None:
        """Show who holds most GPU memory: processes, the greatest first; again: in their usual order."""
        is_again = isinstance(self.page, ProcessesPage) and self.table.sorts.get("processes") == BY_GPU_MEMORY
        self.table.sorts["processes"] = ("", False) if is_again else BY_GPU_MEMORY
        self.open([ProcessesPage()])
        self.table.action_move(-self.table.count)

    def action_user(self) -> None:
        """Show only the processes of this row's user; again: of all users."""
        if self.refuses("user", "User"):
            return
        row = about(self.table.selected)
        if self.page.user is None and not (isinstance(row, Process) and row.user):
            show_notice(self, "User: put the cursor on a process whose user is known")
            return
        self.page.user = row.user if self.page.user is None else None
        self._owner.draw()

    def action_raw(self) -> None:
        """Show all facts of the row as JSON."""
        if text := json_text(self.table.chosen):
            from cockpit.ui.screens.dialogs import TextScreen

            self.app.push_screen(TextScreen("JSON", text))
        else:
            show_notice(self, "JSON: put the cursor on a row that stands for something in the cluster")

    def action_copy(self) -> None:
        """Copy the pid, id or path of the row to the terminal's clipboard."""
        texts = [clean(clipboard_text(row)) for row in self.table.chosen]
        if texts:
            self.app.copy_to_clipboard("\n".join(texts))
            show_notice(self, f"Copied {texts[0]}" + (f" and {len(texts) - 1} more" if len(texts) > 1 else ""))
        else:
            show_notice(self, "Copy: there is no row here")

    def action_export(self) -> None:
        """Write the snapshot as JSON to a file in the current directory."""
        if self.refuses("export", "Export"):
            return
        from cockpit.report.status import export

        try:
            show_notice(self, f"Snapshot written to {export(self.view.snapshot, self.view.now)}")
        except OSError as error:
            show_notice(self, f"Export failed: {error}", "error")

    def action_faults(self) -> None:
        """Show failing sources and old data."""
        self.open([*self.pages[:1], FaultsPage()])

    def take_screenshot(self) -> None:
        """Write the screen as an SVG picture into the current directory, once the palette has disappeared."""
        if self._services.config.readonly:
            show_notice(self, "Screenshot: not possible with --readonly, which writes no file", "warning")
        else:
            self.set_timer(SCREENSHOT_DELAY_S, self._write_screenshot)

    def _write_screenshot(self) -> None:
        path = Path(f"cockpit-{time.strftime('%Y%m%d-%H%M%S', time.localtime(self.view.now))}.svg")
        try:
            write_new(path, self.app.export_screenshot(title="cockpit"))
            show_notice(self, f"Screenshot written to {path.resolve()}")
        except OSError as error:
            show_notice(self, f"Screenshot failed: {error}", "error")
