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
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    metavar="S",
    help="Quit by itself after S seconds, for scripts; without a terminal as --plain. It fails if Ray has not answered until then.",
)
@with_config
def demo(config: Config, seconds: float | None) -> None:
    """Try cockpit on a local Ray with simulated GPUs.

    It starts a real Ray cluster on this host, with simulated GPUs and some faults, opens the screen on it, and stops it on quit.
    It needs gcc, and Ray in the same environment as cockpit.
    """
    reason = why_no_screen()
    plain = config.plain or (seconds is not None and reason is not None)
    if not plain and reason is not None:
        sys.exit(print_error(f"the demo draws a screen, and {reason}; `cockpit demo --plain` prints lines of text", BAD_USAGE))

    def show_demo(address: str) -> int:
        on_demo = replace(config, address=address)
        greeting = f"Demo cluster at {address}; q stops it and its jobs. To try recover: 7, then R on the preset demo"
        if plain:
            output.print_note(greeting)
            return show_plain(on_demo, seconds)
        return show(on_demo, greeting=greeting, seconds=seconds)

    sys.exit(run_demo(show_demo))
