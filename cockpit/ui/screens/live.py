"""Shows the pages of the running cluster and handles the keys that work only on the present."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from msgspec.structs import replace
from textual import work
from textual.app import ComposeResult, SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.screen import Screen

from cockpit.actions.action import Action, DiskRead, Runbook
from cockpit.actions.choose import Choice, Selection, choose_action
from cockpit.actions.plan import ActionTarget, Receipt, Target
from cockpit.actions.table import ACTION_KEYS, ACTIONS, actions_on
from cockpit.check.preset_list import PresetEntry, check_presets
from cockpit.config.address import Address
from cockpit.config.document import InputError, abbreviate_home
from cockpit.findings.nccl import report_lines
from cockpit.model import Finding, Job, Process, Session, Snapshot
from cockpit.model.about import find_things
from cockpit.monitor.logs import Log
from cockpit.presets import presets_folder, read_preset, write_preset
from cockpit.presets.folder import demo_env
from cockpit.presets.save import preset_of
from cockpit.sources.source import SourceError, run_in_thread
from cockpit.text import plural
from cockpit.ui import cells
from cockpit.ui.footer import KeyPlace
from cockpit.ui.keys import rank
from cockpit.ui.log_place import place_of
from cockpit.ui.log_tails import LogTails
from cockpit.ui.notices import await_with_notice, show_notice, showing_failures
from cockpit.ui.pages.actors import ActorsPage
from cockpit.ui.pages.details import DetailPage, about, detail_of, has_log
from cockpit.ui.pages.nodes import NodePage
from cockpit.ui.pages.presets import PresetsPage
from cockpit.ui.preset_files import edit_file, own_copy, sample_all_hosts
from cockpit.ui.screens.page_view import PageView
from cockpit.ui.screens.replay import STEP_S, TIME_BINDINGS, ReplayScreen, ask_moment, find_next_events, find_recording
from cockpit.ui.services import Services
from cockpit.ui.view import Index, View

if TYPE_CHECKING:
    from cockpit.recording.events import Event
    from cockpit.ui.screens.plan import ActionDialog

NODE_PROCESSES_INTERVAL_S: Final = 20.0
"""Seconds between two requests for the processes of an open node without a probe."""
READ_PRESETS_INTERVAL_S: Final = 20.0
"""Seconds after which visible presets are read and checked again."""
AGE_REDRAW_AFTER_S: Final = 6.0
"""Seconds without a new snapshot after which ages are drawn again. Longer than the pause between two snapshots of a large cluster."""
TICK_INTERVAL_S: Final = 2.0
"""Seconds between two checks for work that is due."""
MIN_SIGHT_S: Final = 0.3
"""Seconds for which a thing must be visible before its log is read. So moving the cursor over a row sends no request to Ray."""


class LiveScreen(Screen[None]):
    """Draws each new snapshot, unless the display is paused."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(key, f"act('{key}')", actions_on(key)[0].title, show=key in {action.first_key for action in ACTIONS})
            for key in ACTION_KEYS
        ),
        Binding("d", "dead", "Dead"),
        Binding("l", "log", "Log"),
        Binding("x", "hide", "Hide"),
        Binding("z", "unhide", "Unhide", show=False),
        Binding("e", "edit", "Edit"),
        Binding("w", "save", "Save preset"),
        Binding("e", "environment", "Env"),
        Binding("s", "stack", "Stack"),
        Binding("N", "nccl", "NCCL"),
        Binding("a", "address", "Other cluster"),
        Binding("p", "pause", "Pause"),
        *TIME_BINDINGS,
        Binding("at", "moment", "Go to time"),
        Binding("r,f5", "refresh", "Refresh", show=False),
        Binding("plus", "interval(-1)", "Poll faster", show=False),
        Binding("minus", "interval(1)", "Poll slower", show=False),
    ]

    def __init__(self, services: Services) -> None:
        super().__init__()
        self.services = services
        self.page_view = PageView(self)
        self.snapshot = services.snapshot
        """The snapshot on the screen."""
        self.frozen_at: float | None = None
        """The time at which the screen was paused; `None`: it is not paused."""
        self.choices: Mapping[str, Choice | str] = {}
        """For each key of an action: the action it begins for the selection, or the reason why none. Empty: nothing can be changed here."""
        self.log_tails = LogTails(services.clock)
        self._index = Index(self.snapshot)
        self._is_left = False
        """Whether a `ReplayScreen` covers this screen."""
        self._preset_entries: tuple[PresetEntry, ...] | None = None
        self._presets_read_at = 0.0
        self._in_sight: tuple[str, ...] = ()
        """Keys of the visible things that have a log."""

    def compose(self) -> ComposeResult:
        yield self.page_view

    def on_mount(self) -> None:
        self.page_view.table.focus()
        self.set_interval(TICK_INTERVAL_S, self.tick)

    # Drawing

    def make_view(self) -> View:
        """The state now, or when the screen was paused."""
        services, size = self.services, self.app.size
        return View(
            self.snapshot,
            self._index,
            services.history,
            self.frozen_at or services.clock(),
            size.width,
            services.config.ascii,
            size.height,
            actions=services.find_executor is not None,
            preset_entries=self._preset_entries,
            log_tails=self.log_tails.known,
        )

    def time_note(self) -> str | None:
        return None if self.frozen_at is None else "PAUSED"

    def draw(self) -> None:
        """Draw the open page from the newest snapshot; while paused, from the snapshot of that moment."""
        if not self.is_mounted or self._is_left:
            return
        if self.frozen_at is None and self.snapshot is not self.services.snapshot:
            self._use(self.services.snapshot)
        self.page_view.draw()
        self.on_table_moved()
        self._refresh_presets()

    def draw_newest(self) -> None:
        """Draw a new snapshot, unless the screen is paused."""
        if self.frozen_at is None:
            self.draw()

    def _use(self, snapshot: Snapshot) -> None:
        self.snapshot, self._index = snapshot, self.services.find_index(snapshot)

    def tick(self) -> None:
        """Redraw ages when no snapshot comes, and request again what the open page needs."""
        if self._is_left or not self.is_running:  # when a screen closes, its widgets are removed before its timers
            return
        clock, page = self.services.clock, self.page_view.page
        if self.frozen_at is None and clock() - self.snapshot.taken > AGE_REDRAW_AFTER_S:
            self.draw()
        if isinstance(page, NodePage) and clock() - (page.asked_at or clock()) > NODE_PROCESSES_INTERVAL_S:
            self._load_processes(page)
        self._refresh_presets()
        self.refresh_log_tails()

    def on_table_moved(self) -> None:
        """Choose the action of each key for the row under the cursor."""
        if self.services.find_executor is not None:
            selection = self.selection
            self.choices = {key: choose_action(actions_on(key), selection) for key in ACTION_KEYS}
        self.page_view.update_footer(self.fitting_actions)
        self.refresh_log_tails()

    def on_table_opened(self) -> None:
        page = self.page_view.page
        if isinstance(page, NodePage) and page.asked_at is None:
            self._load_processes(page)

    @work(group="node", exclusive=True)
    async def _load_processes(self, page: NodePage) -> None:
        await page.load_processes(self.services.monitor.node_processes, self.services.clock())
        self.draw()

    # What keys do

    @property
    def selection(self) -> Selection:
        """The selection for an action. A preset file is replaced by its preset; an invalid file is left out."""
        things = (thing.preset if isinstance(thing, PresetEntry) else thing for thing in self.page_view.selected)
        known = tuple(thing for thing in things if thing is not None)
        return Selection(known, self.page_view.hosts, self.snapshot, in_pods=self.services.monitor.kubernetes is not None)

    @property
    def fitting_actions(self) -> frozenset[str] | None:
        """Ids of the actions that fit the selection; `None`: nothing can be changed here."""
        if self.services.find_executor is None:
            return None
        return frozenset(choice.action.id for choice in self.choices.values() if isinstance(choice, Choice))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 Textual asks so
        """Textual runs the first action of a key that this method allows."""
        return action != "edit" or self.page_view.why_not(action) is None

    def place_key(self, binding: Binding) -> KeyPlace | None:
        name, _, argument = binding.action.partition("(")
        if name == "act":
            choice = self.choices.get(argument.strip("')"))
            if not isinstance(choice, Choice):
                return None
            kind = "remedy" if choice.is_remedy_of_finding else "row-action" if choice.action.takes else "action"
            return rank(kind), choice.action.title
        if name == "address" and self.snapshot.cluster.reachable is False:
            return 0, binding.description
        return self.page_view.place_key(binding)

    # Actions: from a key to a plan, and the cleanup after its receipt

    def action_act(self, key: str) -> None:
        """Show the plan of the action that a key begins, or say why it begins none."""
        self.begin(actions_on(key))

    def begin(self, actions: Sequence[Action | Runbook]) -> None:
        """Show the plan of the action that fits the selection, of these actions."""
        config, choice = self.services.config, choose_action(actions, self.selection)
        if self.services.find_executor is None:
            titles = " / ".join(action.title for action in actions)
            choice = f"{titles}: {config.readonly_reason if config.readonly else 'nothing can be changed here'}"
        if isinstance(choice, str):
            show_notice(self, choice)
            return
        action, target = choice.action, choice.target
        rows = {row.key: about(row) for row in self.page_view.table.chosen}
        read = action.find_disk_read(target.rows[0]) if target.rows else None
        if read is None:
            self._open_plan(action, target, rows)
        else:
            self._read_and_open_plan(action, read, rows)

    @work(group="plan", exclusive=True)
    async def _read_and_open_plan(self, action: Action | Runbook, read: DiskRead, rows: Mapping[str, Any]) -> None:
        try:
            target = await run_in_thread(read.read, read.what)
        except SourceError as error:
            target = str(error)
        if isinstance(target, str):
            show_notice(self, target)
        elif self.is_active:  # help or a dialog may have been opened meanwhile
            self._open_plan(action, target, rows)

    def _open_plan(self, action: Action | Runbook, target: ActionTarget, rows: Mapping[str, Any]) -> None:
        services = self.services
        target = replace(target, shown=self.snapshot.cluster.session)
        dialog: ActionDialog
        if services.find_executor is None:
            return
        if not isinstance(action, Runbook):
            from cockpit.ui.screens.plan import PlanScreen

            dialog = PlanScreen(services.find_executor(), action, target, services.clock)
        elif services.runbook is not None:
            from cockpit.ui.screens.recover import RecoverScreen  # deferred: a runbook imports every action

            ascii = services.config.ascii
            dialog = RecoverScreen(services.runbook, services.monitor.ending, action, target.rows[0], services.clock, ascii=ascii)
        else:
            show_notice(self, f"{action.title}: not possible here")
            return
        self.app.push_screen(dialog, partial(self._finish, action, rows))

    def _finish(self, action: Action | Runbook, rows: Mapping[str, Any], receipt: Receipt | None) -> None:
        """Untag targets that are gone; after a launch open the log of the new job."""
        done = receipt.done if receipt else ()
        if isinstance(action, Runbook):
            self.services.monitor.refresh()
        if action.starts_job and done and done[0].id:
            job = Job(done[0].id)
            self._open_log(job, (self.services.monitor.logs.job_log(job),))
        self.page_view.table.untag({key for key, thing in rows.items() if any(_is_same(target, thing) for target in done)})

    # The way into the past

    async def action_step(self, steps: int) -> None:
        """Go 10 s back or forward; jumps over gaps."""
        if steps > 0 and self.frozen_at is None:
            show_notice(self, "Step forward: this is now")
        else:
            await self._go_to((self.frozen_at or self.services.clock()) + steps * STEP_S)

    @work(group="event", exclusive=True)
    async def action_event(self, direction: int) -> None:
        """Go to the previous or next event: finding, action, job, failing source."""
        if events := await find_next_events(self, self.services, self.services.clock(), direction):
            await self._go_to(events[0].at, events)

    @work(group="moment", exclusive=True)
    async def action_moment(self) -> None:
        """Go to a time, such as 03:10 or -20m."""
        if (moment := await ask_moment(self, self.services, is_live=True)) is not None:
            await self._go_to(moment)

    async def _go_to(self, moment: float, events: Sequence[Event] = ()) -> None:
        if moment >= self.services.clock() - 1:
            self.frozen_at = None
            self.draw()
        elif self.is_active and find_recording(self, self.services) is not None:  # help or a dialog may have been opened meanwhile
            self._is_left = True
            replay = ReplayScreen(self.services, moment, live=self.page_view, events=events)
            await self.app.push_screen(replay, self._come_back)  # awaited: the next key goes to the new screen

    def _come_back(self, pages: PageView | None) -> None:
        """Show the present again. `pages`: the view of the past, to be continued; `None`: the past could not be read."""
        self._is_left = False
        if pages is not None:
            self.frozen_at = None
            self.page_view.continue_from(pages)
        self.draw()
        self.refresh_bindings()

    # Keys of pages and of the display

    @work(group="dead", exclusive=True)
    async def action_dead(self) -> None:
        """Show dead actors and why they died; loaded on demand."""
        page = self.page_view.page
        if self.page_view.refuses("dead", "Dead") or not isinstance(page, ActorsPage):
            return
        page.wants_dead = not page.wants_dead
        self.draw()
        if page.wants_dead:
            self.page_view.table.go_to_top()  # dead actors are listed there
            await page.load_dead(self.services.monitor.dead_actors)
            self.draw()

    def action_hide(self) -> None:
        """Hide a finding until it clears; on a hidden one: show it again."""
        pages = self.page_view
        if pages.refuses("hide", "Hide"):
            return
        found = pages.selected_of(Finding)
        pages.table.untag({row.key for row in pages.table.chosen})
        self._update_hidden(self.services.hidden.toggle(found))
        if isinstance(pages.page, DetailPage) and pages.page.thing in found:
            pages.open(pages.pages[:-1])

    def action_unhide(self) -> None:
        """Show again the findings that were hidden last."""
        self._update_hidden(self.services.hidden.undo())

    def _update_hidden(self, sentence: str) -> None:
        self._use(self.snapshot)
        self.refresh_bindings()
        self.draw()
        if sentence:
            show_notice(self, sentence)

    def action_pause(self) -> None:
        """Pause the display; cockpit keeps polling."""
        self.frozen_at = self.services.clock() if self.frozen_at is None else None
        self.draw()

    def action_refresh(self) -> None:
        """Poll every source now."""
        self.services.monitor.refresh(is_awaited=True)
        self._refresh_presets(now=self._preset_entries is not None)
        show_notice(self, "Polling every source now")

    def action_interval(self, step: int) -> None:
        """Poll this host faster or slower."""
        interval = self.services.monitor.change_interval(step)
        show_notice(self, f"This host is polled every {interval:g} s; Ray updates its own data every 5 s")

    # Which cluster

    @work(group="address", exclusive=True)
    async def action_address(self) -> None:
        """Switch to another Ray cluster on this host; lists those that answer."""
        others = [ray for ray in await self.services.monitor.choice.find_others() if ray.answers]
        await self._offer([Address(ray.url, ray.session, owner=ray.owner) for ray in others], "No other Ray cluster on this host answers")

    @work(group="address", exclusive=True)
    async def choose_cluster(self, addresses: tuple[Address, ...]) -> None:
        """Ask which of several live sessions to follow."""
        if_none = f"No Ray cluster on this host answers ({len(addresses)} found); press a to try again"
        await self._offer(await self.services.monitor.choice.find_answering(addresses), if_none)

    async def _offer(self, addresses: Sequence[Address], if_none: str) -> None:
        """Let the user choose one of these; without any, show the sentence `if_none`."""
        if not addresses:
            show_notice(self, if_none, "warning")
            return
        if not self.is_active:  # help or a dialog may have been opened meanwhile
            show_notice(self, f"{plural(len(addresses), 'Ray cluster answers', 'Ray clusters answer')}: press a to choose")
            return
        from cockpit.ui.screens.dialogs import AddressDialog

        chosen = await self.app.push_screen_wait(AddressDialog(addresses))
        if chosen is not None:
            self.services.monitor.choice.follow(replace(chosen, chosen=chosen.origin.startswith("session")))

    # Logs, environments, stacks

    @work(group="log-search", exclusive=True)
    async def action_log(self) -> None:
        """Open the log that matters for the row under the cursor, or for the thing whose page is open."""
        page, thing, logs = self.page_view.page, self.page_view.single, self.services.monitor.logs
        if isinstance(thing, Finding):
            order = dict(zip(thing.about, range(len(thing.about)), strict=True))  # the node of a GPU is not in `about`: it goes last
            listed = sorted(find_things(thing, self.snapshot), key=lambda each: order.get(each.key, len(order)))
            search = logs.logs_about(thing, listed)
        else:
            search = logs.logs_of(thing)
        with showing_failures(self):
            found = await await_with_notice(self, search, "Looking for its log …")
            if page is self.page_view.page and self.is_active:  # not if the user has left the page meanwhile
                place = place_of(thing, self.snapshot)
                self._open_log(thing, logs.with_file(found, place.file, place.node), place.marks)

    def _open_log(self, thing: Any, logs: tuple[Log, ...], marks: tuple[str, ...] = ()) -> None:
        from cockpit.ui.screens.log import LogScreen

        page = detail_of(thing) or self.page_view.page
        self.app.push_screen(LogScreen(page.heading, logs, self.services.clock, marks=marks, ascii=self.services.config.ascii))

    @work(group="environment", exclusive=True)
    async def action_environment(self) -> None:
        """Show the environment of the process under the cursor, or of the one whose page is open; secrets are hidden."""
        process = self.page_view.single
        if not isinstance(process, Process):
            show_notice(self, "Env needs a process: put the cursor on one")
            return
        with showing_failures(self):
            lines = await self.services.monitor.environment(process)
            self._show_text(f"Environment of process {process.pid} on {cells.place(process, self.make_view())}", "\n".join(lines))

    @work(group="stack", exclusive=True)
    async def action_stack(self) -> None:
        """Show Python stacks of the tagged rows, or of the one under the cursor. Equal stacks are shown once, the rarest first."""
        from cockpit.ui.screens.stacks import processes_of, read_stacks, stacks_text

        view = self.make_view()
        processes = processes_of(self.page_view.selected, view)
        if not processes:
            show_notice(self, "Stack needs a process, an actor with a process, or a job that runs: put the cursor on one")
            return
        notice = f"Reading stacks: {plural(len(processes), 'process', 'processes')} …"
        stacks = await await_with_notice(self, read_stacks(self.services.monitor.stack, processes, view), notice)
        heading = f"Stacks of {plural(len(stacks), 'process', 'processes')}" if len(stacks) > 1 else f"Stack of {stacks[0].title}"
        self._show_text(heading, stacks_text(stacks, self.app.size.width - 2, ascii=view.ascii))

    @work(group="nccl", exclusive=True)
    async def action_nccl(self) -> None:
        """Ask NCCL which rank of the job is behind. An old NCCL is asked only after a confirmation: its report can harm the job."""
        from cockpit.monitor.nccl_asker import RISK, OldNcclError
        from cockpit.ui.screens.dialogs import ConfirmDialog
        from cockpit.ui.screens.stacks import running_job_of

        job, asker = running_job_of(self.page_view.selected, self.snapshot), self.services.monitor.nccl
        if job is None:
            show_notice(self, "NCCL needs one running job: put the cursor on it")
            return
        with showing_failures(self):
            try:
                report = await await_with_notice(self, asker.ask(job), f"Asking NCCL about job {job.id} …")
            except OldNcclError as error:
                config = self.services.config
                if config.readonly:
                    show_notice(self, f"NCCL: {error}, whose report can harm its process: not asked, {config.readonly_reason}")
                    return
                if not self.is_active or not await self.app.push_screen_wait(ConfirmDialog("Ask an old NCCL?", f"{error}.\n\n{RISK}")):
                    return
                work = asker.ask(job, even_old=True)
                report = await await_with_notice(self, work, f"Asking NCCL about job {job.id} …")
            lines = report_lines(report, self.services.monitor.poller.snapshot, self.services.clock())
            self._show_text(f"NCCL's own report about job {job.id}", "\n".join(lines))

    def _show_text(self, title: str, text: str) -> None:
        if not self.is_active:  # help or a dialog may have been opened meanwhile
            return
        from cockpit.ui.screens.dialogs import TextScreen

        self.app.push_screen(TextScreen(title, text))

    # The last lines of logs

    def refresh_log_tails(self) -> None:
        """Read the logs of other things than before if others have become visible."""
        keys = tuple(thing.key for thing in self._things_with_log())
        if keys != self._in_sight:
            self._in_sight = keys
            self._read_log_tails()

    def _things_with_log(self) -> list[Any]:
        """The thing of the open page, then the thing of the pane; none while another screen covers this one."""
        if not self.is_active:
            return []
        page, pane = self.page_view.page, self.page_view.body.row
        things = (page.thing if isinstance(page, DetailPage) else None, about(pane))
        return list({thing.key: thing for thing in things if has_log(thing)}.values())

    @work(group="log-tails", exclusive=True)
    async def _read_log_tails(self) -> None:
        """Once things have been visible for `MIN_SIGHT_S`, read the ends of their logs, and again while they stay visible."""
        await asyncio.sleep(MIN_SIGHT_S)
        while things := self._things_with_log():
            for thing in things:
                if self.log_tails.is_due(thing, again=self.frozen_at is None):
                    await self.log_tails.read(thing, self.services.monitor.logs.logs_of)
                    self.draw()
            await asyncio.sleep(TICK_INTERVAL_S)
        self._in_sight = ()  # another screen covers this one: start again when it is gone

    # Presets

    def _refresh_presets(self, *, now: bool = False) -> None:
        """Read presets again if they are visible and `READ_PRESETS_INTERVAL_S` has passed, or `now`."""
        page = self.page_view.page
        are_shown = isinstance(page, PresetsPage) or isinstance(getattr(page, "thing", None), PresetEntry)
        if now or (are_shown and self.services.clock() - self._presets_read_at > READ_PRESETS_INTERVAL_S):
            self._presets_read_at = self.services.clock()
            self._read_presets()

    @work(group="presets", exclusive=True)
    async def _read_presets(self) -> None:
        """Read presets in a thread, because a home folder may be on a disk that hangs."""
        with showing_failures(self):
            check = partial(check_presets, self.snapshot, dict(os.environ), self.services.config)
            self._preset_entries = await run_in_thread(check, presets_folder(), READ_PRESETS_INTERVAL_S)
        self.draw()

    def action_edit(self) -> None:
        """Edit the preset in $EDITOR; for a ready-made one, your own copy."""
        entries = self.page_view.selected_of(PresetEntry)
        if len(entries) != 1:
            show_notice(self, "Edit one preset at a time: put the cursor on it")
            return
        try:
            path = own_copy(entries[0])
            if str(path) != entries[0].path:
                show_notice(self, f"Copied to {abbreviate_home(path)}")
            edit_file(self.app, path)
            read_preset(path)
        except InputError as error:
            show_notice(self, str(error), "warning")
        except (OSError, ValueError, SuspendNotSupported) as error:  # `shlex` refuses an EDITOR with an unclosed quote
            show_notice(self, f"Can't start an editor: {error}. Set EDITOR", "warning")
        self._refresh_presets(now=True)

    @work(group="naming", exclusive=True)
    async def action_save(self) -> None:
        """Save the job under the cursor as a preset: command, environment, metadata, and how its Ray was started."""
        if self.page_view.refuses("save", "Save preset"):
            return
        jobs = self.page_view.selected_of(Job)
        if len(jobs) != 1:
            show_notice(self, "Save one job at a time: put the cursor on it")
            return
        try:
            sampling = sample_all_hosts(self.services.monitor)
            snapshot = await await_with_notice(self, sampling, "Looking on each host how Ray was started …")
            if not self.is_active:  # help or a dialog may have been opened meanwhile
                return
            text = preset_of(jobs[0], snapshot, demo_env())
            question = f"Save job {jobs[0].id} as a preset. Name:"
            from cockpit.ui.screens.dialogs import NameDialog

            name = await self.app.push_screen_wait(NameDialog(question, jobs[0].preset or jobs[0].id))
            if name is not None:
                show_notice(self, f"Preset written: {abbreviate_home(write_preset(text, name))}. To edit it: e on the page Presets (7)")
        except InputError as error:
            show_notice(self, str(error), "warning")
        self._refresh_presets(now=True)


def _is_same(target: Target, thing: Any) -> bool:
    """Whether an action's target is this thing of the snapshot."""
    if isinstance(thing, Process):
        return (target.host, target.pid, target.ticks) == (thing.host, thing.pid, thing.ticks)
    if isinstance(thing, Session):
        return (target.host, target.path) == (thing.host, thing.path)
    return target.id is not None and target.id == getattr(thing, "id", None)
