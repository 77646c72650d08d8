"""What can be done to what is shown: which acts mean something for the rows that are chosen, and what they are aimed at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from cockpit.acts.act import Act, Aim, DiskRead, Operation, Runbook
from cockpit.acts.plan import Receipt, Target
from cockpit.acts.table import ACTS, act_for, choose_rows, find_operation
from cockpit.check.preset_list import PresetEntry
from cockpit.model import Finding, Node, Process, Session
from cockpit.sources.source import SourceError, run_in_thread
from cockpit.ui.findings import find_things
from cockpit.ui.pages.details import DetailPage, about
from cockpit.ui.pages.nodes import NodePage
from cockpit.ui.section import Page
from cockpit.ui.table import Table

if TYPE_CHECKING:
    from cockpit.acts.executor import ActionExecutor
    from cockpit.ui.app import Cockpit
    from cockpit.ui.plan_dialog import ActDialog
    from cockpit.ui.recover_dialog import RunbookFactory

GONE_TEXT = "what this finding is about no longer exists"


class Acts:
    """Built only where something may be changed: without it no act has a key, a name or a way to be done."""

    def __init__(self, app: Cockpit, make_executor: Callable[[], ActionExecutor], runbook: RunbookFactory | None) -> None:
        self._app, self._make_executor, self._runbook = app, cache(make_executor), runbook

    def means(self, act: str) -> bool:
        """Whether its key means this act for what is chosen now: that which mends a chosen finding before any other."""
        things, operation = self._things(), find_operation(act)
        if self._why_not_here(operation):
            return False
        key = operation.first_key
        mends = next((act for act in _mending(things) if key in act.keys.split(",")), None)
        if mends is not None:
            return mends.id == act
        found = act_for(key, _rows(things))
        return not isinstance(found, str) and found[0].id == act and (self._runbook is not None or not isinstance(found[0], Runbook))

    def meant(self) -> frozenset[str]:
        return frozenset(act.id for act in ACTS if self.means(act.id))

    def find_mending_acts(self) -> frozenset[str]:
        return frozenset(act.id for act in _mending(self._things()))

    def explain(self, key: str) -> None:
        """Why this key means nothing here."""
        found = act_for(key, self._things())
        if why := found if isinstance(found, str) else self._why_not_here(found[0]):
            self._app.say(why)

    def _why_not_here(self, act: Operation) -> str | None:
        return None if self._app.monitor.kubernetes is None else act.why_not_in_pods

    def begin(self, act: Act | Runbook) -> None:
        """Open the plan of this act on what is chosen."""
        things = self._things()
        findings = [thing for thing in things if isinstance(thing, Finding) and act in _mending([thing])]
        if findings:
            aim = self._aim_found(act, findings, _rows(things))
        else:
            mine = choose_rows(act, _rows(things))
            aim = mine if isinstance(mine, str) else self._aim(act, mine)
        if isinstance(aim, str):
            self._app.say(aim)
            return
        rows = {row.key: about(row) for row in self._app.table.chosen}
        reading = act.find_disk_read(aim.rows[0]) if aim.rows else None
        if reading is not None:
            self._app.run_worker(self._read_and_open(act, reading, rows), group="begin", exclusive=True)
        else:
            self._open(act, aim, rows)

    async def _read_and_open(self, act: Act | Runbook, reading: DiskRead, rows: dict[str, Any]) -> None:
        try:
            aim = await run_in_thread(reading.read, reading.what)
        except SourceError as error:
            aim = str(error)
        if isinstance(aim, str):
            self._app.say(aim)
        else:
            self._open(act, aim, rows)

    def _open(self, act: Act | Runbook, aim: Aim, rows: dict[str, Any]) -> None:
        clock = self._app.clock
        aim = replace(aim, shown=self._app.drawn_snapshot.cluster.session)
        dialog: ActDialog
        if not isinstance(act, Runbook):
            from cockpit.ui.plan_dialog import PlanScreen

            dialog = PlanScreen(self._make_executor(), act, aim, clock)
        elif self._runbook is not None:
            from cockpit.ui.recover_dialog import RecoverScreen  # deferred: a runbook imports all that acts

            ascii = self._app.config.ascii
            dialog = RecoverScreen(self._runbook, self._app.monitor.ending, act, aim.rows[0], clock, ascii=ascii)
        else:
            return
        self._app.push_screen(dialog, partial(self._after, act, rows))

    def _things(self) -> Sequence[Any]:
        return find_chosen(self._app.page, self._app.table)

    def _aim_found(self, act: Operation, findings: Sequence[Finding], rows: Sequence[Any]) -> Aim | str:
        """At what these findings are about, as it is now; where that is gone, at nothing rather than at everything."""
        found = {thing.key: thing for finding in findings for thing in find_things(finding, self._app.drawn_snapshot)}
        rows = [*{**found, **{row.key: row for row in rows}}.values()]
        if act.takes is not None:
            mine = [row for row in rows if isinstance(row, act.takes)]
            mine = [row for row in mine if act.why_not(row) is None] or mine
            able = choose_rows(act, mine) if mine else f"{act.title}: {GONE_TEXT}"
            return able if isinstance(able, str) else self._aim(act, able)
        if _also_taken(act, rows):
            return self._aim(act, rows)
        hosts = self._homes(rows)
        everywhere = not any(finding.about for finding in findings)
        return Aim(hosts=hosts) if hosts or everywhere else f"{act.title}: {GONE_TEXT}"

    def _homes(self, rows: Iterable[Any]) -> tuple[str, ...]:
        """The hosts that these things are on."""
        nodes = {node.id: node for node in self._app.drawn_snapshot.nodes or () if node.id}
        homes = (row if isinstance(row, Process | Session) else nodes.get(getattr(row, "node", None) or "", row) for row in rows)
        named = (home.ip or home.title if isinstance(home, Node) else getattr(home, "host", None) for home in homes)
        return tuple(dict.fromkeys(name for name in named if name))

    def _aim(self, act: Operation, things: Sequence[Any]) -> Aim | str:
        mine = things if act.takes is not None else _also_taken(act, things)
        return act.aim_at(mine) if mine else Aim(hosts=self._hosts(things))

    def _hosts(self, things: Sequence[Any]) -> tuple[str, ...]:
        """Those of tagged nodes, that of the node whose page is open, else all. The cursor alone names none: it always lies somewhere."""
        nodes = [thing for thing in things if isinstance(thing, Node) and thing.key in self._app.table.tagged]
        if not nodes and isinstance(self._app.page, NodePage):
            nodes = [self._app.page.node]
        return tuple(dict.fromkeys(node.ip or node.title for node in nodes))

    def _after(self, act: Operation, rows: dict[str, Any], receipt: Receipt | None) -> None:
        """What is gone has no tag any more; of a job that was launched the log is what somebody wants to see."""
        done = receipt.done if receipt else ()
        if isinstance(act, Runbook):
            self._app.monitor.refresh()
        if act.starts_job and done and done[0].id:
            self._app.follow_log(done[0].id)
        self._app.table.untag({key for key, thing in rows.items() if any(_same(target, thing) for target in done)})


def _also_taken(act: Operation, things: Sequence[Any]) -> list[Any]:
    return [thing for thing in things if act.also_takes is not None and isinstance(thing, act.also_takes)]


def find_chosen(page: Page, table: Table) -> Sequence[Any]:
    """What the chosen rows stand for, each once; among the facts of one thing, that thing."""
    found = {thing.key: thing for row in table.chosen if (thing := about(row)) is not None}
    return [*found.values()] or ([page.thing] if isinstance(page, DetailPage) else [])


def _rows(things: Sequence[Any]) -> Sequence[Any]:
    """What an act can be aimed at: of a file its preset, if it holds one."""
    rows = [thing.preset if isinstance(thing, PresetEntry) else thing for thing in things]
    return [row for row in rows if row is not None and not isinstance(row, Finding)]


def _mending(things: Iterable[Any]) -> list[Act | Runbook]:
    remedies = (thing.remedy for thing in things if isinstance(thing, Finding))
    return [find_operation(remedy.act) for remedy in remedies if remedy and remedy.act]


def _same(target: Target, thing: Any) -> bool:
    if isinstance(thing, Process):
        return (target.host, target.pid, target.ticks) == (thing.host, thing.pid, thing.ticks)
    if isinstance(thing, Session):
        return (target.host, target.path) == (thing.host, thing.path)
    return target.id is not None and target.id == getattr(thing, "id", None)
