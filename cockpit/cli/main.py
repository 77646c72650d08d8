"""Flags become a config, a config becomes the screen or one command."""

from __future__ import annotations

import json
import os
import sys
from functools import cache, partial
from importlib import import_module
from typing import Any, Final

import click
from msgspec.structs import replace

from cockpit import __version__, output
from cockpit.cli.options import (
    BAD_USAGE,
    EXIT_CODES,
    NOT_ALL,
    cluster_options,
    plain_option,
    print_error,
    screen_options,
    with_config,
    with_exit_codes,
)
from cockpit.cli.plain import show_plain
from cockpit.cli.screen import show, why_no_screen
from cockpit.config.document import InputError, json_schema
from cockpit.config.settings import Config, ConfigFile, config_path, config_text, init
from cockpit.secrets import redact
from cockpit.text import explain_os_error

# What is imported late is what not every command needs, and what can wait until the first probe has been started: Textual costs a third of
# a second, asyncio a twentieth.
_COMMANDS: Final = {
    "check": "check.check",
    "doctor": "status.doctor",
    "launch": "launch.launch",
    "logs": "logs.logs",
    "metrics": "status.metrics",
    "notify": "notify.notify_command",
    "presets": "presets.presets_command",
    "record": "record.record",
    "recover": "recover.recover",
    "replay": "record.replay",
    "report": "report.report",
    "status": "status.status",
    "watch": "notify.watch_command",
}
"""Where each is that is not defined here and is no act."""


class CommandGroup(click.Group):
    """The program: every command of it ends with the same code when it is used badly."""

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Most are imported when they are wanted: no other waits for that."""
        if name in _COMMANDS:
            return _import_command(name)
        found = super().get_command(context, name) or _act_commands().get(name)
        if found is None:  # click looks among these for what was meant
            self.commands.update({**_act_commands(), **{each: _import_command(each) for each in _COMMANDS}})
        return found

    def list_commands(self, context: click.Context) -> list[str]:
        """All, in the order of the alphabet."""
        return sorted({*super().list_commands(context), *_COMMANDS, *_act_commands()})

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


@main.command(hidden=True)
@with_config
def screen(config: Config) -> None:
    """The screen."""
    if config.plain:
        sys.exit(show_plain(config))
    if (reason := why_no_screen()) is not None:
        from cockpit.cli.status import print_status

        output.note(f"no screen here, because {reason}: this is the output of `cockpit status`\n")
        sys.exit(print_status(config))
    code = show(config)
    # A thread in a resolver or a driver may never come back; nobody waits for it.
    sys.stdout.flush()
    os._exit(code)


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
    from cockpit.check.result import CheckStatus
    from cockpit.presets.schema import PresetFile
    from cockpit.report.incident.account import Account
    from cockpit.report.status import Status

    described = {"status": Status, "check": CheckStatus, "report": Account, "preset": PresetFile, "config": ConfigFile}[what]
    output.say_json(json.dumps(json_schema(described), indent=2))


@main.command()
@cluster_options
@screen_options
@plain_option
@with_config
def demo(config: Config) -> None:
    """Try cockpit on a local Ray with simulated GPUs.

    It starts a real Ray cluster on this host, with simulated GPUs and some faults, opens the screen on it, and stops it on quit.
    It needs gcc, and Ray in the same environment as cockpit.
    """
    from cockpit.demo import run_demo

    if not config.plain and (reason := why_no_screen()) is not None:
        sys.exit(print_error(f"the demo draws a screen, and {reason}; `cockpit demo --plain` prints lines of text", BAD_USAGE))
    sys.exit(run_demo(partial(_demo_screen, config)))


def _import_command(name: str) -> click.Command:
    module, _, command = _COMMANDS[name].partition(".")
    found: click.Command = getattr(import_module(f"cockpit.cli.{module}"), command)
    return found


@cache
def _act_commands() -> dict[str, click.Command]:
    from cockpit.cli.acts import act_commands

    return {command.name: command for command in act_commands() if command.name}


def _demo_screen(config: Config, address: str, _: dict[str, str]) -> None:
    config, greeting = (
        replace(config, address=address),
        f"Demo cluster at {address}; q stops it and its jobs. To try recover: 7, then R on the preset demo",
    )
    if config.plain:
        output.note(greeting)
        show_plain(config)
    else:
        show(config, greeting=greeting)
