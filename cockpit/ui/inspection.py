"""What keys show of the chosen row beyond its page: JSON, clipboard, log, environment, stacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual import work
from textual.app import App

from cockpit.config.settings import Config
from cockpit.model import Job, Process, Snapshot
from cockpit.monitor.monitor import ClusterMonitor
from cockpit.report.status import export
from cockpit.sources.source import SourceError
from cockpit.text import clean, plural
from cockpit.ui.acts import chosen
from cockpit.ui.dialogs import TextScreen
from cockpit.ui.log_screen import LogScreen
from cockpit.ui.pages.details import about, clipboard_text, json_text
from cockpit.ui.pages.page import Page
from cockpit.ui.pane import Body
from cockpit.ui.stacks import processes_of, read_stacks, stacks_text
from cockpit.ui.table import Table
from cockpit.ui.view import Index, View


class InspectionApp(App[None]):
    """The part of the application that only reads: it changes neither page nor cluster."""

    config: Config
    clock: Callable[[], float]
    monitor: ClusterMonitor
    drawn_snapshot: Snapshot
    _index: Index

    @property
    def page(self) -> Page:
        """The open page."""
        raise NotImplementedError

    @property
    def view(self) -> View:
        """Everything that pages are drawn from."""
        raise NotImplementedError

    @property
    def table(self) -> Table:
        """The one table."""
        return self.screen_stack[0].query_one(Table)

    @property
    def body(self) -> Body:
        """The table and its pane."""
        return self.screen_stack[0].query_one(Body)

    def action_pane(self) -> None:
        """Hide or show below the table what Enter would open (from 140x36 on)."""
        if not self.body.toggle():
            self.say("No line is free for the pane, or there is no more to say about this row")

    def say(self, text: str, severity: Any = "information") -> None:
        """Show a notification; text from a cluster is never markup."""
        self.notify(clean(text), severity=severity, markup=False, timeout=6)

    def action_raw(self) -> None:
        """All facts of the row, as JSON."""
        if text := json_text(self.table.chosen):
            self.push_screen(TextScreen("JSON", text))

    def action_copy(self) -> None:
        """Copy the pid, id or path of the row to the terminal's clipboard."""
        texts = [clean(clipboard_text(row)) for row in self.table.chosen]
        if texts:
            self.copy_to_clipboard("\n".join(texts))
            self.say(f"Copied {texts[0]}" + (f" and {len(texts) - 1} more" if len(texts) > 1 else ""))

    def action_export(self) -> None:
        """Write the snapshot as JSON to a file in the current directory."""
        try:
            self.say(f"Snapshot written to {export(self.drawn_snapshot, self.clock())}")
        except OSError as error:
            self.say(f"Export failed: {error}", "error")

    def action_log(self) -> None:
        """Follow the log of the job under the cursor."""
        row = about(self.table.selected)
        job = row if isinstance(row, Job) else self._job_of(row)
        if job is None:
            other = row.other_owner if isinstance(row, Process) else None
            self.say(
                f"No log: this belongs to {other}" if other else "No job here: put the cursor on a job, or on an actor or process of one"
            )
            return
        self.follow_log(job.id)

    def follow_log(self, job: str) -> None:
        """Open the log of a job."""
        self.push_screen(LogScreen(job, self.monitor.follow_log(job), ascii=self.config.ascii))

    def _job_of(self, row: Any) -> Job | None:
        return self._index.jobs.get(getattr(row, "job", None) or "")

    @work(group="environment", exclusive=True)
    async def action_environment(self) -> None:
        """Environment of the process under the cursor; secrets are hidden."""
        row = about(self.table.selected)
        if not isinstance(row, Process):
            self.say("Env needs a process: put the cursor on one")
            return
        try:
            lines = await self.monitor.environment(row)
        except SourceError as error:
            self.say(str(error), "warning")
            return
        self.push_screen(TextScreen(f"Environment of process {row.pid} on {row.host}", "\n".join(lines)))

    @work(group="stack", exclusive=True)
    async def action_stack(self) -> None:
        """Python stacks of the chosen processes. Equal stacks are shown once, the rarest first."""
        view = self.view
        processes = processes_of(chosen(self.page, self.table), view)
        if not processes:
            self.say("Stack needs a process, an actor, or a job whose processes hold GPUs: put the cursor on one")
            return
        self.say(f"Reading stacks: {plural(len(processes), 'process', 'processes')} …")
        stacks = await read_stacks(self.monitor.stack, processes, view)
        title = f"Stacks of {plural(len(stacks), 'process', 'processes')}" if len(stacks) > 1 else f"Stack of {stacks[0].title}"
        self.push_screen(TextScreen(title, stacks_text(stacks, self.size.width - 2)))
