"""Shows the pages at a moment of a recording, which the user chooses by steps, events or a typed time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Final

from msgspec.structs import replace
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.timer import Timer
from textual.worker import Worker

from cockpit.actions.table import ACTION_KEYS, actions_on
from cockpit.findings.nccl import find_report, report_lines
from cockpit.model import Snapshot
from cockpit.text import plural
from cockpit.times.moments import EXAMPLES, format_time, parse_moment
from cockpit.ui.footer import KeyPlace
from cockpit.ui.notices import show_notice, showing_failures
from cockpit.ui.recorded import PastMoment, RecordedPast
from cockpit.ui.screens.page_view import PageView
from cockpit.ui.services import Services
from cockpit.ui.time_line import SPANS_S, TimeLine, event_text, stretch_around
from cockpit.ui.view import Index, View

if TYPE_CHECKING:
    from cockpit.recording.events import Event

STEP_S: Final = 10.0
"""Seconds of a step. Hosts are sampled every 2 s and Ray's agents every 5 s, so each step shows something new."""
MAX_SHOWN_EVENTS: Final = 3
"""Notifications for events of the same time; the others are counted."""
SEVERITIES: Final[Mapping[str | None, str]] = {"critical": "error", "warning": "warning"}
PLAY_INTERVAL_S: Final = 1.0
"""Seconds between two steps of playing."""
AGE_INTERVAL_S: Final = 2.0
"""Seconds between two updates of the moment's age."""
HISTORY_WAIT_S: Final = 0.15
"""Seconds for which drawing a moment waits for its sparklines, so that they don't disappear for an instant at each step.

Reading the minutes before a moment takes about 0.1 s at two nodes and 3 s at 100. There the moment is drawn first without sparklines.
"""
KEY_ORDER: Final = ("now", "step(-1)", "event(-1)", "play", "moment")
"""The actions that come first in the footer."""
TIME_BINDINGS: Final = (
    Binding("left_square_bracket", "step(-1)", "Step", key_display="[]"),
    Binding("right_square_bracket", "step(1)", "Step forward", show=False),
    Binding("left_curly_bracket", "event(-1)", "Event", key_display="{}"),
    Binding("right_curly_bracket", "event(1)", "Next event", show=False),
)
"""Keys that go through a recording. On the live screen they open it."""


class ReplayScreen(Screen[PageView | None]):
    """Shows one moment of a recording while polling continues. Returns its pages for the live screen; `None` if no moment could be read."""

    DEFAULT_CSS = "ReplayScreen ToastRack { margin-bottom: 2; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        *TIME_BINDINGS,
        Binding("space", "play", "Play", key_display="Space", priority=True),
        Binding("at", "moment", "Go to time"),
        Binding("end", "now", "Now", key_display="End", priority=True),
        Binding("plus", "zoom(-1)", "Zoom in", show=False),
        Binding("minus", "zoom(1)", "Zoom out", show=False),
        Binding("escape", "leave", "Now", show=False),
        Binding("N", "nccl", "NCCL", show=False),
        *(
            Binding(key, f"not_recorded('{label}', '{why}')", show=False)
            for key, label, why in (
                ("l", "Log", "logs are not recorded"),
                ("s", "Stack", "stacks are not recorded"),
                ("d", "Dead", "dead actors are not recorded"),
                ("x", "Hide", "not possible in the past"),
                ("z", "Unhide", "not possible in the past"),
                ("e", "Edit", "not possible in the past"),
                ("w", "Save preset", "not possible in the past"),
                ("a", "Other cluster", "not possible in the past"),
                ("p", "Pause", "not possible in the past"),
                ("r,f5", "Refresh", "not possible in the past"),
            )
        ),
        *(Binding(key, f"no_action('{key}')", show=False) for key in ACTION_KEYS),
    ]

    def __init__(self, services: Services, moment: float | None, *, live: PageView | None = None, events: Sequence[Event] = ()) -> None:
        """`moment`: the first moment to show; `None`: the end of the recording. `events`: the events of that moment.

        `live`: the pages of the live screen, shown until the moment has been read; `None`: a recording without a live screen.
        """
        super().__init__()
        self.services = services
        self.page_view = PageView(self, TimeLine())
        self.past: PastMoment | None = None
        """The moment on the screen."""
        self.reading: Worker[None] | None = None
        self._first_events = events
        self._live = live
        self._snapshot, self._index = (live.view.snapshot, live.view.index) if live else (Snapshot(), Index(Snapshot()))
        self._wanted = moment
        """The moment that was requested last."""
        self._span = SPANS_S[1]
        self._playing: Timer | None = None

    def compose(self) -> ComposeResult:
        yield self.page_view

    def on_mount(self) -> None:
        self.page_view.table.focus()
        if self._live is not None:
            self.page_view.continue_from(self._live)
        self.draw()
        self.set_interval(AGE_INTERVAL_S, self.draw)
        if self._live is not None and self._wanted is not None:
            self.go_to(self._wanted)
            if self._first_events:
                show_events(self, self._first_events, self.services.clock())
        else:
            self._go_to_end()

    # Drawing

    def make_view(self) -> View:
        """The state at the moment. What cockpit knows only about the present is left unknown."""
        services, size, past = self.services, self.app.size, self.past
        view = View(self._snapshot, self._index, services.history, services.clock(), size.width, services.config.ascii, size.height)
        if past is None:
            return view
        return replace(view, now=past.at, history=past.history, ago=max(0.0, services.clock() - past.at))

    def time_note(self) -> str | None:
        return "playing" if self._playing else None

    def draw(self) -> None:
        if not self.is_mounted:
            return
        self.page_view.draw()
        line, past = self.query_one(TimeLine), self.past
        if past is not None:
            line.show(past.stretch, past.at, self.services.clock(), ascii=self.services.config.ascii)
            line.display = True
        self.page_view.update_footer()

    def on_table_moved(self) -> None:
        self.page_view.update_footer()

    # What keys do

    @property
    def fitting_actions(self) -> None:
        """No action is possible on the past."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 Textual asks so
        return not self.page_view.is_typing if action in ("play", "now", "not_recorded", "no_action") else True

    def place_key(self, binding: Binding) -> KeyPlace | None:
        if binding.action in KEY_ORDER:
            return KEY_ORDER.index(binding.action) - len(KEY_ORDER), binding.description
        return self.page_view.place_key(binding)

    def action_not_recorded(self, label: str, why: str) -> None:
        """Show why a key does nothing in the past."""
        show_notice(self, f"{label}: {why}" if self._live is None else f"{label}: {why}. End: back to now")

    def action_no_action(self, key: str) -> None:
        """Show why the key of an action does nothing in the past."""
        config = self.services.config
        if config.readonly or self._live is None:
            titles = " / ".join(action.title for action in actions_on(key))
            show_notice(self, f"{titles}: {config.readonly_reason if config.readonly else 'this is a recording'}")
        else:
            self.action_not_recorded(key.upper(), "actions are not possible in the past")

    # Keys

    def action_nccl(self) -> None:
        """Show what NCCL had reported about the job until this moment."""
        from cockpit.ui.screens.dialogs import TextScreen
        from cockpit.ui.screens.stacks import running_job_of

        job, past = running_job_of(self.page_view.selected, self._snapshot), self.past
        report = find_report(job, self._snapshot) if job is not None else None
        if job is None or report is None or past is None:
            show_notice(
                self, "NCCL: put the cursor on one running job" if job is None else "NCCL: it was not asked about this job until then"
            )
            return
        lines = report_lines(report, self._snapshot, past.at)
        self.app.push_screen(TextScreen(f"NCCL's own report about job {job.id}", "\n".join(lines)))

    def action_step(self, steps: int) -> None:
        """Go 10 s back or forward; jumps over gaps."""
        past = self.past
        at = self._wanted or (past.at if past is not None else self.services.clock())
        if steps > 0 and self._is_at_end:
            show_notice(self, "Step forward: the recording ends here")
        elif steps < 0 and past is not None and at <= past.stretch.recorded[0]:
            show_notice(self, "Step: the recording begins here")
        else:
            gap = past.gap if past is not None and past.at == at else None
            self.go_to(at + steps * STEP_S if gap is None else gap[1] if steps > 0 else gap[0] - STEP_S)

    @work(group="event", exclusive=True)
    async def action_event(self, direction: int) -> None:
        """Go to the previous or next event: finding, action, job, failing source."""
        if events := await find_next_events(self, self.services, self._wanted or self.services.clock(), direction):
            self.go_to(events[0].at)
            show_events(self, events, self.services.clock())

    @work(group="moment", exclusive=True)
    async def action_moment(self) -> None:
        """Go to a time, such as 03:10 or -20m."""
        if (moment := await ask_moment(self, self.services, is_live=self._live is not None)) is None:
            return
        if self.past is not None and moment < (begin := self.past.stretch.recorded[0]):
            show_notice(self, f"The recording begins at {format_time(begin, self.services.clock())}: that moment is shown")
            moment = begin
        self.go_to(moment)

    def action_play(self) -> None:
        """In the past: play 10 s of the recording each second; again: stop."""
        if self._playing is None and self._is_at_end:
            show_notice(self, "Play: the recording ends here")
        elif self._playing is None and self.past is not None:
            self._playing = self.set_interval(PLAY_INTERVAL_S, self._play_on)
            self.draw()
        else:
            self._stop_playing()

    def action_zoom(self, direction: int) -> None:
        """Make the timeline of the past cover less or more: 15 min to a week."""
        place = SPANS_S.index(self._span) + direction
        if not 0 <= place < len(SPANS_S):
            show_notice(self, f"Zoom: the timeline covers {'15 min at least' if direction < 0 else 'a week at most'}")
            return
        self._span = SPANS_S[place]
        self.go_to(self._wanted or self.services.clock())

    def action_now(self) -> None:
        """Go back to now; in a replay: to the end of the recording."""
        self._stop_playing()
        if self._live is None:
            self._go_to_end()
        elif self.app.screen is self:
            self.dismiss(self.page_view)

    def action_leave(self) -> None:
        """Go back to now, if there is one."""
        if self._live is not None:
            self.action_now()

    def on_time_line_clicked(self, message: TimeLine.Clicked) -> None:
        self._stop_playing()
        self.go_to(message.moment)
        events = [event for event in self.past.stretch.events if event.at == message.moment] if self.past else ()
        show_events(self, events, self.services.clock())

    # Reading moments

    def go_to(self, moment: float) -> None:
        """Show this moment; if it is not in the past, go back to the live screen."""
        if (recorded := find_recording(self, self.services)) is None:
            return
        if self._live is not None and moment >= self.services.clock() - 1:
            self.action_now()
            return
        if self._live is None and self.past is not None:
            begin, end = self.past.stretch.recorded
            moment = max(begin, min(end, moment))
        self._wanted = moment
        self.reading = self._read_moment(recorded, moment)

    @work(group="end", exclusive=True)
    async def _go_to_end(self) -> None:
        """Show the moment that the user started with, else the end of the recording."""
        if (recorded := self.services.recorded) is None:
            return
        with showing_failures(self, "error"):
            _, end = await recorded.read_range()
            self.go_to(end if self.past is not None or self._wanted is None else self._wanted)
            for damage in await recorded.read_damage():
                show_notice(self, damage, "warning")

    @work(group="past", exclusive=True)
    async def _read_moment(self, recorded: RecordedPast, moment: float) -> None:
        with showing_failures(self):
            past = await recorded.read(moment, *stretch_around(moment, self._span))
            is_quick = recorded.has_history_within(HISTORY_WAIT_S, moment)
            history = asyncio.ensure_future(recorded.read_history(moment))
            await asyncio.wait({history}, timeout=HISTORY_WAIT_S if is_quick else 0)
            if not history.done():
                self._show(past)
            self._show(replace(past, history=await history))
        if self.past is None and self._live is not None and self.app.screen is self:
            self.dismiss(None)

    def _show(self, past: PastMoment) -> None:
        self.past = past
        self._snapshot, self._index = past.snapshot, Index(past.snapshot)
        self.refresh_bindings()
        self.draw()

    @property
    def _is_at_end(self) -> bool:
        """Whether the end of the recording is shown. With a live screen, the present follows instead."""
        past = self.past
        return self._live is None and past is not None and (self._wanted or past.at) >= past.stretch.recorded[1]

    def _play_on(self) -> None:
        if self.reading is not None and not self.reading.is_finished:
            return
        if self.past is None or self._is_at_end:
            self._stop_playing()
        else:
            self.action_step(1)

    def _stop_playing(self) -> None:
        if self._playing is not None:
            self._playing.stop()
            self._playing = None
            self.draw()


def find_recording(screen: Screen[Any], services: Services) -> RecordedPast | None:
    """Return the recording of this cluster; without one show why and return `None`."""
    if services.recorded is None:
        show_notice(screen, f"Nothing to go back to: {services.why_unrecorded}", "warning")
    return services.recorded


async def find_next_events(screen: Screen[Any], services: Services, moment: float, direction: int) -> Sequence[Event]:
    """Return the next (1) or previous (-1) events, all of the same time. Without any, show that and return nothing."""
    if (recorded := find_recording(screen, services)) is None:
        return ()
    with showing_failures(screen):
        if events := await recorded.read_next(moment, direction):
            return events
        show_notice(screen, f"No {'later' if direction > 0 else 'earlier'} event is recorded")
    return ()


async def ask_moment(screen: Screen[Any], services: Services, *, is_live: bool) -> float | None:
    """Ask the user for a time. `None`: cancelled, or the text was no time, which is shown."""
    if (recorded := find_recording(screen, services)) is None:
        return None
    from cockpit.ui.screens.dialogs import NameDialog

    typed = await screen.app.push_screen_wait(NameDialog(f"Go to the time ({EXAMPLES}):", ""))
    if typed is None:
        return None
    try:
        newest = services.clock() if is_live else (await recorded.read_range())[1]
        return parse_moment(typed, newest, at_its_end=True)
    except ValueError as error:
        show_notice(screen, str(error), "warning")
        return None


def show_events(screen: Screen[Any], events: Sequence[Event], now: float) -> None:
    """Replace all notifications by one for each event; equal sentences are shown once."""
    screen.app.clear_notifications()
    levels = {f"{format_time(event.at, now)}  {event_text(event)}": event.level for event in events}
    for text in islice(levels, MAX_SHOWN_EVENTS):
        show_notice(screen, text, SEVERITIES.get(levels[text], "information"))
    if len(levels) > MAX_SHOWN_EVENTS:
        show_notice(screen, f"and {plural(len(levels) - MAX_SHOWN_EVENTS, 'more event')} at this time")
