"""Lists presets, and copies a ready-made one (`cockpit presets`)."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from cockpit.check.preset import budget_for
from cockpit.cli.completion import complete_presets
from cockpit.cli.options import BAD_USAGE, DONE, NOT_ALL, command, json_option, print_error, with_config
from cockpit.config.document import InputError, abbreviate_home
from cockpit.config.settings import Config
from cockpit.presets import Preset, PresetError, SlurmStart, UnknownPresetError, copy_preset, doubts, presets, presets_folder
from cockpit.text import UNKNOWN, clean, count, output


@command("presets", {0: "OK", 1: "a preset can't be read or copied", 3: "no such preset, or bad usage"})
@json_option
@click.option(
    "--copy", "name", metavar="NAME", shell_complete=complete_presets, help="Copy a ready-made preset into your folder, to edit it."
)
@click.option("--readonly", is_flag=True, default=None, help="Show everything, change nothing.")
def presets_command(as_json: bool, name: str | None, readonly: bool | None) -> int:
    """List presets: yours, and the ready-made ones."""
    if name is not None:
        code: int = with_config(_copy)(name=name, readonly=readonly)
        return code
    # The list needs no config, so it works also if the config file has a mistake.
    found = presets()
    if as_json:
        output.print_json(json.dumps({"presets": [_fields(one) for one in found]}, indent=2))
    else:
        output.print_line(presets_text(found))
    return NOT_ALL if any(isinstance(one, PresetError) for one in found) else DONE


def _copy(config: Config, name: str) -> int:
    if config.readonly:
        return print_error(f"presets --copy: {config.readonly_reason}", NOT_ALL)
    try:
        path = copy_preset(name)
    except UnknownPresetError as error:
        return print_error(str(error), BAD_USAGE)
    except InputError as error:
        return print_error(str(error), NOT_ALL)
    output.print_line(f"Written: {abbreviate_home(path)}")
    return DONE


def presets_text(found: list[Preset | PresetError]) -> str:
    """A table for each folder, then notes about secrets that are written in the files."""
    own = presets_folder()
    parts: list[str] = []
    for folder in (own, *dict.fromkeys(one.path.parent for one in found if one.path.parent != own)):
        title = abbreviate_home(folder) if folder == own else "ready-made (copy one: cockpit presets --copy NAME)"
        rows = [("NAME", "GPUS", "HOSTS", "ABOUT"), *(_row(one) for one in found if one.path.parent == folder)]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        lines = ["  ".join((*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3])).rstrip() for row in rows]
        parts.append("\n  ".join([title, *(lines if len(rows) > 1 else ["none"])]))
    notes = [f"{clean(one.name)}: {clean(note)}" for one in found if isinstance(one, Preset) for note in doubts(one)]
    return "\n\n".join([*parts, *(["\n".join(notes)] if notes else [])])


def _row(one: Preset | PresetError) -> tuple[str, str, str, str]:
    if isinstance(one, PresetError):
        return clean(one.name), UNKNOWN, UNKNOWN, clean(str(one))
    hosts = [node.host for node in one.nodes]
    some_hosts = ",".join(hosts[:3]) + (f",… ({len(hosts)})" if len(hosts) > 3 else "")
    where = "Slurm job" if isinstance(one.ray, SlurmStart) else some_hosts or UNKNOWN
    return clean(one.name), count(_gpus(one)), where, clean(one.about)


def _gpus(one: Preset) -> float | None:
    """The GPUs that its command asks for; if that is unknown, the GPUs of `needs` in the preset."""
    asked = budget_for(one, os.environ).amount("GPU") if one.job else None
    return one.needs.amount("GPU") if asked is None else asked


def _fields(one: Preset | PresetError) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": one.name, "path": str(one.path), "yours": one.path.parent == presets_folder()}
    if isinstance(one, PresetError):
        return {**fields, "error": str(one)}
    hosts = None if isinstance(one.ray, SlurmStart) else [node.host for node in one.nodes]
    return {**fields, "about": one.about, "gpus": _gpus(one), "hosts": hosts, "doubts": list(doubts(one))}
