"""The command that says whether a job would fit, before it is launched."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from cockpit import output
from cockpit.cli.completion import complete_presets
from cockpit.cli.exit_codes import BAD_USAGE, with_exit_codes
from cockpit.config.document import InputError
from cockpit.config.settings import Config, explain_choices
from cockpit.presets import JobSpec, Preset, find_preset

HELP = """Check whether a job fits now, later or never.

PRESET is a name, FILE a preset's file such as ./ppo.yaml; COMMAND is checked as it would be submitted."""


class CheckCommand(click.Command):
    """What stands after `--` is a command to check, as it would be submitted."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Split at the first `--`: the command may have options of the same names as ours."""
        own, divided, command = args, False, []
        if "--" in args:
            at = args.index("--")
            own, divided, command = args[:at], True, args[at + 1 :]
        rest = super().parse_args(context, own)
        if context.resilient_parsing:  # a shell completes what is typed so far
            return rest
        if divided == bool(context.params.get("preset")) or (divided and not command):
            raise click.UsageError("give the name or file of a preset, or a command after --", context)
        context.params["command"] = tuple(command)
        return rest


def check_command(options: Callable[[Any], Any], with_config: Callable[[Any], Any]) -> click.Command:
    """`options` adds those of every command that reads from a cluster."""

    def run(config: Config, *, preset: str | None, command: tuple[str, ...], as_json: bool) -> None:
        sys.exit(_run(config, preset, command, as_json=as_json))

    command: Any = with_config(run)
    for add in reversed([
        click.argument("preset", metavar="PRESET|FILE|-- COMMAND...", required=False, shell_complete=complete_presets),
        click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts."),
        options,
    ]):  # fmt: skip
        command = add(command)
    return click.command(
        "check",
        cls=CheckCommand,
        help=with_exit_codes(HELP, {0: "fits now", 1: "fits later, or with doubts", 2: "never fits", 3: "unknown, or bad usage"}),
    )(command)


def _run(config: Config, name: str | None, command: tuple[str, ...], *, as_json: bool) -> int:
    try:
        preset = find_preset(name) if name else preset_of(command)
    except InputError as error:
        return _refuse(str(error))
    try:
        return asyncio.run(_print_check(config, preset, as_json=as_json))
    except KeyboardInterrupt:
        return 130


def preset_of(command: tuple[str, ...]) -> Preset:
    """A job of that command in this folder; one word may be a whole line of shell."""
    entrypoint = command[0] if len(command) == 1 else shlex.join(command)
    return Preset("this command", Path.cwd() / "-", job=JobSpec(entrypoint, working_dir="."))


async def _print_check(config: Config, preset: Preset, *, as_json: bool) -> int:
    # Deferred: whoever mistypes a name waits for no HTTP client.
    from cockpit.check.check import check
    from cockpit.check.installed import find_frameworks
    from cockpit.check.preset import HOSTS_PATIENCE_S, budget_for, hosts_of, ports_in_the_way
    from cockpit.check.result import check_json, exit_code
    from cockpit.check.text import check_text
    from cockpit.monitor.single_look import look_once

    known = {entry.name for entry in config.hosts}
    config = replace(config, hosts=(*config.hosts, *(entry for entry in hosts_of(preset) if entry.name not in known)))
    monitor = await look_once(config, everywhere=config.probe_hosts != "never", patience=HOSTS_PATIENCE_S)
    if monitor.open_choices:
        return _refuse(explain_choices(monitor.open_choices))
    budget = budget_for(preset, os.environ, find_frameworks(monitor.poller.snapshot))
    of = check(preset, budget, monitor.poller.snapshot, config.limits, await ports_in_the_way(monitor, preset))
    if as_json:
        output.say_json(check_json(of))
    else:
        output.say(check_text(preset.name, of, ascii=config.ascii or not _is_utf8_terminal()))
    return exit_code(of)


def _is_utf8_terminal() -> bool:
    """Whether the encoding of stdout has the signs of a check."""
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def _refuse(text: str) -> int:
    output.note(text)
    return BAD_USAGE
