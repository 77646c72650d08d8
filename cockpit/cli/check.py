"""Checks whether a job would fit, before it is launched (`cockpit check`)."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import click
from msgspec.structs import replace

from cockpit.check.preset import HOSTS_PATIENCE_S, hosts_of, sample_and_check
from cockpit.check.result import check_json, exit_code
from cockpit.check.result_text import check_text
from cockpit.cli.completion import complete_presets
from cockpit.cli.options import NO_ANSWER, cluster_options, command, json_option, print_error, with_config
from cockpit.cli.status import sample_one_cluster
from cockpit.config.settings import Config
from cockpit.presets import JobSpec, Preset, find_preset, with_hosts
from cockpit.sources.source import SourceError
from cockpit.text import output


class CheckCommand(click.Command):
    """Takes everything after `--` as a command to check, as it would be submitted."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Split at the first `--`, because the command may have options with the same names as cockpit's."""
        has_command = "--" in args
        at = args.index("--") if has_command else len(args)
        own, words = args[:at], args[at + 1 :]
        rest = super().parse_args(context, own)
        if context.resilient_parsing:  # a shell completes a command line that is not finished
            return rest
        if has_command == bool(context.params.get("preset")) or (has_command and not words):
            raise click.UsageError("give the name or file of a preset, or a command after --", context)
        context.params["words"] = tuple(words)
        return rest


@command("check", {0: "fits now", 1: "fits later, or with doubts", 2: "never fits", 3: "unknown, or bad usage"}, CheckCommand)
@click.argument("preset", metavar="PRESET|FILE|-- COMMAND...", required=False, shell_complete=complete_presets)
@click.option("--needs", "gpus", type=click.FloatRange(min=0, min_open=True), metavar="GPUS", help="GPUs, if they can't be read.")
@json_option
@cluster_options
@with_config
async def check(config: Config, preset: str | None, words: tuple[str, ...], gpus: float | None, as_json: bool) -> int:
    """Check whether a job fits now, later or never.

    PRESET is a name, FILE a preset's file such as ./ppo.yaml; COMMAND is checked as it would be submitted, with variables in front
    (N=8 bash train.sh) and those that this shell exports.
    """
    checked = with_hosts(find_preset(preset), config) if preset else preset_of(words)
    if gpus is not None:
        checked = replace(checked, needs=replace(checked.needs, gpus=gpus))
    known = {entry.name for entry in config.hosts}
    more_hosts = [entry for entry in hosts_of(checked) if known.isdisjoint(config.names_of(entry.name))]
    config = replace(config, hosts=(*config.hosts, *more_hosts))
    monitor = await sample_one_cluster(config, everywhere=config.probe_hosts != "never", patience=HOSTS_PATIENCE_S)
    try:
        result = await sample_and_check(monitor, checked, shell={} if preset else os.environ)
    except SourceError as error:
        return print_error(str(error), NO_ANSWER)
    if as_json:
        output.print_json(check_json(result))
    else:
        is_utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"  # the text has signs that other encodings lack
        output.print_line(check_text(checked.name, result, ascii=config.ascii or not is_utf8))
    return exit_code(result)


def preset_of(command: tuple[str, ...]) -> Preset:
    """A preset whose job runs this command in the current folder; a single word is a whole line of shell."""
    entrypoint = command[0] if len(command) == 1 else shlex.join(command)
    return Preset("this command", Path.cwd() / "-", job=JobSpec(entrypoint, working_dir="."))
