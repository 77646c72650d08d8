"""Defines the program: turns flags into a config, then opens the screen or runs one command."""

from __future__ import annotations

import gc
import os
import sys
from functools import cache
from importlib import import_module
from typing import Any, Final

import click

from cockpit import __version__
from cockpit.cli.options import (
    BAD_USAGE,
    EXIT_CODES,
    NOT_ALL,
    cluster_options,
    plain_option,
    print_error,
    screen_options,
    why_no_screen,
    with_config,
    with_exit_codes,
)
from cockpit.config.document import InputError
from cockpit.config.settings import Config, config_path, config_text, init
from cockpit.secrets import redact
from cockpit.text import explain_os_error, output

_COMMANDS: Final = {
    "check": "check.check",
    "demo": "demo.demo",
    "doctor": "status.doctor",
    "launch": "launch.launch",
    "logs": "logs.logs",
    "mcp": "mcp.mcp",
    "metrics": "metrics.metrics",
    "nccl": "nccl.nccl",
    "notify": "notify.notify_command",
    "presets": "presets.presets_command",
    "record": "record.record",
    "recover": "recover.recover",
    "replay": "replay.replay",
    "report": "report.report",
    "schema": "schema.print_schema",
    "skill": "skill.skill",
    "status": "status.status",
    "watch": "notify.watch_command",
}
"""The command, and where it is: its module is imported when it is called. Actions and `config` are not listed here."""


class CommandGroup(click.Group):
    """The program: every command of it ends with the same code when it is used badly."""

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Import the command that was asked for; all of them where there is none of that name: click names one that is similar."""
        if name in _COMMANDS:
            command: click.Command = _find_in_cli(_COMMANDS[name])
            return command
        found = super().get_command(context, name) or _action_commands().get(name)
        if found is None:
            self.commands.update({**_action_commands(), **{each: _find_in_cli(place) for each, place in _COMMANDS.items()}})
        return found

    def list_commands(self, context: click.Context) -> list[str]:
        """All, in the order of the alphabet."""
        return sorted({*super().list_commands(context), *_COMMANDS, *_action_commands()})

    def main(self, *args: Any, **more: Any) -> Any:
        """As click's own, with our exit code."""
        if os.path.expanduser("~") == "~":  # a user whom nobody knows here, as in a container: its runtime would say / too
            os.environ["HOME"] = "/"
        try:
            return super().main(*args, **{**more, "standalone_mode": False})
        except click.UsageError as error:
            output.print_usage(error)
            sys.exit(BAD_USAGE)
        except click.Abort:
            sys.exit(130)
        except OSError as error:  # a full disk below what we print, a terminal that is gone
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(print_error(f"{error.filename or 'output'}: {explain_os_error(error)}", BAD_USAGE))


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
    else:
        gc.enable()


@main.command(hidden=True)
@with_config
def screen(config: Config) -> None:
    """The screen."""
    reason = why_no_screen()
    if not config.plain and reason is None:
        code = _find_in_cli("screen.show")(config)
        # A thread in a resolver or a driver may never come back; nobody waits for it.
        sys.stdout.flush()
        os._exit(code)
    gc.enable()
    if config.plain:
        sys.exit(_find_in_cli("plain.show_plain")(config))
    output.print_note(f"no screen here, because {reason}: this is the output of `cockpit status`\n")
    sys.exit(_find_in_cli("status.print_status")(config))


@main.group()
def config() -> None:
    """Create or show the config file."""


@config.command("init")
def config_init() -> None:
    """Create a config file with every default, commented out."""
    try:
        init(config_path())
    except InputError as error:
        sys.exit(print_error(str(error), NOT_ALL))
    output.print_line(f"Written: {config_path()}")


@config.command("print")
@cluster_options
@with_config
def config_print(config: Config) -> None:
    """Print the current settings, and where each one comes from."""
    output.print_line(redact(config_text(config).rstrip("\n")))  # `reach` may hold a password


@config.command("path")
def config_file() -> None:
    """Print the path of the config file."""
    output.print_line(str(config_path()))


def _find_in_cli(place: str) -> Any:
    """`check.check`: imports `cockpit.cli.check`, as no other command needs it."""
    module, _, name = place.partition(".")
    return getattr(import_module(f"cockpit.cli.{module}"), name)


@cache
def _action_commands() -> dict[str, click.Command]:
    return {command.name: command for command in _find_in_cli("actions.action_commands")() if command.name}
