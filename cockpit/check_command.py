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

from cockpit.config import Config, several
from cockpit.document import InputError
from cockpit.presets import JobSpec, Preset, find_preset
from cockpit.text import clean

UNKNOWN = 3


class CheckCommand(click.Command):
    """What stands after `--` is a command to check, as it would be submitted."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Also flags of ours may stand in it."""
        own, divided, command = args, False, []
        if "--" in args:
            at = args.index("--")
            own, divided, command = args[:at], True, args[at + 1 :]
        rest = super().parse_args(context, own)
        if divided == bool(context.params.get("preset")) or (divided and not command):
            raise click.UsageError("give a preset's name or file, or a command after --", context)
        context.params["command"] = tuple(command)
        return rest


def check_command(options: Callable[[Any], Any], configured: Callable[[Any], Any]) -> click.Command:
    """`options` are the flags of everything that looks at a cluster."""

    def run(config: Config, *, preset: str | None, command: tuple[str, ...], as_json: bool) -> None:
        sys.exit(_run(config, preset, command, as_json=as_json))

    made: Any = configured(run)
    for add in reversed([
        click.argument("preset", metavar="PRESET|FILE|-- COMMAND...", required=False),
        click.option("--json", "as_json", is_flag=True, help="Verdict, budget and lines, for scripts."),
        options,
    ]):  # fmt: skip
        made = add(made)
    return click.command(
        "check",
        cls=CheckCommand,
        help="Would a preset's job, or a command, fit now, later or never?\n\nExit: 0 fits, 1 later or with doubts, 2 never, 3 unknown.",
    )(made)


def _run(config: Config, name: str | None, command: tuple[str, ...], *, as_json: bool) -> int:
    try:
        preset = find_preset(name) if name else preset_of(command)
    except InputError as error:
        return _refuse(str(error))
    try:
        return asyncio.run(_checked(config, preset, as_json=as_json))
    except KeyboardInterrupt:
        return 130


def preset_of(command: tuple[str, ...]) -> Preset:
    """A job of that command in this folder; one word may be a whole line of shell."""
    entrypoint = command[0] if len(command) == 1 else shlex.join(command)
    return Preset("this command", Path.cwd() / "-", job=JobSpec(entrypoint, working_dir="."))


async def _checked(config: Config, preset: Preset, *, as_json: bool) -> int:
    # Deferred: whoever mistypes a name waits for no HTTP client.
    from cockpit.check import check, check_json, exit_code
    from cockpit.check.installed import installed
    from cockpit.check.look import PATIENCE, budget_for, hosts_of, ports_in_the_way
    from cockpit.check.words import check_text
    from cockpit.lookout import look_once

    known = {entry.name for entry in config.hosts}
    config = replace(config, hosts=(*config.hosts, *(entry for entry in hosts_of(preset) if entry.name not in known)))
    lookout = await look_once(config, everywhere=config.probe_hosts != "never", patience=PATIENCE)
    if lookout.undecided:
        return _refuse(several(lookout.undecided))
    budget = budget_for(preset, os.environ, installed(lookout.poller.snapshot))
    of = check(preset, budget, lookout.poller.snapshot, config.limits, await ports_in_the_way(lookout, preset))
    click.echo(check_json(of) if as_json else check_text(preset.name, of, ascii=config.ascii or not _draws()))
    return exit_code(of)


def _draws() -> bool:
    """Whether this terminal's encoding has our signs."""
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def _refuse(text: str) -> int:
    click.echo(f"cockpit: {clean(text) if chr(10) not in text else text}", err=True)
    return UNKNOWN
