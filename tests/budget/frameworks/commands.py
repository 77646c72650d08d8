"""Reads training commands for the tests of the frameworks."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from cockpit.budget.command import TrainingCommand
from cockpit.budget.demand import Budget
from cockpit.budget.frameworks import budget_of_command
from cockpit.budget.scripts import UNKNOWN


def read(program: str, words: str, files: Mapping[str, str] = {}, **more: Mapping[str, str]) -> Budget:
    """The budget of `program words`; a `?` in the words is a piece that is known only at run time."""

    def find(name: str) -> str | None:
        found = sorted((path for path in files if path == name or path.endswith(f"/{name}")), key=len)
        return found[0] if found else None

    argv = tuple(word.replace("?", UNKNOWN) for word in shlex.split(words))
    budget = budget_of_command(TrainingCommand(program, argv, files.get, find, **more))
    assert budget is not None
    return budget


def groups(budget: Budget) -> list[tuple[str, int | None, str | None]]:
    """The name, the GPUs and the strategy of each group that has GPUs, or may have."""
    amounts = [(group.name, None if (gpus := group.amount("GPU")) is None else int(gpus), group.strategy) for group in budget.groups or ()]
    return [each for each in amounts if each[1] != 0]


def never(budget: Budget) -> list[str]:
    """What the command contradicts."""
    return [line.text for line in budget.lines if line.level == "never"]
