"""Asks NCCL what the ranks of a running job do, and prints its report (`cockpit nccl`)."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Final

import click
import msgspec

from cockpit.cli.completion import complete_jobs
from cockpit.cli.options import DONE, NO_ANSWER, NOT_ALL, cluster_options, command, json_option, print_error, with_config
from cockpit.cli.targets import UnclearTargetError, did_you_mean, explain
from cockpit.config.settings import Config
from cockpit.findings.nccl import report_lines
from cockpit.model import Job, NcclReport, Snapshot
from cockpit.monitor.monitor import hosts_timeout_s, sample_once
from cockpit.monitor.nccl_asker import RISK, OldNcclError
from cockpit.sources.source import SourceError
from cockpit.text import clean, output

_EXIT_CODES: Final = {0: "printed", 1: "not asked, or no host has given a report", 3: "no answer, no such job, or bad usage"}


@command("nccl", _EXIT_CODES)
@click.argument("job", shell_complete=complete_jobs)
@click.option("--yes", is_flag=True, help="Ask also an NCCL before 2.29.2, whose report can harm its process, without confirmation.")
@json_option
@cluster_options
@with_config
def nccl(config: Config, *, job: str, yes: bool, as_json: bool) -> int:
    """Ask NCCL which rank of a job is behind.

    JOB is the id of a running job. From 2.24.3 on NCCL's RAS service answers in its processes; nothing has to be installed there.
    """
    try:
        try:
            return asyncio.run(_ask(config, job, even_old=yes and not config.readonly, as_json=as_json))
        except OldNcclError as error:
            if config.readonly:
                return print_error(f"{clean(str(error))}. {RISK} It was not asked: {config.readonly_reason}", NOT_ALL)
            output.print_note(f"{clean(str(error))}. {RISK}")
            if not is_terminal():
                return print_error("It was not asked: add --yes", NOT_ALL)
            if not output.is_confirmed("Ask it all the same?"):
                return NOT_ALL
            return asyncio.run(_ask(config, job, even_old=True, as_json=as_json))
    except SourceError as error:
        return print_error(clean(str(error)), NO_ANSWER)
    except KeyboardInterrupt:
        return 130


def is_terminal() -> bool:
    """Whether somebody can answer a question."""
    return sys.stdin is not None and sys.stdin.isatty()


async def _ask(config: Config, target: str, *, even_old: bool, as_json: bool) -> int:
    """Ask, print, and return the exit code. Raises `OldNcclError` and `SourceError`."""
    monitor = await sample_once(config, hosts_patience=hosts_timeout_s(config))
    try:
        snapshot = monitor.poller.snapshot
        report = await monitor.nccl.ask(_find_job(target, snapshot), even_old=even_old)
    except OldNcclError:
        raise
    except SourceError as error:
        raise SourceError(explain(error, monitor.poller.snapshot)) from error
    finally:
        monitor.close()
    _print_report(report, snapshot, as_json=as_json)
    return DONE if report.versions else NOT_ALL


def _find_job(target: str, snapshot: Snapshot) -> Job:
    """The running job of this id. Raises `SourceError`."""
    if snapshot.jobs is None:
        fault = next((fault for fault in snapshot.faults if fault.source.startswith("ray.")), None)
        raise SourceError(f"the jobs are unknown: {fault.text if fault else 'Ray has not answered'}", fault.cause if fault else None)
    job = next((job for job in snapshot.jobs if target in (job.id, job.job)), None)
    if job is None:
        hint = did_you_mean(target, (job.id for job in snapshot.jobs))
        raise UnclearTargetError(f"there is no job {target} in the Ray cluster at {snapshot.cluster.address}{hint}")
    if not job.running:
        raise UnclearTargetError(f"job {job.id} does not run: it is {job.status}")
    return job


def _print_report(report: NcclReport, snapshot: Snapshot, *, as_json: bool) -> None:
    if as_json:
        output.print_json(msgspec.json.encode(report).decode())
        return
    for line in report_lines(report, snapshot, time.time()):
        output.print_line(line)
