"""Prints the skill for coding agents (`cockpit skill`)."""

from __future__ import annotations

from pathlib import Path

import click

from cockpit.text import output


def skill_path() -> Path:
    """Return the skill's file: inside the installed package, or in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "skill" / "SKILL.md"
    return inside if inside.is_file() else package.parent / "packaging" / "skill" / "SKILL.md"


@click.command("skill")
def skill() -> None:
    """Print the skill for coding agents.

    It teaches an agent to diagnose a Ray RL cluster with the tools of `cockpit mcp`.
    """
    output.print_line(skill_path().read_text(encoding="utf-8").rstrip("\n"))
