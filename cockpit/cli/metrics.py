"""Writes the state as metrics for Prometheus: once, or whenever it asks (`cockpit metrics`)."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import click

from cockpit.cli.metrics_server import Tls, open_metrics_server
from cockpit.cli.options import DONE, NOT_ALL, cluster_options, command, print_error, with_config
from cockpit.cli.service import PollStep, serve, unit_text
from cockpit.cli.status import sample_and_write_line
from cockpit.config.settings import Config
from cockpit.files.atomic import ALL_READ, write_whole
from cockpit.monitor.monitor import ClusterMonitor
from cockpit.report.metrics import NewestMetrics, metrics_text
from cockpit.text import explain_os_error, output

FIRST_SAMPLE_TIMEOUT_S = 8.0
"""Seconds for which scrapes get nothing while not every source has answered: half of the nodes would look like a loss."""
FILE = click.Path(exists=True, dir_okay=False)


@command(
    "metrics",
    {
        0: "printed or written, even if no Ray answers",
        1: "not written, or it can't listen there",
        3: "several Ray clusters to choose from, or bad usage",
    },
)
@click.option(
    "--textfile",
    "path",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Replace FILE atomically; node_exporter reads NAME.prom.",
)
@click.option("--listen", metavar="ADDRESS:PORT", help="Keep running, and answer Prometheus there, such as 127.0.0.1:9265.")
@click.option("--tls-cert", metavar="FILE", type=FILE, help="With --listen: answer by HTTPS, with this certificate (PEM).")
@click.option("--tls-key", metavar="FILE", type=FILE, help="The private key of --tls-cert.")
@click.option("--client-ca", metavar="FILE", type=FILE, help="Answer only clients with a certificate that this authority has signed.")
@click.option("--unit", is_flag=True, help="Print a systemd user unit that listens.")
@cluster_options
@with_config
async def metrics(
    config: Config,
    path: Path | None,
    listen: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    client_ca: str | None,
    unit: bool,
) -> int:
    """Print the state once, as metrics for Prometheus.

    Text format 0.0.4. Unknown values are left out; while Ray does not answer, cockpit_ray_reachable is 0. Run it from
    cron or a systemd timer, such as once a minute. With --listen it watches until it is interrupted, and Prometheus asks it.
    """
    if (tls_cert is None) != (tls_key is None) or (client_ca is not None and tls_cert is None):
        raise click.UsageError("--tls-cert and --tls-key need each other, and --client-ca needs both")
    if listen is None and (unit or tls_cert is not None):
        raise click.UsageError("--unit and the options of TLS need --listen ADDRESS:PORT")
    if listen is not None and path is not None:
        raise click.UsageError("--textfile writes once, --listen keeps running: use one of them")
    if listen is not None:
        address, port = parse_listen(listen)
        tls = Tls(tls_cert, tls_key, client_ca) if tls_cert and tls_key else None
        if unit:
            words = ["--listen", listen, *(tls.options() if tls else ())]
            output.print_line(unit_text(config, "metrics", "answers Prometheus about a Ray cluster", words))
            return DONE
        return await _answer_scrapes(config, address, port, tls)

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


def parse_listen(text: str) -> tuple[str, int]:
    """The address and the port of --listen. Other exporters listen everywhere if the address is missing; here it must be typed."""
    try:
        parts = urlsplit(f"//{text}")
        address, port = parts.hostname, parts.port
    except ValueError:
        address, port = None, None
    if not address or port is None or parts.netloc != text or "@" in text:
        raise click.UsageError(f"--listen: expected an address and a port, such as 127.0.0.1:9265 or [::1]:9265, not {text}")
    return address, port


async def _answer_scrapes(config: Config, address: str, port: int, tls: Tls | None) -> int:
    newest = NewestMetrics([host.name for host in config.hosts])
    try:
        server = open_metrics_server(newest, address, port, tls)
    except OSError as error:
        reason = explain_os_error(error) if error.strerror else error.args[0]  # prometheus-client has put the file into a sentence
        return print_error(f"metrics: {address} port {port}: {reason}", NOT_ALL)
    output.print_note(f"metrics: {server.url}")
    if server.exposure:
        output.print_note(f"metrics: {server.exposure}")

    def attach(_: Config, monitor: ClusterMonitor) -> PollStep:
        is_attached = False

        def attach_when_known() -> None:
            nonlocal is_attached
            if not is_attached:
                newest.on_snapshot(monitor.poller.snapshot)
                monitor.poller.subscribe(newest.on_snapshot)
                is_attached = True

        return attach_when_known

    try:
        return await serve(config, attach, wait=lambda monitor: monitor.wait_until_complete(FIRST_SAMPLE_TIMEOUT_S))
    finally:
        server.close()
