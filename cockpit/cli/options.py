"""Defines the options, exit codes and help that commands share, and makes the config from the options."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from typing import Any, Final, TypeVar

import click
from msgspec.structs import replace

from cockpit.cli.completion import complete_themes
from cockpit.config.document import InputError
from cockpit.config.settings import load
from cockpit.config.slurm import has_other_names
from cockpit.config.themes import find_theme_file
from cockpit.text import output

DONE, NOT_ALL, NO_ANSWER = 0, 1, 3
BAD_USAGE: Final = NO_ANSWER
"""Equal in every command. `status` follows monitoring plugins (0 OK, 1 warning, 2 critical, 3 unknown), so 2 can't be bad usage."""
EXIT_CODES: Final = {
    "0": "done, or nothing to do; of `status`: OK",
    "1": "something failed, was refused, or is unknown; of `status`: warning",
    "2": "only of `status` and `doctor`: critical; of `check`: never fits",
    "3": "no answer; or bad usage: a wrong option, a name that does not exist",
    "128+N": "killed by signal N (130: ctrl+c)",
}
"""The meaning of each exit code in every command; the help of a command has the words for its own codes."""
STATUS_EXIT_CODES: Final = {0: "OK", 1: "warning or old data", 2: "critical", 3: "no answer, or bad usage"}
ACTION_EXIT_CODES: Final = {
    0: "done, or nothing to do",
    1: "something failed, was refused, or is unknown",
    3: "no answer, no such target, or bad usage",
}


def with_exit_codes(text: str, codes: Mapping[int, str] | Mapping[str, str]) -> str:
    """The help of a command, with a line for each of its exit codes that click doesn't wrap."""
    width = max(len(str(code)) for code in codes)
    return "\n".join([text, "", "\b", "Exit codes:", *(f"  {code:<{width}}  {meaning}" for code, meaning in codes.items())])


def print_error(text: str, code: int) -> int:
    """Print the sentence to stderr, and return the code."""
    output.print_note(text)
    return code


def why_no_screen() -> str | None:
    """The reason why no screen can be drawn here; `None`: it can be drawn."""
    if output.is_in_browser():
        return None
    for stream, name in ((sys.stdin, "stdin"), (sys.stdout, "stdout")):
        if not (stream and stream.isatty()):
            return f"{name} is not a terminal"
    return "TERM=dumb is a terminal that can't draw" if os.environ.get("TERM") == "dumb" else None


Function = TypeVar("Function", bound=Callable[..., Any])
Option = Callable[[Function], Function]


def command(
    name: str, codes: Mapping[int, str], kind: type[click.Command] = click.Command
) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a command from a function or a coroutine function that returns the exit code.

    The help is its docstring, followed by `codes`.
    """

    def make(function: Callable[..., Any]) -> click.Command:
        @wraps(function)
        def run(**given: Any) -> None:
            result = function(**given)
            sys.exit(run_until_interrupted(result) if inspect.iscoroutine(result) else result)

        return click.command(name, cls=kind, help=with_exit_codes(inspect.getdoc(function) or "", codes))(run)

    return make


def run_until_interrupted(work: Coroutine[Any, Any, int]) -> int:
    """Return the exit code of the coroutine. ctrl+c ends it silently, and so does a closed stdout."""
    import asyncio  # the help and the screen's first moments need none of it

    try:
        return asyncio.run(work)
    except InputError as error:
        return print_error(str(error), BAD_USAGE)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def with_options(*options: Option[Function]) -> Option[Function]:
    """A decorator that adds these options; the help lists them in this order."""

    def add_all(function: Function) -> Function:
        for add in reversed(options):
            function = add(function)
        return function

    return add_all


def check_theme(_: click.Context, __: click.Parameter, name: str | None) -> str | None:
    """Refuse a theme that does not exist. Only one of Textual's own themes makes this import Textual."""
    if name is None or find_theme_file(name) is not None:
        return name
    from cockpit.ui.theme import why_no_theme  # it imports Textual

    if (reason := why_no_theme(name)) is not None:
        raise click.BadParameter(reason)
    return name


cluster_options = with_options(
    click.option("--address", metavar="URL", help="Ray dashboard, such as http://head:8265. Default: the Ray cluster on this host."),
    click.option("--hosts", metavar="FILE|a,b,c", help="More hosts to probe, beyond those that Ray reports."),
    click.option("--slurm", metavar="JOBID", help="Nodes of this Slurm job, reached by srun. Default: the job that cockpit runs in."),
    click.option(
        "--kubernetes",
        metavar="NS/RAYCLUSTER",
        help="Pods of this RayCluster (KubeRay), reached by kubectl. Default: that of the pod that cockpit runs in.",
    ),
    click.option("--interval", metavar="S", help="Seconds between two samples of a host. Default: 2."),
    click.option("--readonly", is_flag=True, default=None, help="Show everything, change nothing."),
)
"""The options of every command that reads from a cluster."""
screen_options = with_options(
    click.option(
        "--theme",
        metavar="NAME",
        callback=check_theme,
        shell_complete=complete_themes,
        help="Colour theme, such as midnight or daylight.",
    ),
    click.option("--ascii", is_flag=True, default=None, help="Draw with ASCII characters only."),
    click.option("--quiet", is_flag=True, default=None, help="No bell and no terminal notification when a critical finding starts."),
)
"""The options of commands that open a screen."""
plain_option = click.option(
    "--plain", is_flag=True, default=None, help="For a screen reader: the state as lines of text, then a line for each change."
)
"""The option of commands that open a live screen."""
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
consent_options = with_options(
    click.option("--dry-run", is_flag=True, help="Print the plan; change nothing."),
    click.option("--yes", is_flag=True, help="Don't ask for confirmation."),
)
"""The options of every command that changes something."""
_CONFIG_OPTIONS = ("address", "hosts", "slurm", "kubernetes", "interval", "readonly", "theme", "ascii", "quiet", "plain")


def with_config(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that calls the function with the config, made from the options before and after the command's name.

    The config reads `COCKPIT_*` variables itself: with click's `auto_envvar_prefix`, COCKPIT_KILL_ORPHANS_YES=1 would be a confirmation.
    """

    @wraps(function)
    def run(**flags: Any) -> Any:
        before_command = click.get_current_context().find_root().params
        own = {name: flags.pop(name, None) for name in _CONFIG_OPTIONS}
        given = {name: before_command.get(name) if value is None else value for name, value in own.items()}
        output.print_ascii(on=bool(given["ascii"]))  # also for messages about mistakes in the config
        try:
            slurm_job, ray_cluster = given.pop("slurm"), given.pop("kubernetes")
            if slurm_job is None and ray_cluster is None:
                config = load(given)
            else:
                from cockpit.cli.orchestrators import find_named_orchestrators

                config = load(given, orchestrators=find_named_orchestrators(slurm_job, ray_cluster))
            if config.slurm_nodes and has_other_names(config.origins.get("reach"), os.environ, os.uname().nodename):
                from cockpit.cli.orchestrators import with_slurm_names

                config = with_slurm_names(config)
        except InputError as error:
            sys.exit(print_error(str(error), BAD_USAGE))
        if output.is_in_browser():  # the page asks nobody for a name or a password
            config = replace(config, readonly=True, origins={**config.origins, "readonly": "it is shown in a browser"})
        output.print_ascii(on=config.ascii)
        return function(config, **flags)

    return run
