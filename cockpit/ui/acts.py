"""What can be done to what is shown: which acts mean something for the rows that are chosen, and what they are aimed at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from cockpit.actions.plan import Receipt, Target
from cockpit.actions.table import ACTS, Act, Aim, act_for, find_act, taken
from cockpit.model import Node, Process, Session
from cockpit.ui.pages.details import Detail, about
from cockpit.ui.pages.nodes import NodeDetail
from cockpit.ui.pages.page import Page
from cockpit.ui.plan import Doer, PlanScreen
from cockpit.ui.table import Table


class Screens(Protocol):
    """The part of the program that acts need."""

    clock: Callable[[], float]

    @property
    def table(self) -> Table:
        """Where things are chosen."""

    @property
    def page(self) -> Page:
        """What is open."""

    def push_screen(self, screen: PlanScreen, callback: Callable[[Receipt | None], None]) -> object:
        """Lay a dialog over the page."""

    def say(self, text: str) -> None:
        """One sentence."""


class Acts:
    """Built only where something may be changed: without it no act has a key, a name or a way to be done."""

    def __init__(self, app: Screens, door: Doer, *, ascii: bool = False) -> None:  # noqa: A002
        self._app, self._door, self._ascii = app, door, ascii
        self._offered: frozenset[str] = frozenset()

    def means(self, act: str) -> bool:
        """Whether its key means this act for what is chosen now."""
        found = act_for(find_act(act).first_key, self._things())
        return not isinstance(found, str) and found[0].id == act

    def turned(self) -> bool:
        """Whether other acts mean something than when this was asked last."""
        before, self._offered = self._offered, frozenset(act.id for act in ACTS if self.means(act.id))
        return before != self._offered

    def explain(self, key: str) -> None:
        """Why this key means nothing here."""
        found = act_for(key, self._things())
        if isinstance(found, str):
            self._app.say(found)

    def begin(self, act: Act) -> None:
        """Open the plan of this act on what is chosen."""
        mine = taken(act, self._things())
        aim = mine if isinstance(mine, str) else self._aim(act, mine)
        if isinstance(aim, str):
            self._app.say(aim)
            return
        rows = {row.key: about(row) for row in self._app.table.chosen}
        self._app.push_screen(PlanScreen(self._door, act, aim, self._app.clock, ascii=self._ascii), partial(self._untag, rows))

    def _things(self) -> Sequence[Any]:
        """What the chosen rows stand for, each once; among the facts of one thing, that thing."""
        page = self._app.page
        found = {thing.key: thing for row in self._app.table.chosen if (thing := about(row)) is not None}
        return [*found.values()] or ([page.thing] if isinstance(page, Detail) else [])

    def _aim(self, act: Act, things: Sequence[Any]) -> Aim | str:
        if act.takes is Process:
            return Aim(rows=tuple(things))
        if act.takes is not None:
            return Aim(rows=tuple(things), id=things[0].id) if len(things) == 1 else f"{act.title}: one at a time; {len(things)} are tagged"
        sessions = tuple(thing for thing in things if isinstance(thing, Session)) if act.verb in ("stop", "clean") else ()
        return self._of_sessions(act, sessions) if sessions else Aim(hosts=self._hosts(things))

    def _of_sessions(self, act: Act, sessions: Sequence[Session]) -> Aim | str:
        names = tuple(dict.fromkeys(session.name for session in sessions))
        if act.verb == "clean":
            return Aim(rows=tuple(sessions), hosts=tuple(dict.fromkeys(session.host for session in sessions)))
        return Aim(session=names[0]) if len(names) == 1 else f"{act.title}: one at a time; {len(names)} are tagged"

    def _hosts(self, things: Sequence[Any]) -> tuple[str, ...]:
        """Those of tagged nodes, that of the node whose page is open, else all. The cursor alone names none: it always lies somewhere."""
        tagged = self._app.table.tagged
        nodes = [thing for thing in things if isinstance(thing, Node) and thing.key in tagged]
        if not nodes and isinstance(self._app.page, NodeDetail):
            nodes = [self._app.page.node]
        return tuple(dict.fromkeys(node.ip or node.title for node in nodes))

    def _untag(self, rows: dict[str, Any], receipt: Receipt | None) -> None:
        """What is gone has no tag any more."""
        done = receipt.done if receipt else ()
        self._app.table.untag({key for key, thing in rows.items() if any(_same(target, thing) for target in done)})


def _same(target: Target, thing: Any) -> bool:
    if isinstance(thing, Process):
        return (target.host, target.pid, target.ticks) == (thing.host, thing.pid, thing.ticks)
    if isinstance(thing, Session):
        return (target.host, target.path) == (thing.host, thing.path)
    return target.id is not None and target.id == getattr(thing, "id", None)
