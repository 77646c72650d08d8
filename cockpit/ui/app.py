"""Defines the Textual app, which owns the services, passes new snapshots to the screens, and ends the program."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events
from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widget import AwaitMount
from textual.widgets import Input

from cockpit.config.settings import Config
from cockpit.findings.followed_ray import replaced_words
from cockpit.model import Snapshot
from cockpit.monitor.monitor import ClusterMonitor
from cockpit.text import clean
from cockpit.text.bug import bug
from cockpit.text.output import is_in_browser
from cockpit.times.clock import CLOCK
from cockpit.ui.alarm import Alarm, alarm_sequence
from cockpit.ui.notices import show_notice
from cockpit.ui.recorded import RecordedPast
from cockpit.ui.screens.live import LiveScreen
from cockpit.ui.screens.replay import ReplayScreen
from cockpit.ui.services import RunbookFactory, Services
from cockpit.ui.styles import TonedApp
from cockpit.ui.textual_internals import AsciiDriver, Palette
from cockpit.ui.theme import DEFAULT_THEME, apply_before_start, choose_signs, register_theme, register_themes, variable_defaults

if TYPE_CHECKING:
    from cockpit.actions.executor import ActionExecutor

SETTLE_DELAY_S = 0.5
"""Seconds after the start until the first frame has certainly been drawn."""


class Cockpit(TonedApp):
    """The application. Its lowest screen is the `LiveScreen`, or the `ReplayScreen` of a recording without a cluster."""

    TITLE = "cockpit"
    CSS = """
    Screen { overflow: hidden; background: $background; }
    Toast { max-width: 100%; padding: 0 1; }
    ActionDialog Toast { display: none; }
    .ascii Toast, .ascii OptionList { border: none; }
    .ascii AddressDialog Vertical, .ascii NameDialog Vertical, .ascii #dialog { border: ascii $primary; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("ctrl+q", "quit", "Quit", show=False, priority=True),
        Binding("colon", "command_palette", "Commands", show=False),
        Binding("ctrl+z", "suspend_process", "Suspend (fg)", show=False, priority=True),
    ]
    COMMANDS: ClassVar[set[Any]] = {lambda: import_module("cockpit.ui.palette").Commands}
    greeting: str | None = None
    """A notification at the start."""

    def __init__(
        self,
        config: Config,
        monitor: Callable[[Callable[[Snapshot], None]], ClusterMonitor],
        *,
        make_executor: Callable[[ClusterMonitor], ActionExecutor] | None = None,
        runbook: RunbookFactory | None = None,
        clock: Callable[[], float] = CLOCK,
        replayed: RecordedPast | None = None,
        begins_at: float | None = None,
    ) -> None:
        """Without `make_executor` nothing can be changed.

        `replayed`: a recording to show without a cluster, first at `begins_at`, else at its end.
        """
        super().__init__()
        self._theme_name, self._theme_mistake = register_theme(self, config.theme or DEFAULT_THEME)
        apply_before_start(self, self._theme_name)
        choose_signs(self, ascii=config.ascii)
        if config.ascii and not is_in_browser():
            self.driver_class = AsciiDriver
        self.monitor = monitor(self.take)
        self.services = Services(config, self.monitor, clock, make_executor, runbook)
        self.services.recorded = replayed
        self.live: LiveScreen | None = None
        self.after_first_frame: Callable[[], object] = lambda: None
        self._replayed, self._begins_at = replayed, begins_at
        self._alarm = Alarm()

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our own colours, for themes that don't have them."""
        return variable_defaults(self.current_theme)

    def get_default_screen(self) -> Screen[Any]:
        if self._replayed is not None:
            return ReplayScreen(self.services, self._begins_at)
        if self.monitor.is_started:
            self.services.snapshot = self.monitor.poller.join_early()
        self.live = LiveScreen(self.services)
        return self.live

    async def on_mount(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._end, 128 + signal.SIGTERM)
        self.handle_stop_signals()
        self.theme = self._theme_name
        if self._theme_mistake is not None:
            show_notice(self, self._theme_mistake, "warning")
        await AwaitMount(self.screen, [self.screen])  # so that the table gets keys that are pressed at once
        self.set_timer(SETTLE_DELAY_S, self._start_deferred_work)
        if self.live is not None and self.monitor.is_started:
            self.live.draw()
            # A snapshot published before the first frame would be drawn into a screen without a size.
            self.call_after_refresh(self._start_monitor, self.live)
        elif self.live is not None:
            self._start_monitor(self.live)
        if self.greeting:
            show_notice(self, self.greeting)

    def _start_monitor(self, live: LiveScreen) -> None:
        """Run the monitor. It may have found several clusters before the screen was there."""
        self.monitor.choice.choose = live.choose_cluster
        if self.monitor.open_choices:
            live.choose_cluster(self.monitor.open_choices)
        self.run_worker(self.monitor.run(), name="monitor", exit_on_error=True)

    def _start_deferred_work(self) -> None:
        """Do the work that can wait until the first frame has been drawn."""
        for mistake in register_themes(self):
            show_notice(self, mistake, "warning")
        self.after_first_frame()

    # Snapshots

    def take(self, snapshot: Snapshot) -> None:
        """Store a new snapshot, ring for new critical findings, and draw it."""
        services, cluster = self.services, snapshot.cluster
        if cluster.replaced not in (None, services.snapshot.cluster.replaced) and self.is_running:
            show_notice(self, replaced_words(cluster), "warning")
        services.take(snapshot)
        new = self._alarm.take_new(snapshot, services.hidden.keys)
        if new and not services.config.quiet:
            self.write_to_terminal(alarm_sequence(new, os.environ, ascii=services.config.ascii))
        if self.live is not None and self.is_running:
            self.call_later(self.live.draw_newest)

    # Keys that work the same on every screen

    async def on_event(self, event: events.Event) -> None:
        """Drop keys that a dialog of an action does not accept now. Textual passes every event here first."""
        if isinstance(event, events.Key) and not event.is_forwarded:
            accepts_key = getattr(self.screen, "accepts_key", None)  # only `ActionDialog` has it, which is imported with the first action
            if accepts_key is not None and not accepts_key(event):
                return
        await super().on_event(event)

    @property
    def page_screen(self) -> LiveScreen | ReplayScreen:
        """The topmost screen with pages, perhaps below a log or a dialog."""
        return next(screen for screen in reversed(self.screen_stack) if isinstance(screen, LiveScreen | ReplayScreen))

    def action_command_palette(self) -> None:
        """Find pages, actions and keys by their names or by what they do."""
        if not isinstance(self.screen, Palette):
            self.push_screen(Palette(id="--command-palette"))

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """The commands of the palette: the commands of the pages, even if a log or a dialog covers them."""
        from cockpit.ui.palette import all_commands

        return all_commands(self.page_screen, super().get_system_commands(screen))

    def action_help_quit(self) -> None:
        """Show which key quits. Textual calls this for ctrl+c, unless an input copies its selection."""
        is_page = isinstance(self.screen, LiveScreen | ReplayScreen) and not isinstance(self.focused, Input)
        show_notice(self, f"{'q' if is_page else 'ctrl+q'} quits cockpit")

    # The end

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
