"""The way into the past and back: what the keys of time do, and from which moment pages are drawn."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace
from textual import work
from textual.timer import Timer
from textual.worker import Worker

from cockpit.model import Snapshot
from cockpit.moment import EXAMPLES, moment_text, parse_moment
from cockpit.text import plural
from cockpit.ui.findings import HiddenFindings
from cockpit.ui.preset_files import PresetApp
from cockpit.ui.recorded import PastMoment, RecordedPast
from cockpit.ui.time_line import SPANS_S, TimeLine, event_text, stretch_around
from cockpit.ui.view import Index

if TYPE_CHECKING:
    from cockpit.recording.events import Event

STEP_S: Final = 10.0
"""Seconds of a step: hosts are looked at every 2 s and Ray's agents every 5 s, so that each step shows something new."""
PLAY_INTERVAL_S: Final = 1.0
"""Seconds between two steps of playing."""
HISTORY_WAIT_S: Final = 0.15
"""Seconds for which a moment waits for its sparklines, so that they don't vanish and come again with each step.

The whole minutes before take some 0.1 s at two nodes and 3 s at 100, where a moment is drawn without them and again with them.
"""
MAX_TOLD_EVENTS: Final = 3
"""Of several that happened at one time."""
READING: Final = "past"
SEVERITIES: Final[Mapping[str | None, str]] = {"critical": "error", "warning": "warning"}
BACK_TO_NOW: Final = "End: back to now"
WHY_NOT: Final = {
    "act": "actions are not possible in the past",
    "log": "logs are not recorded",
    "stack": "stacks are not recorded",
    "environment": "environments are never recorded",
    "dead": "dead actors are not recorded",
}
"""By action, why it is not possible in the past."""


class ReplayApp(PresetApp):
    """The part of the application that shows a past moment instead of now. Polling goes on meanwhile."""

    snapshot: Snapshot
    recorded: RecordedPast | None = None
    """Where the past is read; `None`: nothing is recorded."""
    why_unrecorded = "nothing is recorded here"
    follows = True
    """Whether there is a present; a recording that is looked at has none."""
    begins_at: float | None = None
    """The moment that is shown first, where there is no present; `None`: the end."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = HiddenFindings()
        self._wanted: float | None = None
        self._span = SPANS_S[1]
        self._playing: Timer | None = None
        self._reading_past: Worker[None] | None = None

    # Where to

    def action_step(self, steps: int) -> None:
        """Go 10 s back or forward; jumps over gaps."""
        if steps > 0 and self._is_at_end:
            self.say("Step forward: this is now" if self.follows else "Step forward: the recording ends here")
            return
        if steps < 0 and self.past is not None and (self._wanted or self.past.at) <= self.past.stretch.recorded[0]:
            self.say("Step: the recording begins here")
            return
        at = self._wanted or self.frozen_at or self.clock()
        gap = self.past.gap if self.past is not None and self.past.at == at else None
        self.go_to(at + steps * STEP_S if gap is None else gap[1] if steps > 0 else gap[0] - STEP_S)

    @work(group="event", exclusive=True)
    async def action_event(self, direction: int) -> None:
        """Go to the previous or next event: finding, action, job, failing source."""
        if (recorded := self._find_recording()) is None:
            return
        with self.telling_failures():
            if events := await recorded.read_next(self._wanted or self.clock(), direction):
                self.go_to(events[0].at)
                self._tell(events)
            else:
                self.say(f"No {'later' if direction > 0 else 'earlier'} event is recorded")

    @work(group="moment", exclusive=True)
    async def action_moment(self) -> None:
        """Go to a time, such as 03:10 or -20m."""
        if (recorded := self._find_recording()) is None:
            return
        from cockpit.ui.dialogs import NameDialog

        typed = await self.push_screen_wait(NameDialog(f"Go to the time ({EXAMPLES}):", ""))
        if typed is not None:
            try:
                newest = self.clock() if self.follows else (await recorded.read_range())[1]
                self._go_to_typed(parse_moment(typed, newest, at_its_end=True))
            except ValueError as error:
                self.say(str(error), "warning")

    def action_play(self) -> None:
        """In the past: play 10 s of the recording each second; again: stop."""
        if self._playing is None and self._is_at_end:
            self.say("Play: the recording ends here")
        elif self._playing is None and self.past is not None:
            self._playing = self.set_interval(PLAY_INTERVAL_S, self._play_on)
            self.draw()
        else:
            self._stop_playing()

    def action_zoom(self, direction: int) -> None:
        """Make the timeline of the past cover less or more: 15 min to a week."""
        place = SPANS_S.index(self._span) + direction
        if not 0 <= place < len(SPANS_S):
            self.say(f"Zoom: the timeline covers {'15 min at least' if direction < 0 else 'a week at most'}")
            return
        self._span = SPANS_S[place]
        self.go_to(self._wanted or self.clock())

    def action_now(self) -> None:
        """Go back to now; in a replay: to the end of the recording."""
        self._stop_playing()
        if not self.follows:
            self.go_to_end()
            return
        self.workers.cancel_group(self, READING)
        self.past = self._wanted = self.frozen_at = None
        self._show(self.snapshot, self.hidden.keys)

    def action_no_past(self, action: str, label: str) -> None:
        """Show why a key is not possible in the past."""
        why = WHY_NOT.get(action, "not possible in the past")
        self.say(f"{label}: {why}. {BACK_TO_NOW}" if self.follows else f"{label}: {why}")

    def on_time_line_clicked(self, message: TimeLine.Clicked) -> None:
        self._stop_playing()
        self.go_to(message.moment)
        self._tell([event for event in self.past.stretch.events if event.at == message.moment] if self.past else ())

    # On the way

    def _go_to_typed(self, moment: float) -> None:
        if self.past is not None and moment < (begin := self.past.stretch.recorded[0]):
            self.say(f"The recording begins at {moment_text(begin, self.clock())}: that moment is shown")
            moment = begin
        self.go_to(moment)

    def go_to(self, moment: float) -> None:
        """Show this moment, or now when it is not past."""
        if (recorded := self._find_recording()) is None:
            return
        if self.follows and moment >= self.clock() - 1:
            self.action_now()
            return
        if not self.follows and self.past is not None:
            begin, end = self.past.stretch.recorded
            moment = max(begin, min(end, moment))
        self._wanted = moment
        self._reading_past = self._read_moment(recorded, moment)

    @work(group="end", exclusive=True)
    async def go_to_end(self) -> None:
        """Show what was wanted first, else what is recorded last."""
        if self.recorded is None:
            return
        with self.telling_failures("error"):
            _, end = await self.recorded.read_range()
            self.go_to(end if self.begins_at is None else self.begins_at)
            self.begins_at = None
            for damage in await self.recorded.read_damage():
                self.say(damage, "warning")

    @work(group=READING, exclusive=True)
    async def _read_moment(self, recorded: RecordedPast, moment: float) -> None:
        with self.telling_failures():
            past = await recorded.read(moment, *stretch_around(moment, self._span))
            is_quick = recorded.has_history_within(HISTORY_WAIT_S, moment)
            history = asyncio.ensure_future(recorded.read_history(moment))
            await asyncio.wait({history}, timeout=HISTORY_WAIT_S if is_quick else 0)
            if not history.done():
                self._show_past(past)
            self._show_past(replace(past, history=await history))

    def _show_past(self, past: PastMoment) -> None:
        self.past, self.frozen_at = past, past.at
        self._show(past.snapshot)

    def _show(self, snapshot: Snapshot, hidden: AbstractSet[str] = frozenset()) -> None:
        self.drawn_snapshot, self._index = snapshot, Index(snapshot, self._index, hidden)
        self.refresh_bindings()
        self.draw()

    def draw_time_line(self) -> None:
        """The line of time, where the past is shown."""
        line = self.screen_stack[0].query_one(TimeLine)
        self.screen_stack[0].set_class(self.is_past, "past")
        if line.display is not self.is_past:
            line.display = self.is_past
            self.call_after_refresh(self.draw)  # the table has a line more, or less
        if self.past is not None:
            line.show(self.past.stretch, self.past.at, self.clock(), ascii=self.config.ascii)

    @property
    def past_note(self) -> str | None:
        """What the screen is doing with time, in a word."""
        return "playing" if self._playing else "PAUSED" if self.frozen_at is not None and not self.is_past else None

    @property
    def _is_at_end(self) -> bool:
        """Whether nothing comes after what is shown: now, or the end of a recording that is replayed."""
        if self.follows:
            return self.past is None and self.frozen_at is None and self._wanted is None
        return self.past is not None and (self._wanted or self.past.at) >= self.past.stretch.recorded[1]

    def _play_on(self) -> None:
        if self._reading_past is not None and not self._reading_past.is_finished:
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

    def _find_recording(self) -> RecordedPast | None:
        if self.recorded is None:
            self.say(f"Nothing to go back to: {self.why_unrecorded}", "warning")
        return self.recorded

    def _tell(self, events: Sequence[Event]) -> None:
        """What happened, each sentence once, instead of what was told before."""
        self.clear_notifications()
        said = {f"{moment_text(event.at, self.clock())}  {event_text(event)}": event.level for event in events}
        for text in islice(said, MAX_TOLD_EVENTS):
            self.say(text, SEVERITIES.get(said[text], "information"))
        if len(said) > MAX_TOLD_EVENTS:
            self.say(f"and {plural(len(said) - MAX_TOLD_EVENTS, 'more event')} at this time")
