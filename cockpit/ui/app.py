"""The program: it shows the newest snapshot as the page that is open, and gives each key its meaning."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual import events, work
from textual.app import ComposeResult, SystemCommand
from textual.binding import BindingsMap, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Footer, Input, Label

from cockpit.actions.table import ACTS, find_act
from cockpit.config import Address, Config
from cockpit.history import AT_ONCE, History
from cockpit.lookout import Lookout
from cockpit.model import Finding, Process, Snapshot
from cockpit.ui.acts import Acts
from cockpit.ui.alarm import Alarm, ring
from cockpit.ui.bug import bug
from cockpit.ui.dialogs import Chooser, TextPage
from cockpit.ui.filter import Filter
from cockpit.ui.header import Header, trail
from cockpit.ui.help import help_text
from cockpit.ui.keys import ACT_BINDINGS, BINDINGS, NEEDS, PAGES, offered
from cockpit.ui.logs import LogPage
from cockpit.ui.marks import Tone
from cockpit.ui.pages.actors import Actors
from cockpit.ui.pages.details import Detail, about, detail_of
from cockpit.ui.pages.faults import Faults
from cockpit.ui.pages.memory import memory_of
from cockpit.ui.pages.nodes import NodeDetail
from cockpit.ui.pages.overview import Overview
from cockpit.ui.pages.page import Page
from cockpit.ui.pages.processes import Processes
from cockpit.ui.palette import Palette, act_commands, key_commands, page_commands
from cockpit.ui.plan import Doer
from cockpit.ui.shelving import Shelving
from cockpit.ui.table import Table
from cockpit.ui.theme import DEFAULT_THEME, hang_up, variable_defaults, wear
from cockpit.ui.view import Index, View

if TYPE_CHECKING:
    from cockpit.ui.recover import Maker

ASKED_AGAIN = 20.0
LATER = 0.3
"""Seconds after which a large cluster's snapshot is put into the past, when it has been drawn: a key must not wait for both."""
LEAST = (60, 15)
"""Below this there is no room for a row that means anything."""


class Cockpit(Shelving):
    """One screen. All pages are drawn by one table; what is open is a stack of them."""

    TITLE = "cockpit"
    CSS = """
    Screen { layers: base; background: $background; }
    #small { display: none; width: 100%; height: 100%; content-align: center middle; }
    Screen.small Header, Screen.small Footer, Screen.small Vertical { display: none; }
    Screen.small #small { display: block; }
    Footer { background: $panel; }
    Toast { max-width: 100%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = list(BINDINGS)

    def __init__(
        self,
        config: Config,
        lookout: Callable[[Callable[[Snapshot], None]], Lookout],
        *,
        door: Callable[[Lookout], Doer] | None = None,
        runbook: Maker | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Without a door there is no act: no key, no name, nothing that could be done."""
        super().__init__()
        self.config, self.clock = config, clock
        self.history = History()
        self.snapshot = Snapshot()
        self.shown = Snapshot()
        self.frozen_at: float | None = None
        self.pages: list[Page] = [Overview()]
        self.lookout = lookout(self.take)
        self.lookout.choose = self.choose
        self.acts = None if door is None else Acts(self, door(self.lookout), runbook, ascii=config.ascii)
        if self.acts:
            self._bindings = BindingsMap.merge([BindingsMap(ACT_BINDINGS), self._bindings])
        self._index = Index(self.shown)
        self.hidden: set[str] = set()
        """Keys of the findings that somebody has hidden, until they end."""
        self.process_ends = False
        """Right after the screen, so that no thread need be waited for."""
        self._alarm = Alarm()
        self._meant: object = None

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our own colours, for themes that don't have them."""
        return variable_defaults(self.current_theme)

    def compose(self) -> ComposeResult:
        """Header, table, filter, footer."""
        table = Table()
        yield Header()
        with Vertical():
            yield table
        yield Filter(table)
        yield Footer(show_command_palette=False, compact=True)
        yield Label(Content(f"cockpit needs {LEAST[0]}x{LEAST[1]}"), id="small")

    def on_mount(self) -> None:
        """Begin to look."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._end, 128 + signal.SIGTERM)
        self._warn([wear(self, self.config.theme or DEFAULT_THEME)])
        self.table.focus()
        self.set_timer(0.5, lambda: self._warn(hang_up(self)))  # when the first frame has been drawn
        self.run_worker(self.lookout.run(), name="lookout", exit_on_error=True)
        self.set_interval(2.0, self._tick)

    # Facts

    @property
    def page(self) -> Page:
        """What is open."""
        return self.pages[-1]

    def take(self, snapshot: Snapshot) -> None:
        """A new snapshot: remembered always, drawn unless paused."""
        self.snapshot = snapshot
        if len(snapshot.nodes or ()) > AT_ONCE:
            self.set_timer(LATER, partial(self.history.record, snapshot))
        else:
            self.history.record(snapshot)
        self.hidden &= {finding.key for finding in snapshot.findings}
        new = self._alarm.new(snapshot, self.hidden)
        if new and self._driver and not self.config.quiet:
            self._driver.write(ring(new, os.environ, ascii=self.config.ascii))
        if self.frozen_at is None and self.is_running:
            self.call_later(self.draw)

    def draw(self, *, fresh: bool = False) -> None:
        """Show the open page as of the newest snapshot, or of the one at which the screen was paused."""
        if not self.screen_stack:
            return
        if self.frozen_at is None and self.shown is not self.snapshot:
            self.shown, self._index = self.snapshot, Index(self.snapshot, self._index, self.hidden)
        view = self.view
        with self.batch_update():
            self.screen_stack[0].query_one(Header).show(view, trail(self.pages, self.size.width, self._notes(), ascii=self.config.ascii))
            self.table.show(self.page.sections(view), view, fresh=fresh)
        self.on_table_moved()

    @property
    def view(self) -> View:
        """What pages are drawn from now."""
        now = self.frozen_at or self.clock()
        size, ascii = self.size, self.config.ascii  # noqa: A001 what the flag is called
        return View(self.shown, self._index, self.history, now, size.width, ascii, size.height, bool(self.acts), self.shelf)

    def _tick(self) -> None:
        """Ages grow on the screen though nothing is heard; what was asked for once is asked for again while it is shown."""
        if self.frozen_at is None and self.clock() - self.shown.taken > 3:
            self.draw()
        if isinstance(self.page, NodeDetail) and self.clock() - (self.page.asked_at or self.clock()) > ASKED_AGAIN:
            self._ask_of(self.page)
        self.keep_shelf()

    def _notes(self) -> Iterator[tuple[str, Tone]]:
        """What is unusual about what is shown."""
        if self.frozen_at is not None:
            yield "PAUSED", "warn"
        if self.page.tree:
            yield "tree", "accent"
        if self.config.readonly:
            yield "read-only", "dim"
        if self.table.needle:
            yield f"filter {'not ' if self.table.inverted else ''}{self.table.needle}", "accent"

    # Where we are

    def action_page(self, number: int) -> None:
        """Open one of the pages."""
        self._open([PAGES[number]()])

    def _open(self, pages: list[Page]) -> None:
        self.pages = pages
        self.table.needle = ""
        self.refresh_bindings()
        self.keep_shelf()
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
        await page.ask(self.lookout.node_processes, self.clock())
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
        else:
            self.query_one(Filter).open()

    def action_keep_filter(self) -> None:
        """Enter in a filter: go back to the rows."""
        if isinstance(self.screen, LogPage):
            self.screen.leave_filter()
        else:
            self.query_one(Filter).close()
            self.draw()

    def on_table_moved(self) -> None:
        """Other keys mean something under the cursor."""
        if not self.screen_stack:  # it is ending
            return
        means = tuple(bool(self.chosen_of(kind)) for kind in NEEDS.values())
        before, self._meant = self._meant, (self.acts and self.acts.meant(), means)
        if before != self._meant:
            self.refresh_bindings()

    def action_hide(self) -> None:
        """Hide a finding until it ends; one that is hidden is shown again."""
        keys = {finding.key for finding in self.chosen_of(Finding)}
        self.hidden ^= keys
        self.table.untag({row.key for row in self.table.chosen})
        self._index = Index(self.shown, self._index, self.hidden)
        if isinstance(self.page, Detail) and self.page.thing.key in keys:
            self._open(self.pages[:-1])
        self.draw()

    def action_act(self, act: str) -> None:
        """Show the plan of an act."""
        if self.acts:
            self.acts.begin(find_act(act))

    def action_explain(self, key: str) -> None:
        """Say why an act's key means nothing here."""
        if self.acts:
            self.acts.explain(key)

    def action_tree(self) -> None:
        """List or tree."""
        if self.page.can_tree:
            self.page.tree = not self.page.tree
            self.draw()
        else:
            self.say("Actors and Processes can be shown as a tree")

    def action_memory(self) -> None:
        """The host memory of the node under the cursor, or of the one that is open."""
        if page := memory_of(self.page, self.table.selected):
            self._open([*self.pages, page])
        else:
            self.say("Memory is a node's: put the cursor on one")

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
        self.keep_shelf(now=self.shelf is not None)
        self.say("Asked again")

    def action_interval(self, step: int) -> None:
        """Look oftener or less often at this host."""
        self.say(f"Looking at this host every {self.lookout.pace(step):g} s; Ray itself looks every 5 s")

    def action_help(self) -> None:
        """Every key there is."""
        self.push_screen(TextPage("Help", help_text((self, self.table), ACTS if self.acts else ())))

    def action_faults(self) -> None:
        """All that can't be believed."""
        self._open([*self.pages[:1], Faults()])

    # More about things

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
            await page.ask(self.lookout.dead_actors)
            self.draw()

    @work
    async def choose(self, addresses: tuple[Address, ...]) -> None:
        """Several live sessions: only a person knows which."""
        chosen = await self.push_screen_wait(Chooser(addresses))
        if chosen is not None:
            self.lookout.follow(chosen)

    # Around it

    def _warn(self, mistakes: Iterable[str | None]) -> None:
        for mistake in mistakes:
            if mistake is not None:
                self.say(mistake, "warning")

    def action_command_palette(self) -> None:
        """Everything by its name."""
        if not isinstance(self.screen, Palette):
            self.push_screen(Palette(id="--command-palette"))

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """The palette: pages, acts and keys, then Textual's own."""
        yield from page_commands(self.action_page)
        yield from act_commands(self.acts.begin) if self.acts else ()
        yield from key_commands(self.BINDINGS, self.run_action)
        yield from (command for command in super().get_system_commands(screen) if command.title in ("Theme", "Quit", "Screenshot"))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys that mean nothing here and now are not offered."""
        over = "page" if len(self.screen_stack) == 1 else "log" if isinstance(self.screen, LogPage) else "text"
        typing = isinstance(self.focused, Input)
        filtering = typing and (over == "log" or getattr(self.focused, "id", None) == "filter")
        if not offered(action, self.page, over, typing=typing, filtering=filtering, readonly=self.config.readonly):
            return False
        if action in NEEDS and over == "page":
            return bool(self.chosen_of(NEEDS[action]))
        return action != "act" or (self.acts is not None and self.acts.means(str(parameters[0])))

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
        self._end()

    def _end(self, code: int = 0) -> None:
        """And give the terminal back."""
        self.lookout.close()
        if self.process_ends and self._driver is not None:
            # Textual would wait two tenths of a second for the thread that reads keys.
            vars(self._driver)["_key_thread"] = None
        self.exit(return_code=code)
