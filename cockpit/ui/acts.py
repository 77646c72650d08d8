"""What can be done to what is shown: which acts mean something for the rows that are chosen, and what they are aimed at."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from cockpit.actions.plan import Receipt, Target
from cockpit.actions.table import ACTS, Act, Aim, act_for, find_act, taken
from cockpit.disk import in_time
from cockpit.document import InputError
from cockpit.lookout import Lookout
from cockpit.model import Finding, Job, Node, Process, Session, Snapshot
from cockpit.presets import Preset, read_preset
from cockpit.shelf import Entry
from cockpit.sources.source import SourceError
from cockpit.ui.found import things
from cockpit.ui.pages.details import Detail, about
from cockpit.ui.pages.nodes import NodeDetail
from cockpit.ui.pages.page import Page
from cockpit.ui.plan import Doer, PlanScreen
from cockpit.ui.table import Table

if TYPE_CHECKING:
    from cockpit.ui.recover import Maker

GONE = "what this was found about is no longer there"


MOST = 100
"""Actors or placement groups at once: what asks Ray about them has seconds for all of them."""


class Screens(Protocol):
    """The part of the program that acts need."""

    clock: Callable[[], float]

    @property
    def table(self) -> Table:
        """Where things are chosen."""

    @property
    def page(self) -> Page:
        """What is open."""

    @property
    def shown(self) -> Snapshot:
        """What everything on the screen is drawn from."""

    @property
    def lookout(self) -> Lookout:
        """What is ended with the program."""

    def run_worker(self, work: Coroutine[Any, Any, None], *, group: str, exclusive: bool) -> object:
        """Beside the screen; a later one of the same group ends it."""

    def push_screen(self, screen: PlanScreen, callback: Callable[[Receipt | None], None]) -> object:
        """Lay a dialog over the page."""

    def say(self, text: str) -> None:
        """One sentence."""

    def follow_log(self, job: str) -> None:
        """Open the log of a job."""


class Acts:
    """Built only where something may be changed: without it no act has a key, a name or a way to be done."""

    def __init__(self, app: Screens, door: Doer, runbook: Maker | None, *, ascii: bool = False) -> None:  # noqa: A002
        self._app, self._door, self._runbook, self._ascii = app, door, runbook, ascii

    def means(self, act: str) -> bool:
        """Whether its key means this act for what is chosen now: that which mends a chosen finding before any other."""
        things = self._things()
        key = find_act(act).first_key
        mends = next((act for act in _mending(things) if key in act.keys.split(",")), None)
        if mends is not None:
            return mends.id == act
        found = act_for(key, _rows(things))
        return not isinstance(found, str) and found[0].id == act and (found[0].via != "runbook" or self._runbook is not None)

    def meant(self) -> frozenset[str]:
        """The acts that mean something now."""
        return frozenset(act.id for act in ACTS if self.means(act.id))

    def explain(self, key: str) -> None:
        """Why this key means nothing here."""
        found = act_for(key, self._things())
        if isinstance(found, str):
            self._app.say(found)

    def begin(self, act: Act) -> None:
        """Open the plan of this act on what is chosen."""
        things = self._things()
        findings = [thing for thing in things if isinstance(thing, Finding) and act in _mending([thing])]
        if findings:
            aim = self._aim_found(act, findings, _rows(things))
        else:
            mine = taken(act, _rows(things))
            aim = mine if isinstance(mine, str) else self._aim(act, mine)
        if isinstance(aim, str):
            self._app.say(aim)
            return
        rows = {row.key: about(row) for row in self._app.table.chosen}
        if act.verb in ("launch", "recover"):
            self._app.run_worker(self._begin_read(act, aim.rows[0], rows), group="begin", exclusive=True)
        else:
            self._open(act, aim, rows)

    def _open(self, act: Act, aim: Aim, rows: dict[str, Any]) -> None:
        self._app.push_screen(self._dialog(act, aim), partial(self._after, act, rows))

    async def _begin_read(self, act: Act, thing: Preset | Job, rows: dict[str, Any]) -> None:
        """With what its file holds now, not what it held when the page was drawn."""
        try:
            aim = await in_time(partial(_preset_of, thing), thing.path if isinstance(thing, Preset) else f"the preset of {thing.id}")
        except SourceError as error:
            aim = str(error)
        if isinstance(aim, str):
            self._app.say(aim)
        else:
            self._open(act, aim, rows)

    def _dialog(self, act: Act, aim: Aim) -> PlanScreen:
        if act.via == "runbook" and self._runbook is not None:
            from cockpit.ui.recover import RecoverScreen  # deferred: a runbook imports all that acts

            return RecoverScreen(self._runbook, self._app.lookout.ending, self._door, act, aim.rows[0], self._app.clock, ascii=self._ascii)
        return PlanScreen(self._door, act, aim, self._app.clock, ascii=self._ascii)

    def _things(self) -> Sequence[Any]:
        return chosen(self._app.page, self._app.table)

    def _aim_found(self, act: Act, findings: Sequence[Finding], rows: Sequence[Any]) -> Aim | str:
        """At what these findings are about, as it is now; where that is gone, at nothing rather than at everything."""
        found = {thing.key: thing for finding in findings for thing in things(finding, self._app.shown)}
        rows = [*{**found, **{row.key: row for row in rows}}.values()]
        if act.takes is not None:
            mine = [row for row in rows if isinstance(row, act.takes)]
            mine = [row for row in mine if act.why_not(row) is None] or mine
            able = taken(act, mine) if mine else f"{act.title}: {GONE}"
            return able if isinstance(able, str) else self._aim(act, able)
        if any(isinstance(row, Session) for row in rows) and act.verb in ("stop", "clean"):
            return self._aim(act, rows)
        hosts = self._homes(rows)
        everywhere = not any(finding.about for finding in findings)
        return Aim(hosts=hosts) if hosts or everywhere else f"{act.title}: {GONE}"

    def _homes(self, rows: Iterable[Any]) -> tuple[str, ...]:
        """The hosts that these things are on."""
        nodes = {node.id: node for node in self._app.shown.nodes or () if node.id}
        homes = (row if isinstance(row, Process | Session) else nodes.get(getattr(row, "node", None) or "", row) for row in rows)
        named = (home.ip or home.title if isinstance(home, Node) else getattr(home, "host", None) for home in homes)
        return tuple(dict.fromkeys(name for name in named if name))

    def _aim(self, act: Act, things: Sequence[Any]) -> Aim | str:
        if act.takes is Process:
            return Aim(rows=tuple(things))
        if act.via == "ray" and len(things) <= MOST:
            return Aim(rows=tuple(things), id=things[0].id)
        if act.takes is not None and len(things) > 1:
            return f"{act.title}: {f'at most {MOST}' if act.via == 'ray' else 'one'} at a time, and these are {len(things)}"
        if act.takes is not None:
            return Aim(rows=tuple(things), id=getattr(things[0], "id", None))
        sessions = tuple(thing for thing in things if isinstance(thing, Session)) if act.verb in ("stop", "clean") else ()
        return self._of_sessions(act, sessions) if sessions else Aim(hosts=self._hosts(things))

    def _of_sessions(self, act: Act, sessions: Sequence[Session]) -> Aim | str:
        names = tuple(dict.fromkeys(session.name for session in sessions))
        if act.verb == "clean":
            return Aim(rows=tuple(sessions), hosts=tuple(dict.fromkeys(session.host for session in sessions)))
        return Aim(session=names[0]) if len(names) == 1 else f"{act.title}: one at a time, and these are {len(names)}"

    def _hosts(self, things: Sequence[Any]) -> tuple[str, ...]:
        """Those of tagged nodes, that of the node whose page is open, else all. The cursor alone names none: it always lies somewhere."""
        tagged = self._app.table.tagged
        nodes = [thing for thing in things if isinstance(thing, Node) and thing.key in tagged]
        if not nodes and isinstance(self._app.page, NodeDetail):
            nodes = [self._app.page.node]
        return tuple(dict.fromkeys(node.ip or node.title for node in nodes))

    def _after(self, act: Act, rows: dict[str, Any], receipt: Receipt | None) -> None:
        """What is gone has no tag any more; of a job that was launched the log is what somebody wants to see."""
        done = receipt.done if receipt else ()
        if act.via == "runbook":
            self._app.lookout.refresh()
        if act.verb in ("launch", "recover") and done and done[0].id:
            self._app.follow_log(done[0].id)
        self._app.table.untag({key for key, thing in rows.items() if any(_same(target, thing) for target in done)})


def _preset_of(thing: Preset | Job) -> Aim | str:
    from cockpit.submission import preset_of_job  # deferred: what packs folders is no part of a start

    if isinstance(thing, Job) and thing.preset is None:
        return Aim(rows=(thing,))
    try:
        preset = preset_of_job(thing) if isinstance(thing, Job) else read_preset(thing.path)
    except InputError as error:
        return str(error)
    return preset if isinstance(preset, str) else Aim(rows=(preset,))


def chosen(page: Page, table: Table) -> Sequence[Any]:
    """What the chosen rows stand for, each once; among the facts of one thing, that thing."""
    found = {thing.key: thing for row in table.chosen if (thing := about(row)) is not None}
    return [*found.values()] or ([page.thing] if isinstance(page, Detail) else [])


def _rows(things: Sequence[Any]) -> Sequence[Any]:
    """What an act can be aimed at: of a file its preset, if it holds one."""
    rows = [thing.preset if isinstance(thing, Entry) else thing for thing in things]
    return [row for row in rows if row is not None and not isinstance(row, Finding)]


def _mending(things: Iterable[Any]) -> list[Act]:
    """The acts that mend the findings among these."""
    remedies = (thing.remedy for thing in things if isinstance(thing, Finding))
    return [find_act(remedy.act) for remedy in remedies if remedy and remedy.act]


def _same(target: Target, thing: Any) -> bool:
    if isinstance(thing, Process):
        return (target.host, target.pid, target.ticks) == (thing.host, thing.pid, thing.ticks)
    if isinstance(thing, Session):
        return (target.host, target.path) == (thing.host, thing.path)
    return target.id is not None and target.id == getattr(thing, "id", None)
