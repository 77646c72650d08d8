"""Which commands a shell script would run, with their words and environment, as far as that can be known without running it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from cockpit.budget.scripts.batch import slurm_variables
from cockpit.budget.scripts.programs import run_program
from cockpit.budget.scripts.run import LeftError, ScriptCommand, ScriptRun, StopError
from cockpit.budget.scripts.scope import Scope, Value
from cockpit.budget.scripts.sums import UNKNOWN

__all__ = ["UNKNOWN", "Script", "ScriptCommand", "commands"]


class Script(msgspec.Struct, frozen=True):
    """What a script would do."""

    commands: tuple[ScriptCommand, ...]
    unread: tuple[str, ...] = ()
    """What can't be read, in sentences."""
    assumed: tuple[str, ...] = ()
    """Variables that nothing sets, and that were taken as not set."""


def commands(text: str, *, env: Mapping[str, str | None], read: Callable[[str], str | None], shell: Mapping[str, str] = {}) -> Script:
    """Every simple command that a shell would run, in order.

    `env`: what is exported to it, `None` where nobody knows the value; what Slurm would set by its `#SBATCH` lines comes below it.
    `shell`: exported in the shell that runs all this, where nothing else sets it.
    """
    run = ScriptRun(read, run_program)
    variables: dict[str, Value] = {key: UNKNOWN if value is None else value for key, value in env.items()}
    slurm = slurm_variables(text)
    scope = Scope({**slurm, **variables}, {*slurm, *env}, output=run.output, shell=shell)
    try:
        run.script(text, scope)
    except LeftError:
        pass
    except (StopError, RecursionError):
        run.unread["The script has too many steps for cockpit to follow"] = None
    return Script(tuple(run.found), tuple(run.unread), tuple(scope.assumed))
