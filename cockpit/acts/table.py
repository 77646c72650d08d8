"""The one table of acts: from it come keys, footer, palette, help and commands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from cockpit.acts.act import Act, Nouns, Operation, Runbook
from cockpit.acts.clean import Clean
from cockpit.acts.delete_pod import DeletePod
from cockpit.acts.in_ray import DrainNode, KillActor, RemovePlacementGroup
from cockpit.acts.jobs import DeleteJob, StopJob
from cockpit.acts.kill import Kill, KillOrphans, Terminate
from cockpit.acts.launch.act import Launch, LaunchAgain
from cockpit.acts.recover.act import Recover
from cockpit.acts.start import Start
from cockpit.acts.stop import Stop


def act_for(key: str, rows: Sequence[Any]) -> tuple[Act | Runbook, tuple[Any, ...]] | str:
    """What this key means on these rows, with those rows that it takes; or why it means nothing here."""
    meant = [act for act in ACTS if key in act.keys.split(",")]
    for act in meant:
        if act.takes is None or any(isinstance(row, act.takes) for row in rows):
            mine = choose_rows(act, rows)
            return mine if isinstance(mine, str) else (act, mine)
    return f"{meant[0].title}: put the cursor on {_choices(meant)}" if meant else "This key does nothing here"


def choose_rows(act: Operation, rows: Sequence[Any]) -> tuple[Any, ...] | str:
    """Those of the rows that this act takes; or why it can't be done to them."""
    if act.takes is None:
        return tuple(rows)
    mine = tuple(row for row in rows if isinstance(row, act.takes))
    reasons = [reason for row in mine for reason in [act.why_not(row)] if reason]
    return reasons[0] if reasons else mine or f"{act.title}: put the cursor on {_choices([act])}"


def _choices(acts: Iterable[Operation]) -> str:
    return " or ".join(act.noun for act in acts if act.takes)


def find_operation(name: str) -> Act | Runbook:
    """By its id."""
    return next(act for act in (*ACTS, *STEPS) if act.id == name)


def find_act(name: str) -> Act:
    """By its id; of what the executor carries out."""
    return next(act for act in (*ACTS, *STEPS) if act.id == name and not isinstance(act, Runbook))


def nouns() -> Nouns:
    """Of all acts, in their order."""
    return {what: words for act in (*ACTS, *STEPS) if not isinstance(act, Runbook) for what, words in act.nouns.items()}


# In the order of footer and help. Where a key has several, the first whose thing lies under the cursor is meant.
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
