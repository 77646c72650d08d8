"""Chooses the action that a key means for the selected rows, with its target, or gives the reason why the key does nothing there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from cockpit.actions.action import Action, Runbook
from cockpit.actions.plan import ActionTarget
from cockpit.model import Finding, Node, Process, Session, Snapshot
from cockpit.model.about import find_things

GONE_TEXT = "what this finding is about no longer exists"


class Selection(msgspec.Struct, frozen=True):
    """The rows that an operator has selected on the screen."""

    things: Sequence[Any] = ()
    """The tagged rows. If no row is tagged: the row under the cursor, or the one whose page is open."""
    hosts: tuple[str, ...] = ()
    """The hosts of tagged nodes, or of the node whose page is open: the target of an action that needs no row. Empty: all hosts."""
    snapshot: Snapshot = msgspec.field(default_factory=Snapshot)
    """The drawn snapshot, in which the subjects of a finding are found."""
    in_pods: bool = False
    """Whether KubeRay runs this Ray."""


class Choice(msgspec.Struct, frozen=True):
    """The meaning of a key."""

    action: Action | Runbook
    target: ActionTarget
    is_remedy_of_finding: bool = False
    """Whether it is the remedy of a selected finding."""


def choose_action(actions: Sequence[Action | Runbook], selection: Selection) -> Choice | str:
    """Return which of these actions the key means, with its target, or why it means none. `actions_on(key)` has the actions of one key.

    The remedy of a selected finding goes first, then the first action that takes one of the rows or needs none.
    """
    findings = [thing for thing in selection.things if isinstance(thing, Finding)]
    rows = [thing for thing in selection.things if not isinstance(thing, Finding)]
    remedies = [finding.remedy.action for finding in findings if finding.remedy and finding.remedy.action]
    mending = next((action for remedy in remedies for action in actions if action.id == remedy), None)
    fitting = (action for action in actions if action.takes is None or any(isinstance(row, action.takes) for row in rows))
    action = mending or next(fitting, None)
    if action is None:
        return f"{actions[0].title}: put the cursor on {' or '.join(action.noun for action in actions if action.takes)}"
    if selection.in_pods and action.why_not_in_pods is not None:
        return action.why_not_in_pods

    if mending is not None:
        mended = [finding for finding in findings if finding.remedy and finding.remedy.action == action.id]
        target = _target_of_findings(action, mended, rows, selection.snapshot)
    elif action.takes is not None:
        own = _of_type(action.takes, rows)
        target = next((reason for row in own if (reason := action.why_not(row))), None) or action.combine_into_target(own)
    else:
        own = _of_type(action.also_takes, rows)
        target = action.combine_into_target(own) if own else ActionTarget(hosts=selection.hosts)
    return target if isinstance(target, str) else Choice(action, target, is_remedy_of_finding=mending is not None)


def _target_of_findings(
    action: Action | Runbook, findings: Sequence[Finding], rows: Sequence[Any], snapshot: Snapshot
) -> ActionTarget | str:
    """Return the current subjects of these findings as a target. If all are gone, return a text: an empty target would mean everything."""
    about = {thing.key: thing for finding in findings for thing in find_things(finding, snapshot)}
    things = [*{**about, **{row.key: row for row in rows}}.values()]
    named = _of_type(action.takes or action.also_takes or action.takes_of_finding, things)
    able = [thing for thing in named if action.why_not(thing) is None]
    if action.takes is not None and named and not able:
        return str(action.why_not(named[0]))
    if able:
        return action.combine_into_target(able)

    # No subject is a possible target itself: the target is the hosts of the subjects.
    nodes = {node.id: node for node in snapshot.nodes or () if node.id}
    hosts: list[str | None] = []
    for thing in things if action.takes is None else ():
        home = thing if isinstance(thing, Process | Session) else nodes.get(getattr(thing, "node", None) or "", thing)
        hosts.append(home.ip or home.title if isinstance(home, Node) else getattr(home, "host", None))
    names = tuple(dict.fromkeys(filter(None, hosts)))
    is_about_nothing = action.takes is None and not any(finding.about for finding in findings)
    return ActionTarget(hosts=names) if names or is_about_nothing else f"{action.title}: {GONE_TEXT}"


def _of_type(kind: type[Any] | None, things: Iterable[Any]) -> list[Any]:
    return [thing for thing in things if kind is not None and isinstance(thing, kind)]
