"""Sessions with very many log files, which Ray's log monitor looks through all the time."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from msgspec.structs import replace

from cockpit.findings.facts import Facts
from cockpit.findings.sources import rests_on
from cockpit.model import Finding, Host, Session
from cockpit.text import clean

CLEAR_SHARE = 0.9


@rests_on("sessions")
def many_log_files(facts: Facts) -> Iterator[Finding]:
    """One for each living session on a host.

    The log monitor lists the folder every half a second, and asks for the size of each worker's log in every turn, ten a second
    (`update_log_filenames` and `open_closed_files` in ray/_private/log_monitor.py, 2.9 to 2.60). What lies in `logs/old` it leaves alone:
    there it puts logs of ended workers itself, but only when it has 200 files open (`_close_all_files`). A file that is gone is no error.
    """
    most = facts.limits.log_files
    for host in facts.fresh_hosts:
        for session in host.sessions or ():
            subject = f"{session.name} on {facts.host_title(host)}"
            if session.live and facts.is_over_mark(session.log_files, most, CLEAR_SHARE * most, "log-files", subject):
                yield _finding(facts, host, session, subject)


def _finding(facts: Facts, host: Host, session: Session, subject: str) -> Finding:
    logs, files = f"{session.path}/logs", session.log_files or 0
    title, quoted = facts.host_title(host), clean(shlex.quote(logs))
    finding = facts.host_finding(
        host,
        "log-files",
        "warning",
        f"The folder {clean(logs)} on {title} has at least {files:,} files; from {facts.limits.log_files:,.0f} on Ray's log monitor, "
        "which looks through them all the time, takes up to a core and sends logs late",
        (f"ls -U {quoted} | wc -l on {title}", f"top -p $(pgrep -f log_monitor.py) on {title}"),
        f"on {title}: `find {quoted} -maxdepth 1 -name 'worker-*' -mmin +1440 -exec mv -t {quoted}/old {{}} +` moves logs of workers "
        "that wrote nothing for a day to where Ray itself puts them; a driver sees no more output of such a worker",
    )
    return replace(finding, subject=subject)
