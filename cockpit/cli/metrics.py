"""`cockpit metrics`: one look, as Prometheus reads it, on stdout or in a file for its node_exporter."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from cockpit import output
from cockpit.cli.line import leave_line_of
from cockpit.cli.options import DONE, NOT_ALL, cluster_options, command, refuse, with_config
from cockpit.cli.status import look_at_one, look_interruptibly
from cockpit.config.settings import Config
from cockpit.text import explain_os_error


@command("metrics", {0: "printed or written, even if no Ray answers", 1: "not written", 3: "several Rays to choose from, or bad usage"})
@click.option(
    "--textfile",
    "path",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write to FILE, replaced in one step; node_exporter reads NAME.prom.",
)
@cluster_options
@with_config
def metrics(config: Config, path: Path | None) -> None:
    """Print one look as metrics for Prometheus.

    In the text format 0.0.4. Unknown values are left out; while Ray doesn't answer, cockpit_ray_reachable is 0. Run it from a timer, every
    30 seconds or so; docs/metrics.md has one.
    """
    sys.exit(look_interruptibly(_look(config, path)))


async def _look(config: Config, path: Path | None) -> int:
    from cockpit.monitor.monitor import OTHER_HOSTS_PATIENCE_S
    from cockpit.report.metrics import metrics_text
    from cockpit.report.whole_file import ALL_READ, write_whole

    snapshot = (await look_at_one(config, hosts_patience=OTHER_HOSTS_PATIENCE_S)).poller.snapshot
    leave_line_of(config, snapshot)
    text = metrics_text(snapshot, [host.name for host in config.hosts])
    if path is None:
        output.say(text.rstrip("\n"))
        return DONE
    try:
        write_whole(path, text, ALL_READ)
    except OSError as error:
        return refuse(f"{path}: {explain_os_error(error)}", NOT_ALL)
    return DONE
