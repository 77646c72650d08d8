"""Finds the job, actor, process or node that a word means, and prints its log to stdout (`cockpit logs`)."""

from __future__ import annotations

import asyncio
import sys
from typing import Any, Final

import click

from cockpit.cli.completion import complete_logs, complete_nodes
from cockpit.cli.options import DONE, NO_ANSWER, cluster_options, command, print_error, with_config
from cockpit.cli.targets import MAX_NAMED, UnclearTargetError, did_you_mean, explain, matching_actors, matching_nodes, only_actor
from cockpit.config.settings import Config
from cockpit.model import Job, Node, Snapshot
from cockpit.monitor.logs import HEAD_PARTS, NODE_PARTS, Log, LogFinder
from cockpit.monitor.monitor import ClusterMonitor, hosts_timeout_s, sample_once
from cockpit.secrets import LineRedactor
from cockpit.sources.source import SourceError
from cockpit.text import clean, join_first, output

FIRST_LINES_TIMEOUT_S: Final = 10.0
QUIET_S: Final = 1.5
"""Seconds without a new line after which a log that is not followed has been printed to its present end; three of Ray's intervals."""
MAX_PID_DIGITS: Final = len(str(1 << 22))
"""The kernel's limit of pids is 4,194,304."""


def count_of_lines(_: click.Context, __: click.Parameter, number: int) -> int:
    """A number of lines; -1 means all lines."""
    if number < -1 or number == 0:
        raise click.BadParameter(f"expected a number of lines from 1, or -1 for all lines, got {number}")
    return number


@command("logs", {0: "printed", 3: "no such target, no log, or bad usage"})
@click.argument("target", shell_complete=complete_logs)
@click.option("-f", "--follow", is_flag=True, help="Keep printing new lines; for a job until it ends.")
@click.option(
    "-n",
    "lines",
    type=int,
    callback=count_of_lines,
    default=1000,
    metavar="N",
    help="Start with the last N lines (default: 1000). -1: all lines.",
)
@click.option("--host", metavar="NODE", shell_complete=complete_nodes, help="On which node, if several have that pid or actor.")
@click.option("--log", metavar="NAME", help="Which log of the target: out, err, out-before, err-before, job, or a file such as raylet.err.")
@cluster_options
@with_config
async def logs(config: Config, target: str, **wanted: Any) -> int:
    """Print the log of a job, actor, process or node.

    TARGET is a job's id; an actor's id, name or class, also of a dead actor; a pid; or a node. For an actor or a worker it prints stdout,
    for a node the stdout of its raylet. `--log err` prints stderr; `--log err-before` the stderr of the process before a restart.
    """
    return await print_log(config, target, **wanted)


async def print_log(
    config: Config, target: str, *, host: str | None = None, log: str | None = None, follow: bool = False, lines: int = 1000
) -> int:
    """Print a log to stdout, and return the exit code. A pipe gets it unchanged; a terminal gets it cleaned and without secrets."""
    # If Ray can't be reached, the hosts are asked which sessions exist.
    monitor = await sample_once(config, hosts_patience=hosts_timeout_s(config))
    try:
        found = await find_logs(monitor, target, host)
        chosen = next((one for one in found if log in (None, one.label, one.file)), None)
        if chosen is None:
            raise UnclearTargetError(f"{target} has no log {log}; it has: {', '.join(one.label for one in found)}")
        if len(found) > 1 and (sys.stdout.isatty() or (log is None and chosen.is_before)):
            others = ", ".join(one.label for one in found if one is not chosen)
            before = ", of the process before the restart" if chosen.is_before else ""
            output.print_note(clean(f"{chosen.title}{before}; --log shows another: {others}"))
        await _print_lines(chosen, lines, follow=follow)
    except SourceError as error:
        return print_error(clean(explain(error, monitor.poller.snapshot)), NO_ANSWER)
    finally:
        monitor.close()
    return DONE


async def _print_lines(log: Log, lines: int, *, follow: bool) -> None:
    """Print the last lines, and with `follow` all later ones. Without it a growing log ends after `lines` lines."""
    batches = log.follow(lines, follow).__aiter__()
    hide = LineRedactor()
    left = None if follow or lines < 0 else lines
    timeout = None if follow else FIRST_LINES_TIMEOUT_S
    while left != 0:
        task = asyncio.ensure_future(anext(batches, None))
        await asyncio.wait([task], timeout=timeout)
        if not task.done():
            task.cancel()
            return
        batch = task.result()
        if batch is None:
            return
        for line in batch[:left]:
            output.print_log_line(line, hide)
        left = None if left is None else max(0, left - len(batch))
        timeout = None if follow else QUIET_S


async def find_logs(monitor: ClusterMonitor, target: str, host: str | None = None) -> tuple[Log, ...]:
    """The logs of the one thing that `target` means; `host`: the node that it is on. Raises `SourceError`."""
    snapshot, finder = monitor.poller.snapshot, monitor.logs
    address = snapshot.cluster.address
    home: Node | None = None
    if host:
        home = next(iter(matching_nodes(snapshot, monitor.config.names_of(host))), None)
        if home is None:
            raise UnclearTargetError(f"there is no node {host} in the Ray cluster at {address}")

    # A job, a pid, a living actor, a node, a dead actor: the first that has this name.
    job = next((job for job in snapshot.jobs or () if target in (job.id, job.job)), None)
    if job is not None:
        return (finder.job_log(job),)
    if target.isdigit() and len(target) <= MAX_PID_DIGITS:
        return await _find_logs_of_pid(snapshot, finder, int(target), home)
    living = only_actor(target, matching_actors(target, snapshot.actors or (), home), snapshot)
    if living is not None:
        return await finder.logs_of(living)
    if nodes := matching_nodes(snapshot, monitor.config.names_of(target)):
        return await finder.logs_of(nodes[0])
    dead = only_actor(target, matching_actors(target, await monitor.dead_actors(), home), snapshot)
    if dead is not None:
        return await finder.logs_of(dead)
    if snapshot.jobs is None:
        return (finder.job_log(Job(target)),)  # jobs are unknown, so it may be one

    # Nothing has this name: suggest a similar name, or the node whose log of this part of Ray can be read.
    known = [job.id for job in snapshot.jobs] + [actor.name or actor.class_ for actor in snapshot.actors or ()]
    hint = did_you_mean(target, [*known, *(node.title for node in snapshot.nodes or ())])
    head = next((node for node in snapshot.nodes or () if node.head and node.id), None)
    label = next((f"{part}.{suffix}" for part, suffix in (*NODE_PARTS, *HEAD_PARTS) if part.startswith(target.casefold())), None)
    if not hint and head and label:
        hint = f". Ray's own logs are those of a node: `cockpit logs {head.title} --log {label}`"
    raise UnclearTargetError(f"there is no job, actor, process or node {target} in the Ray cluster at {address}{hint}")


async def _find_logs_of_pid(snapshot: Snapshot, finder: LogFinder, pid: int, home: Node | None) -> tuple[Log, ...]:
    # By node: the actor that has this pid, else the process.
    titles = {node.key: node.title for node in snapshot.nodes or ()}
    found: dict[str, Any] = {}
    for process in snapshot.processes or ():
        if pid in (process.pid, process.ns_pid):
            found[titles.get(snapshot.index.place_of(process), process.host)] = process
    found.update((titles.get(f"node:{actor.node}", ""), actor) for actor in snapshot.actors or () if actor.pid == pid)

    if home is not None:
        thing = found.get(home.title)
        return await finder.logs_of(thing) if thing else await finder.logs_of_pid(home, pid)
    if len(found) > 1:
        raise UnclearTargetError(f"pid {pid} is on {join_first([*found], MAX_NAMED)}: add --host NAME")
    if found:
        return await finder.logs_of(next(iter(found.values())))
    nodes = [node for node in snapshot.nodes or () if node.id]
    if len(nodes) == 1:
        return await finder.logs_of_pid(nodes[0], pid)
    raise UnclearTargetError(f"no process with pid {pid} is known; if it has ended, add --host with the node where it ran")
