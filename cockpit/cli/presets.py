"""The command that lists presets, and copies a ready-made one."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import click

from cockpit import output
from cockpit.check.preset import budget_for
from cockpit.cli.completion import complete_presets
from cockpit.cli.options import BAD_USAGE, NOT_ALL, command, json_option, print_error, with_config
from cockpit.config.document import InputError, abbreviate_home
from cockpit.config.settings import Config
from cockpit.presets import Preset, PresetError, SlurmStart, UnknownPresetError, copy_preset, doubts, presets, presets_folder
from cockpit.text import UNKNOWN, clean, count

_HEADS = ("NAME", "GPUS", "HOSTS", "ABOUT")


@command("presets", {0: "OK", 1: "a preset can't be read or copied", 3: "no such preset, or bad usage"})
@json_option
@click.option(
    "--copy", "name", metavar="NAME", shell_complete=complete_presets, help="Copy a ready-made preset into your folder, to edit it."
)
@click.option("--readonly", is_flag=True, default=None, help="Show everything, change nothing.")
def presets_command(as_json: bool, name: str | None, readonly: bool | None) -> None:
    """List presets: yours, and the ready-made ones."""
    # The list needs no config: it works also while the config file has a mistake.
    sys.exit(_print_list(presets(), as_json=as_json) if name is None else with_config(_copy)(name=name, readonly=readonly))


def _copy(config: Config, name: str) -> int:
    if config.readonly:
        return print_error(f"presets --copy: {config.readonly_reason}", NOT_ALL)
    try:
        path = copy_preset(name)
    except UnknownPresetError as error:
        return print_error(str(error), BAD_USAGE)
    except InputError as error:
        return print_error(str(error), NOT_ALL)
    output.say(f"Written: {abbreviate_home(path)}")
    return 0


def _print_list(found: list[Preset | PresetError], *, as_json: bool) -> int:
    if as_json:
        output.say_json(json.dumps({"presets": [_fields(one) for one in found]}, indent=2))
    else:
        output.say(presets_text(found))
    return 1 if any(isinstance(one, PresetError) for one in found) else 0


def presets_text(found: list[Preset | PresetError]) -> str:
    """A table for each folder; below them notes on secrets that stand in the files."""
    parts = []
    for folder in (presets_folder(), *dict.fromkeys(one.path.parent for one in found if one.path.parent != presets_folder())):
        within = [one for one in found if one.path.parent == folder]
        parts.append(f"{_origin(folder)}\n{_table(within)}" if within else f"{_origin(folder)}\n  none")
    notes = [f"{clean(one.name)}: {clean(note)}" for one in found if isinstance(one, Preset) for note in doubts(one)]
    return "\n\n".join([*parts, *(["\n".join(notes)] if notes else [])])


def _origin(folder: Path) -> str:
    return abbreviate_home(folder) if folder == presets_folder() else "ready-made (copy one: cockpit presets --copy NAME)"


def _table(found: list[Preset | PresetError]) -> str:
    rows = [_HEADS, *(_row(one) for one in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join("  " + "  ".join((*(row[column].ljust(widths[column]) for column in range(3)), row[3])).rstrip() for row in rows)


def _row(one: Preset | PresetError) -> tuple[str, str, str, str]:
    if isinstance(one, PresetError):
        return clean(one.name), UNKNOWN, UNKNOWN, clean(str(one))
    hosts = [node.host for node in one.nodes]
    shortened = ",".join(hosts[:3]) + (f",… ({len(hosts)})" if len(hosts) > 3 else "")
    told = "Slurm job" if isinstance(one.ray, SlurmStart) else shortened or UNKNOWN
    return clean(one.name), count(_gpus(one)), told, clean(one.about)


def _gpus(one: Preset) -> float | None:
    """GPUs that its command asks for; else those of `needs` in the preset."""
    asked = budget_for(one, os.environ).amount("GPU") if one.job else None
    return one.needs.amount("GPU") if asked is None else asked


def _fields(one: Preset | PresetError) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": one.name, "path": str(one.path), "yours": one.path.parent == presets_folder()}
    if isinstance(one, PresetError):
        return {**fields, "error": str(one)}
    hosts = None if isinstance(one.ray, SlurmStart) else [node.host for node in one.nodes]
    return {**fields, "about": one.about, "gpus": _gpus(one), "hosts": hosts, "doubts": list(doubts(one))}
