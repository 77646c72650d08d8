"""Serves a coding agent over stdin and stdout (`cockpit mcp`)."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec

import click

from cockpit.cli.options import BAD_USAGE, NOT_ALL, cluster_options, command, print_error, run_until_interrupted, with_config
from cockpit.config.settings import Config

INSTALL = "pip install 'ray-cockpit[mcp]'"


@command("mcp", {0: "the client has closed the connection", 1: "--allow-actions with --readonly", 3: "not installed, or bad usage"})
@click.option("--allow-actions", is_flag=True, help="Offer `perform`, which carries out a plan after a person has agreed to it.")
@cluster_options
@with_config
def mcp(config: Config, allow_actions: bool) -> int:
    """Serve a coding agent (Model Context Protocol).

    It speaks on stdin and stdout. An agent's program starts it; see docs/agents.md. Its tools only read and plan. With --allow-actions a
    plan can be carried out, each time after a person has agreed: in the agent's program, or on an open screen of the same user.
    """
    if allow_actions and config.readonly:
        return print_error(f"mcp: {config.readonly_reason}, and --allow-actions asks for the contrary", NOT_ALL)
    if find_spec("mcp_types") is None:
        return print_error(f"mcp: the Python SDK of the Model Context Protocol, 2.3 or later, is not installed here: {INSTALL}", BAD_USAGE)
    if sys.stdin.isatty():
        return print_error("mcp: an agent's program starts this and speaks JSON on its stdin; docs/agents.md says how to add it", BAD_USAGE)
    server = import_module("cockpit.agents.server")  # the SDK takes a second to import
    return run_until_interrupted(server.serve_agent(config, allow_actions=allow_actions))
