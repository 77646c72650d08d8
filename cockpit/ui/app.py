"""The program: it shows the newest snapshot as the page that is open, and gives each key its meaning."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import msgspec
from rich.text import Text
from textual import events, work
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Footer, Input, Label

from cockpit.config import Address, Config
from cockpit.history import History
from cockpit.lookout import Lookout
from cockpit.model import Job, Process, Snapshot
from cockpit.sources.source import SourceError
from cockpit.status import export
from cockpit.text import clean
from cockpit.ui.bug import bug
from cockpit.ui.dialogs import Chooser, TextPage
from cockpit.ui.header import Header
from cockpit.ui.help import help_text
from cockpit.ui.keys import BINDINGS, IN_PALETTE, PAGES, offered
from cockpit.ui.logs import LogPage
from cockpit.ui.marks import Piece
from cockpit.ui.pages.actors import Actors
from cockpit.ui.pages.details import about, copied, detail_of
from cockpit.ui.pages.faults import Faults
from cockpit.ui.pages.nodes import NodeDetail
from cockpit.ui.pages.overview import Overview
from cockpit.ui.pages.page import Page
from cockpit.ui.pages.processes import Processes
from cockpit.ui.table import Table
from cockpit.ui.theme import find_theme, load_themes, own, shipped, variable_defaults
from cockpit.ui.view import Index, View

DEFAULT_THEME = "midnight"
ASKED_AGAIN = 20.0
LEAST = (60, 15)
"""Below this there is no room for a row that means anything."""


class Cockpit(App[None]):
    """One screen. All pages are drawn by one table; what is open is a stack of them."""

    TITLE = "cockpit"
    CSS = """
    Screen { layers: base; background: $background; }
    #filter { height: 1; border: none; padding: 0 1; dock: bottom; margin-bottom: 1; display: none; background: $panel; }
    #small { display: none; width: 100%; height: 100%; content-align: center middle; }
    Screen.small Header, Screen.small Footer, Screen.small Vertical { display: none; }
    Screen.small #small { display: block; }
    Footer { background: $panel; }
    Toast { max-width: 100%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = list(BINDINGS)

    def __init__(
        self, config: Config, lookout: Callable[[Callable[[Snapshot], None]], Lookout], *, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__()
        self.config, self.clock = config, clock
        self.history = History()
        self.snapshot = Snapshot()
        self.shown = Snapshot()
        self.frozen_at: float | None = None
        self.pages: list[Page] = [Overview()]
        self.lookout = lookout(self.take)
        self.lookout.choose = self.choose
        self._index = Index(self.shown)

    def _wear(self, wanted: str) -> None:
        """Put on one theme; the others are read when the first frame has been drawn."""
        theme, mistake = find_theme(wanted)
        if theme is not None:
            self.register_theme(theme)
        if wanted in self.available_themes:
            self.theme = wanted
        elif wanted != DEFAULT_THEME:
            self.say(mistake, "warning")
            self._wear(DEFAULT_THEME)

    def _hang_up_themes(self) -> None:
        themes, mistakes = load_themes((shipped(), own()))
        for theme in themes:
            if theme.name != self.theme:
                self.register_theme(theme)
        for mistake in mistakes:
            self.say(str(mistake), "warning")

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our own colours, for themes that don't have them."""
        return variable_defaults(self.current_theme)

    def compose(self) -> ComposeResult:
        """Header, table, filter, footer."""
        yield Header()
        with Vertical():
            yield Table()
        yield Input(id="filter", placeholder="filter; ! first: without it; Esc clears", compact=True, select_on_focus=False)
        yield Footer(show_command_palette=False, compact=True)
        yield Label(Content(f"cockpit needs {LEAST[0]}x{LEAST[1]}"), id="small")

    def on_mount(self) -> None:
        """Begin to look."""
        self._wear(self.config.theme or DEFAULT_THEME)
        self.table.focus()
        self.set_timer(0.5, self._hang_up_themes)
        self.run_worker(self.lookout.run(), name="lookout", exit_on_error=True)
        self.set_interval(2.0, self._tick)

    # Facts

    @property
    def table(self) -> Table:
        """The one table."""
        return self.screen_stack[0].query_one(Table)

    @property
    def page(self) -> Page:
        """What is open."""
        return self.pages[-1]

    def take(self, snapshot: Snapshot) -> None:
        """A new snapshot: remembered always, drawn unless paused."""
        self.snapshot = snapshot
        self.history.record(snapshot)
        if self.frozen_at is None and self.is_running:
            self.call_later(self.draw)

    def draw(self, *, fresh: bool = False) -> None:
        """Show the open page as of the newest snapshot, or of the one at which the screen was paused."""
        if not self.screen_stack:
            return
        if self.frozen_at is None and self.shown is not self.snapshot:
            self.shown, self._index = self.snapshot, Index(self.snapshot)
        view = self.view
        with self.batch_update():
            self.screen_stack[0].query_one(Header).show(view, self._where())
            self.table.show(self.page.sections(view), view, fresh=fresh)

    @property
    def view(self) -> View:
        """What pages are drawn from now."""
        now = self.frozen_at or self.clock()
        return View(self.shown, self._index, self.history, now, self.size.width, self.config.ascii)

    def _tick(self) -> None:
        """Ages grow on the screen though nothing is heard; what was asked for once is asked for again while it is shown."""
        if self.frozen_at is None and self.clock() - self.shown.taken > 3:
            self.draw()
        if isinstance(self.page, NodeDetail) and self.clock() - (self.page.asked_at or self.clock()) > ASKED_AGAIN:
            self._ask_of(self.page)

    def _where(self) -> tuple[Piece, ...]:
        """The line of pages: which is open, and what is unusual about it."""
        pieces: list[Piece] = []
        for number, page in enumerate(PAGES, 1):
            here = isinstance(self.pages[0], page)
            short = page.title if self.size.width >= 100 else page.title[:9]
            pieces.append((f" {number} {short} ", "here" if here else "dim"))  # type: ignore[arg-type]
        pieces += [(f" {'>' if self.config.ascii else '›'} {page.heading}", "bold") for page in self.pages[1:]]
        pieces += [("  PAUSED", "warn")] if self.frozen_at is not None else []
        pieces += [("  tree", "accent")] if self.page.tree else []
        pieces += [("  read-only", "dim")] if self.config.readonly else []
        if self.table.needle:
            pieces.append((f"  filter {'not ' if self.table.inverted else ''}{self.table.needle}", "accent"))
        return tuple(pieces)

    # Where we are

    def action_page(self, number: int) -> None:
        """Open one of the pages."""
        self._open([PAGES[number]()])

    def _open(self, pages: list[Page]) -> None:
        self.pages = pages
        self.table.needle = ""
        self.refresh_bindings()
        self.draw(fresh=True)

    def on_table_opened(self, message: Table.Opened) -> None:
        """Enter on a row."""
        page = detail_of(message.row)
        if page is not None:
            self._open([*self.pages, page])
            if isinstance(page, NodeDetail):
                self._ask_of(page)

    @work(group="node", exclusive=True)
    async def _ask_of(self, page: NodeDetail) -> None:
        """Ray lists its own processes of a node that no probe looks at; it is dear, and asked for only while somebody wants to see it."""
        if page.node.id is None or page.node.probed:
            return
        page.asked_at = self.clock()
        try:
            page.asked = await self.lookout.node_processes(page.node.id)
        except SourceError as error:
            page.asked_said = str(error)
        self.draw()

    async def action_back(self) -> None:
        """Clear the filter, else leave the detail; never the program."""
        if self.table.needle:
            self.table.sift("")
            self.draw()
        elif len(self.pages) > 1:
            self._open(self.pages[:-1])

    def action_filter(self) -> None:
        """Type what rows must have."""
        if isinstance(self.screen, LogPage):
            self.screen.open_filter()
            return
        field = self.query_one("#filter", Input)
        field.display = True
        field.value = ("!" if self.table.inverted else "") + self.table.needle
        self.screen.set_focus(field)  # now, not after the next refresh: what is typed ahead belongs to it

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter as it is typed."""
        text = event.value
        self.table.sift(text.removeprefix("!"), inverted=text.startswith("!"))

    def action_keep_filter(self) -> None:
        """Enter in a filter: go back to the rows."""
        if isinstance(self.screen, LogPage):
            self.screen.leave_filter()
            return
        self.query_one("#filter", Input).display = False
        self.screen.set_focus(self.table)
        self.draw()

    def on_key(self, event: Any) -> None:
        """Esc in the filter clears it."""
        field = self.query_one("#filter", Input) if len(self.screen_stack) == 1 else None
        if field is not None and field.has_focus and event.key == "escape":
            event.stop()
            field.value = ""
            self.action_keep_filter()

    def action_tree(self) -> None:
        """List or tree."""
        if self.page.can_tree:
            self.page.tree = not self.page.tree
            self.draw()
        else:
            self.say("Actors and Processes can be shown as a tree")

    def action_user(self) -> None:
        """Only the processes of the user of this row; again: of everybody."""
        row = about(self.table.selected)
        if self.page.user is not None:
            self.page.user = None
        elif isinstance(self.page, Processes) and isinstance(row, Process) and row.user:
            self.page.user = row.user
        self.draw()

    def action_pause(self) -> None:
        """Stop the picture, not the looking."""
        self.frozen_at = self.clock() if self.frozen_at is None else None
        self.draw()

    def action_refresh(self) -> None:
        """Ask everything again now."""
        self.lookout.refresh()
        self.say("Asked again")

    def action_interval(self, step: int) -> None:
        """Look oftener or less often at this host."""
        self.say(f"Looking at this host every {self.lookout.pace(step):g} s; Ray itself looks every 5 s")

    def action_help(self) -> None:
        """Every key there is."""
        self.push_screen(TextPage("Help", help_text((self, self.table))))

    def action_faults(self) -> None:
        """All that can't be believed."""
        self._open([*self.pages[:1], Faults()])

    # More about a thing

    def action_raw(self) -> None:
        """The facts under the cursor, as they are."""
        rows = [about(row) or row for row in self.table.chosen]
        facts = [row for row in rows if isinstance(row, msgspec.Struct)]
        if facts:
            raw = msgspec.json.format(msgspec.json.encode(facts[0] if len(facts) == 1 else facts), indent=2).decode()
            self.push_screen(TextPage("JSON", raw))

    def action_copy(self) -> None:
        """The name of what is under the cursor, to the terminal's clipboard."""
        texts = [clean(copied(row)) for row in self.table.chosen]
        if texts:
            self.copy_to_clipboard("\n".join(texts))
            self.say(f"Copied {texts[0]}" + (f" and {len(texts) - 1} more" if len(texts) > 1 else ""))

    def action_export(self) -> None:
        """Everything known now, into a file here."""
        try:
            self.say(f"Written to {export(self.shown, self.clock())}")
        except OSError as error:
            self.say(f"Nothing was written: {error}", "error")

    def action_log(self) -> None:
        """Follow the log of the job under the cursor."""
        row = about(self.table.selected)
        job = row if isinstance(row, Job) else self._job_of(row)
        if job is None:
            self.say("Nothing here belongs to a job; the log is that of a job")
            return
        self.push_screen(LogPage(job, self.lookout.follow_log(job), ascii=self.config.ascii))

    def _job_of(self, row: Any) -> Job | None:
        return self._index.jobs.get(getattr(row, "job", None) or "")

    @work(group="dead", exclusive=True)
    async def action_dead(self) -> None:
        """Dead actors with their cause, asked for only now: there may be a hundred thousand."""
        page = self.page
        if not isinstance(page, Actors):
            self.say("Dead actors are on the Actors page")
            return
        page.wants_dead = not page.wants_dead
        self.draw()
        if page.wants_dead:
            try:
                page.dead = await self.lookout.dead_actors()
            except SourceError as error:
                page.dead_said = str(error)
            self.draw()

    @work(group="environment", exclusive=True)
    async def action_environment(self) -> None:
        """The environment of the process under the cursor, secrets hidden."""
        row = about(self.table.selected)
        if not isinstance(row, Process):
            self.say("An environment belongs to a process")
            return
        try:
            lines = await self.lookout.environment(row)
        except SourceError as error:
            self.say(str(error), "warning")
            return
        self.push_screen(TextPage(f"Environment of {row.pid} on {row.host}", "\n".join(lines)))

    @work
    async def choose(self, addresses: tuple[Address, ...]) -> None:
        """Several live sessions: only a person knows which."""
        chosen = await self.push_screen_wait(Chooser(addresses))
        if chosen is not None:
            self.lookout.follow(chosen)

    # Around it

    def say(self, text: str, severity: Any = "information") -> None:
        """The only way to a toast: text from a cluster is never markup."""
        self.notify(clean(text), severity=severity, markup=False, timeout=6)

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """The palette: pages and keys, then Textual's own."""
        for number, page in enumerate(PAGES):
            yield SystemCommand(page.title, f"Open page {number + 1}", lambda number=number: self.action_page(number))
        for binding in self.BINDINGS:
            if isinstance(binding, Binding) and binding.action in IN_PALETTE:
                yield SystemCommand(
                    binding.description, f"Key {binding.key.split(',')[0]}", lambda action=binding.action: self.run_action(action)
                )
        yield from (command for command in super().get_system_commands(screen) if command.title in ("Theme", "Quit", "Screenshot"))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 Textual asks so
        """Keys that mean nothing here and now are not offered."""
        over = "page" if len(self.screen_stack) == 1 else "log" if isinstance(self.screen, LogPage) else "text"
        typing = isinstance(self.focused, Input)
        filtering = typing and (over == "log" or getattr(self.focused, "id", None) == "filter")
        return offered(action, self.page, over, typing=typing, filtering=filtering, readonly=self.config.readonly)

    def on_resize(self, event: events.Resize) -> None:
        """Room has changed."""
        self.screen_stack[0].set_class(event.size.width < LEAST[0] or event.size.height < LEAST[1], "small")
        self.draw()

    def _fatal_error(self) -> None:
        """A bug, in one sentence: Textual's own picture of it would show every value on the way, a token among them."""
        self.lookout.close()
        self._exit_renderables.append(Text(bug(sys.exc_info()[1])))
        self._close_messages_no_wait()

    async def action_quit(self) -> None:
        """End at once: nothing that hangs may hold it up."""
        self.lookout.close()
        self.exit()
