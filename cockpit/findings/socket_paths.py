"""Temp dirs that are too long for Ray's sockets: the dashboard can't run, or the next Ray won't start."""

from __future__ import annotations

import os
from collections.abc import Iterator

from cockpit.findings.facts import Facts
from cockpit.findings.sources import rests_on
from cockpit.model import Finding, Host, Session
from cockpit.probe.socket_paths import MAX_PATH_BYTES, PidRange, SocketFault, dashboard_socket, find_fault
from cockpit.text import clean


@rests_on("sessions", "rays")
def long_temp_dirs(facts: Facts) -> Iterator[Finding]:
    """One for each temp dir of a living Ray on a host, of its head's session where the two differ."""
    for host in facts.fresh_hosts:
        found: dict[str, Finding] = {}
        for session in host.sessions or ():
            temp = os.path.dirname(session.path)
            if session.live and temp not in found and (finding := _find(facts, host, session, temp)):
                found[temp] = finding
        yield from found.values()


def _find(facts: Facts, host: Host, session: Session, temp: str) -> Finding | None:
    """A dashboard that listens has its sockets; only the next one may have none."""
    versions = {ray.role: ray.ray for ray in host.rays or () if ray.session == session.name}
    is_head, version = "gcs_server" in versions, versions.get("raylet") or versions.get("gcs_server")
    if version is None:
        return None
    dashboard = dashboard_socket(version) if is_head else None
    digits = len(session.name.rpartition("_")[2])
    now = find_fault(temp, (dashboard,), PidRange(digits, 10**digits)) if session.dashboard is None else None
    if now is not None:
        return _finding(facts, host, session, now, is_now=True)
    later = find_fault(temp, ("plasma_store", dashboard), PidRange(host.pid_digits, host.pid_max))
    return _finding(facts, host, session, later, is_now=False) if later is not None else None


def _finding(facts: Facts, host: Host, session: Session, fault: SocketFault, *, is_now: bool) -> Finding:
    title, size = facts.host_title(host), f"{fault.path_bytes} bytes, at most {MAX_PATH_BYTES} are possible"
    if is_now:
        text = f"The dashboard of Ray on {title} can't run: the path of its socket {fault.socket} has {size}"
    else:
        of = "Ray's dashboard" if fault.is_dashboards else "Ray"
        sure = "will" if fault.certain else "may"
        digits = f"{fault.pid_digits} digit{'s' * (fault.pid_digits > 1)}"
        text = (
            f"{of} on {title} {sure} not start again with its temp dir {clean(fault.temp)} ({len(os.fsencode(fault.temp))} bytes): "
            f"with a pid of {digits} the path of its socket {fault.socket} has {size}"
        )
    return facts.host_finding(
        host,
        "socket-path-long",
        "critical" if is_now else "warning" if fault.certain else "info",
        text,
        (f"{clean(session.path)}/sockets/{fault.socket}", f"cat /proc/sys/kernel/pid_max on {title}: {host.pid_max or 'unknown'}"),
        f"before the next `ray start`: {fault.remedy} (--temp-dir, or RAY_TMPDIR)",
    )
