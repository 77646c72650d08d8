"""`cockpit logs`: which job, actor, process or node a word means, and its log on stdout."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

import click
import msgspec

from cockpit import output
from cockpit.cli.completion import complete_logs, complete_nodes
from cockpit.cli.options import DONE, NO_ANSWER, cluster_options, command, print_error, with_config
from cockpit.cli.service import look_interruptibly
from cockpit.cli.targets import MAX_NAMED, UnclearTargetError, did_you_mean, explain, matching_actors, matching_nodes, only_actor
from cockpit.config.settings import Config
from cockpit.model import Job, Node, Snapshot
from cockpit.monitor.logs import HEAD_PARTS, NODE_PARTS, Log, LogFinder
from cockpit.monitor.monitor import ClusterMonitor, hosts_timeout_s, look_once
from cockpit.secrets import LineRedactor
from cockpit.sources.source import SourceError
from cockpit.text import clean, join_first

QUIET_S: Final = 1.5
"""Seconds of silence after which a log that is not followed has been printed up to now; three of Ray's intervals."""
PATIENCE_S: Final = 10.0


class LogRequest(msgspec.Struct, frozen=True):
    """What somebody has typed."""

    target: str
    host: str | None = None
    log: str | None = None
    """The label of one of its logs; `None`: the first."""
    follow: bool = False
    lines: int = 1000


def print_log(config: Config, request: LogRequest) -> int:
    """A log to stdout: raw into a pipe; to a terminal without secrets, and able to do nothing to it."""
    return look_interruptibly(_print(config, request))


def count_of_lines(_: click.Context, __: click.Parameter, number: int) -> int:
    """-1 is all of them."""
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
def logs(config: Config, **request: Any) -> None:
    """Print the log of a job, actor, process or node.

    TARGET is a job's id; an actor's id, name or class, also of a dead actor; a pid; or a node. For an actor or a worker it prints stdout,
    for a node the stdout of its raylet. `--log err` prints stderr; `--log err-before` the stderr of the process before a restart.
    """
    sys.exit(print_log(config, LogRequest(**request)))


async def _print(config: Config, request: LogRequest) -> int:
    # Where Ray can't be asked, the hosts say which sessions there are.
    monitor = await look_once(config, hosts_patience=hosts_timeout_s(config))
    try:
        logs = await find_logs(monitor, request)
        log = _choose(logs, request)
        if len(logs) > 1 and (sys.stdout.isatty() or (request.log is None and log.is_before)):
            output.note(clean(_which_log(log, logs)))
        await _print_lines(log, request)
    except SourceError as error:
        return print_error(clean(explain(error, monitor.poller.snapshot)), NO_ANSWER)
    finally:
        monitor.close()
    return DONE


def _which_log(log: Log, logs: Sequence[Log]) -> str:
    """What is printed, and what else there is."""
    others = ", ".join(other.label for other in logs if other is not log)
    return f"{log.title}{', of the process before the restart' if log.is_before else ''}; --log shows another: {others}"


async def _print_lines(log: Log, request: LogRequest) -> None:
    """Up to now: of a log that grows the first lines to come are the last that there were."""
    batches = log.follow(request.lines, request.follow).__aiter__()
    patience = None if request.follow else PATIENCE_S
    hide, left = LineRedactor(), None if request.follow or request.lines < 0 else request.lines
    while left != 0 and (batch := await _next(batches, patience)) is not None:
        for line in batch[:left]:
            output.say_log(line, hide)
        left = None if left is None else max(0, left - len(batch))
        patience = None if request.follow else QUIET_S


async def _next(batches: AsyncIterator[Sequence[str]], patience: float | None) -> Sequence[str] | None:
    """`None`: it is over, or nothing came for so long."""
    task = asyncio.ensure_future(anext(batches, None))
    await asyncio.wait([task], timeout=patience)
    if task.done():
        return task.result()
    task.cancel()
    return None


def _choose(logs: Sequence[Log], request: LogRequest) -> Log:
    chosen = next((log for log in logs if request.log in (None, log.label, log.file)), None)
    if chosen is None:
        raise UnclearTargetError(f"{request.target} has no log {request.log}; it has: {', '.join(log.label for log in logs)}")
    return chosen


# What a word means


async def find_logs(monitor: ClusterMonitor, request: LogRequest) -> tuple[Log, ...]:
    """Of the one thing that is meant. Raises `SourceError`."""
    snapshot, finder = monitor.poller.snapshot, monitor.logs
    home = _home(monitor, request.host) if request.host else None
    job = next((job for job in snapshot.jobs or () if request.target in (job.id, job.job)), None)
    if job is not None:
        return (finder.job_log(job),)
    if request.target.isdigit() and len(request.target) <= len(str(1 << 22)):
        return await _logs_of_pid(snapshot, finder, int(request.target), home)
    living = only_actor(request.target, matching_actors(request.target, snapshot.actors or (), home), snapshot)
    node = matching_nodes(snapshot, monitor.config.names_of(request.target))
    if living or node:
        return await finder.logs_of(living or node[0])
    dead = only_actor(request.target, matching_actors(request.target, await monitor.dead_actors(), home), snapshot)
    if dead is not None:
        return await finder.logs_of(dead)
    return _refuse_unknown(monitor, request.target)


def _refuse_unknown(monitor: ClusterMonitor, target: str) -> tuple[Log, ...]:
    """It may be a job all the same, where jobs are not known."""
    snapshot = monitor.poller.snapshot
    if snapshot.jobs is None:
        return (monitor.logs.job_log(Job(target)),)
    known = [job.id for job in snapshot.jobs] + [actor.name or actor.class_ for actor in snapshot.actors or ()]
    meant = did_you_mean(target, [*known, *(node.title for node in snapshot.nodes or ())])
    part = _part_of_ray(snapshot, target) if not meant else ""
    raise UnclearTargetError(
        f"there is no job, actor, process or node {target} in the Ray cluster at {snapshot.cluster.address}{meant or part}"
    )


def _part_of_ray(snapshot: Snapshot, target: str) -> str:
    """How to read the log of a part of Ray, where that is what the word sounds like."""
    head = next((node for node in snapshot.nodes or () if node.head and node.id), None)
    label = next((f"{part}.{suffix}" for part, suffix in (*NODE_PARTS, *HEAD_PARTS) if part.startswith(target.casefold())), None)
    return f". Ray's own logs are those of a node: `cockpit logs {head.title} --log {label}`" if head and label else ""


async def _logs_of_pid(snapshot: Snapshot, finder: LogFinder, pid: int, home: Node | None) -> tuple[Log, ...]:
    found = _holders_of(snapshot, pid)
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


def _holders_of(snapshot: Snapshot, pid: int) -> Mapping[str, Any]:
    """By node, what has that pid there: the actor rather than its process."""
    titles = {node.key: node.title for node in snapshot.nodes or ()}
    found: dict[str, Any] = {}
    for process in snapshot.processes or ():
        if pid in (process.pid, process.ns_pid):
            found[titles.get(snapshot.index.place_of(process), process.host)] = process
    found.update((titles.get(f"node:{actor.node}", ""), actor) for actor in snapshot.actors or () if actor.pid == pid)
    return found


def _home(monitor: ClusterMonitor, name: str) -> Node:
    found = matching_nodes(monitor.poller.snapshot, monitor.config.names_of(name))
    if not found:
        raise UnclearTargetError(f"there is no node {name} in the Ray cluster at {monitor.poller.snapshot.cluster.address}")
    return found[0]
