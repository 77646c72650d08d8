"""Flags become a config, a config becomes the screen or one command."""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from typing import Any

import click
from msgspec.structs import replace

from cockpit import __version__, output
from cockpit.cli import status as status_command
from cockpit.cli.completion import complete_logs, complete_nodes
from cockpit.cli.line import print_line
from cockpit.cli.notify import notify_command, watch_command
from cockpit.cli.options import (
    BAD_USAGE,
    EXIT_CODES,
    NOT_ALL,
    STATUS_EXIT_CODES,
    cluster_options,
    command,
    json_option,
    plain_option,
    refuse,
    screen_options,
    with_config,
    with_exit_codes,
)
from cockpit.cli.plain import show_plain
from cockpit.cli.record import record, status_at
from cockpit.cli.replay import replay
from cockpit.cli.screen import show
from cockpit.config.document import InputError
from cockpit.config.settings import Config, config_path, config_text, init, schema
from cockpit.secrets import redact
from cockpit.text import explain_os_error

# What is imported late is what not every command needs, and what can wait until the first probe has been started: Textual costs a third of
# a second, httpx a tenth, asyncio half of that.


def count_of_lines(_: click.Context, __: click.Parameter, number: int) -> int:
    """-1 is all of them."""
    if number < -1 or number == 0:
        raise click.BadParameter(f"expected a number of lines from 1, or -1 for all lines, got {number}")
    return number


class CommandGroup(click.Group):
    """The program: every command of it ends with the same code when it is used badly."""

    _whole = False

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Some are made when one of them is wanted: the screen and a look don't wait for their imports."""
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
            for command in _late_commands():
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
            sys.exit(refuse(f"{error.filename or 'output'}: {explain_os_error(error)}", BAD_USAGE))


@click.group(
    cls=CommandGroup,
    help=with_exit_codes(
        "Monitor a Ray GPU cluster: what is running, what is stuck, and why.\n\nWithout a command, cockpit opens the screen.", EXIT_CODES
    ),
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


@command("status", STATUS_EXIT_CODES)
@json_option
@click.option(
    "--watch", is_flag=True, help="Keep running; print findings as they start and clear. With --json: print everything at each interval."
)
@click.option("--at", metavar="TIME", help="As it was then, from the recording: 03:10, -20m, 2026-11-23T03:10.")
@click.option("--line", is_flag=True, help="Print one line for tmux or a prompt: the state that a cockpit saw last; nothing is asked.")
@cluster_options
@with_config
def status(config: Config, as_json: bool, watch: bool, at: str | None, line: bool) -> None:
    """Print the state of the cluster, as text or JSON."""
    if line and (as_json or watch or at):
        raise click.UsageError("--line prints the last known state: it can't be used with --json, --watch or --at")
    if at is not None and watch:
        raise click.UsageError("--at prints one moment, --watch goes on: use one of them")
    if at is not None:
        sys.exit(status_at(config, at, as_json=as_json))
    sys.exit(print_line(config.address) if line else status_command.status(config, as_json=as_json, watch=watch))


@command("doctor", STATUS_EXIT_CODES)
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
    """Run every check once, on every host.

    It prints what is wrong, what is OK, and what could not be checked.
    """
    sys.exit(status_command.doctor(config, as_json=as_json, bundle=bundle))


@command("logs", {0: "printed", 3: "no such thing, no log, or bad usage"})
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
    """Print the log of a job, actor, process or node.

    TARGET is the id of a job; the id, the name or the class of an actor, also of a dead one; a pid; or a node. Of an actor or a worker it
    is its stdout, of a node that of its raylet; `--log err` prints the other one, `--log err-before` that of the process before a restart.
    """
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
        sys.exit(refuse(str(error), NOT_ALL))
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


def _late_commands() -> list[click.Command]:
    """Those whose imports take long."""
    from cockpit.cli.acts import act_commands
    from cockpit.cli.check import check
    from cockpit.cli.launch import launch
    from cockpit.cli.metrics import metrics
    from cockpit.cli.presets import presets_command
    from cockpit.cli.recover import recover
    from cockpit.cli.report import report

    return [*act_commands(), check, launch, recover, metrics, presets_command, report]


def _demo_screen(config: Config, address: str, _: dict[str, str]) -> None:
    config, greeting = replace(config, address=address), f"Demo cluster at {address}; q ends it and its jobs"
    if config.plain:
        output.note(greeting)
        show_plain(config)
    else:
        show(config, greeting=greeting)


for each in (status, doctor, logs, record, replay, watch_command, notify_command):
    main.add_command(each)
