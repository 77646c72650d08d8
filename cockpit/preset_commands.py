"""The command that lists presets, and copies a ready-made one."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from cockpit.commands import NOT_ALL, refuse
from cockpit.config import Config
from cockpit.document import InputError, shown
from cockpit.presets import Preset, PresetError, copy_preset, doubts, presets, presets_folder
from cockpit.text import UNKNOWN, clean, count

_HEADS = ("NAME", "GPUS", "HOSTS", "ABOUT")


def presets_command(configured: Callable[[Any], Any]) -> click.Command:
    """`cockpit presets`. The list needs no config, and is there also where that has a mistake."""

    @click.command("presets")
    @click.option("--json", "as_json", is_flag=True, help="For scripts.")
    @click.option("--copy", "name", metavar="NAME", help="Copy a ready-made preset into your folder, to make it yours.")
    @click.option("--readonly", is_flag=True, default=None, help="Show everything, change nothing.")
    def listing(as_json: bool, name: str | None, readonly: bool | None) -> None:
        """Presets: those in your folder, and ready-made ones. Exit: 0, or 1 when one can't be read or copied."""
        sys.exit(_listed(presets(), as_json=as_json) if name is None else configured(_copied)(name=name, readonly=readonly))

    return listing


def _copied(config: Config, name: str) -> int:
    if config.readonly:
        return refuse("presets --copy: cockpit is read-only here", NOT_ALL)
    try:
        path = copy_preset(name)
    except InputError as error:
        return refuse(str(error), NOT_ALL)
    click.echo(f"Written: {shown(path)}")
    return 0


def _listed(found: list[Preset | PresetError], *, as_json: bool) -> int:
    click.echo(json.dumps({"presets": [_fields(one) for one in found]}, indent=2) if as_json else presets_text(found))
    return 1 if any(isinstance(one, PresetError) for one in found) else 0


def presets_text(found: list[Preset | PresetError]) -> str:
    """A table for each folder; mistakes and doubts below."""
    parts = []
    for folder in (presets_folder(), *dict.fromkeys(one.path.parent for one in found if one.path.parent != presets_folder())):
        within = [one for one in found if one.path.parent == folder]
        parts.append(f"{_origin(folder)}\n{_table(within)}" if within else f"{_origin(folder)}\n  none yet")
    notes = [f"{clean(one.name)}: {clean(note)}" for one in found if isinstance(one, Preset) for note in doubts(one)]
    return "\n\n".join([*parts, *(["\n".join(notes)] if notes else [])])


def _origin(folder: Path) -> str:
    return shown(folder) if folder == presets_folder() else "ready-made (copy one with --copy NAME)"


def _table(found: list[Preset | PresetError]) -> str:
    rows = [_HEADS, *(_row(one) for one in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join("  " + "  ".join((*(row[column].ljust(widths[column]) for column in range(3)), row[3])).rstrip() for row in rows)


def _row(one: Preset | PresetError) -> tuple[str, str, str, str]:
    if isinstance(one, PresetError):
        return clean(one.name), UNKNOWN, UNKNOWN, clean(str(one))
    hosts = [node.host for node in one.ray.nodes] if one.ray else []
    shortened = ",".join(hosts[:3]) + (f",… ({len(hosts)})" if len(hosts) > 3 else "")
    return clean(one.name), count(_gpus(one)), shortened or UNKNOWN, clean(one.about)


def _gpus(one: Preset) -> float | None:
    """As its command asks for them; else as the preset says."""
    from cockpit.check.look import budget_for  # deferred: only the list needs what reads commands

    asked = budget_for(one, os.environ).amount("GPU") if one.job else None
    return one.needs.amount("GPU") if asked is None else asked


def _fields(one: Preset | PresetError) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": one.name, "path": str(one.path), "yours": one.path.parent == presets_folder()}
    if isinstance(one, PresetError):
        return {**fields, "error": str(one)}
    hosts = [node.host for node in one.ray.nodes] if one.ray else []
    return {**fields, "about": one.about, "gpus": _gpus(one), "hosts": hosts, "doubts": list(doubts(one))}
