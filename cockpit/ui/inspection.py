"""What is shown of a row beyond its page: JSON, clipboard, log, environment and stacks; and when the last lines of its log are read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec.structs import replace
from textual import work
from textual.timer import Timer
from textual.widgets import Input
from textual.worker import Worker

from cockpit.check.preset_list import PresetEntry
from cockpit.config.settings import Config
from cockpit.model import Finding, Job, Process, Snapshot
from cockpit.monitor.history import History
from cockpit.monitor.logs import Log
from cockpit.monitor.monitor import ClusterMonitor
from cockpit.sources.source import SourceError
from cockpit.text import clean, plural
from cockpit.ui import cells
from cockpit.ui.acts import Acts, find_chosen
from cockpit.ui.findings import find_things
from cockpit.ui.keys import ROW_ACTIONS
from cockpit.ui.log_tails import LogTails
from cockpit.ui.pages.details import DetailPage, about, clipboard_text, detail_of, has_log, json_text
from cockpit.ui.pages.nodes import NodePage
from cockpit.ui.pane import PANE_SCREEN, Body, is_large
from cockpit.ui.recorded import PastMoment
from cockpit.ui.section import Page
from cockpit.ui.table import Table
from cockpit.ui.tones import TonedApp
from cockpit.ui.view import Index, View
from cockpit.whole_file import write_new

Answer = TypeVar("Answer")
WAIT_NOTICE_DELAY_S: Final = 0.7
"""Seconds after which it is said what is waited for."""
CODES_WITH_QUOTES: Final = frozenset({"job-failed"})
"""Codes of findings that quote lines of a log."""
MIN_QUOTE_CHARS: Final = 12
"""Characters of a line of evidence from which it may be told from others in a log."""
MIN_SIGHT_S: Final = 0.3
"""Seconds for which a thing must have been in sight before its log is read: whoever passes a row asks Ray nothing."""
LOG_TAILS: Final = "log-tails"
SCREENSHOT_DELAY_S: Final = 0.1
"""Seconds after which the palette has gone from the screen: Textual's own."""


class InspectionApp(TonedApp):
    """The part of the application that only reads: it changes neither page nor cluster."""

    config: Config
    clock: Callable[[], float]
    monitor: ClusterMonitor
    pages: list[Page]
    drawn_snapshot: Snapshot
    frozen_at: float | None
    past: PastMoment | None = None
    """The moment that is shown in place of now."""
    history: History
    acts: Acts | None
    preset_entries: tuple[PresetEntry, ...] | None = None
    _index: Index

    def __init__(self) -> None:
        super().__init__()
        self.log_tails = LogTails(lambda: self.clock())
        self._in_sight: tuple[str, ...] = ()
        self._rest: Timer | None = None
        self._reading: Worker[None] | None = None

    def draw(self) -> None:
        """Show what is known now."""
        raise NotImplementedError

    @property
    def page(self) -> Page:
        return self.pages[-1]

    @property
    def is_past(self) -> bool:
        """Whether a past moment is shown."""
        return self.past is not None

    @property
    def view(self) -> View:
        """Everything that pages are drawn from: as it is now, or as it was. What is known only of now is not known of then."""
        now, size, ascii = self.frozen_at or self.clock(), self.size, self.config.ascii
        view = View(self.drawn_snapshot, self._index, self.history, now, size.width, ascii, size.height)
        if self.past is not None:
            return replace(view, history=self.past.history, ago=max(0.0, self.clock() - self.past.at))
        return replace(view, acts=bool(self.acts), preset_entries=self.preset_entries, log_tails=self.log_tails.known)

    @property
    def table(self) -> Table:
        return self.screen_stack[0].query_one(Table)

    @property
    def body(self) -> Body:
        return self.screen_stack[0].query_one(Body)

    def action_pane(self) -> None:
        """Hide or show below the table what Enter would open (from 140x36 on)."""
        if not is_large(self.size):
            self.say(f"The pane needs a terminal of at least {PANE_SCREEN[0]}x{PANE_SCREEN[1]}; Enter opens the row")
        elif not self.body.toggle():
            self.say("No room for the pane, or nothing more to show for this row")

    def say(self, text: str, severity: Any = "information") -> None:
        """Show a notification in place of the last one: it tells of the newest key. Text from a cluster is never markup."""
        self.unsay()
        self.notify(clean(text), severity=severity, markup=False, timeout=6)

    def unsay(self) -> None:
        """Take back what was said last, but for warnings and errors."""
        self.take_back_notifications("information")

    @contextmanager
    def telling_failures(self, severity: str = "warning") -> Iterator[None]:
        """A source that fails meanwhile ends the work, and says why."""
        try:
            yield
        except SourceError as error:
            self.say(str(error), severity)

    def action_help_quit(self) -> None:
        """Show which key quits: ctrl+c copies where something is typed."""
        is_page = len(self.screen_stack) == 1 and not isinstance(self.focused, Input)
        self.say(f"{'q' if is_page else 'ctrl+q'} quits cockpit")

    def action_raw(self) -> None:
        """Show all facts of the row as JSON."""
        if text := json_text(self.table.chosen):
            self.show_text("JSON", text)
        else:
            self.say("JSON: put the cursor on a row that stands for something in the cluster")

    def action_copy(self) -> None:
        """Copy the pid, id or path of the row to the terminal's clipboard."""
        texts = [clean(clipboard_text(row)) for row in self.table.chosen]
        if texts:
            self.copy_to_clipboard("\n".join(texts))
            self.say(f"Copied {texts[0]}" + (f" and {len(texts) - 1} more" if len(texts) > 1 else ""))
        else:
            self.say("Copy: there is no row here")

    def action_export(self) -> None:
        """Write the snapshot as JSON to a file in the current directory."""
        from cockpit.report.status import export

        try:
            self.say(f"Snapshot written to {export(self.drawn_snapshot, self.view.now)}")
        except OSError as error:
            self.say(f"Export failed: {error}", "error")

    def take_screenshot(self) -> None:
        """Write the screen as an SVG picture into the current directory, once the palette has gone from it."""
        if self.config.readonly:
            self.say("Screenshot: not possible with --readonly, which writes no file", "warning")
        else:
            self.set_timer(SCREENSHOT_DELAY_S, self._write_screenshot)

    def _write_screenshot(self) -> None:
        path = Path(f"cockpit-{time.strftime('%Y%m%d-%H%M%S', time.localtime(self.view.now))}.svg")
        try:
            write_new(path, self.export_screenshot(title="cockpit"))
            self.say(f"Screenshot written to {path.resolve()}")
        except OSError as error:
            self.say(f"Screenshot failed: {error}", "error")

    @work(group="log-search", exclusive=True)
    async def action_log(self) -> None:
        """Open the log that matters for the row under the cursor, or for the thing whose page is open."""
        page, thing = self.page, logged_thing(self.page, self.table)
        with self.telling_failures():
            logs = await self._await_aloud(self._find_logs(thing), "Looking for its log …")
            if page is self.page and len(self.screen_stack) == 1:  # nobody has gone elsewhere meanwhile
                self._open_log(thing, logs, find_quotes(thing))

    async def _await_aloud(self, work: Coroutine[Any, Any, Answer], words: str) -> Answer:
        """The answer; while it takes long the screen says in these words what is waited for."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task}, timeout=WAIT_NOTICE_DELAY_S)
            if task.done():
                return task.result()
            self.say(words)
            answer = await task
            self.unsay()
            return answer
        finally:
            task.cancel()

    async def _find_logs(self, thing: Any) -> tuple[Log, ...]:
        if isinstance(thing, Finding):
            order = dict(zip(thing.about, range(len(thing.about)), strict=True))  # a node of a GPU comes last
            listed = sorted(find_things(thing, self.drawn_snapshot), key=lambda each: order.get(each.key, len(order)))
            return await self.monitor.logs.logs_about(thing, listed)
        return await self.monitor.logs.logs_of(thing)

    def follow_log(self, job: str) -> None:
        one = Job(job)
        self._open_log(one, (self.monitor.logs.job_log(one),))

    def _open_log(self, thing: Any, logs: tuple[Log, ...], marks: tuple[str, ...] = ()) -> None:
        from cockpit.ui.log_screen import LogScreen

        page = detail_of(thing) or self.page
        self.push_screen(LogScreen(page.heading, logs, self.clock, marks=marks, ascii=self.config.ascii))

    def show_text(self, title: str, text: str, *, hang: int = 0) -> None:
        """Over the page, to be read and scrolled."""
        from cockpit.ui.dialogs import TextScreen

        self.push_screen(TextScreen(title, text, hang=hang))

    @work(group="environment", exclusive=True)
    async def action_environment(self) -> None:
        """Show the environment of the process under the cursor, or of the one whose page is open; secrets are hidden."""
        row = logged_thing(self.page, self.table)
        if not isinstance(row, Process):
            self.say("Env needs a process: put the cursor on one")
            return
        with self.telling_failures():
            lines = await self.monitor.environment(row)
            self.show_text(f"Environment of process {row.pid} on {cells.place(row, self.view)}", "\n".join(lines))

    @work(group="stack", exclusive=True)
    async def action_stack(self) -> None:
        """Show Python stacks of the tagged rows, or of the one under the cursor. Equal stacks are shown once, the rarest first."""
        from cockpit.ui.stacks import processes_of, read_stacks, stacks_text

        view = self.view
        processes = processes_of(find_chosen(self.page, self.table), view)
        if not processes:
            self.say("Stack needs a process, an actor with a process, or a job that runs: put the cursor on one")
            return
        words = f"Reading stacks: {plural(len(processes), 'process', 'processes')} …"
        stacks = await self._await_aloud(read_stacks(self.monitor.stack, processes, view), words)
        heading = f"Stacks of {plural(len(stacks), 'process', 'processes')}" if len(stacks) > 1 else f"Stack of {stacks[0].title}"
        self.show_text(heading, stacks_text(stacks, self.size.width - 2, ascii=self.config.ascii))

    # The last lines of logs: read once what is in sight has stayed there for a moment, and again while it stays

    def refresh_log_tails(self) -> None:
        """Read what is in sight and due; what has gone out of sight is read no further."""
        things = self._logged_things()
        keys = tuple(thing.key for thing in things)
        if keys != self._in_sight:
            self._in_sight = keys
            self.workers.cancel_group(self, LOG_TAILS)
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

    @work(group=LOG_TAILS, exclusive=True)
    async def _read_log_tails(self, things: list[Any]) -> None:
        for thing in things:
            await self.log_tails.read(thing, self.monitor.logs.logs_of)
            self.draw()


def logged_thing(page: Page, table: Table) -> Any:
    """What the row under the cursor stands for; among the facts of one thing, and on a GPU of a node, that thing."""
    row = about(table.selected)
    if isinstance(row, ROW_ACTIONS["log"]):
        return row
    return page.thing if isinstance(page, DetailPage) else page.node if isinstance(page, NodePage) else row


def find_quotes(thing: Any) -> tuple[str, ...]:
    """The lines of a log that a finding quotes; commands to type are none. What others have as evidence stands in no log."""
    lines = thing.evidence if isinstance(thing, Finding) and thing.code in CODES_WITH_QUOTES else ()
    return tuple(line for line in lines if len(line) >= MIN_QUOTE_CHARS and not line.startswith("`"))
