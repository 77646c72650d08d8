"""Prints the JSON Schemas of cockpit's output and files, and puts those of files where editors look for them (`cockpit schema`)."""

from __future__ import annotations

import json
from typing import Final

import click

from cockpit.check.result import CheckStatus
from cockpit.cli.options import BAD_USAGE, DONE, NOT_ALL, command, print_error, with_config
from cockpit.config import settings
from cockpit.config.document import abbreviate_home, json_schema
from cockpit.config.settings import Config, config_path
from cockpit.presets import schema as preset
from cockpit.report.incident.account import Account
from cockpit.report.status import Status
from cockpit.text import explain_os_error, output

OUTPUTS: Final = {"status": Status, "check": CheckStatus, "report": Account}
FILES: Final = {schema.name: schema for schema in (preset.EDITOR_SCHEMA, settings.EDITOR_SCHEMA)}


@command("schema", {0: "done", 1: "a schema can't be written", 3: "bad usage"})
@click.argument("what", type=click.Choice([*OUTPUTS, *FILES]), required=False)
@click.option(
    "--write",
    is_flag=True,
    help="Write the schemas of presets and of the config file into cockpit's folder, for your editor: after an upgrade.",
)
@click.option("--readonly", is_flag=True, default=None, help="Show everything, change nothing.")
def print_schema(what: str | None, write: bool, readonly: bool | None) -> int:
    """Print a JSON Schema.

    It describes the output of `status --json` (the default), `check --json` or `report -o FILE.json`, a preset, or the config file.
    """
    if write:
        if what in OUTPUTS:
            return print_error(f"schema --write: {what} is no file that an editor opens; preset and config are", BAD_USAGE)
        code: int = with_config(_write)(names=[what] if what else [*FILES], readonly=readonly)
        return code
    schema = FILES[what].document() if what in FILES else json_schema(OUTPUTS[what or "status"])
    output.print_json(json.dumps(schema, indent=2))
    return DONE


def _write(config: Config, names: list[str]) -> int:
    if config.readonly:
        return print_error(f"schema --write: {config.readonly_reason}", NOT_ALL)
    try:
        for name in names:
            output.print_line(f"Written: {abbreviate_home(FILES[name].write(config_path().parent))}")
    except OSError as error:
        return print_error(f"schema --write: {error.filename}: {explain_os_error(error)}", NOT_ALL)
    return DONE
