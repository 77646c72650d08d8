"""Sends notifications without a screen (`cockpit watch`), and sends a test message to each target (`cockpit notify --test`)."""

from __future__ import annotations

import time

import click

from cockpit.cli.options import DONE, NOT_ALL, cluster_options, command, print_error, with_config
from cockpit.cli.service import PollStep, serve, unit_text
from cockpit.config.document import abbreviate_home
from cockpit.config.settings import Config, config_path
from cockpit.model import Cluster, Snapshot
from cockpit.monitor.monitor import ClusterMonitor
from cockpit.notify.delivery import deliver
from cockpit.notify.message import Message, cluster_name
from cockpit.notify.notifier import Notifier
from cockpit.notify.robots import ChatBotRefusedError
from cockpit.notify.sent_state import notify_path
from cockpit.report.snapshot_text import changes
from cockpit.text import output

SETTLING_S = 8.0
"""Seconds for which `watch` waits until every source has answered, before it prints findings."""


def attach_notifier(config: Config, monitor: ClusterMonitor) -> Notifier | None:
    """Send notifications about this monitor's findings until it ends; `None` if there are no targets, or cockpit is read-only."""
    if config.readonly or not config.notify:
        return None

    def show_fault(text: str | None) -> None:
        if text is None:
            monitor.poller.clear_fault("notify")
        else:
            monitor.poller.report_fault("notify", text)

    notifier = Notifier(config.notify, notify_path(), show_fault)
    monitor.poller.subscribe(notifier.on_snapshot)
    monitor.ending.append(notifier.close)
    return notifier


@command("watch", {0: "the unit is printed", 1: "notifications can't be sent", 3: "no such cluster, or bad usage"})
@click.option("--unit", is_flag=True, help="Print a systemd user unit.")
@cluster_options
@with_config
async def watch_command(config: Config, unit: bool) -> int:
    """Notify of findings, without a screen.

    Targets are listed under `notify` in the config file. Each finding that starts, clears or changes its level is
    printed, whether it is sent or not. Runs until interrupted. Only one cockpit notifies for a cluster; a second one names it and exits.
    """
    if unit:
        output.print_line(unit_text(config, "watch", "sends notifications about findings of a Ray cluster"))
        return DONE
    if config.readonly:
        return print_error(
            f"watch: {config.readonly_reason}, but watch must write down what it has sent; use `cockpit status --watch`", NOT_ALL
        )
    if not config.notify:
        return print_error(f"watch: no targets: {abbreviate_home(config_path())} has no `notify`; see `cockpit status --watch`", NOT_ALL)
    return await serve(config, _attach)


def _attach(config: Config, monitor: ClusterMonitor) -> PollStep:
    notifier, begun = attach_notifier(config, monitor), time.monotonic()
    printed = Snapshot()

    def print_news() -> int | None:
        nonlocal printed
        if notifier is not None and notifier.holder is not None:
            return print_error(f"watch: {notifier.holder} already notifies for this cluster", NOT_ALL)
        snapshot = monitor.poller.snapshot
        is_judged = monitor.coverage.is_complete() and snapshot.findings_as_of is not None
        if not is_judged and time.monotonic() - begun <= SETTLING_S:
            return None
        for line in changes(printed, snapshot):
            output.print_line(line)
        before, now = ({fault.text for fault in one.faults if fault.source == "notify"} for one in (printed, snapshot))
        for text in now - before:
            output.print_note(f"not sent: {text}")
        printed = snapshot
        return None

    return print_news


@command("notify", {0: "every target accepted it", 1: "at least one did not", 3: "bad usage"})
@click.option("--test", is_flag=True, help="Send the test message.")
@click.option("--target", type=int, metavar="N", help="Only the Nth target of the list, from 1.")
@cluster_options
@with_config
async def notify_command(config: Config, test: bool, target: int | None) -> int:
    """Send a test message to each target.

    Targets are listed under `notify` in the config file. The answer of each is printed.
    """
    if not test:
        raise click.UsageError("notify only sends a test message: add --test; `cockpit watch` notifies of findings")
    if not config.notify:
        return print_error(f"notify: {abbreviate_home(config_path())} lists no targets under `notify`", NOT_ALL)
    if target is not None and not 1 <= target <= len(config.notify):
        raise click.UsageError(f"--target: expected a number from 1 to {len(config.notify)}")
    cluster = cluster_name(Cluster(config.address)) if config.address else "none, this is only a test"
    code = DONE
    for number, each in enumerate(config.notify, 1):
        if target in (None, number):
            try:
                await deliver(each, Message(cluster, time.time(), is_test=True))
                answer = "it exited with code 0" if each.command else "accepted"
            except ChatBotRefusedError as error:
                answer, code = f"failed: {error}", NOT_ALL
            output.print_line(f"target {number} ({each.kind}): {answer}")
    return code
