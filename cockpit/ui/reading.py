"""More about what is chosen than its page shows: its facts as JSON, its name to paste, its log, its environment, its stack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual import work
from textual.app import App

from cockpit.config import Config
from cockpit.lookout import Lookout
from cockpit.model import Job, Process, Snapshot
from cockpit.sources.source import SourceError
from cockpit.status import export
from cockpit.text import clean, plural
from cockpit.ui.acts import chosen
from cockpit.ui.dialogs import TextPage
from cockpit.ui.logs import LogPage
from cockpit.ui.pages.details import about, copied, raw
from cockpit.ui.pages.page import Page
from cockpit.ui.stacks import looked, processes_of, told
from cockpit.ui.table import Table
from cockpit.ui.view import Index, View


class Reading(App[None]):
    """The half of the program that only reads on: it changes neither page nor cluster."""

    config: Config
    clock: Callable[[], float]
    lookout: Lookout
    shown: Snapshot
    _index: Index

    @property
    def page(self) -> Page:
        """What is open."""
        raise NotImplementedError

    @property
    def view(self) -> View:
        """What pages are drawn from now."""
        raise NotImplementedError

    @property
    def table(self) -> Table:
        """The one table."""
        return self.screen_stack[0].query_one(Table)

    def say(self, text: str, severity: Any = "information") -> None:
        """The only way to a toast: text from a cluster is never markup."""
        self.notify(clean(text), severity=severity, markup=False, timeout=6)

    def action_raw(self) -> None:
        """The facts under the cursor, as they are."""
        if text := raw(self.table.chosen):
            self.push_screen(TextPage("JSON", text))

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
        self.follow_log(job.id)

    def follow_log(self, job: str) -> None:
        """Open the log of a job."""
        self.push_screen(LogPage(job, self.lookout.follow_log(job), ascii=self.config.ascii))

    def _job_of(self, row: Any) -> Job | None:
        return self._index.jobs.get(getattr(row, "job", None) or "")

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

    @work(group="stack", exclusive=True)
    async def action_stack(self) -> None:
        """What the processes that are chosen do just now; of several that do the same only one is drawn, and the odd one out first."""
        view = self.view
        processes = processes_of(chosen(self.page, self.table), view)
        if not processes:
            self.say("A stack belongs to a process, to an actor, or to all of a job that hold GPUs")
            return
        self.say(f"Looking into {plural(len(processes), 'process', 'processes')} …")
        stacks = await looked(self.lookout.stack, processes, view)
        title = f"Stacks of {plural(len(stacks), 'process', 'processes')}" if len(stacks) > 1 else f"Stack of {stacks[0].title}"
        self.push_screen(TextPage(title, told(stacks, self.size.width - 2)))
