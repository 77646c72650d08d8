"""Opens the screen on a local Ray cluster with simulated GPUs (`cockpit demo`)."""

from __future__ import annotations

import sys

import click
from msgspec.structs import replace

from cockpit.cli.options import (
    BAD_USAGE,
    cluster_options,
    plain_option,
    print_error,
    screen_options,
    why_no_screen,
    with_config,
)
from cockpit.cli.plain import show_plain
from cockpit.cli.screen import show
from cockpit.config.settings import Config
from cockpit.demo import run_demo
from cockpit.text import output


@click.command()
@cluster_options
@screen_options
@plain_option
@with_config
def demo(config: Config) -> None:
    """Try cockpit on a local Ray with simulated GPUs.

    It starts a real Ray cluster on this host, with simulated GPUs and some faults, opens the screen on it, and stops it on quit.
    It needs gcc, and Ray in the same environment as cockpit.
    """
    if not config.plain and (reason := why_no_screen()) is not None:
        sys.exit(print_error(f"the demo draws a screen, and {reason}; `cockpit demo --plain` prints lines of text", BAD_USAGE))

    def show_demo(address: str) -> None:
        on_demo = replace(config, address=address)
        greeting = f"Demo cluster at {address}; q stops it and its jobs. To try recover: 7, then R on the preset demo"
        if config.plain:
            output.print_note(greeting)
            show_plain(on_demo)
        else:
            show(on_demo, greeting=greeting)

    sys.exit(run_demo(show_demo))
