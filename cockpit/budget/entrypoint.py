"""Finds the training command in an entrypoint or a script, and what is asked for around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cockpit.budget.asked import Budget
from cockpit.budget.shell import commands

Reader = Callable[[Sequence[str], Mapping[str, str]], Budget]
Read = Callable[[str], "str | None"]


def budget_of(
    entrypoint: str,
    *,
    env: Mapping[str, str | None] = {},
    read: Read = lambda _: None,
    job: Mapping[str, float] | None = None,
) -> Budget:
    """What a job's entrypoint, or the text of a script, will ask for.

    `env`: the variables that it is started with, `None` where nobody knows the value. `read`: a file's text by the path that the
    script names, `None` where there is none. `job`: what a plain Ray job asks for itself, by resource.
    """
    script = commands(entrypoint, env=env, read=read)
    return Budget(framework=None, unread=script.unread)
