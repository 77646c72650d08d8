"""Lists the training frameworks. A new one is a module with `is_mine` and `budget_of`, and one entry here."""

from __future__ import annotations

from typing import Protocol

from cockpit.budget.command import TrainingCommand
from cockpit.budget.demand import Budget
from cockpit.budget.frameworks import areal, easyr1, nemo_rl, open_instruct, openrlhf, rlinf, roll, skyrl, slime, verl


class Framework(Protocol):
    """The functions that each module of this package has."""

    def is_mine(self, command: TrainingCommand, /) -> bool:
        """Whether the command starts a program of the framework or of a fork of it."""

    def budget_of(self, command: TrainingCommand, /) -> Budget:
        """What the command asks Ray for."""


FRAMEWORKS: tuple[Framework, ...] = (easyr1, skyrl, slime, open_instruct, roll, nemo_rl, areal, rlinf, openrlhf, verl)
"""The first one whose `is_mine` is true reads a command. Those with unmistakable keys or programs come before those with many forks."""


def budget_of_command(command: TrainingCommand) -> Budget | None:
    """What a training command asks Ray for; `None`: the command is not known."""
    framework = next((framework for framework in FRAMEWORKS if framework.is_mine(command)), None)
    return None if framework is None else framework.budget_of(command)
