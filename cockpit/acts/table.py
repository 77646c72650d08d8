"""The one table of acts: from it come keys, footer, palette, help and commands."""

from __future__ import annotations

from cockpit.acts.act import Act, Nouns, Runbook
from cockpit.acts.clean import Clean
from cockpit.acts.delete_pod import DeletePod
from cockpit.acts.in_ray import DrainNode, KillActor, RemovePlacementGroup
from cockpit.acts.jobs import DeleteJob, StopJob
from cockpit.acts.kill import Kill, KillOrphans, Terminate
from cockpit.acts.launch.act import Launch, LaunchAgain
from cockpit.acts.recover.act import Recover
from cockpit.acts.start import Start
from cockpit.acts.stop import Stop


def actions_on(key: str) -> tuple[Act | Runbook, ...]:
    """Those that share this key: what is selected decides which of them it means (`choose_action`)."""
    return tuple(act for act in ACTS if key in act.keys.split(","))


def find_operation(name: str) -> Act | Runbook:
    """By its id."""
    return next(act for act in (*ACTS, *STEPS) if act.id == name)


def find_act(name: str) -> Act:
    """By its id; of what the executor carries out."""
    return next(act for act in (*ACTS, *STEPS) if act.id == name and not isinstance(act, Runbook))


def nouns() -> Nouns:
    """Of all acts, in their order."""
    return {what: words for act in (*ACTS, *STEPS) if not isinstance(act, Runbook) for what, words in act.nouns.items()}


# In the order of footer and help.
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

# What is only done as a step of a runbook: no key and no command is made of it.
STEPS: tuple[Act, ...] = (Start(),)

ACTION_KEYS = tuple(dict.fromkeys(key for act in ACTS for key in act.keys.split(",")))
"""All keys of actions, in the order of the table."""
