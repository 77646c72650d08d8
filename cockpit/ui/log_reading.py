"""When the last lines of a log are asked for: once what is in sight has stayed there for a moment, and again while it stays."""

from __future__ import annotations

from typing import Any, Final

from textual import work
from textual.driver import Driver
from textual.timer import Timer
from textual.worker import Worker

from cockpit.ui.log_tails import LogTails
from cockpit.ui.pages.details import DetailPage, about, has_log
from cockpit.ui.preset_files import PresetApp

MIN_SIGHT_S: Final = 0.3
"""Seconds for which a thing must have been in sight: whoever passes a row asks Ray nothing."""
GROUP: Final = "log-tails"


class LogReadingApp(PresetApp):
    """The part of the application that reads the last lines of the log of what is open or in the pane; nothing else is asked for."""

    frozen_at: float | None

    def __init__(self, driver_class: type[Driver]) -> None:
        super().__init__(driver_class=driver_class)
        self.log_tails = LogTails(lambda: self.clock())
        self._in_sight: tuple[str, ...] = ()
        self._rest: Timer | None = None
        self._reading: Worker[None] | None = None

    def refresh_log_tails(self) -> None:
        """Read what is in sight and due; what has gone out of sight is read no further."""
        things = self._logged_things()
        keys = tuple(thing.key for thing in things)
        if keys != self._in_sight:
            self._in_sight = keys
            self.workers.cancel_group(self, GROUP)
            if self._rest is not None:
                self._rest.stop()
            self._rest = self.set_timer(MIN_SIGHT_S, self._end_rest) if things else None
        elif self._rest is None and (self._reading is None or self._reading.is_finished):
            due = [thing for thing in things if self.log_tails.is_due(thing, again=self.frozen_at is None)]
            self._reading = self._read_log_tails(due) if due else None

    def _end_rest(self) -> None:
        self._rest = None
        self.refresh_log_tails()

    def _logged_things(self) -> list[Any]:
        """What the open page is about, then what the pane is about; none below another screen, and none of the past."""
        if len(self.screen_stack) != 1 or self.is_past:
            return []
        things = (self.page.thing if isinstance(self.page, DetailPage) else None, about(self.body.row))
        return list({thing.key: thing for thing in things if has_log(thing)}.values())

    @work(group=GROUP, exclusive=True)
    async def _read_log_tails(self, things: list[Any]) -> None:
        for thing in things:
            await self.log_tails.read(thing, self.monitor.logs.logs_of)
            self.draw()
