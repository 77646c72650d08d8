"""`cockpit metrics`: one look, as Prometheus reads it, on stdout or in a file for its node_exporter."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from cockpit import output
from cockpit.cli.exit_codes import DONE, NOT_ALL, with_exit_codes
from cockpit.cli.line import leave_line_of
from cockpit.cli.status import look_interruptibly, refuse_undecided
from cockpit.config.settings import Config

HELP = """Print one look as metrics for Prometheus.

In the text format 0.0.4. Unknown values are left out; while Ray doesn't answer, cockpit_ray_reachable is 0. Run it from a timer, every 30
seconds or so; docs/metrics.md has one."""
EXIT_CODES = {0: "printed or written, even if no Ray answers", 1: "not written", 3: "several Rays to choose from, or bad usage"}


async def _metrics(config: Config, path: str | None) -> int:
    from cockpit.monitor.single_look import OTHER_HOSTS_PATIENCE_S, look_once
    from cockpit.report.metrics import metrics_text

    monitor = await look_once(config, hosts_patience=OTHER_HOSTS_PATIENCE_S)
    if monitor.open_choices:
        return refuse_undecided(monitor)
    snapshot = monitor.poller.snapshot
    leave_line_of(config, snapshot)
    text = metrics_text(snapshot, [host.name for host in config.hosts])
    if path is not None:
        return _write(Path(path), text)
    output.say(text.rstrip("\n"))
    return DONE


def _write(path: Path, text: str) -> int:
    from cockpit.report.whole_file import ALL_READ, write_whole

    try:
        write_whole(path, text, ALL_READ)
    except OSError as error:
        output.note(f"{path}: {(error.strerror or str(error)).lower()}")
        return NOT_ALL
    return DONE


def metrics_command(cluster_options: Callable[..., Any], with_config: Callable[..., Any]) -> click.Command:
    """The command."""

    @click.command("metrics", help=with_exit_codes(HELP, EXIT_CODES))
    @click.option(
        "--textfile", "path", metavar="FILE", type=click.Path(), help="Write to FILE, replaced in one step; node_exporter reads NAME.prom."
    )
    @cluster_options
    @with_config
    def command(config: Config, path: str | None) -> None:
        sys.exit(look_interruptibly(_metrics(config, path)))

    return command
