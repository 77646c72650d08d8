"""Prints the JSON Schemas of cockpit's output and files (`cockpit schema`)."""

from __future__ import annotations

import json

import click

from cockpit.check.result import CheckStatus
from cockpit.config.document import json_schema
from cockpit.config.settings import ConfigFile
from cockpit.presets.schema import PresetFile
from cockpit.report.incident.account import Account
from cockpit.report.status import Status
from cockpit.text import output


@click.command("schema")
@click.argument("what", type=click.Choice(["status", "check", "report", "preset", "config"]), default="status")
def print_schema(what: str) -> None:
    """Print a JSON Schema.

    It describes the output of `status --json`, `check --json` or `report -o FILE.json`, a preset, or the config file.
    """
    described = {"status": Status, "check": CheckStatus, "report": Account, "preset": PresetFile, "config": ConfigFile}[what]
    output.print_json(json.dumps(json_schema(described), indent=2))
