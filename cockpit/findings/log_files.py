"""Detects sessions with very many log files, all of which Ray's log monitor checks again and again."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.findings.facts import Facts
from cockpit.findings.shell_words import quote_word
from cockpit.findings.sources import rests_on
from cockpit.model import Finding
from cockpit.text import clean

CLEAR_SHARE = 0.9


@rests_on("sessions")
def many_log_files(facts: Facts) -> Iterator[Finding]:
    """One finding for each live session on a host.

    The log monitor lists the folder every half second, and asks for the size of each worker's log ten times a second
    (`update_log_filenames` and `open_closed_files` in ray/_private/log_monitor.py, 2.9 to 2.60). It ignores files that have been removed.
    Everybody may write into a session's folder, so a folder in it can be replaced by a link: the remedy deletes, but moves nothing.
    """
    most = facts.limits.log_files
    for host in facts.fresh_hosts:
        title = facts.host_title(host)
        for session in host.sessions or ():
            subject = f"{session.name} on {title}"
            if not session.live or not facts.is_over_mark(session.log_files, most, CLEAR_SHARE * most, "log-files", subject):
                continue
            logs, files = f"{session.path}/logs", session.log_files or 0
            quoted = quote_word(logs)
            old = "logs of workers that wrote nothing for a day; what such a worker still writes is lost"
            if quoted is not None and session.trusted:
                remedy = f"on {title}: `find {quoted} -maxdepth 1 -type f -name 'worker-*' -mmin +1440 -delete` removes {old}"
            else:
                remedy = f"let the owner of {clean(logs)} on {title} remove {old}"
            text = (
                f"The folder {clean(logs)} on {title} has at least {files:,} files; from {most:,.0f} on Ray's log monitor, "
                "which looks through them all the time, takes up to a core and sends logs late"
            )
            evidence = [f"ls -U {quoted} | wc -l on {title}"] if quoted else []
            evidence.append(f"top -p $(pgrep -f log_monitor.py) on {title}")
            yield facts.host_finding(host, "log-files", "warning", text, evidence, remedy, subject=subject)
