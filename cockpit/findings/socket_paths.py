"""Detects temp dirs that are too long for Ray's sockets: the dashboard can't run, or the next Ray won't start."""

from __future__ import annotations

import os
from collections.abc import Iterator

from cockpit.findings.facts import Facts
from cockpit.findings.sources import rests_on
from cockpit.model import Finding, Level
from cockpit.probe.socket_paths import MAX_PATH_BYTES, PidRange, dashboard_socket, find_fault
from cockpit.text import clean


@rests_on("sessions", "rays")
def long_temp_dirs(facts: Facts) -> Iterator[Finding]:
    """One finding for each temp dir of a live Ray on a host."""
    for host in facts.fresh_hosts:
        title, met = facts.host_title(host), set[str]()
        for session in host.sessions or ():
            temp = os.path.dirname(session.path)
            versions = {ray.role: ray.ray for ray in host.rays or () if ray.session == session.name}
            is_head, version = "gcs_server" in versions, versions.get("raylet") or versions.get("gcs_server")
            if not session.live or temp in met or version is None:
                continue
            dashboard = dashboard_socket(version) if is_head else None
            # A dashboard that listens has its socket: only the next one, with another pid, may fail.
            digits = len(session.name.rpartition("_")[2])
            now = find_fault(temp, (dashboard,), PidRange(digits, 10**digits)) if session.dashboard is None else None
            later = find_fault(temp, ("plasma_store", dashboard), PidRange(host.pid_digits, host.pid_max))
            fault = now or later
            if fault is None:
                continue
            met.add(temp)
            socket = f"the path of its socket {fault.socket} has {fault.path_bytes} bytes, at most {MAX_PATH_BYTES} are possible"
            if now:
                text = f"The dashboard of Ray on {title} can't run: {socket}"
            else:
                which, sure = "Ray's dashboard" if fault.is_dashboards else "Ray", "will" if fault.certain else "may"
                again = f"{which} on {title} {sure} not start again with its temp dir {clean(fault.temp)}"
                length, digits_words = len(os.fsencode(fault.temp)), f"{fault.pid_digits} digit{'s' * (fault.pid_digits > 1)}"
                text = f"{again} ({length} bytes): with a pid of {digits_words} {socket}"
            evidence = (
                f"{clean(session.path)}/sockets/{fault.socket}",
                f"cat /proc/sys/kernel/pid_max on {title}: {host.pid_max or 'unknown'}",
            )
            level: Level = "critical" if now else "warning" if fault.certain else "info"
            remedy = f"before the next `ray start`: {fault.remedy} (--temp-dir, or RAY_TMPDIR)"
            yield facts.host_finding(host, "socket-path-long", level, text, evidence, remedy)
