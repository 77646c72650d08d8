"""man/ray-cockpit.1, from the commands themselves."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from cockpit.cli.main import main
from cockpit.cli.options import EXIT_CODES
from manual.reference import context_of, walk_commands

PATH = Path(__file__).parents[1] / "man" / "ray-cockpit.1"
NAMES = (
    "cockpit and ray-cockpit are the same program. This page has the longer name because cockpit(1) belongs to another program, "
    "the web console of the same name."
)
FILES = {
    "~/.config/cockpit/config.yaml": "settings and thresholds; cockpit config init writes one with every default",
    "~/.config/cockpit/presets/": "your presets",
    "~/.config/cockpit/themes/": "your themes",
    "~/.local/state/cockpit/recordings/": "what was recorded",
    "~/.local/state/cockpit/acts.jsonl": "what was done",
}
VARIABLES = {
    "COCKPIT_ADDRESS, COCKPIT_HOSTS, COCKPIT_READONLY, ...": "as the options of these names; options override them, they override the file",
    "RAY_API_SERVER_ADDRESS, RAY_ADDRESS": "the dashboard, where none is given",
    "RAY_AUTH_TOKEN": "Ray's token",
    "NO_COLOR": "draw without colours",
}


def man_page() -> str:
    """One page for all commands."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield '.\\" Made by `make man` from the commands.'
    yield from (
        '.TH RAY\\-COCKPIT 1 "" "cockpit" "User Commands"',
        ".SH NAME",
        "ray\\-cockpit \\- a terminal monitor for LLM reinforcement learning on Ray",
    )
    yield from (
        ".SH SYNOPSIS",
        ".B cockpit",
        "[OPTIONS] [COMMAND] [ARGS]...",
        ".SH DESCRIPTION",
        _text(_description(main)),
        ".PP",
        _text(NAMES),
    )
    yield ".SH OPTIONS"
    yield from _options(main, "cockpit")
    yield from (".PP", "They hold for a command too, before its name; for those that look at a cluster also behind it.")
    yield ".SH COMMANDS"
    for words, command in walk_commands(main):
        yield from _command(words, command)
    for title, items in (
        ("FILES", FILES),
        ("ENVIRONMENT", VARIABLES),
        ("EXIT STATUS", {str(code): text for code, text in EXIT_CODES.items()}),
    ):
        yield f".SH {title}"
        for name, text in items.items():
            yield from _item(name, text)


def _command(words: str, command: click.Command) -> Iterator[str]:
    pieces = command.collect_usage_pieces(context_of(command, words))
    yield from (f'.SS "{_text(words)} {_text(" ".join(pieces))}"', _text(_description(command)))
    yield from _options(command, words)


def _description(command: click.Command) -> str:
    """Without the exit codes: they are a table in the help."""
    return re.split(r"\n*\x08?\n*Exit codes:", command.help or "")[0]


def _options(command: click.Command, words: str) -> Iterator[str]:
    context = context_of(command, words)
    general = {parameter.name for parameter in main.params} if command is not main else set()
    for parameter in command.params:
        if parameter.name not in general and isinstance(parameter, click.Option) and (record := parameter.get_help_record(context)):
            yield from _item(*record)


def _item(name: str, text: str) -> tuple[str, str, str]:
    return ".TP", f".B {_text(name)}", _text(text)


def _text(text: str) -> str:
    """As roff reads it: paragraphs, and nothing in it a command."""
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", text.replace("\b", ""))]
    safe = [part.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace('"', "\\(dq") for part in paragraphs if part]
    return "\n.PP\n".join(f"\\&{part}" if part.startswith((".", "'")) else part for part in safe)


def write() -> int:
    """The page as it lies in the repository, and in the wheel."""
    PATH.parent.mkdir(exist_ok=True)
    PATH.write_text(man_page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(write())
