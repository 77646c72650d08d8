"""The pages that are made from the commands and the JSON Schemas themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from cockpit.check.result import CheckStatus
from cockpit.cli.main import main
from cockpit.config.document import json_schema
from cockpit.config.settings import ConfigFile, default_file
from cockpit.presets.schema import PresetFile
from cockpit.report.incident.account import Account
from cockpit.report.status import Status

Schema = Mapping[str, Any]
SCHEMAS: Mapping[str, tuple[str, type]] = {
    "status": ("`cockpit status --json`", Status),
    "check": ("`cockpit check --json`", CheckStatus),
    "report": ("`cockpit report -o FILE.json`", Account),
}
"""What programs read: by the name that `cockpit schema` knows."""


def context_of(command: click.Command, words: str) -> click.Context:
    """As the program itself has it: click remembers of the first one how help is asked for."""
    return click.Context(command, info_name=words, max_content_width=100, **main.context_settings)


def walk_commands(group: click.Group, path: Sequence[str] = ("cockpit",)) -> Iterator[tuple[str, click.Command]]:
    """Every command that is not hidden, with all its words."""
    context = context_of(group, path[-1])
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        yield " ".join((*path, name)), command
        if isinstance(command, click.Group):
            yield from walk_commands(command, (*path, name))


def commands_page() -> str:
    """The help of every command, as it prints it."""
    parts = ["# Every command and option\n\nWhat `--help` prints.\n"]
    for words, command in (("cockpit", main), *walk_commands(main)):
        parts.append(f"\n## `{words}`\n\n```\n{command.get_help(context_of(command, words))}\n```\n")
    return "".join(parts)


def config_page() -> str:
    """Every key of the config file, its thresholds included, and the file that `config init` writes."""
    schema = json_schema(ConfigFile)
    head = (
        "# Config file\n\n`cockpit config path` prints where it lies, `cockpit config init` writes it with every default commented out, "
        "`cockpit config print` prints what holds now and where each value comes from. A flag overrides a `COCKPIT_*` variable, which "
        "overrides this file. A mistake in it is reported with file, line and key. `cockpit schema config` prints its JSON Schema, for "
        "your editor.\n"
    )
    sections = "".join(_section(_CONFIG_TITLES[name], schema["$defs"][name], "##") for name in _CONFIG_TITLES)
    return f"{head}{sections}\n## The whole file, with its defaults\n\n```yaml\n{default_file()}\n```\n"


_CONFIG_TITLES = {
    "ConfigFile": "Keys",
    "HostEntry": "hosts",
    "RecordingLimits": "recording",
    "NotifyTarget": "notify",
    "Limits": "findings",
}


def preset_page() -> str:
    """Every key of a preset."""
    schema = json_schema(PresetFile)
    sections = "".join(_section(name, part, "##") for name, part in schema["$defs"].items())
    return (
        f"# Keys of a preset\n\n[Presets](presets.md) says what they are for; `cockpit schema preset` prints the JSON Schema.\n{sections}"
    )


def json_page() -> str:
    """Every field of what commands print as JSON."""
    head = (
        "# JSON\n\nWhat programs read of cockpit. `cockpit schema status|check|report` prints each JSON Schema. `null` is *unknown*, "
        "never 0; an empty list is none.\n"
    )
    return head + "".join(f"\n## {title}\n{_sections(name, json_schema(described))}" for name, (title, described) in SCHEMAS.items())


def _sections(name: str, schema: Schema) -> str:
    return "".join(_section(f"{name}: {part}", described, "###") for part, described in schema["$defs"].items())


def _section(title: str, described: Schema, level: str) -> str:
    text = f"\n{level} {title}\n\n{described.get('description', '')}\n"
    properties = described.get("properties")
    if not properties:
        return f"{text}\n`{_type(described)}`\n"
    rows = "".join(
        f"| `{name}` | {_cell(_type(one))} | {_cell(one.get('description', ''))} |{_default(one)}\n" for name, one in properties.items()
    )
    return f"{text}\n| key | type | meaning | default |\n|---|---|---|---|\n{rows}"


def _default(one: Schema) -> str:
    default = one.get("default")
    told = "" if default is None or isinstance(default, dict) or default in ("", []) else f"`{json.dumps(default)}`"
    return f" {told} |"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())


_BOUNDS = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "exclusiveMaximum": "below"}


def _type(one: Schema) -> str:
    if "$ref" in one:
        return str(one["$ref"]).rpartition("/")[2]
    if "anyOf" in one:
        return " or ".join(map(_type, one["anyOf"]))
    if "enum" in one or "const" in one:
        return " or ".join(json.dumps(value) for value in one.get("enum", [one.get("const")]))
    if one.get("type") == "array":
        items = one.get("items") or {}
        return f"list of {_type(items)}" if items else "list"
    if one.get("type") == "object" and isinstance(one.get("additionalProperties"), dict):
        return f"map of {_type(one['additionalProperties'])}"
    if isinstance(one.get("type"), list):
        return " or ".join(one["type"])
    bounds = "".join(f" {word} {one[key]:.10g}" for key, word in _BOUNDS.items() if key in one)
    return f"{one.get('type', 'any')}{bounds}"
