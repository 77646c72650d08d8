"""Says that an RLinf command asks Ray for no GPU: it pins its workers to nodes, and Ray shows their GPUs as free."""

from __future__ import annotations

import posixpath

from cockpit.budget.command import Settings, TrainingCommand, flatten
from cockpit.budget.config_files import compose
from cockpit.budget.demand import Budget


def is_mine(command: TrainingCommand) -> bool:
    """Whether it is a Hydra program that imports RLinf."""
    found = command.source()
    return found is not None and "rlinf" in found[1] and "hydra" in found[1]


def budget_of(command: TrainingCommand) -> Budget:
    """A budget without a number, because Ray does not place what the job uses."""
    words = command.words
    name = words.flag("--config-name", "-cn") or ""
    tree, _ = compose(
        command.read, words.flag("--config-path", "-cp") or posixpath.join(posixpath.dirname(command.program), "config"), name
    )
    settings = Settings(command, words.values, flatten(tree))
    nodes = settings.count("cluster.num_nodes")
    where = f"{nodes} nodes" if nodes else "its nodes"
    return Budget("RLinf", unread=(f"RLinf asks Ray for no GPU: it uses all GPUs of {where}, and Ray shows them as free",))
