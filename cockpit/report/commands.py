"""Makes the complete command of a finding's remedy."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Any, Final

from cockpit.actions.table import ACTIONS, find_action
from cockpit.model import Actor, Job, Node, PlacementGroup, Session

COMMANDS: Final = frozenset(action.id for action in ACTIONS if action.command)
"""Ids of actions that have a command of the same name."""
_KEY_KINDS: Final[Mapping[type[Any], str]] = {Job: "job", Actor: "actor", PlacementGroup: "pg", Node: "node"}
"""The prefix of the keys of each kind of target."""


def remedy_command(action: str | None, about: Iterable[str]) -> str | None:
    """`cockpit stop-job ppo-7b`; `None`: the action has no command. `about`: the keys that the finding is about.

    If these name no target of the action, or several, the command has `ID`, or `NAME` of a session, instead.
    """
    if action is None or action not in COMMANDS:
        return None
    found, known = find_action(action), [key.split(":", 1) for key in about]
    if found.takes is not None:
        ids = [rest for kind, rest in known if kind == _KEY_KINDS.get(found.takes)]
        return f"cockpit {action} {shlex.quote(ids[0]) if len(ids) == 1 else 'ID'}"
    names = {rest.rpartition("/")[2] for kind, rest in known if kind == "session" and found.also_takes is Session}
    session = shlex.quote(names.pop()) if len(names) == 1 else "NAME"
    return f"cockpit {action}" + (f" --session {session}" if names or session != "NAME" else "")
