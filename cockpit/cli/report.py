"""`cockpit report`: what a recording tells, as Markdown on the terminal, or as a file of HTML, Markdown or JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from cockpit import output
from cockpit.cli.completion import complete_jobs
from cockpit.cli.options import BAD_USAGE, NOT_ALL, command, print_error, with_config
from cockpit.cli.record import find_recording, folders_at
from cockpit.config.settings import Config
from cockpit.model import Cluster
from cockpit.moment import parse_moment
from cockpit.recording.files import RecordingError, list_segments
from cockpit.recording.folder import folder_name
from cockpit.recording.recording import Recording
from cockpit.report.incident.account import Account, account_json
from cockpit.report.incident.gather import make_account
from cockpit.report.incident.html import account_html
from cockpit.report.incident.markdown import account_markdown, who_markdown
from cockpit.text import explain_os_error
from cockpit.whole_file import OWNER_READS, write_whole

DEFAULT_SPAN_S = 86_400.0
"""Of the end of a recording that is told of, where nobody says from when."""


@command("report", {0: "printed or written", 1: "the report can't be written", 3: "no recording, or bad usage"})
@click.argument("recording", required=False, type=click.Path(path_type=Path))
@click.option(
    "--from", "begin", metavar="TIME", help="Start of the report: 03:10, -20m or 2026-11-23T03:10. Default: a day before its end."
)
@click.option("--to", "end", metavar="TIME", help="End of the report. Default: the end of the recording.")
@click.option(
    "--job",
    metavar="ID",
    shell_complete=complete_jobs,
    help="Only what concerns this job. Default for --from and --to: its beginning and its end.",
)
@click.option("--who", is_flag=True, help="Only who uses what: GPU-hours, GPUs and memory by job and by user.")
@click.option("-o", "file", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Write FILE: .html, .md or .json.")
@with_config
def report(config: Config, recording: Path | None, file: Path | None, **wanted: Any) -> None:
    """Report what happened, from a recording.

    Findings with their times, evidence and remedies, actions, jobs, failing sources, gaps, and who used how many GPU-hours.
    RECORDING is a file or the folder of a cluster; default: the latest.
    """
    try:
        text = _report(config, recording, file, **wanted)
    except (RecordingError, ValueError) as error:
        sys.exit(print_error(str(error), BAD_USAGE))
    sys.exit(_deliver(config, text, file))


def _report(config: Config, path: Path | None, file: Path | None, *, begin: str | None, end: str | None, job: str | None, who: bool) -> str:
    """Its text, in the form that the file's name asks for. Raises `RecordingError`, `ValueError`."""
    write = _writer(file, who=who)
    recording = find_recording(None if path is None else str(path), None, config.address)
    now = recording.end if path is not None else time.time()
    if path is None:
        recording = _with_earlier(recording, recording.end - DEFAULT_SPAN_S if begin is None else parse_moment(begin, now))
    since, until = (None if text is None else parse_moment(text, now) for text in (begin, end))
    ran = _job_span(recording, job) if job is not None else (None, None)
    until = recording.end if (chosen := ran[1] if until is None else until) is None else chosen
    since = until - DEFAULT_SPAN_S if (chosen := ran[0] if since is None else since) is None else chosen
    if since >= until or since > recording.end or until < recording.begin:
        first, last = (time.strftime("%Y-%m-%d %H:%M", time.localtime(moment)) for moment in (recording.begin, recording.end))
        raise ValueError(f"nothing was recorded in that time: {recording.path} covers {first} to {last}")
    account = make_account(recording, since, until, job)
    if job is not None and not account.jobs:
        raise ValueError(f"no job {job} was seen in that time")
    return write(account)


def _with_earlier(recording: Recording, since: float) -> Recording:
    """Together with the sessions of its Ray that were recorded since then: it may have been started anew in that time."""
    own = recording.path
    found = [folder for folder in folders_at(recording.cluster.address, recording.cluster.host) if folder.name != folder_name(Cluster())]
    earlier = [folder for folder in found if folder != own and max(path.stat().st_mtime for path in list_segments(folder)) >= since]
    if not earlier:
        return recording
    recording.close()
    return Recording.open(*earlier, own)


def _job_span(recording: Recording, name: str) -> tuple[float | None, float | None]:
    """When it began and ended, in the last session of Ray that knows it; with its Ray, where it ended with that."""
    for end in recording.session_ends:
        last = recording.snapshot_at(end)
        for job in (last.jobs if last else None) or ():
            if name in (job.id, job.job, job.submission):
                return job.started, end if job.ended is None else job.ended
    return None, None


def _writer(file: Path | None, *, who: bool) -> Callable[[Account], str]:
    markdown = who_markdown if who else account_markdown
    kinds: dict[str, Callable[[Account], str]] = {".html": account_html, ".md": markdown, ".json": account_json}
    if file is None:
        return markdown
    if file.suffix.lower() not in kinds:
        raise ValueError(f"{file}: expected a name that ends in .html, .md or .json")
    return kinds[file.suffix.lower()]


def _deliver(config: Config, text: str, file: Path | None) -> int:
    """Print it, or write it; only its owner may read it."""
    if file is None:
        output.say(text)
        return 0
    if config.readonly:
        return print_error(f"report -o: {config.readonly_reason}; without -o the report is printed", NOT_ALL)
    try:
        write_whole(file, text, OWNER_READS)
    except OSError as error:
        return print_error(f"{file}: {explain_os_error(error)}", NOT_ALL)
    output.say(f"Written: {file} (secrets hidden; read it before you send it)", err=True)
    return 0
