"""What a key means for the selected rows: one action with its target, or the reason why it means nothing there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from cockpit.acts.act import Act, Runbook
from cockpit.acts.plan import Aim
from cockpit.model import Finding, Node, Process, Session, Snapshot
from cockpit.model.about import find_things

GONE_TEXT = "what this finding is about no longer exists"


class Selection(msgspec.Struct, frozen=True):
    """What an operator has selected on the screen."""

    things: Sequence[Any] = ()
    """The things of the tagged rows. If no row is tagged: that of the row under the cursor, or the one whose page is open."""
    hosts: tuple[str, ...] = ()
    """The hosts of tagged nodes, or of the node whose page is open: an action that needs no row goes there. Empty: to all hosts."""
    snapshot: Snapshot = msgspec.field(default_factory=Snapshot)
    """The snapshot that is drawn: the things that a finding is about are looked up in it."""
    in_pods: bool = False
    """Whether KubeRay runs this Ray."""


class Choice(msgspec.Struct, frozen=True):
    """What a key means."""

    action: Act | Runbook
    target: Aim
    mends: bool = False
    """Whether it is the remedy of a selected finding."""


def choose_action(actions: Sequence[Act | Runbook], selection: Selection) -> Choice | str:
    """Which of these actions is meant, and its target; or why none is. Those of one key: `actions_on(key)`.

    The remedy of a selected finding is meant before any other, then the first action that takes one of the rows or needs none.
    """
    findings = [thing for thing in selection.things if isinstance(thing, Finding)]
    rows = [thing for thing in selection.things if not isinstance(thing, Finding)]
    remedies = [finding.remedy.act for finding in findings if finding.remedy and finding.remedy.act]
    mending = next((action for remedy in remedies for action in actions if action.id == remedy), None)
    fitting = (action for action in actions if action.takes is None or any(isinstance(row, action.takes) for row in rows))
    action = mending or next(fitting, None)
    if action is None:
        return f"{actions[0].title}: put the cursor on {' or '.join(action.noun for action in actions if action.takes)}"
    if selection.in_pods and action.why_not_in_pods is not None:
        return action.why_not_in_pods
    if mending is None:
        target = _target_rows(action, rows, selection)
    else:
        mended = [finding for finding in findings if finding.remedy and finding.remedy.act == action.id]
        target = _target_findings(action, mended, rows, selection.snapshot)
    return target if isinstance(target, str) else Choice(action, target, mends=mending is not None)


def _target_rows(action: Act | Runbook, rows: Sequence[Any], selection: Selection) -> Aim | str:
    if action.takes is None:
        own = _of_kind(action.also_takes, rows)
        return action.aim_at(own) if own else Aim(hosts=selection.hosts)
    own = _of_kind(action.takes, rows)
    reasons = (action.why_not(row) for row in own)
    return next((reason for reason in reasons if reason), None) or action.aim_at(own)


def _target_findings(action: Act | Runbook, findings: Sequence[Finding], rows: Sequence[Any], snapshot: Snapshot) -> Aim | str:
    """What these findings are about, as it is now. If that is gone, nothing is meant: an empty target would mean everything."""
    about = {thing.key: thing for finding in findings for thing in find_things(finding, snapshot)}
    things = [*{**about, **{row.key: row for row in rows}}.values()]
    named = _of_kind(action.takes or action.also_takes or action.takes_of_finding, things)
    able = [thing for thing in named if action.why_not(thing) is None]
    if action.takes is not None and named and not able:
        return str(action.why_not(named[0]))
    if able:
        return action.aim_at(able)
    hosts = () if action.takes is not None else _hosts_of(things, snapshot)
    is_about_nothing = action.takes is None and not any(finding.about for finding in findings)
    return Aim(hosts=hosts) if hosts or is_about_nothing else f"{action.title}: {GONE_TEXT}"


def _of_kind(kind: type[Any] | None, things: Iterable[Any]) -> list[Any]:
    return [thing for thing in things if kind is not None and isinstance(thing, kind)]


def _hosts_of(things: Iterable[Any], snapshot: Snapshot) -> tuple[str, ...]:
    """The hosts that these things are on."""
    nodes = {node.id: node for node in snapshot.nodes or () if node.id}
    homes = (thing if isinstance(thing, Process | Session) else nodes.get(getattr(thing, "node", None) or "", thing) for thing in things)
    named = (home.ip or home.title if isinstance(home, Node) else getattr(home, "host", None) for home in homes)
    return tuple(dict.fromkeys(name for name in named if name))
