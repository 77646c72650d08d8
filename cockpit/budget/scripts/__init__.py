"""Finds the commands that a shell script would run, with their words and environment, without running it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from cockpit.budget.scripts.batch import slurm_variables
from cockpit.budget.scripts.programs import run_program
from cockpit.budget.scripts.run import LeftError, ScriptCommand, ScriptRun, StopError
from cockpit.budget.scripts.scope import UNKNOWN, Scope, Value

__all__ = ["UNKNOWN", "Script", "ScriptCommand", "commands"]


class Script(msgspec.Struct, frozen=True):
    """The result of reading a script."""

    commands: tuple[ScriptCommand, ...]
    unread: tuple[str, ...] = ()
    """Sentences on what could not be read."""
    assumed: tuple[str, ...] = ()
    """Variables that nothing here sets; they were treated as unset."""


def commands(text: str, *, env: Mapping[str, str | None], read: Callable[[str], str | None], shell: Mapping[str, str] = {}) -> Script:
    """Return the simple commands that a shell would run, in order.

    `env`: the variables that are exported to the script; the value `None` is unknown. They overwrite those that Slurm would set from the
    `#SBATCH` lines. `shell`: the variables that the calling shell exports; they count where nothing else sets them.
    """
    run = ScriptRun(read, run_program)
    given: dict[str, Value] = {name: (UNKNOWN if value is None else value,) for name, value in env.items()}
    variables = {**slurm_variables(text), **given}
    scope = Scope(variables, {*variables}, output=run.output, shell=shell)
    try:
        run.script(text, scope)
    except LeftError:
        pass
    except (StopError, RecursionError):
        run.unread["The script has too many steps for cockpit to follow"] = None
    return Script(tuple(run.found), tuple(run.unread), tuple(scope.assumed))
