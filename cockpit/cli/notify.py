"""`cockpit watch`, which tells the targets of `notify` without a screen, and `cockpit notify --test`, which tries them."""

from __future__ import annotations

import asyncio
import sys
import time
from functools import partial

import click

from cockpit import output
from cockpit.cli.options import DONE, NOT_ALL, cluster_options, command, print_error, with_config
from cockpit.cli.service import PollStep, serve, unit_text
from cockpit.config.document import abbreviate_home
from cockpit.config.notify import NotifyTarget
from cockpit.config.settings import Config, config_path
from cockpit.model import Cluster, Snapshot
from cockpit.monitor.monitor import ClusterMonitor
from cockpit.notify.delivery import deliver
from cockpit.notify.message import Message, cluster_name
from cockpit.notify.notifier import Notifier
from cockpit.notify.robots import ChatBotRefusedError
from cockpit.notify.told import notify_path
from cockpit.report.text import changes

SETTLING_S = 8.0
"""For which `watch` waits until everybody has answered before it prints findings."""


def attach_notifier(config: Config, monitor: ClusterMonitor) -> Notifier | None:
    """Notify of what this monitor sees until it ends; `None` without targets, or where nothing may be written."""
    if config.readonly or not config.notify:
        return None
    notifier = Notifier(config.notify, notify_path(), partial(_say_fault, monitor))
    monitor.poller.subscribe(notifier.hear)
    monitor.ending.append(notifier.close)
    return notifier


def _say_fault(monitor: ClusterMonitor, text: str | None) -> None:
    if text is None:
        monitor.poller.clear_fault("notify")
    else:
        monitor.poller.report_fault("notify", text)


def _watch(config: Config) -> int:
    if config.readonly:
        return print_error(
            f"watch: {config.readonly_reason}, but watch must write down what it has sent; use `cockpit status --watch`", NOT_ALL
        )
    if not config.notify:
        return print_error(f"watch: no targets: {abbreviate_home(config_path())} has no `notify`; see `cockpit status --watch`", NOT_ALL)
    return serve(config, _attach_notifier)


def _attach_notifier(config: Config, monitor: ClusterMonitor) -> PollStep:
    notifier, begun = attach_notifier(config, monitor), time.monotonic()
    printed = Snapshot()

    def look() -> int | None:
        nonlocal printed
        if notifier is not None and notifier.holder is not None:
            return print_error(f"watch: {notifier.holder} already notifies for this cluster", NOT_ALL)
        if monitor.coverage.is_complete() or time.monotonic() - begun > SETTLING_S:
            _print_changes(printed, monitor.poller.snapshot)
            printed = monitor.poller.snapshot
        return None

    return look


def _print_changes(before: Snapshot, snapshot: Snapshot) -> None:
    for line in changes(before, snapshot):
        output.say(line)
    failures = [{fault.text for fault in one.faults if fault.source == "notify"} for one in (before, snapshot)]
    for text in failures[1] - failures[0]:
        output.note(f"not sent: {text}")


def _try_targets(config: Config, number: int | None) -> int:
    if not config.notify:
        return print_error(f"notify: {abbreviate_home(config_path())} lists no targets under `notify`", NOT_ALL)
    if number is not None and not 1 <= number <= len(config.notify):
        raise click.UsageError(f"--target: expected a number from 1 to {len(config.notify)}")
    chosen = [(place, target) for place, target in enumerate(config.notify, 1) if number in (None, place)]
    return max([asyncio.run(_test(config, place, target)) for place, target in chosen])


async def _test(config: Config, place: int, target: NotifyTarget) -> int:
    message = Message(cluster_name(Cluster(config.address)) if config.address else "none, this is only a test", time.time(), is_test=True)
    try:
        await deliver(target, message)
    except ChatBotRefusedError as error:
        output.say(f"target {place} ({target.kind}): failed: {error}")
        return NOT_ALL
    output.say(f"target {place} ({target.kind}): {'it exited with code 0' if target.command else 'accepted'}")
    return DONE


@command("watch", {0: "the unit is printed", 1: "notifications can't be sent", 3: "no such cluster, or bad usage"})
@click.option("--unit", is_flag=True, help="Print a systemd user unit.")
@cluster_options
@with_config
def watch_command(config: Config, unit: bool) -> None:
    """Notify of findings, without a screen.

    Targets are listed under `notify` in the config file. Each finding that starts, clears or changes its level is
    printed, whether it is sent or not. Runs until interrupted. Only one cockpit notifies for a cluster; a second one names it and exits.
    """
    if unit:
        output.say(unit_text(config, "watch", "sends notifications about findings of a Ray cluster"))
    else:
        sys.exit(_watch(config))


@command("notify", {0: "every target accepted it", 1: "at least one did not", 3: "bad usage"})
@click.option("--test", is_flag=True, help="Send the test message.")
@click.option("--target", type=int, metavar="N", help="Only the Nth target of the list, from 1.")
@cluster_options
@with_config
def notify_command(config: Config, test: bool, target: int | None) -> None:
    """Send a test message to each target.

    Targets are listed under `notify` in the config file. The answer of each is printed.
    """
    if not test:
        raise click.UsageError("notify only sends a test message: add --test; `cockpit watch` notifies of findings")
    sys.exit(_try_targets(config, target))
