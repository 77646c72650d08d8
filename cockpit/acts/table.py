"""Lists all actions; keys, footer, palette, help and commands are made from this list."""

from __future__ import annotations

from cockpit.acts.act import Act, Nouns, Runbook
from cockpit.acts.clean import Clean
from cockpit.acts.delete_pod import DeletePod
from cockpit.acts.in_ray import DrainNode, KillActor, RemovePlacementGroup
from cockpit.acts.jobs import DeleteJob, StopJob
from cockpit.acts.kill import Kill, KillOrphans, Terminate
from cockpit.acts.launch.act import Launch, LaunchAgain
from cockpit.acts.recovery import Recover
from cockpit.acts.start import Start
from cockpit.acts.stop import Stop

ACTS: tuple[Act | Runbook, ...] = (
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
STEPS: tuple[Act, ...] = (Start(),)
"""Actions that are only steps of a runbook: they have no key and no command."""
ACTION_KEYS = tuple(dict.fromkeys(key for act in ACTS for key in act.keys.split(",")))


def actions_on(key: str) -> tuple[Act | Runbook, ...]:
    """Return the actions of a key; the selected rows decide which one it means (`choose_action`)."""
    return tuple(act for act in ACTS if key in act.keys.split(","))


def find_operation(name: str) -> Act | Runbook:
    """Return an action or runbook by its id."""
    return next(act for act in (*ACTS, *STEPS) if act.id == name)


def find_act(name: str) -> Act:
    """Return an action by its id."""
    return next(act for act in (*ACTS, *STEPS) if act.id == name and not isinstance(act, Runbook))


def nouns() -> Nouns:
    """Return the nouns of all kinds of targets, in the order of the actions."""
    return {what: words for act in (*ACTS, *STEPS) if not isinstance(act, Runbook) for what, words in act.nouns.items()}
