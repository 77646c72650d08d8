"""Lists all actions; keys, footer, palette, help and commands are made from this list."""

from __future__ import annotations

from cockpit.actions.action import Action, Nouns, Runbook
from cockpit.actions.clean import Clean
from cockpit.actions.delete_pod import DeletePod
from cockpit.actions.in_ray import DrainNode, KillActor, RemovePlacementGroup
from cockpit.actions.jobs import DeleteJob, StopJob
from cockpit.actions.kill import Kill, KillOrphans, Terminate
from cockpit.actions.launch.actions import Launch, LaunchAgain
from cockpit.actions.recovery import Recover
from cockpit.actions.start import Start
from cockpit.actions.stop import Stop

ACTIONS: tuple[Action | Runbook, ...] = (
    Kill(),
    Terminate(),
    KillActor(),
    KillOrphans(),
    Stop(),
    Clean(),
    StopJob(),
    Launch(),
    LaunchAgain(),
    Recover(),
    DeleteJob(),
    RemovePlacementGroup(),
    DrainNode(),
    DeletePod(),
)
"""In the order of footer and help."""
STEPS: tuple[Action, ...] = (Start(),)
"""Actions that are only steps of a runbook: they have no key and no command."""
ACTION_KEYS = tuple(dict.fromkeys(key for action in ACTIONS for key in action.keys.split(",")))


def actions_on(key: str) -> tuple[Action | Runbook, ...]:
    """Return the actions of a key; the selected rows decide which one it means (`choose_action`)."""
    return tuple(action for action in ACTIONS if key in action.keys.split(","))


def find_action_or_runbook(name: str) -> Action | Runbook:
    """Return an action or runbook by its id."""
    return next(action for action in (*ACTIONS, *STEPS) if action.id == name)


def find_action(name: str) -> Action:
    """Return an action by its id."""
    return next(action for action in (*ACTIONS, *STEPS) if action.id == name and not isinstance(action, Runbook))


def nouns() -> Nouns:
    """Return the nouns of all kinds of targets, in the order of the actions."""
    return {what: words for action in (*ACTIONS, *STEPS) if not isinstance(action, Runbook) for what, words in action.nouns.items()}
