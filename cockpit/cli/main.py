"""Flags become a config, a config becomes the screen or one command."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial, wraps
from typing import Any, TypeVar

import click
from msgspec.structs import replace

from cockpit import __version__, output
from cockpit.cli import status as status_command
from cockpit.cli.completion import complete_logs, complete_nodes, complete_themes
from cockpit.cli.exit_codes import BAD_USAGE, EXIT_CODES, NOT_ALL, STATUS_EXIT_CODES, with_exit_codes
from cockpit.cli.line import print_line
from cockpit.cli.notify import notify_commands
from cockpit.cli.plain import show_plain
from cockpit.cli.record import record_command, status_at
from cockpit.cli.replay import replay_command
from cockpit.cli.screen import run_screen, show
from cockpit.config.document import InputError
from cockpit.config.orchestrators import Orchestrator
from cockpit.config.settings import Config, config_path, config_text, init, load, schema
from cockpit.secrets import redact

Command = TypeVar("Command", bound=Callable[..., Any])

# What is imported late is what not every command needs, and what can wait until the first probe has been started: Textual costs a third of
# a second, asyncio a twentieth.


def cluster_options(command: Command) -> Command:
    """Adds the options of every command that reads from a cluster."""
    return _with_options(
        command,
        click.option("--address", metavar="URL", help="Ray dashboard, such as http://head:8265. Default: the Ray on this host."),
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


def screen_options(command: Command) -> Command:
    """Adds the options of the screen; `cockpit` itself and `demo` have one."""
    return _with_options(
        command,
        click.option(
            "--theme",
            metavar="NAME",
            callback=name_of_theme,
            shell_complete=complete_themes,
            help="Colour theme, such as midnight or daylight.",
        ),
        click.option("--ascii", is_flag=True, default=None, help="Draw with ASCII characters only."),
        click.option("--quiet", is_flag=True, default=None, help="No bell and no notification when a critical finding starts."),
    )


plain_option = click.option(
    "--plain", is_flag=True, default=None, help="For a screen reader: the state as lines of text, then a line for each change."
)
"""Of what opens a live screen."""


def name_of_theme(_: click.Context, __: click.Parameter, name: str | None) -> str | None:
    """One that there is, also where nothing is drawn; only a name of Textual's own waits for Textual."""
    from cockpit.config.themes import find_theme_file

    if name is None or find_theme_file(name) is not None:
        return name
    from cockpit.ui.theme import why_no_theme

    if (reason := why_no_theme(name)) is not None:
        raise click.BadParameter(reason)
    return name


def count_of_lines(_: click.Context, __: click.Parameter, number: int) -> int:
    """-1 is all of them."""
    if number < -1 or number == 0:
        raise click.BadParameter(f"expected a number of lines from 1, or -1 for all lines, got {number}")
    return number


def _with_options(command: Command, *options: Callable[[Command], Command]) -> Command:
    for add in reversed(options):
        command = add(command)
    return command


_CONFIG_OPTIONS = ("address", "hosts", "slurm", "kubernetes", "interval", "readonly", "theme", "ascii", "quiet", "plain")


def with_config(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives the command its config, made from its own options and those before its name; a mistake in one is one sentence.

    The config reads `COCKPIT_*` variables, not click's `auto_envvar_prefix`: that would make COCKPIT_KILL_ORPHANS_YES=1 a confirmation.
    """

    @wraps(command)
    def run(**flags: Any) -> Any:
        before_command = click.get_current_context().find_root().params
        own = {name: flags.pop(name, None) for name in _CONFIG_OPTIONS}
        given = {name: before_command.get(name) if value is None else value for name, value in own.items()}
        try:
            config = load(given, orchestrators=tuple(_find_orchestrators(given.pop("slurm"), given.pop("kubernetes"))))
        except InputError as error:
            _refuse(str(error))
        return command(config, **flags)

    return run


def _find_orchestrators(job: str | None, cluster: str | None) -> Iterator[Orchestrator]:
    """The job of Slurm's and the RayCluster of KubeRay's that were named, as these know them now. Raises `InputError`."""
    if job is not None:
        from cockpit.cli.slurm import find_allocation

        yield find_allocation(job)
    if cluster is not None:
        from cockpit.cli.kubernetes import find_place

        yield find_place(cluster)


def _refuse(text: str, code: int = BAD_USAGE) -> None:
    output.note(text)
    sys.exit(code)


class CommandGroup(click.Group):
    """The program: every command of it ends with the same code when it is used badly."""

    _whole = False

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Commands of acts and of presets are made when one of them is wanted: the screen and a look don't wait for their imports."""
        if name not in self.commands:
            self._make_others()
        return super().get_command(context, name)

    def list_commands(self, context: click.Context) -> list[str]:
        """All, in the order of the alphabet."""
        self._make_others()
        return super().list_commands(context)

    def _make_others(self) -> None:
        if not self._whole:
            self._whole = True
            for command in _acting_commands():
                self.add_command(command)

    def main(self, *args: Any, **more: Any) -> Any:
        """As click's own, with our exit code."""
        if os.path.expanduser("~") == "~":  # a user whom nobody knows here, as in a container: its runtime would say / too
            os.environ["HOME"] = "/"
        try:
            return super().main(*args, **{**more, "standalone_mode": False})
        except click.UsageError as error:
            output.say_usage(error)
            sys.exit(BAD_USAGE)
        except click.Abort:
            sys.exit(130)
        except OSError as error:  # a full disk below what we print, a terminal that is gone
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            _refuse(f"{error.filename or 'output'}: {(error.strerror or str(error)).lower()}")


MAIN_HELP = """Monitor a Ray GPU cluster: what is running, what is stuck, and why.

Without a command, cockpit opens the screen."""


@click.group(
    cls=CommandGroup,
    help=with_exit_codes(MAIN_HELP, EXIT_CODES),
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@cluster_options
@screen_options
@plain_option
@click.version_option(__version__, prog_name="cockpit")
@click.pass_context
def main(context: click.Context, /, **_: Any) -> None:
    """The command, or the screen."""
    if context.invoked_subcommand is None:
        context.invoke(screen)


@main.command(hidden=True)
@with_config
def screen(config: Config) -> None:
    """The screen."""
    if config.plain:
        sys.exit(show_plain(config))
    if not (sys.stdout.isatty() and sys.stdin.isatty()) or os.environ.get("TERM") == "dumb":
        output.note("no terminal here: this is the output of `cockpit status`\n")
        sys.exit(status_command.status(config, as_json=False))
    code = show(config, ends=True)
    # A thread in a resolver or a driver may never come back; nobody waits for it.
    output.flush()
    os._exit(code)


@main.command(help=with_exit_codes("Print the state of the cluster, as text or JSON.", STATUS_EXIT_CODES))
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
@click.option(
    "--watch", is_flag=True, help="Keep running; print findings as they start and clear. With --json: print everything at each interval."
)
@click.option("--at", metavar="TIME", help="As it was then, from the recording: 03:10, -20m, 2026-11-23T03:10.")
@click.option("--line", is_flag=True, help="Print one line for tmux or a prompt: the state that a cockpit saw last; nothing is asked.")
@cluster_options
@with_config
def status(config: Config, as_json: bool, watch: bool, at: str | None, line: bool) -> None:
    """The exit code says how bad the worst finding is."""
    if line and (as_json or watch or at):
        raise click.UsageError("--line prints the last known state: it can't be used with --json, --watch or --at")
    if at is not None and watch:
        raise click.UsageError("--at prints one moment, --watch goes on: use one of them")
    if at is not None:
        sys.exit(status_at(config, at, as_json=as_json))
    sys.exit(print_line(config.address) if line else status_command.status(config, as_json=as_json, watch=watch))


DOCTOR_HELP = """Run every check once, on every host.

It prints what is wrong, what is OK, and what could not be checked."""


@main.command(help=with_exit_codes(DOCTOR_HELP, STATUS_EXIT_CODES))
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts: every check with its result, and the status.")
@click.option(
    "--bundle",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Also write the report, the ends of Ray's own logs and the last half hour of the recording to FILE (.tar.gz), secrets hidden.",
)
@cluster_options
@with_config
def doctor(config: Config, as_json: bool, bundle: str | None) -> None:
    """The exit code is that of `status`."""
    try:
        code = status_command.doctor(config, as_json=as_json, bundle=bundle)
    except InputError as error:
        _refuse(str(error))
    sys.exit(code)


LOGS_HELP = """Print the log of a job, actor, process or node.

TARGET is the id of a job; the id, the name or the class of an actor, also of a dead one; a pid; or a node. Of an actor or a worker it is
its stdout, of a node that of its raylet; `--log err` prints the other one, `--log err-before` that of the process before a restart."""


@main.command(help=with_exit_codes(LOGS_HELP, {0: "printed", 3: "no such thing, no log, or bad usage"}))
@click.argument("target", shell_complete=complete_logs)
@click.option("-f", "--follow", is_flag=True, help="Keep printing what is written; of a job until it ends.")
@click.option(
    "-n",
    "lines",
    type=int,
    callback=count_of_lines,
    default=1000,
    metavar="N",
    help="Start with the last N lines (default: 1000). -1: all lines.",
)
@click.option("--host", metavar="NODE", shell_complete=complete_nodes, help="The node of a pid or an actor that there is on several.")
@click.option("--log", metavar="NAME", help="Which of its logs: out, err, out-before, err-before, job, or a file such as raylet.err.")
@cluster_options
@with_config
def logs(config: Config, **request: Any) -> None:
    """The exit code is 0, or says that there is no log."""
    from cockpit.cli.logs import LogRequest, print_log

    sys.exit(print_log(config, LogRequest(**request)))


@main.group()
def config() -> None:
    """Create or show the config file."""


@config.command("init")
def config_init() -> None:
    """Create a config file with every default, commented out."""
    try:
        init(config_path())
    except InputError as error:
        _refuse(str(error), NOT_ALL)
    output.say(f"Written: {config_path()}")


@config.command("print")
@cluster_options
@with_config
def config_print(config: Config) -> None:
    """Print the current settings, and where each one comes from."""
    output.say(redact(config_text(config).rstrip("\n")))  # `reach` may hold a password


@config.command("path")
def config_file() -> None:
    """Print the path of the config file."""
    output.say(str(config_path()))


@main.command("schema")
@click.argument("what", type=click.Choice(["status", "check", "report", "preset", "config"]), default="status")
def print_schema(what: str) -> None:
    """Print a JSON Schema.

    It describes the output of `status --json`, `check --json` or `report -o FILE.json`, a preset, or the config file.
    """
    from cockpit.check.result import check_schema
    from cockpit.presets import preset_schema
    from cockpit.report.incident.account import account_schema
    from cockpit.report.status import status_schema

    made = {"status": status_schema, "check": check_schema, "report": account_schema, "preset": preset_schema, "config": schema}[what]
    output.say_json(json.dumps(made(), indent=2))


@main.command()
@cluster_options
@screen_options
@plain_option
@with_config
def demo(config: Config) -> None:
    """Try cockpit on a local Ray with simulated GPUs.

    It starts a real Ray cluster on this machine, with simulated GPUs and some faults, opens the screen on it, and ends it on quit.
    """
    from cockpit.demo import run_demo

    sys.exit(run_demo(partial(_demo_screen, config)))


def _acting_commands() -> list[click.Command]:
    from cockpit.cli.acts import act_commands
    from cockpit.cli.check import check_command
    from cockpit.cli.launch import launch_command
    from cockpit.cli.metrics import metrics_command
    from cockpit.cli.presets import presets_command
    from cockpit.cli.recover import recover_command
    from cockpit.cli.report import report_command

    reading = (check_command, launch_command, recover_command, metrics_command, record_command)
    return [
        *act_commands(cluster_options, with_config),
        *(make(cluster_options, with_config) for make in reading),
        presets_command(with_config),
        replay_command(screen_options, with_config, run_screen),
        report_command(with_config),
        *notify_commands(cluster_options, with_config),
    ]


def _demo_screen(config: Config, address: str, _: dict[str, str]) -> None:
    config, greeting = replace(config, address=address), f"Demo cluster at {address}; q ends it and its jobs"
    if config.plain:
        output.note(greeting)
        show_plain(config)
    else:
        show(config, greeting=greeting)
