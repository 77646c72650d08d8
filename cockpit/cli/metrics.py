"""Prints the state once as metrics for Prometheus (`cockpit metrics`)."""

from __future__ import annotations

from pathlib import Path

import click

from cockpit.cli.options import DONE, NOT_ALL, cluster_options, command, print_error, with_config
from cockpit.cli.status import sample_and_write_line
from cockpit.config.settings import Config
from cockpit.files.atomic import ALL_READ, write_whole
from cockpit.report.metrics import metrics_text
from cockpit.text import explain_os_error, output


@command(
    "metrics", {0: "printed or written, even if no Ray answers", 1: "not written", 3: "several Ray clusters to choose from, or bad usage"}
)
@click.option(
    "--textfile",
    "path",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Replace FILE atomically; node_exporter reads NAME.prom.",
)
@cluster_options
@with_config
async def metrics(config: Config, path: Path | None) -> int:
    """Print the state once, as metrics for Prometheus.

    Text format 0.0.4. Unknown values are left out; while Ray does not answer, cockpit_ray_reachable is 0. Run it from
    cron or a systemd timer, such as once a minute.
    """
    snapshot = await sample_and_write_line(config)
    text = metrics_text(snapshot, [host.name for host in config.hosts])
    if path is None:
        output.print_line(text.rstrip("\n"))
        return DONE
    try:
        write_whole(path, text, ALL_READ)
    except OSError as error:
        return print_error(f"{path}: {explain_os_error(error)}", NOT_ALL)
    return DONE
