"""The program: it draws the open page from the newest snapshot and says what each key does."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events, work
from textual.app import ComposeResult, SystemCommand
from textual.binding import BindingType
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, Label

from cockpit.acts.table import ACTS, find_operation
from cockpit.bug import bug
from cockpit.clock import CLOCK
from cockpit.config.settings import Config
from cockpit.config.thresholds import THREAD_MIN_NODES
from cockpit.findings.followed_ray import replaced_words
from cockpit.model import Snapshot
from cockpit.monitor.history import History
from cockpit.monitor.monitor import ClusterMonitor
from cockpit.text import clean
from cockpit.ui.acts import Acts
from cockpit.ui.alarm import Alarm, alarm_sequence
from cockpit.ui.filter import Filter, FilterLine
from cockpit.ui.footer import FOOTER_LINES, Footer
from cockpit.ui.header import Header, page_notes
from cockpit.ui.keys import (
    ACT_BINDINGS,
    ACTION_TARGETS,
    BINDINGS,
    PAST_BINDINGS,
    PAST_ORDER,
    WHY_NOT_BINDINGS,
    is_offered,
    rank_key,
    why_not,
)
from cockpit.ui.page_switches import SwitchingApp
from cockpit.ui.pages.details import detail_of
from cockpit.ui.pages.findings import FaultsPage
from cockpit.ui.pages.nodes import NodePage
from cockpit.ui.pages.overview import OverviewPage
from cockpit.ui.pane import Body, is_large
from cockpit.ui.table import Table
from cockpit.ui.textual_internals import AsciiDriver
from cockpit.ui.theme import DEFAULT_THEME, choose_signs, expect_theme, register_theme, register_themes, variable_defaults
from cockpit.ui.time_line import TimeLine
from cockpit.ui.view import Index

if TYPE_CHECKING:
    from cockpit.acts.executor import ActionExecutor
    from cockpit.recording.recorder import Recorder
    from cockpit.ui.recover_dialog import RunbookFactory

NODE_PROCESSES_INTERVAL_S = 20.0
"""Seconds after which the processes of an open node without a probe are asked for again."""
SETTLE_DELAY_S = 0.5
"""Seconds after which the first frame has been drawn."""
AGE_REDRAW_AFTER_S = 6.0
"""Seconds after which ages are drawn although there is no new snapshot: longer than the pause between two of a large cluster."""
MIN_SCREEN_SIZE = (60, 15)
"""Columns and lines; a smaller terminal has no room for a useful row."""


class Cockpit(SwitchingApp):
    """The application. One table draws all pages; `pages` is the stack of open ones."""

    TITLE = "cockpit"
    CSS = """
    Screen { layers: base over; overflow: hidden; background: $background; }
    #small { layer: over; width: 100%; height: 100%; content-align: center middle; background: $background; }
    Toast { max-width: 100%; padding: 0 1; }
    Screen.past ToastRack { margin-bottom: 2; }
    ActDialog Toast { display: none; }
    .ascii Toast, .ascii OptionList { border: none; }
    .ascii AddressDialog Vertical, .ascii NameDialog Vertical, .ascii #dialog { border: ascii $primary; }
    """
    BINDINGS: ClassVar[list[BindingType]] = list(BINDINGS)
    COMMANDS: ClassVar[set[Any]] = {lambda: import_module("cockpit.ui.palette").Commands}
    greeting: str | None = None
    """A sentence that the screen begins with."""

    def __init__(
        self,
        config: Config,
        monitor: Callable[[Callable[[Snapshot], None]], ClusterMonitor],
        *,
        make_executor: Callable[[ClusterMonitor], ActionExecutor] | None = None,
        runbook: RunbookFactory | None = None,
        clock: Callable[[], float] = CLOCK,
    ) -> None:
        """Without `make_executor` there are no acts: no keys, no palette entries."""
        super().__init__()
        self._first_theme = register_theme(self, config.theme or DEFAULT_THEME)
        expect_theme(self, self._first_theme[0])
        self.config, self.clock = config, clock
        choose_signs(self, ascii=config.ascii)
        if config.ascii:
            self.driver_class = AsciiDriver
        self.snapshot = Snapshot()
        self.drawn_snapshot = Snapshot()
        self.frozen_at: float | None = None
        self.pages = [OverviewPage()]
        self.monitor = monitor(self.take)
        self.history = History(self.monitor.poller.tracker.memory, self.monitor.poller.usage)
        self.acts = None if make_executor is None else Acts(self, partial(make_executor, self.monitor), runbook)
        self.add_bindings(ACT_BINDINGS if self.acts else (), (*PAST_BINDINGS, *WHY_NOT_BINDINGS))
        self._index = self._next_index = Index(self.drawn_snapshot)
        self.recorder: Recorder | None = None
        self.after_first_frame: Callable[[], object] = lambda: None
        self._alarm = Alarm()
        self._key_meanings: object = None

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our own colours, for themes that don't have them."""
        return variable_defaults(self.current_theme)

    def compose(self) -> ComposeResult:
        yield Header()
        yield Body(table := Table())
        yield TimeLine()
        yield FilterLine(Label("/"), Filter(table))
        yield Footer(self._key_ranks)
        yield Label(Content(f"cockpit needs a terminal of at least {MIN_SCREEN_SIZE[0]}x{MIN_SCREEN_SIZE[1]}"), id="small")

    def on_mount(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._end, 128 + signal.SIGTERM)
        self.handle_stop_signals()
        self.theme, mistake = self._first_theme
        self._warn([mistake])
        self.table.focus()
        self.set_timer(SETTLE_DELAY_S, self._start_deferred_work)
        if self.follows and self.monitor.is_started:
            self.snapshot = self.monitor.poller.join_early()
            self.call_after_refresh(self._begin_to_follow)  # what is published now would be drawn before there is any room for it
        elif self.follows:
            self._begin_to_follow()
        else:
            self.go_to_end()
        self.set_interval(2.0, self._tick)
        if self.greeting:
            self.say(self.greeting)

    def _begin_to_follow(self) -> None:
        """The monitor may have looked for a while."""
        self.monitor.choice.choose = self.choose
        if self.monitor.open_choices:
            self.choose(self.monitor.open_choices)
        self.run_worker(self.monitor.run(), name="monitor", exit_on_error=True)

    def _start_deferred_work(self) -> None:
        """What can wait until the first frame has been drawn."""
        self._warn(register_themes(self))
        self.after_first_frame()

    # Facts

    def take(self, snapshot: Snapshot) -> None:
        """Record a new snapshot, and draw it unless the display is paused."""
        if snapshot.cluster.replaced not in (None, self.snapshot.cluster.replaced) and self.is_running:
            self.say(replaced_words(snapshot.cluster), "warning")
        self.snapshot = snapshot
        if self._next_index.snapshot is not snapshot:
            self.look_up(snapshot)
        self.hidden.forget_cleared(snapshot.findings)
        new = self._alarm.take_new(snapshot, self.hidden.keys)
        if new and not self.config.quiet:
            self.write_to_terminal(alarm_sequence(new, os.environ, ascii=self.config.ascii))
        if self.frozen_at is None and self.is_running:
            self.call_later(self.draw)

    def look_up(self, snapshot: Snapshot) -> None:
        """What takes longest of drawing a snapshot. Of a large cluster a thread may do it, before the snapshot is published."""
        self.history.record(snapshot)
        index = Index(snapshot, self._index, self.hidden.keys)
        if len(snapshot.nodes or ()) > THREAD_MIN_NODES:
            index.look_up_again(self._index)
        self._next_index = index

    def _find_index(self, snapshot: Snapshot) -> Index:
        """As it was made ahead, unless the user has hidden something since."""
        index = self._next_index
        return index if index.is_of(snapshot, self.hidden.keys) else Index(snapshot, index, self.hidden.keys)

    def draw(self) -> None:
        """Show the open page as of the newest snapshot, or of the one at which the screen was paused."""
        if not (self.is_running and self.screen_stack):
            return
        if self.frozen_at is None and self.drawn_snapshot is not self.snapshot:
            self.drawn_snapshot, self._index = self.snapshot, self._find_index(self.snapshot)
        view = self.view
        with self.batch_update():
            recorded = self.recorder.state_of(self.drawn_snapshot.cluster) if self.recorder else None
            notes = page_notes(self.page, self.table, recorded, time=self.past_note, readonly=self.config.readonly)
            room = self.size.height - self.screen_stack[0].query_one(Header).show(view, self.pages, notes) - FOOTER_LINES
            self.table.show(self.page.sections(view), view, self.page.heading, expected_room=room)
            is_first = len(self.pages) == 1
            self.body.show(lends=is_first, may_cover=is_first and not isinstance(self.page, OverviewPage))
            self.draw_time_line()
        self.on_table_moved()

    def _tick(self) -> None:
        """Redraw ages when no snapshot comes, and poll again what the open page has asked for."""
        if not self.is_running:  # it is being closed: widgets go before timers
            return
        if self.is_past or (self.frozen_at is None and self.clock() - self.drawn_snapshot.taken > AGE_REDRAW_AFTER_S):
            self.draw()
        if isinstance(self.page, NodePage) and self.clock() - (self.page.asked_at or self.clock()) > NODE_PROCESSES_INTERVAL_S:
            self._ask_processes(self.page)
        self.refresh_presets()
        self.refresh_log_tails()

    async def on_event(self, event: events.Event) -> None:
        """Every key and click passes here."""
        if isinstance(event, events.Key) and not event.is_forwarded and not self._admits(event):
            return
        await super().on_event(event)

    def _admits(self, key: events.Key) -> bool:
        """A dialog that acts takes no key that was not meant for what it shows now."""
        admits = getattr(self.screen, "admits", None)  # its class is imported with the first act
        return admits is None or bool(admits(key))

    # Where we are

    def on_table_opened(self, message: Table.Opened) -> None:
        if (page := detail_of(message.row)) is not None:
            self._open_deeper(page)
            if isinstance(page, NodePage):
                self._ask_processes(page)
        else:
            self.say("Open: there is nothing more to show for this row")

    @work(group="node", exclusive=True)
    async def _ask_processes(self, page: NodePage) -> None:
        if not self.is_past:
            await page.ask(self.monitor.node_processes, self.clock())
            self.draw()

    async def action_back(self) -> None:
        """Clear the filter, or go back one page, then from the past to now; never quits."""
        if self.table.needle:
            self.table.filter_rows("")
            self.draw()
        elif len(self.pages) > 1:
            self._open(self.pages[:-1])
        elif self.is_past and self.follows:
            self.action_now()

    def action_filter(self) -> None:
        """Show only rows that contain a text; !text: rows without it."""
        self.query_one(Filter).open()

    def action_keep_filter(self) -> None:
        """In the filter: keep it and go back to the rows."""
        self.query_one(Filter).close()
        self.draw()

    def on_table_moved(self) -> None:
        """Another row is under the cursor: other keys may apply."""
        if not self.screen_stack:  # it is ending
            return
        kinds = {type(thing) for thing in self.chosen_of(object)}
        acts = self.acts and (self.acts.meant(), self.acts.find_mending_acts())
        before, self._key_meanings = self._key_meanings, (acts, kinds, self._can_open)
        if before != self._key_meanings:
            self.refresh_bindings()
        self.refresh_log_tails()

    def on_table_tagged(self) -> None:
        """How many there are stands above the page."""
        self.draw()

    def _key_ranks(self) -> Callable[[str], int | None]:
        rank = partial(rank_key, chosen=self.chosen_of(object), mending=self.acts.find_mending_acts() if self.acts else ())
        here: dict[str, int | None] = {} if is_large(self.size) else {"pane": None}
        if not self._can_open:
            here["open"] = None
        if self.is_past:
            here |= {action: place - len(PAST_ORDER) for place, action in enumerate(PAST_ORDER)}
        if self.drawn_snapshot.cluster.reachable is False:
            here["address"] = 0
        return lambda action: here[action] if action in here else rank(action)

    @property
    def _can_open(self) -> bool:
        row = self.table.selected
        return row is not None and detail_of(row) is not None

    def action_act(self, act: str) -> None:
        """Show the plan of an action."""
        if self.acts:
            self.acts.begin(find_operation(act))

    def action_explain(self, key: str) -> None:
        """Show why the key of an action does nothing here."""
        if self.acts:
            self.acts.explain(key)

    def action_why_not(self, action: str, label: str) -> None:
        """Show why a key does nothing here."""
        readonly = self.config.readonly_reason if self.config.readonly else None if self.acts else "this is a recording"
        self.say(f"{label}: {why_not(action, self.page, readonly_reason=readonly)}")

    def on_table_refused(self, message: Table.Refused) -> None:
        """A key of the table that does nothing says why."""
        self.say(message.reason)

    def action_pause(self) -> None:
        """Pause the display; cockpit keeps polling."""
        self.frozen_at = self.clock() if self.frozen_at is None else None
        self.draw()

    def action_refresh(self) -> None:
        """Poll every source now."""
        self.monitor.refresh(is_awaited=True)
        self.refresh_presets(now=self.preset_entries is not None)
        self.say("Polling every source now")

    def action_interval(self, step: int) -> None:
        """Poll this host faster or slower."""
        self.say(f"This host is polled every {self.monitor.change_interval(step):g} s; Ray updates its own data every 5 s")

    def action_help(self) -> None:
        """Show all keys and what the symbols mean."""
        from cockpit.ui.help import HELP_INDENT, help_text

        text = help_text((self, self.table), ACTS if self.acts else (), f"Page {self.page.heading}", self._applies)
        self.show_text("Help", text, hang=HELP_INDENT)

    def _applies(self, action: str) -> bool:
        """Whether it means something for the open page and the chosen row."""
        name, _, argument = action.partition("(")
        means = self._means(name, (argument.strip("')"),), over_page=True)
        return means and (name == "memory" or self._key_ranks()(action) is not None)  # of what is open there may be memory too

    def action_faults(self) -> None:
        """Show failing sources and old data."""
        self._open([*self.pages[:1], FaultsPage()])

    # Around it

    def _warn(self, mistakes: Iterable[str | None]) -> None:
        for mistake in mistakes:
            if mistake is not None:
                self.say(mistake, "warning")

    def action_command_palette(self) -> None:
        """Find pages, actions and keys by their names or by what they do."""
        from cockpit.ui.palette import Palette

        if not isinstance(self.screen, Palette):
            self.push_screen(Palette(id="--command-palette"))

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """What the palette offers."""
        from cockpit.ui.palette import all_commands

        begin = self.acts.begin if self.acts and not self.is_past else None
        return all_commands(self, begin, self._applies, super().get_system_commands(screen))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self._means(action, parameters, over_page=len(self.screen_stack) == 1)

    def _means(self, action: str, parameters: tuple[object, ...], *, over_page: bool) -> bool:
        """Whether a key means something over the page, or over what lies on it."""
        focused = self.screen_stack[0].focused if over_page else self.focused
        typing, filtering = isinstance(focused, Input), isinstance(focused, Filter)
        now = {"typing": typing, "filtering": filtering, "readonly": self.config.readonly, "past": self.is_past}
        if not is_offered(action, self.page, over_page=over_page, **now):
            return False
        if action in ACTION_TARGETS and over_page:
            return bool(self.chosen_of(ACTION_TARGETS[action]))
        return action != "act" or (self.acts is not None and self.acts.means(str(parameters[0])))

    def on_resize(self, event: events.Resize) -> None:
        # It lies over all else: a class that hid the rest would have the styles of every widget made anew.
        small = self.screen_stack[0].get_child_by_id("small")
        small.display = event.size.width < MIN_SCREEN_SIZE[0] or event.size.height < MIN_SCREEN_SIZE[1]
        if self.has_mounted:  # the first comes before that, and another, from the terminal, right after it
            self.draw()
            self.refresh_bindings()
            self.call_after_refresh(self.draw)  # how much room there is for a pane is known only then

    def fail(self, error: BaseException) -> None:
        """End with one sentence about the bug."""
        self.monitor.close()
        self.end_with_message(clean(bug(error)))

    async def action_quit(self) -> None:
        """Quit at once, even if a source hangs."""
        self._end()

    def _end(self, code: int = 0) -> None:
        """Stop polling and restore the terminal."""
        self.monitor.close()
        self.exit(return_code=code)
